import * as api from './api.js';
import { element, short } from './dom.js';
import { begin, in_words, resume } from './train.js';

// The settings of a training: every field that the task has, with what it means and its range, as the
// program lists them; the data, which are built in or a file of one's own.
const kLimits = ['steps', 'epochs', 'minutes'];

const input_of = field => {
  const common = { id: `set-${field.name}`, name: field.name, 'aria-describedby': field.help ? `help-${field.name}` : undefined };
  if (field.kind === 'flag') return element('input', { ...common, type: 'checkbox', checked: field.value ? true : undefined });
  if (field.kind === 'choice') {
    const made = element('select', common, field.choices.map(c => element('option', { value: c }, c)));
    made.value = field.value;
    return made;
  }
  return element('input', {
    ...common, type: field.kind === 'text' ? 'text' : 'number', value: field.value, autocomplete: 'off',
    step: field.kind === 'integer' ? 1 : 'any', min: field.low, max: field.high,
  });
};
const value_of = node => node.type === 'checkbox' ? String(node.checked) : node.value;
const range_of = f => f.low === undefined ? '' : f.high === undefined || f.high >= 1e5 ? ` At least ${short(f.low)}.` : ` From ${short(f.low)} to ${short(f.high)}.`;

const row_of = field => {
  const node = input_of(field);
  return element('div', { class: 'field', 'data-kind': field.kind }, element('label', { for: node.id }, field.name), node,
      element('span', { class: 'muted', id: `help-${field.name}` }, `${field.help ? field.help + '.' : ''}${['integer', 'real'].includes(field.kind) ? range_of(field) : ''}`));
};

// What differs from what suits the data.
const changed_in = (form, groups) => Object.fromEntries(groups.flatMap(g => g.fields).map(f => [f, form.elements.namedItem(f.name)])
    .filter(([f, node]) => node && value_of(node) !== String(f.value)).map(([f, node]) => [f.name, value_of(node)]));

const dialog_of = (title, id) => {
  document.getElementById(id)?.remove();
  const close = () => { dialog.close(); dialog.remove(); };
  const error = element('p', { class: 'error', role: 'alert' });
  const dialog = element('dialog', { id, 'aria-label': title }, element('div', { class: 'row' }, element('h2', {}, title),
      element('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: close }, '×')));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  return { dialog, close, error };
};

const megabytes = bytes => bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1000))} KB` : `${Number((bytes / 1e6).toFixed(1))} MB`;

// Of built-in data under other limits: by how many epochs and examples there are.
const time_expected = (task, groups, changed, own) => {
  if (changed.minutes > 0) return `ends after ${changed.minutes} min at the latest`;
  if (own || !(task.seconds > 0)) return 'the first steps will say how long it takes';
  const value = name => groups.flatMap(g => g.fields).find(f => f.name === name)?.value;
  const share = ['epochs', 'examples'].reduce((s, n) => s * (n in changed && value(n) > 0 ? changed[n] / value(n) : 1), 1);
  const rest = Object.keys(changed).filter(n => !['epochs', 'examples', 'seed'].includes(n));
  return `about ${in_words(task.seconds * share)} of one core` + (rest.length ? ', as far as epochs and examples say' : '');
};

export const open_form = async name => {
  const task = await api.get('tasks', name);
  const { dialog, close, error } = dialog_of(`Train: ${task.title}`, 'train-form');
  let own = false, upload = 0;
  const groups = () => task.settings[own ? 'own' : 'built_in'];
  const fields = element('div', { class: 'fields' }), time = element('p', { class: 'muted', id: 'time-expected', role: 'status' });
  const count = () => {
    const changed = changed_in(form, groups()), n = Object.keys(changed).length;
    time.textContent = `${n ? `${n} changed: ${Object.keys(changed).join(', ')}. ` : 'Settings that suit the data. '}` +
        `Time expected: ${time_expected(task, groups(), changed, own)}.`;
  };
  const draw_fields = () => {
    fields.replaceChildren(...groups().map((g, i) => element('details', { open: g.title === 'Training' || (i === 0 && !own) ? true : undefined },
        element('summary', {}, `${g.title || 'Settings'} (${g.fields.length})`), element('div', { class: 'grid-of-fields' }, g.fields.map(row_of)))));
    count();
  };
  const sent = element('output', { id: 'sent', role: 'status' });
  const choose_data = (to, number = 0) => {
    own = to;
    upload = number;
    draw_fields();
  };
  const send = async file => {
    error.textContent = '';
    sent.textContent = '';
    if (file.size > task.most_bytes) {
      error.textContent = `${file.name} has ${megabytes(file.size)}; at most ${megabytes(task.most_bytes)} are taken here. ` +
          `In a terminal, fovea train ${task.name} takes files of any size.`;
      return;
    }
    try {
      sent.textContent = `sending ${file.name} …`;
      const kept = await api.post(['uploads'], { task: task.name, name: file.name, file: api.packed(new Uint8Array(await file.arrayBuffer())) });
      sent.textContent = `${kept.name}, ${megabytes(kept.bytes)}, is kept for this training and for going on with it.`;
      choose_data(true, kept.number);
    } catch (why) {
      sent.textContent = '';
      error.textContent = why.message;
    }
  };
  const earlier = task.uploads.filter(u => task.endings.some(e => u.name.toLowerCase().endsWith(e)));
  const data = element('fieldset', { id: 'train-data' }, element('legend', {}, 'Data'),
      element('label', {}, element('input', { type: 'radio', name: 'which', value: 'built-in', checked: true, onchange: () => choose_data(false) }), ' built in'),
      task.endings.length ? [
        element('label', {}, element('input', { type: 'radio', name: 'which', value: 'own', onchange: () => choose_data(true, upload) }), ' a file of mine '),
        element('input', {
          type: 'file', id: 'own-file', 'aria-label': 'A file of mine', accept: task.endings.join(','),
          onchange: e => {
            if (!e.target.files[0]) return;
            form.elements.which.value = 'own';
            send(e.target.files[0]);
          },
        }),
        earlier.length ? element('label', {}, 'or one sent before ', element('select', {
          id: 'sent-before', onchange: e => {
            if (!e.target.value) return;
            form.elements.which.value = 'own';
            choose_data(true, Number(e.target.value));
          },
        }, element('option', { value: '' }, 'choose …'), earlier.map(u => element('option', { value: u.number }, `${u.name}, ${megabytes(u.bytes)}`)))) : null,
        sent,
      ] : null,
      element('p', { class: 'muted' }, task.endings.length
          ? `${task.data_about}. Here: ${task.endings.join(', ')}, at most ${megabytes(task.most_bytes)}; it is stored beside the runs.`
          : `Data of your own for this task lie in folders: fovea train ${task.name} takes them, in a terminal. ${task.data_about}.`));
  const start = element('button', { type: 'submit', id: 'train-begin' }, 'Begin');
  const form = element('form', { method: 'dialog', novalidate: true, oninput: count }, element('p', {}, task.demo), data, fields,
      element('div', { class: 'row bar' }, start, time), error);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    if (own && !upload) {
      error.textContent = 'Choose a file first, or built-in data.';
      return;
    }
    start.disabled = true;
    error.textContent = '';
    try {
      await begin({ task: task.name, settings: changed_in(form, groups()), ...(own ? { upload } : {}) });
      close();
    } catch (why) {
      error.textContent = why.message;
      start.disabled = false;
    }
  });
  dialog.append(form);
  draw_fields();
  dialog.showModal();
};

// A run goes on as it was; only its end can be another.
export const open_limits = run => {
  const { dialog, close, error } = dialog_of(`Go on with ${run.name}`, 'limits-form');
  const settings = run.limits ?? {};
  const field = name => element('label', {}, name, ' ', element('input', { type: 'number', min: 0, step: 'any', name, value: settings[name] ?? 0 }));
  const form = element('form', { method: 'dialog', novalidate: true },
      element('p', {}, 'It goes on from its last step. The first of these limits that is reached ends it; 0 is none.'),
      element('div', { class: 'row' }, kLimits.map(field)), element('div', { class: 'row bar' }, element('button', { type: 'submit', id: 'limits-begin' }, 'Go on')), error);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const said = Object.fromEntries(kLimits.map(n => [n, form.elements[n].value || '0']));
    try {
      await resume(run.name, said);
      close();
    } catch (why) {
      error.textContent = why.message;
    }
  });
  dialog.append(form);
  dialog.showModal();
};
