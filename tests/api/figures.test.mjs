// Who may read the figures (/metrics, /load): admins, and whoever they gave a key for it. The rest learns whether a chat would be served.
import assert from 'node:assert/strict';
import { readdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, start } from './harness.mjs';

const password = 'a long enough password';
let s, scrape;
before(async () => {
  s = await start({ fake: true });
  scrape = await key({ scopes: ['metrics'] });
});
after(() => s?.stop());

const as = (k) => ({ authorization: `Bearer ${k}` }), none = { authorization: null };
const key = async (terms, headers) => {
  const r = await s.json('POST', '/api/keys', { name: 'k', ...terms }, headers);
  assert.equal(r.status, 201, r.text);
  return r.body.key;
};
const status = async (where, headers, method = 'GET') => (await s.json(method, where, undefined, headers)).status;
const login = async (name, word) => {
  const r = await s.json('POST', '/api/login', { name, password: word }, none);
  assert.equal(r.status, 200, r.text);
  return { authorization: null, cookie: r.headers.get('set-cookie').split(';')[0], 'x-csrf-token': r.body.csrf };
};

test('a stranger and a user read no figures, and are told what is missing', async () => {
  assert.equal((await s.json('POST', '/api/users', { name: 'ada', password, role: 'user' })).status, 201);
  const ada = await login('ada', password), hers = await key({}, ada);
  for (const where of ['/metrics', '/load']) {
    const stranger = await s.json('GET', where, undefined, none);
    assert.deepEqual([stranger.status, stranger.body.error?.code], [401, 'missing_api_key'], stranger.text);
    assert.equal(stranger.headers.get('www-authenticate') !== null, true);
    assert.equal(await status(where, as('sk-sluice-nobody')), 401, where);
    for (const who of [ada, as(hers)]) assert.equal(await status(where, who), 403, where);
  }
  const refused = await s.json('POST', '/api/keys', { name: 'mine', scopes: ['metrics'] }, ada);
  assert.deepEqual([refused.status, refused.body.error.param], [403, 'scopes'], refused.text);
  assert.equal(await status('/health', none), 200);
});

test('an admin\'s session and keys with the scope admin or metrics read them, a key for chats does not', async () => {
  const session = await login(s.admin.name, s.admin.password);
  for (const who of [session, undefined, as(scrape), as(await key({ scopes: ['admin'] }))])
    for (const where of ['/metrics', '/load']) assert.equal(await status(where, who), 200, where);
  const narrow = await s.json('GET', '/metrics', undefined, as(await key({ scopes: ['inference', 'history'] })));
  assert.deepEqual([narrow.status, narrow.body.error.code], [403, 'insufficient_scope'], narrow.text);
  assert.match(narrow.body.error.message, /metrics/);
  assert.match(await (await s.request('GET', '/metrics', undefined, { authorization: null, 'x-api-key': scrape })).text(), /^sluice_up 1$/m);
});

test('a key with the scope metrics alone reaches nothing else', async () => {
  for (const [method, where] of [['GET', '/v1/models'], ['GET', '/api/status'], ['GET', '/api/session'], ['GET', '/api/keys'], ['GET', '/api/conversations'],
    ['GET', '/api/users'], ['GET', '/api/admin/settings'], ['GET', '/slots'], ['GET', '/props'], ['POST', '/api/logout']]) {
    const r = await s.json(method, where, undefined, as(scrape));
    assert.deepEqual([r.status, r.body.error?.code], [403, 'insufficient_scope'], `${where}: ${r.text}`);
  }
  const chat = await s.chat({ messages: [{ role: 'user', content: 'x' }] }, as(scrape));
  assert.equal(chat.status, 403, chat.text);
  const ended = await s.json('GET', '/api/keys'), mine = ended.body.items.find((k) => k.scopes.join() === 'metrics');
  assert.ok(mine.last_used_at > 0);
});

test('metrics_open lets everyone read them, and is off at first', async () => {
  assert.equal((await s.json('PATCH', '/api/admin/settings', { metrics_open: true })).status, 200);
  for (const where of ['/metrics', '/load']) assert.equal(await status(where, none), 200, where);
  assert.equal((await s.json('PATCH', '/api/admin/settings', { metrics_open: null })).status, 200);
  assert.equal(await status('/metrics', none), 401);
});

test('a revoked key is refused by the next scrape', async () => {
  const gone = await key({ scopes: ['metrics'] });
  assert.equal(await status('/metrics', as(gone)), 200);
  const { items } = (await s.json('GET', '/api/keys')).body;
  assert.equal(await status(`/api/keys/${items.at(-1).id}`, undefined, 'DELETE'), 204);
  assert.equal(await status('/metrics', as(gone)), 401);
});

test('without a database those who read them lately still do, nobody else', async () => {
  const state = path.join(s.dir, 'state'), files = readdirSync(state).filter((f) => f.startsWith('sluice.db'));
  const fresh = await key({ scopes: ['metrics'] });
  assert.equal(await status('/metrics', as(scrape)), 200);
  for (const f of files) renameSync(path.join(state, f), path.join(state, `away-${f}`));
  for (const pid of s.childrenOf(s.pid('workers-short'))) process.kill(pid, 'SIGKILL');
  await eventually(async () => {
    const health = await s.json('GET', '/health', undefined, none);
    assert.equal(health.body?.database, 'unavailable', health.text);
  });
  assert.equal(await status('/metrics', as(scrape)), 200);
  for (const who of [as(fresh), as('sk-sluice-nobody')]) assert.equal(await status('/metrics', who), 503);
  for (const f of files) renameSync(path.join(state, `away-${f}`), path.join(state, f));
});
