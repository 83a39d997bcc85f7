import { element, short } from './dom.js';
import { entropy } from './matrix.js';

// An image and where it was looked at: a look (a word, a step) shows the places it looked at, a place
// the looks that went there; or, where places look at each other, what it looks at itself. Drawn as the
// program draws it: dark where it was not looked at, in squares.
const kDarkest = 0.8, kPale = 0.6, kInk = 0.9, kSmooth = 128;  // pixels of an image that is not shown as squares
const kEqual = 1e-6;
export const kFilm = 104;

export const kinds = {
  own: "each look to its own largest",
  all: 'one scale for all looks',
  mean: 'minus the mean of all looks',
};

export const load = async source => {
  const image = new Image();
  image.src = `data:image/png;base64,${source}`;
  await image.decode();
  return image;
};

const largest = weights => weights.reduce((a, b) => Math.max(a, Math.abs(b)), 0);

// The weights that are shown of a look, the one that gets the full light, and whether they have signs.
export const shown_of = (seen, weights, kind) => {
  if (kind === 'mean' && seen.looks.length > 1) {
    const weighed = seen.looks.filter(l => l.weights.length);
    const mean = weights.map((_, n) => weighed.reduce((sum, l) => sum + l.weights[n], 0) / weighed.length);
    const most = Math.max(...weighed.map(l => largest(l.weights.map((w, n) => w - mean[n]))));
    return { weights: weights.map((w, n) => w - mean[n]), full: most || 1, signed: true };
  }
  if (seen.signed) return { weights, full: largest(weights) || 1, signed: true };
  const full = kind === 'all' ? Math.max(...seen.looks.map(l => largest(l.weights))) : largest(weights);
  return { weights, full: full || 1, signed: false };
};

// A pixel for each place: black as deep as it was not looked at; of signs, blue below and orange above,
// over the image made pale.
const veil = ({ rows, columns }, { weights, full, signed }) => {
  const made = document.createElement('canvas');
  made.width = columns;
  made.height = rows;
  const pen = made.getContext('2d'), data = pen.createImageData(columns, rows);
  weights.forEach((w, n) => {
    const share = Math.min(Math.max(w / full, -1), 1);
    const [r, g, b, a] = !signed ? [0, 0, 0, kDarkest * (1 - Math.max(share, 0))]
        : share > 0 ? [200, 90, 10, kInk * share] : [33, 102, 172, -kInk * share];
    data.data.set([r, g, b, 255 * a], 4 * n);
  });
  pen.putImageData(data, 0, 0);
  return made;
};

// Around the places that have half of the full weight or more, so that they are found on any image.
const outline = (pen, { rows, columns }, { weights, full }, w, h) => {
  const inside = (y, x) => y >= 0 && x >= 0 && y < rows && x < columns && weights[y * columns + x] >= full / 2;
  pen.beginPath();
  for (let y = 0; y <= rows; ++y) {
    for (let x = 0; x <= columns; ++x) {
      if (inside(y, x) !== inside(y - 1, x)) { pen.moveTo(x * w, y * h); pen.lineTo((x + 1) * w, y * h); }
      if (inside(y, x) !== inside(y, x - 1)) { pen.moveTo(x * w, y * h); pen.lineTo(x * w, (y + 1) * h); }
    }
  }
  pen.lineWidth = 1.5;
  pen.strokeStyle = '#35c8ff';
  pen.stroke();
};

// On a canvas `width` wide: {image, seen, weights or null, kind, blur, boxes, cell}.
export const paint = (canvas, width, { image, seen, weights, kind, blur, boxes = [], cell = -1 }) => {
  const ratio = devicePixelRatio || 1, scale = width / seen.width, height = Math.round(seen.height * scale);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  pen.imageSmoothingEnabled = Math.max(seen.width, seen.height) > kSmooth;
  const shown = weights?.length ? shown_of(seen, weights, kind) : null;
  if (shown?.signed) pen.filter = 'grayscale(1)';  // colours are those of the signs
  pen.drawImage(image, 0, 0, width, height);
  pen.filter = 'none';
  if (shown) {
    pen.imageSmoothingEnabled = blur;
    if (shown.signed) {
      pen.fillStyle = `rgba(255, 255, 255, ${kPale})`;
      pen.fillRect(0, 0, width, height);
    }
    pen.drawImage(veil(seen, shown), 0, 0, width, height);
    if (!shown.signed && !blur) outline(pen, seen, shown, width / seen.columns, height / seen.rows);
  }
  const frame = (colour, wide, x, y, w, h) => {
    pen.lineWidth = wide;
    pen.strokeStyle = colour;
    pen.strokeRect(x, y, w, h);
  };
  for (const [x, y, w, h] of boxes) frame('#f5a623', 2, x * scale, y * scale, w * scale, h * scale);
  if (cell < 0) return;
  const w = width / seen.columns, h = height / seen.rows;
  const at = [cell % seen.columns * w, Math.floor(cell / seen.columns) * h, w, h];
  frame('#000', 4, ...at);
  frame('#fff', 2, ...at);
};

export const place_name = (seen, cell) => `${Math.floor(cell / seen.columns) + 1}, ${cell % seen.columns + 1}`;

export const place_box = (seen, cell) => {
  const w = seen.width / seen.columns, h = seen.height / seen.rows;
  return [cell % seen.columns * w, Math.floor(cell / seen.columns) * h, w, h];
};

// The places with the largest weights, and how undecided it was.
export const tell_look = (seen, label, weights) => {
  const first = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 5);
  return [element('b', { dir: 'auto' }, label), ' looked at ',
    ...first.map(n => element('span', { class: 'chip' }, `${place_name(seen, n)} `, element('i', {}, short(weights[n]))))];
};

// What light and dark mean, what equal weights would be, and a warning where they are.
export const legend = (seen, weights, kind) => {
  const n = seen.rows * seen.columns, words = [];
  const grid = `${seen.rows} × ${seen.columns} places; equal weights would be ${short(1 / n)} each`;
  if (!weights?.length) return [element('span', { class: 'muted' }, `${grid}, entropy ${short(Math.log(n))} nats`)];
  const { full, signed } = shown_of(seen, weights, kind);
  words.push(signed ? `−${short(full)} ` : 'not looked at ', element('span', { class: signed ? 'bar signs' : 'bar light' }),
      signed ? ` +${short(full)}${seen.signed ? '' : `, ${kinds.mean}`}`
          : ` ${short(full)}, ${kind === 'all' ? 'the maximum of all looks' : 'the maximum of this look'}`,
      signed ? '' : element('span', { class: 'key' }, element('span', { class: 'half' }), 'half of it or more'));
  const h = entropy(weights);
  return [element('div', {}, words), element('div', { class: 'muted' },
      `${kind === 'own' ? '' : `maximum ${short(largest(weights))} · `}entropy ${short(h)} of ${short(Math.log(n))} nats · ${grid}`),
  h > 0.999 * Math.log(n) ? element('div', { class: 'warn' }, 'Equal weights everywhere: the model is untrained, or it does not use its attention.') : null,
  ].filter(Boolean);
};

// All looks beside each other, to be read only.
export const sheet = seen => {
  const size = { width: kFilm, height: Math.round(seen.height * kFilm / seen.width) };  // nothing moves when it is painted
  const canvases = seen.looks.map(() => element('canvas', { 'aria-hidden': 'true', ...size }));
  load(seen.image).then(image => seen.looks.forEach((l, i) => paint(canvases[i], kFilm, {
    image, seen, weights: l.weights, kind: 'own', blur: false, boxes: l.boxes,
  })));
  return element('figure', { class: 'sheet' }, element('figcaption', { dir: 'auto' }, seen.title),
      element('div', { class: 'films' }, seen.looks.map((l, i) => element('span', { class: 'film' }, canvases[i],
          element('span', { dir: 'auto' }, l.label),
          element('i', {}, l.weights.length ? `${seen.signed ? '±' : ''}${short(largest(l.weights))}` : '')))));
};

// Whether all looks are the same, as those of a model that ignores its own words.
export const alike = seen => {
  const weighed = seen.looks.filter(l => l.weights.length);
  if (weighed.length < 2) return false;
  return weighed.every(l => l.weights.every((w, n) => Math.abs(w - weighed[0].weights[n]) < kEqual));
};

// For those who read: where each look was, in words.
export const table = seen => element('div', { class: 'scroll' }, element('table', {},
    element('caption', {}, 'Where each look was'),
    element('thead', {}, element('tr', {}, ['look', 'maximum at row, column', 'maximum', 'entropy, nats'].map(
        h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, seen.looks.filter(l => l.weights.length).map(l => {
      const most = l.weights.indexOf(largest(l.weights));
      return element('tr', {}, element('th', { scope: 'row', dir: 'auto' }, l.label),
          element('td', {}, place_name(seen, most)), element('td', {}, short(l.weights[most])),
          element('td', {}, short(entropy(l.weights))));
    }))));
