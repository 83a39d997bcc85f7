// What is shown, in the address: only what differs from the beginning, long inputs left out.
const kLongest = 1000;
const start = { run: '', input: '', map: '0', row: '', scale: 'one', table: '' };
const read = () => ({ ...start, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });

export const state = read();

export const keep = changes => {
  Object.assign(state, changes);
  const said = Object.entries(state).filter(
      ([key, value]) => value !== start[key] && String(value).length <= kLongest);
  const hash = new URLSearchParams(said).toString();
  history.replaceState(null, '', hash ? '#' + hash : location.pathname);
};

export const onChange = act => addEventListener('hashchange', () => {
  Object.assign(state, read());
  act();
});
