// One plan, told everywhere alike: the engine's status, /metrics and `sluice info` for each strategy that runs here,
// and what was taken is what was planned.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { demo, program, start } from './harness.mjs';

const open = [];
after(() => Promise.all(open.map((s) => s.stop())));

const sluice = program('sluice');
const MIB = 1 << 20;

function info(args) {
  const text = execFileSync(sluice, ['info', demo, '--backend', 'cpu', '--json', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return JSON.parse(text);
}

// what may differ between two readings of one machine: what is free, and what follows from timing
const FREE = ['ram_available_bytes', 'ram_limit_bytes', 'estimated_tok_s'];
const fixed = (plan) => Object.fromEntries(Object.entries(plan).filter(([k]) => !FREE.includes(k) && k !== 'backend' && k !== 'fast_prefill'));

async function check(args, strategy) {
  const s = await start({ args });
  open.push(s);
  const { body } = await s.json('GET', '/api/admin/status');
  const { plan } = body;
  assert.equal(plan.strategy, strategy);
  assert.equal(body.engine.strategy, strategy);
  const promised = info(args).plan;
  assert.deepEqual(fixed(plan), fixed(promised));
  assert.ok(plan.estimated_tok_s > 0 && promised.estimated_tok_s > 0);

  // planned = taken, by part and by place
  const m = body.memory;
  assert.equal(plan.weight_bytes, plan.dense_bytes + plan.expert_bytes + plan.expert_cache_bytes);
  assert.equal(m.loaded_weight_bytes, plan.weight_bytes);
  assert.equal(m.kv_bytes, plan.kv_bytes);
  assert.equal(m.state_bytes, plan.state_bytes);
  assert.equal(m.work_bytes, plan.work_bytes);
  assert.equal(m.host_bytes, plan.host_bytes);
  assert.equal(m.device_bytes, plan.device_bytes);
  assert.equal(plan.host_bytes + plan.device_bytes, plan.weight_bytes + plan.kv_bytes + plan.state_bytes + plan.work_bytes);
  assert.equal(body.engine.n_ctx, plan.n_ctx);
  assert.equal(body.engine.n_blocks, plan.n_blocks);

  // the same numbers at /metrics
  for (const part of ['dense', 'expert', 'expert_cache', 'kv', 'state', 'work', 'host', 'device', 'weight', 'ram_total']) {
    assert.equal(await s.metric('plan_bytes', `part="${part}"`), plan[`${part}_bytes`], part);
  }
  for (const part of ['weight', 'kv', 'state', 'work']) {
    assert.equal(await s.metric('memory_bytes', `part="${part}"`), plan[`${part}_bytes`], part);
  }
  assert.equal(await s.metric('host_memory_bytes'), plan.host_bytes);
  assert.equal(await s.metric('estimated_tokens_per_second'), plan.estimated_tok_s);
  assert.equal(await s.metric('model_info', `strategy="${strategy}"`), 1);

  // and it answers
  const r = await s.chat({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 });
  assert.equal(r.status, 200, r.text);
  return { s, plan };
}

test('cpu_only by itself: everything in RAM', async () => {
  const { plan } = await check([], 'cpu_only');
  assert.equal(plan.expert_cache_bytes, 0);
  assert.equal(plan.ssd_stream, false);
  assert.deepEqual([plan.gpu_layers, plan.cpu_layers, plan.total_layers], [0, 8, 8]);
  assert.equal(plan.reason, '');
});

test('cpu_only when asked for', () => check(['--strategy', 'cpu_only', '--ctx', '1024', '--slots', '2'], 'cpu_only'));

test('ssd_streaming when asked for', async () => {
  const { s, plan } = await check(['--strategy', 'ssd_streaming', '--expert-cache', '8M', '--slots', '2'], 'ssd_streaming');
  assert.equal(plan.expert_cache_bytes, 8 * MIB);
  assert.equal(plan.ssd_stream, true);
  assert.equal(await s.metric('expert_cache_budget_bytes'), 8 * MIB);
});

test('ssd_streaming by itself, where the budget is too small for all', async () => {
  const args = ['--ctx', '512', '--slots', '1', '--prefill-chunk', '64'];
  const whole = info(args).plan;
  const beside = whole.reserve_bytes - Math.min(Math.max(Math.floor(whole.ram_total_bytes / 64), 64 * MIB), 2048 * MIB);
  const { plan } = await check([...args, '--ram-budget', String(whole.host_bytes + beside - 8 * MIB)], 'ssd_streaming');
  assert.ok(plan.host_bytes <= whole.host_bytes - 8 * MIB);
  assert.ok(plan.expert_cache_bytes > 0);
  assert.match(plan.reason, /^cpu_only: needs /);
});

test('a packed model takes its file, its KV and little more', async (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const model = path.join(dir, 'model');
  execFileSync(sluice, ['synth', '--out', model, '--shape', 'qwen3-30b-a3b', '--format', 'mxfp4', '--layers', '1', '--vocab', '8192',
    '--context', '2048', '--tokenizer', demo], { stdio: 'ignore' });
  const s = await start({ model, args: ['--slots', '2', '--ctx', '2048'] });
  open.push(s);
  // many different tokens, so that every expert is read
  const words = Array.from({ length: 150 }, (_, i) => `${i * 7919 % 1000} sea${i}`).join(' ');
  const r = await s.chat({ messages: [{ role: 'user', content: words }], max_tokens: 4 });
  assert.equal(r.status, 200, r.text);
  const resident = Number(/^Rss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${s.pid('engine')}/smaps_rollup`, 'utf8'))[1]) * 1024;
  const { body } = await s.json('GET', '/api/admin/status');
  assert.ok(resident > 0.9 * body.memory.weight_bytes, `${resident} of ${body.memory.weight_bytes}`); // it was all read
  assert.ok(resident <= 1.1 * (body.memory.file_bytes + body.memory.kv_bytes), `${resident}, ${JSON.stringify(body.memory)}`);
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
