// Login, cookie, CSRF, logout, throttling, the own password.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const none = { authorization: null };
const login = (name, password) => s.json('POST', '/api/login', { name, password }, none);
const cookieOf = (r) => r.headers.get('set-cookie').split(';')[0];

async function enter() {
  const r = await login(s.admin.name, s.admin.password);
  assert.equal(r.status, 200, r.text);
  return { cookie: cookieOf(r), csrf: r.body.csrf, r };
}

test('login gives user, csrf and a cookie that scripts and other sites cannot use', async () => {
  const { r } = await enter();
  assert.equal(r.body.user.name, 'admin');
  assert.equal(r.body.user.role, 'admin');
  assert.equal(typeof r.body.user.id, 'string');
  const cookie = r.headers.get('set-cookie');
  assert.match(cookie, /^sluice_session=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
});

test('the session answers with the same csrf; without it changes are refused', async () => {
  const { cookie, csrf } = await enter();
  const r = await s.json('GET', '/api/session', undefined, { ...none, cookie });
  assert.equal(r.status, 200);
  assert.equal(r.body.csrf, csrf);
  const make = (headers) => s.json('POST', '/api/keys', { name: 'k' }, { ...none, cookie, ...headers });
  for (const headers of [{}, { 'x-csrf-token': 'wrong' }, { 'x-csrf-token': '' }]) {
    const bad = await make(headers);
    assert.equal(bad.status, 403, bad.text);
    assert.equal(bad.body.error.code, 'csrf_token_missing');
  }
  assert.equal((await make({ 'x-csrf-token': csrf })).status, 201);
});

test('a chat by cookie works, with its token', async () => {
  const { cookie, csrf } = await enter();
  const body = { messages: [{ role: 'user', content: 'hi' }] };
  assert.equal((await s.chat(body, { ...none, cookie })).status, 403);
  assert.equal((await s.chat(body, { ...none, cookie, 'x-csrf-token': csrf })).status, 200);
});

test('logout ends the session on the server', async () => {
  const { cookie, csrf } = await enter();
  const out = await s.json('POST', '/api/logout', undefined, { ...none, cookie, 'x-csrf-token': csrf });
  assert.equal(out.status, 204);
  assert.match(out.headers.get('set-cookie'), /^sluice_session=; .*Max-Age=0/);
  const r = await s.json('GET', '/api/session', undefined, { ...none, cookie });
  assert.equal(r.status, 401);
  assert.equal(r.body.error.code, 'invalid_session');
});

test('a forged cookie is nobody', async () => {
  for (const value of ['', 'x', 'A'.repeat(43), 'A'.repeat(300), '../../etc']) {
    assert.equal((await s.json('GET', '/api/session', undefined, { ...none, cookie: `sluice_session=${value}` })).status, 401);
  }
});

test('the own password: the current one is asked for, other sessions end', async () => {
  const one = await enter(), two = await enter();
  const change = (current, fresh) => s.json('POST', '/api/password', { current, new: fresh },
    { ...none, cookie: one.cookie, 'x-csrf-token': one.csrf });
  assert.equal((await change('wrong', 'long enough')).status, 403);
  const short = await change(s.admin.password, 'short');
  assert.equal(short.status, 400);
  assert.equal(short.body.error.param, 'new');
  assert.equal((await change(s.admin.password, 'a new pass word')).status, 204);
  assert.equal((await s.json('GET', '/api/session', undefined, { ...none, cookie: one.cookie })).status, 200);
  assert.equal((await s.json('GET', '/api/session', undefined, { ...none, cookie: two.cookie })).status, 401);
  assert.equal((await login('admin', s.admin.password)).status, 401);
  s.admin.password = 'a new pass word';
  assert.equal((await login('ADMIN', s.admin.password)).status, 200, 'names ignore case');
});

test('failed logins wait, for that name from that address', async () => {
  let r;
  for (let i = 0; i < 8; i++) {
    r = await login('nobody', 'wrong password');
    if (r.status === 429) break;
    assert.equal(r.status, 401);
    assert.equal(r.body.error.code, 'invalid_login');
  }
  assert.equal(r.status, 429, 'throttled after some failures');
  assert.equal(r.body.error.type, 'rate_limit_error');
  assert.ok(Number(r.headers.get('retry-after')) >= 1);
  assert.equal((await login('admin', s.admin.password)).status, 200, 'another name is not shut out');
});

test('login refuses what is no login', async () => {
  for (const [body, param] of [[{}, 'name'], [{ name: 'x' }, 'password'], [{ name: 5, password: 'x' }, 'name'],
    [{ name: 'x', password: 'y'.repeat(2000) }, 'password']]) {
    const r = await s.json('POST', '/api/login', body, none);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, param);
  }
});
