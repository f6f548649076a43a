// A chat completion as one object.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

test('the object has all that OpenAI documents', async () => {
  const r = await s.chat({ model: 'demo-model', messages: order({ text: 'Hello "you"\n🦉' }) });
  assert.equal(r.status, 200);
  assert.equal(r.headers.get('content-type'), 'application/json');
  const b = r.body;
  assert.match(b.id, /^chatcmpl-[0-9a-f]{24}$/);
  assert.equal(`req_${b.id.slice(9)}`, r.headers.get('x-request-id'));
  assert.equal(b.object, 'chat.completion');
  assert.ok(Math.abs(b.created - Date.now() / 1000) < 60);
  assert.equal(b.model, 'demo-model');
  assert.match(b.system_fingerprint, /^fp_[0-9a-f]{16}$/);
  assert.equal(b.choices.length, 1);
  assert.deepEqual(b.choices[0].message, { role: 'assistant', content: 'Hello "you"\n🦉', refusal: null });
  assert.equal(b.choices[0].finish_reason, 'stop');
  assert.equal(b.choices[0].logprobs, null);
  assert.equal(b.usage.total_tokens, b.usage.prompt_tokens + b.usage.completion_tokens);
});

test('n choices, logprobs, content parts and the developer role', async () => {
  const r = await s.chat({
    messages: [{ role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Obey:' }, { type: 'text', text: 'fake:{"text":"x y"}' }] }],
    n: 2, logprobs: true, top_logprobs: 0,
  });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.body.choices.map((c) => c.index), [0, 1]);
  for (const c of r.body.choices) {
    assert.equal(c.message.content, 'x y');
    assert.equal(c.logprobs.content.map((t) => t.token).join(''), 'x y');
    assert.deepEqual(c.logprobs.content[0].top_logprobs, []);
  }
});

test('max_completion_tokens cuts with length', async () => {
  const r = await s.chat({ messages: order({ text: 'one two three four' }), max_completion_tokens: 2 });
  assert.equal(r.body.choices[0].finish_reason, 'length');
  assert.equal(r.body.usage.completion_tokens, 2);
});

test('inert fields are taken', async () => {
  const r = await s.chat({ messages: order({}), user: 'u', metadata: { a: 'b' }, store: true, service_tier: 'auto',
    safety_identifier: 'x', prompt_cache_key: 'k' });
  assert.equal(r.status, 200, r.text);
});

test('null is the same as absent', async () => {
  const names = ['temperature', 'top_p', 'stop', 'seed', 'max_tokens', 'logit_bias', 'tools', 'tool_choice', 'n',
    'response_format', 'stream', 'stream_options', 'prediction', 'audio', 'functions', 'reasoning_effort', 'logprobs'];
  const r = await s.chat({ messages: order({}), ...Object.fromEntries(names.map((n) => [n, null])) });
  assert.equal(r.status, 200, r.text);
});
