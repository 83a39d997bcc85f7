import { dark, element, redrawn, short, visible } from './dom.js';
import { full_of, scale_bar, shades } from './matrix.js';

// A map with a word in each cell, coloured by its weight; signed ones have the number before it. What else is
// known of a cell is said below: of the one that is pointed at, pressed, or reached by the arrows.

// Black or white, whichever is told better from the ground: by the relative luminances of WCAG one of them has a
// contrast of 4.58 or more.
const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const ink_on = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179 ? '#000' : '#fff';

const with_sign = w => (w > 0 ? '+' : '') + short(w).replace('-', '−');

export const words_of = picture => {
  const { rows, columns, words, notes, weights, signed } = picture, full = full_of(weights, signed), wide = columns.length;
  const note = n => notes?.[n] ?? `${visible(words[n])} ${short(weights[n])}`;
  const said = n => !Number.isFinite(weights[n]) ? ' ' : !signed ? visible(words[n])
      : [with_sign(weights[n]), words[n] ? element('i', {}, ` ${visible(words[n])}`) : ''];
  const cells = Array.from(weights, (_, n) => element('td', { title: note(n), dir: 'auto', 'data-cell': n }, said(n)));
  const bar = scale_bar();
  const paint = () => {
    const table = shades(dark(), signed);
    bar.paint(table);
    cells.forEach((cell, n) => {
      if (!Number.isFinite(weights[n])) return;
      const share = Math.min(Math.max(weights[n] / full, signed ? -1 : 0), 1);
      const at = 4 * Math.round(255 * (signed ? (share + 1) / 2 : share)), ground = table.subarray(at, at + 3);
      cell.style.cssText = `background:rgb(${ground.join(' ')});color:${ink_on(ground)}`;
    });
  };
  const say = element('p', { class: 'say', role: 'status' });
  let here = -1;
  const show = n => {
    cells[here]?.classList.remove('here');
    cells[here = n]?.classList.add('here');
    say.textContent = n < 0 ? '' : note(n);
  };
  const point = event => { const cell = event.target.closest('[data-cell]'); if (cell) show(Number(cell.dataset.cell)); };
  const key = event => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by || !cells.length) return;
    const within = (x, n) => Math.min(Math.max(x, 0), n - 1);
    show(here < 0 ? 0 : within(Math.floor(here / wide) + by[0], rows.length) * wide + within(here % wide + by[1], wide));
    cells[here].scrollIntoView({ block: 'nearest', inline: 'nearest' });
    event.preventDefault();
    event.stopPropagation();
  };
  paint();
  return redrawn(element('figure', { class: 'word-map' }, element('figcaption', {}, picture.title),
      element('div', {
        class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${picture.title}. Arrows go from cell to cell.`,
        onpointerover: point, onclick: point, onkeydown: key,
      }, element('table', {},
          element('thead', {}, element('tr', {}, element('td'), columns.map(c => element('th', { scope: 'col', dir: 'auto' }, visible(c))))),
          element('tbody', {}, rows.map((row, i) => element('tr', {}, element('th', { scope: 'row' }, row), cells.slice(i * wide, (i + 1) * wide)))))),
      say, element('div', { class: 'legend' }, signed ? `− ${short(full)} ` : '0 ', bar.node, ` ${signed ? '+ ' : ''}${short(full)}`)), paint);
};
