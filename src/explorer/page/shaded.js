import { cut, element, short, visible } from './dom.js';

// What words weigh in the whole text, and what its largest word and line come to.
export const sizes_of = text => {
  let word = 0, line = 1e-9;
  for (const l of text.lines) {
    line = Math.max(line, l.weight);
    for (const w of l.weights) word = Math.max(word, Math.abs(w * l.weight));
  }
  return { word, line };
};

// The colours of a text and what they stand for, in every view that shades one.
export const key_of = (sizes, signed) => element('p', { class: signed ? 'legend shades signs' : 'legend shades' },
    signed ? `against the output −${short(sizes.word)} ` : '0 ', element('span', { class: 'bar', 'aria-hidden': 'true' }),
    signed ? ` +${short(sizes.word)} for it` : ` ${short(sizes.word)}`,
    element('span', { class: 'muted' }, signed ? '' : ' · a word\u2019s share of all weight; full colour is the largest'));

// A text where it was looked at: a bar for each line's weight, words as dark as they weigh. A line can
// be left out, and what the model then says stands beside what it said. Signed: orange is for the output,
// blue against it, and a mark says which. `unknown`: the numbers of words that the model does not know.
export const shaded = (text, { dropped = new Set(), onDrop = null, sizes = sizes_of(text), signed = false, unknown = null, minus = false } = {}) => {
  let number = -1;
  const word = (line, text_of, j) => {
    const weight = line.weights[j] * line.weight, share = sizes.word > 0 ? weight / sizes.word : 0;
    const sign = !signed || Math.abs(share) < 0.1 ? '' : share > 0 ? '+' : '−';
    const strange = unknown?.unknown.includes(++number);
    const classes = [signed ? share < 0 ? 'less' : 'more' : '', strange ? 'strange' : ''].filter(Boolean).join(' ');
    return element('mark', {
      class: classes || undefined, 'data-share': Math.abs(share),
      title: (signed ? `${weight < 0 ? '−' : '+'}${short(Math.abs(weight))} of all`
                     : `${short(line.weights[j])} of its line, ${short(weight)} of all`) +
          (strange ? `; not in the vocabulary: the model read ${unknown.instead}` : ''),
    }, sign ? element('sup', {}, sign) : null, visible(text_of));
  };
  const lines = text.lines.map((line, i) => element('li', { class: dropped.has(i) ? 'dropped' : '' },
      element(onDrop ? 'button' : 'span', {
        type: onDrop ? 'button' : undefined, class: 'weight', 'aria-pressed': onDrop ? String(dropped.has(i)) : undefined,
        title: !onDrop ? `This line has ${short(line.weight)} of all weight` : dropped.has(i) ? 'Read this line again' : 'Leave this line out',
        'aria-label': !onDrop ? undefined : `Line ${i + 1}, weight ${short(line.weight)}. ` +
            (dropped.has(i) ? 'Left out; press to read it again.' : 'Press to leave it out.'),
        onclick: onDrop ? () => onDrop(i) : undefined,
      }, element('span', { class: 'meter' }, element('i', { 'data-share': line.weight / sizes.line })),
          short(line.weight)),
      element('span', { dir: 'auto' }, line.words.flatMap((w, j) => [word(line, w, j), ' ']))));
  const node = element('figure', { class: `shaded${signed ? ' signed' : ''}${minus ? ' minus' : ''}` },
      element('figcaption', { dir: 'auto', title: text.title }, cut(text.title)), element('ol', {}, lines), key_of(sizes, signed));
  for (const marked of node.querySelectorAll('[data-share]')) {
    marked.style.setProperty('--w', marked.dataset.share);
  }
  return node;
};
