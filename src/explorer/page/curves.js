import { element, short } from './dom.js';

// Lines over steps, with the values under the pointer.
const kWidth = 640, kHeight = 200, kLeft = 60, kBottom = 22, kTop = 8;

const thinned = (points, most = 400) => {
  if (points.length <= most) return points;
  const each = points.length / most;
  return Array.from({ length: most }, (_, i) => points[Math.min(Math.floor((i + 1) * each) - 1, points.length - 1)]);
};

export const chart = ({ x, y, curves: given, log = false }) => {
  // On a logarithmic axis, what is 0 has no place.
  const shown = p => log ? [p[0], Math.log10(p[1])] : p;
  const curves = given.map(c => ({ ...c, points: c.points.filter(p => Number.isFinite(p[1]) && (!log || p[1] > 0)).map(shown) }));
  const value = v => short(log ? 10 ** v : v);
  const all = curves.flatMap(c => c.points).filter(p => Number.isFinite(p[0]) && Number.isFinite(p[1]));
  if (!all.length) return null;
  const ends = i => [Math.min(...thinned(all, 5000).map(p => p[i])), Math.max(...thinned(all, 5000).map(p => p[i]))];
  const [x0, x1] = ends(0), [y0, y1] = ends(1);
  const px = v => kLeft + (kWidth - kLeft - 8) * (v - x0) / (x1 - x0 || 1);
  const py = v => kHeight - kBottom - (kHeight - kBottom - kTop) * (v - y0) / (y1 - y0 || 1);
  const line = (c, i) => element('path', {
    class: `line s${i % 8} d${i % 4}`,
    d: thinned(c.points).map((p, k) => `${k ? 'L' : 'M'}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join(''),
  });
  const cursor = element('path', { class: 'cursor' });
  const say = element('p', { class: 'say', role: 'status' });
  const drawing = element('svg', {
    viewBox: `0 0 ${kWidth} ${kHeight}`, role: 'img', tabindex: 0,
    'aria-label': `${y} by ${x}: ` + curves.filter(c => c.points.length).map(
        c => `${c.name} ends at ${value(c.points.at(-1)[1])}`).join(', '),
  }, element('path', { class: 'axis', d: `M${kLeft} ${kTop}V${kHeight - kBottom}H${kWidth - 8}` }),
  element('text', { x: kLeft - 6, y: py(y1) + 4, class: 'end' }, value(y1)),
  element('text', { x: kLeft - 6, y: py(y0) + 4, class: 'end' }, value(y0)),
  element('text', { x: kLeft, y: kHeight - 6 }, short(x0)),
  element('text', { x: kWidth - 8, y: kHeight - 6, class: 'end' }, `${x} ${short(x1)}`),
  curves.map(line), cursor);
  const tell = at => {
    say.textContent = `${x} ${short(at)}: ` + curves.filter(c => c.points.length).map(c => {
      const near = c.points.reduce((b, p) => Math.abs(p[0] - at) < Math.abs(b[0] - at) ? p : b);
      return `${c.name} ${value(near[1])}`;
    }).join(', ');
  };
  drawing.addEventListener('pointermove', e => {
    const box = drawing.getBoundingClientRect();
    const at = (e.clientX - box.left) / box.width * kWidth;
    tell(x0 + (at - kLeft) / (kWidth - kLeft - 8) * (x1 - x0));
  });
  const keys = element('div', { class: 'keys' }, curves.filter(c => c.points.length).map((c, i) =>
      element('span', {}, element('i', { class: `s${i % 8}` }), c.name)));
  const figure = element('figure', { class: 'chart' }, element('figcaption', {}, y), keys, drawing, say);
  // A line at this x, as other parts of the page have it.
  figure.mark = at => cursor.setAttribute('d', at >= x0 && at <= x1 ? `M${px(at).toFixed(1)} ${kTop}V${kHeight - kBottom}` : '');
  return figure;
};
