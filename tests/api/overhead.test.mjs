// What a request costs in the worker, without the engine's time: under 2 ms at the median, from the worker's own histogram.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

test('the median overhead of a chat is under 2 ms', { skip: process.env.SLUICE_TEST_SANITIZED && 'sanitized' }, async () => {
  for (let i = 0; i < 20; i++) await s.chat({ messages: order({ text: 'warm' }) });
  const from = s.log.length;
  for (let i = 0; i < 100; i++) await s.chat({ messages: [{ role: 'system', content: 'Be brief.' }, ...order({ text: 'a b c d e f g h' })] });
  await new Promise((d) => setTimeout(d, 200));
  const ms = [...s.log.slice(from).matchAll(/route=\/v1\/chat\/completions .*overhead_ms=([0-9.]+)/g)].map((m) => Number(m[1])).sort((a, b) => a - b);
  assert.ok(ms.length >= 99);
  console.log(`# overhead: median ${ms[ms.length >> 1]} ms, 90th ${ms[Math.floor(ms.length * 0.9)]} ms, worst ${ms.at(-1)} ms`);
  assert.ok(ms[ms.length >> 1] < 2, `${ms[ms.length >> 1]} ms`);
});
