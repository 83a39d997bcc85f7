import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { image_of } from './pictures.js';

// Pictures of a kind that has no view of its own here, as the program draws them.
export const drawn_view = pictures => ({
  nodes: [element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' }, export_buttons(() => pictures)),
    ...pictures.map(image_of)],
});
