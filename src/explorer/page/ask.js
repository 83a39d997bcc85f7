import * as api from './api.js';
import { byId, cut, element } from './dom.js';
import { draw_gallery, mark_gallery } from './gallery.js';
import { mark_unknown, start_read } from './read.js';
import { fresh_input, keep, keep_option, now, option, state } from './state.js';

// The input, and what is asked with it.
const kTyping = 200;      // milliseconds
const kMostBytes = 11e6;  // of a file; as base64 it has to pass the server's 16 MB
const kLabels = {
  'prefix': 'output begins with', 'n-best': 'candidates (n-best)', 'beam': 'beam width', 'length-power': 'length penalty',
  'longest': 'longest output, in tokens (0: automatic)', 'passes': 'sampled passes to average (0: as trained)', 'ways': 'sampled paths', 'places': 'places shown', 'length': 'tokens to write',
};
// Settings whose first value leaves it to the model: what that value is.
const kItsOwn = { 'length': 0, 'beam': 0, 'top-p': 0, 'temperature': -1, 'top-k': -1 };
const label_of = (name, first) => `${kLabels[name] ?? name}${kItsOwn[name] === first ? ` (${first}: as the model says)` : ''}`.replace('(-', '(−');
const kOfFiles = ['class-column'];  // of settings, those that are about files of the command line
const asked = api.latest();
let answered = () => {}, fail = () => {}, nothing = () => {};
let filled = '';  // the run whose first example was put into the empty form

const usable = () => now.run?.usable && (now.run.input === 'text' ? state.input : now.upload || state.input);

// As the address has them; classes stand side by side.
export const settings_from_address = run => {
  const settings = run.scored && 'n-best' in run.options ? { 'n-best': 8 } : {};
  for (const [name, value] of Object.entries(run.options)) {
    const said = option(name);
    if (said === undefined) continue;
    settings[name] = typeof value === 'number' ? Number(said) : typeof value === 'boolean' ? said === 'true' : said;
  }
  return settings;
};

export const whole_again = () => {
  now.dropped = new Set();
  now.whole = null;
};

export const draw_form = () => {
  const { run, settings } = now, text = run.input === 'text';
  byId('ask').hidden = !run.usable;
  byId('input').rows = text ? 2 : 1;
  byId('ask').querySelector('label[for=input]').textContent = text ? 'Input' : "Input: one of the run's own images, by sight or by name";
  byId('input').placeholder = text ? `At most ${Math.floor(run.most_text / 1024)} KB of text` : '';
  byId('drop').hidden = text;
  if (!state.input && run.examples.length && filled !== run.name) keep({ input: run.examples[0].input });
  filled = run.name;
  byId('input').value = now.upload ? '' : state.input;
  draw_gallery(input => give(input));
  mark_gallery();
  byId('examples').replaceChildren(element('option', { value: '' }, run.examples.length ? 'choose one …' : 'none'),
      ...run.examples.map((e, i) => element('option', { value: i }, cut(e.input))));
  byId('options').replaceChildren(...Object.entries(run.options).filter(
      ([name, value]) => !kOfFiles.includes(name) && ['number', 'boolean', 'string'].includes(typeof value)).map(([name, value]) => {
    const kind = { number: 'number', boolean: 'checkbox', string: 'text' }[typeof value];
    const change = wait => {
      settings[name] = kind === 'checkbox' ? field.checked : kind === 'text' ? field.value : field.value === '' ? value : Number(field.value);
      keep_option(name, settings[name] === value ? undefined : settings[name]);
      clearTimeout(give.waiting);
      give.waiting = setTimeout(ask, wait);
    };
    const field = element('input', {
      type: kind, step: 'any', value: settings[name] ?? value, name, dir: 'auto', autocomplete: 'off', spellcheck: 'false',
      checked: (settings[name] ?? value) === true ? true : undefined,
      [kind === 'text' ? 'oninput' : 'onchange']: () => change(kind === 'text' ? kTyping : 0),
    });
    return element('label', {}, label_of(name, value), ' ', field);
  }));
  draw_beside();
};

// What is asked: the input without the lines that are left out.
export const question = () => {
  if (now.run.input !== 'text') {
    return now.upload ? { name: now.upload.name, file: now.upload.file } : { input: state.input };
  }
  if (!now.dropped.size) return { input: state.input };
  return { input: now.whole.lines.filter((_, i) => !now.dropped.has(i)).map(l => l.words.join(' ')).join('\n') };
};

// The runs that the one on the page can be compared with: all that take the same input. The name of one of
// a run's own images means nothing to runs of other data.
export const others = () => now.runs.filter(r => r.usable && r.name !== state.run && r.input === now.run?.input &&
    (r.input === 'text' || now.upload || (r.task === now.run.task && r.data === now.run.data)));
export const beside_run = () => others().find(r => r.name === state.beside);

const kin = r => r.task !== now.run.task ? 'Other tasks' : r.data !== now.run.data ? 'Other data' : 'Same data';
export const draw_beside = () => {
  const some = others(), group = name => {
    const runs = some.filter(r => kin(r) === name);
    return runs.length ? element('optgroup', { label: name }, runs.map(r => element('option', { value: r.name }, r.name))) : null;
  };
  byId('beside').replaceChildren(...[element('option', { value: '' }, some.length ? 'no other run' : 'there is no other'),
    group('Same data'), group('Other data'), group('Other tasks')].filter(Boolean));
  byId('beside').value = beside_run() ? state.beside : '';
  byId('compare').hidden = !some.length && now.run.input !== 'text';
};

// What the run beside says of itself, asked once.
const known = new Map();
const described = async (name, signal) => {
  if (!known.has(name)) known.set(name, await api.get('runs', name));
  if (signal.aborted) throw new DOMException('', 'AbortError');
  return known.get(name);
};

// A run without attention shows its Jacobian: how much each input moves each output.
const jacobian_of = async (run, answer, signal) => {
  const [best] = answer.predictions;
  if (!best || best.pictures.length || !run.ways.includes('jacobian')) return;
  const { pictures } = await api.post(['runs', run.name, 'explain'], { ...question(), by: ['jacobian'] }, signal);
  best.pictures = pictures.map(p => ({ ...p, by: 'jacobian' }));
};

// The same question to the run beside, by those of the settings that it has. What it cannot answer is said
// in its place.
const answer_beside = async (body, signal) => {
  try {
    const run = await described(state.beside, signal);
    const settings = Object.fromEntries(Object.entries(body.settings).filter(([name]) => name in run.options));
    if (run.scored && 'n-best' in run.options) settings['n-best'] ??= 8;
    const answer = await api.post(['runs', run.name, 'predict'], { ...body, settings }, signal);
    await jacobian_of(run, answer, signal);
    return { ...answer, run };
  } catch (error) {
    if (error.name === 'AbortError' || error.gone) throw error;
    return { run: beside_run(), predictions: [], error };
  }
};

// Side by side with this run; with none, alone again.
export const compare = name => {
  keep({ beside: name });
  draw_beside();
  ask();
};

// Gives the error that it failed with, or null.
export const ask = async () => {
  if (!usable()) {
    asked(() => null);  // nobody waits for the former question
    mark_unknown([]);
    nothing();
    return null;
  }
  byId('output').setAttribute('aria-busy', 'true');
  try {
    const body = { ...question(), settings: now.settings }, beside = beside_run();
    const answers = await asked(async signal => {
      const [own, other] = await Promise.all([
        api.post(['runs', now.run.name, 'predict'], body, signal), beside ? answer_beside(body, signal) : null]);
      if (beside) await jacobian_of(now.run, own, signal);
      return [own, other];
    });
    if (!answers) return null;
    const [own, other] = answers;
    now.read = now.dropped.size ? null : own.read ?? null;
    mark_unknown(now.dropped.size ? [] : [{ name: now.run.name, read: own.read }, ...other ? [{ name: other.run.name, read: other.read }] : []]);
    answered(own, other);
    return null;
  } catch (error) {
    error.message = error.message.replace(/^settings: ([\w-]+) /, (_, name) => `${kLabels[name] ?? name} `);  // as its field is labelled
    fail(error);
    return error;
  } finally {
    byId('output').removeAttribute('aria-busy');
  }
};

// Another setting of the predictions, from now on.
export const set = (name, value) => {
  now.settings[name] = value;
  keep_option(name, value === now.run.options[name] ? undefined : value);
  draw_form();
  ask();
};

// Another input, from now on.
export const give = (input, wait = 0) => {
  keep({ ...fresh_input, input });
  mark_unknown([]);
  if (byId('input').value !== input) byId('input').value = input;
  now.upload = null;
  mark_gallery();
  whole_again();
  clearTimeout(give.waiting);
  give.waiting = setTimeout(ask, wait);
};

const kFiles = `Choose a PNG or JPEG file of at most ${kMostBytes / 1e6} MB and 25 million pixels, or one of the run's own images.`;

const take_file = async given => {
  if (given.size > kMostBytes) {
    return fail(new Error(`${given.name} has ${Math.ceil(given.size / 1e6)} MB; at most ${kMostBytes / 1e6} are taken.`), { todo: kFiles });
  }
  now.upload = { name: given.name, file: api.packed(new Uint8Array(await given.arrayBuffer())) };
  keep(fresh_input);
  byId('input').value = '';
  const mine = now.upload, error = await ask();
  if (error && !error.gone && now.upload === mine) {
    now.upload = null;
    fail(new Error(`${given.name} cannot be shown: ${error.message}`), { todo: kFiles });
  }
  mark_gallery();
  draw_beside();
};

export const start_asking = does => {
  ({ answered, fail, nothing } = does);
  start_read();
  byId('ask').addEventListener('submit', event => event.preventDefault());
  byId('input').addEventListener('input', () => give(byId('input').value, kTyping));
  byId('beside').addEventListener('change', event => compare(event.target.value));
  byId('examples').addEventListener('change', event => {
    const example = now.run.examples[event.target.value];
    if (example) give(example.input);
  });
  byId('file').addEventListener('change', event => event.target.files[0] && take_file(event.target.files[0]));
  for (const name of ['dragover', 'drop']) {
    addEventListener(name, event => {
      event.preventDefault();
      const file = event.dataTransfer.files[0];
      if (name === 'drop' && now.run?.input !== 'text' && file) take_file(file);
    });
  }
};
