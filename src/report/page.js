'use strict';
(() => {
const figures = JSON.parse(document.getElementById('figures').textContent);
const frame_of = svg => svg.dataset.frame.split(' ').map(Number);
const format = v => v === 0 ? '0' : Math.abs(v) >= 1e6 || Math.abs(v) < 1e-4
    ? v.toExponential(2) : String(Number(v.toPrecision(4)));

// The pointer in the drawing's own units.
const place = (svg, event) => {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  return [(event.clientX - box.left) * view.width / box.width,
          (event.clientY - box.top) * view.height / box.height];
};

for (const svg of document.querySelectorAll('svg.lines')) {
  const data = figures[svg.dataset.i], tip = svg.parentNode.querySelector('.tip');
  const cross = svg.querySelector('.cross');
  const [left, top, width, height, x0, x1] = frame_of(svg);
  const xs = [...new Set(data.curves.flatMap(c => c.points.map(p => p[0])))].sort((a, b) => a - b);
  let at = -1;
  const hide = () => { at = -1; tip.hidden = true; cross.setAttribute('d', ''); };
  const nearest = (list, x, key) => list.reduce(
      (best, v) => Math.abs(key(v) - x) < Math.abs(key(best) - x) ? v : best, list[0]);
  const show = x => {
    at = xs.indexOf(x);
    const px = left + width * (x - x0) / (x1 - x0);
    cross.setAttribute('d', `M${px} ${top}v${height}`);
    tip.replaceChildren();
    tip.append(`${data.x} ${format(x)}`);
    data.curves.forEach((curve, i) => {
      const near = (x1 - x0) / 50, all = curve.points.map(p => p[0]);
      if (!all.length || x < Math.min(...all) - near || x > Math.max(...all) + near) return;
      const point = nearest(curve.points, x, p => p[0]);
      const line = document.createElement('div'), dot = document.createElement('i');
      const value = document.createElement('b');
      dot.className = 's' + i % 8;
      value.textContent = point[1] === null ? '–' : format(point[1]);
      line.append(dot, curve.name, value);
      tip.append(line);
    });
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const right = px * scale + 14 + tip.offsetWidth <= box.width;
    const from = right ? px * scale + 14 : px * scale - 14 - tip.offsetWidth;
    tip.style.left = Math.max(0, from) + 'px';
    tip.style.top = svg.parentNode.querySelector('.legend').offsetHeight + 14 + 'px';
  };
  const follow = event => {
    const [px] = place(svg, event);
    if (px < left - 8 || px > left + width + 8 || !xs.length) return hide();
    show(nearest(xs, x0 + (px - left) / width * (x1 - x0), v => v));
  };
  svg.addEventListener('pointermove', follow);
  svg.addEventListener('pointerdown', follow);
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !xs.length) return;
    event.preventDefault();
    show(xs[Math.min(Math.max(at + step, 0), xs.length - 1)]);
  });
}

for (const svg of document.querySelectorAll('svg.map')) {
  const data = figures[svg.dataset.i], [left, top, cell] = frame_of(svg);
  const say = svg.closest('figure').querySelector('.say');
  const band = svg.querySelector('.band'), aim = svg.querySelector('.aim');
  const rows = svg.querySelectorAll('.rows text'), columns = svg.querySelectorAll('.cols text');
  const high = data.rows.length, wide = data.columns.length;
  let at = null;
  const mark = on => {
    if (!at) return;
    rows[at[0]].classList.toggle('on', on);
    columns[at[1]].classList.toggle('on', on);
  };
  const hide = () => {
    mark(false);
    at = null;
    say.textContent = '';
    band.setAttribute('d', '');
    aim.setAttribute('d', '');
  };
  const show = (i, j) => {
    mark(false);
    at = [i, j];
    mark(true);
    const x = left + j * cell, y = top + i * cell, w = wide * cell, h = high * cell;
    band.setAttribute('d', `M${left} ${y}h${w}v${cell}h${-w}z` +
        `M${x} ${top}h${cell}v${y - top}h${-cell}z` +
        `M${x} ${y + cell}h${cell}v${top + h - y - cell}h${-cell}z`);
    aim.setAttribute('d', `M${x} ${y}h${cell}v${cell}h${-cell}z`);
    const weight = data.weights[i * wide + j];
    say.textContent = `‹${data.rows[i]}› ← ‹${data.columns[j]}› ` +
        (weight === null ? 'not a number' : weight === 0 ? '0'
            : weight.toFixed(Math.abs(weight) < 0.01 ? 4 : 2));
  };
  const follow = event => {
    const [px, py] = place(svg, event);
    const i = Math.floor((py - top) / cell), j = Math.floor((px - left) / cell);
    if (i < 0 || j < 0 || i >= high || j >= wide) return hide();
    show(i, j);
  };
  svg.addEventListener('pointermove', follow);
  svg.addEventListener('pointerdown', follow);
  svg.addEventListener('pointerleave', event => event.pointerType === 'mouse' && hide());
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const by = step[event.key];
    if (!by) return;
    event.preventDefault();
    const [i, j] = at || [0, -by[1]];
    show(Math.min(Math.max(i + by[0], 0), high - 1), Math.min(Math.max(j + by[1], 0), wide - 1));
  });
}
})();
