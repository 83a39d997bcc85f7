import { element } from './dom.js';
import { export_buttons } from './exported.js';
import { shaded } from './shaded.js';
import { keep, listed, now, state } from './state.js';

// The text that was read, its words as dark as they weigh. Lines that are left out are in the address.
export const text_view = (texts, { ask }) => {
  if (!now.dropped.size) [now.whole] = texts;
  const onDrop = i => {
    const { dropped, whole } = now;
    if (!dropped.delete(i)) dropped.add(i);
    if (dropped.size >= whole.lines.length) dropped.delete(i);
    keep({ without: [...dropped].sort((a, b) => a - b).join(',') });
    ask();
  };
  // The whole was asked first, so that its lines are known.
  const restore = () => {
    const wanted = listed(state.without).map(Number).filter(i => i >= 0 && i < now.whole.lines.length);
    if (now.dropped.size || !wanted.length || wanted.length >= now.whole.lines.length) return;
    now.dropped = new Set(wanted);
    ask();
  };
  return {
    nodes: [element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' }, export_buttons(() => texts)),
      shaded(now.whole, { dropped: now.dropped, onDrop, unknown: now.read })],
    begin: restore,
  };
};
