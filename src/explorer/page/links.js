import { element, visible } from './dom.js';

// What was read above, what was written below, and lines from a word to where it looked: those that
// make up nine tenths of its weight, as thick as they weigh.
const kMass = 0.9, kMost = 40;

export class Links {
  constructor(map, { onHover = () => {}, onHold = () => {} }) {
    this.map = map;
    const word = (side, label, index) => {
      const button = side === 'written';
      return element(button ? 'button' : 'span', {
        class: 'word', dir: 'auto', type: button ? 'button' : undefined,
        onpointerenter: button ? () => onHover(index) : undefined,
        onpointerleave: button ? () => onHover(-1) : undefined,
        onfocus: button ? () => onHover(index) : undefined,
        onblur: button ? () => onHover(-1) : undefined,
        onclick: button ? () => onHold(index) : undefined,
      }, visible(label));
    };
    this.read = map.columns.map((l, j) => word('read', l, j));
    this.written = map.rows.map((l, i) => word('written', l, i));
    this.lines = element('svg', { class: 'lines', 'aria-hidden': 'true' });
    this.node = element('div', { class: 'links' },
        element('div', { class: 'words', role: 'group', 'aria-label': 'What was read' }, this.read), this.lines,
        element('div', { class: 'words', role: 'group', 'aria-label': 'What was written' }, this.written));
  }

  show(row) {
    this.lines.replaceChildren();
    this.written.forEach((w, i) => w.classList.toggle('on', i === row));
    this.read.forEach(w => w.style.removeProperty('--w'));
    if (row < 0) return;
    const n = this.map.columns.length, weights = this.map.weights.subarray(row * n, (row + 1) * n);
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
    const sum = weights.reduce((a, b) => a + Math.max(b, 0), 0), most = weights[order[0]] || 1;
    const box = this.lines.getBoundingClientRect(), from = this.written[row].getBoundingClientRect();
    let mass = 0;
    for (const j of order.slice(0, kMost)) {
      if (mass >= kMass * sum || weights[j] <= 0) break;
      mass += weights[j];
      this.read[j].style.setProperty('--w', weights[j] / most);
      const to = this.read[j].getBoundingClientRect();
      const x1 = from.left + from.width / 2 - box.left, x2 = to.left + to.width / 2 - box.left;
      const y1 = from.top - box.top, y2 = to.bottom - box.top, middle = (y1 + y2) / 2;
      this.lines.append(element('path', {
        d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`,
        'stroke-width': 1 + 5 * weights[j] / Math.max(most, 1e-9),
        'stroke-opacity': 0.25 + 0.7 * weights[j] / Math.max(most, 1e-9),
      }));
    }
  }
}
