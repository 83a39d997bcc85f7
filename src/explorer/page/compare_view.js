import * as api from './api.js';
import { byId, element, short } from './dom.js';
import { export_buttons } from './exported.js';
import { full_of, largest, Matrix, next_scale, scale_name } from './matrix.js';
import { figure_of } from './pictures.js';
import { shaded, sizes_of } from './shaded.js';
import { keep, now, state } from './state.js';

// Two runs on the same input, by one scale and in step; and what the one weighs more than the other,
// where what they read and wrote is the same. A run without attention shows its Jacobian: then each has its
// own scale, and nothing is subtracted.
const measure = picture => picture.by === 'jacobian' ? 'Jacobian' : 'attention';
const alike = (a, b) => measure(a) === measure(b);
const unlike = (a, b) => element('p', { id: 'difference', class: 'muted' },
    `${now.run.name} shows its ${measure(a)}, ${state.beside} its ${measure(b)}: these are different measures, so nothing is subtracted. ` +
    'The Jacobian says how much an output changes when an input changes a little; a model without attention has one too.');

// The longest common subsequence of two lists of labels: pairs of indices.
export const common = (a, b) => {
  const wide = b.length + 1, best = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; --i) {
    for (let j = b.length - 1; j >= 0; --j) {
      best[i * wide + j] = a[i] === b[j] ? 1 + best[(i + 1) * wide + j + 1]
                                         : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) ++i;
    else ++j;
  }
  return pairs;
};

const difference = (a, b, rows, columns) => {
  const weights = new Float32Array(rows.length * columns.length);
  rows.forEach(([i, k], r) => columns.forEach(([j, l], c) => {
    weights[r * columns.length + c] = a.weights[i * a.columns.length + j] - b.weights[k * b.columns.length + l];
  }));
  return {
    kind: 'heatmap', title: `${now.run.name} minus ${state.beside}`, signed: true, weights, cells: api.packed(weights),
    rows: rows.map(([i]) => a.rows[i]), columns: columns.map(([j]) => a.columns[j]), axes: a.axes,
  };
};

const titled = (map, name) => ({ ...map, title: `${name}: ${measure(map)}` });

const maps_side_by_side = (first, second, redraw) => {
  const a = titled(first, now.run.name), b = titled(second, state.beside);
  const rows = common(a.rows, b.rows), columns = common(a.columns, b.columns);
  const one_scale = alike(a, b), full = Math.max(full_of(a.weights), full_of(b.weights));
  const minus = one_scale && rows.length && columns.length ? difference(a, b, rows, columns) : null;
  // Each map with its place in the pairs above: 0, 1, or -1 for the difference.
  const all = [];
  const place = (pairs, side, x) => side < 0 ? x : pairs.findIndex(p => p[side] === x);
  const back = (pairs, side, x) => side < 0 ? x : pairs[x][side];
  const elsewhere = (from, at) => one => {
    const r = place(rows, from.side, at[0]), c = place(columns, from.side, at[1]);
    return r < 0 || c < 0 ? null : [back(rows, one.side, r), back(columns, one.side, c)];
  };
  let busy = false;  // what the one tells the others is not told back
  const in_step = act => {
    if (busy) return;
    busy = true;
    act();
    busy = false;
  };
  const add = (map, side, options) => {
    const one = { side };
    one.matrix = new Matrix(map, {
      ...options, scale: state.scale,
      onCell: at => in_step(() => {
        for (const other of all) if (other !== one) other.matrix.show(at ? elsewhere(one, at)(other) : null);
      }),
      onHold: row => in_step(() => {
        const r = row < 0 ? -1 : place(rows, side, row);
        for (const other of all) {
          const wanted = r < 0 ? -1 : back(rows, other.side, r);
          if (other !== one && other.matrix.held !== wanted) other.matrix.hold(wanted < 0 ? other.matrix.held : wanted);
        }
        keep({ row: all[0].matrix.held >= 0 ? String(all[0].matrix.held) : '' });
      }),
    });
    all.push(one);
    return one.matrix;
  };
  const most = Math.max(largest(a.weights), largest(b.weights));
  const scaled = map => one_scale ? { full, most } : measure(map) === 'attention' ? {} : { full: largest(map.weights) };
  const left = add(a, 0, scaled(a)), right = add(b, 1, scaled(b));
  const third = minus ? add(minus, -1, {}) : null;
  const rescale = () => {
    keep({ scale: next_scale(state.scale) });
    for (const one of all) one.matrix.set_scale(state.scale);
    byId('scale').textContent = scale_name(state.scale);
  };
  const as_table = () => { keep({ table: state.table ? '' : 'yes' }); redraw(); };
  const draw = () => { for (const one of all) one.matrix.draw(); };
  const missing = [[a.rows.length + b.rows.length - 2 * rows.length, 'tokens written'],
    [a.columns.length + b.columns.length - 2 * columns.length, 'tokens read']].filter(([n]) => n).map(([n, what]) => `${n} ${what}`);
  return {
    nodes: [
      element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' },
          element('button', { type: 'button', id: 'scale', onclick: rescale, title: 'What full colour stands for' }, scale_name(state.scale)),
          element('button', { type: 'button', id: 'as-table', 'aria-pressed': String(!!state.table), onclick: as_table }, 'Table'),
          export_buttons(() => minus ? [a, b, minus] : [a, b])),
      element('div', { class: 'pair' }, left.node, right.node),
      third ? element('div', { id: 'difference' }, third.node, element('p', { class: 'muted' },
          `Orange and +: ${now.run.name} weighs it more. `, missing.length ? `Left out, as only one of the runs has them: ${missing.join(' and ')}. ` : '',
          largest(minus.weights) < 1e-6 ? 'There is no difference.' : ''))
            : !one_scale ? unlike(a, b)
            : element('p', { id: 'difference', class: 'muted' }, 'They have no token in common, so nothing can be subtracted.'),
      state.table && third ? third.table() : null,
    ],
    draw,
    begin: () => {
      draw();
      if (state.row !== '' && Number(state.row) < a.rows.length) left.hold(Number(state.row));
    },
    cell: () => left.at ?? (left.held >= 0 ? [left.held, 0] : null),
    keys: { n: rescale, t: as_table, Escape: () => left.held >= 0 && left.hold(left.held) },
  };
};

const flat = text => text.lines.flatMap((l, i) => l.words.map((w, j) => `${i} ${j} ${w}`)).join('\n');

const texts_side_by_side = (first, second) => {
  const a = { ...first, title: `${now.run.name}: ${first.title}` }, b = { ...second, title: `${state.beside}: ${second.title}` };
  const one = sizes_of(a), other = sizes_of(b), one_scale = alike(a, b);
  const sizes = one_scale ? { word: Math.max(one.word, other.word), line: Math.max(one.line, other.line) } : undefined;
  const minus = !one_scale || flat(a) !== flat(b) ? null : {
    title: `${now.run.name} minus ${state.beside}`,
    lines: a.lines.map((l, i) => ({
      weight: 1, words: l.words,
      weights: Float32Array.from(l.weights, (w, j) => w * l.weight - b.lines[i].weights[j] * b.lines[i].weight),
    })),
  };
  return {
    nodes: [
      element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' }, export_buttons(() => [a, b])),
      element('div', { class: 'pair' }, shaded(a, { sizes }), shaded(b, { sizes })),
      minus ? element('div', { id: 'difference' }, shaded(minus, { signed: true, minus: true }), element('p', { class: 'muted' },
          `Orange and +: ${now.run.name} weighs it more. Full colour is a difference of ${short(sizes_of(minus).word)}.`))
            : !one_scale ? unlike(a, b)
            : element('p', { id: 'difference', class: 'muted' }, 'They split the text into different words, so nothing can be subtracted.'),
    ],
  };
};

// What has no view side by side is shown as it is.
const one_by_one = (a, b) => {
  const parts = [a, b].map(p => p ? figure_of(p) : { node: element('p', { class: 'muted' }, 'This run shows no weights.'), draw: () => {} });
  const shown = [a, b].filter(Boolean), draw = () => { for (const p of parts) p.draw(); };
  return {
    nodes: [element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' }, shown.length ? export_buttons(() => shown) : null),
      element('div', { class: 'pair' }, parts.map((p, i) => element('div', {}, element('h3', { class: `of s${i}` }, i ? state.beside : now.run.name), p.node)))],
    begin: draw, draw,
  };
};

export const compare_view = ([a], [b], { redraw }) => {
  if (a?.kind === 'heatmap' && b?.kind === 'heatmap') return maps_side_by_side(a, b, redraw);
  if (a?.kind === 'shaded_text' && b?.kind === 'shaded_text') return texts_side_by_side(a, b);
  return one_by_one(a, b);
};
