import { byId } from './dom.js';
import { faithful } from './faithful.js';
import { heads } from './heads.js';
import { inside } from './inside.js';
import { rank } from './rank.js';

// What can be opened under the view. A panel is a function of {run, question, cell}; it gives (a promise
// of) null, or {node, renew}: a <details> that stays as long as the run does, and what is to be done
// when the input is another and it is open.
const panels = [inside, heads, faithful, rank];
const panels_of = run => run.input === 'text' ? panels : run.inside ? [inside] : [];

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

export const draw_panels = async doings => {
  const { run } = doings;
  if (of !== run.name) {
    clear_panels();
    of = run.name;
    try {
      const all = (await Promise.all(panels_of(run).map(panel => panel(doings)))).filter(Boolean);
      if (of !== run.name) return;
      made = all;
      for (const panel of made) panel.node.addEventListener('toggle', () => renew(panel));
      byId('panels').replaceChildren(...made.map(p => p.node));
    } catch (error) {
      byId('status').textContent = error.message;
    }
  }
  stale = new Set(made);
  made.forEach(renew);
};
