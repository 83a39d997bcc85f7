import { dark, element, short, visible } from './dom.js';
import { full_of, shades } from './matrix.js';

// A map with a word in each cell, which is as dark as its weight; what else is known stands under the pointer.
export const words_of = picture => {
  const { rows, columns, words, notes, weights, signed } = picture, full = full_of(weights, signed);
  const night = dark(), table = shades(night, signed);
  const ground = w => {
    const share = Math.min(Math.max(w / full, signed ? -1 : 0), 1), at = 4 * Math.round(255 * (signed ? (share + 1) / 2 : share));
    const [r, g, b] = table.subarray(at, at + 3), light = 0.299 * r + 0.587 * g + 0.114 * b;
    return `background:rgb(${r} ${g} ${b});color:${light > 140 ? '#14171c' : '#fff'}`;
  };
  const cell = n => {
    const note = notes?.[n] ?? `${words[n]} ${short(weights[n])}`;
    const made = element('td', { title: note, dir: 'auto' }, words[n] ? visible(words[n]) : ' ');
    if (Number.isFinite(weights[n])) made.style.cssText = ground(weights[n]);
    return made;
  };
  return element('figure', { class: 'word-map' }, element('figcaption', {}, picture.title),
      element('div', { class: 'scroll' }, element('table', {},
          element('thead', {}, element('tr', {}, element('td'), columns.map(c => element('th', { scope: 'col', dir: 'auto' }, visible(c))))),
          element('tbody', {}, rows.map((row, i) => element('tr', {}, element('th', { scope: 'row' }, row),
              columns.map((_, j) => cell(i * columns.length + j))))))),
      element('p', { class: 'muted' }, `${signed ? `−${short(full)}` : '0'} to ${short(full)}, ${signed ? 'blue below 0, orange above' : 'darker is more'}`));
};
