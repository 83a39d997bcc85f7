import * as api from './api.js';
import { runs_changed } from './curves.js';
import { byId, element, keeping_focus } from './dom.js';
import { now, state } from './state.js';
import { draw_training, start_training } from './train.js';
import { told } from './trained.js';

// The list of runs.
let choose = () => {}, fail = () => {};

// Where there is little room, the list opens to choose from and closes again.
const narrow = matchMedia('(max-width: 48rem)');
export const fold = () => { byId('list').open = !narrow.matches || !now.runs.length; };

export const draw_runs = () => {
  const { runs, training } = now;
  byId('current').textContent = state.run;
  byId('runs').replaceChildren(...runs.map(r => element('li', {}, element('button', {
    type: 'button', 'aria-current': r.name === state.run ? 'true' : undefined, disabled: !!r.error,
    title: r.error || r.model, onclick: () => { awaited = ''; fold(); choose(r.name); },
  }, element('b', {}, r.name), element('span', {}, r.error || r.title + ' · ' + r.attention),
  (r.scores || []).slice(0, 2).map(s => element('span', { class: 'score' }, `${s.title} ${s.value}`)),
  r.error || r.finished ? null : element('span', { class: 'live' },
      training.running && training.run === r.name ? told(training, now.gone) : 'not finished')))));
  draw_training();
  runs_changed();
};

// Drawn anew only where something changed, so that whoever stands in the list stays there.
let latest = '', awaited = '';
export const load_runs = async () => {
  const all = await api.get('runs'), text = JSON.stringify(all) + told(all.training, false);
  if (text !== latest) {
    latest = text;
    Object.assign(now, all);
    keeping_focus(byId('list'), draw_runs);
  }
  const name = awaited;
  if (!now.runs.some(r => r.name === name)) return;
  awaited = '';
  await choose(name);
};

// A training began, went on or ended. It is shown as soon as the list has it, unless another run is chosen before:
// in a moment, or after its data were read.
const begun = async name => {
  awaited = name;
  await new Promise(done => setTimeout(done, 300));
  await load_runs();
};

export const start_runs = does => {
  ({ choose, fail } = does);
  start_training({ begun, fail });
  narrow.addEventListener('change', fold);
};
