import * as api from './api.js';
import { draw_answer } from './answer.js';
import { ask, beside_run, compare, draw_form, others, settings_from_address, start_asking, whole_again } from './ask.js';
import { chart } from './curves.js';
import { byId, element } from './dom.js';
import { Learned } from './learned.js';
import { clear_panels } from './panels.js';
import { draw_runs, fold, load_runs, start_runs } from './runs.js';
import { forget_options, keep, now, onChange, state } from './state.js';
import { clear_view, draw_again, draw_view, key_of_view } from './view.js';

const kWatching = 1500;  // milliseconds
const described = api.latest();

const say = text => { byId('status').textContent = text; };
const fail = error => {
  byId('output').replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
  clear_view();
};

// ---- A run --------------------------------------------------------------------------------------

const draw_about = run => byId('about').replaceChildren(element('h2', {}, run.name),
    element('p', {}, `${run.title}: ${run.model}; attention: ${run.attention}. `,
        run.finished ? element('a', { href: `/runs/${encodeURIComponent(run.name)}/report.html` }, 'Its report') : ''));

let learned = null, curves = [];

const draw_curves = async () => {
  const name = state.run;
  try {
    if (learned?.run !== name) {
      learned = new Learned(name, step => { for (const c of curves) c.mark(step); });
      byId('curves').replaceChildren(element('div', { class: 'charts' }), learned.node);
    }
    const { charts } = await api.get('runs', name, 'log');
    if (name !== state.run) return;
    curves = charts.map(chart).filter(Boolean);
    byId('curves').firstChild.replaceChildren(...curves);
    await learned.load();
    learned.tell();
  } catch {  // it has not begun to write
  }
};

const choose = async name => {
  if (name !== state.run) {
    forget_options();
    keep({ run: name, input: '', row: '', map: '0', beside: '', step: '' });
    now.upload = null;
  }
  whole_again();
  draw_runs();
  try {
    const run = await described(() => api.get('runs', name));
    if (!run) return;
    now.run = run;
  } catch (error) {
    return fail(error);
  }
  const { run } = now;
  now.settings = settings_from_address(run);
  draw_about(run);
  draw_form();
  byId('output').replaceChildren();
  clear_view();
  clear_panels();
  draw_curves();
  await ask();
};

// Runs come, end and get better while somebody looks.
const watch = async () => {
  try {
    if (!document.hidden) {
      const shown = () => now.runs.find(r => r.name === state.run);
      const before = shown();
      await load_runs();
      const after = shown();
      if (after && !after.finished) await draw_curves();
      if (after && before && (after.usable !== before.usable || after.finished !== before.finished)) {
        await choose(state.run);
      }
    }
    if (byId('status').textContent === 'The program has ended.') say('');
  } catch {
    say('The program has ended.');
  }
  setTimeout(watch, kWatching);
};

// ---- Keys, theme, beginning ---------------------------------------------------------------------

const toggle_help = () => {
  byId('keys').hidden = !byId('keys').hidden;
  byId('help').setAttribute('aria-expanded', String(!byId('keys').hidden));
};

// No other run, the first of them, the next …
const compare_next = () => {
  const names = ['', ...others().map(r => r.name)];
  if (names.length < 2) return say('There is no other run of this task to compare with.');
  compare(names[(names.indexOf(beside_run()?.name ?? '') + 1) % names.length]);
};

const keys = {
  'x': compare_next,
  '/': () => byId('input').focus(), '?': toggle_help,
  'e': () => document.querySelector('.export button')?.focus(),
};

addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (['TEXTAREA', 'INPUT', 'SELECT'].includes(event.target.tagName)) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const act = keys[event.key] ?? key_of_view(event.key);
  if (!act) return;
  event.preventDefault();
  act();
});

const draw_all = () => {
  draw_again();
  learned?.draw_again();
};

const set_theme = theme => {
  if (theme) document.documentElement.dataset.theme = theme;
  draw_all();
};

byId('theme').addEventListener('click', () => {
  const night = getComputedStyle(document.documentElement).getPropertyValue('--night').trim() === '1';
  const theme = night ? 'light' : 'dark';
  localStorage.setItem('fovea-theme', theme);
  set_theme(theme);
});
byId('help').addEventListener('click', toggle_help);
let resized = 0;
addEventListener('resize', () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(draw_all);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw_all);
onChange(() => choose(state.run));

set_theme(localStorage.getItem('fovea-theme'));
start_runs({ choose, fail });
start_asking({ fail, answered: (answer, beside) => { draw_answer(answer, beside); draw_view(answer.predictions, beside?.predictions); } });
try {
  await load_runs();
  fold();
  const first = now.runs.find(r => r.name === state.run) || now.runs.find(r => r.usable) || now.runs[0];
  if (first) await choose(first.name);
} catch (error) {
  fail(error);
}
watch();
