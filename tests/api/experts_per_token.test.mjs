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
  assert.equal(few.body.timings.own_experts_per_token, own);
  assert.equal(few.body.usage.experts_per_token, 1);
  assert.equal(await few.s.metric('lossy_requests_total'), 1);
  assert.equal(await few.s.metric('model_experts_per_token'), 1);
  assert.equal(await few.s.metric('model_own_experts_per_token'), own);
  const { body } = await few.s.json('GET', '/api/admin/status');
  assert.equal(body.memory.experts_per_token, 1);

  const more = await answer(['--experts-per-token', String(own)]);
  assert.equal(more.body.timings.lossy, undefined);
});

const story = { messages: [{ role: 'user', content: 'Tell me a long story about a town, a river and the people who lived between them. '.repeat(4) }], max_tokens: 8, temperature: 0 };

test('a request may ask for fewer experts, and says so; its prompt cache is its own', async () => {
  const s = open[0], own = await s.metric('model_own_experts_per_token'), before = await s.metric('lossy_requests_total');
  const ask = async (more) => {
    const { status, body } = await s.json('POST', '/v1/chat/completions', { ...story, cache_salt: 'experts', ...more });
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const cached = (body) => body.usage.prompt_tokens_details.cached_tokens;
  const whole = await ask({}), few = await ask({ experts_per_token: 1 }), again = await ask({ experts_per_token: 1 });
  assert.equal(whole.usage.lossy, undefined);
  assert.deepEqual([few.usage.experts_per_token, few.usage.own_experts_per_token, few.usage.lossy, few.timings.lossy], [1, own, true, true]);
  assert.equal(cached(few), 0);
  assert.ok(cached(again) > 0);
  assert.notEqual(few.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(again.choices[0].message.content, few.choices[0].message.content);
  const all = await ask({ experts_per_token: own }); // nothing is lost: it shares the plain one's
  assert.ok(cached(all) > 0 && all.usage.lossy === undefined);
  assert.equal(await s.metric('lossy_requests_total'), before + 2);
  const { body } = await s.json('GET', '/api/admin/status');
  assert.equal(body.load.jobs_lossy, before + 2);

  // side by side with others it is what it was alone
  const both = await Promise.all([ask({ experts_per_token: 1 }), ask({}), ask({ experts_per_token: 2 }), ask({ experts_per_token: 1 })]);
  assert.deepEqual([0, 1, 3].map((i) => both[i].choices[0].message.content), [few, whole, few].map((a) => a.choices[0].message.content));
});

test('each endpoint takes it, and refuses what the model has not', async () => {
  const s = open[0], own = await s.metric('model_own_experts_per_token');
  const endpoints = { '/v1/chat/completions': story, '/v1/completions': { prompt: 'Once', max_tokens: 4 },
    '/v1/responses': { input: 'Once', max_output_tokens: 4 }, '/v1/messages': { ...story, temperature: undefined } };
  for (const [path, body] of Object.entries(endpoints)) {
    const good = await s.json('POST', path, { ...body, experts_per_token: 2 });
    assert.equal(good.status, 200, `${path} ${JSON.stringify(good.body)}`);
    assert.equal(good.body.usage.experts_per_token, 2, path);
    for (const wrong of [0, -1, own + 1, 1025, 1.5, '2', true]) {
      const r = await s.json('POST', path, { ...body, experts_per_token: wrong });
      assert.equal(r.status, 400, `${path} ${wrong}`);
      assert.match(path === '/v1/messages' ? r.body.error.message : r.body.error.param, /^experts_per_token/, `${path} ${wrong}`);
    }
  }
  const refused = await s.json('POST', '/v1/chat/completions', { ...story, experts_per_token: own + 1 });
  assert.match(refused.body.error.message, new RegExp(`the model uses ${own}: want 1 to ${own}`));
});

test('a server with fewer experts of its own is the cap', async () => {
  const s = open[1]; // one expert
  const { status, body } = await s.json('POST', '/v1/chat/completions', { ...story, experts_per_token: 2 });
  assert.equal(status, 200);
  assert.equal(body.usage.experts_per_token, 1);
});

test('an answer says what was read for it', async () => {
  const { s, body } = await answer(['--strategy', 'ssd_streaming', '--expert-cache', '2M']);
  const { expert_read_bytes: read, expert_hit_rate: rate } = body.timings;
  assert.ok(read > 0 && rate >= 0 && rate <= 1, JSON.stringify(body.timings));
  const total = await s.metric('expert_read_bytes_total'), warm = await s.metric('expert_warm_bytes_total');
  assert.ok(Math.abs(read - (total - warm)) <= 1, `${read} in the answer, ${total} at /metrics of which ${warm} at the start`);
  // streamed or in memory, fewer experts give the same answer
  const [there, here] = await Promise.all([s, open[0]].map((at) => at.json('POST', '/v1/chat/completions', { ...story, experts_per_token: 2 })));
  assert.equal(there.body.choices[0].message.content, here.body.choices[0].message.content);
});
