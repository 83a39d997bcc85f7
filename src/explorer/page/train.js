import * as api from './api.js';
import { byId, element } from './dom.js';
import { now } from './state.js';
import { open_form, open_limits } from './train_form.js';

// Trainings: cards of tasks, the queue, and what can be done with a run's own.
let begun = () => {}, fail = () => {};
export const start_training = does => { ({ begun, fail } = does); };

export const in_words = seconds => !(seconds >= 0) ? '' : seconds < 90 ? `${Math.max(1, Math.round(seconds))} s`
    : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

// How long a training on built-in data takes: as one did here, or as it was measured.
export const expected = task => {
  const here = now.runs.find(r => r.task === task.name && r.data === task.data && r.finished && r.seconds > 0);
  if (here) return `${here.name} took ${in_words(here.seconds)} here`;
  return task.seconds > 0 ? `about ${in_words(task.seconds)} of one core` : '';
};

export const begin = async asked => {
  const { run } = await api.post(['train'], asked);
  await begun(run);
};
const act = async (what, body) => {
  try {
    const { run } = await api.post(['train', what], body);
    await begun(run);
  } catch (error) {
    fail(error);
  }
};

const jobs = () => now.training.jobs ?? [];
const job_of = run => jobs().find(j => j.run === run && ['waiting', 'running'].includes(j.state));

const card = task => element('article', { class: 'card', 'data-task': task.name },
    element('h3', {}, task.title), element('p', {}, task.about), element('p', { class: 'muted' }, task.demo),
    element('div', { class: 'row' },
        element('button', {
          type: 'button', class: 'train-now', title: `Train on ${task.data}, which is built in`,
          onclick: () => begin({ task: task.name }).catch(fail),
        }, 'Train'),
        element('button', { type: 'button', class: 'train-set', onclick: () => open_form(task.name) }, 'Own file, settings …'),
        element('span', { class: 'muted' }, expected(task))));

const progress = job => now.gone ? 'the program does not answer' : job.state === 'waiting' ? 'waits for its turn'
    : `${Math.round(100 * job.done)} %` + (job.seconds_left > 0 ? `, ${in_words(job.seconds_left)} left` : '') +
      (job.per_second > 0 ? ` · ${Math.round(job.per_second).toLocaleString('en')} ${job.unit} a second` : '');

const stop_button = run => element('button', { type: 'button', class: 'stop', 'data-run': run, onclick: () => act('stop', { run }) }, 'Stop');

// Nodes stay while they stand for the same, so that whoever points at a button presses that one; only words and
// bars move.
const as_before = (place, key, make, renew) => {
  if (place.dataset.key !== key) {
    place.dataset.key = key;
    place.replaceChildren(...[make()].flat().filter(Boolean));
  }
  renew?.();
};

const unfinished = () => jobs().filter(j => j.state !== 'finished' && j.state !== 'stopped');
const row = j => element('li', { 'data-state': j.state, 'data-run': j.run }, element('b', {}, j.run), element('br'),
    j.state === 'failed' ? element('span', { class: 'error' }, j.failure)
                         : [element('span', { class: 'live' }), ' ', stop_button(j.run),
                           j.state === 'running' ? element('progress', { max: 1, value: 0, 'aria-label': `${j.run} trained` }) : null]);
const draw_queue = place => {
  const some = unfinished(), waiting = some.filter(j => j.state === 'waiting').length;
  const left = some.find(j => j.state === 'running')?.seconds_left ?? -1;
  place.hidden = !some.length;
  as_before(place, JSON.stringify(some.map(j => [j.run, j.state, j.failure])), () => [element('h3', {}, 'Trainings'),
    element('ul', {}, some.map(row)), element('p', { class: 'muted', hidden: !waiting })], () => {
    for (const j of some.filter(j => j.state !== 'failed')) {
      const node = [...place.querySelectorAll('li')].find(n => n.dataset.run === j.run);
      node.querySelector('.live').textContent = progress(j);
      if (j.state === 'running') node.querySelector('progress').value = j.done;
    }
    if (waiting) place.querySelector('p').textContent = `${waiting} more after that` + (left > 0 ? `; the next begins in about ${in_words(left)}` : '');
  });
};

let alone = false;  // there was no run yet
const draw_cards = place => {
  const { runs, tasks } = now;
  as_before(place, JSON.stringify([tasks.map(t => [t.name, expected(t)]), !runs.length]), () => [
    element('summary', {}, 'Train a model'),
    element('p', {}, runs.length ? 'On built-in data, or a file of yours.'
        : 'There is no run yet. Train one on built-in data, or on a file of yours.'),
    element('div', { class: 'cards' }, tasks.map(card))]);
  if (!runs.length) place.open = true;
  else if (alone) place.open = false;
  alone = !runs.length;
};

// Without a run, the cards have the whole page.
export const draw_training = () => {
  const place = byId('begin');
  if (!byId('cards')) {
    place.replaceChildren(element('section', { id: 'queue', 'aria-label': 'Trainings', hidden: true }), element('details', { id: 'cards' }));
  }
  document.body.classList.toggle('no-runs', !now.runs.length);
  draw_queue(byId('queue'));
  draw_cards(byId('cards'));
};

// For the run on the page: stop it, or go on with it.
export const draw_training_of = (run, place) => {
  const job = job_of(run.name), key = [run.name, job?.state, run.finished, run.resumable].join();
  as_before(place, key, () => job ? [element('span', { class: 'live' }), stop_button(run.name)] : !run.resumable ? [] : [
    run.finished ? null : element('span', {}, 'Stopped early. '),
    run.finished ? null : element('button', { type: 'button', id: 'go-on', onclick: () => act('resume', { run: run.name }) }, 'Go on'),
    element('button', { type: 'button', id: 'go-on-to', onclick: () => open_limits(run) }, run.finished ? 'Train further …' : 'Go on, with another limit …'),
  ], () => { if (job) place.querySelector('.live').textContent = `${job.state === 'waiting' ? 'In the queue' : 'Being trained'}: ${progress(job)}`; });
};

export const resume = (run, settings) => api.post(['train', 'resume'], { run, settings }).then(() => begun(run));
