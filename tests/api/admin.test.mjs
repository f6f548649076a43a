// The admin's figures are true: the history's sums, /metrics and the usage table agree; memory with /proc, sizes with stat;
// any job can be ended; nobody but an admin sees any of it.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, start } from './harness.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

const status = async () => (await s.json('GET', '/api/admin/status')).body;
const history = async (seconds = 600) => (await s.json('GET', `/api/admin/history?seconds=${seconds}`)).body;
const total = (h, name) => h.columns[name].reduce((all, x) => all + (x ?? 0), 0);
const say = (content, o = {}) => s.chat({ messages: [{ role: 'user', content }], max_tokens: 24, temperature: 0, ...o });

/** Polls: the recorder looks once a second. */
const until = (what, check) => eventually(async () => {
  const last = await check();
  assert.ok(last === true, `${what}: ${JSON.stringify(last)}`);
});

async function sumsAgree() {
  await until('sums', async () => { // each of them is written a moment after the reply
    const tokens = await s.metric('generation_tokens_total'), prompt = await s.metric('prompt_tokens_total');
    const usage = (await s.json('GET', '/api/admin/usage')).body.total;
    const found = [];
    for (const seconds of [600, 21600, 86400, 2592000]) {
      const h = await history(seconds);
      found.push([total(h, 'completion_tokens'), total(h, 'prompt_tokens')]);
    }
    return found.every(([c, p]) => c === tokens && p === prompt) && usage.completion_tokens === tokens && usage.prompt_tokens === prompt
      ? true : { found, tokens, prompt, usage };
  });
}

test('the history begins with the server', () => until('a row', async () => (await history(60)).columns.up.some((x) => x > 0)));

test('tokens: history, /metrics and usage are one number, over every range', async () => {
  await Promise.all(['fox', 'bear', 'crow'].map((x) => say(`Tell me of a ${x}.`)));
  await say('Tell me of a fox.');
  await sumsAgree();
  const h = await history();
  assert.ok(h.columns.first_token_p95.some((x) => x > 0) && h.columns.per_token_p50.some((x) => x > 0));
  assert.equal(h.columns.running_max.length, h.n);
  assert.ok(h.columns.host_cpu.every((x) => x === null || (x >= 0 && x <= 1)));
  assert.ok(total(h, 'cpu_ms') > 0);
  assert.equal(h.n, h.columns.up.length);
});

test('a killed recorder loses no figure and doubles none', async () => {
  const before = s.pid('recorder');
  process.kill(s.childrenOf(before)[0] ?? before, 'SIGKILL');
  await say('And of a goose?');
  await sumsAgree();
});

test('memory is what /proc says, sizes are what stat says', async () => {
  const now = await status();
  const rollup = readFileSync(`/proc/${now.engine.pid}/smaps_rollup`, 'utf8');
  const rss = Number(/^Rss:\s+(\d+) kB/m.exec(rollup)[1]) * 1024;
  assert.ok(now.memory.resident_bytes > 0);
  await until('resident', async () => {
    const told = (await status()).memory.resident_bytes;
    return Math.abs(told - rss) < 0.2 * rss + (8 << 20) ? true : { told, rss };
  });
  const state = path.join(s.dir, 'state');
  await until('sizes', async () => {
    const d = (await status()).database;
    const db = statSync(path.join(state, 'sluice.db')).size, wal = statSync(path.join(state, 'sluice.db-wal')).size;
    return d.wal_bytes === wal && d.database_bytes >= db ? true : { d, db, wal };
  });
  const parts = Object.values(now.parts).reduce((all, p) => all + p.bytes, 0);
  assert.equal(parts, now.memory.weight_bytes);
  const workers = now.pools.find((p) => p.pool === 'short');
  assert.deepEqual(workers.children.map((c) => c.pid).sort(), s.childrenOf(workers.master_pid).sort());
  assert.ok(now.versions.sqlite && now.versions.libsodium && /^nginx\//.test(now.versions.server));
});

test('an admin ends a job that is not theirs, and sees no prompt', async () => {
  const secret = 'the colour of my safe';
  const running = say(`Repeat: ${secret}`, { max_tokens: 3000, ignore_eos: true });
  let job;
  await until('a job', async () => { [job] = (await status()).jobs; return Boolean(job); });
  assert.ok(!JSON.stringify(await status()).includes(secret));
  assert.equal((await s.request('DELETE', `/api/admin/jobs/${job.id}`)).status, 204);
  const r = await running;
  assert.ok(r.status !== 200 || r.body.usage.completion_tokens < 3000, r.text);
  assert.equal((await s.json('DELETE', `/api/admin/jobs/${job.id}`)).status, 404);
  for (const id of ['x', '0', '-1', '99999999999999999999']) assert.equal((await s.json('DELETE', `/api/admin/jobs/${id}`)).status, 404, id);
});

test('the log has the lines of every program, by level, and no prompt', async () => {
  const word = 'rhinoceros';
  await say(`Spell ${word}.`);
  const all = (await s.json('GET', '/api/admin/log')).body;
  for (const program of ['engine', 'short', 'stream', 'record', 'up']) assert.ok(all.items.some((l) => l.program === program), program);
  assert.ok(!JSON.stringify(all).includes(word));
  assert.ok(all.items.every((l, i) => l.text && l.pid > 1 && (i === 0 || l.sequence > all.items[i - 1].sequence)));
  for (const path of ['/api/users', '/api/status', '/api/admin/status']) await s.json('GET', path);
  const later = (await s.json('GET', `/api/admin/log?after=${all.next}`)).body;
  assert.ok(later.items.some((l) => l.text.includes('route=/api/users ')) && later.items.every((l) => l.sequence > all.next));
  assert.deepEqual(later.items.filter((l) => /route=\/api\/(admin\/)?(status|log) /.test(l.text)), [], 'what open pages ask again and again')
  const warnings = (await s.json('GET', '/api/admin/log?level=warn')).body.items;
  assert.ok(warnings.length && warnings.every((l) => ['warn', 'error'].includes(l.level))); // the killed recorder
  assert.equal((await s.json('GET', '/api/admin/log?limit=3')).body.items.length, 3);
  for (const bad of ['level=loud', 'limit=0', 'limit=501', 'after=-1']) assert.equal((await s.json('GET', `/api/admin/log?${bad}`)).status, 400, bad);
});

test('checks say what was looked at, and what helps', async () => {
  const quick = (await s.json('GET', '/api/admin/checks')).body.items;
  for (const name of ['machine', 'SQLite', 'disk', 'state folder', 'write-ahead log', 'engine', 'heartbeat'])
    assert.ok(quick.some((c) => c.check === name), name);
  for (const c of quick) assert.equal(c.verdict === 'ok', c.fix === undefined, JSON.stringify(c));
  const coded = (code) => quick.find((c) => c.code === code);
  assert.ok(quick.every((c) => c.code) && coded('machine').n > 1e8 && Number(coded('machine').text) >= 1 && coded('state_folder').text.startsWith('/'), JSON.stringify(quick));
  assert.ok(!quick.some((c) => c.check === 'database'));
  const whole = (await s.json('GET', '/api/admin/checks?database=true')).body.items;
  assert.equal(whole.find((c) => c.check === 'database').verdict, 'ok');
  for (const bad of ['checks?database=maybe', 'history?seconds=1', 'history?seconds=x', 'history?seconds=99999999'])
    assert.equal((await s.json('GET', `/api/admin/${bad}`)).status, 400, bad);
});
