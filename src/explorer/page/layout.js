import { element, short } from './dom.js';

// The text that was read as it was written, its own lines and blanks, beside its map: shaded by the row that
// is pointed at or held.
const written = token => token.replaceAll('␣', ' ').replaceAll('▁', ' ').replaceAll('⏎', '⏎\n').replaceAll('↵', '↵\n');
const spaced = tokens => tokens.some(t => /[ ␣▁]/u.test(t));  // tokens that bring their own blanks

export class Layout {
  constructor(map) {
    this.map = map;
    const apart = !spaced(map.columns);
    const between = (t, next) => apart && next !== undefined && !/\n$/.test(written(t)) && !/^[.,!?;:)\]}%]$/.test(next) ? ' ' : '';
    this.tokens = map.columns.map(c => element('mark', {}, written(c)));
    this.say = element('p', { class: 'muted' }, 'Point at a row of the map: where it looked in the text.');
    this.node = element('figure', { class: 'layout' }, element('figcaption', {}, 'The text that was read'),
        element('p', { class: 'running', dir: 'auto' }, this.tokens.flatMap((t, j) => [t, between(map.columns[j], map.columns[j + 1])])), this.say);
  }

  show(row) {
    const n = this.map.columns.length, weights = row < 0 ? null : this.map.weights.subarray(row * n, (row + 1) * n);
    const most = weights ? weights.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-12) : 1;
    this.tokens.forEach((t, j) => t.style.setProperty('--w', weights ? Math.abs(weights[j]) / most : 0));
    this.say.textContent = weights ? `Full colour: ${short(most)}, the maximum of this row.` : 'Point at a row of the map: where it looked in the text.';
  }
}
