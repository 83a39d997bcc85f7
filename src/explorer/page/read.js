import { byId, cut, element } from './dom.js';

// What the model has no token for, underlined where it was typed, and said below.
const kMostNamed = 8;

// Places of the pieces in the text, one after the other. Pieces may have lost or gained blanks.
export const places_of = (text, pieces) => {
  let from = 0;
  return pieces.map(piece => {
    const bare = piece.replace(/^[▁␣\s]+|\s+$/gu, '');
    const at = bare ? text.indexOf(bare, from) : -1;
    if (at < 0) return null;
    from = at + bare.length;
    return [at, from];
  });
};

const underlined = (text, { pieces, unknown }) => {
  const places = places_of(text, pieces), parts = [];
  let from = 0;
  for (const i of unknown) {
    if (!places[i]) continue;
    const [begin, end] = places[i];
    parts.push(text.slice(from, begin), element('u', {}, text.slice(begin, end)));
    from = end;
  }
  return [...parts, text.slice(from), '\n'];
};

const said = ({ name, read }) => {
  const all = [...new Set(read.unknown.map(i => read.pieces[i].replace(/^▁/u, '')))];
  const named = all.slice(0, kMostNamed).map(w => `‹${cut(w, 24)}›`).join(', ');
  const more = all.length > kMostNamed ? ` and ${all.length - kMostNamed} more` : '';
  return element('p', {}, name ? element('b', {}, `${name}: `) : '',
      `Not in the vocabulary, underlined: ${named}${more}. `,
      `The model read ${read.instead} in place of each: one token for everything it does not know.`);
};

// answers: [{name, read}], that of the run which is shown first; read is null where all is known.
export const mark_unknown = answers => {
  const some = answers.filter(a => a.read), text = byId('input').value;
  byId('typed').replaceChildren(...answers[0]?.read ? underlined(text, answers[0].read) : []);
  byId('typed').scrollTop = byId('input').scrollTop;
  byId('unknown').replaceChildren(...some.map(a => said(answers.length > 1 ? a : { ...a, name: '' })));
  byId('unknown').hidden = !some.length;
};

export const start_read = () => byId('input').addEventListener('scroll', () => {
  byId('typed').scrollTop = byId('input').scrollTop;
});
