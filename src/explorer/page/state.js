// What is shown, in the address: only what differs from the beginning. What is too long for it stays with the
// browser's entry of this page: reloading brings it back, a link does not.
export const kLongest = 1000;
const start = {
  run: '', input: '', map: '0', row: '', scale: 'one', table: '', light: '', blur: '', beside: '', step: '',
  pick: '0',                               // which of the candidates, best first
  without: '',                             // lines of a text that are left out: 0,2
  open: '',                                // panels
  ways: '', layer: '', of: '',             // methods of explanation; of attention, the layer and the head
  head: '', off: '', order: '',            // the head that is shown large, those that are switched off, their order
  output: '', against: '',                 // why the one output rather than the other
  lens: '',                                // the first place that the lens shows
  lines: '', hidden: '', query: '', key: '',  // of lines: the layer, heads that are not drawn, a query and a key
  patch: '',                               // the other text, whose rows are taken
  find: '', class: '', from: '', to: '', wrong: '', sort: '',  // of the table: what is left of it, and its order
  part: '', weights: '',                   // of the model: the part that is opened, and which of its weights
};
// What belongs to one run, or to one input of it.
export const fresh_run = { input: '', row: '', map: '0', beside: '', step: '', pick: '0', without: '', layer: '', of: '', head: '', off: '', output: '', against: '', lens: '', lines: '', hidden: '', query: '', key: '', patch: '', find: '', class: '', from: '', to: '', wrong: '', sort: '', part: '', weights: '' };
export const fresh_input = { patch: '', lens: '', row: '', pick: '0', without: '', query: '', key: '' };

// Lists in the address.
export const listed = (text, between = ',') => text ? text.split(between) : [];
const read = () => ({ ...start, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))), ...history.state?.long });

export const state = read();

// As a new entry of the browser's history, to which Back returns; else in place of the present one.
export const entry = 'pushState';
export const keep = (changes, how = 'replaceState') => {
  Object.assign(state, changes);
  const said = Object.entries(state).filter(([key, value]) => value !== undefined && value !== start[key]);
  const long = Object.fromEntries(said.filter(([, value]) => String(value).length > kLongest));
  const hash = new URLSearchParams(said.filter(([key]) => !(key in long))).toString();
  history[how]({ long }, '', hash ? '#' + hash : location.pathname);
};

export const onChange = act => addEventListener('hashchange', () => {
  for (const key of Object.keys(state)) delete state[key];
  Object.assign(state, read());
  act();
});

// Settings of predictions have keys of their own, each begins so.
const kOption = 'o.';
export const option = name => state[kOption + name];
export const keep_option = (name, value) => keep({ [kOption + name]: value === undefined ? undefined : String(value) });
export const forget_options = () => {
  for (const key of Object.keys(state)) if (key.startsWith(kOption)) delete state[key];
};

// What is on the page and not in the address.
export const now = {
  runs: [], tasks: [], training: {}, chosen: [],  // as the program has them
  run: null,                          // the one that is shown
  settings: {},                       // of its predictions
  upload: null,                       // {name, file}: a file instead of a text
  predictions: [],                    // of the input, best first
  read: null,                         // what of the input the model does not know
  gone: false,                        // the program does not answer
  dropped: new Set(), whole: null,    // lines of a text that are left out, and the whole of it
};
