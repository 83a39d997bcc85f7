import * as api from './api.js';
import { element } from './dom.js';
import { Matrix } from './matrix.js';
import { sheet } from './seen.js';
import { shaded } from './shaded.js';
import { words_of } from './words.js';

// Pictures as the server sends them, {kind, title, …}: wherever there are cells, with their weights.
export const unpacked = part => {
  if (Array.isArray(part)) return part.map(unpacked);
  if (part === null || typeof part !== 'object') return part;
  const made = Object.fromEntries(Object.entries(part).map(([key, value]) => [key, unpacked(value)]));
  if ('cells' in made) made.weights = api.unpacked(made.cells);
  return made;
};

// As the program draws them: {format: svg, png, csv, json, html} → a blob.
export const drawn = (format, pictures) => api.file(['draw', format], { pictures });

// A picture of a kind that this page has no view for, drawn by the program.
export const image_of = picture => {
  const image = element('img', { alt: picture.title });
  drawn('svg', [picture]).then(svg => {
    image.src = URL.createObjectURL(svg);
    image.onload = () => URL.revokeObjectURL(image.src);
  }, error => image.replaceWith(error.message));
  return element('figure', { class: 'drawn' }, element('div', { class: 'scroll' }, image));
};

// To be read only: {node, draw()}, the latter once it is on the page.
export const figure_of = picture => {
  if (picture.kind === 'heatmap') {
    const matrix = new Matrix(picture, { full: picture.full });
    return { node: matrix.node, draw: () => matrix.draw() };
  }
  const nodes = { seen_image: sheet, word_map: words_of, shaded_text: text => shaded(text, { signed: text.signed }) };
  return { node: (nodes[picture.kind] ?? image_of)(picture), draw: () => {} };
};
