import * as api from './api.js';
import { byId, element, short } from './dom.js';
import { figure_of, unpacked } from './pictures.js';

// Other ways of asking where it looks, beside each other, and whether they agree; and what the model
// says when its weights are taken in hand.
const asked = api.latest();
let ways = null;

const agreement = ({ header, rows }) => !rows.length ? null : element('div', { class: 'scroll' },
    element('table', { class: 'agreement' },
        element('caption', {}, "Do they agree? Kendall's τ: 1 the same order, 0 none"),
        element('thead', {}, element('tr', {}, header.map(h => element('th', { scope: 'col' }, h)))),
        element('tbody', {}, rows.map(r => element('tr', {}, r.map((c, i) =>
            i ? element('td', {}, c) : element('th', { scope: 'row' }, c)))))));

const draw = (place, answer) => {
  const parts = unpacked(answer.pictures).map(figure_of);
  place.replaceChildren(...[agreement(answer.agreement), ...answer.notes.map(n => element('p', { class: 'muted' }, n)),
    ...parts.map(p => p.node)].filter(Boolean));
  for (const part of parts) part.draw();
};

const held = (place, { rows }) => place.replaceChildren(element('table', { class: 'held' },
    element('caption', {}, 'How likely it finds what it said'),
    element('thead', {}, element('tr', {}, ['output', 'its own weights', 'these', 'still said?'].map(
        h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, rows.map(r => element('tr', { class: r.same ? '' : 'changed' },
        element('th', { scope: 'row', dir: 'auto' }, r.output), element('td', {}, short(r.before)),
        element('td', {}, short(r.after)), element('td', {}, r.same ? 'yes' : 'no'))))));

// `question()` gives {input} or {name, file}; `cell()` the row and column that are pointed at, or null.
export const inside = async ({ run, question, cell }) => {
  ways ??= await api.get('ways');
  const result = element('div', { id: 'explained', 'aria-live': 'polite' });
  const hand = element('div', { id: 'held', 'aria-live': 'polite' });
  const chosen = new Set();
  const which = element('span', { id: 'which-head', hidden: true });
  let layer = '', head = '';
  // Of a model of several layers or heads, which to show; empty: the last layer, the heads' mean.
  const offer = layers => {
    const select = (label, value, names, act) => {
      const made = element('select', { 'aria-label': label, onchange: e => { act(e.target.value); ask(); } },
          element('option', { value: '' }, label === 'Layer' ? 'layer: the one to show' : 'heads: their mean'),
          names.map(n => element('option', { value: n }, `${label.toLowerCase()} ${n}`)));
      made.value = value;
      return made;
    };
    const heads = layers.find(l => l.name === layer)?.heads ?? layers[0]?.heads ?? 1;
    which.hidden = !chosen.has('attention') || (layers.length < 2 && heads < 2);
    which.replaceChildren(select('Layer', layer, layers.map(l => l.name), v => { layer = v; head = ''; }),
        select('Head', head, Array.from({ length: heads }, (_, i) => String(i + 1)), v => { head = v; }));
  };
  const fail = (place, error) => place.replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
  const ask = async () => {
    if (!chosen.size) return result.replaceChildren();
    result.setAttribute('aria-busy', 'true');
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'explain'], { ...question(), by: [...chosen], layer, head }, signal));
      if (!answer) return;
      offer(answer.layers);
      draw(result, answer);
    } catch (error) {
      fail(result, error);
    } finally {
      result.removeAttribute('aria-busy');
    }
  };
  const take = async weights => {
    const at = cell();
    if (weights === 'given' && !at) return fail(hand, new Error('Point at a cell of the map first; of a picture, hold a word and click a place.'));
    try {
      held(hand, await api.post(['runs', run.name, 'hold'], { ...question(), weights, ...(at && { row: at[0], column: at[1] }) }));
    } catch (error) {
      fail(hand, error);
    }
  };
  const box = w => element('label', { title: w.about }, element('input', {
    type: 'checkbox', value: w.name, onchange: e => {
      if (e.target.checked) chosen.add(w.name); else chosen.delete(w.name);
      ask();
    },
  }), ' ' + w.name);
  const node = element('details', { id: 'inside' }, element('summary', {}, 'Look inside'),
      element('fieldset', { class: 'ways' }, element('legend', {}, 'Where it looks, by'), ways.map(box), which),
      result,
      element('fieldset', {}, element('legend', {}, 'Take the weights in hand'),
          [['uniform', 'all the same'], ['permuted', 'in another order'], ['given', 'all on the cell pointed at']].map(
              ([name, label]) => element('button', { type: 'button', 'data-weights': name, onclick: () => take(name) }, label))),
      hand);
  return { node, renew: () => { hand.replaceChildren(); ask(); } };
};
