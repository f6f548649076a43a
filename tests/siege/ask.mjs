// One request over a connection of its own, from an address of 127/8, so that limits per address apply as to strangers.
import http from 'node:http';

export const PASSWORD = 'a long enough password';

/** {status, headers, body, first, ms}; status 0: no answer. first: milliseconds until the body had `mark`, or anything.
    slow: milliseconds between reads of 64 KiB. */
export function ask(port, from, method, path, { body, headers = {}, timeout = 120000, mark, slow } = {}) {
  const began = performance.now();
  const bytes = body === undefined || Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((done) => {
    const r = http.request({ host: '127.0.0.1', port, localAddress: from, method, path, agent: false, timeout,
      headers: { ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }), ...headers } }, (answer) => {
      let got = '', first;
      answer.setEncoding('utf8').on('data', (d) => {
        if (got.length < 4 << 20) got += d;
        if (first === undefined && (!mark || got.includes(mark))) first = performance.now() - began;
        if (slow) { answer.pause(); setTimeout(() => answer.resume(), slow); }
      });
      answer.on('error', () => {}).on('close', () => done({ status: answer.statusCode, headers: answer.headers, body: got, first, ms: performance.now() - began }));
    });
    r.on('timeout', () => r.destroy(new Error('timeout')));
    r.on('error', (e) => done({ status: 0, headers: {}, body: e.message, ms: performance.now() - began }));
    r.end(bytes);
  });
}

/** Signs in: the headers of a page of that user. */
export async function signIn(port, from, name) {
  const login = await ask(port, from, 'POST', '/api/login', { body: { name, password: PASSWORD } });
  if (login.status !== 200) throw new Error(`login of ${name}: ${login.status} ${login.body}`);
  return { cookie: login.headers['set-cookie'][0].split(';')[0], 'x-csrf-token': JSON.parse(login.body).csrf };
}

/** A key that may infer and read the history. */
export async function makeKey(port, from, page) {
  const key = await ask(port, from, 'POST', '/api/keys', { headers: page, body: { name: 'siege', scopes: ['inference', 'history'], password: PASSWORD } });
  if (key.status !== 201) throw new Error(`${key.status} ${key.body}`);
  return JSON.parse(key.body).key;
}
