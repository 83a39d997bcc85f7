import { ask, question } from './ask.js';
import { byId, element } from './dom.js';
import { compare_view } from './compare_view.js';
import { drawn_view } from './drawn_view.js';
import { map_view } from './map_view.js';
import { draw_panels } from './panels.js';
import { path_view } from './path_view.js';
import { unpacked } from './pictures.js';
import { seen_view } from './seen_view.js';
import { now } from './state.js';
import { text_view } from './text_view.js';

// What is shown of an answer: its pictures, by the view of their kind. A view is a function of the
// pictures and of what it may do, {run, ask, question, redraw}; it gives
//   {nodes,    to be put on the page
//    begin(),  once they are there
//    draw(),   anew: other sizes, other colours
//    cell(),   the row and column that are pointed at, or null
//    keys}     what it does at which key
const views = { heatmap: map_view, shaded_text: text_view, seen_image: seen_view, scanpath: path_view };

let view = null, pictures = [], beside = null;  // of the best prediction, and of the run beside it

const view_of = doings => {
  if (beside) return compare_view(pictures, beside, doings);
  if (!pictures.length) return null;
  const [{ kind }] = pictures;
  return (views[kind] ?? drawn_view)(pictures.filter(p => p.kind === kind), doings);
};

const redraw = () => {
  const place = byId('view');
  view = view_of({ run: now.run, ask, question, redraw });
  place.replaceChildren(...view?.nodes.filter(Boolean) ?? [], element('p', { class: 'muted' }, view
      ? 'Where the model looked, not why it answered.' : `This model shows no weights (${now.run.attention}).`));
  view?.begin?.();
};

const of_best = predictions => predictions?.length ? unpacked(predictions[0].pictures) : null;

export const draw_view = (predictions, others = null) => {
  now.predictions = predictions;
  pictures = of_best(predictions) ?? [];
  beside = predictions.length ? of_best(others) : null;
  redraw();
  draw_panels({ run: now.run, question, cell: () => view?.cell?.() ?? null });
};

export const clear_view = () => {
  view = beside = null;
  pictures = [];
  byId('view').replaceChildren();
};

export const draw_again = () => view?.draw?.();
export const key_of_view = key => view?.keys?.[key];
