import { element } from './dom.js';

// An image and where it was looked at, as the program draws it.
const picture = (src, i, name) => element('figure', { class: 'picture' },
    element('img', { src, alt: 'The image, and once more for each look or glimpse' }),
    element('figcaption', {}, element('a', { href: src, download: `fovea-${name}-${i + 1}.svg` }, 'SVG')));

export const picture_view = ({ pictures }, { run }) => !pictures.length ? null : {
  nodes: pictures.map((svg, i) => picture(`data:image/svg+xml;base64,${svg}`, i, run.name)),
};
