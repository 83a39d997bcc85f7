import { cut, dark, element, redrawn, short, visible } from './dom.js';

// A map as a picture: a row for each thing written, a column for each thing read. One stop of the
// Tab key; arrows go from cell to cell, which is read out in words.

// White to dark blue, in the dark the other way round: lightness alone tells the weight.
// Signed ones: blue, nothing, orange.
export const shades = (night, signed) => {
  const middle = night ? [24, 28, 36] : [255, 255, 255];
  const stops = signed ? [[33, 102, 172], middle, [200, 90, 10]]
      : night ? [[24, 28, 36], [30, 72, 120], [90, 160, 220], [235, 245, 255]]
                      : [[255, 255, 255], [170, 205, 235], [50, 110, 175], [8, 32, 80]];
  const table = new Uint8ClampedArray(256 * 4);
  for (let i = 0; i < 256; ++i) {
    const at = i / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; ++c) {
      table[4 * i + c] = stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]);
    }
    table[4 * i + 3] = 255;
  }
  return table;
};

export const largest = weights => {
  let most = 0;
  for (const w of weights) if (Math.abs(w) > most) most = Math.abs(w);
  return most;
};

// What the whole of a scale of weights stands for: 1, or the largest, where that is small or has a sign.
export const full_of = (weights, signed = false) => {
  const most = largest(weights);
  return signed || most > 1 || most < 0.05 ? most || 1 : 1;
};

// What full colour stands for, and what a press of the button makes of it: 1, each row's largest, the map's.
export const next_scale = scale => ({ one: 'row', row: 'map' }[scale] ?? 'one');
export const scale_name = scale => `Scale: ${{ row: 'each row', map: 'largest of all' }[scale] ?? '0 to 1'}`;

// In nats; rows that do not sum to 1 are taken as shares.
export const entropy = row => {
  let sum = 0, h = 0;
  for (const w of row) sum += Math.max(w, 0);
  if (sum <= 0) return 0;
  for (const w of row) if (w > 0) h -= w / sum * Math.log(w / sum);
  return h;
};

// The colours of a legend, from its least to its largest.
export const scale_bar = () => {
  const node = element('canvas', { class: 'bar', width: 256, height: 1, 'aria-hidden': 'true' });
  return { node, paint: table => node.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(table), 256, 1), 0, 0) };
};

const kWidest = 96, kHighest = 28, kAxis = 18;  // pixels: of a cell, and of the line that names an axis
const kReadable = 14, kTall = 560;  // of a row whose label can be read, as far as all of them are no taller than that
const kAxes = ['output', 'input'];              // what rows and columns are, where a map does not say it

export class Matrix {
  // full: what the whole of the scale stands for, and most: the largest weight, where others are drawn by the same.
  // axes: what rows and columns are.
  constructor(map, { scale = 'one', full = 0, most = 0, axes = map.axes ?? kAxes, title = map.title, onRow = () => {}, onHold = () => {}, onCell = () => {} }) {
    Object.assign(this, { map, scale, given: full, most, axes, onRow, onHold, onCell });
    this.at = null;
    this.held = -1;
    this.say = element('p', { class: 'say', role: 'status', 'aria-live': 'polite' });
    this.canvas = element('canvas', {
      tabindex: 0, role: 'application', class: 'matrix',
      'aria-label': `${map.rows.length} rows by ${map.columns.length} columns, ${axes[0]} by ${axes[1]}: each row looks ` +
          'at the columns. Arrows go from cell to cell, Enter holds a row.',
    });
    this.legend = element('div', { class: 'legend' });
    this.detail = element('div', { class: 'detail' });
    this.node = redrawn(element('figure', { class: 'map' },
        element('figcaption', { dir: 'auto', title: map.title }, cut(title || 'Rows look at columns')),
        element('div', { class: 'scroll' }, this.canvas), this.say, this.legend, this.detail), () => this.draw());
    this.canvas.addEventListener('pointermove', e => this.point(e));
    this.canvas.addEventListener('pointerleave', () => this.show(null));
    this.canvas.addEventListener('click', e => { this.point(e); this.hold(); });
    this.canvas.addEventListener('keydown', e => this.key(e));
  }

  weight(i, j) { return this.map.weights[i * this.map.columns.length + j]; }
  row(i) {
    const n = this.map.columns.length;
    return this.map.weights.subarray(i * n, (i + 1) * n);
  }

  // Sizes follow the place there is; called when it is on the page, and again when that changes.
  draw() {
    const { rows, columns } = this.map, night = dark();
    const ratio = devicePixelRatio || 1, style = getComputedStyle(this.canvas);
    const pen = this.canvas.getContext('2d');
    const font = size => `${size}px ${style.getPropertyValue('--mono') || 'monospace'}`;
    pen.font = font(13);
    const wide = text => Math.min(pen.measureText(text).width, 160);
    const longest = labels => labels.length > 400 ? 60 : labels.reduce((m, l) => Math.max(m, wide(visible(l))), 0);
    const left = kAxis + Math.ceil(longest(rows)) + 8;
    const room = (this.node.clientWidth || 600) - left - 2;
    const fits = room / Math.max(columns.length, 1), across = Math.max(2, Math.min(kWidest, fits < 8 ? Math.floor(fits) : fits));
    const down = Math.max(Math.min(across, kHighest), Math.min(kReadable, kTall / Math.max(rows.length, 1)));
    // A label that fits its column is upright, others read from the bottom to the top.
    const upright = label => wide(visible(label)) <= across - 2;
    const turned = columns.length > 400 ? columns : columns.filter(l => !upright(l));
    const top = kAxis + Math.max(20, Math.ceil(longest(turned)) + 8);
    const width = left + across * columns.length + 1, height = top + down * rows.length + 1;
    Object.assign(this, { left, top, across, down });
    const sharp = Math.min(ratio, 4096 / Math.max(width, height, 1));
    this.canvas.width = Math.round(width * sharp);
    this.canvas.height = Math.round(height * sharp);
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = height + 'px';
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.paint_cells(pen, night);
    this.paint_labels(pen, { font, upright, colour: style.color, muted: style.getPropertyValue('--muted').trim() || style.color });
    this.sharp = sharp;
    this.picture = document.createElement('canvas');  // without marks
    this.picture.width = this.canvas.width;
    this.picture.height = this.canvas.height;
    this.picture.getContext('2d').drawImage(this.canvas, 0, 0);
    this.paint_legend(night);
    this.mark();
  }

  // Labels that do not touch, and what the axes are.
  paint_labels(pen, { font, upright, colour, muted }) {
    const { left, top, across, down } = this, { rows, columns } = this.map;
    const every_row = Math.ceil(13 / down), every_column = Math.ceil(13 / across);
    pen.fillStyle = colour;
    pen.textBaseline = 'middle';
    pen.textAlign = 'end';
    pen.font = font(Math.min(13, Math.max(9, down * every_row - 2)));
    rows.forEach((label, i) => {
      if (i % every_row === 0) pen.fillText(visible(label), left - 5, top + (i + 0.5) * down, left - kAxis - 6);
    });
    pen.font = font(Math.min(13, Math.max(9, across * every_column - 2)));
    columns.forEach((label, j) => {
      if (j % every_column !== 0) return;
      pen.save();
      pen.translate(left + (j + 0.5) * across, top - 5);
      if (upright(label)) {
        pen.textAlign = 'center';
        pen.fillText(visible(label), 0, -7);
      } else {
        pen.textAlign = 'start';
        pen.rotate(-Math.PI / 2);
        pen.fillText(visible(label), 0, 0, top - kAxis - 6);
      }
      pen.restore();
    });
    pen.fillStyle = muted;
    pen.font = font(12).replace(/px .*/, 'px system-ui, sans-serif');
    pen.textAlign = 'start';
    pen.fillText(`${this.axes[1]} →`, left, kAxis / 2);
    pen.save();
    pen.translate(kAxis / 2, top);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = 'end';
    pen.fillText(`← ${this.axes[0]}`, 0, 0);
    pen.restore();
  }

  paint_cells(pen, night) {
    const { rows, columns, weights, signed } = this.map, table = shades(night, signed);
    this.full = this.scale === 'map' ? this.most || largest(weights) || 1 : this.given || full_of(weights, signed);
    const pixels = new ImageData(columns.length || 1, rows.length || 1);
    for (let i = 0; i < rows.length; ++i) {
      const full = this.scale === 'row' ? largest(this.row(i)) || 1 : this.full;
      for (let j = 0; j < columns.length; ++j) {
        const w = this.weight(i, j), at = 4 * (i * columns.length + j);
        const share = signed ? (w / full + 1) / 2 : w / full;
        const shade = Number.isFinite(w) ? Math.round(255 * Math.min(Math.max(share, 0), 1)) : -1;
        if (shade < 0) pixels.data.set([150, 150, 150, 255], at);
        else pixels.data.set(table.subarray(4 * shade, 4 * shade + 4), at);
      }
    }
    const small = document.createElement('canvas');
    small.width = pixels.width;
    small.height = pixels.height;
    small.getContext('2d').putImageData(pixels, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, this.left, this.top, this.across * columns.length, this.down * rows.length);
    if (signed && Math.min(this.down, this.across) >= 9) this.paint_signs(pen);
    pen.strokeStyle = night ? '#3a4250' : '#d5dae2';
    pen.lineWidth = 1;
    pen.strokeRect(this.left, this.top, this.across * columns.length, this.down * rows.length);
  }

  // Grey loses the sign: what is a tenth of the scale or more has a mark.
  paint_signs(pen) {
    const { rows, columns } = this.map, arm = Math.min(4, Math.min(this.down, this.across) / 2 - 2);
    pen.strokeStyle = getComputedStyle(this.canvas).color;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (let i = 0; i < rows.length; ++i) {
      for (let j = 0; j < columns.length; ++j) {
        const w = this.weight(i, j);
        if (!(Math.abs(w) >= 0.1 * this.full)) continue;
        const x = this.left + (j + 0.5) * this.across, y = this.top + (i + 0.5) * this.down;
        pen.moveTo(x - arm, y);
        pen.lineTo(x + arm, y);
        if (w < 0) continue;
        pen.moveTo(x, y - arm);
        pen.lineTo(x, y + arm);
      }
    }
    pen.stroke();
  }

  paint_legend(night) {
    const bar = scale_bar();
    bar.paint(shades(night, this.map.signed));
    const end = this.scale === 'row' ? 'the largest of its row' : short(this.full);
    this.legend.replaceChildren(this.map.signed ? `− ${end} ` : '0 ', bar.node, (this.map.signed ? ' + ' : ' ') + end,
        element('span', { class: 'muted' }, ` · maximum here ${short(largest(this.map.weights))}`));
  }

  set_scale(scale) { this.scale = scale; this.draw(); }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - this.left) / this.across);
    const i = Math.floor((event.clientY - box.top - this.top) / this.down);
    const inside = i >= 0 && j >= 0 && i < this.map.rows.length && j < this.map.columns.length;
    this.show(inside ? [i, j] : null);
  }

  show(at) {
    if (at?.[0] === this.at?.[0] && at?.[1] === this.at?.[1]) return;
    this.at = at;
    this.mark();
    this.onCell(at);
    const row = this.held >= 0 ? this.held : at ? at[0] : -1;
    if (row !== this.told) {
      this.told = row;
      this.tell_row(row);
      this.onRow(row);
    }
    this.say.textContent = at ? `‹${visible(this.map.rows[at[0]])}› looks at ` +
        `‹${visible(this.map.columns[at[1]])}›: ${short(this.weight(...at))}` : '';
  }

  mark() {
    if (!this.picture) return;
    const pen = this.canvas.getContext('2d');
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.picture, 0, 0);
    pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
    const { left, top, across, down } = this, wide = across * this.map.columns.length;
    const accent = getComputedStyle(this.canvas).getPropertyValue('--accent').trim() || '#c50';
    pen.lineWidth = 2;
    pen.strokeStyle = accent;
    if (this.held >= 0) pen.strokeRect(left, top + this.held * down, wide, down);
    if (!this.at) return;
    const [i, j] = this.at;
    pen.globalAlpha = 0.5;
    pen.strokeRect(left, top + i * down, wide, down);
    pen.globalAlpha = 1;
    pen.strokeRect(left + j * across, top + i * down, across, down);
  }

  // The five columns it looks at most, and how undecided it is.
  tell_row(i) {
    if (i < 0) return this.detail.replaceChildren();
    const row = this.row(i), { signed } = this.map, size = w => signed ? Math.abs(w) : w;
    const first = [...row.keys()].sort((a, b) => size(row[b]) - size(row[a])).slice(0, 5);
    this.detail.replaceChildren(
        element('b', { dir: 'auto' }, visible(this.map.rows[i])), signed ? ' most at ' : ' looks at ',
        ...first.map(j => element('span', { class: 'chip', dir: 'auto' },
            visible(this.map.columns[j]), ' ', element('i', {}, short(row[j])))),
        signed ? '' : element('span', { class: 'muted' }, `entropy ${short(entropy(row))} of ${short(Math.log(row.length))} nats`));
  }

  hold(row = this.at ? this.at[0] : -1) {
    this.held = row === this.held ? -1 : row;
    this.told = undefined;
    const at = this.at;
    this.at = undefined;
    this.show(at ?? null);
    this.mark();
    if (this.held >= 0 && !at) { this.tell_row(this.held); this.onRow(this.held); }
    this.onHold(this.held);
  }

  key(event) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (by) {
      const [i, j] = this.at ?? [0, -by[1]];
      const within = (x, n) => Math.min(Math.max(x, 0), n - 1);
      this.show([within(i + by[0], this.map.rows.length), within(j + by[1], this.map.columns.length)]);
    } else if (event.key === 'Enter') {
      this.hold();
    } else if (event.key === 'Escape') {
      if (this.held >= 0) this.hold(this.held);
      this.show(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // For those who read: the same numbers as a table.
  table() {
    const { rows, columns } = this.map;
    return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'The map as a table' }, element('table', {},
        element('caption', {}, 'Rows look at columns'),
        element('thead', {}, element('tr', {}, element('td', {}),
            columns.map(c => element('th', { scope: 'col', dir: 'auto' }, visible(c))))),
        element('tbody', {}, rows.map((r, i) => element('tr', {},
            element('th', { scope: 'row', dir: 'auto' }, visible(r)),
            columns.map((_, j) => element('td', {}, short(this.weight(i, j)))))))));
  }
}
