import * as api from './api.js';
import { chart } from './curves.js';
import { byId, element, short } from './dom.js';
import { inside } from './inside.js';
import { Links } from './links.js';
import { Matrix } from './matrix.js';
import { shaded } from './shaded.js';
import { keep, onChange, state } from './state.js';

const kTyping = 200, kWatching = 1500;  // milliseconds
const asked = api.latest(), described = api.latest();
let runs = [], training = {}, run = null, settings = {};
let shown = { maps: [], texts: [], pictures: [] }, matrix = null, links = null;
let dropped = new Set(), whole = null, upload = null;

const say = text => { byId('status').textContent = text; };
const fail = error => {
  byId('output').replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
  byId('view').replaceChildren();
};

// ---- Runs ---------------------------------------------------------------------------------------

const draw_runs = () => {
  byId('runs').replaceChildren(...runs.map(r => element('li', {}, element('button', {
    type: 'button', 'aria-current': r.name === state.run ? 'true' : undefined, disabled: !!r.error,
    title: r.error || r.model, onclick: () => choose(r.name),
  }, element('b', {}, r.name), element('span', {}, r.error || r.title + ' · ' + r.attention),
  (r.scores || []).slice(0, 2).map(s => element('span', { class: 'score' }, `${s.title} ${s.value}`)),
  r.error || r.finished ? null : element('span', { class: 'live' },
      training.running && training.run === r.name ? `training, ${Math.round(100 * training.done)} %`
                                                  : 'not finished')))));
  const begin = tasks => element('div', {}, element('p', {}, runs.length
      ? 'Train on built-in data' : 'There is no run yet. Train one on built-in data; the first takes a minute.'),
  tasks.map(t => element('button', {
    type: 'button', title: t.about, disabled: training.running ? true : undefined,
    onclick: () => train(t.name),
  }, t.title)));
  byId('begin').replaceChildren(begin(tasks),
      training.failure ? element('p', { class: 'error' }, training.failure) : '');
};

let tasks = [];
const load_runs = async () => {
  const all = await api.get('runs');
  ({ runs, training, tasks } = all);
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

// Runs come, end and get better while somebody looks.
const watch = async () => {
  try {
    if (!document.hidden) {
      const before = runs.find(r => r.name === state.run);
      await load_runs();
      const now = runs.find(r => r.name === state.run);
      if (now && !now.finished) await draw_curves();
      if (now && before && (now.usable !== before.usable || now.finished !== before.finished)) {
        await choose(state.run);
      }
    }
    if (byId('status').textContent === 'The program has ended.') say('');
  } catch {
    say('The program has ended.');
  }
  setTimeout(watch, kWatching);
};

const draw_about = () => {
  byId('about').replaceChildren(element('h2', {}, run.name),
      element('p', {}, `${run.title}: ${run.model}; attention: ${run.attention}. `,
          run.finished ? element('a', { href: `/runs/${encodeURIComponent(run.name)}/report.html` }, 'Its report') : ''));
};

const choose = async name => {
  if (name !== state.run) {
    keep({ run: name, input: '', row: '', map: '0' });
    upload = null;
  }
  dropped = new Set();
  whole = null;
  draw_runs();
  try {
    run = await described(() => api.get('runs', name));
    if (!run) return;
  } catch (error) {
    return fail(error);
  }
  settings = run.scored && 'n-best' in run.options ? { 'n-best': 8 } : {};  // classes side by side
  draw_about();
  draw_form();
  byId('output').replaceChildren();
  byId('view').replaceChildren();
  draw_curves();
  if (run.usable) await ask();
};

const draw_curves = async () => {
  const name = state.run;
  try {
    const { charts } = await api.get('runs', name, 'log');
    if (name === state.run) byId('curves').replaceChildren(...charts.map(chart).filter(Boolean));
  } catch {  // it has not begun to write
  }
};

// ---- The input ----------------------------------------------------------------------------------

const draw_form = () => {
  const text = run.input === 'text';
  byId('ask').hidden = !run.usable;
  byId('input').hidden = !text;
  byId('ask').querySelector('label[for=input]').hidden = !text;
  byId('drop').hidden = text;
  if (!state.input && run.examples.length) keep({ input: run.examples[0].input });
  byId('input').value = state.input;
  byId('examples').replaceChildren(element('option', { value: '' }, run.examples.length ? 'choose one …' : 'none'),
      ...run.examples.map((e, i) => element('option', { value: i }, e.input.length > 80 ? e.input.slice(0, 79) + '…' : e.input)));
  byId('options').replaceChildren(...Object.entries(run.options).filter(
      ([, value]) => ['number', 'boolean'].includes(typeof value)).map(([name, value]) => {
    const field = element('input', {
      type: typeof value === 'number' ? 'number' : 'checkbox', step: 'any', value: settings[name] ?? value, name,
      checked: value === true ? true : undefined,
      onchange: () => {
        settings[name] = field.type === 'checkbox' ? field.checked : Number(field.value);
        ask();
      },
    });
    return element('label', {}, name + ' ', field);
  }));
};

const typed = () => {
  keep({ input: byId('input').value, row: '' });
  dropped = new Set();
  whole = null;
  clearTimeout(typed.waiting);
  typed.waiting = setTimeout(ask, kTyping);
};

const take_file = async given => {
  const bytes = new Uint8Array(await given.arrayBuffer());
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  upload = { name: given.name, file: btoa(text) };
  await ask();
};

// What is asked: the input without the lines that are left out.
const question = () => {
  if (run.input !== 'text') return upload ? { name: upload.name, file: upload.file } : { input: state.input };
  if (!dropped.size) return { input: state.input };
  return { input: whole.lines.filter((_, i) => !dropped.has(i)).map(l => l.words.join(' ')).join('\n') };
};

const ask = async () => {
  if (!run?.usable || (run.input === 'text' ? !state.input : !upload && !state.input)) return;
  byId('output').setAttribute('aria-busy', 'true');
  try {
    const answer = await asked(signal => api.post(['runs', run.name, 'predict'], { ...question(), settings }, signal));
    if (answer) draw_answer(answer);
  } catch (error) {
    fail(error);
  } finally {
    byId('output').removeAttribute('aria-busy');
  }
};

// ---- The answer ---------------------------------------------------------------------------------

const unpacked = prediction => ({
  maps: prediction.maps.map(m => ({ ...m, weights: api.unpacked(m.cells) })),
  pictures: prediction.pictures.map(svg => `data:image/svg+xml;base64,${svg}`),
  texts: prediction.texts.map(t => ({ ...t, lines: t.lines.map(l => ({ ...l, weights: api.unpacked(l.cells) })) })),
});

let before = null;  // what was said of the whole text

const share = p => {
  const bar = element('span', { class: 'meter', 'aria-hidden': 'true' }, element('i'));
  bar.firstChild.style.setProperty('--w', Math.min(Math.max(p, 0), 1));
  return bar;
};

const draw_answer = ({ predictions, seconds }) => {
  const expected = run.examples.find(e => e.input === state.input)?.expected;
  if (!dropped.size) before = predictions;
  const score = p => Number.isFinite(p.score) ? short(p.score) : '';
  byId('output').replaceChildren(
      element('ol', { class: 'predictions' }, predictions.map(p => element('li', { dir: 'auto' },
          element('span', { class: 'said' }, p.text || '(nothing)'), p.ended ? '' : ' …',
          element('span', { class: 'score' }, score(p)), run.scored ? share(p.score) : null))),
      element('p', { class: 'muted' },
          expected !== undefined && !dropped.size ? (expected === predictions[0]?.text ? 'as expected' : `expected ${expected}`) + ' · ' : '',
          dropped.size ? `${dropped.size} left out; of the whole it said ${before?.[0]?.text} ${before?.[0] ? score(before[0]) : ''} · ` : '',
          `${short(1000 * seconds)} ms`));
  shown = predictions.length ? unpacked(predictions[0]) : { maps: [], texts: [], pictures: [] };
  draw_view();
};

const draw_view = () => {
  const { maps, texts, pictures } = shown, view = byId('view');
  matrix = links = null;
  if (!maps.length && !texts.length && !pictures.length) {
    view.replaceChildren(element('p', { class: 'muted' }, `This model shows no weights (${run.attention}).`));
    return look_inside(view);
  }
  const parts = pictures.length ? pictures.map(draw_picture) : [toolbar(maps)];
  const map = maps[Math.min(Number(state.map) || 0, maps.length - 1)];
  if (map) {
    const row = i => links?.show(i);
    matrix = new Matrix(map, {
      scale: state.scale, onRow: row,
      onHold: i => { keep({ row: i >= 0 ? String(i) : '' }); row(i); },
    });
    links = new Links(map, {
      onHover: i => links.show(i >= 0 ? i : matrix.held),
      onHold: i => { matrix.at = null; matrix.hold(i); links.show(matrix.held); },
    });
    parts.push(matrix.node, links.node);
    if (state.table) parts.push(matrix.table());
  }
  if (texts.length && !dropped.size) [whole] = texts;
  if (texts.length) {
    parts.push(shaded(whole, {
      dropped,
      onDrop: i => {
        if (!dropped.delete(i)) dropped.add(i);
        if (dropped.size >= whole.lines.length) dropped.delete(i);
        ask();
      },
    }));
  }
  parts.push(element('p', { class: 'muted' }, 'Where the model looked, not why it answered.'));
  view.replaceChildren(...parts);
  look_inside(view);
  matrix?.draw();
  if (matrix && state.row !== '' && Number(state.row) < map.rows.length) matrix.hold(Number(state.row));
};

// Kept open from one answer to the next, but asked anew.
const look_inside = async view => {
  if (run.input !== 'text') return;
  const mine = shown, was = byId('inside');
  try {
    const node = await inside(() => ({ run: run.name, input: question().input }),
        () => matrix?.at ?? (matrix?.held >= 0 ? [matrix.held, 0] : null));
    if (mine === shown) view.append(node);
    if (was?.open) node.open = true;
  } catch (error) {
    say(error.message);
  }
};

// An image and where it was looked at, as the program draws it.
const draw_picture = (src, i) => element('figure', { class: 'picture' },
    element('img', { src, alt: 'The image, and once more for each look or glimpse' }),
    element('figcaption', {}, element('a', { href: src, download: `fovea-${run.name}-${i + 1}.svg` }, 'SVG')));

const toolbar = maps => element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' },
    maps.length > 1 ? element('select', {
      'aria-label': 'Which picture', id: 'which',
      onchange: e => { keep({ map: e.target.value, row: '' }); draw_view(); },
    }, maps.map((m, i) => element('option', { value: i, selected: String(i) === state.map ? true : undefined }, m.title || `picture ${i + 1}`))) : null,
    maps.length ? element('button', { type: 'button', id: 'scale', onclick: rescale },
        state.scale === 'row' ? 'Scale: row' : 'Scale: all') : null,
    maps.length ? element('button', {
      type: 'button', id: 'as-table', 'aria-pressed': String(!!state.table),
      onclick: () => { keep({ table: state.table ? '' : 'yes' }); draw_view(); },
    }, 'Table') : null,
    element('span', { class: 'export', role: 'group', 'aria-label': 'Export' }, 'Export ',
        ['svg', 'png', 'csv', 'json', 'html'].map(format => element('button', {
          type: 'button', 'data-format': format, onclick: () => save(format),
        }, format.toUpperCase()))));

const rescale = () => {
  keep({ scale: state.scale === 'row' ? 'one' : 'row' });
  matrix?.set_scale(state.scale);
  byId('scale').textContent = state.scale === 'row' ? 'Scale: row' : 'Scale: all';
};

// Drawn by the program, by the code behind its commands.
const save = async format => {
  const plain = ({ title, rows, columns, cells, signed }) => ({ title, rows, columns, cells, signed });
  const map = shown.maps[Math.min(Number(state.map) || 0, shown.maps.length - 1)];
  const texts = shown.texts.map(({ title, lines }) => ({
    title, lines: lines.map(({ weight, words, cells }) => ({ weight, words, cells })),
  }));
  try {
    const blob = await api.file(['draw', format], { maps: map ? [plain(map)] : [], texts: map ? [] : texts });
    const link = element('a', { href: URL.createObjectURL(blob), download: `fovea-${run.name}.${format}` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`Saved fovea-${run.name}.${format}`);
  } catch (error) {
    say(error.message);
  }
};

// ---- Keys, theme, beginning ---------------------------------------------------------------------

const toggle_help = () => {
  byId('keys').hidden = !byId('keys').hidden;
  byId('help').setAttribute('aria-expanded', String(!byId('keys').hidden));
};

const next_map = by => {
  if (shown.maps.length < 2) return;
  const n = shown.maps.length;
  keep({ map: String((Number(state.map) + by + n) % n), row: '' });
  draw_view();
};

addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = ['TEXTAREA', 'INPUT', 'SELECT'].includes(event.target.tagName);
  if (writing) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const act = {
    '/': () => byId('input').focus(), '?': toggle_help, 'n': rescale,
    '[': () => next_map(-1), ']': () => next_map(1),
    't': () => { keep({ table: state.table ? '' : 'yes' }); draw_view(); },
    'e': () => document.querySelector('.export button')?.focus(),
    'Escape': () => matrix?.held >= 0 && matrix.hold(matrix.held),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const set_theme = theme => {
  if (theme) document.documentElement.dataset.theme = theme;
  matrix?.draw();
};

byId('theme').addEventListener('click', () => {
  const night = getComputedStyle(document.documentElement).getPropertyValue('--night').trim() === '1';
  const theme = night ? 'light' : 'dark';
  localStorage.setItem('fovea-theme', theme);
  set_theme(theme);
});
byId('help').addEventListener('click', toggle_help);
byId('ask').addEventListener('submit', event => event.preventDefault());
byId('input').addEventListener('input', typed);
byId('examples').addEventListener('change', event => {
  const example = run.examples[event.target.value];
  if (!example) return;
  byId('input').value = example.input;
  upload = null;
  typed();
});
byId('file').addEventListener('change', event => event.target.files[0] && take_file(event.target.files[0]));
for (const name of ['dragover', 'drop']) {
  addEventListener(name, event => {
    event.preventDefault();
    if (name === 'drop' && run?.input !== 'text' && event.dataTransfer.files[0]) take_file(event.dataTransfer.files[0]);
  });
}
let resized = 0;
addEventListener('resize', () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(() => { matrix?.draw(); links?.show(matrix?.held ?? -1); });
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => matrix?.draw());
onChange(() => choose(state.run));

set_theme(localStorage.getItem('fovea-theme'));
try {
  await load_runs();
  const first = runs.find(r => r.name === state.run) || runs.find(r => r.usable) || runs[0];
  if (first) await choose(first.name);
} catch (error) {
  fail(error);
}
watch();
