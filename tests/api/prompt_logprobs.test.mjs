// Log probabilities of a prompt: echo with logprobs as OpenAI had it, prompt_logprobs as vLLM has it. They are those of
// `sluice perplexity`, whatever else runs and whatever the prefix cache knows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, program, start } from './harness.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

const text = Array.from({ length: 60 }, (_, i) => `The town number ${i} lies ${i * 7} miles from the sea, and ${i % 3 ? 'few' : 'many'} people live there.`).join(' ');
const complete = async (body) => { const r = await s.json('POST', '/v1/completions', { temperature: 0, ...body }); assert.equal(r.status, 200, r.text); return r.body; };
const idsOf = async (content) => (await s.json('POST', '/tokenize', { content })).body.tokens;
const sum = (list) => list.reduce((a, b) => a + b, 0);

test('an echoed prompt has its log probabilities, which are those of sluice perplexity', async () => {
  const ids = await idsOf(text), file = path.join(s.dir, 'ids.json');
  assert.ok(ids.length > 600, `${ids.length} tokens: several steps`);
  writeFileSync(file, JSON.stringify(ids));
  const own = JSON.parse(execFileSync(program('sluice'), ['perplexity', '--model', demo, '--ids-file', file, '--backend', 'cpu', '--json']));
  const body = await complete({ prompt: ids, echo: true, logprobs: 1, max_tokens: 0 });
  const l = body.choices[0].logprobs;
  assert.equal(body.choices[0].text, text);
  assert.deepEqual([l.tokens.length, l.token_logprobs.length, l.top_logprobs.length, l.text_offset.length], Array(4).fill(ids.length));
  assert.deepEqual([l.token_logprobs[0], l.top_logprobs[0], l.text_offset[0]], [null, null, 0]);
  assert.equal(l.tokens.join(''), text);
  assert.ok(l.tokens.every((t, i) => text.startsWith(t, l.text_offset[i])));
  const perplexity = Math.exp(-sum(l.token_logprobs.slice(1)) / (ids.length - 1));
  assert.ok(Math.abs(perplexity / own.perplexity - 1) < 1e-6, `${perplexity} and ${own.perplexity}`);
  assert.ok(l.top_logprobs.slice(1).every((top, i) => Math.max(...Object.values(top)) >= l.token_logprobs[i + 1] - 1e-6));
  assert.deepEqual([body.usage.prompt_tokens, body.usage.completion_tokens, body.choices[0].finish_reason], [ids.length, 0, 'length']);
});

test('the prefix cache hides nothing, and what runs beside changes nothing', async () => {
  const ask = (n) => complete({ prompt: text, echo: true, logprobs: n, max_tokens: 1 });
  const first = await ask(1);
  const others = Array.from({ length: 6 }, (_, i) => complete({ prompt: `Number ${i}: ${text.slice(i * 20, i * 20 + 1200)}`, max_tokens: 40 }));
  const again = await Promise.all([ask(1), ask(1), ask(3)]);
  await Promise.all(others);
  for (const b of again) assert.deepEqual(b.choices[0].logprobs.token_logprobs.slice(0, -1), first.choices[0].logprobs.token_logprobs.slice(0, -1));
  assert.equal(first.choices[0].logprobs.tokens.length, first.usage.prompt_tokens + 1); // one token behind the prompt, always
  assert.equal(Object.keys(again[2].choices[0].logprobs.top_logprobs[5]).length <= 3, true);
});

test('several prompts, lists of ids and a stream have the same', async () => {
  const prompts = ['The sea is', 'Two and two are four', 'A'];
  const whole = await complete({ prompt: prompts, echo: true, logprobs: 2, max_tokens: 2 });
  for (const [i, prompt] of prompts.entries()) {
    const alone = await complete({ prompt: await idsOf(prompt), echo: true, logprobs: 2, max_tokens: 2 });
    assert.deepEqual(whole.choices[i].logprobs, alone.choices[0].logprobs);
    assert.equal(whole.choices[i].text, alone.choices[0].text);
    const r = await s.request('POST', '/v1/completions', { prompt, temperature: 0, echo: true, logprobs: 2, max_tokens: 2, stream: true });
    const chunks = (await r.text()).split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)).choices[0]);
    assert.equal(chunks[0].text, prompt);
    for (const k of ['tokens', 'token_logprobs', 'text_offset']) {
      assert.deepEqual(chunks.flatMap((c) => c.logprobs?.[k] ?? []), whole.choices[i].logprobs[k], k);
    }
    assert.equal(chunks[0].logprobs.tokens.length, (await idsOf(prompt)).length);
  }
});

test('prompt_logprobs in completions and chats, as vLLM has it', async () => {
  const prompt = 'The capital of France is Paris';
  const ids = await idsOf(prompt);
  const body = await complete({ prompt, prompt_logprobs: 2, max_tokens: 1 });
  const echoed = await complete({ prompt, echo: true, logprobs: 1, max_tokens: 1 });
  const list = body.choices[0].prompt_logprobs;
  assert.deepEqual([list.length, list[0]], [ids.length, null]);
  ids.slice(1).forEach((id, i) => {
    const own = list[i + 1][id];
    assert.equal(own.logprob, echoed.choices[0].logprobs.token_logprobs[i + 1]);
    assert.ok(own.rank >= 1 && Object.keys(list[i + 1]).length <= 3);
    for (const [other, v] of Object.entries(list[i + 1])) if (Number(other) !== id) assert.ok(v.rank <= 2 && (v.rank > own.rank) === (v.logprob < own.logprob));
  });
  assert.equal(body.choices[0].text.startsWith(prompt), false);
  const chat = await s.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1, prompt_logprobs: 0 });
  assert.equal(chat.body.prompt_logprobs.length, chat.body.usage.prompt_tokens);
  assert.ok(chat.body.prompt_logprobs.slice(1).every((p) => Object.keys(p).length === 1));
});

test('what cannot be is refused by name', async () => {
  for (const [param, change] of [['max_tokens', { max_tokens: 0 }], ['max_tokens', { max_tokens: 0, logprobs: 1 }], ['prompt_logprobs', { prompt_logprobs: 21 }],
    ['prompt_logprobs', { prompt_logprobs: 'x' }], ['prompt_logprobs', { prompt_logprobs: 1, stream: true }], ['echo', { echo: 5 }]]) {
    const r = await s.json('POST', '/v1/completions', { prompt: 'a', ...change });
    assert.deepEqual([r.status, r.body.error.param], [400, param], r.text);
  }
});

test('GET /tokenizer_info says what programs that use the server\'s tokenizer ask', async () => {
  const { body } = await s.json('GET', '/tokenizer_info');
  assert.deepEqual(body.vocab_size > 1000 && body.model_max_length, 4096);
  assert.match(body.chat_template, /messages/);
  const { tokens } = (await s.json('POST', '/tokenize', { content: body.eos_token, parse_special: true })).body;
  assert.equal(tokens.length, 1);
});
