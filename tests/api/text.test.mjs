// tokenize, detokenize, apply-template, and text completions over the fake engine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const fake = (o) => `fake:${JSON.stringify(o)}`;

test('tokens go there and back', async () => {
  for (const text of ['Hello world', 'Grüße 世界 🦉\n\t x', '']) {
    const t = await s.json('POST', '/tokenize', { prompt: text });
    assert.equal(t.status, 200, t.text);
    assert.equal(t.body.count, t.body.tokens.length);
    const back = await s.json('POST', '/detokenize', { tokens: t.body.tokens });
    assert.equal(back.body.prompt, text);
  }
  const vllm = (await s.json('POST', '/tokenize', { prompt: 'Hello world', add_special_tokens: false, return_token_strs: true })).body;
  assert.equal(vllm.token_strs.join(''), 'Hello world');
  assert.deepEqual((await s.json('POST', '/tokenize', { content: 'Hello world', add_special: true })).body.tokens, vllm.tokens);
  const messages = [{ role: 'user', content: 'Hello' }];
  const chat = await s.json('POST', '/tokenize', { messages });
  assert.equal(chat.body.count, (await s.json('POST', '/apply-template', { messages })).body.count);
  assert.ok((await s.json('POST', '/tokenize', { messages, add_generation_prompt: false })).body.count < chat.body.count);
  const pieces = await s.json('POST', '/tokenize', { content: 'Hello world', with_pieces: true });
  assert.equal(pieces.body.tokens.map((t) => t.piece).join(''), 'Hello world');
});

test('bad ids and missing texts are refused', async () => {
  for (const [path, body, param] of [['/detokenize', { tokens: [-1] }, 'tokens'], ['/detokenize', { tokens: [1e9] }, 'tokens'],
    ['/detokenize', { tokens: ['a'] }, 'tokens'], ['/detokenize', {}, 'tokens'], ['/tokenize', {}, 'prompt'],
    ['/tokenize', { prompt: 5 }, 'prompt'], ['/tokenize', { messages: [] }, 'messages'], ['/apply-template', {}, 'messages']]) {
    const r = await s.json('POST', path, body);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, param);
  }
});

test('the template is applied', async () => {
  const r = await s.json('POST', '/apply-template', { messages: [{ role: 'user', content: 'hi' }] });
  assert.equal(r.body.prompt, '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n');
  const bare = await s.json('POST', '/apply-template', { messages: [{ role: 'user', content: 'hi' }], add_generation_prompt: false });
  assert.equal(bare.body.prompt, '<|im_start|>user\nhi<|im_end|>\n');
});

test('completions: prompts as text, list, ids; n; echo; logprobs', async () => {
  const one = await s.json('POST', '/v1/completions', { prompt: fake({ text: 'abc def' }), logprobs: 2 });
  assert.equal(one.status, 200, one.text);
  const c = one.body.choices[0];
  assert.equal(c.text, 'abc def');
  assert.equal(c.logprobs.tokens.join(''), 'abc def');
  const none = await s.json('POST', '/v1/completions', { prompt: fake({ text: 'abc def' }), logprobs: false });
  assert.equal(none.body.choices?.[0].logprobs, null, none.text);
  assert.equal(c.logprobs.text_offset[0], 0);
  assert.equal(c.logprobs.token_logprobs.length, c.logprobs.tokens.length);
  const many = await s.json('POST', '/v1/completions', { prompt: [fake({ text: 'a' }), fake({ text: 'b' })], n: 2, echo: true });
  assert.deepEqual(many.body.choices.map((x) => x.text), ['a', 'a', 'b', 'b'].map((t) => fake({ text: t }) + t));
  const ids = (await s.json('POST', '/tokenize', { prompt: fake({ text: 'from ids' }) })).body.tokens;
  const byId = await s.json('POST', '/v1/completions', { prompt: ids });
  assert.equal(byId.body.choices[0].text, 'from ids');
  assert.equal(byId.body.usage.prompt_tokens, ids.length);
});

test('completions streamed: text pieces, one finish, usage, [DONE]', async () => {
  const r = await s.stream({ prompt: fake({ text: 'Grüße 🦉 x' }), stream_options: { include_usage: true } }, { where: '/v1/completions' });
  assert.ok(r.done);
  assert.equal(r.chunks.map((c) => c.choices[0]?.text ?? '').join(''), 'Grüße 🦉 x');
  assert.equal(r.chunks.filter((c) => c.choices[0]?.finish_reason).length, 1);
  assert.ok(r.chunks.at(-1).usage.total_tokens > 0);
});

test('completions refuse what they do not do', async () => {
  for (const [param, body] of [['prompt', {}], ['prompt', { prompt: [] }], ['prompt', { prompt: [1.5] }], ['prompt', { prompt: ['a', 5] }],
    ['prompt', { prompt: '' }], ['logprobs', { prompt: 'a', logprobs: 6 }], ['n', { prompt: ['a', 'b'], n: 16 }]]) {
    const r = await s.json('POST', '/v1/completions', body);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, param, r.text);
  }
});

test('a call without arguments is one with none', async () => {
  const prompt = async (call) => (await s.json('POST', '/apply-template', { messages: [{ role: 'user', content: 'hi' },
    { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', ...call } }] }, { role: 'tool', tool_call_id: 'call_1', content: 'x' }] })).body.prompt;
  const given = await prompt({ arguments: '{}' });
  assert.ok(given.includes('"f"'), given);
  for (const call of [{}, { arguments: null }, { arguments: '' }, { arguments: {} }]) assert.equal(await prompt(call), given, JSON.stringify(call));
});
