import * as api from './api.js';
import { byId, element } from './dom.js';
import { keep, keep_option, now, option, state } from './state.js';

// The input, and what is asked with it.
const kTyping = 200;  // milliseconds
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
  byId('input').hidden = !text;
  byId('ask').querySelector('label[for=input]').hidden = !text;
  byId('drop').hidden = text;
  if (!state.input && run.examples.length) keep({ input: run.examples[0].input });
  byId('input').value = state.input;
  byId('examples').replaceChildren(element('option', { value: '' }, run.examples.length ? 'choose one …' : 'none'),
      ...run.examples.map((e, i) => element('option', { value: i }, e.input.length > 80 ? e.input.slice(0, 79) + '…' : e.input)));
  byId('options').replaceChildren(...Object.entries(run.options).filter(
      ([, value]) => ['number', 'boolean', 'string'].includes(typeof value)).map(([name, value]) => {
    const kind = { number: 'number', boolean: 'checkbox', string: 'text' }[typeof value];
    const set = wait => {
      settings[name] = kind === 'checkbox' ? field.checked : kind === 'number' ? Number(field.value) : field.value;
      keep_option(name, settings[name] === value ? undefined : settings[name]);
      clearTimeout(give.waiting);
      give.waiting = setTimeout(ask, wait);
    };
    const field = element('input', {
      type: kind, step: 'any', value: settings[name] ?? value, name, dir: 'auto', autocomplete: 'off', spellcheck: 'false',
      checked: (settings[name] ?? value) === true ? true : undefined,
      [kind === 'text' ? 'oninput' : 'onchange']: () => set(kind === 'text' ? kTyping : 0),
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

// Another input, from now on.
export const give = (input, wait = 0) => {
  keep({ input, row: '' });
  if (byId('input').value !== input) byId('input').value = input;
  now.upload = null;
  whole_again();
  clearTimeout(give.waiting);
  give.waiting = setTimeout(ask, wait);
};

const take_file = async given => {
  const bytes = new Uint8Array(await given.arrayBuffer());
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  now.upload = { name: given.name, file: btoa(text) };
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
