import { element, short } from './dom.js';

// What words weigh in the whole text, and what its largest word and line come to.
export const sizes_of = text => {
  let word = 0, line = 1e-9;
  for (const l of text.lines) {
    line = Math.max(line, l.weight);
    for (const w of l.weights) word = Math.max(word, Math.abs(w * l.weight));
  }
  return { word, line };
};

// A text where it was looked at: a bar for each line's weight, words as dark as they weigh. A line can
// be left out, and what the model then says stands beside what it said. Signed: orange is more, blue
// less, and a mark says which.
export const shaded = (text, { dropped = new Set(), onDrop = null, sizes = sizes_of(text), signed = false } = {}) => {
  const word = (line, text_of, j) => {
    const weight = line.weights[j] * line.weight, share = sizes.word > 0 ? weight / sizes.word : 0;
    const sign = !signed || Math.abs(share) < 0.1 ? '' : share > 0 ? '+' : '−';
    return element('mark', {
      class: !signed ? undefined : share < 0 ? 'less' : 'more', 'data-share': Math.abs(share),
      title: signed ? `${sign}${short(Math.abs(weight))} of all`
                    : `${short(line.weights[j])} of its line, ${short(weight)} of all`,
    }, sign ? element('sup', {}, sign) : null, text_of);
  };
  const lines = text.lines.map((line, i) => element('li', { class: dropped.has(i) ? 'dropped' : '' },
      signed ? element('span', {}) : element('button', {
        type: 'button', class: 'weight', 'aria-pressed': String(dropped.has(i)),
        title: dropped.has(i) ? 'Read this line again' : 'Leave this line out',
        'aria-label': `Line ${i + 1}, weight ${short(line.weight)}. ` +
            (dropped.has(i) ? 'Left out; press to read it again.' : 'Press to leave it out.'),
        disabled: onDrop ? undefined : true, onclick: () => onDrop?.(i),
      }, element('span', { class: 'meter' }, element('i', { 'data-share': line.weight / sizes.line })),
          short(line.weight)),
      element('span', { dir: 'auto' }, line.words.flatMap((w, j) => [word(line, w, j), ' ']))));
  const node = element('figure', { class: signed ? 'shaded signed' : 'shaded' },
      element('figcaption', { dir: 'auto' }, text.title), element('ol', {}, lines));
  for (const marked of node.querySelectorAll('[data-share]')) {
    marked.style.setProperty('--w', marked.dataset.share);
  }
  return node;
};
