import { give } from './ask.js';
import { cut, element, visible } from './dom.js';
import { measuring } from './measuring.js';
import { scatter } from './scatter.js';
import { keep } from './state.js';

// Is the attention an explanation? Measured by the code behind `fovea faithful`, on what was held out.
const table = ({ header, rows }) => element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What was measured' }, element('table', { class: 'measured' },
    element('thead', {}, element('tr', {}, header.map(h => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, rows.map(r => element('tr', {}, r.map((c, i) =>
        i ? element('td', {}, c) : element('th', { scope: 'row' }, c)))))));

// A dot opens its example, the output's row held.
const dot = (one, x, y) => ({
  x: one[x] ?? NaN, y: one[y] ?? NaN,
  label: `‹${visible(one.output)}› of ‹${cut(one.input, 60)}›`,
  open: () => {
    give(one.input);
    keep({ row: String(one.row) });
    document.getElementById('output').scrollIntoView({ block: 'start' });
  },
});

const draw = ({ verdict, table: numbers, inputs, allowed, each }) => {
  const dots = (x, y) => each.map(one => dot(one, x, y));
  return [
    element('p', { class: 'verdict' }, element('strong', {}, verdict.slice(0, verdict.indexOf('. ') + 1)), verdict.slice(verdict.indexOf('. ') + 1)),
    element('p', { class: 'muted' }, `${each.length} outputs of ${inputs} inputs. Each dot is one output; press it to open its input.`),
    element('div', { class: 'charts' },
        scatter({
          title: 'Does attention agree with what moves the output?', x: 'τ of weights and gradient', y: 'τ of weights and leaving out',
          series: [{ name: 'outputs', dots: dots('tau_gradient', 'tau_left_out') }], ends: [[-1, 1], [-1, 1]],
          lines: [[[0, -1], [0, 1]], [[-1, 0], [1, 0]]],
        }),
        scatter({
          title: 'How much does the output change with other weights?', x: 'largest weight', y: 'change of the output', ends: [[0, 1], [0, 1]],
          series: [{ name: 'permuted', dots: dots('largest', 'permuted') }, { name: 'uniform', dots: dots('largest', 'uniform') }],
        }),
        scatter({
          title: `How different can weights be with the same output, to ${100 * allowed} %?`, x: 'largest weight',
          y: 'Jensen–Shannon distance (most 0.69)', ends: [[0, 1], [0, Math.log(2)]],
          series: [{ name: 'adversarial', dots: dots('largest', 'adversarial') }],
        })),
    table(numbers),
  ];
};

export const faithful = ({ run }) => {
  if (!run.look) return null;
  const inputs = element('input', { type: 'number', min: 1, max: 1000, value: 10, name: 'faithful-inputs' });
  const work = measuring({
    id: 'faithful', label: 'Measure', parts: ['runs', run.name, 'faithful'], body: () => ({ inputs: Number(inputs.value) }), draw,
  });
  const node = element('details', { id: 'faithful' }, element('summary', {}, 'Faithfulness'),
      element('p', { class: 'muted' }, 'Does attention explain this model? Compares its weights with gradients and with leaving inputs out, and tries other weights that give the same output.'),
      element('label', {}, 'held-out inputs ', inputs), work.node);
  return { node };
};
