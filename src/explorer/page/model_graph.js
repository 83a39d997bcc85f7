import * as api from './api.js';
import { byId, element, short } from './dom.js';
import { Matrix } from './matrix.js';
import { unpacked } from './pictures.js';
import { problem_of } from './problem.js';
import { keep, state } from './state.js';

// What the model is made of: its parts with the shapes and sizes of their weights, and lines from what is
// read to who reads it. A part opens its weights; where it looks, its heads or its attention. What is opened is in
// the address.
const count = n => n >= 1e6 ? `${(n / 1e6).toFixed(2)} M` : n >= 1e4 ? `${(n / 1e3).toFixed(0)} k` : String(n);
const shape = s => `[${s.join(' × ')}]`;

// A part stands below all that it reads.
export const depths_of = parts => {
  const by_name = new Map(parts.map(p => [p.name, p])), depths = new Map();
  const depth = (p, seen) => {
    if (depths.has(p.name)) return depths.get(p.name);
    if (seen.has(p.name)) return 0;
    seen.add(p.name);
    const below = p.reads.map(r => by_name.get(r)).filter(Boolean).map(r => depth(r, seen));
    const d = below.length ? 1 + Math.max(...below) : 0;
    depths.set(p.name, d);
    return d;
  };
  for (const p of parts) depth(p, new Set());
  // What reads nothing stands right above the first that reads it.
  for (const p of parts.filter(q => !q.reads.length)) {
    const readers = parts.filter(q => q.reads.includes(p.name)).map(q => depths.get(q.name));
    if (readers.length) depths.set(p.name, Math.min(...readers) - 1);
  }
  return depths;
};

const heads_of = async layer => {
  const panel = byId('heads');
  if (!panel) return false;
  panel.open = true;
  for (let tries = 0; tries < 100; ++tries) {
    const head = [...panel.querySelectorAll('.head')].find(h => h.dataset.head === `${layer} 1`);
    if (head) {
      head.click();
      head.scrollIntoView({ block: 'center' });
      head.focus({ preventScroll: true });
      return true;
    }
    await new Promise(done => setTimeout(done, 100));
  }
  return false;
};
const attention = () => {
  byId('view').scrollIntoView({ block: 'start' });
  byId('view').focus({ preventScroll: true });
};

export const model_graph = ({ run }) => {
  if (!run.usable) return null;
  const graph = element('div', { class: 'graph' }), opened = element('div', { id: 'part', 'aria-live': 'polite' });
  const weights = element('div', { id: 'weights', 'aria-live': 'polite' });
  const asked = api.latest();
  let parts = null, chosen = '';

  const show_weights = async tensor => {
    keep({ weights: tensor });
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'tensor'], { name: tensor }, signal));
      if (!answer) return;
      const matrix = new Matrix(unpacked(answer.picture), {});
      const cut = answer.rows > matrix.map.rows.length || answer.columns > matrix.map.columns.length;
      weights.replaceChildren(element('p', {}, `${tensor}: ${answer.rows} × ${answer.columns}; mean ${short(answer.mean)}, ` +
          `standard deviation ${short(answer.deviation)}, from ${short(answer.least)} to ${short(answer.largest)}, norm ${short(answer.norm)}.` +
          (cut ? ' Each cell shows the number of its part that is largest in size.' : '')), matrix.node);
      matrix.draw();
    } catch (error) {
      weights.replaceChildren(problem_of(error, { retry: () => show_weights(tensor) }));
    }
  };

  const show = part => {
    chosen = part.name;
    keep({ part: chosen, weights: '' });
    for (const node of graph.querySelectorAll('.part')) node.setAttribute('aria-pressed', String(node.dataset.part === chosen));
    weights.replaceChildren();
    const look = layer => layer === 'look' ? element('button', { type: 'button', class: 'open-look', onclick: attention }, 'Where it looks')
        : element('button', { type: 'button', class: 'open-look', 'data-layer': layer, onclick: () => heads_of(layer) }, `Heads of ${layer}`);
    opened.replaceChildren(element('h3', {}, `${part.title} (${part.name})`), element('p', { class: 'muted' }, part.about),
        part.looks.length ? element('div', { class: 'row' }, part.looks.map(look)) : '',
        part.tensors.length ? element('div', { class: 'scroll' }, element('table', { class: 'tensors' },
            element('thead', {}, element('tr', {}, ['weights', 'shape', 'numbers', ''].map(h => element('th', { scope: 'col' }, h)))),
            element('tbody', {}, part.tensors.map(t => element('tr', {}, element('th', { scope: 'row' }, t.name), element('td', {}, shape(t.shape)),
                element('td', {}, count(t.numbers)), element('td', {}, element('button', { type: 'button', 'data-tensor': t.name, onclick: () => show_weights(t.name) }, 'Open'))))))) : 'It has no weights of its own.');
  };

  const lines = element('svg', { class: 'edges', 'aria-hidden': 'true' });
  const draw_lines = () => {
    const box = graph.getBoundingClientRect();
    if (!box.width) return;
    const at = new Map([...graph.querySelectorAll('.part')].map(n => [n.dataset.part, n.getBoundingClientRect()]));
    lines.setAttribute('viewBox', `0 0 ${box.width} ${box.height}`);
    lines.setAttribute('width', box.width);
    lines.setAttribute('height', box.height);
    lines.replaceChildren(...parts.flatMap(p => p.reads.filter(r => at.has(r)).map(r => {
      const from = at.get(r), to = at.get(p.name);
      const x0 = from.left + from.width / 2 - box.left, y0 = from.bottom - box.top, x1 = to.left + to.width / 2 - box.left, y1 = to.top - box.top;
      const bend = Math.max(10, (y1 - y0) / 2);
      return element('path', { class: chosen === p.name || chosen === r ? 'edge on' : 'edge', d: `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}` });
    })));
  };
  const draw = () => {
    const depths = depths_of(parts), levels = [];
    for (const p of parts) (levels[depths.get(p.name)] ??= []).push(p);
    graph.replaceChildren(lines, ...levels.map(level => element('div', { class: 'level' }, (level ?? []).map(p => {
      const largest = p.tensors.reduce((b, t) => !b || t.numbers > b.numbers ? t : b, null);
      return element('button', {
        type: 'button', class: p.looks.length ? 'part looks' : 'part', 'data-part': p.name, 'aria-pressed': String(p.name === chosen), title: p.about,
        onclick: () => { show(p); draw_lines(); },
      }, element('b', {}, p.title), element('span', {}, largest ? `${shape(largest.shape)} · ${count(p.numbers)}` : 'no weights'));
    }))));
    draw_lines();
  };
  const load = async () => {
    if (parts) return draw();
    try {
      const answer = await api.get('runs', run.name, 'model');
      parts = answer.parts;
      total.textContent = `${answer.model}: ${count(answer.numbers)} weights. What is read stands above, what is written below. A part opens its weights; orange ones look.`;
      const part = parts.find(p => p.name === state.part), tensor = part?.tensors.find(t => t.name === state.weights);
      if (part) show(part);
      if (tensor) show_weights(tensor.name);
      draw();
    } catch (error) {
      opened.replaceChildren(problem_of(error, { retry: load }));
    }
  };
  const total = element('p', { class: 'muted' });
  const node = element('details', { id: 'model' }, element('summary', {}, 'The model'), total, graph, opened, weights);
  new ResizeObserver(() => { if (parts && node.open) draw_lines(); }).observe(graph);
  return { node, renew: load };
};
