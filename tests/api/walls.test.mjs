// nginx as the first wall: what one address holds or asks, the others do not notice. Linux has all of 127.0.0.0/8, so each
// test comes from addresses of its own.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { eventually, order, PATIENCE, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

/** One request from an address: {status, headers, body}. */
function ask(from, method, path, { body, headers = {} } = {}) {
  return new Promise((done, failed) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const r = http.request({ host: '127.0.0.1', port: s.port, localAddress: from, method, path, agent: false, timeout: PATIENCE,
      headers: { ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } }, (answer) => {
      let got = '';
      answer.setEncoding('utf8').on('data', (d) => { got += d; });
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body: got }));
    });
    r.on('timeout', () => r.destroy(new Error(`no answer to ${path} in ${PATIENCE} ms`)));
    r.on('error', failed);
    r.end(text);
  });
}

/** n connections of one address that send `text` and then nothing: {got, dropped, end}. wanted: waits until the replies are so; else for a moment,
 * in which there should be none. */
async function hold(from, n, text, wanted) {
  const got = Array.from({ length: n }, () => '');
  const sockets = got.map((_, i) => net.connect({ port: s.port, host: '127.0.0.1', localAddress: from })
    .on('error', () => {}).on('data', (d) => { got[i] += d; }).on('connect', function sent() { this.write(text); }));
  await Promise.all(sockets.map((c) => new Promise((done) => { c.on('connect', done).on('error', done); })));
  if (wanted) await eventually(() => assert.ok(wanted(got)));
  else await sleep(500);
  return { got, dropped: () => sockets.filter((c) => c.destroyed).length, end: () => sockets.forEach((c) => c.destroy()) };
}

const slowBody = (path) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{`;
const bodyOf = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));

async function othersGoOn(from) {
  const health = await ask(from, 'GET', '/health');
  assert.equal(health.status, 200, health.body);
  const chat = await ask(from, 'POST', '/v1/chat/completions', { body: { messages: order({ text: 'fine' }) },
    headers: { authorization: `Bearer ${s.key}` } });
  assert.equal(JSON.parse(chat.body).choices[0].message.content, 'fine');
}

test('1100 half-sent heads of one address stop nobody else', async () => {
  const { dropped, end } = await hold('127.0.1.1', 1100, 'GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ');
  try {
    assert.equal(dropped(), 0);
    await othersGoOn('127.0.1.2');
    assert.ok(dropped() < 1100, 'nginx has connections left, and need not close one for another');
  } finally { end(); }
});

test('1100 slow bodies of one address stop nobody else, and most of them are refused', async () => {
  const refusals = (got) => got.filter((text) => text.startsWith('HTTP/1.1 429') && text.includes('\r\n\r\n{'));
  const { got, end } = await hold('127.0.2.1', 1100, slowBody('/v1/chat/completions'), (all) => refusals(all).length >= 1100 - 256);
  try {
    await othersGoOn('127.0.2.2');
    const refused = refusals(got);
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
    ask('127.0.4.1', 'POST', '/api/login', { body: { name: `nobody${i}`, password: 'wrong password' } })));
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
  const { got, end } = await hold('127.0.5.1', 1, slowBody('/api/login'), ([text]) => text);
  end();
  assert.match(got[0], /^HTTP\/1\.1 413 /, 'refused before its body came');
  assert.equal(bodyOf(got[0]).error.code, 'request_too_large');
});

/** A request whose body of `bytes` is announced and not sent: what came back, if anything did. */
async function announce(from, path, headers, { bytes = 1000000, waits = false } = {}) {
  const { got, end } = await hold(from, 1, `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}Content-Length: ${bytes}\r\n\r\n{`, waits ? null : ([text]) => text.trimEnd().endsWith('}'));
  end();
  return got[0];
}

test('a large body is taken only from who may send it, and the refusal is the worker\'s own', async () => {
  const key = `Authorization: Bearer ${s.key}\r\n`;
  for (const path of ['/v1/chat/completions', '/api/attachments', '/tokenize', '/v1/responses', '/api/conversations']) {
    const got = await announce('127.0.6.1', path, '');
    assert.match(got, /^HTTP\/1\.1 401 /, path);
    assert.equal(bodyOf(got).error.code, 'missing_api_key', path);
    assert.equal(bodyOf(got).error.request_id, /\r\nX-Request-Id: (\S+)/i.exec(got)[1], path);
    assert.equal(got.match(/\r\nWWW-Authenticate: Bearer/gi).length, 1, got);
    assert.equal(await announce('127.0.6.1', path, key, { waits: true }), '', `${path}: the body of who may is waited for`);
  }
  const messages = await announce('127.0.6.1', '/v1/messages', 'X-API-Key: sk-wrong\r\n');
  assert.match(messages, /^HTTP\/1\.1 401 /);
  assert.equal(bodyOf(messages).error.type, 'authentication_error');
  assert.equal(bodyOf(messages).request_id, /\r\nRequest-Id: (\S+)/i.exec(messages)[1]);
  const ollama = await announce('127.0.6.1', '/api/chat', '');
  assert.equal(typeof bodyOf(ollama).error, 'string');
  assert.match(await announce('127.0.6.1', '/v1/nonsense', ''), /^HTTP\/1\.1 404 /);
  assert.match(await announce('127.0.6.1', '/v1/models', key), /^HTTP\/1\.1 405 /);
  assert.match(await announce('127.0.6.1', '/v1/chat/completions', '', { bytes: 15000, waits: true }), /^$/, 'a small body is read first');
});

test('a chunked body of unknown size is asked about too', async () => {
  const { got, end } = await hold('127.0.6.2', 1, 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n{', ([text]) => text);
  end();
  assert.match(got[0], /^HTTP\/1\.1 401 /);
});

test('what nginx asks costs nothing of a key\'s requests, and is counted once', async () => {
  const login = await ask('127.0.6.3', 'POST', '/api/login', { body: s.admin });
  const cookie = login.headers['set-cookie'][0].split(';')[0], csrf = JSON.parse(login.body).csrf;
  const made = await ask('127.0.6.3', 'POST', '/api/keys', { headers: { cookie, 'x-csrf-token': csrf },
    body: { name: 'two a minute', scopes: ['inference'], limits: { requests_per_minute: 2 } } });
  const { key } = JSON.parse(made.body);
  const big = { messages: order({ text: 'fine' }), metadata: { pad: 'x'.repeat(500) }, user: 'y'.repeat(100) };
  big.messages[0].content += ' '.repeat(20000);
  for (const want of [200, 200, 429]) {
    const r = await ask('127.0.6.3', 'POST', '/v1/chat/completions', { headers: { authorization: `Bearer ${key}` }, body: big });
    assert.equal(r.status, want, r.body);
  }
});

test('who starts everything as root is told so, once; nobody else is', () => {
  assert.equal(s.log.split('all programs run as root').length - 1, process.getuid() === 0 ? 1 : 0);
});
