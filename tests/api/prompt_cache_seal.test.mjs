// The setting prompt_cache_seal: nothing of a prompt lies on the disk in clear, a restart reads it all the same and changes no answer, and
// with the key goes what was sealed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PATIENCE, sleep, start } from './harness.mjs';

const sqlite = spawnSync('sqlite3', ['--version']).status === 0, skip = !sqlite && 'there is no sqlite3 program';
const story = 'The river ran past seven mills and three old bridges before it came to the town, and nobody there knew its name. '.repeat(8);
const question = [{ role: 'user', content: story }];
let s, ids;
const folder = () => path.join(s.dir, 'state/cache/prompt-cache');
const files = () => (existsSync(folder()) ? readdirSync(folder()).filter((f) => f.endsWith('.kv')) : []);
const inClear = () => files().some((f) => readFileSync(path.join(folder(), f)).includes(Buffer.from(Int32Array.from(ids).buffer)));
const salts = () => spawnSync('sqlite3', [path.join(s.dir, 'state/sluice.db'), 'SELECT hex(salt) FROM prompt_seals'], { encoding: 'utf8' }).stdout.trim();

async function settled(wanted) {
  const until = Date.now() + PATIENCE;
  for (let same = 0, last = ''; ;) {
    const f = Object.fromEntries(await Promise.all(['rows', 'records', 'bytes', 'removals'].map(async (n) => [n, await s.metric(`prompt_cache_${n}`)])));
    same = JSON.stringify(f) === last ? same + 1 : 0;
    last = JSON.stringify(f);
    if (f.rows === f.records && f.removals === 0 && same > 2 && wanted(f)) return f;
    assert.ok(Date.now() < until, `never: ${last}\n${s.log.slice(-3000)}`);
    await sleep(200);
  }
}

async function ask() {
  const r = await s.chat({ messages: question, temperature: 0, max_tokens: 24 });
  assert.equal(r.status, 200, r.text);
  return { said: r.body.choices[0].message.content, from: r.body.timings.cache.from };
}

const seal = async (on) => assert.equal((await s.json('PATCH', '/api/admin/settings', { prompt_cache_seal: on })).status, 200);

before(async () => {
  s = await start({ args: ['--threads', '1'] });
  ids = (await s.json('POST', '/tokenize', { content: story, add_special: false })).body.tokens.slice(40, 48);
});
after(() => s?.stop());

let said;
test('without it the text can be read there; switching it on empties the cache', async () => {
  ({ said } = await ask());
  await settled((f) => f.rows > 5);
  assert.ok(inClear(), 'the test looks for the right thing');
  await seal(true);
  await settled((f) => f.rows === 0 && f.bytes === 0);
  assert.ok(!inClear());
});

test('sealed, it is read after a restart, answers the same, and is nowhere in clear', { skip }, async () => {
  assert.equal((await ask()).said, said);
  await settled((f) => f.rows > 5);
  assert.ok(!inClear());
  assert.match(salts(), /^[0-9A-F]{64}$/);
  await s.powerFails();
  await s.again();
  const next = await ask();
  assert.equal(next.said, said);
  assert.ok(next.from.disk > 200, JSON.stringify(next.from));
});

test('with the key goes the data, also what someone has copied', { skip }, async () => {
  const copy = mkdtempSync(path.join(os.tmpdir(), 'copied-')), key = salts();
  cpSync(folder(), copy, { recursive: true });
  assert.equal((await s.json('DELETE', '/api/prompt-cache')).status, 200);
  await settled((f) => f.rows === 0 && f.bytes === 0);
  assert.equal(salts(), '');
  for (const f of readdirSync(copy)) assert.ok(!readFileSync(path.join(copy, f)).includes(Buffer.from(Int32Array.from(ids).buffer)));
  rmSync(copy, { recursive: true });
  const next = await ask();
  assert.equal(next.said, said);
  assert.deepEqual(next.from, { device: 0, ram: 0, disk: 0 }, 'under a new key nothing is found, on the device neither');
  await settled((f) => f.rows > 5);
  assert.match(salts(), /^[0-9A-F]{64}$/);
  assert.notEqual(salts(), key);
});

test('switching it off empties the cache as well', async () => {
  await seal(false);
  await settled((f) => f.rows === 0 && f.bytes === 0);
  assert.equal((await ask()).said, said);
  await settled((f) => f.rows > 5);
  assert.ok(inClear());
});
