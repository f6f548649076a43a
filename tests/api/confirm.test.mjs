// Step-up: what matters asks a session for the password or a code again, unless it was confirmed lately. Keys are never asked.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const none = { authorization: null };
const python = process.env.SLUICE_PYTHON ?? 'python3';

/** Runs a statement on the server's database, beside the server. */
function sql(statement, ...values) {
  execFileSync(python, ['-c', `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute(sys.argv[2], sys.argv[3:])
db.commit()`, path.join(s.dir, 'state/sluice.db'), statement, ...values.map(String)]);
}
/** As if all sessions had been confirmed that long ago last. */
const age = (minutes) => sql('UPDATE sessions SET confirmed_at = confirmed_at - ?', minutes * 60000);

async function enter(name = s.admin.name, password = s.admin.password, more = {}) {
  const r = await s.json('POST', '/api/login', { name, password, ...more }, none);
  assert.equal(r.status, 200, r.text);
  const cookie = r.headers.get('set-cookie').split(';')[0];
  const call = (method, where, body) => s.json(method, where, body, { ...none, cookie, 'x-csrf-token': r.body.csrf });
  return Object.assign(call, { id: r.body.user.id });
}
function refused(r) {
  assert.equal(r.status, 403, r.text);
  assert.equal(r.body.error.code, 'confirmation_required');
}
const settings = (change) => s.json('PATCH', '/api/admin/settings', change);
let serial = 0;
/** A new user, and a session of theirs. */
async function person(role = 'user') {
  const name = `person ${serial += 1}`;
  const made = await s.json('POST', '/api/users', { name, password: 'their password', role });
  assert.equal(made.status, 201, made.text);
  return { id: made.body.id, name, call: await enter(name, 'their password') };
}

test('a fresh login is a confirmation; an old one is not, until the password is said again', async () => {
  const call = await enter();
  assert.equal((await call('POST', '/api/keys', { name: 'at once' })).status, 201);
  age(14);
  assert.equal((await call('POST', '/api/keys', { name: 'in time' })).status, 201);
  age(2);
  refused(await call('POST', '/api/keys', { name: 'too late' }));
  assert.deepEqual((await call('GET', '/api/session/confirm')).body, { confirmed: false, password: true, code: false, passkey: false });
  const wrong = await call('POST', '/api/session/confirm', { password: 'not this one' });
  assert.deepEqual([wrong.status, wrong.body.error.param], [403, 'password']);
  assert.notEqual(wrong.body.error.code, 'confirmation_required');
  refused(await call('POST', '/api/keys', { name: 'still too late' }));
  assert.equal((await call('POST', '/api/session/confirm', { password: s.admin.password })).status, 204);
  assert.equal((await call('GET', '/api/session/confirm')).body.confirmed, true);
  assert.equal((await call('POST', '/api/keys', { name: 'confirmed' })).status, 201);
});

test('a confirmation is the session\'s own', async () => {
  const one = await enter(), two = await enter();
  age(20);
  assert.equal((await one('POST', '/api/session/confirm', { password: s.admin.password })).status, 204);
  assert.equal((await one('POST', '/api/keys', { name: 'k' })).status, 201);
  refused(await two('POST', '/api/keys', { name: 'k' }));
});

test('a key may be narrowed at any time, and widened with a confirmation only', async () => {
  const { call } = await person();
  const terms = { name: 'k', scopes: ['inference'], expires_at: Date.now() + 1e8, limits: { requests_per_minute: 5, tokens_per_minute: 0, max_jobs: 3 } };
  const { id } = (await call('POST', '/api/keys', terms)).body;
  const change = (body) => call('PATCH', `/api/keys/${id}`, body);
  age(20);
  for (const wider of [{ scopes: ['inference', 'history'] }, { scopes: ['admin'] }, { expires_at: null }, { expires_at: terms.expires_at + 1 },
    { limits: { requests_per_minute: 6 } }, { limits: { requests_per_minute: 0 } }, { limits: { max_jobs: 0 } }]) refused(await change(wider));
  for (const narrower of [{ limits: { requests_per_minute: 4, tokens_per_minute: 9 } }, { expires_at: terms.expires_at - 1 }, { strict_parameters: true }, {}]) {
    const r = await change(narrower);
    assert.equal(r.status, 200, r.text);
  }
  assert.equal((await call('DELETE', `/api/keys/${id}`)).status, 204);
});

test('what an admin does to others, to walls and to models is asked about; reading and closing is not', async () => {
  const { id } = await person();
  const call = await enter();
  age(20);
  for (const [method, where, body] of [
    ['POST', '/api/users', { name: 'new one', password: 'long enough' }],
    ['PATCH', `/api/users/${id}`, { role: 'admin' }], ['PATCH', `/api/users/${id}`, { password: 'another one' }],
    ['PATCH', `/api/users/${id}`, { disabled: true }], ['DELETE', `/api/users/${id}`, undefined],
    ['POST', '/api/invites', { role: 'admin' }],
    ['PATCH', '/api/admin/settings', { sign_up: 'open' }], ['PATCH', '/api/admin/settings', { confirm_minutes: 1440 }],
    ['PATCH', '/api/admin/settings', { banner: 'hi', audit_days: 1 }], ['PATCH', '/api/admin/settings', { keys_optional_on_loopback: 'admin' }],
    ['POST', '/api/admin/models/load', { path: '/nowhere' }], ['POST', '/api/admin/models/unload', {}],
    ['POST', '/api/admin/models/pull', { repo: 'nobody/nothing' }], ['POST', '/api/pull', { model: 'nobody/nothing', stream: false }],
  ]) {
    const r = await call(method, where, body);
    assert.equal(r.status, 403, `${method} ${where}: ${r.text}`);
    assert.match(r.text, /confirm that it is you/, `${method} ${where}`);
  }
  assert.equal((await call('GET', '/api/users')).status, 200);
  assert.equal((await call('PATCH', '/api/admin/settings', { banner: '' })).status, 200);
  assert.equal((await call('DELETE', `/api/users/${id}/sessions`)).status, 204);
  assert.equal((await s.json('GET', '/api/admin/settings')).body.items.find((i) => i.name === 'sign_up').value, 'closed');
});

test('API keys do what their scopes allow, as ever, and have nothing to confirm', async () => {
  assert.equal((await s.json('POST', '/api/keys', { name: 'by a key' })).status, 201);
  const r = await s.json('POST', '/api/session/confirm', { password: s.admin.password });
  assert.equal(r.status, 403, r.text);
  assert.equal((await s.json('GET', '/api/session/confirm')).status, 403);
});

test('0 minutes: each request needs a confirmation of its own, a login serves once', async () => {
  assert.equal((await settings({ confirm_minutes: 0 })).status, 200);
  try {
    const { call } = await person();
    assert.equal((await call('POST', '/api/keys', { name: 'one' })).status, 201);
    refused(await call('POST', '/api/keys', { name: 'two' }));
    assert.equal((await call('POST', '/api/session/confirm', { password: 'their password' })).status, 204);
    const both = await Promise.all([1, 2, 3, 4].map(() => call('POST', '/api/keys', { name: 'at the same time' })));
    assert.deepEqual(both.map((r) => r.status).sort(), [201, 403, 403, 403]);
    assert.equal((await call('POST', '/api/session/confirm', { password: 'their password' })).status, 204);
    age(2);
    refused(await call('POST', '/api/keys', { name: 'a minute later' }));
  } finally { await settings({ confirm_minutes: null }); }
});

test('the setting is looked at each time', async () => {
  const { call } = await person();
  age(20);
  refused(await call('POST', '/api/keys', { name: 'k' }));
  assert.equal((await settings({ confirm_minutes: 30 })).status, 200);
  assert.equal((await call('POST', '/api/keys', { name: 'k' })).status, 201);
  await settings({ confirm_minutes: null });
  for (const bad of [-1, 1441, 1.5, 'often', true]) assert.equal((await settings({ confirm_minutes: bad })).status, 400);
});

/** RFC 6238: what the app shows. */
function appCode(base32, step) {
  const bits = [...base32].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)))).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1e6).padStart(6, '0');
}

test('a code of the second factor confirms too, once; a wrong one does not end the session', async () => {
  const { call } = await person();
  assert.equal((await call('POST', '/api/session/confirm', { code: '123456' })).status, 400, 'no second factor yet');
  const { secret } = (await call('POST', '/api/second-factor', { password: 'their password' })).body;
  const step = Math.floor(Date.now() / 30000);
  assert.equal((await call('POST', '/api/second-factor/confirm', { code: appCode(secret, step) })).status, 200);
  age(20);
  refused(await call('POST', '/api/keys', { name: 'k' }));
  assert.equal((await call('GET', '/api/session/confirm')).body.code, true);
  const wrong = await call('POST', '/api/session/confirm', { code: appCode(secret, step) });
  assert.deepEqual([wrong.status, wrong.body.error.code], [403, 'invalid_code'], 'a code is taken once');
  refused(await call('POST', '/api/keys', { name: 'k' }));
  assert.equal((await call('POST', '/api/session/confirm', { code: appCode(secret, step + 1) })).status, 204);
  assert.equal((await call('POST', '/api/keys', { name: 'k' })).status, 201);
});

test('nonsense is named, and guesses wait', async () => {
  const { call, name } = await person();
  for (const [body, status] of [[{}, 400], [{ password: 'a', code: 'b' }, 400], [{ password: 7 }, 400], [{ code: [] }, 400],
    [{ password: 'x'.repeat(2000) }, 400], [{ password: 'x'.repeat(20000) }, 413]]) {
    const r = await call('POST', '/api/session/confirm', body);
    assert.equal(r.status, status, `${JSON.stringify(body).slice(0, 60)}: ${r.text}`);
  }
  let r;
  for (let i = 0; i < 8 && r?.status !== 429; i++) {
    r = await call('POST', '/api/session/confirm', { password: 'wrong' });
    assert.ok([403, 429].includes(r.status), r.text);
  }
  assert.equal(r.status, 429);
  const audit = (await s.json('GET', `/api/admin/audit?user=${encodeURIComponent(name)}&action=password`)).body;
  assert.ok(audit.items.some((i) => i.action === 'password.fail' && i.target === '/api/session/confirm'), JSON.stringify(audit));
});
