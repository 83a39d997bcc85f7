import * as api from './api.js';
import { element } from './dom.js';
import { problem_of } from './problem.js';

// A button that begins long work, how far it has come, how long it will take, and a button that ends
// it. What came of it is drawn by `draw(answer)`.
const time_left = seconds => seconds < 90 ? `${Math.ceil(seconds)} s left` : `${Math.round(seconds / 60)} min left`;

export const measuring = ({ id, label, parts, body, draw }) => {
  const result = element('div', { id: `${id}-result`, 'aria-live': 'polite' });
  const bar = element('progress', { max: 1, value: 0, hidden: true, 'aria-label': label });
  const left = element('span', { class: 'muted', role: 'status' });
  let running = null;
  const begin = element('button', { type: 'button', id: `${id}-begin` }, label);
  const cancel = element('button', { type: 'button', id: `${id}-cancel`, hidden: true, onclick: () => running?.abort() }, 'Cancel');
  begin.addEventListener('click', async () => {
    running = new AbortController();
    const began = performance.now();
    begin.disabled = true;
    bar.hidden = cancel.hidden = false;
    bar.value = 0;
    left.textContent = 'started …';
    try {
      const answer = await api.measure(parts, body(), running.signal, share => {
        const seconds = (performance.now() - began) / 1000;
        bar.value = share;
        left.textContent = `${Math.round(100 * share)} %` + (share > 0.02 ? `, ${time_left(seconds * (1 - share) / share)}` : '');
      });
      left.textContent = '';
      result.replaceChildren(...draw(answer).filter(Boolean));
    } catch (error) {
      left.textContent = error.name === 'AbortError' ? 'cancelled' : '';
      if (error.name !== 'AbortError') result.replaceChildren(problem_of(error, { retry: () => begin.click() }));
    } finally {
      begin.disabled = false;
      bar.hidden = cancel.hidden = true;
      running = null;
    }
  });
  const clear = () => {
    running?.abort();
    left.textContent = '';
    result.replaceChildren();
  };
  return { node: element('div', { class: 'measuring' }, element('div', { class: 'row' }, begin, bar, cancel, left), result), begin: () => begin.click(), clear };
};
