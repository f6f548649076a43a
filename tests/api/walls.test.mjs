// nginx as the first wall: what one address holds or asks, the others do not notice. Linux has all of 127.0.0.0/8, so each
// test comes from addresses of its own.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { order, sleep, slow, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

/** One request from an address: {status, headers, body, ms}. */
function ask(from, method, path, { body, headers = {}, ms = 5000 * slow } = {}) {
  const began = Date.now();
  return new Promise((done, failed) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const r = http.request({ host: '127.0.0.1', port: s.port, localAddress: from, method, path, agent: false, timeout: ms,
      headers: { ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } }, (answer) => {
      let got = '';
      answer.setEncoding('utf8').on('data', (d) => { got += d; });
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body: got, ms: Date.now() - began }));
    });
    r.on('timeout', () => r.destroy(new Error(`no answer to ${path} in ${ms} ms`)));
    r.on('error', failed);
    r.end(text);
  });
}

/** n connections of one address that send `text` and then nothing: {got, dropped, end}. */
async function hold(from, n, text) {
  const got = Array.from({ length: n }, () => '');
  const sockets = got.map((_, i) => net.connect({ port: s.port, host: '127.0.0.1', localAddress: from })
    .on('error', () => {}).on('data', (d) => { got[i] += d; }).on('connect', function sent() { this.write(text); }));
  await Promise.all(sockets.map((c) => new Promise((done) => { c.on('connect', done).on('error', done); })));
  await sleep(500 * slow);
  return { got, dropped: sockets.filter((c) => c.destroyed).length, end: () => sockets.forEach((c) => c.destroy()) };
}

const slowBody = (path) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{`;
const bodyOf = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));

async function othersGoOn(from) {
  const health = await ask(from, 'GET', '/health', { ms: 4000 }); // shorter than nginx waits for the rest of a head
  assert.equal(health.status, 200, health.body);
  const chat = await ask(from, 'POST', '/v1/chat/completions', { body: { messages: order({ text: 'fine' }) },
    headers: { authorization: `Bearer ${s.key}` } });
  assert.equal(JSON.parse(chat.body).choices[0].message.content, 'fine');
}

test('1100 half-sent heads of one address stop nobody else', async () => {
  const { dropped, end } = await hold('127.0.1.1', 1100, 'GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ');
  try {
    await othersGoOn('127.0.1.2');
    assert.equal(dropped, 0, 'nginx has connections left, and need not close one for another');
  } finally { end(); }
});

test('1100 slow bodies of one address stop nobody else, and most of them are refused', async () => {
  const { got, end } = await hold('127.0.2.1', 1100, slowBody('/v1/chat/completions'));
  try {
    await othersGoOn('127.0.2.2');
    const refused = got.filter((text) => text.startsWith('HTTP/1.1 429'));
    assert.equal(refused.length, 1100 - 256);
    assert.match(refused[0], /\r\nRetry-After: \d+\r\n/);
    assert.equal(bodyOf(refused[0]).error.code, 'rate_limit_exceeded');
  } finally { end(); }
});

test('each API refuses in its own form', async () => {
  const { end } = await hold('127.0.3.1', 256, slowBody('/v1/chat/completions'));
  try {
    const messages = await ask('127.0.3.1', 'POST', '/v1/messages', { body: {} });
    assert.equal(messages.status, 429);
    assert.equal(JSON.parse(messages.body).error.type, 'rate_limit_error');
    assert.equal(JSON.parse(messages.body).request_id, messages.headers['request-id']);
    const count = await ask('127.0.3.1', 'POST', '/v1/messages/count_tokens', { body: {} });
    assert.equal(JSON.parse(count.body).type, 'error');
    for (const path of ['/api/chat', '/api/show']) {
      const ollama = await ask('127.0.3.1', 'POST', path, { body: {} });
      assert.equal(ollama.status, 429);
      assert.equal(typeof JSON.parse(ollama.body).error, 'string');
      assert.ok(ollama.headers['retry-after']);
    }
    const other = await ask('127.0.3.1', 'POST', '/api/import', { body: {} });
    assert.equal(other.status, 429);
    assert.equal(JSON.parse(other.body).error.type, 'rate_limit_error');
  } finally { end(); }
});

test('a flood of logins is refused at the door while others go on', async () => {
  const user = await ask('127.0.4.2', 'POST', '/api/login', { body: s.admin });
  assert.equal(user.status, 200, user.body);
  const cookie = user.headers['set-cookie'][0].split(';')[0];
  const flood = Promise.all(Array.from({ length: 300 }, (_, i) =>
    ask('127.0.4.1', 'POST', '/api/login', { body: { name: `nobody${i}`, password: 'wrong password' }, ms: 30000 * slow })));
  const session = await ask('127.0.4.2', 'GET', '/api/session', { headers: { cookie } });
  assert.equal(session.status, 200, session.body);
  const all = await flood;
  assert.ok(all.every((r) => r.status === 401 || r.status === 429), `${all.map((r) => r.status)}`);
  const refused = all.filter((r) => /from this address/.test(r.body));
  assert.ok(refused.length >= 200, `${refused.length} never reached a worker`);
  assert.equal(JSON.parse(refused[0].body).error.code, 'rate_limit_exceeded');
  assert.ok(refused[0].headers['retry-after']);
});

test('a login is small: who is not known yet sends no megabytes', async () => {
  const { got, end } = await hold('127.0.5.1', 1, slowBody('/api/login'));
  end();
  assert.match(got[0], /^HTTP\/1\.1 413 /, 'refused before its body came');
  assert.equal(bodyOf(got[0]).error.code, 'request_too_large');
});

test('who starts everything as root is told so, once; nobody else is', () => {
  assert.equal(s.log.split('all programs run as root').length - 1, process.getuid() === 0 ? 1 : 0);
});
