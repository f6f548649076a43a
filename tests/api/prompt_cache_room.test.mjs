// The prompt cache on disk with little room: it stays below its budget, what is new is stored all the same, and one user's flood takes
// nothing from another.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, program, start } from './harness.mjs';

const BUDGET = 6000000; // some 44 blocks of the demo model
const words = 'The river ran past seven mills and three old bridges before it came to the town. '.repeat(8); // 5 to 6 blocks
let s, quiet;
const metric = (name) => s.metric(`prompt_cache_${name}`);
const ask = (authorization, name) => s.chat({ messages: [{ role: 'user', content: `${name} ${words}` }], max_tokens: 2 }, { authorization });

const until = (what, good) => eventually(async () => assert.ok(await good(), `never: ${what}\n${s.log.slice(-2000)}`), 100);

before(async () => {
  s = await start({ args: ['--threads', '1', '--prompt-cache-disk', String(BUDGET), '--prompt-cache-ram', '64M'] });
  await s.json('POST', '/api/users', { name: 'ada', password: 'correct horse battery' });
  const made = spawnSync(program('sluice'), ['key', 'add', 'ada', '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
  quiet = `Bearer ${/sk-[\w-]+/.exec(made.stdout)[0]}`;
});
after(() => s?.stop());

test('a flood stays below the budget, its newest is kept, and another user\'s blocks stay', async () => {
  await ask(quiet, 'quiet');
  await until('the quiet user\'s prompt is kept', async () => await metric('rows') > 3);
  const kept = async () => (await s.json('GET', '/api/prompt-cache', undefined, { authorization: quiet })).body.tokens;
  const mine = await kept();
  const handled = async () => await metric('stored_total') + await metric('refused_total');
  for (let i = 0; i < 16; i++) {
    const before = await handled();
    assert.equal((await ask(`Bearer ${s.key}`, `flood ${i}`)).status, 200);
    await until(`prompt ${i} is stored`, async () => await handled() >= before + 5);
    assert.ok(await metric('bytes') <= BUDGET);
    await until('room is made', async () => await metric('row_bytes') <= BUDGET * 0.75);
  }
  await until('rows and records agree', async () => await metric('rows') === await metric('records') && await metric('removals') === 0);
  assert.ok(await metric('forgotten_total') > 20, 'room was made');
  assert.equal(await metric('refused_total'), 0, 'in time');
  assert.ok(await metric('row_bytes') > BUDGET * 0.5, 'and not too much');
  assert.equal(await kept(), mine, 'the quiet user lost nothing');
});

test('user_prompt_cache_bytes limits each user, at once', async () => {
  const limit = 2000000;
  assert.equal((await s.json('PATCH', '/api/admin/settings', { user_prompt_cache_bytes: limit })).status, 200);
  await until('the flood gives way', async () => (await s.json('GET', '/api/prompt-cache')).body.bytes <= limit);
  assert.ok((await s.json('GET', '/api/prompt-cache')).body.tokens > 0);
  for (const bad of [-1, 'x', 1.5]) assert.equal((await s.json('PATCH', '/api/admin/settings', { user_prompt_cache_bytes: bad })).status, 400);
});

const limits = spawnSync('prlimit', ['--version']).status === 0;
test('a limit on the size of files ends storing, and not the engine', { skip: !limits && 'there is no prlimit program' }, async () => {
  const pid = s.pid('engine'), limit = (to) => assert.equal(spawnSync('prlimit', ['--pid', String(pid), `--fsize=${to}:unlimited`]).status, 0);
  const refused = await metric('refused_total');
  limit(4096);
  assert.equal((await ask(quiet, 'limited')).status, 200);
  await until('a write is refused', async () => await metric('refused_total') > refused);
  assert.equal((await ask(quiet, 'limited still')).status, 200);
  assert.equal(s.pid('engine'), pid);
  limit('unlimited');
});

test('copies in RAM are not needed where KV is in RAM, and that is said', async () => {
  await s.logs(/warn +loop: prompt-cache-ram: not needed: the KV cache is in RAM itself here; --kv-memory makes it larger/);
  assert.equal(await metric('ram_budget_bytes'), 0);
});

test('sluice up refuses a size that is none', () => {
  const ram = spawnSync(program('sluice'), ['up', '--state', path.join(s.dir, 'other'), '--prompt-cache-ram', 'much'], { encoding: 'utf8' });
  assert.equal(ram.status, 1, ram.stderr);
  assert.match(ram.stderr, /prompt-cache-ram: 'much' is not a size, auto or off/);
  const r = spawnSync(program('sluice'), ['up', '--state', path.join(s.dir, 'other'), '--prompt-cache-disk', 'much'], { encoding: 'utf8' });
  assert.equal(r.status, 1, r.stderr);
  assert.match(r.stderr, /prompt-cache-disk: 'much' is not a size, auto or off/);
});
