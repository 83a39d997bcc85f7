import { element, short } from './dom.js';

// A text where it was looked at: a bar for each line's weight, words as dark as they weigh. A line can
// be left out, and what the model then says stands beside what it said.
export const shaded = (text, { dropped = new Set(), onDrop = null } = {}) => {
  let full = 0;
  for (const line of text.lines) {
    for (const w of line.weights) full = Math.max(full, w * line.weight);
  }
  const most = Math.max(...text.lines.map(l => l.weight), 1e-9);
  const lines = text.lines.map((line, i) => element('li', { class: dropped.has(i) ? 'dropped' : '' },
      element('button', {
        type: 'button', class: 'weight', 'aria-pressed': String(dropped.has(i)),
        title: dropped.has(i) ? 'Read this line again' : 'Leave this line out',
        'aria-label': `Line ${i + 1}, weight ${short(line.weight)}. ` +
            (dropped.has(i) ? 'Left out; press to read it again.' : 'Press to leave it out.'),
        disabled: onDrop ? undefined : true, onclick: () => onDrop?.(i),
      }, element('span', { class: 'meter' }, element('i', { 'data-share': line.weight / most })),
          short(line.weight)),
      element('span', { dir: 'auto' }, line.words.flatMap((word, j) => [
        element('mark', {
          'data-share': full > 0 ? line.weights[j] * line.weight / full : 0,
          title: `${short(line.weights[j])} of its line, ${short(line.weights[j] * line.weight)} of all`,
        }, word), ' ']))));
  const node = element('figure', { class: 'shaded' },
      element('figcaption', { dir: 'auto' }, text.title), element('ol', {}, lines));
  for (const marked of node.querySelectorAll('[data-share]')) {
    marked.style.setProperty('--w', marked.dataset.share);
  }
  return node;
};
