import { set } from './ask.js';
import { element, short } from './dom.js';
import { export_buttons } from './exported.js';
import { keep, now, state } from './state.js';

// An image that was looked at in glimpses, one after the other: the way over it, the squares of the
// glimpse that is shown, what each saw, and how likely each class was then. In the address, row=2 is the
// third glimpse.
const kWide = 420, kRim = 16, kBeat = 900, kWays = 50, kMostBars = 12;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

const picture = source => `data:image/png;base64,${source}`;

// The way in units of the drawing; what comes after step t is faint.
const drawing = (path, t) => {
  const k = kWide / path.width, height = path.height * k, g = path.glimpses;
  const line = some => some.map((p, i) => `${i ? 'L' : 'M'}${(p.x * k).toFixed(1)} ${(p.y * k).toFixed(1)}`).join('');
  const square = side => element('rect', {
    class: 'sensor', x: (g[t].x - side / 2) * k, y: (g[t].y - side / 2) * k, width: side * k, height: side * k,
  });
  const number = (p, i) => element('g', { class: i < t ? 'past' : i === t ? 'here' : 'later' },
      element('circle', { cx: p.x * k, cy: p.y * k, r: i === t ? 13 : 10 }),
      element('text', { x: p.x * k, y: p.y * k + 4.5 }, String(i + 1)));
  const dense = path.density;
  const cells = dense ? dense.glimpses.map((n, i) => n ? element('rect', {
    x: i % dense.columns * dense.side * k, y: Math.floor(i / dense.columns) * dense.side * k,
    width: dense.side * k, height: dense.side * k, 'fill-opacity': (0.25 + 0.6 * Math.sqrt(n / dense.most)).toFixed(3),
  }) : null) : [];
  return element('svg', {
    viewBox: `${-kRim} ${-kRim} ${kWide + 2 * kRim} ${(height + 2 * kRim).toFixed(1)}`, role: 'img',
    'aria-label': `Glimpse ${t + 1} of ${g.length}, at ${short(g[t].x)}, ${short(g[t].y)}; it would have said ${g[t].said}`,
  }, element('g', { class: 'density' }, cells), element('path', { class: 'way later', d: line(g) }),
  element('path', { class: 'way', d: line(g.slice(0, t + 1)) }), g[t].sides.map(square),
  // The one that is shown lies on top of the others.
  [...g.keys()].sort((a, b) => (a === t) - (b === t)).map(i => number(g[i], i)));
};

const bars = (path, t) => {
  const { shares } = path.glimpses[t];
  if (!shares.length) return null;
  const best = c => Math.max(...path.glimpses.map(g => g.shares[c]));
  const some = [...shares.keys()].sort((a, b) => best(b) - best(a)).slice(0, kMostBars).sort((a, b) => a - b);
  const made = element('ol', { class: 'bars', 'aria-label': `How likely each class was after glimpse ${t + 1}` }, some.map(c => element(
      'li', { class: path.classes[c] === path.glimpses[t].said ? 'said-now' : '' }, element('span', { dir: 'auto' }, path.classes[c]),
      element('span', { class: 'meter' }, element('i', { 'data-share': shares[c] })), element('span', {}, shares[c].toFixed(2)))));
  for (const bar of made.querySelectorAll('[data-share]')) bar.style.setProperty('--w', bar.dataset.share);
  return made;
};

export const path_view = ([path], { run }) => {
  const n = path.glimpses.length;
  const within = t => Math.min(Math.max(t, 0), n - 1);
  let t = /^\d+$/.test(state.row) ? within(Number(state.row)) : n - 1, timer = 0;

  const over = element('div', { class: 'over' }), shares = element('div', { class: 'shares' });
  const said = element('p', { class: 'say', role: 'status', 'aria-live': 'polite' });
  const slider = element('input', {
    type: 'range', id: 'glimpse', min: 1, max: n, value: t + 1, 'aria-label': 'Glimpse',
    oninput: () => { stop(); go(Number(slider.value) - 1); },
  });
  const play = element('button', { type: 'button', id: 'play', onclick: () => (timer ? stop() : begin_play()) }, '▶ Play');
  const films = path.glimpses.map((g, i) => element('button', {
    type: 'button', class: 'film glimpse', 'data-look': i, onclick: () => { stop(); go(i); },
  }, element('b', {}, String(i + 1)), g.seen.map((s, k) => element('img', {
    src: picture(s), alt: `${short(g.sides[k])} pixels wide`, title: `${short(g.sides[k])} × ${short(g.sides[k])} pixels of the image`,
  })), element('span', { dir: 'auto' }, g.said), element('i', {}, g.shares.length ? Math.max(...g.shares).toFixed(2) : '')));

  const show = () => {
    over.replaceChildren(drawing(path, t));
    shares.replaceChildren(...[bars(path, t)].filter(Boolean));
    slider.value = t + 1;
    const g = path.glimpses[t];
    said.textContent = `Glimpse ${t + 1} of ${n}, at ${short(g.x)}, ${short(g.y)} of ${path.width} × ${path.height} pixels: ` +
        `it would have said ${g.said}`;
    films.forEach((f, i) => {
      f.classList.toggle('on', i === t);
      f.setAttribute('aria-pressed', String(i === t));
    });
  };
  const go = to => {
    t = within(to);
    keep({ row: t === n - 1 ? '' : String(t) });
    show();
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = '▶ Play';
  };
  const begin_play = () => {
    if (calm.matches || n < 2) return;
    go(t === n - 1 ? 0 : t);
    play.textContent = '⏸ Pause';
    timer = setInterval(() => {
      if (!over.isConnected || calm.matches || t === n - 1) return stop();
      go(t + 1);
      if (t === n - 1) stop();
    }, kBeat);
  };
  const step = by => { stop(); go(t + by); };
  const ways = path.others.length;
  const can_draw = 'ways' in run.options;
  const toggle_ways = () => set('ways', ways ? 0 : kWays);
  const title = () => `${run.name}: ${now.upload?.name ?? state.input} → ${now.predictions[Number(state.pick)]?.text ?? ''}`;
  play.disabled = calm.matches || n < 2;
  if (calm.matches) play.title = 'Your system asks for less motion: use the arrows';

  const toolbar = element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' },
      element('button', { type: 'button', id: 'back', 'aria-label': 'The glimpse before', onclick: () => step(-1) }, '←'), play,
      element('button', { type: 'button', id: 'forth', 'aria-label': 'The next glimpse', onclick: () => step(1) }, '→'), slider,
      can_draw ? element('button', {
        type: 'button', id: 'ways', 'aria-pressed': String(ways > 0), onclick: toggle_ways,
        title: 'In training each look is sampled around the place it aims at: show many such paths',
      }, `${ways || kWays} sampled paths`) : null,
      export_buttons(() => [{ ...path, title: title() }]));
  const sides = path.glimpses[0]?.sides ?? [];
  return {
    nodes: [toolbar, element('div', { class: 'seen' },
        element('div', { class: 'frame-of path' },
            element('img', { src: picture(path.image), alt: 'The image' }), over),
        element('div', {}, said, shares, element('div', { class: 'legend tall' },
            element('div', { class: 'muted' }, `Orange: the sensor, ${sides.map(short).join(', ')} pixels wide` +
                (sides.length > 1 ? ', the smallest the sharpest' : '') + '. Blue: the path so far. Outside the image it sees black.'),
            ways ? element('div', { class: 'muted' }, element('span', { class: 'bar dense' }),
                ` Green: ${ways} sampled paths, at most ${short(path.density.most)} glimpses in one square`) : null))),
    element('div', { class: 'films', role: 'group', 'aria-label': 'What each glimpse saw' }, films)],
    begin: show,
    keys: {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), p: () => (timer ? stop() : begin_play()),
      d: () => can_draw && toggle_ways(), Escape: stop,
    },
  };
};
