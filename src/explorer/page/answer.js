import { byId, element, short } from './dom.js';
import { now, state } from './state.js';

// What a model said, likeliest first.
let of_whole = null;  // before lines were left out

const share = p => {
  const bar = element('span', { class: 'meter', 'aria-hidden': 'true' }, element('i'));
  bar.firstChild.style.setProperty('--w', Math.min(Math.max(p, 0), 1));
  return bar;
};
const score = p => Number.isFinite(p?.score) ? short(p.score) : '';

export const predictions_list = (predictions, scored) =>
    element('ol', { class: scored ? 'predictions classes' : 'predictions' }, predictions.map(p => element('li', { dir: 'auto' },
        element('span', { class: 'said' }, p.text || '(nothing)'), p.ended ? '' : ' …',
        element('span', { class: 'score' }, score(p)), scored ? share(p.score) : null)));

const named = (name, predictions, scored, i) => element('div', {}, element('h3', { class: `of s${i}` }, name), predictions_list(predictions, scored));

export const draw_answer = ({ predictions, seconds }, beside = null) => {
  const { run, dropped } = now;
  const expected = now.upload ? undefined : run.examples.find(e => e.input === state.input)?.expected;
  if (!dropped.size) of_whole = predictions;
  byId('output').replaceChildren(beside
      ? element('div', { class: 'pair' }, named(run.name, predictions, run.scored, 0), named(state.beside, beside.predictions, run.scored, 1))
      : predictions_list(predictions, run.scored),
      element('p', { class: 'muted' },
          expected !== undefined && !dropped.size ? (expected === predictions[0]?.text ? 'as expected' : `expected ${expected}`) + ' · ' : '',
          dropped.size ? `${dropped.size} left out; of the whole it said ${of_whole?.[0]?.text} ${score(of_whole?.[0])} · ` : '',
          `${short(1000 * seconds)} ms`));
};
