import { picked } from './answer.js';
import { ask, question } from './ask.js';
import { byId, element } from './dom.js';
import { compare_view } from './compare_view.js';
import { drawn_view } from './drawn_view.js';
import { map_view } from './map_view.js';
import { draw_panels, hide_panels } from './panels.js';
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

let view = null, pictures = [], beside = null;  // of the candidate that is shown, and of the run beside it

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
      ? 'Where the model looked, not why it answered.'
      : `This model has no attention weights to show (${now.run.attention}). Attribution methods below show what moved its output.`));
  view?.begin?.();
};

export const draw_view = (answer, other = null) => {
  const { predictions } = answer;
  now.predictions = predictions;
  now.beside = other?.run ?? null;
  const best = predictions[other ? 0 : picked(predictions)];
  pictures = best ? unpacked(best.pictures) : [];
  beside = other && !other.error ? unpacked(other.predictions[0]?.pictures ?? []) : null;
  redraw();
  draw_panels({ run: now.run, question, cell: () => view?.cell?.() ?? null });
};
// Another of the candidates.
export const draw_candidate = () => draw_view({ predictions: now.predictions });

export const clear_view = () => {
  view = beside = null;
  pictures = [];
  byId('view').replaceChildren();
};
// No answer came, and perhaps only of the settings, or because no token fits behind a text: panels ask by themselves.
export const draw_refused = () => {
  clear_view();
  draw_panels({ run: now.run, question, cell: () => null });
};
// There is no input: nothing is shown, and panels wait.
export const draw_nothing = () => {
  clear_view();
  hide_panels();
  byId('output').replaceChildren(element('p', { class: 'muted' }, now.run.input === 'text'
      ? 'Type something above, or choose a held-out example.' : 'Choose an image above, or drop one.'));
};

export const draw_again = () => view?.draw?.();
export const key_of_view = key => view?.keys?.[key];
