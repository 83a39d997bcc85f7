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

export const byId = id => document.getElementById(id);

// Spaces and line ends show.
export const visible = text => text.replaceAll(' ', '␠').replaceAll('\n', '⏎') || '∅';

export const short = x => !Number.isFinite(x) ? 'not a number'
    : x === 0 ? '0' : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1)
    : String(Number(x.toPrecision(3)));

export const dark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
