import { chart } from './chart.js';
import { element } from './dom.js';
import { measuring } from './measuring.js';

// How alike the rows of a sequence become with depth, by the code behind `fovea rank`.
export const rank = ({ run }) => {
  if (!run.blocks) return null;
  const work = measuring({
    id: 'rank', label: 'Measure', parts: ['runs', run.name, 'rank'], body: () => ({ sequences: 8 }),
    draw: ({ charts }) => [element('div', { class: 'charts' }, charts.map(chart).filter(Boolean))],
  });
  const node = element('details', { id: 'rank' }, element('summary', {}, 'Rank collapse'),
      element('p', { class: 'muted' }, 'Attention alone makes the rows of a sequence more alike with every layer; skip connections keep them apart. ' +
          'At 0 all rows are the same. Measured on eight held-out sequences.'), work.node);
  return { node };
};
