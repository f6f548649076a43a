// The KV cache in fewer bits: the type in use is said wherever the numbers are, and a prompt that is found in the cache gives the
// answer that it gave before. The same of activations in 8 bits.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { start } from './harness.mjs';

const open = [];
after(() => Promise.all(open.map((s) => s.stop())));

const messages = [{ role: 'user', content: `${'A river, a stone and a boat. '.repeat(20)}What is there?` }];

test('the type in use is told, and cached prompts give the same answer', async () => {
  const s = await start({ args: ['--kv-type', 'k8v4', '--activations', '8', '--ctx', '2048', '--slots', '2'] });
  open.push(s);
  const ready = JSON.parse(s.log.split('\n').find((l) => l.startsWith('{"event":"ready"')));
  const { sluice } = (await s.json('GET', '/v1/models')).body.data[0];
  const { memory, plan } = (await s.json('GET', '/api/admin/status')).body;
  assert.deepEqual([ready.kv_type, sluice.kv_type, memory.kv_type, plan.kv_type], Array(4).fill('k8v4'));
  for (const device of [ready.device, sluice.device]) assert.match(device, /^cpu, .*kernels, 8-bit activations$/);
  assert.equal(sluice.kv_stored_bytes_per_token, plan.kv_stored_bytes_per_token);
  assert.ok(sluice.kv_bytes_per_token / sluice.kv_stored_bytes_per_token >= 2.5);
  const ask = async () => (await s.chat({ messages, max_tokens: 12, temperature: 0, ignore_eos: true })).body;
  const first = await ask(), again = await ask();
  assert.ok(again.usage.prompt_tokens_details.cached_tokens > 0);
  assert.equal(again.choices[0].message.content, first.choices[0].message.content);
});

test('auto takes 8 bits where the pool for the slots does not fit at 16, and the log says so', async () => {
  const s = await start({ args: ['--ram-budget', '400M'] });
  open.push(s);
  const { plan } = (await s.json('GET', '/api/admin/status')).body;
  assert.equal(plan.kv_type, 'q8');
  await s.logs(/KV cache is stored as q8: at 16 bits/);
  assert.equal((await s.chat({ messages, max_tokens: 4 })).status, 200);
});

test('a type that does not exist is refused by name', async () => {
  await assert.rejects(start({ args: ['--activations', '4'] }), /activations/);
  await assert.rejects(start({ args: ['--kv-type', 'q4'] }), /kv-type/);
});
