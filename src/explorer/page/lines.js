import * as api from './api.js';
import { dark, element, redrawn, short, visible } from './dom.js';
import { export_buttons } from './exported.js';
import { full_of, largest, Matrix } from './matrix.js';
import { problem_of } from './problem.js';
import { keep, listed, state } from './state.js';

// All weights of a layer at once, as lines from each query to each key, a colour for each head; and of one
// query and one key the numbers whose products make their score.
const kMost = 200;             // tokens of a side
const kStep = 20, kGap = 420, kFine = 2;  // pixels from token to token, between the two columns of them, and of one that is drawn
const kFaint = 1 / 255;        // of the largest weight: what is below could not be seen
const kLabel = 140;

export const colour_of = (head, night) => {
  const hue = Math.round(360 * ((0.58 + head * 0.382) % 1));
  return `hsl(${hue} ${night ? 85 : 75}% ${night ? 65 : 38}%)`;
};
const rgb_of = css => {
  const pen = element('canvas', { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  pen.fillStyle = css;
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
};

// All lines that can be seen: where each is at the left, how far it falls from one column of pixels to the next,
// and how opaque it is in each head.
const lines_of = ({ rows, columns, weights }, { on, full, step, wide, row, column }) => {
  const n = rows.length, m = columns.length, heads = [...on], H = heads.length;
  const at = new Float64Array(n * m), fall = new Float64Array(n * m), ink = new Float64Array(n * m * H);
  let count = 0;
  for (let i = Math.max(row, 0); i < (row < 0 ? n : row + 1); ++i) {
    for (let j = Math.max(column, 0); j < (column < 0 ? m : column + 1); ++j) {
      let seen = false;
      for (let h = 0; h < H; ++h) {
        const share = weights[(heads[h] * n + i) * m + j] / full;
        ink[count * H + h] = share;
        seen ||= share >= kFaint;
      }
      if (!seen) continue;
      at[count] = (i + 0.5) * step;
      fall[count++] = (j - i) * step / Math.max(wide - 1, 1);
    }
  }
  return { at, fall, ink, count, H };
};

// Column x of pixels. From there to the next column a line passes some pixels, many where it is steep: it is added
// where it enters, taken away where it has left, and summed up later. Heads lie side by side: ink[y·H + h].
const add_ink = (ink, { at, fall, ink: weights, count, H }, x) => {
  ink.fill(0);
  for (let k = 0, w = 0; k < count; ++k, w += H) {
    const by = fall[k], y = at[k] + x * by, enter = by < 0 ? y + by : y, leave = by < 0 ? y : y + by;
    const first = enter | 0, last = leave | 0, in_part = enter - first, out_part = leave - last, from = first * H;
    if (first === last) {
      for (let h = 0; h < H; ++h) {
        const share = weights[w + h];
        ink[from + h] += share * (1 - in_part);
        ink[from + H + h] += share * (in_part + out_part - 1);
        ink[from + 2 * H + h] -= share * out_part;
      }
    } else {
      const to = (last + 1) * H;
      for (let h = 0; h < H; ++h) {
        const share = weights[w + h];
        ink[from + h] += share * (1 - in_part);
        ink[from + H + h] += share * in_part;
        ink[to + h] -= share * (1 - out_part);
        ink[to + H + h] -= share * out_part;
      }
    }
  }
};

// Where heads cross, their colours mix by how opaque they are. The image is as high as the tokens, and as wide as it
// likes: it is stretched.
export const paint_lines = (image, layer, { on, full, step, row = -1, column = -1, night = false }) => {
  const { width, height } = image, pixels = new Uint32Array(image.data.buffer);
  const all = lines_of(layer, { on, full, step, wide: width, row, column }), { H } = all;
  const colours = [...on].map(h => rgb_of(colour_of(h, night)));
  const [red, green, blue] = [0, 1, 2].map(c => Float64Array.from(colours, rgb => rgb[c]));
  const ink = new Float64Array((height + 4) * H), here = new Float64Array(H);
  for (let x = 0; x < width; ++x) {
    add_ink(ink, all, x);
    here.fill(0);
    for (let y = 0, to = x, i = 0; y < height; ++y, to += width) {
      let r = 0, g = 0, b = 0, sum = 0, clear = 1;
      for (let h = 0; h < H; ++h, ++i) {
        const deep = here[h] += ink[i];
        if (deep < kFaint) continue;
        const over = deep < 1 ? deep : 1;
        r += red[h] * over;
        g += green[h] * over;
        b += blue[h] * over;
        sum += over;
        clear *= 1 - over;
      }
      if (sum > 0) pixels[to] = (255 * (1 - clear)) << 24 | (b / sum) << 16 | (g / sum) << 8 | r / sum;
    }
  }
};

// {heads, rows, columns, weights [heads,rows,columns]} on a canvas.
export class Lines {
  constructor(layer, { on, onPick = () => {} }) {
    Object.assign(this, { layer, on, onPick, row: -1, column: -1, held: -1 });
    this.all = full_of(layer.weights);
    this.canvas = element('canvas', {
      tabindex: 0, role: 'application', class: 'lines-of-heads',
      'aria-label': `Lines from ${layer.rows.length} queries to ${layer.columns.length} keys, one colour for each of ${layer.heads} heads. ` +
          'Up and down go from query to query, left and right from key to key, Enter holds a query, Escape shows all.',
    });
    this.say = element('p', { class: 'say', role: 'status', 'aria-live': 'polite' });
    this.node = element('div', {}, this.canvas, this.say);
    this.canvas.addEventListener('pointermove', e => this.point(e));
    this.canvas.addEventListener('pointerleave', () => this.show(this.held, -1));
    this.canvas.addEventListener('click', e => { this.point(e); this.hold(); });
    this.canvas.addEventListener('keydown', e => this.key(e));
  }

  // What is drawn, for the program to draw it: of a query or a key that is shown alone, its lines.
  picture(title) {
    const { layer: { rows, columns, weights }, row, column } = this, n = rows.length, m = columns.length, heads = [...this.on];
    const shown = new Float32Array(heads.length * n * m);
    heads.forEach((h, at) => {
      for (let i = 0; i < n; ++i) {
        for (let j = 0; j < m; ++j) {
          if ((row < 0 || row === i) && (column < 0 || column === j)) shown[(at * n + i) * m + j] = weights[(h * n + i) * m + j];
        }
      }
    });
    return { kind: 'lines', title, rows, columns, heads: heads.map(h => h + 1), cells: api.packed(shown) };
  }

  draw() {
    const { layer, canvas } = this, night = dark(), ratio = devicePixelRatio || 1, style = getComputedStyle(canvas);
    const room = this.node.clientWidth || 600, label = Math.min(kLabel, Math.floor(room / 4));
    const wide = Math.max(60, Math.min(kGap, Math.floor(room - 2 * label))), high = kStep * Math.max(layer.rows.length, layer.columns.length) + kStep;
    canvas.width = Math.round((wide + 2 * label) * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.width = `${wide + 2 * label}px`;
    canvas.style.height = `${high}px`;
    Object.assign(this, { label, wide, night, ratio, colour: style.color, font: `13px ${style.getPropertyValue('--mono') || 'monospace'}` });
    this.muted = style.getPropertyValue('--muted').trim();
    this.paint();
  }

  paint() {
    const { layer, canvas, label, wide } = this, pen = canvas.getContext('2d');
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const image = new ImageData(Math.ceil(wide / kFine), kStep * Math.max(layer.rows.length, layer.columns.length));
    paint_lines(image, layer, { ...this, step: kStep, full: this.row < 0 && this.column < 0 ? this.all : this.largest() });
    const small = element('canvas', { width: image.width, height: image.height });
    small.getContext('2d').putImageData(image, 0, 0);
    pen.drawImage(small, label, kStep, wide, image.height);
    this.paint_labels(pen);
  }

  // Of the lines that are drawn alone: the largest is opaque, so that they are seen.
  largest() {
    const { layer: { rows, columns, weights }, row, column } = this, n = rows.length, m = columns.length;
    let most = 1e-12;
    for (const h of this.on) {
      for (let i = Math.max(row, 0); i < (row < 0 ? n : row + 1); ++i) {
        for (let j = Math.max(column, 0); j < (column < 0 ? m : column + 1); ++j) most = Math.max(most, weights[(h * n + i) * m + j]);
      }
    }
    return most;
  }

  paint_labels(pen) {
    const { layer, label, wide, row, column } = this;
    pen.textBaseline = 'middle';
    pen.font = this.font;
    const write = (labels, chosen, x, align) => {
      pen.textAlign = align;
      labels.forEach((l, i) => {
        pen.globalAlpha = chosen < 0 || chosen === i ? 1 : 0.45;
        pen.fillStyle = this.colour;
        pen.fillText(visible(l), x, kStep * (i + 1.5), label - 8);
      });
      pen.globalAlpha = 1;
    };
    write(layer.rows, row, label - 6, 'end');
    write(layer.columns, column, label + wide + 6, 'start');
    pen.fillStyle = this.muted;
    pen.font = '12px system-ui, sans-serif';
    pen.textAlign = 'end';
    pen.fillText('query', label - 6, kStep / 2);
    pen.textAlign = 'start';
    pen.fillText('key', label + wide + 6, kStep / 2);
  }

  // Of a query, the keys that its heads look at most; of both, the weight by head.
  tell() {
    const { layer, row, column } = this, m = layer.columns.length, n = layer.rows.length;
    if (row < 0) return '';
    const weight = (h, j) => layer.weights[(h * n + row) * m + j];
    const named = `‹${visible(layer.rows[row])}›`;
    if (column >= 0) {
      return `${named} looks at ‹${visible(layer.columns[column])}›: ` + [...this.on].map(h => `head ${h + 1} ${short(weight(h, column))}`).join(', ');
    }
    return `${named} looks most at ` + [...this.on].map(h => {
      let most = 0;
      for (let j = 1; j < m; ++j) if (weight(h, j) > weight(h, most)) most = j;
      return `‹${visible(layer.columns[most])}› ${short(weight(h, most))} (head ${h + 1})`;
    }).join(', ');
  }

  show(row, column) {
    if (row === this.row && column === this.column) return;
    Object.assign(this, { row, column });
    this.paint();
    this.say.textContent = this.tell();
  }
  hold(row = this.row) {
    this.held = row === this.held && this.column < 0 ? -1 : row;
    if (row >= 0 && this.column >= 0) this.onPick(row, this.column);
  }
  point(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left;
    const i = Math.floor((event.clientY - box.top) / kStep) - 1;
    const left = x < this.label + this.wide / 2, most = left ? this.layer.rows.length : this.layer.columns.length;
    if (i < 0 || i >= most) return this.show(this.held, -1);
    if (left) this.show(i, -1); else this.show(this.held, i);
  }
  key(event) {
    const within = (at, by, n) => Math.min(Math.max(at + by, 0), n - 1), { rows, columns } = this.layer;
    const act = {
      ArrowDown: () => this.show(within(this.row, 1, rows.length), this.column), ArrowUp: () => this.show(within(this.row, -1, rows.length), this.column),
      ArrowRight: () => this.show(Math.max(this.row, 0), within(this.column, 1, columns.length)),
      ArrowLeft: () => this.show(Math.max(this.row, 0), within(this.column, -1, columns.length)),
      Enter: () => this.hold(), Escape: () => { this.held = -1; this.show(-1, -1); },
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }
}

// q, k and their products, number by number: three rows by one scale each.
const products = ({ query, key, scale, weight, whole }) => {
  const terms = query.map((q, d) => scale * q * key[d]), sum = terms.reduce((a, b) => a + b, 0);
  const map = {
    kind: 'heatmap', title: 'Query times key, number by number', signed: true, rows: ['query q', 'key k', 'scale · q · k'],
    columns: query.map((_, d) => String(d + 1)), weights: Float32Array.from([...query, ...key, ...terms]),
  };
  const matrix = new Matrix(map, { scale: 'row', axes: ['vector', 'dimension'] });
  return {
    matrix, node: element('div', {}, matrix.node, element('p', {},
        `The products sum up to ${short(sum)}${whole ? ', the score' : ', to which the score adds a bias for positions, or a cap'}. Softmax over all keys makes it a weight of ${short(weight)}.`)),
  };
};

export const lines = ({ run, question }) => {
  if (!run.heads) return null;
  const asked = api.latest(), compared = api.latest();
  const place = redrawn(element('div', { class: 'line-view' }), () => view?.draw());
  const keys = redrawn(element('div', { class: 'head-keys', role: 'group', 'aria-label': 'Heads that are drawn' }), () => { if (view) draw_keys(); });
  const which = element('select', { id: 'lines-layer', 'aria-label': 'Layer', onchange: e => { keep({ lines: e.target.value, hidden: '', query: '', key: '' }); load(); } });
  const legend = element('p', { class: 'muted' }), detail = element('div', { id: 'products', 'aria-live': 'polite' }), choice = element('div', { class: 'row' });
  let layer = null, view = null, on = new Set();
  const title = () => `${run.name}: ${layer.layers.find(l => l.name === layer.name)?.title ?? layer.name}`;
  const saving = element('p', { class: 'row' }, export_buttons(() => [view.picture(title())], '-lines'));

  const draw_keys = () => keys.replaceChildren(...Array.from({ length: layer.heads }, (_, h) => {
    const swatch = element('i', {});
    swatch.style.setProperty('--own', colour_of(h, dark()));
    return element('button', { type: 'button', 'data-line-head': h + 1, 'aria-pressed': String(on.has(h)), onclick: () => flip(h) }, swatch, `head ${h + 1}`);
  }));
  const flip = h => {
    const all = Array.from({ length: layer.heads }, (_, i) => i), drawn = all.filter(i => i === h ? !on.has(h) : on.has(i));
    on = view.on = new Set(drawn);
    keep({ hidden: all.filter(i => !on.has(i)).map(i => i + 1).join(',') });
    draw_keys();
    view.paint();
    keys.children[h].focus();
  };
  const pick = (query, key) => { keep({ query: String(query), key: String(key) }); draw_choice(); };

  // Which query and key are taken apart.
  const draw_choice = () => {
    const select = (label, id, names, value, act) => {
      const made = element('select', { id, 'aria-label': label, onchange: e => { act(e.target.value); multiply(); } }, names);
      made.value = value;
      return made;
    };
    const tokens = labels => [element('option', { value: '' }, 'choose …'), ...labels.map((l, i) => element('option', { value: i }, `${i + 1} ${visible(l)}`))];
    const heads = Array.from({ length: layer.heads }, (_, h) => element('option', { value: h + 1 }, `head ${h + 1}`));
    choice.replaceChildren(element('b', {}, 'Query × key'),
        select('Head of the query and the key', 'qk-head', heads, state.of || '1', v => keep({ of: v })),
        select('Query', 'qk-query', tokens(layer.rows), state.query, v => keep({ query: v })),
        select('Key', 'qk-key', tokens(layer.columns), state.key, v => keep({ key: v })));
    multiply();
  };
  const multiply = async () => {
    if (state.query === '' || state.key === '') return detail.replaceChildren();
    try {
      const answer = await compared(signal => api.post(['runs', run.name, 'compare'], {
        ...question(), layer: layer.name, head: Number(state.of || 1), row: Number(state.query), column: Number(state.key) }, signal));
      if (!answer) return;
      const made = products(answer);
      detail.replaceChildren(made.node);
      made.matrix.draw();
    } catch (error) {
      detail.replaceChildren(problem_of(error));
    }
  };

  // Nothing is drawn, and nothing of what was stays.
  const instead = (...nodes) => {
    view = null;
    for (const part of [keys, choice, detail]) part.replaceChildren();
    legend.textContent = '';
    saving.hidden = true;
    place.replaceChildren(...nodes);
  };
  const load = async () => {
    try {
      const answer = await asked(signal => api.post(['runs', run.name, 'weights'], { ...question(), layer: state.lines }, signal));
      if (!answer) return;
      layer = { ...answer, weights: api.unpacked(answer.cells) };
      which.replaceChildren(...answer.layers.map(l => element('option', { value: l.name }, l.title)));
      which.value = layer.name;
      if (Math.max(layer.rows.length, layer.columns.length) > kMost) {
        return instead(element('p', { class: 'muted' }, `Lines are drawn of at most ${kMost} tokens. This text has ${layer.columns.length}: see the heads as maps instead.`));
      }
      const hidden = listed(state.hidden).map(h => Number(h) - 1);
      on = new Set(Array.from({ length: layer.heads }, (_, h) => h).filter(h => !hidden.includes(h)));
      view = new Lines(layer, { on, onPick: pick });
      place.replaceChildren(view.node);
      saving.hidden = false;
      legend.textContent = `A line is as opaque as its weight, fully at ${short(view.all)}; the maximum of this layer is ${short(largest(layer.weights))}. Of a token by itself, the largest line is drawn fully.`;
      draw_keys();
      view.draw();
      draw_choice();
    } catch (error) {
      instead(problem_of(error, { retry: load }));
    }
  };
  const node = element('details', { id: 'lines' }, element('summary', {}, 'Attention as lines'),
      element('p', { class: 'muted' }, 'All heads of a layer at once: a line from each query, on the left, to each key, on the right. A query of a decoder has the name of the token that is written there. Point at a token to see its lines alone. Press a query to hold it, then a key, to see how the two are multiplied.'),
      element('div', { class: 'row' }, which, keys), place, legend, saving, choice, detail);
  return { node, renew: load };
};
