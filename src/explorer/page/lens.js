import * as api from './api.js';
import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { figure_of, unpacked } from './pictures.js';
import { problem_of } from './problem.js';
import { keep, state } from './state.js';

// What each block would say already, at a few places of the text at a time.
const kPlaces = 12;

export const lens = ({ run, question }) => {
  if (!run.ways.includes('lens')) return null;
  const asked = api.latest();
  const result = element('div', { id: 'lens-result', 'aria-live': 'polite' });
  const places = element('span', { class: 'places' }), bar = element('div', { class: 'toolbar' });
  let outputs = 0;
  const from = () => state.lens === '' ? Math.max(0, outputs - kPlaces) : Math.min(Math.max(Number(state.lens), 0), Math.max(outputs - 1, 0));
  const go = to => { keep({ lens: String(Math.max(0, Math.min(to, outputs - 1))) }); load(); };
  const draw_places = () => {
    if (outputs <= kPlaces) return places.replaceChildren();
    const last = Math.min(from() + kPlaces, outputs);
    places.replaceChildren(
        element('button', { type: 'button', id: 'lens-before', disabled: from() === 0 ? true : undefined, onclick: () => go(from() - kPlaces) }, '← earlier'),
        element('span', {}, `places ${from() + 1} to ${last} of ${outputs}`),
        element('button', { type: 'button', id: 'lens-after', disabled: last === outputs ? true : undefined, onclick: () => go(from() + kPlaces) }, 'later →'));
  };
  const load = async () => {
    result.setAttribute('aria-busy', 'true');
    try {
      const chosen = state.lens === '' ? {} : { from: Number(state.lens) || 0, count: kPlaces };
      const answer = await asked(signal => api.post(['runs', run.name, 'explain'], { ...question(), by: ['lens'], ...chosen }, signal));
      if (!answer) return;
      ({ outputs } = answer);
      const pictures = unpacked(answer.pictures), parts = pictures.map(figure_of);
      bar.replaceChildren(places, export_buttons(() => pictures, '-lens'));
      result.replaceChildren(...parts.map(p => p.node));
      for (const part of parts) part.draw();
      draw_places();
    } catch (error) {
      bar.replaceChildren();
      result.replaceChildren(problem_of(error, { retry: load }));
    } finally {
      result.removeAttribute('aria-busy');
    }
  };
  const node = element('details', { id: 'lens' }, element('summary', {}, 'Logit lens: what each block would say'),
      element('p', { class: 'muted' }, 'The last norm and the output layer, applied to what each block gives. A column is a place of the text, named by the token that was read there, or by the output. A cell says the token that the block would put next; its colour says how likely the last block’s answer is already. Point at a cell, press it or go there by the arrows for the next likeliest tokens.'),
      bar, result);
  return { node, renew: load };
};
