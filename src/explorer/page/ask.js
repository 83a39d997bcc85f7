import * as api from './api.js';
import { byId, element } from './dom.js';
import { draw_gallery, mark_gallery } from './gallery.js';
import { keep, keep_option, now, option, state } from './state.js';

// The input, and what is asked with it.
const kTyping = 200;      // milliseconds
const kMostBytes = 11e6;  // of a file; as base64 it has to pass the server's 16 MB
const kLabels = { prefix: 'begins with' };
const asked = api.latest();
let answered = () => {}, fail = () => {};

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
  byId('ask').querySelector('label[for=input]').textContent = text ? 'Input' : "Input: one of the run's own, by name";
  byId('input').placeholder = text ? `At most ${Math.floor(run.most_text / 1024)} KB of text` : '';
  byId('drop').hidden = text;
  if (!state.input && run.examples.length) keep({ input: run.examples[0].input });
  byId('input').value = now.upload ? '' : state.input;
  draw_gallery(input => give(input));
  mark_gallery();
  byId('examples').replaceChildren(element('option', { value: '' }, run.examples.length ? 'choose one …' : 'none'),
      ...run.examples.map((e, i) => element('option', { value: i }, e.input.length > 80 ? e.input.slice(0, 79) + '…' : e.input)));
  byId('options').replaceChildren(...Object.entries(run.options).filter(
      ([, value]) => ['number', 'boolean', 'string'].includes(typeof value)).map(([name, value]) => {
    const kind = { number: 'number', boolean: 'checkbox', string: 'text' }[typeof value];
    const change = wait => {
      settings[name] = kind === 'checkbox' ? field.checked : kind === 'number' ? Number(field.value) : field.value;
      keep_option(name, settings[name] === value ? undefined : settings[name]);
      clearTimeout(give.waiting);
      give.waiting = setTimeout(ask, wait);
    };
    const field = element('input', {
      type: kind, step: 'any', value: settings[name] ?? value, name, dir: 'auto', autocomplete: 'off', spellcheck: 'false',
      checked: (settings[name] ?? value) === true ? true : undefined,
      [kind === 'text' ? 'oninput' : 'onchange']: () => change(kind === 'text' ? kTyping : 0),
    });
    return element('label', {}, kLabels[name] ?? name, ' ', field);
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

// The runs that the one on the page can be compared with: same task, same input.
export const others = () => now.runs.filter(
    r => r.usable && r.name !== state.run && r.task === now.run?.task && r.input === 'text');
export const beside_run = () => others().find(r => r.name === state.beside);

const draw_beside = () => {
  const some = others();
  byId('beside').replaceChildren(element('option', { value: '' }, some.length ? 'no other run' : 'there is no other'),
      ...some.map(r => element('option', { value: r.name }, r.name)));
  byId('beside').value = beside_run() ? state.beside : '';
  byId('compare').hidden = now.run.input !== 'text';
};

// Side by side with this run; with none, alone again.
export const compare = name => {
  keep({ beside: name });
  draw_beside();
  ask();
};

export const ask = async () => {
  if (!usable()) return;
  byId('output').setAttribute('aria-busy', 'true');
  try {
    const body = { ...question(), settings: now.settings };
    const of = (name, signal) => api.post(['runs', name, 'predict'], body, signal);
    const answers = await asked(signal => Promise.all([of(now.run.name, signal),
      ...beside_run() ? [of(state.beside, signal)] : []]));
    if (answers) answered(...answers);
  } catch (error) {
    fail(error);
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
  keep({ input, row: '' });
  if (byId('input').value !== input) byId('input').value = input;
  now.upload = null;
  mark_gallery();
  whole_again();
  clearTimeout(give.waiting);
  give.waiting = setTimeout(ask, wait);
};

const take_file = async given => {
  if (given.size > kMostBytes) {
    return fail(new Error(`${given.name} has ${Math.ceil(given.size / 1e6)} MB; at most ${kMostBytes / 1e6} are taken.`));
  }
  now.upload = { name: given.name, file: api.packed(new Uint8Array(await given.arrayBuffer())) };
  keep({ row: '' });
  byId('input').value = '';
  mark_gallery();
  await ask();
};

export const start_asking = does => {
  ({ answered, fail } = does);
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
