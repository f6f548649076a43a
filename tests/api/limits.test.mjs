// What a key may do, until when, and how much: scopes, expiry, limits over all workers, revocation, other origins.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, order, sleep, start } from './harness.mjs';

const python = process.env.SLUICE_PYTHON ?? 'python3';
const ORIGIN = 'https://chat.example';
let s;
before(async () => { s = await start({ fake: true, args: ['--cors-origins', `${ORIGIN} http://localhost:3000`] }); });
after(() => s?.stop());

const as = (key) => ({ authorization: `Bearer ${key}` });
async function makeKey(terms) {
  const r = await s.json('POST', '/api/keys', { name: 'of a test', ...terms });
  assert.equal(r.status, 201, r.text);
  return r.body;
}
const chat = (key, body = {}) => s.chat({ messages: order({ text: 'one two' }), ...body }, as(key));

test('a key reaches what its scopes say, and 403 says what is missing', async () => {
  const paths = { inference: ['GET', '/v1/models'], history: ['GET', '/api/conversations'], admin: ['GET', '/api/keys'] };
  for (const scope of Object.keys(paths)) {
    const { key, scopes } = await makeKey({ scopes: [scope] });
    assert.deepEqual(scopes, [scope]);
    for (const [other, [method, path]] of Object.entries(paths)) {
      const r = await s.json(method, path, undefined, as(key));
      assert.equal(r.status, other === scope ? 200 : 403, `${scope} key on ${path}: ${r.text}`);
      if (other === scope) continue;
      assert.equal(r.body.error.code, 'insufficient_scope');
      assert.equal(r.body.error.type, 'permission_error');
      assert.match(r.body.error.message, new RegExp(other));
    }
    assert.equal((await s.json('GET', '/api/session', undefined, as(key))).status, 200, 'any key may ask who it is');
  }
});

test('a key gives out no more than it has', async () => {
  const { key } = await makeKey({ scopes: ['admin'] });
  const more = await s.json('POST', '/api/keys', { name: 'x', scopes: ['inference'] }, as(key));
  assert.equal(more.status, 403);
  const same = await s.json('POST', '/api/keys', { name: 'x' }, as(key));
  assert.deepEqual(same.body.scopes, ['admin']);
});

test('an expired key is 401 from that moment on', async () => {
  const made = await makeKey({ expires_at: Date.now() + 60000 });
  assert.equal((await s.json('GET', '/v1/models', undefined, as(made.key))).status, 200);
  const changed = await s.json('PATCH', `/api/keys/${made.id}`, { expires_at: Date.now() - 1 });
  assert.equal(changed.status, 200, changed.text);
  for (let i = 0; i < 10; i++) { // whichever worker answers
    const r = await s.json('GET', '/v1/models', undefined, as(made.key));
    assert.equal(r.status, 401);
    assert.match(r.body.error.message, /expired/);
  }
  await s.json('PATCH', `/api/keys/${made.id}`, { expires_at: null });
  assert.equal((await s.json('GET', '/v1/models', undefined, as(made.key))).status, 200);
});

test('a revoked key is refused by every worker that just accepted it', async () => {
  const { id, key } = await makeKey({});
  const all = () => Promise.all(Array.from({ length: 24 }, (_, i) => (i % 2 ? s.json('GET', '/v1/models', undefined, as(key)) : chat(key))));
  assert.deepEqual([...new Set((await all()).map((r) => r.status))], [200]);
  assert.equal((await s.json('DELETE', `/api/keys/${id}`)).status, 204);
  assert.deepEqual([...new Set((await all()).map((r) => r.status))], [401]);
});

test('bad terms are refused with their field', async () => {
  for (const [terms, param] of [[{ scopes: [] }, 'scopes'], [{ scopes: ['root'] }, 'scopes'], [{ scopes: 'admin' }, 'scopes'],
    [{ expires_at: 'soon' }, 'expires_at'], [{ expires_at: -5 }, 'expires_at'], [{ limits: 5 }, 'limits'],
    [{ limits: { requests_per_minute: -1 } }, 'requests_per_minute'], [{ limits: { max_jobs: 1.5 } }, 'max_jobs']]) {
    const r = await s.json('POST', '/api/keys', { name: 'x', ...terms });
    assert.equal(r.status, 400, `${JSON.stringify(terms)}: ${r.text}`);
    assert.equal(r.body.error.param, param);
  }
  assert.equal((await s.json('PATCH', '/api/keys/999999', {})).status, 404);
});

function checkRefused(r) {
  assert.equal(r.status, 429, r.text);
  assert.equal(r.body.error.type, 'rate_limit_error');
  assert.equal(r.body.error.code, 'rate_limit_exceeded');
  assert.ok(Number(r.headers.get('retry-after')) >= 1);
}

test('requests per minute, over all workers, with OpenAI\'s headers', async () => {
  const { key } = await makeKey({ limits: { requests_per_minute: 5 } });
  const before = await s.metric('rate_limited_total', 'limit="requests"'), began = Date.now();
  const first = await chat(key);
  assert.equal(first.headers.get('x-ratelimit-limit-requests'), '5');
  assert.equal(first.headers.get('x-ratelimit-remaining-requests'), '4');
  assert.match(first.headers.get('x-ratelimit-reset-requests'), /^(\d+ms|\d+s|\d+m\d+s)$/);
  assert.equal(first.headers.get('x-ratelimit-limit-tokens'), null, 'no limit, no header');
  const rest = await Promise.all(Array.from({ length: 12 }, (_, i) => (i % 2 ? chat(key) : s.json('POST', '/tokenize', { content: 'x' }, as(key)))));
  const more = Math.floor((Date.now() - began) / 12000); // one of the five comes back each twelve seconds
  const refused = rest.filter((r) => r.status !== 200);
  assert.ok(refused.length <= 8 && refused.length >= 8 - more, `${refused.length} refused`);
  refused.forEach(checkRefused);
  assert.equal(await s.metric('rate_limited_total', 'limit="requests"') - before, refused.length);
  const look = await s.json('GET', '/v1/models', undefined, as(key)); // reading costs nothing
  assert.equal(look.status, 200);
  assert.ok(Number(look.headers.get('x-ratelimit-remaining-requests')) <= (Date.now() - began) / 12000);
});

test('tokens per minute: prompt and answer are taken, a debt waits', async () => {
  const { key } = await makeKey({ limits: { tokens_per_minute: 400 } });
  const began = Date.now(), r = await chat(key);
  const used = r.body.usage.total_tokens;
  assert.equal(r.status, 200, r.text);
  const left = Number((await s.json('GET', '/v1/models', undefined, as(key))).headers.get('x-ratelimit-remaining-tokens'));
  assert.ok(left >= 400 - used && left <= 400 - used + 1 + (Date.now() - began) * 400 / 60000, `${left} left after ${used}`); // the minute fills meanwhile
  const long = { messages: order({ text: 'word '.repeat(300) }) };
  const { usage } = (await s.chat(long)).body;
  const small = await makeKey({ limits: { tokens_per_minute: usage.prompt_tokens + Math.floor(usage.completion_tokens / 2) } });
  const whole = await chat(small.key, long);
  assert.equal(whole.body.usage.completion_tokens, usage.completion_tokens, 'an answer is not cut short');
  const refused = await chat(small.key);
  checkRefused(refused);
  assert.equal(refused.headers.get('x-ratelimit-remaining-tokens'), '0');
});

test('jobs at one time, and they are free again when the client goes', async () => {
  const { key } = await makeKey({ limits: { max_jobs: 2 } });
  const slow = { messages: order({ text: 'word '.repeat(400), token_ms: 500 }), stream: true };
  const stop = new AbortController();
  const open = () => fetch(`${s.url}/v1/chat/completions`, { method: 'POST', signal: stop.signal, body: JSON.stringify(slow),
    headers: { ...as(key), 'content-type': 'application/json' } });
  const two = await Promise.all([open(), open()]);
  assert.deepEqual(two.map((r) => r.status), [200, 200]);
  checkRefused(await chat(key));
  checkRefused(await chat(key, { n: 3 }));
  stop.abort();
  await eventually(async () => assert.equal((await chat(key)).status, 200, 'the places are free'));
});

/** Nobody else writes into the database until the function that it gives is called. */
async function lockDatabase() {
  const locker = spawn(python, ['-c', `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()`, path.join(s.dir, 'state/sluice.db')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = once(locker, 'exit');
  await once(locker.stdout, 'data');
  return () => { locker.stdin.end(); return gone; };
}

test('a job whose client is gone gives its place back, though another is writing for long', async () => {
  const { key } = await makeKey({ limits: { max_jobs: 1 } });
  const unlock = await lockDatabase(), stop = new AbortController();
  try {
    const r = await fetch(`${s.url}/v1/chat/completions`, { method: 'POST', signal: stop.signal, headers: { ...as(key), 'content-type': 'application/json' },
      body: JSON.stringify({ messages: order({ text: 'word '.repeat(400), token_ms: 500 }), stream: true }) });
    assert.equal(r.status, 200);
    await r.body.getReader().read();
    checkRefused(await chat(key));
    stop.abort();
    await eventually(async () => assert.equal((await chat(key)).status, 200)); // what it used is counted when the database can be written
  } finally { await unlock(); }
});

test('whoever has the end of an answer meets what it used of the day, though another is writing', async () => {
  const { id } = (await s.json('POST', '/api/users', { name: 'eve', password: 'a long password' })).body;
  const login = await s.request('POST', '/api/login', { name: 'eve', password: 'a long password' }, { authorization: null });
  const mine = { authorization: null, 'x-csrf-token': (await login.json()).csrf, cookie: login.headers.get('set-cookie').split(';')[0] };
  const { key } = (await s.json('POST', '/api/keys', { name: 'k' }, mine)).body;
  const { prompt_tokens: n } = (await chat(key)).body.usage;
  const used = await eventually(async () => { // far from a limit an answer is counted after its end
    const { tokens_today } = (await s.json('GET', '/api/account/limits', undefined, mine)).body.used;
    assert.ok(tokens_today);
    return tokens_today;
  });
  await s.json('PATCH', `/api/users/${id}`, { limits: { tokens_per_day: used + n } }); // one more
  const unlock = await lockDatabase();
  const done = (async () => {
    const r = await fetch(`${s.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ messages: order({ text: 'one two' }), stream: true }),
      headers: { ...as(key), 'content-type': 'application/json' } });
    let text = '';
    for await (const piece of r.body) if ((text += Buffer.from(piece)).includes('[DONE]')) return true;
    return assert.fail(text);
  })();
  try {
    const ended = await Promise.race([done, sleep(300)]);
    if (ended) assert.equal((await chat(key)).status, 429, 'it ended, and so it is counted');
  } finally { await unlock(); }
  assert.ok(await done);
  assert.equal((await chat(key)).body.error?.code, 'insufficient_quota');
});

test('a place is free when the worker that held it is killed', async () => {
  const { key } = await makeKey({ limits: { max_jobs: 1 } });
  const slow = { messages: order({ text: 'word '.repeat(400), token_ms: 500 }), stream: true };
  const r = await fetch(`${s.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(slow),
    headers: { ...as(key), 'content-type': 'application/json' } });
  assert.equal(r.status, 200);
  checkRefused(await chat(key));
  for (const pid of s.childrenOf(s.pid('workers-stream'))) process.kill(pid, 'SIGKILL');
  await r.text();
  await eventually(async () => assert.equal((await chat(key)).status, 200));
});

test('a key with limits does not run the model past them by the page\'s routes', async () => {
  const { key } = await makeKey({ limits: { max_jobs: 5 } });
  const c = await s.json('POST', '/api/conversations', {}, as(key));
  const r = await s.json('POST', `/api/conversations/${c.body.id}/messages`, { content: 'x' }, as(key));
  assert.equal(r.status, 403);
});

test('pages of listed origins may use /v1 with a key, and nothing else', async () => {
  const send = (method, path, origin, headers = {}) => s.request(method, path, undefined, { origin, ...headers });
  const pre = await send('OPTIONS', '/v1/chat/completions', ORIGIN,
    { authorization: null, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' });
  assert.equal(pre.status, 204);
  assert.equal(pre.headers.get('access-control-allow-origin'), ORIGIN);
  assert.equal(pre.headers.get('access-control-allow-methods'), 'POST');
  assert.equal(pre.headers.get('access-control-allow-headers'), 'authorization,content-type');
  for (const [path, origin, want] of [['/v1/models', ORIGIN, ORIGIN], ['/v1/models', 'http://localhost:3000', 'http://localhost:3000'],
    ['/v1/models', 'https://evil.example', null], ['/v1/models', `${ORIGIN}.evil`, null], ['/api/session', ORIGIN, null],
    ['/v1/nothing', ORIGIN, ORIGIN]]) {
    const r = await send('GET', path, origin);
    assert.equal(r.headers.get('access-control-allow-origin'), want, `${origin} on ${path}`);
    assert.equal(r.headers.get('access-control-allow-credentials'), null);
    assert.match(r.headers.get('vary') ?? '', /Origin/);
  }
  const refused = await send('GET', '/v1/models', ORIGIN, { authorization: 'Bearer sk-no' });
  assert.equal(refused.headers.get('access-control-allow-origin'), ORIGIN, 'a page can read why it was refused');
});
