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
  assert.equal(r.body.pools.length, 4);
  assert.ok(r.body.database.users >= 1);
  assert.match(r.body.database.sqlite_version, /^3\./);
  assert.ok(r.body.processes.some((p) => p.name === 'engine'));
});

test('a key gives out no more than it has: scopes, time, limits', async () => {
  const hour = Date.now() + 3600e3;
  const make = async (terms, by) => s.json('POST', '/api/keys', { name: 'k', ...terms }, by);
  const short = (await make({ expires_at: hour })).body, limited = (await make({ limits: { requests_per_minute: 1 } })).body;
  const narrow = (await make({ scopes: ['admin'] })).body;
  for (const [asks, change, field] of [[short, { expires_at: null }, 'expires_at'], [short, { expires_at: hour + 1 }, 'expires_at'],
    [limited, { limits: { requests_per_minute: 0 } }, 'limits'], [limited, { limits: { requests_per_minute: 9 } }, 'limits'],
    [limited, { limits: { max_jobs: 1 } }, 'limits'], [narrow, { scopes: ['inference'] }, 'scopes']]) {
    for (const target of [asks, (await make({ expires_at: hour, limits: { requests_per_minute: 7 } })).body]) {
      const r = await s.json('PATCH', `/api/keys/${target.id}`, change, as(asks.key));
      assert.equal(r.status, 403, `${JSON.stringify(change)} ${r.text}`);
      assert.equal(r.body.error.param, field);
    }
    if (field === 'limits') continue;
    const made = await make(change, as(asks.key));
    assert.equal(made.status, 403, made.text);
    assert.equal(made.body.error.param, field);
  }
  const anew = await make({}, as(limited.key));
  assert.equal(anew.status, 403, anew.text);
  assert.equal(anew.body.error.param, 'limits');
  const heir = await make({}, as(short.key));
  assert.equal(heir.status, 201, heir.text);
  assert.equal(heir.body.expires_at, hour);
  assert.equal((await s.json('PATCH', `/api/keys/${short.id}`, { expires_at: hour - 1000, limits: { max_jobs: 2 } }, as(short.key))).status, 200);
  assert.equal((await s.json('PATCH', `/api/keys/${limited.id}`, { strict_parameters: true }, as(limited.key))).status, 200);
  assert.equal((await s.json('PATCH', `/api/keys/${short.id}`, { expires_at: null, limits: { max_jobs: 0 } })).status, 200); // the user's own doing
});

test('a reset password ends the keys unless told otherwise; the own change keeps them unless told so', async () => {
  const works = async (key) => (await s.json('GET', '/v1/models', undefined, as(key))).status === 200;
  const u = await userWithKey('karla');
  const patch = (body) => s.json('PATCH', `/api/users/${u.id}`, body);
  for (const bad of [{ revoke_keys: true }, { password: 'another password', revoke_keys: 'no' }]) {
    const r = await patch(bad);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, 'revoke_keys');
  }
  assert.equal((await patch({ password: 'another password', revoke_keys: false })).status, 200);
  assert.ok(await works(u.key));
  assert.equal((await patch({ password: 'a third password' })).body.keys, 0);
  assert.ok(!await works(u.key));
  const login = await s.json('POST', '/api/login', { name: 'karla', password: 'a third password' }, noKey);
  const session = { ...noKey, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf };
  const { key } = (await s.json('POST', '/api/keys', { name: 'new' }, session)).body;
  const change = (more) => s.json('POST', '/api/password', { current: 'a third password', new: 'a third password', ...more }, session);
  assert.equal((await change({ revoke_keys: 1 })).body.error.param, 'revoke_keys');
  assert.equal((await change()).status, 204);
  assert.ok(await works(key));
  assert.equal((await change({ revoke_keys: true })).status, 204);
  assert.ok(!await works(key));
  assert.equal((await s.json('GET', '/api/session', undefined, session)).status, 200);
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
