// Sampling fields are obeyed by the real engine, and the prompt cache is told truthfully and kept apart between users.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { joined, start } from './harness.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

const base = { messages: [{ role: 'user', content: 'What is a garden?' }], max_tokens: 24 };
const say = async (extra) => {
  const r = await s.chat({ ...base, ...extra });
  assert.equal(r.status, 200, r.text);
  return r.body.choices[0];
};

test('what leaves one choice is greedy, however warm', async () => {
  const greedy = (await say({ temperature: 0 })).message.content;
  for (const only of [{ top_k: 1 }, { top_p: 0 }, { min_p: 1 }])
    assert.equal((await say({ temperature: 1.9, ...only })).message.content, greedy, JSON.stringify(only));
});

test('seeds: the same one repeats, others differ', async () => {
  const warm = { temperature: 1.5, top_k: 0, top_p: 1, min_p: 0, max_tokens: 40 };
  const texts = await Promise.all([1, 1, 2, 3].map(async (seed) => (await say({ ...warm, seed })).message.content));
  assert.equal(texts[0], texts[1]);
  assert.ok(new Set(texts).size > 1);
});

test('logit_bias forbids and forces', async () => {
  const greedy = await say({ temperature: 0, logprobs: true });
  const first = greedy.logprobs.content[0].token;
  const id = (await s.json('POST', '/tokenize', { content: first })).body.tokens[0];
  const without = await say({ temperature: 0, logprobs: true, logit_bias: { [id]: -100 } });
  assert.ok(!without.logprobs.content.some((t) => t.token === first));
  const other = (await s.json('POST', '/tokenize', { content: ' stone' })).body.tokens[0];
  const forced = await say({ temperature: 0, logprobs: true, logit_bias: { [other]: 100 }, max_tokens: 3 });
  assert.ok(forced.logprobs.content.every((t) => t.token === ' stone'));
  assert.equal(forced.finish_reason, 'length');
});

test('penalties change what is said again', async () => {
  const ask = { temperature: 0, max_tokens: 60, messages: [{ role: 'user', content: 'Say the word tree many times: tree tree tree tree' }], ignore_eos: true };
  const plain = (await say(ask)).message.content;
  for (const p of [{ frequency_penalty: 2 }, { presence_penalty: 2 }, { repetition_penalty: 3 }])
    assert.notEqual((await say({ ...ask, ...p })).message.content, plain, JSON.stringify(p));
});

test('a stop string never shows, not even in part, streamed or whole', async () => {
  const greedy = (await say({ temperature: 0 })).message.content;
  const stop = greedy.slice(9, 16);
  const whole = await say({ temperature: 0, stop });
  assert.equal(whole.message.content, greedy.slice(0, greedy.indexOf(stop)));
  const r = await s.stream({ ...base, temperature: 0, stop: [stop, 'zzz'] });
  assert.equal(joined(r.chunks).content, whole.message.content);
  assert.deepEqual(joined(r.chunks).finish, ['stop']);
});

test('a stop string is looked for in the content, not in the reasoning before it', async () => {
  const ask = { messages: [{ role: 'user', content: 'What is 17 + 25?' }], temperature: 0, max_tokens: 120 };
  const whole = (await say(ask)).message;
  assert.ok(whole.reasoning_content.length > 20, 'the demo model thinks about a sum');
  for (const stop of [whole.reasoning_content.slice(3, 9), '\n', '</think>'])
    assert.deepEqual((await say({ ...ask, stop })).message, whole, JSON.stringify(stop));
  const cut = whole.content.slice(4, 7);
  const expected = whole.content.slice(0, whole.content.indexOf(cut));
  assert.equal((await say({ ...ask, stop: ['\n', cut] })).message.content, expected);
  const streamed = joined((await s.stream({ ...ask, stop: ['\n', cut] })).chunks);
  assert.deepEqual([streamed.content, streamed.reasoning], [expected, whole.reasoning_content]);
  const r = await s.json('POST', '/v1/messages', { ...ask, thinking: { type: 'adaptive' }, stop_sequences: ['\n', cut] }, { 'anthropic-version': '2023-06-01' });
  assert.equal(r.body.stop_reason, 'stop_sequence', r.text);
  assert.deepEqual(r.body.content.map((b) => b.text ?? b.thinking), [whole.reasoning_content, expected]);
});

test('logprobs: the greedy token is the likeliest and the sum is no more than one', async () => {
  const c = await say({ temperature: 0, logprobs: true, top_logprobs: 20 });
  for (const t of c.logprobs.content) {
    assert.equal(t.top_logprobs.length, 20);
    assert.ok(t.logprob >= t.top_logprobs[0].logprob - 1e-6);
    assert.ok(t.top_logprobs.reduce((sum, x) => sum + Math.exp(x.logprob), 0) <= 1.001);
  }
  const text = Buffer.concat(c.logprobs.content.map((t) => Buffer.from(t.bytes))).toString('utf8');
  assert.ok(text.startsWith(c.message.content));
});

test('cached_tokens: the second time, for the same user and salt only', async () => {
  const long = { messages: [{ role: 'system', content: 'You are a gardener who knows each plant by its name. '.repeat(12) },
    { role: 'user', content: 'Which one is the tallest?' }], max_tokens: 4, temperature: 0 };
  const ask = async (extra, headers) => (await s.chat({ ...long, ...extra }, headers)).body;
  const first = await ask();
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  const second = await ask();
  assert.ok(second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens / 2, JSON.stringify(second.usage));
  assert.equal(second.choices[0].message.content, first.choices[0].message.content);
  assert.equal((await ask({ cache_salt: 'x' })).usage.prompt_tokens_details.cached_tokens, 0, 'another salt');
  assert.ok((await ask({ cache_salt: 'x' })).usage.prompt_tokens_details.cached_tokens > 0);
  await s.json('POST', '/api/users', { name: 'other', password: 'a long password' });
  const login = await s.json('POST', '/api/login', { name: 'other', password: 'a long password' }, { authorization: null });
  const theirs = await ask({}, { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf });
  assert.equal(theirs.usage.prompt_tokens_details.cached_tokens, 0, 'another user');
});

test('an empty answer budget is refused, one token is one token', async () => {
  const one = await say({ max_tokens: 1 });
  assert.equal(one.finish_reason, 'length');
});
