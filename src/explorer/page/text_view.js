import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { shaded } from './shaded.js';
import { now } from './state.js';

// The text that was read, its words as dark as they weigh.
export const text_view = (texts, { ask }) => {
  if (!now.dropped.size) [now.whole] = texts;
  const onDrop = i => {
    const { dropped, whole } = now;
    if (!dropped.delete(i)) dropped.add(i);
    if (dropped.size >= whole.lines.length) dropped.delete(i);
    ask();
  };
  return {
    nodes: [element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' }, export_buttons(() => texts)),
      shaded(now.whole, { dropped: now.dropped, onDrop })],
  };
};
