import * as api from './api.js';
import { element, short } from './dom.js';
import { export_buttons } from './exported.js';
import * as draws from './seen.js';
import { keep, now, state } from './state.js';

// Images that were looked at in several looks. The words stand beside the picture: one under the
// pointer shows its places, a place under the pointer the words that looked there. A click holds. In
// the address, row=3 is a look that is held, row=p17 a place.
const kWidest = 448;
const strip = { own: 'Brightness: each look', all: 'Brightness: one scale', mean: 'Brightness: minus mean' };

export const seen_view = ([seen], { run, redraw }) => {
  const places = seen.rows * seen.columns, mutual = seen.between !== undefined;
  const kind = draws.kinds[state.light] ? state.light : 'own';
  let image = null, hovered = -1, cell = -1, pinned = -1;
  let held = /^\d+$/.test(state.row) && Number(state.row) < seen.looks.length ? Number(state.row) : -1;
  let from = /^p\d+$/.test(state.row) && mutual && Number(state.row.slice(1)) < places ? Number(state.row.slice(1)) : -1;

  const look_from = place => ({
    label: `from ${draws.place_name(seen, place)}`, boxes: [draws.place_box(seen, place)],
    weights: seen.between.weights.subarray(place * places, (place + 1) * places),
  });
  // What is shown: under the pointer, else held, else the picture alone.
  const current = () => {
    if (hovered >= 0) return seen.looks[hovered];
    if (mutual && cell >= 0) return look_from(cell);
    if (from >= 0) return look_from(from);
    return held >= 0 ? seen.looks[held] : null;
  };

  const canvas = element('canvas', {
    class: 'stage', tabindex: 0, role: 'application',
    'aria-label': `The image, ${seen.rows} by ${seen.columns} places. Arrows go from place to place` +
        (mutual ? ', Enter holds one and shows what it attends to.' : ' and say which words looked there; Enter holds one.'),
  });
  const say = element('p', { class: 'say', role: 'status', 'aria-live': 'polite' });
  const detail = element('div', { class: 'detail' }), legend = element('div', { class: 'legend tall' });
  const button = (look, i, extra) => element('button', {
    type: 'button', 'data-look': i, 'aria-pressed': 'false', ...extra,
    onpointerenter: () => point(i), onpointerleave: () => point(-1), onclick: () => hold(i),
  }, extra.film ? [] : look.label);
  const words = seen.looks.map((l, i) => button(l, i, {
    class: 'word', dir: 'auto', tabindex: i === Math.max(held, 0) ? 0 : -1, onfocus: () => point(i), onblur: () => point(-1),
  }));
  const films = seen.looks.map((l, i) => {
    const made = button(l, i, { class: 'film', tabindex: -1, film: true, 'aria-label': l.label });
    made.append(element('canvas', { 'aria-hidden': 'true' }), element('span', { dir: 'auto' }, l.label),
        element('i', {}, l.weights.length ? short(Math.max(...l.weights)) : ''));
    return made;
  });

  const show = () => {
    if (!image) return;
    const look = current();
    const width = Math.max(160, Math.min(kWidest, canvas.parentNode.clientWidth || kWidest));
    draws.paint(canvas, width, {
      image, seen, weights: look?.weights, kind, blur: !!state.blur, boxes: look?.boxes,
      cell: cell >= 0 ? cell : from >= 0 ? from : pinned,
    });
    legend.replaceChildren(...draws.legend(seen, look?.weights, kind));
    detail.replaceChildren(...look ? draws.tell_look(seen, look.label, look.weights)
        : [element('span', { class: 'muted' }, mutual ? 'Point at a place of the picture: what it attends to.'
            : 'Point at a word: where it looked. Point at the picture: which words looked there.')]);
    for (const [i, w] of words.entries()) {
      w.classList.toggle('on', look === seen.looks[i]);
      w.setAttribute('aria-pressed', String(i === held));
      films[i].classList.toggle('on', look === seen.looks[i]);
      films[i].setAttribute('aria-pressed', String(i === held));
    }
    shade();
  };
  // Words as dark as they looked at the place; against the one that looked there most.
  const shade = () => {
    const at = cell >= 0 ? cell : pinned;
    const there = seen.looks.map(l => at >= 0 && !mutual && l.weights.length ? l.weights[at] : 0);
    const most = Math.max(...there, 1e-12);
    words.forEach((w, i) => w.style.setProperty('--w', there[i] / most));
  };
  const point = i => { hovered = i; show(); };
  const point_at = to => {
    if (to === cell) return;
    cell = to;
    hovered = -1;
    show();
    if (cell < 0) return say.replaceChildren();
    const name = `Place ${draws.place_name(seen, cell)}`;
    if (mutual) {
      const { weights } = look_from(cell);
      const most = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
      say.textContent = `${name} attends most to ${draws.place_name(seen, most)}, ${short(weights[most])}`;
    } else {
      const order = [...seen.looks.keys()].sort((a, b) => seen.looks[b].weights[cell] - seen.looks[a].weights[cell]);
      say.textContent = `${name}: looked at by ` + order.slice(0, 4).map(
          i => `${seen.looks[i].label} ${short(seen.looks[i].weights[cell])}`).join(', ');
    }
  };
  const remember = () => keep({ row: from >= 0 ? `p${from}` : held >= 0 ? String(held) : '' });
  const hold = i => {
    held = i === held && from < 0 ? -1 : i;
    from = -1;
    words.forEach((w, k) => { w.tabIndex = k === Math.max(held, 0) ? 0 : -1; });
    remember();
    show();
  };
  const hold_place = () => {
    if (cell < 0) return;
    if (!mutual) {
      pinned = cell === pinned ? -1 : cell;
      return show();
    }
    from = cell === from ? -1 : cell;
    held = -1;
    remember();
    show();
  };
  const step = by => {
    const n = seen.looks.length, at = held >= 0 ? held : words.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : n - 1) : Math.min(Math.max(at + by, 0), n - 1);
    hovered = -1;
    if (to !== held || from >= 0) hold(to);
    if (words.includes(document.activeElement)) words[to].focus();
    say.textContent = `${to + 1} of ${n}: ${seen.looks[to].label}`;
  };
  const free = () => {
    if (held >= 0 || from >= 0) { held = from = -1; remember(); }
    words.forEach((w, k) => { w.tabIndex = k ? -1 : 0; });
    hovered = cell = pinned = -1;
    say.replaceChildren();
    show();
  };

  const under = event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / box.width * seen.columns);
    const y = Math.floor((event.clientY - box.top) / box.height * seen.rows);
    return x < 0 || y < 0 || x >= seen.columns || y >= seen.rows ? -1 : y * seen.columns + x;
  };
  canvas.addEventListener('pointermove', e => point_at(under(e)));
  canvas.addEventListener('pointerleave', () => point_at(-1));
  canvas.addEventListener('click', e => { point_at(under(e)); hold_place(); });
  canvas.addEventListener('blur', () => point_at(-1));
  canvas.addEventListener('keydown', event => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (by) {
      const within = (x, n) => Math.min(Math.max(x, 0), n - 1);
      const y = cell < 0 ? Math.floor(seen.rows / 2) : Math.floor(cell / seen.columns) + by[0];
      const x = cell < 0 ? Math.floor(seen.columns / 2) : cell % seen.columns + by[1];
      point_at(within(y, seen.rows) * seen.columns + within(x, seen.columns));
    } else if (event.key === 'Enter') {
      hold_place();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  const paint_films = () => films.forEach((f, i) => draws.paint(f.firstChild, draws.kFilm, {
    image, seen, weights: seen.looks[i].weights, kind, blur: !!state.blur, boxes: seen.looks[i].boxes,
  }));
  const next_kind = () => {
    const all = Object.keys(draws.kinds);
    keep({ light: all[(all.indexOf(kind) + 1) % all.length].replace('own', '') });
    redraw();
  };
  const toggle_blur = () => { keep({ blur: state.blur ? '' : 'yes' }); redraw(); };
  const as_table = () => { keep({ table: state.table ? '' : 'yes' }); redraw(); };
  const exported = () => {
    const extra = from >= 0 ? [look_from(from)] : [];
    const looks = [...seen.looks, ...extra.map(l => ({ ...l, cells: api.packed(l.weights) }))];
    return [{ ...seen, looks, between: undefined, title: `${run.name}: ${now.upload?.name ?? state.input} → ${now.predictions[Number(state.pick)]?.text ?? ''}` }];
  };
  const toolbar = element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' },
      element('button', { type: 'button', id: 'light', title: draws.kinds[kind], onclick: next_kind }, strip[kind]),
      element('button', {
        type: 'button', id: 'blur', 'aria-pressed': String(!!state.blur), onclick: toggle_blur,
        title: 'Smooth from place to place; the model itself sees squares',
      }, 'Blur'),
      element('button', { type: 'button', id: 'as-table', 'aria-pressed': String(!!state.table), onclick: as_table }, 'Table'),
      export_buttons(exported));
  return {
    nodes: [toolbar, element('div', { class: 'seen' },
        element('div', { class: 'frame-of' }, canvas),
        element('div', {}, element('div', {
          class: 'words spoken', role: 'group', 'aria-label': 'Looks, in their order',
          onkeydown: event => {
            const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (!by) return;
            step(by);
            event.preventDefault();
            event.stopPropagation();
          },
        }, words), say, detail, legend,
        draws.alike(seen) ? element('p', { class: 'warn' }, 'All looks are the same, to a millionth: attention does not depend on the words.') : null)),
    element('div', { class: 'films', role: 'group', 'aria-label': 'All looks' }, films),
    state.table ? draws.table(seen) : null],
    begin: async () => {
      image = await draws.load(seen.image);
      show();
      paint_films();
    },
    draw: show,
    cell: () => held >= 0 && pinned >= 0 ? [held, pinned] : null,
    keys: {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), Escape: free,
      n: next_kind, b: toggle_blur, t: as_table,
    },
  };
};
