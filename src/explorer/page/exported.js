import { byId, element } from './dom.js';
import { drawn } from './pictures.js';
import { now } from './state.js';

// What is shown as a file, drawn by the program, by the code behind its commands.
const save = async (format, pictures, part) => {
  const name = `fovea-${now.run.name}${part}.${format}`;
  try {
    const link = element('a', { href: URL.createObjectURL(await drawn(format, pictures)), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    byId('status').textContent = `Saved ${name}`;
  } catch (error) {
    byId('status').textContent = error.message;
  }
};

// `what()` gives the pictures that are shown when a button is pressed; `part` is put to the file's name.
export const export_buttons = (what, part = '') => element('span', { class: 'export', role: 'group', 'aria-label': 'Export' }, 'Export ',
    ['svg', 'png', 'csv', 'json', 'html'].map(format => element('button', {
      type: 'button', 'data-format': format, onclick: () => save(format, what(), part),
    }, format.toUpperCase())));
