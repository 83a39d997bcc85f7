import { byId, element, short } from './dom.js';
import { problem_of } from './problem.js';
import { keep, kLongest, now, state } from './state.js';

// What a model said, likeliest first.
let of_whole = null;  // before lines were left out

const share = p => {
  const bar = element('span', { class: 'meter', 'aria-hidden': 'true' }, element('i'));
  bar.firstChild.style.setProperty('--w', Math.min(Math.max(p, 0), 1));
  return bar;
};
const score = p => Number.isFinite(p?.score) ? short(p.score) : '';

// Candidates that show where they looked can be opened, one at a time.
export const picked = predictions => Math.min(Math.max(Number(state.pick) || 0, 0), Math.max(predictions.length - 1, 0));

// A text that goes on is told from what it goes on from.
const kLong = 120;  // characters from which on a text is set as one
const parts_of = (text, prompt) => prompt && text.length > prompt.length && text.startsWith(prompt)
    ? [element('span', { class: 'prompt' }, prompt), text.slice(prompt.length)] : [text];

const said = (p, i, open, prompt) => {
  const text = p.text || '(nothing)', long = text.length > kLong ? ' long' : '';
  if (!open || !p.pictures.length) return element('span', { class: 'said' + long }, parts_of(text, prompt));
  return element('button', {
    type: 'button', class: 'said candidate' + long, 'aria-pressed': String(i === Number(state.pick)), 'data-pick': i,
    title: 'Show where this candidate looked', onclick: () => open(i),
  }, text);
};

// What a score is: of classes a probability, of texts the log probability, by their length.
const kinds = { true: 'probability', false: 'log probability, divided by the length to the power of the length penalty' };
export const predictions_list = (predictions, scored, open = null, prompt = '') => {
  const several = predictions.filter(p => p.pictures.length).length > 1;
  return element('ol', { class: scored ? 'predictions classes' : 'predictions' }, predictions.map((p, i) => element('li', { dir: 'auto' },
        said(p, i, several ? open : null, prompt), p.ended ? '' : ' …',
        element('span', { class: 'score', title: kinds[!!scored] }, scored || !score(p) ? score(p) : `score ${score(p)}`), scored ? share(p.score) : null)));
};

const named = (run, answer, i) => element('div', {}, element('h3', { class: `of s${i}` }, run.name), answer.error
    ? problem_of(answer.error, { todo: 'This run cannot answer this input. Compare with another one, or change the input.' })
    : predictions_list(answer.predictions, run.scored, null, state.input));

// `redraw()` shows the candidate that was opened.
export const draw_answer = (answer, beside = null, redraw = () => {}) => {
  const { predictions, seconds } = answer;
  const open = i => {
    keep({ pick: String(i), row: '' });
    for (const b of document.querySelectorAll('.candidate')) b.setAttribute('aria-pressed', String(Number(b.dataset.pick) === i));
    redraw();
  };
  const { run, dropped } = now;
  const expected = now.upload ? undefined : run.examples.find(e => e.input === state.input)?.expected;
  if (!dropped.size) of_whole = predictions;
  byId('output').replaceChildren(beside
      ? element('div', { class: 'pair' }, named(run, answer, 0), named(beside.run, beside, 1))
      : predictions_list(predictions, run.scored, open, state.input),
      element('p', { class: 'muted' },
          expected !== undefined && !dropped.size ? (expected === predictions[0]?.text ? 'as expected' : `expected ${expected}`) + ' · ' : '',
          dropped.size ? `${dropped.size} ${dropped.size > 1 ? 'lines' : 'line'} left out; with the whole text it said ${of_whole?.[0]?.text} ${score(of_whole?.[0])} · ` : '',
          `answered in ${short(1000 * seconds)} ms`,
          !now.upload && state.input.length > kLongest ? ' · this input is too long for the address: a link does not bring it' : ''));
};
