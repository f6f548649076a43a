// Experts that a GPU has no slot for, computed by the processor: the plan says so, answers come, and every figure shows it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, test } from 'node:test';
import { program, start, top } from './harness.mjs';

const ARGS = ['--backend', 'vulkan', '--strategy', 'hybrid', '--ctx', '1024', '--slots', '2', '--expert-cache', '4M'];
const small = path.join(top, 'tests/data/golden/qwen3moe/mlx-q4'); // whose parts a software GPU measures soon
const info = (...args) => execFileSync(program('sluice'), ['info', small, ...ARGS, '--expert-cache', '150K', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
const plan = JSON.parse(info('--json')).plan;
const skip = plan ? false : 'no Vulkan device';

const open = [];
after(() => Promise.all(open.map((s) => s.stop())));

test('the plan says who computes experts without a slot', { skip }, () => {
  assert.equal(plan.experts_without_slot, 'by rates measured at the load');
  assert.match(info('--hybrid-experts', 'bus'), /experts without a slot +read over the bus/);
  assert.match(info('--hybrid-experts', 'cpu'), /experts without a slot +computed on the cpu/);
});

test('the processor computes them, and each is counted once', { skip }, async () => {
  const s = await start({ args: [...ARGS, '--hybrid-experts', 'cpu'], allThreads: true });
  open.push(s);
  const r = await s.chat({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 12, temperature: 0 });
  assert.equal(r.status, 200, r.text);
  assert.ok(r.body.usage.completion_tokens > 1 && r.body.choices[0].message.content, r.text);
  const { body } = await s.json('GET', '/api/admin/status');
  assert.equal(body.engine.strategy, 'hybrid');
  assert.equal(body.plan.experts_without_slot, 'computed on the cpu');
  assert.equal(body.memory.host_bytes, body.plan.host_bytes); // the processor's buffers are part of the plan
  assert.equal(body.memory.device_bytes, body.plan.device_bytes);
  const { device_hits: hits, device_misses: misses, on_cpu: cpu, bus_bytes: bus } = body.experts;
  assert.ok(hits > 0 && misses > 0, JSON.stringify(body.experts));
  assert.equal(cpu, misses);
  assert.equal(bus, 0);
  assert.equal(await s.metric('expert_on_cpu_total'), cpu);
  assert.equal(await s.metric('expert_device_misses_total'), misses);
  assert.equal(await s.metric('expert_bus_bytes_total'), 0);
});
