// The session's cookie: its name over TLS and without, never two sessions at once, and an age that is the session's.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';
import { startTls } from './tls.mjs';

const python = process.env.SLUICE_PYTHON ?? 'python3';
const DAY = 24 * 3600;
let s, tls;
before(async () => {
  s = await start({ fake: true });
  tls = await startTls(s);
});
after(async () => { await tls?.stop(); await s?.stop(); });

const none = { authorization: null };
const body = () => ({ name: s.admin.name, password: s.admin.password });
const plain = async () => (await s.json('POST', '/api/login', body(), none)).headers.get('set-cookie').split(';')[0];
const secure = async () => (await tls.ask('POST', '/api/login', { body: body() })).cookies[0].split(';')[0];
const value = (cookie) => cookie.slice(cookie.indexOf('=') + 1);
const sql = (statement, ...values) => execFileSync(python, ['-c', `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute(sys.argv[2], [int(v) for v in sys.argv[3:]])
db.commit()`, path.join(s.dir, 'state/sluice.db'), statement, ...values.map(String)]);
const age = (cookie) => Number(/Max-Age=(\d+)/.exec(cookie)[1]);

test('by TLS the cookie has a name that nobody else can set, and HSTS comes with every answer', async () => {
  const login = await tls.ask('POST', '/api/login', { body: body() });
  assert.equal(login.cookies.length, 1);
  assert.match(login.cookies[0], /^__Host-sluice_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=2592000; Secure$/);
  const cookie = login.cookies[0].split(';')[0];
  assert.equal((await tls.ask('GET', '/api/session', { headers: { cookie } })).status, 200);
  for (const where of ['/', '/api/session', '/health', '/nothing/here', '/css/none.css'])
    assert.equal((await tls.ask('GET', where)).headers['strict-transport-security'], 'max-age=31536000', where);
  assert.equal((await s.request('GET', '/')).headers.get('strict-transport-security'), null);
  const out = await tls.ask('POST', '/api/logout', { headers: { cookie, 'x-csrf-token': login.body.csrf } });
  assert.deepEqual(out.cookies, ['__Host-sluice_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure']);
  assert.equal((await tls.ask('GET', '/api/session', { headers: { cookie } })).status, 401);
});

test('a session of an earlier version goes on by TLS, and gets the new name', async () => {
  const old = await plain();
  const r = await tls.ask('GET', '/api/session', { headers: { cookie: old } });
  assert.equal(r.status, 200, r.text);
  assert.equal(r.cookies.length, 2);
  assert.ok(r.cookies[0].startsWith(`__Host-sluice_session=${value(old)};`), r.cookies[0]);
  assert.match(r.cookies[1], /^sluice_session=; .*Max-Age=0; Secure$/);
  const again = await tls.ask('GET', '/api/session', { headers: { cookie: `__Host-${old}` } });
  assert.deepEqual([again.status, again.cookies], [200, []]);
});

test('two sessions in one request are nobody, whichever names they have', async () => {
  const one = await secure(), two = await plain();
  assert.equal((await tls.ask('GET', '/api/session', { headers: { cookie: `${one}; sluice_session=${value(one)}` } })).status, 200);
  for (const cookie of [`${one}; ${two}`, `${two}; ${one}`, `${two}; sluice_session=${value(one)}`]) {
    const r = await tls.ask('GET', '/api/session', { headers: { cookie } });
    assert.deepEqual([r.status, r.body.error.code], [401, 'ambiguous_session'], r.text);
    assert.match(r.cookies[0], /^sluice_session=; .*Max-Age=0/);
  }
  const login = await tls.ask('POST', '/api/login', { body: body(), headers: { cookie: `${one}; ${two}` } });
  assert.equal(login.status, 200, login.text);
  assert.equal(login.cookies.length, 2);
  for (const cookie of [one, two]) assert.equal((await tls.ask('GET', '/api/session', { headers: { cookie } })).status, 401, 'ended by the login');
});

test('the cookie lives as long as the session: 30 days from its use, 90 from the login', async () => {
  const cookie = await plain(), headers = { ...none, cookie };
  assert.equal((await s.json('GET', '/api/session', undefined, headers)).headers.get('set-cookie'), null, 'used just now');
  sql('UPDATE sessions SET used_at = used_at - ?, expires_at = expires_at - ?', 360000, 360000);
  const used = await s.json('GET', '/api/session', undefined, headers);
  assert.ok(used.headers.get('set-cookie').startsWith(`${cookie};`));
  assert.ok(Math.abs(age(used.headers.get('set-cookie')) - 30 * DAY) < 60);
  sql('UPDATE sessions SET used_at = used_at - ?, created_at = created_at - ?', 360000, 89 * DAY * 1000);
  const late = await s.json('GET', '/api/session', undefined, headers);
  assert.ok(Math.abs(age(late.headers.get('set-cookie')) - DAY) < 60, late.headers.get('set-cookie'));
});
