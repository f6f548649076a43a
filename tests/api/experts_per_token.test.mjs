// Fewer experts per token than the model was made for: said wherever the numbers are, and in every answer.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { start } from './harness.mjs';

const open = [];
after(() => Promise.all(open.map((s) => s.stop())));

async function answer(args) {
  const s = await start({ args });
  open.push(s);
  const { status, body } = await s.json('POST', '/v1/chat/completions', {
    messages: [{ role: 'user', content: 'Tell me a story' }], max_tokens: 8, temperature: 0,
  });
  assert.equal(status, 200);
  return { s, body };
}

test('an answer says that it is lossy, and by how much', async () => {
  const plain = await answer([]);
  assert.equal(plain.body.timings.lossy, undefined);
  assert.equal(plain.body.timings.expert_read_bytes, undefined);
  const own = await plain.s.metric('model_own_experts_per_token');
  assert.ok(own > 1);
  assert.equal(await plain.s.metric('model_experts_per_token'), own);

  const few = await answer(['--experts-per-token', '1']);
  assert.equal(few.body.timings.lossy, true);
  assert.equal(few.body.timings.experts_per_token, 1);
  assert.equal(await few.s.metric('model_experts_per_token'), 1);
  assert.equal(await few.s.metric('model_own_experts_per_token'), own);
  const { body } = await few.s.json('GET', '/api/admin/status');
  assert.equal(body.memory.experts_per_token, 1);

  const more = await answer(['--experts-per-token', String(own)]);
  assert.equal(more.body.timings.lossy, undefined);
});

test('an answer says what was read for it', async () => {
  const { s, body } = await answer(['--strategy', 'ssd_streaming', '--expert-cache', '2M']);
  const { expert_read_bytes: read, expert_hit_rate: rate } = body.timings;
  assert.ok(read > 0 && rate >= 0 && rate <= 1, JSON.stringify(body.timings));
  const total = await s.metric('expert_read_bytes_total'), warm = await s.metric('expert_warm_bytes_total');
  assert.ok(Math.abs(read - (total - warm)) <= 1, `${read} in the answer, ${total} at /metrics of which ${warm} at the start`);
});
