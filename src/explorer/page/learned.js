import * as api from './api.js';
import { element, short } from './dom.js';
import { full_of, Matrix } from './matrix.js';
import { image_of, unpacked } from './pictures.js';
import { shaded, sizes_of } from './shaded.js';
import { keep, state } from './state.js';

// One held-out example while a run learned: what came of it and where the model looked, at each
// validation, by one scale. The slider goes through the steps; at its end it follows a training.
export class Learned {
  constructor(run, onStep) {
    Object.assign(this, { run, onStep, looks: [], matrix: null });
    this.slider = element('input', {
      type: 'range', min: 0, max: 0, value: 0, step: 1, id: 'steps', 'aria-label': 'Step of the training',
      oninput: () => this.choose(Number(this.slider.value)),
    });
    this.title = element('output', { for: 'steps', id: 'step' });
    this.place = element('div', {});
    this.node = element('section', { id: 'learned', hidden: true, 'aria-label': 'One example during training' },
        element('h3', {}, 'One example during training'), element('div', { class: 'row' }, this.slider, this.title), this.place);
  }

  async load() {
    const { looks } = await api.get('runs', this.run, 'looks');
    if (!looks.length || looks.at(-1).step === this.looks.at(-1)?.step) return;
    this.looks = looks.map(unpacked);
    const all = kind => this.looks.flatMap(l => l.pictures).filter(p => p.kind === kind);
    this.full = Math.max(0, ...all('heatmap').map(m => full_of(m.weights)));
    const sizes = all('shaded_text').map(sizes_of);
    this.sizes = { word: Math.max(0, ...sizes.map(s => s.word)), line: Math.max(1e-9, ...sizes.map(s => s.line)) };
    this.node.hidden = false;
    this.slider.max = looks.length - 1;
    this.slider.disabled = looks.length < 2;
    const at = this.looks.findIndex(l => String(l.step) === state.step);
    this.slider.value = at < 0 ? looks.length - 1 : at;
    this.draw(Number(this.slider.value));
  }

  choose(i) {
    keep({ step: i === this.looks.length - 1 ? '' : String(this.looks[i].step) });
    this.draw(i);
  }

  draw(i) {
    const look = this.looks[i];
    this.title.textContent = `step ${look.step}`;
    this.slider.setAttribute('aria-valuetext', `step ${look.step}`);
    const [picture] = look.pictures;
    this.matrix = picture.kind === 'heatmap' ? new Matrix({ ...picture, title: look.output }, { full: this.full }) : null;
    this.place.replaceChildren(this.matrix?.node ?? (picture.kind === 'shaded_text'
        ? shaded({ ...picture, title: `${look.output} (${short(look.step)})` }, { sizes: this.sizes }) : image_of(picture)));
    this.matrix?.draw();
    this.tell();
  }

  tell() { if (this.looks.length) this.onStep(this.looks[Number(this.slider.value)].step); }

  draw_again() { if (!this.node.hidden) this.matrix?.draw(); }
}
