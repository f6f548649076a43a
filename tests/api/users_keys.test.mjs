// API keys and users: made, listed, revoked at once; roles; nothing of another user is reachable.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const as = (key) => ({ authorization: `Bearer ${key}` });
const noKey = { authorization: null };

async function userWithKey(name) {
  const password = 'a long password';
  const made = await s.json('POST', '/api/users', { name, password, role: 'user' });
  assert.equal(made.status, 201, made.text);
  const login = await s.json('POST', '/api/login', { name, password }, noKey);
  const cookie = login.headers.get('set-cookie').split(';')[0];
  const key = await s.json('POST', '/api/keys', { name: 'mine' }, { ...noKey, cookie, 'x-csrf-token': login.body.csrf });
  return { id: made.body.id, key: key.body.key, keyId: key.body.id };
}

test('a key is shown once, works, and stops at once when revoked', async () => {
  const made = await s.json('POST', '/api/keys', { name: 'laptop' });
  assert.equal(made.status, 201);
  assert.match(made.body.key, /^sk-sluice-[A-Za-z0-9_-]{43}$/);
  assert.equal((await s.json('GET', '/v1/models', undefined, as(made.body.key))).status, 200);
  const list = await s.json('GET', '/api/keys');
  const row = list.body.items.find((k) => k.id === made.body.id);
  assert.equal(row.name, 'laptop');
  assert.ok(made.body.key.startsWith(row.prefix) && row.prefix.length < 20);
  assert.ok(!list.text.includes(made.body.key));
  assert.equal((await s.json('DELETE', `/api/keys/${made.body.id}`)).status, 204);
  for (let i = 0; i < 20; i++) // whichever worker answers
    assert.equal((await s.json('GET', '/v1/models', undefined, as(made.body.key))).status, 401);
  assert.equal((await s.json('DELETE', `/api/keys/${made.body.id}`)).status, 404);
});

test('a user reaches neither admin pages nor others\' keys', async () => {
  const u = await userWithKey('ulla');
  for (const [method, path, body] of [['GET', '/api/users'], ['POST', '/api/users', { name: 'x', password: 'yyyyyyyyy' }],
    ['DELETE', '/api/users/1'], ['GET', '/api/admin/status']]) {
    const r = await s.json(method, path, body, as(u.key));
    assert.equal(r.status, 403, `${method} ${path}: ${r.text}`);
    assert.equal(r.body.error.type, 'permission_error');
  }
  const mine = await s.json('GET', '/api/keys');
  assert.equal((await s.json('DELETE', `/api/keys/${mine.body.items[0].id}`, undefined, as(u.key))).status, 404);
  assert.equal((await s.json('GET', '/api/keys', undefined, as(u.key))).body.items.length, 1);
});

test('a removed user is nobody at once; the last admin stays', async () => {
  const u = await userWithKey('kurt');
  assert.equal((await s.json('POST', '/api/users', { name: 'KURT', password: 'another one' })).status, 409);
  assert.equal((await s.json('DELETE', `/api/users/${u.id}`)).status, 204);
  assert.equal((await s.json('GET', '/v1/models', undefined, as(u.key))).status, 401);
  const me = await s.json('GET', '/api/session');
  assert.equal((await s.json('DELETE', `/api/users/${me.body.user.id}`)).status, 409);
});

test('bad users and keys are refused with the field', async () => {
  for (const [path, body, param] of [
    ['/api/users', { password: 'long enough' }, 'name'],
    ['/api/users', { name: 'x' }, 'password'],
    ['/api/users', { name: 'x', password: 'short' }, 'password'],
    ['/api/users', { name: 'x', password: 'long enough', role: 'god' }, 'role'],
    ['/api/users', { name: '', password: 'long enough' }, 'name'],
    ['/api/users', { name: 'a\tb', password: 'long enough' }, 'name'],
    ['/api/users', { name: 'n'.repeat(300), password: 'long enough' }, 'name'],
    ['/api/keys', {}, 'name'],
    ['/api/keys', { name: 5 }, 'name'],
  ]) {
    const r = await s.json('POST', path, body);
    assert.equal(r.status, 400, `${JSON.stringify(body).slice(0, 60)}: ${r.text}`);
    assert.equal(r.body.error.param, param);
  }
  for (const id of ['0', '-1', 'x', '1e3', '99999999999999999999', '1%2f2'])
    assert.equal((await s.json('DELETE', `/api/keys/${id}`)).status, 404, id);
});

test('the admin page has engine, pools, database and processes', async () => {
  const r = await s.json('GET', '/api/admin/status');
  assert.equal(r.status, 200);
  assert.equal(r.body.engine.state, 'ready');
  assert.equal(r.body.pools.length, 3);
  assert.ok(r.body.database.users >= 1);
  assert.match(r.body.database.sqlite_version, /^3\./);
  assert.ok(r.body.processes.some((p) => p.name === 'engine'));
});

test('an id in a path has one spelling; another is nothing', async () => {
  const u = await userWithKey('ida');
  for (const id of [`+${u.id}`, `%20${u.id}`, `0${u.id}`, `${u.id}%20`, '-1', 'x']) {
    for (const [method, path] of [['DELETE', `/api/users/${id}`], ['GET', `/api/users/${id}/keys`],
      ['DELETE', `/api/users/${u.id}/keys/+${u.keyId}`], ['GET', `/api/conversations/${id}`]])
      assert.equal((await s.json(method, path)).status, 404, `${method} ${path}`);
    assert.equal((await s.json('DELETE', `/api/keys/${id}`, undefined, as(u.key))).status, 404, id);
  }
  assert.equal((await s.json('GET', `/api/users/${u.id}/keys`)).body.items.length, 1);
  assert.equal((await s.json('DELETE', `/api/users/${u.id}`)).status, 204);
});
