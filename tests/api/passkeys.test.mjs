// Passkeys: registered in a session, logged in by, confirmed by; and every way in which one can be wrong.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Authenticator, CREDENTIAL, PRESENT, url64, VERIFIED } from './authenticator.mjs';
import { start } from './harness.mjs';

let s, origin;
const none = { authorization: null };
const settings = (change) => s.json('PATCH', '/api/admin/settings', change);
async function open() {
  s = await start({ fake: true });
  origin = s.url = `http://localhost:${s.port}`; // browsers have no passkeys at an address
  assert.equal((await settings({ passkeys: true })).status, 200);
}
/** Another server, which has seen no wrong attempt from here yet. */
async function anew() {
  await s.stop();
  await open();
}
before(open);
after(() => s?.stop());

const python = process.env.SLUICE_PYTHON ?? 'python3';
function sql(statement, ...values) {
  const out = execFileSync(python, ['-c', `import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
rows = db.execute(sys.argv[2], sys.argv[3:]).fetchall()
db.commit()
print(json.dumps(rows, default=str))`, path.join(s.dir, 'state/sluice.db'), statement, ...values.map(String)]);
  return JSON.parse(out);
}
const age = (minutes) => sql('UPDATE sessions SET confirmed_at = confirmed_at - ?', minutes * 60000);

const cookieOf = (r, name) => r.headers.getSetCookie().find((c) => c.startsWith(`${name}=`))?.split(';')[0];
function session(r) {
  const cookie = cookieOf(r, 'sluice_session');
  const call = (method, where, body, more = {}) => s.json(method, where, body, { ...none, cookie, 'x-csrf-token': r.body.csrf, ...more });
  return Object.assign(call, { cookie, csrf: r.body.csrf });
}
let serial = 0;
async function person() {
  const name = `person ${serial += 1}`;
  const made = await s.json('POST', '/api/users', { name, password: 'their password' });
  assert.equal(made.status, 201, made.text);
  const r = await s.json('POST', '/api/login', { name, password: 'their password' }, none);
  assert.equal(r.status, 200, r.text);
  return { id: made.body.id, name, call: session(r) };
}
async function register(call, authenticator, wrong, name = 'my phone') {
  const begun = await call('POST', '/api/passkeys/options');
  assert.equal(begun.status, 201, begun.text);
  return call('POST', '/api/passkeys', { name, passkey: authenticator.create(begun.body, wrong) });
}
/** A user with a passkey. */
async function owner(o) {
  const who = await person(), authenticator = new Authenticator(origin, o);
  const made = await register(who.call, authenticator);
  assert.equal(made.status, 201, made.text);
  return { ...who, authenticator, passkey: made.body.id };
}
async function ask() {
  const r = await s.json('POST', '/api/login/passkey/options', undefined, none);
  assert.equal(r.status, 201, r.text);
  return { options: r.body, cookie: cookieOf(r, 'sluice_passkey'), r };
}
const answer = (cookie, passkey) => s.json('POST', '/api/login/passkey', { passkey }, { ...none, cookie });
async function enter(authenticator, wrong) {
  const { options, cookie } = await ask();
  return answer(cookie, authenticator.get(options, wrong));
}
function refused(r, why) {
  assert.deepEqual([r.status, r.body.error.code], [401, 'invalid_passkey'], r.text);
  assert.match(r.body.error.message, why);
  assert.equal(cookieOf(r, 'sluice_session'), undefined);
}

test('they are off until an admin turns them on, and need a name or HTTPS', async () => {
  const { call } = await person();
  const state = async (headers) => (await s.json('GET', '/api/sign-up', undefined, { ...none, ...headers })).body.passkeys;
  assert.deepEqual(await state(), { available: true, reason: null });
  const before = s.url;
  s.url = `http://127.0.0.1:${s.port}`;
  assert.deepEqual(await state(), { available: false, reason: 'passkeys_unavailable' });
  const by = await s.json('POST', '/api/login/passkey/options', undefined, none);
  assert.deepEqual([by.status, by.body.error.code], [409, 'passkeys_unavailable']);
  assert.match(by.body.error.message, /a host's name, not an address.*localhost/);
  s.url = before;
  await settings({ passkeys: null });
  assert.equal((await state()).reason, 'passkeys_off');
  for (const where of ['/api/login/passkey/options', '/api/passkeys/options', '/api/session/confirm/options']) {
    const r = await call('POST', where);
    assert.deepEqual([r.status, r.body.error.code], [403, 'passkeys_off'], where);
  }
  await settings({ passkeys: true });
  for (const bad of ['chat.example.org', 'http://chat.example.org', 'https://10.0.0.1', 'https://[::1]', 'https://a.example/', 'https://A.example',
    'https://a.example:443', 'https://a.example:0', 'https://a..b', 'https://', 'ftp://a.example', 'https://a.example:99999', 'https://1.2.3', 'https://a b', 7]) {
    const r = await settings({ passkey_origin: bad });
    assert.deepEqual([r.status, r.body.error?.param], [400, 'passkey_origin'], `${bad}: ${r.text}`);
  }
  try {
    for (const good of ['https://chat.example.org', 'https://chat.example.org:8443', 'http://localhost:8080', 'http://sluice.localhost']) {
      assert.equal((await settings({ passkey_origin: good })).status, 200, good);
      const { options } = await ask();
      assert.equal(options.rpId, new URL(good).hostname);
    }
  } finally { await settings({ passkey_origin: null }); }
});

test('what a browser is asked for', async () => {
  const { call, name } = await person();
  const { body } = await call('POST', '/api/passkeys/options');
  assert.match(body.challenge, /^[\w-]{43}$/);
  assert.deepEqual(body.rp, { id: 'localhost', name: 'Sluice' });
  assert.deepEqual([body.user.name, body.user.displayName], [name, name]);
  assert.match(body.user.id, /^[\w-]{43}$/);
  assert.deepEqual(body.pubKeyCredParams.map((p) => p.alg), [-7, -8, -257]);
  assert.deepEqual(body.authenticatorSelection, { residentKey: 'required', requireResidentKey: true, userVerification: 'required' });
  assert.deepEqual([body.attestation, body.excludeCredentials], ['none', []]);
  const { options, r } = await ask();
  assert.deepEqual([options.rpId, options.userVerification, options.allowCredentials], ['localhost', 'required', []]);
  assert.match(r.headers.getSetCookie()[0], /^sluice_passkey=[\w-]{43}; Path=\/api\/login\/passkey; HttpOnly; SameSite=Strict; Max-Age=300$/);
  assert.notEqual((await ask()).options.challenge, options.challenge);
});

for (const [algorithm, word] of [[-7, 'ES256'], [-8, 'EdDSA'], [-257, 'RS256']]) {
  test(`${word}: registered, listed, logged in by, renamed, deleted`, async () => {
    const { call, authenticator, passkey, name, id } = await owner({ algorithm });
    const list = async (c) => (await c('GET', '/api/passkeys')).body;
    const { items: [row], available } = await list(call);
    assert.deepEqual([row.id, row.name, row.last_used_at, available], [passkey, 'my phone', null, true]);
    const r = await enter(authenticator);
    assert.equal(r.status, 200, r.text);
    assert.deepEqual([r.body.user.name, r.body.user.id], [name, id]);
    const inside = session(r);
    assert.equal((await inside('POST', '/api/keys', { name: 'k' })).status, 201, 'it is a session, and confirmed');
    assert.ok((await list(inside)).items[0].last_used_at);
    assert.equal((await inside('PATCH', `/api/passkeys/${passkey}`, { name: 'old phone' })).status, 204);
    assert.equal((await list(inside)).items[0].name, 'old phone');
    const begun = await inside('POST', '/api/passkeys/options');
    assert.deepEqual(begun.body.excludeCredentials, [{ type: 'public-key', id: url64(authenticator.id), transports: ['internal', 'hybrid'] }]);
    assert.equal((await inside('DELETE', `/api/passkeys/${passkey}`)).status, 204);
    refused(await enter(authenticator), /known here/);
    const audit = (await s.json('GET', `/api/admin/audit?user=${encodeURIComponent(name)}`)).body.items.map((i) => i.action);
    for (const action of ['passkey.add', 'login.passkey', 'passkey.remove']) assert.ok(audit.includes(action), action);
  });
}

test('an authenticator that counts nothing works again and again', async () => {
  const { authenticator } = await owner({ counts: false });
  for (let i = 0; i < 3; i++) assert.equal((await enter(authenticator)).status, 200);
});

test('a counter that steps back, or stands, is refused and audited', async () => {
  const { authenticator, name } = await owner();
  assert.equal((await enter(authenticator, { counter: 10 })).status, 200);
  for (const counter of [10, 9, 0]) refused(await enter(authenticator, { counter }), /counter/);
  assert.equal((await enter(authenticator, { counter: 11 })).status, 200);
  const { items } = (await s.json('GET', `/api/admin/audit?user=${encodeURIComponent(name)}&action=passkey.counter_back`)).body;
  assert.equal(items.length, 3);
});

test('two uses of one counter at the same time: one gets in', async () => {
  const { authenticator } = await owner();
  const both = await Promise.all([1, 2, 3, 4].map(() => enter(authenticator, { counter: 7 })));
  assert.deepEqual(both.map((r) => r.status).sort(), [200, 401, 401, 401]);
});

const wrongLogins = (a, other, fresh) => [
  [{ client: { origin: 'http://evil.example' } }, /another origin/],
  [{ client: { origin: `${origin}/` } }, /another origin/],
  [{ client: { origin: `http://localhost:${s.port + 1}` } }, /another origin/],
  [{ client: { origin: `https://localhost:${s.port}` } }, /another origin/],
  [{ client: { crossOrigin: true } }, /frame/], [{ client: { topOrigin: 'http://evil.example' } }, /frame/],
  [{ client: { type: 'webauthn.create' } }, /something else/],
  [{ rpId: 'evil.example' }, /another site/],
  [{ flags: PRESENT }, /did not verify/], [{ flags: VERIFIED }, /did not verify/], [{ flags: 0 }, /did not verify/],
  [{ signature: randomBytes(70) }, /not that of this passkey/], [{ signature: Buffer.alloc(0) }, /bytes/], [{ key: fresh.key }, /not that of this passkey/],
  [{ id: other.id }, /userHandle|account/], [{ id: other.id, handle: other.handle }, /not that of this passkey/],
  [{ id: randomBytes(32) }, /known here/], [{ id: Buffer.alloc(0) }, /known here/], [{ handle: url64('1') }, /account/],
  [{ authData: randomBytes(37) }, /another site/], [{ authData: Buffer.alloc(0) }, /bytes/], [{ authData: randomBytes(36) }, /bytes/],
  [{ authData: Buffer.concat([a.head('localhost'), Buffer.alloc(9)]) }, /damaged/], [{ flags: PRESENT | VERIFIED | 0x80 }, /damaged/],
  [{ authData: Buffer.concat([a.head('localhost', { flags: PRESENT | VERIFIED | 0x80 }), randomBytes(40)]) }, /damaged|not that/], [{ flags: 0xff }, /damaged/],
  [{ authData: Buffer.concat([a.head('localhost', { flags: PRESENT | VERIFIED | 0x80 }), Buffer.from([0xba, 0x7f, 255, 255, 255])]) }, /damaged/],
  [{ client: { challenge: url64(randomBytes(32)) } }, /no challenge that waits/],
];

test('a login that is wrong in any part is refused, and who is right gets in all the same', async () => {
  for (let at = 0, n = 1; at < n; at += 12) {
    await anew();
    const { authenticator } = await owner(), other = await owner();
    const cases = wrongLogins(authenticator, other.authenticator, new Authenticator(origin));
    n = cases.length;
    for (const [wrong, why] of cases.slice(at, at + 12)) {
      refused(await enter(authenticator, wrong), why);
      assert.equal((await enter(authenticator)).status, 200, JSON.stringify(wrong));
    }
  }
});

test('a challenge serves once, for the browser that asked, for what it was asked for, and five minutes', async () => {
  await anew();
  const { authenticator, call } = await owner();
  const first = await ask(), second = await ask();
  refused(await answer(second.cookie, authenticator.get(first.options)), /no challenge that waits/);
  const right = authenticator.get(first.options);
  assert.equal((await answer(first.cookie, right)).status, 200);
  refused(await answer(first.cookie, right), /no challenge that waits/);
  refused(await answer(first.cookie, authenticator.get(first.options)), /no challenge that waits/);
  refused(await answer(second.cookie, authenticator.get(second.options, { flags: PRESENT })), /did not verify/);
  refused(await answer(second.cookie, authenticator.get(second.options)), /no challenge that waits/); // a wrong answer cost it
  const third = await ask();
  sql('UPDATE webauthn_challenges SET expires_at = ?', Date.now() - 1);
  refused(await answer(third.cookie, authenticator.get(third.options)), /has expired/);
  const confirming = (await call('POST', '/api/session/confirm/options')).body, fourth = await ask();
  refused(await answer(fourth.cookie, authenticator.get({ ...fourth.options, challenge: confirming.challenge })), /no challenge that waits/);
  const creating = (await call('POST', '/api/passkeys/options')).body;
  refused(await answer(fourth.cookie, authenticator.get({ ...fourth.options, challenge: creating.challenge })), /no challenge that waits/);
  for (const cookie of [null, 'sluice_passkey=', 'sluice_passkey=short', `sluice_passkey=${'x'.repeat(300)}`]) {
    const r = await answer(cookie, authenticator.get(fourth.options));
    assert.equal(r.status, 400, r.text);
  }
  assert.equal((await answer(fourth.cookie, authenticator.get(fourth.options))).status, 200);
});

test('a registration that is wrong in any part is refused, and keeps nothing', async () => {
  const { call } = await person(), other = await person();
  const a = new Authenticator(origin), [x, y] = [randomBytes(32), randomBytes(32)];
  const junk = (tail) => Buffer.concat([a.head('localhost', {}, CREDENTIAL), tail]);
  const length = (n) => Buffer.from([n >> 8, n & 255]);
  for (const wrong of [
    { client: { origin: 'http://evil.example' } }, { client: { type: 'webauthn.get' } }, { client: { crossOrigin: true } }, { client: { challenge: 'AAAA' } },
    { client: { challenge: 7 } }, { client: { challenge: 'x'.repeat(200) } }, { rpId: 'evil.example' },
    { flags: PRESENT | CREDENTIAL }, { flags: VERIFIED | CREDENTIAL }, { flags: PRESENT | VERIFIED },
    { cose: Buffer.from([0x9a, 0x7f, 255, 255, 255]) }, { cose: Buffer.from([0xba, 0x7f, 255, 255, 255]) }, // libcbor 0.8 takes memory for that many
    { cose: Buffer.from([0xa1, 1, 0x9b, 0, 0, 0, 2, 0, 0, 0, 0]) }, { cose: Buffer.alloc(300, 0x81) },
    { cose: Buffer.from([0xa0]) }, { cose: randomBytes(77) }, { cose: Buffer.alloc(0) }, { cose: Buffer.alloc(77, 0x9f) },
    { cose: Buffer.from(`a5010203262001215820${x.toString('hex')}2258${'ff'}${y.toString('hex')}`, 'hex') },
    { authData: junk(Buffer.alloc(0)) }, { authData: junk(randomBytes(17)) }, { authData: junk(Buffer.concat([Buffer.alloc(16), length(65535), randomBytes(40)])) },
    { authData: junk(Buffer.concat([Buffer.alloc(16), length(0), a.cose])) }, { authData: junk(Buffer.concat([Buffer.alloc(16), length(1200), randomBytes(1200), a.cose])) },
    { authData: randomBytes(9000) },
  ]) {
    const r = await register(call, a, wrong);
    assert.equal(r.status, 400, `${JSON.stringify(wrong)}: ${r.text}`);
    assert.ok(['clientDataJSON', 'authenticatorData'].includes(r.body.error.param), r.text);
  }
  const theirs = (await other.call('POST', '/api/passkeys/options')).body;
  await call('POST', '/api/passkeys/options');
  assert.equal((await call('POST', '/api/passkeys', { name: 'n', passkey: a.create(theirs) })).status, 400, 'the challenge of another session');
  assert.equal((await other.call('POST', '/api/passkeys', { name: 'n', passkey: a.create(theirs) })).status, 201);
  const twice = await register(call, a);
  assert.deepEqual([twice.status, /already/.test(twice.text)], [409, true]);
  assert.deepEqual((await call('GET', '/api/passkeys')).body.items, []);
  for (const name of ['', ' x', 'x'.repeat(65), 'a\u0007', 5, null]) assert.equal((await register(call, new Authenticator(origin), {}, name)).status, 400, `name ${name}`);
});

test('what is no answer at all is a 4xx', async () => {
  await anew();
  const { call } = await person(), { cookie } = await ask();
  const good = () => ({ id: 'AAAA', response: { clientDataJSON: 'AAAA', authenticatorData: 'AAAA', signature: 'AAAA', userHandle: 'AAAA' } });
  const bad = [undefined, null, 7, [], 'x', {}, { id: 'AAAA' }, { response: {} }, { id: 'AAAA', response: [] }, { id: 'AAAA', response: 'x' }];
  for (const [member, where] of [['id'], ['clientDataJSON', 'response'], ['authenticatorData', 'response'], ['signature', 'response']]) {
    for (const value of [null, 5, {}, 'not base64!', 'AAAA=', 'A', '+/+/', 'AA AA', '\u00e4']) {
      const p = good();
      (where ? p.response : p)[member] = value;
      bad.push(p);
    }
  }
  bad.push({ ...good(), response: { ...good().response, userHandle: 7 } });
  for (const passkey of bad) {
    const everywhere = bad.indexOf(passkey) < 20; // nginx lets an address do so much there, and no more
    for (const r of everywhere ? [await answer(cookie, passkey), await call('POST', '/api/session/confirm', { passkey })] : []) {
      assert.equal(r.status, 400, `${JSON.stringify(passkey)}: ${r.text}`);
    }
    const r = await call('POST', '/api/passkeys', { name: 'n', passkey });
    assert.equal(r.status, 400, `${JSON.stringify(passkey)}: ${r.text}`);
  }
  const transports = (list) => call('POST', '/api/passkeys', { name: 'n', passkey: { ...good(), response: { ...good().response, transports: list } } });
  for (const list of ['usb', [7], ['a b'], [''], Array(40).fill('internal'), ['x'.repeat(200)]]) {
    const r = await transports(list);
    assert.deepEqual([r.status, r.body.error.param], [400, 'transports'], r.text);
  }
  for (const text of ['', 'null', '[]', '7', '{', '{"challenge":', '\u0000', '[[[[[[[[[[[[[[[[', '{"challenge":"a","challenge":"b"}']) {
    const p = good();
    p.response.clientDataJSON = url64(text);
    const r = await call('POST', '/api/passkeys', { name: 'n', passkey: p });
    assert.equal(r.status, 400, `${text}: ${r.text}`);
  }
  const huge = good();
  huge.response.authenticatorData = 'A'.repeat(17000);
  assert.equal((await answer(cookie, huge)).status, 413);
  assert.equal((await call('POST', '/api/passkeys', { name: 'n', passkey: huge })).status, 413);
  assert.equal((await s.json('GET', '/health', undefined, none)).status, 200);
});

test('a passkey confirms its own account\'s session, and no other', async () => {
  await anew();
  const mine = await owner(), other = await owner();
  age(20);
  const key = () => mine.call('POST', '/api/keys', { name: 'k' });
  assert.equal((await key()).body.error.code, 'confirmation_required');
  assert.deepEqual((await mine.call('GET', '/api/session/confirm')).body, { confirmed: false, password: true, code: false, passkey: true });
  const options = async (call = mine.call) => (await call('POST', '/api/session/confirm/options')).body;
  const confirm = (passkey) => mine.call('POST', '/api/session/confirm', { passkey });
  assert.deepEqual((await options()).allowCredentials.map((c) => c.id), [url64(mine.authenticator.id)]);
  const wrong = [ // each with a challenge of its own: a newer one takes an older one's place
    [async () => other.authenticator.get(await options()), /no passkey of this account/],
    [async () => mine.authenticator.get(await options(other.call)), /no challenge that waits/],
    [async () => mine.authenticator.get(await options(), { flags: PRESENT }), /did not verify/],
    [async () => mine.authenticator.get((await ask()).options), /no challenge that waits/],
  ];
  for (const [make, why] of wrong) {
    const r = await confirm(await make());
    assert.deepEqual([r.status, r.body.error.code], [403, 'invalid_passkey'], r.text);
    assert.match(r.body.error.message, why);
  }
  assert.equal((await key()).body.error.code, 'confirmation_required');
  const right = mine.authenticator.get(await options());
  assert.equal((await confirm(right)).status, 204);
  assert.equal((await key()).status, 201);
  age(20);
  assert.equal((await confirm(right)).status, 403, 'not twice');
  assert.equal((await key()).body.error.code, 'confirmation_required');
});

test('who has no password confirms by a passkey or a fresh login, also where others send their password', async () => {
  const { call, authenticator, id } = await owner();
  assert.deepEqual((await call('POST', '/api/second-factor', {})).body.error.param, 'password');
  sql('UPDATE users SET password = ? WHERE id = ?', `$argon2id$v=19$m=65536,t=2,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`, id); // as a sign-in by a provider leaves it
  assert.equal((await call('POST', '/api/second-factor', {})).status, 201, 'the login is fresh');
  age(20);
  for (const [where, body] of [['/api/second-factor', {}], ['/api/account/delete', {}], ['/api/keys', { name: 'k' }]]) {
    const r = await call('POST', where, body);
    assert.deepEqual([r.status, r.body.error.code], [403, 'confirmation_required'], where);
  }
  assert.equal((await call('POST', '/api/session/confirm', { password: 'any' })).status, 403);
  const can = (await call('GET', '/api/session/confirm')).body;
  assert.deepEqual([can.password, can.passkey], [false, true]);
  const again = session(await enter(authenticator));
  assert.equal((await again('POST', '/api/second-factor', {})).status, 201);
  age(20);
  const options = (await again('POST', '/api/session/confirm/options')).body;
  assert.equal((await again('POST', '/api/session/confirm', { passkey: authenticator.get(options) })).status, 204);
  assert.equal((await again('POST', '/api/account/delete', {})).status, 204);
});

test('registering and deleting ask for a confirmation, and are the owner\'s alone', async () => {
  const mine = await owner(), other = await person();
  assert.equal((await other.call('DELETE', `/api/passkeys/${mine.passkey}`)).status, 404);
  assert.equal((await other.call('PATCH', `/api/passkeys/${mine.passkey}`, { name: 'x' })).status, 404);
  assert.deepEqual((await other.call('GET', '/api/passkeys')).body.items, []);
  age(20);
  for (const [method, where] of [['POST', '/api/passkeys/options'], ['DELETE', `/api/passkeys/${mine.passkey}`]]) {
    const r = await mine.call(method, where);
    assert.deepEqual([r.status, r.body.error.code], [403, 'confirmation_required']);
  }
  assert.equal((await s.json('POST', '/api/passkeys/options')).status, 403, 'a key registers none');
  assert.equal((await s.json('GET', '/api/passkeys')).status, 200);
  for (const where of ['/api/passkeys', '/api/passkeys/options', '/api/session/confirm/options']) {
    assert.equal((await s.json('POST', where, {}, none)).status, 401, where);
    assert.equal((await s.json('POST', where, {}, { ...none, cookie: mine.call.cookie })).status, 403, `${where} without the CSRF token`);
  }
});

test('who may not log in does not by a passkey; a reset by an admin takes it away', async () => {
  await anew();
  const { id, authenticator } = await owner();
  const change = async (body) => assert.equal((await s.json('PATCH', `/api/users/${id}`, body)).status, 200);
  await change({ disabled: true });
  refused(await enter(authenticator), /known here/);
  await change({ disabled: false, password: 'another one', revoke_keys: false });
  assert.equal((await enter(authenticator)).status, 200);
  await settings({ passkeys: false });
  try {
    assert.equal((await s.json('POST', '/api/login/passkey/options', undefined, none)).status, 403);
  } finally { await settings({ passkeys: true }); }
  await change({ password: 'a third one' });
  refused(await enter(authenticator), /known here/);
  const gone = await owner();
  assert.equal((await s.json('DELETE', `/api/users/${gone.id}`)).status, 204);
  refused(await enter(gone.authenticator), /known here/);
});

test('a login by passkey asks for no code of the second factor, and ends the session that was there', async () => {
  const { call, authenticator, id } = await owner();
  sql(`INSERT INTO second_factors (user_id, sealed, created_at, confirmed_at) VALUES (?, zeroblob(60), 1, 1)`, id);
  const { options, cookie } = await ask();
  const r = await s.json('POST', '/api/login/passkey', { passkey: authenticator.get(options) }, { ...none, cookie: `${cookie}; ${call.cookie}` });
  assert.equal(r.status, 200, r.text);
  assert.equal((await call('GET', '/api/session')).status, 401);
  assert.equal((await session(r)('GET', '/api/session')).status, 200);
});

test('strangers that answer nonsense wait after a while', async () => {
  await anew();
  const { authenticator } = await owner();
  let r;
  for (let i = 0; i < 40 && r?.status !== 429; i++) r = await enter(authenticator, { key: new Authenticator(origin).key });
  assert.deepEqual([r.status, r.body.error.code], [429, 'too_many_attempts']);
  assert.ok(Number(r.headers.get('retry-after')) >= 1);
});
