import { byId, cut, element } from './dom.js';
import { export_buttons } from './exported.js';
import { Layout } from './layout.js';
import { Links } from './links.js';
import { kLarge, map_of } from './big_map.js';
import { next_scale, scale_name } from './matrix.js';
import { keep, state } from './state.js';

const kLong = 40;  // tokens from which on a text is shown in its own lines, beside its map

// Maps of who looked at whom, one at a time, with what was read and written under it.
export const map_view = (maps, { redraw }) => {
  const chosen = Math.min(Number(state.map) || 0, maps.length - 1), map = maps[chosen];
  const jacobian = map.by === 'jacobian';
  let links = null, layout = null;
  const row = i => { links?.show(i); layout?.show(i); };
  const matrix = map_of(map, {
    scale: state.scale, onRow: row,
    title: jacobian ? 'Jacobian' : map.title === state.input ? 'Attention' : map.title,
    onHold: i => { keep({ row: i >= 0 ? String(i) : '' }); row(i); },
  });
  if (Math.max(map.rows.length, map.columns.length) <= kLarge) {
    links = new Links(map, {
      onHover: i => links.show(i >= 0 ? i : matrix.held),
      onHold: i => { matrix.at = null; matrix.hold(i); links.show(matrix.held); },
    });
  }
  if (map.columns.length >= kLong) layout = new Layout(map);

  const other = by => {
    if (maps.length < 2) return;
    keep({ map: String((chosen + by + maps.length) % maps.length), row: '' });
    redraw();
  };
  const rescale = () => {
    keep({ scale: next_scale(state.scale) });
    matrix.set_scale(state.scale);
    byId('scale').textContent = scale_name(state.scale);
  };
  const as_table = () => { keep({ table: state.table ? '' : 'yes' }); redraw(); };
  const toolbar = element('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Picture' },
      maps.length > 1 ? element('select', {
        'aria-label': 'Which picture', id: 'which',
        onchange: e => { keep({ map: e.target.value, row: '' }); redraw(); },
      }, maps.map((m, i) => element('option', { value: i, selected: i === chosen ? true : undefined }, cut(m.title, 60) || `picture ${i + 1}`))) : null,
      element('button', { type: 'button', id: 'scale', onclick: rescale, title: 'What full colour stands for' }, scale_name(state.scale)),
      element('button', { type: 'button', id: 'as-table', 'aria-pressed': String(!!state.table), onclick: as_table }, 'Table'),
      export_buttons(() => [map]));
  return {
    nodes: [toolbar, layout ? element('div', { class: 'with-text' }, matrix.node, layout.node) : matrix.node,
      layout ? null : links?.node, state.table ? matrix.table() : null],
    draw: () => { matrix.draw(); row(matrix.held); },
    begin: () => {
      matrix.draw();
      if (state.row !== '' && Number(state.row) < map.rows.length) matrix.hold(Number(state.row));
    },
    cell: () => matrix.at ?? (matrix.held >= 0 ? [matrix.held, 0] : null),
    keys: {
      n: rescale, t: as_table, '[': () => other(-1), ']': () => other(1),
      Escape: () => matrix.held >= 0 && matrix.hold(matrix.held),
    },
  };
};
