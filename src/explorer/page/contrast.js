import { element } from './dom.js';
import { keep, state } from './state.js';

// Why this output rather than that one. What is typed is in the address; `ask()` once it is whole.
export const contrast = ask => {
  const field = (key, label, about) => element('label', { title: about }, `${label} `, element('input', {
    type: 'text', size: 10, id: `contrast-${key}`, value: state[key], dir: 'auto', onchange: e => { keep({ [key]: e.target.value }); ask(); },
  }));
  return {
    node: element('span', { class: 'row contrast' }, field('output', 'Why', 'an output: its number from 1, a class, or a token'),
        field('against', 'rather than', 'another class or token: what speaks for the one and against the other')),
    asked: () => ({ ...(state.output && { output: state.output }), ...(state.against && { against: state.against }) }),
  };
};
