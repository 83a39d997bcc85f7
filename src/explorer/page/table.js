import * as api from './api.js';
import { element, short, visible } from './dom.js';
import { measuring } from './measuring.js';
import { keep, now, state } from './state.js';

// Held-out inputs in one table, the worst first: what came of each, what should have, and how far apart
// these are. Only the rows that can be seen are on the page, so that ten thousand scroll as ten do.
const kRow = 30, kMore = 6;  // pixels of a row; rows beyond the edges
const kColumns = ['error', 'input', 'output', 'expected', 'score', 'length'];
// What columns are called, by what the rows are about. A text is guessed token by token: of each, its hardest
// token stands in the table.
const kNames = {
  classes: { length: 'words' },
  answers: { length: 'words' },
  texts: { error: 'loss', input: 'text', output: 'guessed there', expected: 'hardest token', score: 'accuracy', length: 'tokens' },
};

// Rows as the program sends them, by the names of their columns.
export const rows_of = ({ columns, rows }) => rows.map((r, i) => ({ ...Object.fromEntries(columns.map((c, j) => [c, r[j]])), at: i }));

const number_in = value => value === '' ? NaN : Number(value);
// {word, expected, low, high, wrong}: what is left of all rows.
export const filtered = (rows, { word = '', expected = '', low = '', high = '', wrong = '' }) => {
  const wanted = word.toLowerCase(), least = number_in(low), most = number_in(high);
  return rows.filter(r => (!wanted || `${r.input}\n${r.output}\n${r.expected}`.toLowerCase().includes(wanted)) &&
      (!expected || r.expected === expected) && !(r.length < least) && !(r.length > most) && (!wrong || !r.right));
};
export const sorted = (rows, by, down) => {
  const sign = down ? -1 : 1, key = r => r[by] ?? -Infinity;
  return [...rows].sort((a, b) => sign * (typeof key(a) === 'string' ? key(a).localeCompare(key(b)) : key(a) - key(b)) || a.at - b.at);
};

// A window of rows over a tall strip. Nodes are made once and filled anew while it scrolls.
export class Rows {
  constructor({ fill, open }) {
    Object.assign(this, { fill, rows: [], first: -1, nodes: [], chosen: 0 });
    this.strip = element('div', { class: 'strip' });
    this.node = element('div', {
      class: 'rows', tabindex: 0, role: 'listbox', 'aria-label': 'Held-out inputs; Enter opens one',
      onkeydown: event => this.key(event, open),
    }, this.strip);
    this.node.addEventListener('scroll', () => {
      this.waiting ??= requestAnimationFrame(() => { this.waiting = undefined; this.draw(); });
    }, { passive: true });
    this.strip.addEventListener('click', event => {
      const row = event.target.closest('.data-row');
      if (row) { this.choose(Number(row.dataset.at)); open(this.rows[this.chosen]); }
    });
  }

  set(rows) {
    this.rows = rows;
    this.chosen = 0;
    this.strip.style.height = `${rows.length * kRow}px`;
    this.node.style.height = `${Math.min(14, Math.max(2, rows.length)) * kRow + 2}px`;
    this.node.scrollTop = 0;
    this.draw(true);
  }

  draw(anew = false) {
    const seen = Math.ceil((this.node.clientHeight || 420) / kRow) + 2 * kMore;
    const first = Math.max(0, Math.min(Math.floor(this.node.scrollTop / kRow) - kMore, this.rows.length - seen));
    if (first === this.first && !anew) return;
    this.first = first;
    while (this.nodes.length < seen) {
      const made = element('div', { class: 'data-row', role: 'option' }, kColumns.map(name => element('span', { class: name, dir: 'auto' })));
      this.nodes.push(made);
      this.strip.append(made);
    }
    // A row keeps its node while it is in sight: of a step of scrolling only what comes into sight is filled.
    this.nodes.forEach((_, k) => {
      const i = first + ((k - first) % this.nodes.length + this.nodes.length) % this.nodes.length;
      const node = this.nodes[k], row = this.rows[i];
      node.hidden = !row;
      if (!row || (!anew && Number(node.dataset.at) === i)) return;
      node.dataset.at = i;
      node.id = `data-row-${i}`;
      node.style.transform = `translateY(${i * kRow}px)`;
      this.fill(node, row);
      node.classList.toggle('wrong', !row.right);
      node.setAttribute('aria-selected', String(i === this.chosen));
    });
  }

  choose(i) {
    this.chosen = Math.min(Math.max(i, 0), this.rows.length - 1);
    const top = this.chosen * kRow, { scrollTop, clientHeight } = this.node;
    if (top < scrollTop) this.node.scrollTop = top;
    else if (top + kRow > scrollTop + clientHeight) this.node.scrollTop = top + kRow - clientHeight;
    this.draw();
    for (const node of this.nodes) node.setAttribute('aria-selected', String(Number(node.dataset.at) === this.chosen));
    this.node.setAttribute('aria-activedescendant', `data-row-${this.chosen}`);
  }

  key(event, open) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / kRow) - 1);
    const to = { ArrowDown: this.chosen + 1, ArrowUp: this.chosen - 1, PageDown: this.chosen + page, PageUp: this.chosen - page, Home: 0, End: this.rows.length - 1 }[event.key];
    if (to !== undefined) this.choose(to);
    else if (event.key === 'Enter' && this.rows[this.chosen]) open(this.rows[this.chosen]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export const fill_row = (node, row) => {
  kColumns.forEach((name, i) => {
    const value = row[name];
    node.children[i].textContent = typeof value === 'number' ? short(value) : value === null || value === undefined ? '' : visible_line(value);
  });
  node.title = row.input;
};
const visible_line = text => text.length ? text.replaceAll('\n', ' ⏎ ') + '' : visible('');

// What a slice comes to, beside the whole: how many are right, or of texts the tokens that are.
const slice_scores = (some, all, about) => {
  const mean = (rows, of) => rows.length ? rows.reduce((s, r) => s + (of(r) ?? 0), 0) / rows.length : NaN;
  const texts = about === 'texts', right = r => texts ? r.score : r.right ? 1 : 0;
  const line = (name, rows) => element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, String(rows.length)),
      element('td', {}, rows.length ? `${(100 * mean(rows, right)).toFixed(1)} %` : ''),
      element('td', {}, rows.length ? short(mean(rows, r => r.error)) : ''), element('td', {}, rows.length ? short(mean(rows, r => r.length)) : ''));
  const heads = texts ? ['texts', 'accuracy', 'mean loss', 'mean tokens'] : ['inputs', about === 'classes' ? 'right' : 'exactly right', 'mean error', 'mean words'];
  return element('table', { class: 'slice' }, element('caption', {}, 'Scores of what is shown'),
      element('thead', {}, element('tr', {}, ['', ...heads].map(h => element('th', { scope: 'col' }, h)))),
      element('tbody', {}, some.length === all.length ? null : line('this slice', some), line('all', all)));
};

const csv = (rows, name_of) => [...kColumns.slice(0, 5), 'right', 'length'].map(name_of).join(',') + '\r\n' + rows.map(r => [r.error, r.input, r.output, r.expected, r.score, r.right, r.length]
    .map(v => typeof v === 'string' ? `"${v.replaceAll('"', '""')}"` : v ?? '').join(',')).join('\r\n') + '\r\n';

const save = (rows, name_of) => {
  const link = element('a', { href: URL.createObjectURL(new Blob([csv(rows, name_of)], { type: 'text/csv' })), download: `fovea-${now.run.name}-held-out.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

// Which of the rows, and in which order, is in the address: the filters by their keys there, the order as the
// column's name, with a minus where the largest stands first.
const kKeys = { word: 'find', expected: 'class', low: 'from', high: 'to', wrong: 'wrong' };
const kBegin = '-error';
const order_in = text => {
  const down = text.startsWith('-'), by = text.slice(down ? 1 : 0);
  return kColumns.includes(by) ? { by, down } : order_in(kBegin);
};

// Of an answer of the program's: what can be filtered, the slice's scores, the rows.
export const table_of = (answer, open) => {
  const all = rows_of(answer), { about } = answer, texts = about === 'texts';
  const classes = [...new Set(all.map(r => r.expected))].sort(), by_class = about === 'classes' || (!texts && classes.length <= 20);
  const filter = Object.fromEntries(Object.entries(kKeys).map(([name, key]) => [name, state[key]]));
  if (!by_class || !classes.includes(filter.expected)) filter.expected = '';
  if (texts) filter.wrong = '';
  for (const name of ['low', 'high']) if (Number.isNaN(Number(filter[name]))) filter[name] = '';
  const name_of = column => kNames[about][column] ?? column;
  let { by, down } = order_in(state.sort);
  const fill = (node, row) => fill_row(node, row);
  const rows = new Rows({ fill, open });
  const scores = element('div', { 'aria-live': 'polite' });
  const draw = () => {
    const some = filtered(all, filter);
    rows.set(sorted(some, by, down));
    scores.replaceChildren(slice_scores(some, all, about));
    for (const head of heads.children) {
      head.setAttribute('aria-pressed', String(head.dataset.by === by));
      head.firstChild.textContent = head.dataset.name + (head.dataset.by === by ? (down ? ' ↓' : ' ↑') : '');
    }
  };
  const heads = element('div', { class: 'data-row data-heads', role: 'group', 'aria-label': 'Sort by' }, kColumns.map(name => element('button', {
    type: 'button', class: name, 'data-by': name, 'data-name': name_of(name), onclick: () => {
      down = by === name ? !down : ['error', 'score', 'length'].includes(name);
      by = name;
      const order = (down ? '-' : '') + by;
      keep({ sort: order === kBegin ? '' : order });
      draw();
    },
  }, element('span', {}, name_of(name)))));
  const leave = (name, value) => {
    filter[name] = value;
    keep({ [kKeys[name]]: value });
    draw();
  };
  const field = (label, name, attributes) => element('label', {}, label, ' ', element('input', { name: `data-${name}`, value: filter[name], ...attributes, oninput: e => leave(name, e.target.value) }));
  const filters = element('div', { class: 'row', role: 'search' },
      field('Word', 'word', { type: 'search', size: 14 }),
      by_class ? element('label', {}, 'Class ', element('select', { name: 'data-expected', onchange: e => leave('expected', e.target.value) },
          element('option', { value: '' }, 'all'), classes.map(c => element('option', { value: c, selected: c === filter.expected }, c)))) : null,
      all.some(r => r.length > 0) ? [field(texts ? 'Tokens from' : 'Words from', 'low', { type: 'number', min: 0 }), field('to', 'high', { type: 'number', min: 0 })] : null,
      texts ? null : element('label', {}, element('input', { type: 'checkbox', name: 'data-wrong', checked: !!filter.wrong, onchange: e => leave('wrong', e.target.checked ? 'yes' : '') }), ' only what is wrong'),
      element('button', { type: 'button', onclick: () => save(sorted(filtered(all, filter), by, down), name_of) }, 'Save as CSV'));
  const node = element('div', { class: `data ${about}-data` }, element('p', { class: 'muted' }, texts
    ? `${all.length} texts of ${answer.of}, each read by itself. Sorted by ${answer.measured}. Accuracy: the share of tokens that the model guessed, each from those before it.`
    : `${all.length} inputs of ${answer.of}. Error: ${answer.measured}.`),
      filters, scores, heads, rows.node);
  return { node, draw, rows };
};

// The panel under a run. `open(input)` shows one in the view.
export const data_table = open => ({ run }) => {
  if (!run.table) return null;
  const show = async row => {
    const input = row.cut ? (await api.post(['runs', run.name, 'input'], { row: row.at })).input : row.input;
    open(input);
  };
  const work = measuring({
    id: 'data', label: 'Ask the model', parts: ['runs', run.name, 'data'], body: () => ({}),
    draw: answer => {
      const table = table_of(answer, show);
      requestAnimationFrame(table.draw);
      return [table.node];
    },
  });
  const node = element('details', { id: 'data' }, element('summary', {}, 'Data: held-out inputs, the worst first'),
      element('p', { class: 'muted' }, 'The model is asked about inputs that it was not trained with, at most 10,000. A click or Enter opens one above.'), work.node);
  return { node };
};
