import * as api from './api.js';
import { dark, element, short, visible } from './dom.js';
import { map_of } from './big_map.js';
import { shades } from './matrix.js';
import { unpacked } from './pictures.js';

// The heads of a Transformer, layer by layer: all of them small, one of them large; some switched off,
// and what the model then says.
const kSorts = {
  layer: ['by layer', null], entropy: ['most decided first', h => h.entropy], distance: ['farthest first', h => -h.distance],
  largest: ['largest weight first', h => -h.largest],
};

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
    element('p', {}, other.length ? `Without them it says ${other.length} of ${rows.length} otherwise.` : 'Without them it says the same.'),
    element('div', { class: 'scroll' }, element('table', { class: 'without' },
        element('thead', {}, element('tr', {}, ['output', 'all heads', 'without', 'it says'].map(h => element('th', { scope: 'col' }, h)))),
        element('tbody', {}, rows.map(r => element('tr', { class: r.same ? '' : 'changed' },
            element('th', { scope: 'row', dir: 'auto' }, visible(r.output)), element('td', {}, short(r.before)),
            element('td', {}, short(r.after)), element('td', { dir: 'auto' }, r.same ? 'the same' : visible(r.instead))))))),
  ];
};

export const grid_of = (layers, { onShow = () => {}, sort = 'layer', off = new Set(), pinned = '' } = {}) => {
  const night = dark();
  const cells = layers.flatMap(l => l.heads.map((h, i) => ({ ...h, layer: l.name, head: i + 1, key: `${l.name} ${i + 1}` })));
  const by = kSorts[sort][1];
  const cell = h => element('button', {
    type: 'button', class: 'head', 'data-head': h.key, 'aria-pressed': String(h.key === pinned),
    title: `${h.key}: entropy ${short(h.entropy)}, distance ${short(h.distance)}, largest ${short(h.largest)}`,
    'aria-label': `${h.layer}, head ${h.head}${h.pattern ? ', ' + h.pattern : ''}: entropy ${short(h.entropy)}, distance ${short(h.distance)}` +
        (off.has(h.key) ? ', switched off' : ''),
    onclick: () => onShow(h),
  }, thumb(h.thumb, night), element('span', {}, by ? h.key : `${h.head}`, h.pattern ? element('i', {}, ' ' + h.pattern) : ''));
  const mark = node => { node.classList.toggle('off', off.has(node.dataset.head)); return node; };
  if (by) return element('div', { class: 'heads mixed' }, cells.sort((a, b) => by(a) - by(b)).map(h => mark(cell(h))));
  return element('div', {}, layers.map(l => element('div', { class: 'heads', role: 'group', 'aria-label': l.name },
      element('span', { class: 'layer' }, l.name), cells.filter(h => h.layer === l.name).map(h => mark(cell(h))))));
};

export const heads = ({ run, question }) => {
  if (!run.heads) return null;
  const asked = api.latest(), large_asked = api.latest(), off_asked = api.latest();
  const grid = element('div', { id: 'heads-grid' }), large = element('div', { id: 'head', 'aria-live': 'polite' });
  const result = element('div', { id: 'without', 'aria-live': 'polite' }), pins = element('div', { id: 'pinned', class: 'pair' });
  const off = new Set();
  let layers = [], sort = 'layer', shown = null, picture = null;
  const fail = (place, error) => place.replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
  const draw_grid = () => {
    const focus = document.activeElement?.dataset?.head;
    grid.replaceChildren(grid_of(layers, { sort, off, pinned: shown?.key, onShow: show }));
    if (focus) [...grid.querySelectorAll('.head')].find(h => h.dataset.head === focus)?.focus();
  };

  const show = async head => {
    shown = head;
    draw_grid();
    try {
      const answer = await large_asked(signal => api.post(['runs', run.name, 'explain'],
          { input: question().input, by: ['attention'], layer: head.layer, head: String(head.head) }, signal));
      if (!answer) return;
      picture = map_of(unpacked(answer.pictures[0]), {});
      const switched = element('button', { type: 'button', id: 'switch-off', 'aria-pressed': String(off.has(head.key)), onclick: () => flip(head) }, 'Switched off');
      large.replaceChildren(element('div', { class: 'toolbar' }, element('b', {}, `${head.layer}, head ${head.head}`), switched,
          element('button', { type: 'button', id: 'pin', onclick: pin }, 'Pin')), picture.node);
      picture.draw();
    } catch (error) {
      fail(large, error);
    }
  };

  // Stays while others are looked at.
  const pin = () => {
    const kept = map_of(picture.map, {});
    const node = element('div', { class: 'pin' }, kept.node, element('button', { type: 'button', onclick: () => node.remove() }, 'Unpin'));
    pins.append(node);
    kept.draw();
  };

  const flip = head => {
    if (!off.delete(head.key)) off.add(head.key);
    draw_grid();
    large.querySelector('#switch-off').setAttribute('aria-pressed', String(off.has(head.key)));
    switch_off();
  };

  const switch_off = async () => {
    if (!off.size) return result.replaceChildren();
    try {
      const list = [...off].map(key => ({ layer: key.slice(0, key.lastIndexOf(' ')), head: Number(key.slice(key.lastIndexOf(' ') + 1)) }));
      const answer = await off_asked(signal => api.post(['runs', run.name, 'without'], { input: question().input, off: list }, signal));
      if (answer) result.replaceChildren(...said(answer));
    } catch (error) {
      fail(result, error);
    }
  };

  const load = async () => {
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'heads'], { input: question().input }, signal));
      if (!answer) return;
      ({ layers } = answer);
      draw_grid();
      if (shown) show(shown);
      switch_off();
    } catch (error) {
      fail(grid, error);
    }
  };
  const order = element('select', { 'aria-label': 'Order of heads', id: 'heads-order', onchange: e => { sort = e.target.value; draw_grid(); } },
      Object.entries(kSorts).map(([name, [label]]) => element('option', { value: name }, label)));
  const node = element('details', { id: 'heads' }, element('summary', {}, 'Heads'),
      element('p', { class: 'muted' }, 'Each as dark as its own largest weight. One head is not the model; their mean hides them.'),
      element('div', { class: 'row' }, order), grid, large, result, pins);
  return { node, renew: load };
};
