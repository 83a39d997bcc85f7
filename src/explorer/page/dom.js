// Elements by name, attributes and children; text is never read as markup.
export const element = (name, attributes = {}, ...children) => {
  const svg = ['svg', 'path', 'line', 'g', 'text', 'rect', 'circle', 'title'].includes(name) &&
      attributes.xmlns !== false;
  const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name)
                   : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'xmlns' || value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.flat().filter(c => c !== null && c !== undefined));
  return made;
};

// Draws what is within a place anew; whoever stands on something there stands on what takes its place.
export const keeping_focus = (place, draw) => {
  const way = [];
  for (let at = document.activeElement; at && at !== place; at = at.parentNode) {
    if (!place.contains(at)) { way.length = 0; break; }
    way.unshift([...at.parentNode.children].indexOf(at));
  }
  draw();
  if (!way.length) return;
  const found = way.reduce((node, i) => node?.children[i], place);
  if (found && found !== document.activeElement) found.focus({ preventScroll: true });
};

// What is drawn by the colours and the room of the moment, and again by `draw()` when these are others.
export const redrawn = (node, draw) => {
  node.classList.add('redrawn');
  node.redraw = draw;
  return node;
};
export const redraw_within = place => {
  for (const node of place.querySelectorAll('.redrawn')) node.redraw();
};

export const byId = id => document.getElementById(id);

// As the program's own pictures show a token: blanks that stand alone, tabs and line ends are signs, and
// what steers the direction of writing vanishes.
const kSteering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const visible = text => {
  const shown = text.replace(kSteering, '').replaceAll('\n', '↵').replaceAll('\t', '⇥');
  return (/^[ \u00a0]+$/.test(shown) ? '␣'.repeat(shown.length) : shown) || '∅';
};

export const cut = (text, most = 80) => [...text].length > most ? [...text].slice(0, most - 1).join('') + '…' : text;

export const short = x => !Number.isFinite(x) ? 'not a number'
    : x === 0 ? '0' : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1)
    : String(Number(x.toPrecision(3)));

export const dark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
