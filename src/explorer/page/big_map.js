import { dark, element, redrawn } from './dom.js';
import { full_of, largest, Matrix, shades } from './matrix.js';

// A map that is too large to be read at once: all of it small, each dot the largest of what falls into
// it, and a part of it with labels. The part follows a press, a drag or the arrows.
const kOverview = 320, kPart = 64;  // pixels and cells of a side
export const kLarge = 240;

// The largest of what falls into each of `rows` × `columns` parts.
export const pooled = ({ weights, rows: { length: high }, columns: { length: wide } }, rows, columns) => {
  const most = new Float32Array(rows * columns);
  const to = Uint32Array.from({ length: wide }, (_, j) => Math.floor(j * columns / wide));
  for (let i = 0; i < high; ++i) {
    const row = Math.floor(i * rows / high) * columns, from = i * wide;
    for (let j = 0; j < wide; ++j) {
      const at = row + to[j], w = weights[from + j];
      if (w > most[at]) most[at] = w;
    }
  }
  return most;
};

export class BigMap {
  constructor(map, options) {
    Object.assign(this, { map, options, top: 0, left: 0 });
    Object.assign(this, { most: largest(map.weights), given: full_of(map.weights, map.signed) });
    this.high = Math.min(kPart, map.rows.length);
    this.wide = Math.min(kPart, map.columns.length);
    this.canvas = element('canvas', {
      class: 'overview', tabindex: 0, role: 'application',
      'aria-label': `All ${map.rows.length} rows and ${map.columns.length} columns. Arrows move the part that is shown beside it.`,
    });
    this.say = element('p', { class: 'say', role: 'status' });
    this.place = element('div', {});
    this.node = redrawn(element('div', { class: 'big' }, element('figure', {}, element('figcaption', {}, 'All of it'), this.canvas, this.say), this.place), () => this.draw());
    const drag = event => event.buttons && this.centre(event);
    this.canvas.addEventListener('pointerdown', event => { this.canvas.setPointerCapture(event.pointerId); this.centre(event); });
    this.canvas.addEventListener('pointermove', drag);
    this.canvas.addEventListener('keydown', event => this.key(event));
    this.cut();
  }

  // The part as a map of its own.
  cut() {
    const { map, top, left, high, wide } = this, n = map.columns.length;
    const weights = new Float32Array(high * wide);
    for (let i = 0; i < high; ++i) weights.set(map.weights.subarray((top + i) * n + left, (top + i) * n + left + wide), i * wide);
    const part = { ...map, weights, rows: map.rows.slice(top, top + high), columns: map.columns.slice(left, left + wide) };
    const shifted = act => i => act?.(i < 0 ? i : i + top);
    this.matrix = new Matrix(part, {
      ...this.options, full: this.given, most: this.most, onRow: shifted(this.options.onRow), onHold: shifted(this.options.onHold),
    });
    this.place.replaceChildren(this.matrix.node);
    this.say.textContent = `rows ${top + 1} to ${top + high} of ${map.rows.length}, columns ${left + 1} to ${left + wide} of ${n}`;
  }

  move(top, left) {
    const within = (x, most) => Math.max(0, Math.min(Math.round(x), most));
    top = within(top, this.map.rows.length - this.high);
    left = within(left, this.map.columns.length - this.wide);
    if (top === this.top && left === this.left) return;
    Object.assign(this, { top, left });
    this.cut();
    this.matrix.draw();
    this.frame();
  }
  centre(event) {
    const box = this.canvas.getBoundingClientRect();
    this.move((event.clientY - box.top) / box.height * this.map.rows.length - this.high / 2,
        (event.clientX - box.left) / box.width * this.map.columns.length - this.wide / 2);
  }
  key(event) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    this.move(this.top + by[0] * this.high / 2, this.left + by[1] * this.wide / 2);
    event.preventDefault();
    event.stopPropagation();
  }

  draw() {
    const { map } = this, rows = Math.min(kOverview, map.rows.length), columns = Math.min(kOverview, map.columns.length);
    this.canvas.width = columns;
    this.canvas.height = rows;
    const full = this.options.scale === 'map' ? this.most || 1 : this.given, most = pooled(map, rows, columns), table = shades(dark(), false), pixels = new ImageData(columns, rows);
    for (let i = 0; i < most.length; ++i) {
      const shade = 4 * Math.round(255 * Math.min(most[i] / full, 1));
      pixels.data.set(table.subarray(shade, shade + 4), 4 * i);
    }
    this.picture = pixels;
    this.frame();
    this.matrix.draw();
  }
  frame() {
    if (!this.picture) return;
    const pen = this.canvas.getContext('2d'), down = this.canvas.height / this.map.rows.length, across = this.canvas.width / this.map.columns.length;
    pen.putImageData(this.picture, 0, 0);
    pen.strokeStyle = getComputedStyle(this.canvas).getPropertyValue('--accent').trim();
    pen.lineWidth = 2;
    pen.strokeRect(this.left * across, this.top * down, this.wide * across, this.high * down);
  }

  get at() { return this.matrix.at && [this.matrix.at[0] + this.top, this.matrix.at[1] + this.left]; }
  get held() { return this.matrix.held < 0 ? -1 : this.matrix.held + this.top; }
  hold(row) {
    if (row < this.top || row >= this.top + this.high) this.move(row - this.high / 2, this.left);
    this.matrix.hold(row - this.top);
  }
  set_scale(scale) {
    this.options = { ...this.options, scale };
    this.matrix.scale = scale;
    this.draw();
  }
  table() { return this.matrix.table(); }
}

// As a map is best shown.
export const map_of = (map, options) =>
    Math.max(map.rows.length, map.columns.length) > kLarge ? new BigMap(map, options) : new Matrix(map, options);
