import * as api from './api.js';
import { ask, question } from './ask.js';
import { byId, element } from './dom.js';
import { compare_view } from './compare_view.js';
import { map_view } from './map_view.js';
import { draw_panels } from './panels.js';
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
const views = [compare_view, seen_view, path_view, map_view, text_view];

let view = null, best = null;  // with what the run beside it said, if there is one

const unpacked = prediction => ({
  ...prediction,
  maps: prediction.maps.map(m => ({ ...m, weights: api.unpacked(m.cells) })),
  texts: prediction.texts.map(t => ({ ...t, lines: t.lines.map(l => ({ ...l, weights: api.unpacked(l.cells) })) })),
});

const redraw = () => {
  const place = byId('view'), doings = { run: now.run, ask, question, redraw };
  view = null;
  for (const one of best ? views : []) {
    view = one(best, doings);
    if (view) break;
  }
  place.replaceChildren(...view?.nodes.filter(Boolean) ?? [], element('p', { class: 'muted' }, view
      ? 'Where the model looked, not why it answered.' : `This model shows no weights (${now.run.attention}).`));
  view?.begin?.();
};

export const draw_view = (predictions, beside = null) => {
  now.predictions = predictions;
  best = predictions.length ? unpacked(predictions[0]) : null;
  if (best && beside?.length) best.beside = unpacked(beside[0]);
  redraw();
  draw_panels({ run: now.run, question, cell: () => view?.cell?.() ?? null });
};

export const clear_view = () => {
  view = best = null;
  byId('view').replaceChildren();
};

export const draw_again = () => view?.draw?.();
export const key_of_view = key => view?.keys?.[key];
