import * as api from './api.js';
import { byId, element } from './dom.js';
import { now, state } from './state.js';

// The list of runs, and a training begun from the page.
let choose = () => {}, fail = () => {};

// Where there is little room, the list opens to choose from and closes again.
const narrow = matchMedia('(max-width: 48rem)');
export const fold = () => { byId('list').open = !narrow.matches || !now.runs.length; };

export const draw_runs = () => {
  const { runs, training, tasks } = now;
  byId('current').textContent = state.run;
  byId('runs').replaceChildren(...runs.map(r => element('li', {}, element('button', {
    type: 'button', 'aria-current': r.name === state.run ? 'true' : undefined, disabled: !!r.error,
    title: r.error || r.model, onclick: () => { fold(); choose(r.name); },
  }, element('b', {}, r.name), element('span', {}, r.error || r.title + ' · ' + r.attention),
  (r.scores || []).slice(0, 2).map(s => element('span', { class: 'score' }, `${s.title} ${s.value}`)),
  r.error || r.finished ? null : element('span', { class: 'live' },
      training.running && training.run === r.name ? `training, ${Math.round(100 * training.done)} %`
                                                  : 'not finished')))));
  byId('begin').replaceChildren(
      element('div', {}, element('p', {}, runs.length
          ? 'Train on built-in data' : 'There is no run yet. Train one on built-in data; the first takes a minute.'),
      tasks.map(t => element('button', {
        type: 'button', title: t.about, disabled: training.running ? true : undefined,
        onclick: () => train(t.name),
      }, t.title))),
      training.failure ? element('p', { class: 'error' }, training.failure) : '');
};

// Drawn anew only where something changed, so that whoever stands in the list stays there.
let latest = '';
export const load_runs = async () => {
  const all = await api.get('runs'), text = JSON.stringify(all);
  if (text === latest) return;
  latest = text;
  Object.assign(now, all);
  draw_runs();
};

const train = async task => {
  try {
    const { run: name } = await api.post(['train'], { task });
    await new Promise(done => setTimeout(done, 300));
    await load_runs();
    choose(name);
  } catch (error) {
    fail(error);
  }
};

export const start_runs = does => {
  ({ choose, fail } = does);
  narrow.addEventListener('change', fold);
};
