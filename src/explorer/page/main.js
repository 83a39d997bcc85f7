import * as api from './api.js';
import { draw_answer } from './answer.js';
import { ask, beside_run, compare, draw_form, others, settings_from_address, start_asking, whole_again } from './ask.js';
import { draw_curves, draw_curves_again } from './curves.js';
import { byId, element } from './dom.js';
import { clear_panels, draw_panels_again } from './panels.js';
import { problem_of } from './problem.js';
import { draw_runs, fold, load_runs, start_runs } from './runs.js';
import { entry, forget_options, fresh_run, keep, now, onChange, state } from './state.js';
import { clear_view, draw_again, draw_candidate, draw_nothing, draw_refused, draw_view, key_of_view } from './view.js';

const kWatching = 1500, kPatient = 150;  // milliseconds
const described = api.latest();

const say = text => { byId('status').textContent = text; };
const fail = (error, { todo = '' } = {}) => {
  byId('output').replaceChildren(problem_of(error, { todo, retry: todo ? null : () => (now.run ? ask() : choose(state.run)) }));
  clear_view();
};

// ---- A run --------------------------------------------------------------------------------------

const draw_about = run => byId('about').replaceChildren(element('h2', {}, run.name),
    element('p', {}, `${run.title}: ${run.model}; attention: ${run.attention}. `,
        run.report ? element('a', { href: `/runs/${encodeURIComponent(run.name)}/report.html` }, 'Report of this run') : ''));

// A large model takes seconds to be read: nothing of the run before is on the page meanwhile.
const draw_opening = name => {
  byId('about').replaceChildren(element('h2', {}, name), element('p', { class: 'muted' }, 'This run is being opened …'));
  byId('ask').hidden = byId('curves').hidden = true;
  byId('output').replaceChildren();
  clear_view();
  clear_panels();
};

const choose = async name => {
  if (name !== state.run) {
    forget_options();
    keep({ ...fresh_run, run: name }, state.run ? entry : undefined);
    now.upload = null;
  }
  whole_again();
  draw_runs();
  const opening = setTimeout(draw_opening, kPatient, name);
  try {
    const run = await described(() => api.get('runs', name));
    if (!run) return;
    now.run = run;
  } catch (error) {
    return fail(error);
  } finally {
    clearTimeout(opening);
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

// The program answers again: perhaps another one, with a token of its own. What was shown is asked anew.
const come_back = async () => {
  await api.renew_token();
  now.gone = false;
  say('The program answers again.');
  draw_runs();
  if (state.run) await choose(state.run);
};

// Runs come, end and get better while somebody looks.
const watch = async () => {
  try {
    await watch_once();
  } finally {
    setTimeout(watch, kWatching);
  }
};
const watch_once = async () => {
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
    if (now.gone) await come_back();
  } catch (error) {
    if (!error.gone || now.gone) return;
    now.gone = true;
    say('The program does not answer. Waiting for it …');
    draw_runs();
  }
};

// ---- Keys, theme, beginning ---------------------------------------------------------------------

const toggle_help = () => {
  byId('keys').hidden = !byId('keys').hidden;
  byId('help').setAttribute('aria-expanded', String(!byId('keys').hidden));
};

// No other run, the first of them, the next …
const compare_next = () => {
  const names = ['', ...others().map(r => r.name)];
  if (names.length < 2) return say('There is no other run that takes this input.');
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
  draw_panels_again();
  draw_curves_again();
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
onChange(() => {
  now.upload = null;
  choose(state.run);
});

set_theme(localStorage.getItem('fovea-theme'));
start_runs({ choose, fail });
start_asking({
  nothing: draw_nothing,
  fail: (error, how) => {
    fail(error, how);
    if (error.refused) draw_refused();
  },
  answered: (answer, beside) => { draw_answer(answer, beside, draw_candidate); draw_view(answer, beside); },
});
try {
  await load_runs();
  fold();
  // Two runs that were named stand side by side, in the order given.
  if (!state.run && now.chosen.length > 1) keep({ run: now.chosen[0], beside: now.chosen[1] });
  const wanted = state.run, found = now.runs.find(r => r.name === wanted), first = found || now.runs.find(r => r.usable) || now.runs[0];
  if (wanted && !found) say(`There is no run ${wanted} here.${first ? ` This is ${first.name}.` : ''}`);
  if (first) await choose(first.name);
} catch (error) {
  fail(error);
}
watch();
