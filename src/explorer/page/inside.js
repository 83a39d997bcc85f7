import * as api from './api.js';
import { contrast } from './contrast.js';
import { element, short, visible } from './dom.js';
import { largest } from './matrix.js';
import { figure_of, unpacked } from './pictures.js';
import { problem_of } from './problem.js';
import { keep, listed, state } from './state.js';

// What moved the output, by several methods side by side, and whether they agree; and what the model says
// when its attention is replaced. What is chosen is in the address.
const asked = api.latest();
let ways = null;

const kTau = "Do they agree? Kendall's τ compares the order of the inputs: 1 is the same, 0 nothing in common, −1 the reverse. ";
const titled = name => ways.find(w => w.name === name)?.title ?? name;
const agreement = ({ header, rows }, kind) => !rows.length ? null : element('div', { class: 'scroll' },
    element('table', { class: `agreement ${kind}` },
        element('caption', {}, kind === 'sizes' ? kTau + 'By the size of the values: which inputs matter.'
            : 'The same by the values with their signs: which inputs speak for the output, and which against it.'),
        element('thead', {}, element('tr', {}, header.map(h => element('th', { scope: 'col' }, titled(h))))),
        element('tbody', {}, rows.map(r => element('tr', {}, r.map((c, i) =>
            i ? element('td', {}, c) : element('th', { scope: 'row' }, titled(c))))))));

// Weights of attention go from 0 to 1; all else goes up to its largest.
const scaled = picture => picture.kind !== 'heatmap' || /rollout|attention/i.test(picture.title) ? picture : { ...picture, full: largest(picture.weights) };
const draw = (place, answer) => {
  const parts = unpacked(answer.pictures).map(scaled).map(figure_of);
  place.replaceChildren(...[element('div', { class: parts.length > 1 ? 'pair' : '' }, parts.map(p => p.node)),
    agreement(answer.agreement, 'sizes'), agreement(answer.agreement_signed, 'values'),
    ...answer.notes.map(n => element('p', { class: 'muted' }, n))].filter(Boolean));
  for (const part of parts) part.draw();
};

const held = (place, { rows }) => place.replaceChildren(element('table', { class: 'held' },
    element('caption', {}, 'The probability of what it said, with its own weights and with these'),
    element('thead', {}, element('tr', {}, ['output', 'own weights', 'these weights', 'still its answer?'].map(
        h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, rows.map(r => element('tr', { class: r.same ? '' : 'changed' },
        element('th', { scope: 'row', dir: 'auto' }, visible(r.output)), element('td', {}, short(r.before)),
        element('td', {}, short(r.after)), element('td', {}, r.same ? 'yes' : 'no'))))));

// `question()` gives {input} or {name, file}; `cell()` the row and column that are pointed at, or null.
export const inside = async ({ run, question, cell }) => {
  if (!run.ways.length) return null;
  ways ??= await api.get('ways');
  const able = ways.filter(w => w.inputs && run.ways.includes(w.name));
  const result = element('div', { id: 'explained', 'aria-live': 'polite' });
  const hand = element('div', { id: 'held', 'aria-live': 'polite' });
  const chosen = new Set(listed(state.ways).filter(name => able.some(w => w.name === name)));
  const which = element('span', { id: 'which-head', hidden: true });
  const remember = () => keep({ ways: [...chosen].join(',') });
  // What the methods that are chosen compute, in a line each.
  const abouts = element('dl', { class: 'abouts' });
  const tell_abouts = () => abouts.replaceChildren(...able.filter(w => chosen.has(w.name)).map(
      w => element('div', {}, element('dt', {}, w.title), element('dd', {}, w.about))));
  // Of a model of several layers or heads, which to show; empty: the last layer, the heads' mean.
  const offer = layers => {
    const { layer, of: head } = state;
    const select = (label, value, options, act) => {
      const made = element('select', { 'aria-label': label, onchange: e => { act(e.target.value); ask(); } },
          options.map(([v, text]) => element('option', { value: v }, text)));
      made.value = value;
      return made;
    };
    const heads = layers.find(l => l.name === layer)?.heads ?? layers.at(-1)?.heads ?? 1;
    which.hidden = !chosen.has('attention') || (layers.length < 2 && heads < 2);
    which.replaceChildren(
        select('Layer', layer, [['', 'layer: the last that looks at the input'], ...layers.map(l => [l.name, l.title])], v => keep({ layer: v, of: '' })),
        select('Head', head, [['', 'heads: their mean'], ...Array.from({ length: heads }, (_, i) => [String(i + 1), `head ${i + 1}`])], v => keep({ of: v })));
  };
  const why = contrast(() => ask());
  const fail = (place, error, retry = null) => place.replaceChildren(problem_of(error, { retry }));
  const ask = async () => {
    if (!chosen.size) return result.replaceChildren();
    result.setAttribute('aria-busy', 'true');
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'explain'], { ...question(), by: [...chosen], layer: state.layer, head: state.of, ...why.asked() }, signal));
      if (!answer) return;
      offer(answer.layers);
      draw(result, answer);
    } catch (error) {
      fail(result, error, ask);
    } finally {
      result.removeAttribute('aria-busy');
    }
  };
  const take = async weights => {
    const at = cell();
    if (weights === 'given' && !at) return fail(hand, new Error('Point at a cell of the map first. Of a picture, hold a word and click a place.'));
    try {
      held(hand, await api.post(['runs', run.name, 'hold'], { ...question(), weights, ...(at && { row: at[0], column: at[1] }) }));
    } catch (error) {
      fail(hand, error);
    }
  };
  const box = w => element('label', { title: w.about }, element('input', {
    type: 'checkbox', value: w.name, checked: chosen.has(w.name) ? true : undefined, onchange: e => {
      if (e.target.checked) chosen.add(w.name); else chosen.delete(w.name);
      remember();
      tell_abouts();
      ask();
    },
  }), ' ' + w.title);
  tell_abouts();
  const intervene = run.look ? [element('fieldset', {}, element('legend', {}, 'Intervene on attention'),
      element('p', { class: 'muted' }, 'Replace the weights and see how likely the model still finds its own answer.'),
      [['uniform', 'Uniform: all weights the same'], ['permuted', 'Permuted: in another order'], ['given', 'All weight on the cell pointed at']].map(
          ([name, label]) => element('button', { type: 'button', 'data-weights': name, onclick: () => take(name) }, label))),
    hand] : [];
  const node = element('details', { id: 'inside' }, element('summary', {}, 'Attribution methods'),
      element('p', { class: 'muted' }, 'Which inputs moved the output, by one method or several side by side.'),
      element('fieldset', { class: 'ways' }, element('legend', {}, 'Methods'), able.map(box), which, why.node),
      abouts, result, intervene);
  return { node, renew: () => { hand.replaceChildren(); ask(); } };
};
