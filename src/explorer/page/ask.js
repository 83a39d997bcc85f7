import * as api from './api.js';
import { byId, element } from './dom.js';
import { keep, now, state } from './state.js';

// The input, and what is asked with it.
const kTyping = 200;  // milliseconds
const asked = api.latest();
let answered = () => {}, fail = () => {};

const usable = () => now.run?.usable && (now.run.input === 'text' ? state.input : now.upload || state.input);

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

// What is asked: the input without the lines that are left out.
export const question = () => {
  if (now.run.input !== 'text') {
    return now.upload ? { name: now.upload.name, file: now.upload.file } : { input: state.input };
  }
  if (!now.dropped.size) return { input: state.input };
  return { input: now.whole.lines.filter((_, i) => !now.dropped.has(i)).map(l => l.words.join(' ')).join('\n') };
};

export const ask = async () => {
  if (!usable()) return;
  byId('output').setAttribute('aria-busy', 'true');
  try {
    const answer = await asked(signal => api.post(['runs', now.run.name, 'predict'],
        { ...question(), settings: now.settings }, signal));
    if (answer) answered(answer);
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
