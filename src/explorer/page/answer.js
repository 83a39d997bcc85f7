import { byId, element, short } from './dom.js';
import { problem_of } from './problem.js';
import { keep, now, state } from './state.js';

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

const said = (p, i, open) => {
  const text = p.text || '(nothing)';
  if (!open || !p.pictures.length) return element('span', { class: 'said' }, text);
  return element('button', {
    type: 'button', class: 'said candidate', 'aria-pressed': String(i === Number(state.pick)), 'data-pick': i,
    title: 'Show where this candidate looked', onclick: () => open(i),
  }, text);
};

// What a score is: of classes a probability, of texts the mean log probability of their tokens.
const kinds = { true: 'probability', false: 'log probability' };
export const predictions_list = (predictions, scored, open = null) => {
  const several = predictions.filter(p => p.pictures.length).length > 1;
  return element('ol', { class: scored ? 'predictions classes' : 'predictions' }, predictions.map((p, i) => element('li', { dir: 'auto' },
        said(p, i, several ? open : null), p.ended ? '' : ' …',
        element('span', { class: 'score', title: kinds[!!scored] }, score(p)), scored ? share(p.score) : null)));
};

const named = (run, answer, i) => element('div', {}, element('h3', { class: `of s${i}` }, run.name), answer.error
    ? problem_of(answer.error, { todo: 'This run cannot answer this input. Compare with another one, or change the input.' })
    : predictions_list(answer.predictions, run.scored));

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
      : predictions_list(predictions, run.scored, open),
      element('p', { class: 'muted' },
          expected !== undefined && !dropped.size ? (expected === predictions[0]?.text ? 'as expected' : `expected ${expected}`) + ' · ' : '',
          dropped.size ? `${dropped.size} ${dropped.size > 1 ? 'lines' : 'line'} left out; with the whole text it said ${of_whole?.[0]?.text} ${score(of_whole?.[0])} · ` : '',
          `${short(1000 * seconds)} ms`));
};
