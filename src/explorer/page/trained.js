// How a training stands, in words. One that has not moved for a while is told of, so that nobody waits
// for a number that will not change.
const kStill = 60000;  // milliseconds
let last = '', since = 0;

export const told = ({ run, running, done }, gone, at = Date.now()) => {
  const now_at = `${run} ${done}`;
  if (now_at !== last) { last = now_at; since = at; }
  const share = `${Math.round(100 * done)} %`;
  if (gone) return `stopped at ${share}: the program has ended`;
  if (!running) return 'not finished';
  return at - since > kStill ? `training, ${share}, no progress for ${Math.round((at - since) / 60000)} min` : `training, ${share}`;
};
