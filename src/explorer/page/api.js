const token_in = page => page.querySelector('meta[name=fovea-token]')?.content ?? '';
let token = token_in(document);

// A program that was started again has another token, which its page holds.
export const renew_token = async () => {
  const page = await (await reach('/')).text();
  token = token_in(new DOMParser().parseFromString(page, 'text/html'));
};

// Nobody answers at the other end.
const reach = async (address, options) => {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw Object.assign(new Error('The program does not answer.'), { gone: true });
  }
};

const checked = async response => {
  if (response.ok) return response;
  let why = `${response.status} ${response.statusText}`;
  try {
    why = (await response.clone().json()).error || why;
  } catch {
    why = (await response.text()) || why;
  }
  throw Object.assign(new Error(why), { refused: response.status < 500 });  // asked again, the answer is the same
};

const path = (...parts) => '/api/' + parts.map(encodeURIComponent).join('/');

export const get = async (...parts) => (await checked(await reach(path(...parts)))).json();

// Numbers that were unpacked stay here: what they were unpacked from goes back.
const plain = (key, value) => ArrayBuffer.isView(value) ? undefined : value;

const send = async (parts, body, signal) => checked(await reach(path(...parts), {
  method: 'POST', signal, body: JSON.stringify(body, plain),
  headers: { 'Content-Type': 'application/json', 'X-Fovea-Token': token },
}));

export const post = async (parts, body, signal) => (await send(parts, body, signal)).json();
export const file = async (parts, body) => (await send(parts, body)).blob();

// The latest question of its kind: an older one is given up, here and on the server.
export const latest = () => {
  let running = null;
  return async ask => {
    running?.abort();
    const mine = running = new AbortController();
    try {
      const result = await ask(mine.signal);
      return mine === running ? result : null;
    } catch (error) {
      if (error.name === 'AbortError' || mine !== running) return null;
      throw error;
    }
  };
};

// Long work: a line for each part that is done, the answer as the last. `tell(share)` is called
// meanwhile; the signal ends it, here and on the server.
export const measure = async (parts, body, signal, tell) => {
  const reader = (await send(parts, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read().catch(error => {
      throw error.name === 'AbortError' ? error : Object.assign(new Error('The program ended meanwhile.'), { gone: true });
    });
    if (done) break;
    text += value;
    const lines = text.split('\n');
    text = lines.pop();
    for (const line of lines.slice(-1)) if (line) tell(JSON.parse(line).done);
  }
  const answer = JSON.parse(text);
  if (answer.error) throw new Error(answer.error);
  return answer;
};

// Weights come as base64 of 32-bit floats.
export const unpacked = text => {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
};
export const packed = weights => {
  const bytes = new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength);
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
};
