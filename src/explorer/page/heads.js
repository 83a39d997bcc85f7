import * as api from './api.js';
import { dark, element, redrawn, short, visible } from './dom.js';
import { map_of } from './big_map.js';
import { shades } from './matrix.js';
import { unpacked } from './pictures.js';
import { problem_of } from './problem.js';
import { keep, listed, state } from './state.js';

// The heads of a Transformer, layer by layer: all of them small, one of them large; some switched off,
// and what the model then says. The one that is large and those that are off are in the address.
const kSorts = {
  layer: ['by layer', null], entropy: ['lowest entropy first', h => h.entropy], distance: ['longest distance first', h => -h.distance],
  largest: ['largest maximum first', h => -h.largest],
};
// A head's key: its layer's name and its number from 1.
const parts_of = key => ({ layer: key.slice(0, key.lastIndexOf(' ')), head: Number(key.slice(key.lastIndexOf(' ') + 1)) });

// A picture of one head, 64 cells a side at most: the largest of what falls into each.
const thumb = ({ rows, columns, bytes }, night) => {
  const shares = Uint8Array.from(atob(bytes), c => c.charCodeAt(0)), table = shades(night, false);
  const canvas = element('canvas', { width: columns, height: rows, class: 'thumb', 'aria-hidden': 'true' });
  const pixels = new ImageData(columns, rows);
  for (let i = 0; i < shares.length; ++i) pixels.data.set(table.subarray(4 * shares[i], 4 * shares[i] + 4), 4 * i);
  canvas.getContext('2d').putImageData(pixels, 0, 0);
  return canvas;
};

const said = ({ rows }) => {
  const other = rows.filter(r => !r.same);
  return [
    element('p', {}, other.length ? `Without them ${other.length} of ${rows.length} outputs are different.` : 'Without them the output is the same.'),
    element('div', { class: 'scroll' }, element('table', { class: 'without' },
        element('thead', {}, element('tr', {}, ['output', 'p, all heads', 'p, without them', 'now says'].map(h => element('th', { scope: 'col' }, h)))),
        element('tbody', {}, rows.map(r => element('tr', { class: r.same ? '' : 'changed' },
            element('th', { scope: 'row', dir: 'auto' }, visible(r.output)), element('td', {}, short(r.before)),
            element('td', {}, short(r.after)), element('td', { dir: 'auto' }, r.same ? 'the same' : visible(r.instead))))))),
  ];
};

export const grid_of = (layers, { onShow = () => {}, sort = 'layer', off = new Set(), pinned = '' } = {}) => {
  const night = dark();
  const cells = layers.flatMap(l => l.heads.map((h, i) => ({ ...h, layer: l.name, title: l.title ?? l.name, head: i + 1, key: `${l.name} ${i + 1}` })));
  const by = kSorts[sort][1];
  const cell = h => element('button', {
    type: 'button', class: 'head', 'data-head': h.key, 'aria-pressed': String(h.key === pinned),
    title: `${h.title}, head ${h.head}: entropy ${short(h.entropy)} of the most there can be, mean distance ${short(h.distance)}, maximum ${short(h.largest)}`,
    'aria-label': `${h.title}, head ${h.head}${h.pattern ? ', ' + h.pattern : ''}: entropy ${short(h.entropy)}, distance ${short(h.distance)}` +
        (off.has(h.key) ? ', switched off' : ''),
    onclick: () => onShow(h),
  }, thumb(h.thumb, night), element('span', {}, by ? `${h.title}, head ${h.head}` : `head ${h.head}`, h.pattern ? element('i', {}, ' ' + h.pattern) : ''));
  const mark = node => { node.classList.toggle('off', off.has(node.dataset.head)); return node; };
  if (by) return element('div', { class: 'heads mixed' }, cells.sort((a, b) => by(a) - by(b)).map(h => mark(cell(h))));
  return element('div', {}, layers.map(l => element('div', { class: 'heads', role: 'group', 'aria-label': l.title ?? l.name },
      element('span', { class: 'layer' }, l.title ?? l.name), cells.filter(h => h.layer === l.name).map(h => mark(cell(h))))));
};

export const heads = ({ run, question }) => {
  if (!run.heads) return null;
  const asked = api.latest(), large_asked = api.latest(), off_asked = api.latest();
  const grid = redrawn(element('div', { id: 'heads-grid' }), () => draw_grid()), large = element('div', { id: 'head', 'aria-live': 'polite' });
  const result = element('div', { id: 'without', 'aria-live': 'polite' }), pins = element('div', { id: 'pinned', class: 'pair' });
  const off = new Set(listed(state.off));
  let layers = [], sort = state.order in kSorts ? state.order : 'layer', shown = state.head ? { key: state.head, ...parts_of(state.head) } : null, picture = null;
  const fail = (place, error, retry) => place.replaceChildren(problem_of(error, { retry }));
  const draw_grid = () => {
    const focus = document.activeElement?.dataset?.head;
    grid.replaceChildren(grid_of(layers, { sort, off, pinned: shown?.key, onShow: show }));
    if (focus) [...grid.querySelectorAll('.head')].find(h => h.dataset.head === focus)?.focus();
  };

  const show = async head => {
    shown = head;
    keep({ head: head.key });
    draw_grid();
    const title = `${layers.find(l => l.name === head.layer)?.title ?? head.layer}, head ${head.head}`;
    try {
      const answer = await large_asked(signal => api.post(['runs', run.name, 'explain'],
          { input: question().input, by: ['attention'], layer: head.layer, head: String(head.head) }, signal));
      if (!answer) return;
      picture = map_of(unpacked(answer.pictures[0]), {});
      const switched = element('button', { type: 'button', id: 'switch-off', onclick: () => flip(head) }, switch_name(head));
      large.replaceChildren(element('div', { class: 'toolbar' }, element('b', {}, title), switched,
          element('button', { type: 'button', id: 'pin', onclick: pin }, 'Pin')), picture.node);
      picture.draw();
    } catch (error) {
      fail(large, error, () => show(head));
    }
  };

  // Stays while others are looked at.
  const pin = () => {
    const kept = map_of(picture.map, {});
    const node = element('div', { class: 'pin' }, kept.node, element('button', { type: 'button', onclick: () => node.remove() }, 'Unpin'));
    pins.append(node);
    kept.draw();
  };

  // What a press does.
  const switch_name = head => off.has(head.key) ? 'Switch this head on' : 'Switch this head off';
  const flip = head => {
    if (!off.delete(head.key)) off.add(head.key);
    keep({ off: [...off].join(',') });
    draw_grid();
    large.querySelector('#switch-off').textContent = switch_name(head);
    switch_off();
  };

  const switch_off = async () => {
    if (!off.size) return result.replaceChildren();
    try {
      const list = [...off].map(parts_of);
      const answer = await off_asked(signal => api.post(['runs', run.name, 'without'], { input: question().input, off: list }, signal));
      if (answer) result.replaceChildren(...said(answer));
    } catch (error) {
      fail(result, error, switch_off);
    }
  };

  const is_there = key => { const { layer, head } = parts_of(key); return head >= 1 && head <= (layers.find(l => l.name === layer)?.heads.length ?? 0); };
  const load = async () => {
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'heads'], { input: question().input }, signal));
      if (!answer) return;
      ({ layers } = answer);
      for (const key of off) if (!is_there(key)) off.delete(key);  // of an address
      if (shown && !is_there(shown.key)) shown = null;
      draw_grid();
      if (shown) show(shown);
      switch_off();
    } catch (error) {
      fail(grid, error, load);
    }
  };
  const order = element('select', { 'aria-label': 'Order of heads', id: 'heads-order', onchange: e => { sort = e.target.value; keep({ order: sort === 'layer' ? '' : sort }); draw_grid(); } },
      Object.entries(kSorts).map(([name, [label]]) => element('option', { value: name, selected: name === sort ? true : undefined }, label)));
  const node = element('details', { id: 'heads' }, element('summary', {}, 'Attention heads'),
      element('p', { class: 'muted' }, 'Every head on this input. Rows are queries, columns are keys; a query of a decoder has the name of the token that is written there. Full colour is the largest weight of each head. Press one to see it large.'),
      element('div', { class: 'row' }, order), grid, large, result, pins);
  return { node, renew: load };
};
