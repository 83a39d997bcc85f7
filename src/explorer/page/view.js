import * as api from './api.js';
import { ask, question } from './ask.js';
import { byId, element } from './dom.js';
import { inside } from './inside.js';
import { map_view } from './map_view.js';
import { path_view } from './path_view.js';
import { seen_view } from './seen_view.js';
import { now } from './state.js';
import { text_view } from './text_view.js';

// What is shown of an answer: the first of the views that takes it. A view is a function of the best
// prediction and of what it may do, {run, ask, question, redraw}; it gives null, or
//   {nodes,    to be put on the page
//    begin(),  once they are there
//    draw(),   anew: other sizes, other colours
//    cell(),   the row and column that are pointed at, or null
//    keys}     what it does at which key
const views = [seen_view, path_view, map_view, text_view];

// Under the view, for texts: asked when they are opened. A panel is a function of {run, question, cell}
// and gives (a promise of) a <details> with an id, or null.
const panels = [inside];

let view = null, best = null;

const unpacked = prediction => ({
  ...prediction,
  maps: prediction.maps.map(m => ({ ...m, weights: api.unpacked(m.cells) })),
  texts: prediction.texts.map(t => ({ ...t, lines: t.lines.map(l => ({ ...l, weights: api.unpacked(l.cells) })) })),
});

// Kept open from one answer to the next, but asked anew.
const add_panels = async place => {
  const { run } = now, mine = best;
  if (run.input !== 'text') return;
  const open = new Set([...document.querySelectorAll('#panels > details[open]')].map(d => d.id));
  const doings = { run, question, cell: () => view?.cell?.() ?? null };
  try {
    const made = (await Promise.all(panels.map(panel => panel(doings)))).filter(Boolean);
    if (mine !== best) return;
    for (const node of made) node.open = open.has(node.id);
    place.append(...made);
  } catch (error) {
    byId('status').textContent = error.message;
  }
};

const redraw = () => {
  const place = byId('view'), doings = { run: now.run, ask, question, redraw };
  view = null;
  for (const one of best ? views : []) {
    view = one(best, doings);
    if (view) break;
  }
  const panels_place = element('div', { id: 'panels' });
  add_panels(panels_place);
  place.replaceChildren(...view?.nodes.filter(Boolean) ?? [], element('p', { class: 'muted' }, view
      ? 'Where the model looked, not why it answered.' : `This model shows no weights (${now.run.attention}).`), panels_place);
  view?.begin?.();
};

export const draw_view = predictions => {
  now.predictions = predictions;
  best = predictions.length ? unpacked(predictions[0]) : null;
  redraw();
};

export const clear_view = () => {
  view = best = null;
  byId('view').replaceChildren();
};

export const draw_again = () => view?.draw?.();
export const key_of_view = key => view?.keys?.[key];
