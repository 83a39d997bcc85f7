import * as api from './api.js';
import { byId, element } from './dom.js';
import { now } from './state.js';

// What is shown as a file, drawn by the program, by the code behind its commands.
const plain = ({ title, rows, columns, cells, signed }) => ({ title, rows, columns, cells, signed });
const plain_text = ({ title, lines }) => ({
  title, lines: lines.map(({ weight, words, cells }) => ({ weight, words, cells })),
});

const plain_seen = ({ title, image, rows, columns, signed, looks }) => ({
  title, image, rows, columns, signed, looks: looks.map(({ label, cells, boxes }) => ({ label, cells, boxes })),
});
const plain_path = ({ title, image, classes, glimpses, others }) => ({ title, image, classes, glimpses, others });

const save = async (format, { maps = [], texts = [], images = [], paths = [] }) => {
  const name = `fovea-${now.run.name}.${format}`;
  try {
    const blob = await api.file(['draw', format], {
      maps: maps.map(plain), texts: texts.map(plain_text), images: images.map(plain_seen), paths: paths.map(plain_path),
    });
    const link = element('a', { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    byId('status').textContent = `Saved ${name}`;
  } catch (error) {
    byId('status').textContent = error.message;
  }
};

// `what()` gives the maps, texts, images or paths that are shown when a button is pressed.
export const export_buttons = what => element('span', { class: 'export', role: 'group', 'aria-label': 'Export' }, 'Export ',
    ['svg', 'png', 'csv', 'json', 'html'].map(format => element('button', {
      type: 'button', 'data-format': format, onclick: () => save(format, what()),
    }, format.toUpperCase())));
