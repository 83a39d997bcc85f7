import { byId, element } from './dom.js';
import { now, state } from './state.js';

// Examples that are images, to be chosen by sight.
export const draw_gallery = pick => {
  const some = now.run.examples.filter(e => e.image);
  byId('gallery').hidden = !some.length;
  byId('held-out').hidden = some.length > 0;
  byId('gallery').replaceChildren(...some.map(e => element('button', {
    type: 'button', title: `${e.input}: ${e.expected}`, 'aria-label': `${e.input}: ${e.expected}`,
    'aria-pressed': String(!now.upload && e.input === state.input), 'data-input': e.input, onclick: () => pick(e.input),
  }, element('img', { src: `data:image/png;base64,${e.image}`, alt: '' }))));
};

export const mark_gallery = () => {
  for (const b of byId('gallery').children) {
    b.setAttribute('aria-pressed', String(!now.upload && b.dataset.input === state.input));
  }
  byId('dropped-name').textContent = now.upload
      ? `${now.upload.name} is shown. It is not in the address: whoever opens the address does not see it.` : '';
};
