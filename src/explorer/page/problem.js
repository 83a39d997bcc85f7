import { element } from './dom.js';

// What went wrong, wherever it did: what happened, what to do about it, and a button that tries again.
export const problem = ({ what, todo = '', retry = null }) => element('div', { class: 'problem', role: 'alert' },
    element('p', { class: 'error' }, what), todo ? element('p', {}, todo) : null,
    retry ? element('button', { type: 'button', class: 'retry', onclick: retry }, 'Try again') : null);

// Of an error of api.js. Where the program is gone, the page tries again by itself.
export const problem_of = (error, { todo = '', retry = null } = {}) => error.gone
    ? problem({
      what: 'The program does not answer.',
      todo: 'It has ended, or it is being started again. Start it where it ran before: fovea serve. This page goes on by itself as soon as it answers.',
    })
    : problem({ what: error.message, todo: todo || (error.refused ? 'Change the input or the setting it names: the page asks again by itself.' : ''), retry: error.refused ? null : retry });
