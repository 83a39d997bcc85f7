import { element, short } from './dom.js';

// Dots that say what they are, and open it: by the pointer, or by Tab and arrows.
const kWidth = 420, kHeight = 300, kLeft = 46, kBottom = 38, kTop = 10, kRight = 10;

// series: [{name, dots: [{x, y, label, open}]}]; ends: [[x0, x1], [y0, y1]].
export const scatter = ({ title, x, y, series, ends, lines = [] }) => {
  const [[x0, x1], [y0, y1]] = ends;
  const px = v => kLeft + (kWidth - kLeft - kRight) * (v - x0) / (x1 - x0 || 1);
  const py = v => kHeight - kBottom - (kHeight - kBottom - kTop) * (v - y0) / (y1 - y0 || 1);
  const say = element('p', { class: 'say', role: 'status' });
  const all = series.flatMap((s, i) => s.dots.filter(d => Number.isFinite(d.x) && Number.isFinite(d.y)).map(d => ({ ...d, i, of: s.name })));
  const mark = d => {
    const at = [px(d.x).toFixed(1), py(d.y).toFixed(1)];
    return d.i % 2 ? element('rect', { class: `dot s${d.i}`, x: at[0] - 3.5, y: at[1] - 3.5, width: 7, height: 7 })
                   : element('circle', { class: `dot s${d.i}`, cx: at[0], cy: at[1], r: 4 });
  };
  const tell = d => `${d.label}: ${series.length > 1 ? d.of + ', ' : ''}${x} ${short(d.x)}, ${y} ${short(d.y)}`;
  let at = -1;
  const marks = all.map(mark);
  const point = i => {
    marks[at]?.classList.remove('on');
    at = i;
    marks[at]?.classList.add('on');
    marks[at]?.parentNode.append(marks[at]);  // above the others
    say.textContent = at < 0 ? '' : tell(all[at]);
  };
  marks.forEach((m, i) => {
    m.addEventListener('pointerenter', () => point(i));
    m.addEventListener('click', () => all[i].open());
  });
  const order = [...all.keys()].sort((a, b) => all[a].x - all[b].x || all[a].y - all[b].y);
  const drawing = element('svg', {
    viewBox: `0 0 ${kWidth} ${kHeight}`, tabindex: 0, role: 'application', class: 'scatter',
    'aria-label': `${title}: ${all.length} dots, ${y} by ${x}. Arrows go from dot to dot, Enter opens one.`,
    onkeydown: event => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (by && all.length) point(order[(order.indexOf(at) + by + order.length + (at < 0 && by < 0 ? 1 : 0)) % order.length]);
      else if (event.key === 'Enter' && at >= 0) all[at].open();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  }, element('path', { class: 'axis', d: `M${kLeft} ${kTop}V${kHeight - kBottom}H${kWidth - kRight}` }),
  lines.map(l => element('path', { class: 'guide', d: `M${px(l[0][0])} ${py(l[0][1])}L${px(l[1][0])} ${py(l[1][1])}` })),
  element('text', { x: kLeft - 6, y: py(y1) + 8, class: 'end' }, short(y1)),
  element('text', { x: kLeft - 6, y: py(y0), class: 'end' }, short(y0)),
  element('text', { x: kLeft, y: kHeight - kBottom + 15 }, short(x0)),
  element('text', { x: kWidth - kRight, y: kHeight - kBottom + 15, class: 'end' }, short(x1)),
  element('text', { x: (kLeft + kWidth) / 2, y: kHeight - 6, class: 'middle' }, x),
  element('text', { x: 0, y: 0, class: 'middle', transform: `translate(12 ${(kTop + kHeight - kBottom) / 2}) rotate(-90)` }, y),
  element('g', {}, marks));
  return element('figure', { class: 'chart' }, element('figcaption', {}, title),
      series.length > 1 ? element('div', { class: 'keys' }, series.map((s, i) => element('span', {}, element('i', { class: `s${i}` }), s.name))) : null,
      drawing, say);
};
