// One set of figures for each strategy: the engine's ready line, its status, /metrics and `sluice info` have the same
// plan to the byte; what was taken is what was planned; what answers say they cost adds up to the counters; and memory
// by kind, locked pages and bytes of the disk are what the kernel counted for the process.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { demo, program, sleep, start, top } from './harness.mjs';

const open = [];
after(() => Promise.all(open.map((s) => s.stop())));

const sluice = program('sluice');
const MIB = 1 << 20;
const GPU = ['--backend', 'vulkan'];

function info(args, model = demo) {
  const text = execFileSync(sluice, ['info', model, '--backend', 'cpu', '--json', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return JSON.parse(text);
}
const small = path.join(top, 'tests/data/golden/qwen3moe/mlx-q4'); // a GPU's speed is measured by parts of the model
const noGpu = info(GPU, small).plan ? false : 'no Vulkan device answers';

// what may differ between two readings of one machine: what is free, and what follows from timing
const FREE = ['ram_available_bytes', 'ram_limit_bytes', 'gpu_available_bytes', 'gpu_limit_bytes', 'estimated_tok_s'];
const fixed = (plan, known) => Object.fromEntries(Object.entries(plan).filter(([k]) => !FREE.includes(k) && k in known));

const proc = (s, file) => readFileSync(`/proc/${s.pid('engine')}/${file}`, 'utf8');
const kib = (text, name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)[1]);
const near = (a, b, share, what) => assert.ok(Math.abs(a - b) <= share * Math.max(a, b), `${what}: ${a} and ${b}`);

async function metrics(s) {
  const text = await s.metrics();
  return (name, labels = '') => {
    const line = text.split('\n').find((l) => l.startsWith(`sluice_${name}${labels ? `{${labels}}` : ''} `));
    assert.ok(line, name);
    return Number(line.slice(line.lastIndexOf(' ') + 1));
  };
}

// --- the plan -----------------------------------------------------------------------------------------------------
async function checkPlan(s, args, strategy) {
  const { body } = await s.json('GET', '/api/admin/status'), { plan } = body, m = body.memory;
  assert.equal(plan.strategy, strategy);
  assert.equal(body.engine.strategy, strategy);
  await s.logs(/^\{"event":"ready".*\n/m);
  const ready = JSON.parse(s.log.split('\n').find((l) => l.startsWith('{"event":"ready"')));
  assert.deepEqual(Object.fromEntries(Object.entries(ready).filter(([k]) => k in plan)), plan, 'the ready line');
  const promised = info(args).plan;
  assert.deepEqual(fixed(promised, plan), fixed(plan, plan), 'sluice info');
  assert.equal(promised.estimated_tok_s > 0, plan.estimated_tok_s > 0);

  // planned = taken, by part and by place
  assert.equal(plan.weight_bytes, plan.dense_bytes + plan.expert_bytes + plan.expert_cache_bytes);
  assert.deepEqual({ weight: m.loaded_weight_bytes, kv: m.kv_bytes, state: m.state_bytes, work: m.work_bytes, recall: m.recall_bytes, host: m.host_bytes, device: m.device_bytes },
    { weight: plan.weight_bytes, kv: plan.kv_bytes, state: plan.state_bytes, work: plan.work_bytes, recall: plan.recall_bytes, host: plan.host_bytes, device: plan.device_bytes });
  assert.deepEqual([m.kv_type, m.kv_stored_bytes_per_token], [plan.kv_type, plan.kv_stored_bytes_per_token]);
  assert.ok(plan.n_blocks * body.engine.block_tokens * plan.kv_stored_bytes_per_token <= plan.kv_bytes);
  assert.equal(plan.host_bytes + plan.device_bytes, plan.weight_bytes + plan.kv_bytes + plan.state_bytes + plan.work_bytes + plan.recall_bytes);
  assert.equal(plan.recall_bytes, 1000 * plan.n_blocks); // what drafts know of each block's text
  assert.deepEqual([body.engine.n_ctx, body.engine.n_blocks, body.engine.n_slots], [plan.n_ctx, plan.n_blocks, plan.n_slots]);

  // the same numbers at /metrics
  const now = await metrics(s);
  for (const [key, value] of Object.entries(plan)) {
    const [, part] = /^(.*)_bytes$/.exec(key) ?? [];
    if (part) assert.equal(now('plan_bytes', `part="${part}"`), value, key);
  }
  for (const part of ['weight', 'kv', 'state', 'work', 'recall']) assert.equal(now('memory_bytes', `part="${part}"`), plan[`${part}_bytes`], part);
  assert.equal(now('host_memory_bytes'), plan.host_bytes);
  assert.equal(now('device_memory_bytes'), plan.device_bytes);
  assert.equal(now('estimated_tokens_per_second'), plan.estimated_tok_s ?? 0);
  assert.equal(now('expert_cache_budget_bytes') > 0, strategy === 'ssd_streaming');
  assert.equal(await s.metric('model_info', `strategy="${strategy}"`), 1);
  return plan;
}

// --- what answers cost ----------------------------------------------------------------------------------------------
const COUNTERS = ['asked', 'hits', 'late', 'misses', 'evictions', 'device_hits', 'device_misses', 'device_evictions', 'read_bytes', 'bus_bytes'];
const counters = (now) => Object.fromEntries(COUNTERS.map((name) => [name, now(`expert_${name}_total`)]));

/** Answers one after the other, then at once; the sums of their timings are what the counters grew by. */
async function checkAnswers(s, strategy) {
  const before = counters(await metrics(s)), read = Number(/^read_bytes: (\d+)/m.exec(proc(s, 'io'))[1]);
  const ask = async (what) => {
    const r = await s.chat({ messages: [{ role: 'user', content: `Tell me of ${what}.` }], max_tokens: 4, ignore_eos: true, temperature: 0 });
    assert.equal(r.status, 200, r.text);
    return r.body.timings;
  };
  const answers = [await ask('a river and a stone'), ...await Promise.all(['bread', 'music'].map(ask))];
  const now = await metrics(s), grown = Object.fromEntries(Object.entries(counters(now)).map(([k, v]) => [k, v - before[k]]));
  const apart = ['hybrid', 'ssd_streaming'].includes(strategy);
  for (const name of COUNTERS) {
    const sum = answers.reduce((all, t) => all + (t.experts?.[name] ?? 0), 0);
    assert.ok(Math.abs(sum - grown[name]) < 1e-6 * sum + 1e-6, `${name}: ${sum} in the answers, ${grown[name]} at /metrics`);
    assert.ok(apart || grown[name] === 0, name);
  }
  assert.equal(grown.asked, grown.hits + grown.late + grown.misses);
  assert.equal(grown.asked > 0 && grown.read_bytes > 0, strategy === 'ssd_streaming');
  const { body } = await s.json('GET', '/api/admin/status');
  for (const name of COUNTERS) assert.equal(body.experts[name], now(`expert_${name}_total`), name);
  const kernel = Number(/^read_bytes: (\d+)/m.exec(proc(s, 'io'))[1]) - read;
  return { grown, kernel, last: answers[0].memory };
}

// --- memory by kind -------------------------------------------------------------------------------------------------
async function compareMemory(s, plan, last) {
  const rollup = proc(s, 'smaps_rollup'), status = proc(s, 'status'), io = proc(s, 'io'), now = await metrics(s);
  const { memory } = (await s.json('GET', '/api/admin/status')).body;
  const told = Object.fromEntries(['resident', 'anonymous', 'mapped', 'locked'].map((kind) => [kind, now(`${kind}_memory_bytes`)]));
  near(told.resident, kib(rollup, 'Rss'), 0.05, 'resident');
  near(told.anonymous, kib(rollup, 'Anonymous'), 0.05, 'anonymous');
  near(told.mapped, kib(rollup, 'Rss') - kib(rollup, 'Anonymous'), 0.05, 'mapped');
  near(told.locked, kib(status, 'VmLck'), 0.05, 'locked');
  near(now('disk_read_bytes_total'), Number(/^read_bytes: (\d+)/m.exec(io)[1]), 0.01, 'disk');
  for (const kind of Object.keys(told)) near(memory[`${kind}_bytes`], told[kind], 0.05, kind);
  assert.equal(last.device_bytes, plan.device_bytes);
  assert.ok(last.locked_bytes <= told.locked && last.locked_bytes >= Math.min(told.locked, plan.dense_bytes));
  return { ...told, status };
}
async function checkMemory(...args) {
  for (const until = Date.now() + 5000; ; await sleep(100)) { // the kernel's counts are taken each second
    try { return await compareMemory(...args); } catch (error) { if (Date.now() > until) throw error; }
  }
}

// malloc then maps each large piece by itself, however many were given back before, for allocated() (which makes a shaders' compiler slow)
const MAPPED = { under: ['env', `MALLOC_MMAP_THRESHOLD_=${MIB}`] };

/** What a software GPU allocates is memory of the process: large maps that are neither files nor malloc's arenas, which begin at a
 * multiple of 64 MiB and have their rest without rights behind them. */
function allocated(s) {
  const maps = proc(s, 'smaps').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).map((text) => {
    const [, from, to, mode, name] = /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$/m.exec(text);
    return { from: Number(`0x${from}`), to: Number(`0x${to}`), mode, name, rss: kib(text, 'Rss') };
  });
  const arena = (m, i) => m.from % (64 * MIB) === 0 && maps[i + 1]?.from === m.to && /^---/.test(maps[i + 1].mode);
  return maps.filter((m, i) => /^rw/.test(m.mode) && (!m.name || m.name.startsWith('/memfd:')) && m.to - m.from >= MIB && !arena(m, i))
    .reduce((sum, m) => sum + m.rss, 0);
}
/** Within 5 %, and 2 MiB for what is no part of a plan: buffers on the way to the disk, which are given back within a moment. */
async function nearAllocated(s, bytes) {
  for (const until = Date.now() + 20_000; ; await sleep(100)) {
    const taken = allocated(s);
    if (Math.abs(taken - bytes) <= 0.05 * bytes + 2 * MIB) return;
    assert.ok(Date.now() < until, `allocated ${taken}, planned ${bytes}\n${proc(s, 'maps')}`);
  }
}

/** A server by these options, with all of the above. */
async function check(args, strategy, t, options = {}) {
  const s = await start({ args, allThreads: true, ...options });
  open.push(s);
  const plan = await checkPlan(s, args, strategy);
  let { grown, kernel, last } = await checkAnswers(s, strategy);
  // pages of a software GPU's compiler come from the disk too, when it first works: once more without it
  if (args.includes('vulkan') && grown.read_bytes && kernel > 1.01 * grown.read_bytes) ({ grown, kernel, last } = await checkAnswers(s, strategy));
  if (grown.read_bytes && !kernel) t.diagnostic('this file system does not count reads (O_DIRECT is refused)');
  else if (grown.read_bytes) near(grown.read_bytes, kernel, 0.01, '/metrics, /proc/PID/io');
  return { s, plan, grown, ...await checkMemory(s, plan, last) };
}

test('cpu_only by itself: everything in RAM, and locked there', async (t) => {
  const { s, plan, ...m } = await check([], 'cpu_only', t);
  assert.equal(plan.expert_cache_bytes, 0);
  assert.equal(plan.ssd_stream, false);
  assert.deepEqual([plan.gpu_layers, plan.cpu_layers, plan.total_layers], [0, 8, 8]);
  assert.equal(plan.reason, '');
  if (!m.locked) return t.skip('the limit of locked memory is too low here');
  assert.equal(m.locked, kib(m.status, 'VmLck'));
  assert.ok(m.locked >= plan.weight_bytes && m.locked < 1.05 * plan.weight_bytes + MIB, `${m.locked} of ${plan.weight_bytes}`);
  await s.logs(/weights are locked in memory bytes=\d+/);
});

test('cpu_only when asked for, where nothing may be locked: it says so and runs', async (t) => {
  const under = ['prlimit', '--memlock=65536:65536', ...(process.getuid() === 0 ? ['setpriv', '--bounding-set=-ipc_lock', '--inh-caps=-ipc_lock'] : [])];
  if (spawnSync(under[0], [...under.slice(1), 'true']).status !== 0) return t.skip('no prlimit, or no setpriv');
  const { s, status, locked } = await check(['--strategy', 'cpu_only', '--ctx', '1024', '--slots', '2'], 'cpu_only', t, { under });
  assert.equal(locked, kib(status, 'VmLck'));
  assert.equal(locked, 0);
  await s.logs(/weights are not all locked.* locked=0 of=\d+.*ulimit -l/);
});

test('ssd_streaming when asked for', async (t) => {
  const { plan, locked, anonymous } = await check(['--strategy', 'ssd_streaming', '--expert-cache', '8M', '--slots', '2'], 'ssd_streaming', t);
  assert.equal(plan.expert_cache_bytes, 8 * MIB);
  assert.equal(plan.ssd_stream, true);
  assert.ok(locked === 0 || locked >= plan.dense_bytes, `${locked}`);
  assert.ok(anonymous < plan.host_bytes + 96 * MIB, `${anonymous} of ${plan.host_bytes}`);
});

test('ssd_streaming by itself, where the budget is too small for all', async (t) => {
  const args = ['--ctx', '512', '--slots', '1', '--prefill-chunk', '64'];
  const whole = info(args).plan;
  const beside = whole.reserve_bytes - Math.min(Math.max(Math.floor(whole.ram_total_bytes / 64), 64 * MIB), 2048 * MIB);
  const { plan, grown } = await check([...args, '--ram-budget', String(whole.host_bytes + beside - 8 * MIB)], 'ssd_streaming', t);
  assert.ok(plan.host_bytes <= whole.host_bytes - 8 * MIB);
  assert.ok(plan.expert_cache_bytes > 0);
  assert.match(plan.reason, /^cpu_only: needs /);
  assert.equal(grown.device_hits + grown.device_misses, 0);
});

test('full_gpu by itself, and the same when asked for', { skip: noGpu }, async (t) => {
  const args = [...GPU, '--ctx', '1024', '--slots', '2', '--prefill-chunk', '64'];
  const { s, plan } = await check(args, 'full_gpu', t, MAPPED);
  await nearAllocated(s, plan.device_bytes);
  assert.deepEqual([plan.gpu_layers, plan.cpu_layers, plan.total_layers], [8, 0, 8]);
  assert.ok(plan.device_bytes > plan.weight_bytes);
  const asked = info([...args, '--strategy', 'full_gpu']).plan;
  assert.deepEqual(fixed(asked, plan), fixed(plan, plan));
});

test('hybrid when asked for: slots on the GPU, all experts in RAM', { skip: noGpu }, async (t) => {
  const { s, plan, grown } = await check([...GPU, '--strategy', 'hybrid', '--hybrid-experts', 'bus', '--expert-cache', '6M', '--ctx', '1024', '--slots', '2', '--prefill-chunk', '64'], 'hybrid', t, MAPPED);
  assert.ok(plan.expert_cache_bytes > 0 && plan.expert_cache_bytes <= 6 * MIB, `${plan.expert_cache_bytes}`);
  assert.ok(plan.host_bytes > plan.expert_bytes);
  assert.equal(grown.read_bytes, 0);
  await nearAllocated(s, plan.device_bytes + plan.host_bytes);
  for (const name of ['device_hits', 'device_misses', 'device_evictions', 'bus_bytes']) assert.ok(grown[name] > 0, name);
});

test('ssd_streaming with a GPU: slots, a cache in RAM, the rest on disk', { skip: noGpu }, async (t) => {
  const { plan, grown } = await check([...GPU, '--strategy', 'ssd_streaming', '--expert-cache', '10M', '--ctx', '1024', '--slots', '2', '--prefill-chunk', '64'], 'ssd_streaming', t);
  assert.ok(plan.device_bytes > 0 && plan.host_bytes > 0);
  assert.equal(grown.device_hits + grown.device_misses, grown.asked);
});

test('a packed model takes its file, its KV and little more', async (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const model = path.join(dir, 'model');
  execFileSync(sluice, ['synth', '--out', model, '--shape', 'qwen3-30b-a3b', '--format', 'mxfp4', '--layers', '1', '--vocab', '8192',
    '--context', '2048', '--tokenizer', demo], { stdio: 'ignore' });
  // a small model: work buffers of a large chunk would be more than the tenth that a real one has to spare
  const s = await start({ model, args: ['--slots', '2', '--ctx', '2048', '--prefill-chunk', '64'] });
  open.push(s);
  // many different tokens, so that every expert is read
  const words = Array.from({ length: 150 }, (_, i) => `${i * 7919 % 1000} sea${i}`).join(' ');
  const r = await s.chat({ messages: [{ role: 'user', content: words }], max_tokens: 4 });
  assert.equal(r.status, 200, r.text);
  const resident = kib(proc(s, 'smaps_rollup'), 'Rss'), peak = kib(proc(s, 'status'), 'VmHWM');
  const { body } = await s.json('GET', '/api/admin/status');
  assert.equal(body.plan.strategy, 'cpu_only');
  assert.ok(resident > 0.9 * body.memory.weight_bytes, `${resident} of ${body.memory.weight_bytes}`); // it was all read
  assert.ok(peak <= 1.1 * (body.memory.file_bytes + body.memory.kv_bytes), `${peak}, ${JSON.stringify(body.memory)}`);
});

test('what cannot work is refused with what would', (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-'));
  t.after(() => rmSync(dir, { recursive: true }));
  for (const [args, says] of [
    [['--ram-budget', '100M'], /--ram-budget \d+ would do/],
    [['--strategy', 'full_gpu'], /--strategy cpu_only would run/],
    [['--strategy', 'hybrid'], /hybrid/],
    [['--ctx', '1000000'], /1000000 positions/],
  ]) {
    const refused = info(args);
    assert.equal(refused.plan, null);
    assert.match(refused.reason, says);
    const engine = spawnSync(program('sluice-engine'), ['--model', demo, '--backend', 'cpu', '--socket', path.join(dir, 'socket'),
      '--status', path.join(dir, 'status'), ...args], { encoding: 'utf8', timeout: 60000 });
    assert.equal(engine.status, 1, engine.stderr);
    assert.match(engine.stderr, says);
  }
});
