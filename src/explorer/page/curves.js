import * as api from './api.js';
import { chart } from './chart.js';
import { byId, element, short } from './dom.js';
import { Learned } from './learned.js';
import { keep, now, state } from './state.js';
import { draw_training_of } from './train.js';

// Under a run: its training as curves, those of other runs in the same charts, and one example while it
// learned. What is chosen is in the address: with=RUN,RUN, smooth=0.6, log=yes.
let learned = null, charts = [], shown = '', logs = {};

const others_shown = () => (state.with ?? '').split(',').filter(n => n && n !== state.run && now.runs.some(r => r.name === n));
const smooth = () => Math.min(Math.max(Number(state.smooth ?? 0) || 0, 0), 0.99);

// A run keeps its colour as long as it is shown; a curve of a run its dash.
const better_of = (y, curve) => y === 'loss' ? (curve === 'validation' ? 'lower' : undefined) : y === 'validation score' ? 'higher' : undefined;
const merged = names => {
  const by_title = new Map();
  names.forEach((name, r) => {
    for (const { x, y, log, curves } of logs[name] ?? []) {
      if (!by_title.has(y)) by_title.set(y, { x, y, log, curves: [] });
      curves.forEach((c, i) => by_title.get(y).curves.push({
        ...c, name: names.length > 1 ? `${name}: ${c.name}` : c.name, better: better_of(y, c.name),
        ...(names.length > 1 ? { colour: r % 8, dash: i % 4 } : {}),
      }));
    }
  });
  return [...by_title.values()];
};

// In words: what each run came to.
const summary = (all, names) => {
  const rows = all.flatMap(({ y, curves }) => curves.filter(c => c.better && c.points.length).map(c => {
    const points = c.points.filter(p => Number.isFinite(p[1]));
    if (!points.length) return null;
    const best = points.reduce((b, p) => (c.better === 'lower' ? p[1] < b[1] : p[1] > b[1]) ? p : b), last = points.at(-1);
    return element('tr', {}, element('th', { scope: 'row' }, y === 'loss' ? `${c.name} loss` : c.name), element('td', {}, short(best[1])),
        element('td', {}, short(best[0])), element('td', {}, short(last[1])), element('td', {}, short(last[0])));
  })).filter(Boolean);
  return rows.length ? element('div', { class: 'scroll' }, element('table', { class: 'came-to' },
      element('caption', {}, 'Best and last values'),
      element('thead', {}, element('tr', {}, ['', 'best', 'at step', 'last', 'at step'].map(h => element('th', { scope: 'col' }, h)))),
      element('tbody', {}, rows))) : null;
};

const redraw = () => {
  const place = byId('charts');
  if (!place || document.activeElement?.closest('#charts svg')) return;  // somebody reads a chart by the arrows
  const names = [state.run, ...others_shown()], log = state.log === 'yes';
  const all = merged(names);
  charts = all.map(c => chart({ ...c, log: log || c.log }, { smooth: smooth(), words: names.length === 1 })).filter(Boolean);
  place.replaceChildren(element('div', { class: 'charts' }, charts), summary(all, names) ?? '');
  learned?.tell();
};

const fetch_logs = async names => {
  const got = await Promise.all(names.map(n => api.get('runs', n, 'log').then(l => l.charts, () => null)));
  names.forEach((n, i) => { if (got[i]) logs[n] = got[i]; });
};

const choose_others = async names => {
  keep({ with: names.join(',') || undefined });
  await fetch_logs(names);
  draw_toolbar();
  redraw();
};

// What can be set of the charts.
const draw_toolbar = () => {
  const chosen = others_shown(), rest = now.runs.filter(r => !r.error && r.name !== state.run && !chosen.includes(r.name));
  const add = element('select', {
    id: 'add-run', 'aria-label': 'Add a run to the charts', disabled: rest.length ? undefined : true,
    onchange: e => e.target.value && choose_others([...chosen, e.target.value]),
  }, element('option', { value: '' }, rest.length ? 'add a run …' : 'no other run'),
  rest.map(r => element('option', { value: r.name }, r.name)));
  byId('charts-bar').replaceChildren(
      element('label', {}, 'Smoothing ', element('input', {
        type: 'range', id: 'smooth', min: 0, max: 0.99, step: 0.01, value: smooth(),
        oninput: e => { keep({ smooth: Number(e.target.value) ? e.target.value : undefined }); redraw(); },
      })),
      element('label', {}, element('input', {
        type: 'checkbox', id: 'log-scale', checked: state.log === 'yes' ? true : undefined,
        onchange: e => { keep({ log: e.target.checked ? 'yes' : undefined }); redraw(); },
      }), ' Log scale'),
      element('span', { class: 'with-runs' }, 'In the same charts: ', chosen.map((n, i) => element('button', {
        type: 'button', class: 'chip', title: `Take ${n} out of the charts`, onclick: () => choose_others(chosen.filter(c => c !== n)),
      }, element('i', { class: `swatch s${(i + 1) % 8}`, 'aria-hidden': 'true' }), `${n} ×`)), add));
};

export const draw_curves = async () => {
  const name = state.run;
  try {
    if (shown !== name) {
      shown = name;
      logs = {};
      learned = new Learned(name, step => { for (const c of charts) c.mark(step); });
      byId('curves').replaceChildren(element('h2', {}, 'Training'), element('div', { id: 'training-now', class: 'toolbar' }),
          element('div', { id: 'charts-bar', class: 'toolbar', role: 'toolbar', 'aria-label': 'Charts' }), element('div', { id: 'charts' }), learned.node);
      draw_toolbar();
    }
    const run = now.runs.find(r => r.name === name);
    byId('curves').hidden = !!run?.finished && !run.report;  // a model that others trained
    if (run) draw_training_of(run, byId('training-now'));
    await fetch_logs([name, ...others_shown()]);
    if (name !== state.run) return;
    redraw();
    await learned.load();
    learned.tell();
  } catch {  // it has not begun to write
  }
};

// Another size, other colours, or the list of runs is another.
export const draw_curves_again = () => {
  learned?.draw_again();
};
export const runs_changed = () => {
  if (!byId('charts-bar') || byId('charts-bar').contains(document.activeElement)) return;
  draw_toolbar();
  const run = now.runs.find(r => r.name === shown);
  if (run) draw_training_of(run, byId('training-now'));
};
