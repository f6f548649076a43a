// Accounts: invitations, who may sign up, the second factor, sessions, roles, being disabled, limits of users, the audit log,
// and the end of an account, of which nothing is left.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, order, program, start } from './harness.mjs';
import { cleared, holding } from './state_folder.mjs';

const none = { authorization: null };
const PASSWORD = 'a long password';
let s, n = 0;
before(async () => {
  s = await start({ fake: true });
  await setting({ sign_up: 'invite' });
});
after(() => s?.stop());

const login = (name, password = PASSWORD, more = {}, headers = {}) => s.json('POST', '/api/login', { name, password, ...more }, { ...none, ...headers });
const sessionOf = (r) => ({ ...none, cookie: r.headers.get('set-cookie').split(';')[0], 'x-csrf-token': r.body.csrf });
const setting = async (change) => assert.equal((await s.json('PATCH', '/api/admin/settings', change)).status, 200);

async function user(name = `user${++n}`) {
  const { invite } = (await s.json('POST', '/api/invites', {})).body;
  const made = await s.json('POST', '/api/sign-up', { name, password: PASSWORD, invite }, none);
  assert.equal(made.status, 201, made.text);
  const session = sessionOf(made), { id } = made.body.user;
  const key = await s.json('POST', '/api/keys', { name: 'k' }, session);
  return { id, name, session, key: { authorization: `Bearer ${key.body.key}` }, patch: (what) => s.json('PATCH', `/api/users/${id}`, what) };
}

/** The app's side of RFC 6238. */
function appCode(base32, ahead = 0) {
  const bits = [...base32].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + ahead));
  const mac = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)))).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1e6).padStart(6, '0');
}

test('the operator\'s link makes the first admin of a server that has none, though sign-up is closed, and once', async () => {
  const bare = await start({ fake: true, args: ['--without-first-admin'] });
  try {
    const operator = (...args) => execFileSync(program('sluice'), ['user', ...args, '--state', path.join(bare.dir, 'state')], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    assert.equal(operator('list').trim().split('\n').length, 1, 'the heading alone');
    assert.equal(bare.key, undefined);
    const link = operator('invite', '--admin', '--url', 'https://chat.example.org/').trim();
    assert.match(link, /^https:\/\/chat\.example\.org\/#\/invite\/[\w-]{43}$/);
    const invite = link.split('/').at(-1), ask = (body, where = '') => bare.json('POST', `/api/sign-up${where}`, body, none);
    assert.equal((await bare.json('GET', '/api/sign-up', undefined, none)).body.policy, 'closed');
    assert.equal((await ask({ invite }, '/invite')).body.role, 'admin');
    assert.equal((await ask({ name: 'eve', password: PASSWORD, invite: 'x'.repeat(43) })).body.error.code, 'sign_up_closed');
    const made = await ask({ name: 'ada', password: PASSWORD, invite });
    assert.equal(made.status, 201, made.text);
    assert.equal(made.body.user.role, 'admin');
    assert.equal((await ask({ name: 'eve', password: PASSWORD, invite })).status, 403, 'a link is good once');
    const { items } = (await bare.json('GET', '/api/invites', undefined, sessionOf(made))).body;
    assert.deepEqual(items.map((i) => [i.state, i.made_by, i.used_by]), [['used', '', 'ada']]);
    const other = operator('invite').trim().split('/').at(-1);
    assert.equal((await ask({ name: 'bob', password: PASSWORD, invite: other })).body.user.role, 'user');
  } finally {
    await bare.stop();
  }
});

test('sign_up says who may make an account', async () => {
  const invite = async () => (await s.json('POST', '/api/invites', { note: 'x' })).body.invite;
  const up = (body) => s.json('POST', '/api/sign-up', { password: PASSWORD, ...body }, none);
  const token = await invite();
  await setting({ sign_up: 'closed' });
  assert.equal((await up({ name: 'a1', invite: token })).body.error.code, 'sign_up_closed');
  assert.equal((await up({ name: 'a1' })).status, 403);
  await setting({ sign_up: 'invite' });
  assert.equal((await s.json('GET', '/api/sign-up', undefined, none)).body.policy, 'invite');
  assert.equal((await up({ name: 'a1' })).status, 403);
  assert.equal((await up({ name: 'a1', invite: 'x'.repeat(43) })).status, 404);
  assert.equal((await up({ name: 'admin', invite: token })).status, 409);
  const in1 = await up({ name: 'a1', invite: token });
  assert.equal(in1.status, 201, in1.text);
  assert.equal(in1.body.user.role, 'user');
  assert.equal((await s.json('GET', '/api/session', undefined, sessionOf(in1))).body.user.name, 'a1');
  assert.equal((await up({ name: 'a2', invite: token })).status, 404, 'an invitation is good once');
  await setting({ sign_up: 'open' });
  assert.equal((await up({ name: 'a2' })).status, 201);
  assert.equal((await up({ name: 'a2' })).status, 409);
  assert.equal((await up({ name: 'a3', password: 'short' })).body.error.param, 'password');
  await setting({ sign_up: 'invite' });
});

test('of many who come with one invitation at once, one gets in; a revoked one lets nobody in', async () => {
  const { body } = await s.json('POST', '/api/invites', { role: 'admin', days: 1 });
  const all = await Promise.all([1, 2, 3, 4, 5].map((i) => s.json('POST', '/api/sign-up', { name: `race${i}`, password: PASSWORD, invite: body.invite }, none)));
  assert.equal(all.filter((r) => r.status === 201).length, 1);
  const winner = all.find((r) => r.status === 201).body.user;
  assert.equal(winner.role, 'admin');
  const list = (await s.json('GET', '/api/invites')).body.items;
  assert.equal(list.find((i) => i.id === body.id).used_by, winner.name);
  const other = (await s.json('POST', '/api/invites', {})).body;
  assert.equal((await s.json('DELETE', `/api/invites/${other.id}`)).status, 204);
  assert.equal((await s.json('POST', '/api/sign-up/invite', { invite: other.invite }, none)).status, 404);
  assert.equal((await s.json('DELETE', `/api/users/${winner.id}`)).status, 204);
});

test('a second factor: begun with the password, proven, asked for, no code twice, reset by an admin', async () => {
  const u = await user();
  const post = (where, body) => s.json('POST', `/api/second-factor${where}`, body, u.session);
  assert.equal((await post('', { password: 'not it' })).status, 403);
  const { body: { secret, uri, qr } } = await post('', { password: PASSWORD });
  assert.match(uri, new RegExp(`^otpauth://totp/Sluice:${u.name}\\?secret=${secret}&issuer=Sluice$`));
  assert.ok(qr.size >= 29 && /^(M\d+ \d+h\d+v1h-\d+z)+$/.test(qr.path));
  assert.equal((await login(u.name)).status, 200, 'not asked for before it is proven');
  const wrong = appCode(secret) === '000000' ? '000001' : '000000';
  assert.equal((await post('/confirm', { code: wrong })).body.error.param, 'code');
  const proof = appCode(secret);
  const codes = (await post('/confirm', { code: proof })).body.recovery_codes;
  assert.equal(new Set(codes).size, 10);
  assert.equal((await post('', { password: PASSWORD })).status, 409);
  const asked = await login(u.name);
  assert.equal(asked.status, 401);
  assert.equal(asked.body.error.code, 'second_factor_needed');
  assert.equal(asked.headers.get('set-cookie'), null);
  assert.equal((await login(u.name, 'wrong password', { code: appCode(secret, 1) })).body.error.code, 'invalid_login', 'the password comes first');
  assert.equal((await login(u.name, PASSWORD, { code: proof })).body.error.code, 'invalid_code', 'used for the proof');
  const code = appCode(secret, 1);
  assert.equal((await login(u.name, PASSWORD, { code })).status, 200);
  assert.equal((await login(u.name, PASSWORD, { code })).status, 401, 'seen on its way, it is worth nothing');
  assert.equal((await login(u.name, PASSWORD, { code: codes[4] })).status, 200);
  assert.equal((await login(u.name, PASSWORD, { code: codes[4] })).status, 401);
  assert.equal((await s.json('GET', '/api/second-factor', undefined, u.key)).body.recovery_codes, 9);
  const guesses = []; // the waits double, so that they outgrow however long a guess takes
  while (guesses.length < 20 && guesses.at(-1) !== 429) guesses.push((await post('/confirm', { code: wrong })).status);
  assert.equal(guesses.at(-1), 429, `guessing is stopped: ${guesses}`);
  guesses.length = 0; // counted together with the login's
  while (guesses.length < 6 && guesses.at(-1) !== 429) guesses.push((await login(u.name, PASSWORD, { code: wrong })).status);
  assert.equal(guesses.at(-1), 429, `guessing is stopped: ${guesses}`);
  assert.equal((await u.patch({ second_factor: true })).status, 400);
  assert.equal((await u.patch({ second_factor: false })).body.second_factor, false);
  assert.equal((await login(u.name)).status, 200);
});

test('twenty guesses at one moment are twenty guesses', async () => {
  const u = await user();
  const all = await Promise.all(Array.from({ length: 20 }, () => login(u.name, 'wrong password')));
  const tried = all.filter((r) => r.status === 401).length;
  assert.ok(tried >= 1 && tried <= 6, `${tried} were judged`);
  assert.ok(all.every((r) => r.status === 401 || r.status === 429));
  assert.ok(all.filter((r) => r.status === 429).every((r) => Number(r.headers.get('retry-after')) >= 1));
});

test('sessions are seen and ended, one by one and all the others', async () => {
  const u = await user();
  const phone = sessionOf(await login(u.name, PASSWORD, {}, { 'user-agent': 'phone\u00ff' }));
  const laptop = sessionOf(await login(u.name, PASSWORD, {}, { 'user-agent': 'laptop' }));
  const list = async (who = u.session) => (await s.json('GET', '/api/sessions', undefined, who)).body.items;
  const all = await list();
  assert.equal(all.length, 3);
  assert.equal(all.filter((x) => x.current).length, 1);
  const at = all.find((x) => x.agent === 'laptop');
  assert.equal(at.address, '127.0.0.1');
  assert.ok(!JSON.stringify(all).includes(laptop.cookie.split('=')[1]));
  assert.equal((await s.json('DELETE', `/api/sessions/${at.id}`, undefined, u.session)).status, 204);
  assert.equal((await s.json('GET', '/api/session', undefined, laptop)).status, 401);
  assert.equal((await s.json('DELETE', `/api/sessions/${at.id}`, undefined, u.session)).status, 404);
  assert.equal((await s.json('DELETE', '/api/sessions', undefined, u.session)).status, 204);
  assert.equal((await s.json('GET', '/api/session', undefined, phone)).status, 401);
  assert.equal((await list()).length, 1);
  for (let i = 0; i < 3; i++) assert.equal((await s.json('DELETE', '/api/sessions', undefined, u.session)).status, 204);
  const ended = (await s.json('GET', '/api/admin/audit?limit=500')).body.items.filter((x) => x.action === 'session.end_others' && x.user === u.name);
  assert.equal(ended.length, 1, 'what ended nothing leaves no row');
  assert.equal((await s.json('GET', `/api/users/${u.id}/sessions`)).body.items.length, 1);
  assert.equal((await s.json('DELETE', `/api/users/${u.id}/sessions`)).status, 204);
  assert.equal((await s.json('GET', '/api/session', undefined, u.session)).status, 401);
});

test('a disabled user is nobody at once: sessions, keys, what runs', async () => {
  const u = await user();
  const c = (await s.json('POST', '/api/conversations', {}, u.session)).body;
  const stream = await s.request('POST', `/api/conversations/${c.id}/messages`, { content: order({ text: 'word '.repeat(2000), token_ms: 20 })[0].content }, u.session);
  assert.equal((await u.patch({ disabled: true })).body.disabled, true);
  for (let i = 0; i < 10; i++) {
    assert.equal((await s.json('GET', '/v1/models', undefined, u.key)).status, 401);
    assert.equal((await s.json('GET', '/api/session', undefined, u.session)).status, 401);
  }
  assert.equal((await login(u.name)).body.error.code, 'invalid_login');
  assert.match(await stream.text(), /"status":"stopped"/);
  assert.equal((await u.patch({ disabled: false })).status, 200);
  assert.equal((await s.json('GET', '/v1/models', undefined, u.key)).status, 200);
  assert.equal((await s.json('GET', '/api/session', undefined, u.session)).status, 401, 'sessions do not come back');
});

test('roles: made an admin and a user again at once; nobody shuts themselves out', async () => {
  const u = await user();
  const me = (await s.json('GET', '/api/session')).body.user;
  assert.equal((await s.json('GET', '/api/users', undefined, u.key)).status, 403);
  await u.patch({ role: 'admin' });
  assert.equal((await s.json('GET', '/api/users', undefined, u.key)).status, 200);
  assert.equal((await s.json('PATCH', `/api/users/${me.id}`, { role: 'user' })).status, 409);
  assert.equal((await s.json('PATCH', `/api/users/${me.id}`, { disabled: true })).status, 409);
  await u.patch({ role: 'user' });
  assert.equal((await s.json('GET', '/api/users', undefined, u.key)).status, 403);
  for (const [bad, param] of [[{ role: 'god' }, 'role'], [{ disabled: 1 }, 'disabled'], [{ limits: 5 }, 'limits'], [{ limits: { max_jobs: -1 } }, 'max_jobs'],
    [{ password: 'short' }, 'password'], [{ name: 'x' }, 'name']]) {
    const r = await u.patch(bad);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, param);
  }
  assert.equal((await s.json('PATCH', '/api/users/99999', { disabled: true })).status, 404);
  assert.equal((await u.patch({ password: 'another password' })).status, 200);
  assert.equal((await s.json('GET', '/api/session', undefined, u.session)).status, 401);
  assert.equal((await login(u.name, 'another password')).status, 200);
});

test('a user has limits before anybody sets any', async () => {
  const u = await user(), { limits } = (await s.json('GET', '/api/account/limits', undefined, u.key)).body;
  assert.deepEqual([limits.max_jobs, limits.tokens_per_day, limits.storage_bytes], [32, 1e8, 32 * 2 ** 30], JSON.stringify(limits));
});

test('tokens a day: counted as used, refused past the limit with the time of the next day', async () => {
  const u = await user();
  const chat = () => s.chat({ messages: [{ role: 'user', content: 'hello' }] }, u.key);
  const { usage } = (await chat()).body;
  const used = async () => (await s.json('GET', '/api/account/limits', undefined, u.key)).body;
  const counted = async (n) => { // the row is written when the reply is out
    await eventually(async () => assert.equal((await used()).used.tokens_today, n));
  };
  await counted(usage.prompt_tokens + usage.completion_tokens);
  assert.equal((await u.patch({ limits: { tokens_per_day: usage.total_tokens + usage.prompt_tokens } })).status, 200);
  assert.equal((await chat()).status, 200, 'what the limit just allows');
  await counted(2 * usage.total_tokens);
  const asked = Date.now(), over = await chat(), told = Date.now();
  assert.equal(over.status, 429, over.text);
  assert.equal(over.body.error.code, 'insufficient_quota');
  const wait = Number(over.headers.get('retry-after')), { day_ends_at, used: now, limits } = await used();
  assert.ok(asked + wait * 1000 < day_ends_at + 2000 && told + wait * 1000 > day_ends_at - 2000, `${wait}`);
  assert.equal(now.tokens_today, 2 * usage.total_tokens);
  assert.equal(limits.tokens_per_day, usage.total_tokens + usage.prompt_tokens);
  const total = (await s.json('GET', '/api/usage?days=1', undefined, u.key)).body.total;
  assert.equal(now.tokens_today, total.prompt_tokens + total.completion_tokens, 'the same figures as the usage');
  // the page's door
  const c = (await s.json('POST', '/api/conversations', {}, u.session)).body;
  assert.equal((await s.json('POST', `/api/conversations/${c.id}/messages`, { content: 'hello' }, u.session)).status, 429);
  assert.equal((await s.json('GET', `/api/conversations/${c.id}`, undefined, u.session)).body.messages.length, 0);
  // limits for everyone, by the settings
  await setting({ user_tokens_per_day: 1 });
  const v = await user();
  assert.equal((await s.chat({ messages: [{ role: 'user', content: 'hello' }] }, v.key)).status, 429);
  await v.patch({ limits: { tokens_per_day: 0 } });
  assert.equal((await s.chat({ messages: [{ role: 'user', content: 'hello' }] }, v.key)).status, 200);
  await v.patch({ limits: null });
  assert.equal((await s.chat({ messages: [{ role: 'user', content: 'hello' }] }, v.key)).status, 429);
  await setting({ user_tokens_per_day: 0 });
  assert.ok(await s.metric('rate_limited_total', 'tokens_per_day') >= 4);
});

test('bytes kept: texts and files count, and go when they are deleted', async () => {
  const u = await user();
  const kept = async () => (await s.json('GET', '/api/account/limits', undefined, u.key)).body.used.storage_bytes;
  const c = (await s.json('POST', '/api/conversations', {}, u.session)).body;
  const say = (content) => s.json('POST', `/api/conversations/${c.id}/messages`, { content }, u.session);
  await say('grüße');
  const { messages } = (await s.json('GET', `/api/conversations/${c.id}`, undefined, u.session)).body;
  // what the API shows of them, and what it keeps to itself: the job's key and what the answer is parsed by
  const told = messages.reduce((sum, m) => sum + Buffer.byteLength([m.content, m.reasoning, m.model ?? '', m.timings ? JSON.stringify(m.timings) : ''].join('')), 0);
  assert.ok(await kept() > told && await kept() < told + 1000, `${await kept()} of ${told}`);
  const before = await kept();
  const upload = (bytes) => s.json('POST', '/api/attachments?name=a.txt', 'x'.repeat(bytes), { ...u.key, 'content-type': 'application/octet-stream' });
  const file = (await upload(1000)).body;
  assert.equal(await kept(), before + 1000);
  await u.patch({ limits: { storage_bytes: before + 1500 } });
  const over = await upload(600);
  assert.equal(over.status, 413, over.text);
  assert.equal(over.body.error.code, 'storage_quota_exceeded');
  assert.equal((await say('y'.repeat(600))).status, 413);
  const respond = async () => (await s.json('POST', '/v1/responses', { input: 'Hello' }, u.key)).body;
  const unkept = await respond();
  assert.deepEqual([unkept.status, unkept.store, await kept()], ['completed', false, before + 1000], 'answered, and not kept');
  const begun = await s.json('POST', '/v1/conversations', { items: [{ role: 'user', content: 'z'.repeat(600) }] }, u.key);
  assert.deepEqual([begun.status, begun.body.error?.code, await kept()], [413, 'storage_quota_exceeded', before + 1000], begun.text);
  const line = (c) => `${JSON.stringify({ messages: [{ role: 'user', content: c.repeat(800) }, { role: 'assistant', content: 'ok' }] })}\n`;
  const take = (body) => s.json('POST', '/api/import', body, { ...u.key, 'content-type': 'application/octet-stream' });
  const none = await take(line('a'));
  assert.deepEqual([none.status, none.body.error?.code], [413, 'storage_quota_exceeded'], none.text);
  assert.equal((await s.json('DELETE', `/api/attachments/${file.id}`, undefined, u.key)).status, 204);
  await eventually(async () => assert.ok(await kept() < before + 1000, 'cleared away'));
  const some = (await take(['b', 'c', 'd'].map(line).join(''))).body; // 802 bytes each: one has room
  assert.deepEqual([some.conversations, some.imported, some.complete], [1, 1, false]);
  assert.match(some.stopped, /bytes are used/);
  assert.equal(await kept(), before + 802, 'not a byte over');
  await u.patch({ limits: { storage_bytes: before + 802 } });
  assert.equal((await s.json('POST', `/api/conversations/${c.id}/fork`, { from_message_id: messages[0].id }, u.session)).status, 413, 'copies count too');
});

test('requests a minute and jobs hold over all keys of a user, and the page', async () => {
  const u = await user();
  await u.patch({ limits: { requests_per_minute: 2 } });
  const second = { authorization: `Bearer ${(await s.json('POST', '/api/keys', { name: 'k2' }, u.session)).body.key}` };
  const ask = (headers) => s.chat({ messages: [{ role: 'user', content: 'x' }] }, headers);
  for (let i = 0; i < 5; i++) assert.equal((await s.json('POST', '/tokenize', { content: 'x' }, u.key)).status, 200, 'does not run the model');
  assert.equal((await ask(u.key)).status, 200);
  const r = await ask(second);
  assert.equal(r.status, 200);
  assert.equal(r.headers.get('x-ratelimit-limit-requests'), '2');
  assert.equal(r.headers.get('x-ratelimit-remaining-requests'), '0');
  assert.equal((await ask(u.key)).body.error.code, 'rate_limit_exceeded');
  assert.equal((await ask(u.session)).status, 429);
  const v = await user();
  await v.patch({ limits: { max_jobs: 1 } });
  const c = (await s.json('POST', '/api/conversations', {}, v.session)).body;
  const slow = fetch(`${s.url}/api/conversations/${c.id}/messages`, { method: 'POST', headers: { cookie: v.session.cookie, 'x-csrf-token': v.session['x-csrf-token'], 'content-type': 'application/json' },
    body: JSON.stringify({ content: order({ text: 'word '.repeat(400), token_ms: 500 })[0].content }) });
  const stream = await slow; // begun: the rows are there
  const other = await ask(v.key);
  assert.equal(other.status, 429, 'an answer on the page is a job of the user');
  const again = (await s.json('POST', '/api/conversations', {}, v.session)).body;
  assert.equal((await s.json('POST', `/api/conversations/${again.id}/messages`, { content: 'x' }, v.session)).status, 429);
  const running = (await s.json('GET', `/api/conversations/${c.id}`, undefined, v.session)).body.messages.at(-1);
  await s.json('POST', `/api/messages/${running.id}/stop`, undefined, v.session);
  await stream.text();
  assert.equal((await ask(v.key)).status, 200);
});

test('the audit log has who did what; admins search it, nobody changes it', async () => {
  const u = await user();
  const log = async (query = '') => (await s.json('GET', `/api/admin/audit?limit=500${query}`)).body.items;
  await u.patch({ role: 'user' });
  const ids = await Promise.all([1, 2, 3].map(async () => (await s.json('POST', '/api/conversations', {}, u.session)).body.id));
  await s.json('DELETE', `/api/conversations/${ids[0]}`, undefined, u.session);
  await s.json('POST', '/api/conversations/bulk', { ids: ids.slice(1), deleted: true }, u.session);
  await s.json('POST', '/api/logout', undefined, u.session);
  await login(u.name, 'wrong password');
  assert.deepEqual((await log(`&user=${u.name}`)).map((a) => a.action), ['login.fail', 'logout', 'conversation.delete', 'conversation.delete', 'key.add', 'login', 'user.accept']);
  assert.deepEqual((await log('&action=user.role')).slice(0, 1).map((a) => [a.user, a.target]), [['admin', `user:${u.id}`]]);
  const page = (await s.json('GET', '/api/admin/audit?limit=2')).body;
  assert.equal(page.items.length, 2);
  assert.ok((await log(`&before=${page.next}`)).every((a) => Number(a.id) < Number(page.next)));
  assert.equal((await log(`&since=${Date.now() + 60000}`)).length, 0);
  for (const q of ['limit=0', 'before=x', 'since=-1']) assert.equal((await s.json('GET', `/api/admin/audit?${q}`)).status, 400, q);
  const text = JSON.stringify(await log());
  for (const secret of [PASSWORD, 'wrong password', u.key.authorization.slice(7), u.session.cookie.split('=')[1]]) assert.ok(!text.includes(secret));
  assert.equal((await s.json('DELETE', '/api/admin/audit')).status, 405);
});

test('a deleted account leaves nothing: rows, files, index, sessions, keys', async () => {
  const u = await user('zacharias');
  const mark = 'quetzalcoatlus-northropi';
  const c = (await s.json('POST', '/api/conversations', { title: mark, settings: { system: mark } }, u.session)).body;
  const file = (await s.json('POST', `/api/attachments?name=${mark}.txt`, `${mark} flies`, { ...u.key, 'content-type': 'application/octet-stream' })).body;
  await s.json('POST', `/api/conversations/${c.id}/messages`, { content: mark, attachments: [file.id] }, u.session);
  await s.json('POST', '/v1/responses', { input: mark, store: true }, u.key);
  await s.json('POST', '/v1/conversations', { metadata: { mark }, items: [{ role: 'user', content: mark }] }, u.key);
  await s.json('POST', '/api/prompts', { name: mark, text: mark }, u.key);
  await s.json('PATCH', '/api/defaults', { system: mark }, u.key);
  assert.ok(holding(s, [mark]).length > 0);
  const gone = (password) => s.json('POST', '/api/account/delete', { password }, u.session);
  assert.equal((await gone('wrong password')).status, 403);
  assert.equal((await gone(PASSWORD)).status, 204);
  assert.equal((await s.json('GET', '/api/session', undefined, u.session)).status, 401);
  assert.equal((await s.json('GET', '/v1/models', undefined, u.key)).status, 401);
  assert.equal((await login('zacharias')).status, 401);
  await cleared(s, [mark]);
  const me = await s.json('POST', '/api/account/delete', { password: s.admin.password }, sessionOf(await login('admin', s.admin.password)));
  assert.equal(me.status, 409, 'the last admin stays');
});
