import { give } from './ask.js';
import { byId, redraw_within } from './dom.js';
import { edit_word } from './edit_word.js';
import { faithful } from './faithful.js';
import { heads } from './heads.js';
import { inside } from './inside.js';
import { lens } from './lens.js';
import { lines } from './lines.js';
import { model_graph } from './model_graph.js';
import { rank } from './rank.js';
import { patching, ranking } from './ranking.js';
import { keep, listed, state } from './state.js';
import { data_table } from './table.js';

const show = input => {
  give(input);
  byId('input').scrollIntoView({ block: 'center' });
};

// What can be opened under the view. A panel is a function of {run, question, cell}; it gives (a promise
// of) null where the run has no answer, or {node, renew}: a <details> that stays as long as the run does,
// and what is to be done when the input is another and it is open. Which are open is in the address.
const panels = [inside, lens, heads, ranking, patching, lines, faithful, rank, edit_word(give), data_table(show), model_graph];

let of = '', made = [], stale = new Set();

const renew = panel => {
  if (!panel.node.open || !stale.delete(panel)) return;
  panel.renew?.();
};

export const clear_panels = () => {
  of = '';
  made = [];
  byId('panels').replaceChildren();
};
// Other colours, another size.
export const draw_panels_again = () => made.filter(p => p.node.open).forEach(p => redraw_within(p.node));
export const hide_panels = () => { byId('panels').hidden = true; };

const remember = () => keep({ open: made.filter(p => p.node.open).map(p => p.node.id).join(',') });

export const draw_panels = async doings => {
  const { run } = doings, open = listed(state.open);
  byId('panels').hidden = false;
  if (of !== run.name) {
    clear_panels();
    of = run.name;
    try {
      const all = (await Promise.all(panels.map(panel => panel(doings)))).filter(Boolean);
      if (of !== run.name) return;
      made = all;
      for (const panel of made) {
        panel.node.open = open.includes(panel.node.id);
        panel.node.addEventListener('toggle', () => { remember(); if (panel.node.open) { redraw_within(panel.node); renew(panel); } });
      }
      byId('panels').replaceChildren(...made.map(p => p.node));
    } catch (error) {
      byId('status').textContent = error.message;
    }
  }
  stale = new Set(made);
  made.forEach(renew);
};
