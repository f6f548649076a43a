// The prompt cache on disk with the real engine and the demo model: it survives kill -9 of everything, is nobody else's, and what is
// deleted leaves the disk. Rows of SQLite and records of the engine are compared all along.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { PATIENCE, program, sleep, start } from './harness.mjs';

let s, ada, bob;
const settings = { temperature: 0, max_tokens: 24 };
const story = 'The river ran past seven mills and three old bridges before it came to the town, and nobody there knew its name. '.repeat(12);
const folder = () => path.join(s.dir, 'state/cache/prompt-cache');
const files = () => (existsSync(folder()) ? readdirSync(folder()).filter((f) => f.endsWith('.kv')) : []);

/** Somebody with a key of their own. */
async function user(name) {
  await s.json('POST', '/api/users', { name, password: 'correct horse battery' });
  const made = spawnSync(program('sluice'), ['key', 'add', name, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
  const key = /sk-[\w-]+/.exec(made.stdout)[0];
  return { name, call: (method, where, body) => s.json(method, where, body, { authorization: `Bearer ${key}` }), key };
}

async function say(who, id, content) {
  const r = await s.request('POST', `/api/conversations/${id}/messages`, { content, settings }, { authorization: `Bearer ${who.key}` });
  const out = await follow(r);
  assert.match(out.last?.message?.status ?? JSON.stringify(out), /^(length|done)$/);
  return { text: out.content, reasoning: out.reasoning, usage: out.last.message.usage, timings: out.last.message.timings };
}

const begin = async (who) => (await who.call('POST', '/api/conversations', { settings: { titles: false } })).body.id;
const figures = async () => Object.fromEntries(await Promise.all(['rows', 'records', 'row_bytes', 'bytes', 'removals'].map(async (n) => [n, await s.metric(`prompt_cache_${n}`)])));

/** Rows and records agree, nothing is under way, and the figures are as wanted. */
async function settled(wanted) {
  const until = Date.now() + PATIENCE;
  for (let same = 0, last = ''; ;) {
    const f = await figures(), text = JSON.stringify(f);
    same = text === last ? same + 1 : 0;
    last = text;
    if (f.rows === f.records && f.row_bytes === f.bytes && f.removals === 0 && same > 2 && wanted(f)) return f;
    assert.ok(Date.now() < until, `never: ${text}\n${s.log.slice(-3000)}`);
    await sleep(200);
  }
}

before(async () => {
  s = await start({ args: ['--threads', '1'] });
  ada = await user('ada');
  bob = await user('bob');
});
after(() => s?.stop());

let a, b, uninterrupted;
test('a chat goes on from the disk after kill -9 of everything, and answers as if nothing had been', async () => {
  a = await begin(ada);
  await say(ada, a, story);
  uninterrupted = await say(ada, a, 'What did the river pass?');
  b = await begin(bob);
  const first = await say(bob, b, story);
  assert.equal(first.usage.cached_tokens, 0, 'another user\'s equal prompt hits nothing, in memory or on disk');
  await settled((f) => f.rows > 10);
  const kept = (await bob.call('GET', `/api/conversations/${b}/prompt-cache`)).body;
  assert.ok(kept.tokens >= 320 && kept.bytes > 0, JSON.stringify(kept));
  await s.powerFails();
  await s.again();
  const next = await say(bob, b, 'What did the river pass?');
  assert.equal(next.text, uninterrupted.text);
  assert.equal(next.reasoning, uninterrupted.reasoning);
  const { from, read_bytes, miss } = next.timings.cache;
  assert.ok(from.disk >= first.usage.prompt_tokens - 64, JSON.stringify(next.timings.cache));
  assert.equal(from.disk + from.ram + from.device, next.usage.cached_tokens);
  assert.ok(read_bytes > 0, String(miss));
  await settled((f) => f.rows > 10);
  assert.ok(await s.metric('prompt_cache_loaded_tokens_total') >= from.disk);
});

test('sluice cache tells what is there, and that it is whole', () => {
  const run = (...args) => spawnSync(program('sluice'), ['cache', ...args, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
  const stats = JSON.parse(run('stats', '--json').stdout);
  assert.equal(stats.users.length, 2);
  assert.equal(stats.users.reduce((n, u) => n + u.bytes, 0), stats.bytes);
  assert.ok(stats.files >= 1 && stats.file_bytes >= stats.bytes, JSON.stringify(stats));
  const verified = run('verify', '--json');
  assert.equal(verified.status, 0, verified.stderr);
  const v = JSON.parse(verified.stdout);
  assert.deepEqual([v.whole, v.missing, v.damaged, v.unlisted], [v.rows, 0, 0, 0]);
  assert.equal(v.rows * 32, stats.tokens);
  assert.match(run('stats').stdout, /ada +\d+ tokens/);
});

/** Do the files hold these tokens one after the other, as a record's header has them? */
function onDisk(ids) {
  const pattern = Buffer.from(Int32Array.from(ids).buffer);
  return files().some((f) => readFileSync(path.join(folder(), f)).includes(pattern));
}

test('a deleted chat\'s blocks leave the disk, byte by byte', async () => {
  const { body } = await bob.call('POST', '/tokenize', { content: story, add_special: false });
  const ids = body.tokens.slice(40, 48);
  assert.ok(onDisk(ids), 'the test looks for the right thing');
  const before = await figures();
  assert.equal((await ada.call('DELETE', `/api/conversations/${a}`)).status, 204);
  const left = await settled((f) => f.rows < before.rows);
  assert.ok(left.rows > 0 && onDisk(ids), 'bob\'s stay');
  assert.equal((await bob.call('DELETE', `/api/conversations/${b}/prompt-cache`)).body.forgotten_tokens, left.rows * 32);
  await settled((f) => f.rows === 0 && f.bytes === 0);
  assert.ok(!onDisk(ids));
  assert.equal((await say(bob, b, 'And then?')).usage.cached_tokens, 0, 'forgotten in memory as well');
  await settled((f) => f.rows > 0);
});

test('a deleted message takes along what is kept of its chat', async () => {
  const { messages } = (await bob.call('GET', `/api/conversations/${b}`)).body;
  assert.equal((await bob.call('DELETE', `/api/messages/${messages.at(-2).id}`)).status, 204);
  await settled((f) => f.rows === 0);
  await say(bob, b, 'And what then?');
  await settled((f) => f.rows > 0);
});

test('an emptied trash and a removed user take theirs along', async () => {
  assert.equal((await bob.call('PATCH', `/api/conversations/${b}`, { trashed: true })).status, 200);
  const before = await figures();
  assert.ok(before.rows > 0, 'in the trash it is kept: it may come back');
  await bob.call('DELETE', '/api/trash');
  await settled((f) => f.rows === 0);
  const c = await ada.call('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: story }], max_tokens: 4, prompt_cache_key: 'x' });
  assert.equal(c.status, 200, c.text);
  await settled((f) => f.rows > 0);
  const { body: list } = await s.json('GET', '/api/users');
  assert.equal((await s.json('DELETE', `/api/users/${list.items.find((u) => u.name === 'ada').id}`)).status, 204);
  await settled((f) => f.rows === 0);
});

test('in_memory leaves nothing on the disk; a label is forgotten alone', async () => {
  const ask = (more) => bob.call('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: `${more.prompt_cache_key} ${story}` }], max_tokens: 4, ...more });
  await ask({ prompt_cache_key: 'quiet', prompt_cache_retention: 'in_memory' });
  await ask({ prompt_cache_key: 'one' });
  const one = await settled((f) => f.rows > 0);
  await ask({ prompt_cache_key: 'two' });
  await settled((f) => f.rows > one.rows);
  assert.equal((await bob.call('DELETE', '/api/prompt-cache?key=quiet')).body.forgotten_tokens, 0);
  assert.equal((await bob.call('DELETE', '/api/prompt-cache?key=two')).body.forgotten_tokens > 0, true);
  assert.equal((await settled(() => true)).rows, one.rows);
});

test('a deleted response takes its blocks along; its prompt_cache_key still holds', async () => {
  const before = await settled(() => true);
  const ask = (more) => bob.call('POST', '/v1/responses', { input: `${JSON.stringify(more)} ${story}`, max_output_tokens: 16, ...more });
  const [plain, keyed] = [await ask({}), await ask({ prompt_cache_key: 'three' })];
  assert.equal(plain.status, 200, plain.text);
  const both = await settled((f) => f.rows > before.rows + 20);
  assert.equal((await bob.call('DELETE', `/v1/responses/${plain.body.id}`)).status, 200);
  const one = await settled((f) => f.rows < both.rows);
  assert.ok(one.rows > before.rows, 'the other\'s stay');
  assert.ok((await bob.call('DELETE', '/api/prompt-cache?key=three')).body.forgotten_tokens > 0);
  await settled((f) => f.rows === before.rows);
  await ask({ prompt_cache_key: 'four', store: false });
  const four = await settled((f) => f.rows > before.rows);
  const again = await ask({ prompt_cache_key: 'three' });
  await settled((f) => f.rows > four.rows);
  assert.equal((await bob.call('DELETE', `/v1/responses/${again.body.id}`)).status, 200);
  assert.ok((await bob.call('DELETE', '/api/prompt-cache?key=four')).body.forgotten_tokens > 0);
  await settled((f) => f.rows === before.rows);
  assert.equal(keyed.status, 200);
});

test('a response that is deleted before its blocks are recorded leaves none', async () => {
  const before = await settled(() => true);
  for (let i = 0; i < 8; i++) {
    const made = await bob.call('POST', '/v1/responses', { input: `at once ${i} ${story}`, max_output_tokens: 16 });
    assert.equal((await bob.call('DELETE', `/v1/responses/${made.body.id}`)).status, 200);
  }
  const stored = await s.metric('prompt_cache_stored_total');
  await settled((f) => f.rows === before.rows);
  assert.ok(stored > 0);
});

test('a deleted conversation of /v1 takes its responses\' blocks along, and a deleted item all of them', async () => {
  const before = await settled(() => true);
  const { id } = (await bob.call('POST', '/v1/conversations', {})).body;
  const ask = async (input) => (await bob.call('POST', '/v1/responses', { input, conversation: id, max_output_tokens: 16 })).body;
  const first = await ask(`Listen: ${story}`);
  assert.equal(first.status, 'incomplete', JSON.stringify(first));
  await settled((f) => f.rows > before.rows + 5);
  assert.equal((await bob.call('DELETE', `/v1/responses/${first.id}`)).status, 200);
  assert.ok((await ask('And then?')).usage.input_tokens_details.cached_tokens > 200, 'what was said is in the conversation still');
  const { data } = (await bob.call('GET', `/v1/conversations/${id}/items`)).body;
  assert.equal((await bob.call('DELETE', `/v1/conversations/${id}/items/${data[0].id}`)).status, 200);
  await settled((f) => f.rows === before.rows);
  await ask('And in the end?');
  await settled((f) => f.rows > before.rows);
  assert.equal((await bob.call('DELETE', `/v1/conversations/${id}`)).status, 200);
  await settled((f) => f.rows === before.rows);
});

test('what /metrics says is taken is what the files take', async () => {
  const f = await settled((x) => x.bytes > 0), onDisk = files().reduce((n, name) => n + statSync(path.join(folder(), name)).blocks * 512, 0);
  assert.ok(Math.abs(onDisk - f.bytes) <= f.bytes / 100, `${onDisk} on the disk, ${f.bytes} said`);
});

test('a damaged record is found by sluice cache verify, and changes no answer', async () => {
  const kept = await settled((f) => f.rows > 0);
  const run = (...args) => spawnSync(program('sluice'), ['cache', ...args, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
  const ask = () => bob.call('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: `one ${story}` }], max_tokens: 8, temperature: 0, prompt_cache_key: 'one' });
  const answer = await ask();
  const file = path.join(folder(), files().find((f) => readFileSync(path.join(folder(), f)).includes('SKVR')));
  const at = readFileSync(file).findLastIndex((byte) => byte !== 0); // content of the last record
  const fd = openSync(file, 'r+');
  writeSync(fd, Buffer.from([readFileSync(file)[at] ^ 1]), 0, 1, at);
  closeSync(fd);
  const found = run('verify');
  assert.equal(found.status, 1, found.stdout);
  assert.match(found.stdout, /^damaged {2}[0-9a-f]{8}\.kv at \d+$/m);
  await s.powerFails();
  await s.again();
  const next = await ask();
  assert.equal(next.body.choices[0].message.content, answer.body.choices[0].message.content);
  assert.ok(next.body.usage.prompt_tokens_details.cached_tokens > 0, next.text);
  await settled((f) => f.rows >= kept.rows);
  assert.equal(run('verify').status, 0, 'it was stored anew');
  assert.equal(run('clear').status, 0);
  await settled((f) => f.rows === 0);
  assert.equal(run('nonsense').status, 2);
  assert.match(run('clear', '--json').stderr, /json: clear does not take it/);
});
