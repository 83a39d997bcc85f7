import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { measuring } from './measuring.js';
import { figure_of, unpacked } from './pictures.js';
import { keep, state } from './state.js';

// What is lost without each head, and what rows of another text carry: a pass for each, so they begin when asked.
// `named(picture)`: by the words of the page, where the command has short ones.
const pictures_in = (answer, part, named = picture => picture) => {
  const pictures = unpacked(answer.pictures), parts = pictures.map(named).map(figure_of);
  requestAnimationFrame(() => parts.forEach(p => p.draw()));
  return [element('div', { class: 'toolbar' }, export_buttons(() => pictures, part)), ...parts.map(p => p.node)];
};
// Of another input, what was measured of the former one is wrong.
const cleared_with = (question, work) => {
  let of = JSON.stringify(question());
  return () => {
    const now = JSON.stringify(question());
    if (now !== of) work.clear();
    of = now;
  };
};
const kShown = 20;
const table_in = ({ header, rows }) => element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': header.join(', ') }, element('table', { class: 'ranked' },
    element('thead', {}, element('tr', {}, header.map(h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, rows.slice(0, kShown).map(r => element('tr', {}, r.map((c, i) => element(i ? 'td' : 'th', i ? {} : { scope: 'row' }, c || '–')))))),
rows.length > kShown ? element('p', { class: 'muted' }, `The first ${kShown} of ${rows.length}.`) : '');
const notes_in = answer => answer.notes.map(n => element('p', { class: 'muted' }, n));

export const ranking = ({ run, question }) => {
  if (!run.ways.includes('heads')) return null;
  const work = measuring({
    id: 'ranking', label: 'Leave out every head, one at a time', parts: ['runs', run.name, 'inside'],
    body: () => ({ ...question(), by: ['heads'] }),
    draw: answer => {
      const titles = new Map(answer.layers.map(l => [l.name, l.title]));
      const named = p => ({ ...p, rows: p.rows.map(r => titles.get(r) ?? r), columns: p.columns.map(c => `head ${c}`) });
      return [...pictures_in(answer, '-heads-left-out', named), ...answer.tables.map(table_in), ...notes_in(answer)];
    },
  });
  const node = element('details', { id: 'ranking' }, element('summary', {}, 'Heads, by what is lost without them'),
      element('p', { class: 'muted' }, 'One pass for each head, without it. Lost: by how much the log probability of the outputs falls, in nats, the mean over the outputs; orange means that they are less likely without the head. A word says where most of a head’s weight goes: to the previous token, its own, the first, an earlier one that is the same (duplicate), what followed that one (induction), or evenly to all (diffuse); – is none of these.'),
      work.node);
  return { node, renew: cleared_with(question, work) };
};

export const patching = ({ run, question }) => {
  if (!run.ways.includes('patching') || run.input !== 'text') return null;
  const own = () => question().input ?? '';
  const other = element('input', {
    type: 'text', id: 'patching-beside', dir: 'auto', autocomplete: 'off', spellcheck: 'false',
    oninput: () => keep({ patch: other.value === own() ? '' : other.value }), onkeydown: e => { if (e.key === 'Enter') work.begin(); },
  });
  const work = measuring({
    id: 'patching', label: 'Take rows from this text', parts: ['runs', run.name, 'inside'],
    body: () => ({ ...question(), by: ['patching'], beside: other.value }),
    draw: answer => [...pictures_in(answer, '-patching'), ...notes_in(answer)],
  });
  const node = element('details', { id: 'patching' }, element('summary', {}, 'Patching: rows of another text'),
      element('p', { class: 'muted' }, 'Change a word below: the other text needs as many tokens as the input. For every block and place, the row that goes into the block there is taken from the other text, and the rest stays. 0: the output is as it was; 1: it is the other text’s. So a cell says where the difference between the two texts is carried.'),
      element('div', { class: 'row other-text' }, element('label', { for: 'patching-beside' }, 'Another text'), other), work.node);
  const clear = cleared_with(question, work);
  const renew = () => {
    other.value = state.patch || own();
    clear();
  };
  return { node, renew };
};
