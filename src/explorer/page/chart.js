import { element, short } from './dom.js';

// Lines over steps: grid and ticks, a linear or a logarithmic axis, raw under smoothed, the best and the
// last value marked with words, and the values under the pointer or the arrow keys.
const kHeight = 250, kLeft = 58, kRight = 14, kTop = 12, kBottom = 36;

// At most so many, the ends among them.
const thinned = (points, most = 400) => {
  if (points.length <= most) return points;
  return Array.from({ length: most }, (_, i) => points[Math.round(i * (points.length - 1) / (most - 1))]);
};

// An exponential moving average with weight w, its start not drawn towards 0 (as TensorBoard has it).
export const smoothed = (points, w) => {
  if (!(w > 0)) return points;
  let mean = 0, weight = 1;
  return points.map(([x, y]) => {
    mean = w * mean + (1 - w) * y;
    weight *= w;
    return [x, mean / (1 - weight)];
  });
};

// Round numbers from low to high: 1, 2 or 5 times a power of ten apart.
export const ticks = (low, high, about = 5) => {
  if (!(high > low)) return [low];
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
};
// Of logarithms: powers of ten, with 2 and 5 times them where there are few.
const log_ticks = (low, high) => {
  const every = high - low < 2 ? [1, 2, 5] : [1], made = [];
  for (let p = Math.floor(low); p <= Math.ceil(high); ++p) {
    for (const m of every) made.push(p + Math.log10(m));
  }
  const inside = made.filter(t => t >= low - 1e-9 && t <= high + 1e-9);
  return inside.length > 2 ? inside : ticks(10 ** low, 10 ** high).filter(t => t > 0).map(Math.log10);
};
const tick_name = v => Math.abs(v) >= 1e4 ? `${short(v / 1000)}k` : v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential().replace('e-', 'e−') : String(Number(v.toPrecision(4)));

// Where the points are, with a little room above and below; one value alone stands in the middle.
const ends_of = (values, room) => {
  let low = Infinity, high = -Infinity;
  for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low === high) return room ? [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1] : [low - 1, high + 1];
  return room ? [low - 0.06 * (high - low), high + 0.06 * (high - low)] : [low, high];
};

const nearest = (points, x) => {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - points[low - 1][0] < points[low][0] - x ? points[low - 1] : points[low];
};

const best_of = ({ points, better }) => !better || points.length < 2 ? null
    : points.reduce((b, p) => (better === 'lower' ? p[1] < b[1] : p[1] > b[1]) ? p : b);

// curves: [{name, points: [[x, y]…], colour, dash, better: 'lower', 'higher' or nothing}]. A point that is
// no number is left out; on a logarithmic axis, so is what is not above 0.
export const chart = ({ x, y, curves: given, log = false }, { smooth = 0, words = true } = {}) => {
  const curves = given.map((c, i) => ({
    colour: i % 8, dash: given.length > 1 ? i % 4 : 0, ...c,
    points: c.points.filter(p => Number.isFinite(p[0]) && Number.isFinite(p[1]) && (!log || p[1] > 0)),
  })).filter(c => c.points.length);
  if (!curves.length) return null;
  const width = innerWidth < 560 ? 380 : 640;  // so that words can be read on a phone
  const up = v => log ? Math.log10(v) : v;
  const all = curves.flatMap(c => thinned(c.points, 4000));
  const [x0, x1] = ends_of(all.map(p => p[0]), false), [y0, y1] = ends_of(all.map(p => up(p[1])), true);
  const px = v => kLeft + (width - kLeft - kRight) * (v - x0) / (x1 - x0);
  const py = v => kHeight - kBottom - (kHeight - kBottom - kTop) * (up(v) - y0) / (y1 - y0);
  const path = points => thinned(points).map((p, k) => `${k ? 'L' : 'M'}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join('');

  const grid = element('g', { 'aria-hidden': 'true' },
      (log ? log_ticks(y0, y1).map(t => 10 ** t) : ticks(y0, y1)).map(t => [
        element('path', { class: 'grid', d: `M${kLeft} ${py(t).toFixed(1)}H${width - kRight}` }),
        element('text', { x: kLeft - 6, y: py(t) + 4, class: 'end' }, tick_name(t))]).flat(),
      ticks(x0, x1, 6).map(t => [
        element('path', { class: 'grid', d: `M${px(t).toFixed(1)} ${kTop}V${kHeight - kBottom}` }),
        element('text', { x: px(t), y: kHeight - kBottom + 15, class: 'middle' }, tick_name(t))]).flat(),
      element('path', { class: 'axis', d: `M${kLeft} ${kTop}V${kHeight - kBottom}H${width - kRight}` }),
      element('text', { x: width - kRight, y: kHeight - 6, class: 'end' }, x));

  const line = c => {
    if (c.points.length === 1) return [element('circle', { class: `point s${c.colour}`, r: 4, cx: px(c.points[0][0]), cy: py(c.points[0][1]) })];
    const stroke = faint => `line s${c.colour} d${c.dash}${faint ? ' raw' : ''}`;
    if (!(smooth > 0)) return [element('path', { class: stroke(false), d: path(c.points) })];
    return [element('path', { class: stroke(true), d: path(c.points) }),
      element('path', { class: stroke(false), d: path(smoothed(c.points, smooth).filter(p => !log || p[1] > 0)) })];
  };
  // The best and the last, with words where there is room for them: above the point, else below it, else none.
  const taken = [];
  const place_for = (text, mx, my) => {
    const late = mx > 0.7 * width, wide = 7 * text.length, x0 = late ? mx - 8 - wide : mx + 8;
    for (const y of [Math.max(my - 7, kTop + 8), my + 17, my - 21]) {
      const box = [x0, y - 11, x0 + wide, y + 2];
      if (y < kTop + 6 || y > kHeight - kBottom - 2 || taken.some(t => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) continue;
      taken.push(box);
      return element('text', { class: `word-mark ${late ? 'end' : ''}`, x: mx + (late ? -8 : 8), y }, text);
    }
    return null;
  };
  const mark = (c, point, word) => {
    const [mx, my] = [px(point[0]), py(point[1])];
    return [element('circle', { class: `mark s${c.colour}`, r: 4.5, cx: mx, cy: my }),
      words ? place_for(`${word} ${short(point[1])}`, mx, my) : null];
  };
  const marks = curves.flatMap(c => {
    const best = best_of(c), last = c.points.at(-1);
    if (!c.better) return [];
    if (!best || best === last) return mark(c, last, best ? 'best and last' : 'last');
    return [...mark(c, best, 'best'), ...mark(c, last, 'last')];
  });

  const cursor = element('path', { class: 'cursor' }), at_step = element('path', { class: 'cursor here' });
  const say = element('p', { class: 'say', role: 'status' });
  const drawing = element('svg', {
    viewBox: `0 0 ${width} ${kHeight}`, role: 'img', tabindex: 0,
    'aria-label': `${y} by ${x}: ` + curves.map(c => `${c.name} ends at ${short(c.points.at(-1)[1])}`).join(', '),
  }, grid, curves.map(line).flat(), marks, cursor, at_step);

  let at = null;
  const vertical = v => v >= x0 && v <= x1 ? `M${px(v).toFixed(1)} ${kTop}V${kHeight - kBottom}` : '';
  const tell = v => {
    at = Math.min(Math.max(v, x0), x1);
    at_step.setAttribute('d', vertical(at));
    say.textContent = `${x} ${short(nearest(curves[0].points, at)[0])}: ` +
        curves.map(c => `${c.name} ${short(nearest(c.points, at)[1])}`).join(', ');
  };
  drawing.addEventListener('pointermove', e => {
    const box = drawing.getBoundingClientRect();
    tell(x0 + ((e.clientX - box.left) / box.width * width - kLeft) / (width - kLeft - kRight) * (x1 - x0));
  });
  drawing.addEventListener('pointerleave', () => { at_step.setAttribute('d', ''); say.textContent = ''; at = null; });
  drawing.addEventListener('keydown', e => {
    const by = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -2, End: 2 }[e.key];
    if (!by) return;
    tell((at ?? (by > 0 ? x0 : x1)) + by * (x1 - x0));
    e.preventDefault();
    e.stopPropagation();
  });
  const keys = element('div', { class: 'keys' }, curves.map(c =>
      element('span', {}, element('svg', { class: 'key', viewBox: '0 0 28 6', 'aria-hidden': 'true' }, element('path', { class: `line s${c.colour} d${c.dash}`, d: 'M0 3H28' })), c.name)));
  const figure = element('figure', { class: 'chart' }, element('figcaption', {}, y, log && !y.includes('log scale') ? element('span', { class: 'muted' }, ', log scale') : null), keys, drawing, say);
  // A line at this x, as other parts of the page have it.
  figure.mark = v => cursor.setAttribute('d', vertical(v));
  return figure;
};
