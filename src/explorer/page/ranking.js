import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { measuring } from './measuring.js';
import { figure_of, unpacked } from './pictures.js';

// What is lost without each head, and what rows of another text carry: a pass for each, so they begin when asked.
export const pictures_in = answer => {
  const pictures = unpacked(answer.pictures), parts = pictures.map(figure_of);
  requestAnimationFrame(() => parts.forEach(p => p.draw()));
  return [export_buttons(() => pictures), ...parts.map(p => p.node)];
};
const kShown = 20;
export const table_in = ({ header, rows }) => element('div', { class: 'scroll' }, element('table', { class: 'ranked' },
    element('thead', {}, element('tr', {}, header.map(h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, rows.slice(0, kShown).map(r => element('tr', {}, r.map((c, i) => element(i ? 'td' : 'th', i ? {} : { scope: 'row' }, c)))))),
rows.length > kShown ? element('p', { class: 'muted' }, `The first ${kShown} of ${rows.length}.`) : '');
const notes_in = answer => answer.notes.map(n => element('p', { class: 'muted' }, n));

export const ranking = ({ run, question }) => {
  if (!run.ways.includes('heads')) return null;
  const work = measuring({
    id: 'ranking', label: 'Leave out every head, one at a time', parts: ['runs', run.name, 'inside'],
    body: () => ({ ...question(), by: ['heads'] }),
    draw: answer => [...pictures_in(answer), ...answer.tables.map(table_in), ...notes_in(answer)],
  });
  const node = element('details', { id: 'ranking' }, element('summary', {}, 'Heads, by what is lost without them'),
      element('p', { class: 'muted' }, 'One pass for each head. Orange: the output is less likely without it. The word says what a head does: it looks at the previous token, its own, the first, an earlier one that is the same (duplicate), or what followed that one (induction).'),
      work.node);
  return { node };
};

export const patching = ({ run, question }) => {
  if (!run.ways.includes('patching') || run.input !== 'text') return null;
  const other = element('input', { type: 'text', id: 'patching-beside', size: 48, dir: 'auto', 'aria-label': 'Another text' });
  const work = measuring({
    id: 'patching', label: 'Take rows from this text', parts: ['runs', run.name, 'inside'],
    body: () => ({ ...question(), by: ['patching'], beside: other.value }),
    draw: answer => [...pictures_in(answer), ...notes_in(answer)],
  });
  const node = element('details', { id: 'patching' }, element('summary', {}, 'Patching: rows of another text'),
      element('p', { class: 'muted' }, 'A row that goes into a block is taken from another text of as many tokens: 0 leaves the output as it was, 1 makes it the other text’s.'),
      element('div', { class: 'row' }, element('label', { for: 'patching-beside' }, 'Another text'), other), work.node);
  return { node };
};
