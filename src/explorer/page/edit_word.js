import * as api from './api.js';
import { predictions_list } from './answer.js';
import { element, visible } from './dom.js';
import { now, state } from './state.js';

// One word of the input changed, and both answers side by side.
const asked = api.latest();
const kTyping = 200, kMostWords = 300;

export const edit_word = give => ({ run }) => {
  if (run.input !== 'text' || !run.usable) return null;
  const words = element('div', { class: 'words edit-words', role: 'group', 'aria-label': 'Words of the input' });
  const result = element('div', { id: 'both', class: 'pair', 'aria-live': 'polite' });
  const tools = element('div', { class: 'row' });
  let parts = [], at = -1, instead = '', waiting = 0;
  const text = () => parts.map((p, i) => i === at ? instead : p).join('');
  const both = async () => {
    if (at < 0) return result.replaceChildren();
    const changed = text();
    const of = (input, signal) => api.post(['runs', run.name, 'predict'], { input, settings: now.settings }, signal);
    result.setAttribute('aria-busy', 'true');
    try {
      const answers = await asked(signal => Promise.all([of(state.input, signal), of(changed, signal)]));
      if (!answers) return;
      const side = (title, i) => element('div', {}, element('h3', { class: `of s${i}` }, title), predictions_list(answers[i].predictions, run.scored));
      result.replaceChildren(side(`as it was: ${parts[at]}`, 0), side(`with ${instead || '(nothing)'}`, 1));
    } catch (error) {
      result.replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
    } finally {
      result.removeAttribute('aria-busy');
    }
  };
  const choose = i => {
    at = i;
    instead = parts[i];
    draw();
    const field = words.querySelector('input');
    field.focus();
    field.select();
    both();
  };
  const draw = () => {
    words.replaceChildren(...parts.map((p, i) => /^\s*$/.test(p) ? ' ' : i === at ? element('input', {
      value: instead, 'aria-label': `Instead of ${p}`, size: Math.max(3, instead.length + 1), dir: 'auto',
      oninput: e => {
        instead = e.target.value;
        e.target.size = Math.max(3, instead.length + 1);
        clearTimeout(waiting);
        waiting = setTimeout(both, kTyping);
      },
    }) : element('button', { type: 'button', class: 'word', dir: 'auto', onclick: () => choose(i) }, visible(p))));
    tools.replaceChildren(...at < 0 ? [] : [
      element('button', { type: 'button', id: 'take-edited', onclick: () => give(text()) }, 'Take it as the input'),
      element('button', { type: 'button', onclick: () => renew() }, 'As it was')]);
  };
  // Words with what stands between them.
  const renew = () => {
    parts = state.input.split(/(\s+)/).filter(p => p !== '').slice(0, 2 * kMostWords);
    if (state.input.length > parts.join('').length) parts.push(state.input.slice(parts.join('').length));
    at = -1;
    draw();
    result.replaceChildren();
  };
  const node = element('details', { id: 'edit-word' }, element('summary', {}, 'Change one word'),
      element('p', { class: 'muted' }, 'Choose a word, type another: both answers stand side by side.'), words, tools, result);
  return { node, renew };
};
