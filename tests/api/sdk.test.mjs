// The real `openai` SDK, unmodified, against the real engine and the demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, load, start } from './harness.mjs';

let s, OpenAI, client;
before(async () => {
  s = await start();
  ({ default: OpenAI } = await load('openai'));
  client = new OpenAI({ apiKey: s.key, baseURL: `${s.url}/v1`, maxRetries: 0 });
});
after(() => s?.stop());

const ask = { model: 'demo-model', messages: [{ role: 'user', content: 'What is a river?' }], max_tokens: 40, temperature: 0 };

test('a completion', async () => {
  const r = await client.chat.completions.create(ask);
  assert.ok(r.choices[0].message.content.length > 5);
  assert.ok(['stop', 'length'].includes(r.choices[0].finish_reason));
  assert.ok(r.usage.prompt_tokens > 5);
});

test('a stream says the same', async () => {
  const whole = await client.chat.completions.create(ask);
  let text = '', usage;
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? '';
    if (chunk.usage) usage = chunk.usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('the stream helper ends with a final completion', async () => {
  const runner = client.chat.completions.stream(ask);
  const parts = [];
  runner.on('content', (delta) => parts.push(delta));
  const final = await runner.finalChatCompletion();
  assert.equal(parts.join(''), final.choices[0].message.content);
});

test('a stop string, n, seed and logprobs', async () => {
  const whole = await client.chat.completions.create(ask);
  const word = whole.choices[0].message.content.split(' ')[3];
  const cut = await client.chat.completions.create({ ...ask, stop: [` ${word}`] });
  assert.ok(!cut.choices[0].message.content.includes(` ${word}`));
  assert.equal(cut.choices[0].finish_reason, 'stop');
  const warm = { ...ask, temperature: 1, seed: 11, n: 2, logprobs: true, top_logprobs: 3 };
  const [a, b] = [await client.chat.completions.create(warm), await client.chat.completions.create(warm)];
  assert.deepEqual(a.choices.map((c) => c.message.content), b.choices.map((c) => c.message.content), 'the same seed, the same answers');
  assert.equal(a.choices.length, 2);
  assert.equal(a.choices[0].logprobs.content[0].top_logprobs.length, 3);
});

test('models', async () => {
  const list = await client.models.list();
  assert.deepEqual(list.data.map((m) => m.id), ['demo-model']);
  const m = await client.models.retrieve('demo-model');
  assert.equal(m.object, 'model');
  assert.ok(m.sluice.context > 0);
});

test('errors become the SDK\'s classes', async () => {
  await assert.rejects(client.chat.completions.create({ ...ask, temperature: 9 }), (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature');
  await assert.rejects(client.chat.completions.create({ ...ask, model: 'nope' }), (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
  const stranger = new OpenAI({ apiKey: 'sk-no', baseURL: `${s.url}/v1`, maxRetries: 0 });
  await assert.rejects(stranger.models.list(), (e) => e instanceof OpenAI.AuthenticationError && /^req_/.test(e.requestID));
  await assert.rejects(client.chat.completions.create({ ...ask, messages: [{ role: 'user', content: 'x '.repeat(6000) }] }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === 'context_length_exceeded' && e.param === 'messages');
});

test('a stream that is aborted frees its slot at once', async () => {
  const before = await s.metric('generation_tokens_total');
  const stream = await client.chat.completions.create({ ...ask, messages: [{ role: 'user', content: 'Tell a long story.' }],
    max_tokens: 2000, stream: true, ignore_eos: true });
  let n = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content && ++n > 3) break;
  await eventually(async () => assert.equal(await s.metric('num_requests_running'), 0));
  const grown = await s.metric('generation_tokens_total') - before;
  assert.ok(grown < 2000, `it was made to its end: ${grown}`);
});

test('text completions', async () => {
  const r = await client.completions.create({ model: 'demo-model', prompt: 'The river', max_tokens: 8, temperature: 0, echo: true });
  assert.ok(r.choices[0].text.startsWith('The river') && r.choices[0].text.length > 9);
});

test('responses: whole, streamed, continued, looked up and forgotten', async () => {
  const ask = { model: 'demo-model', input: 'What is a river?', max_output_tokens: 40, temperature: 0 };
  const whole = await client.responses.create(ask);
  assert.ok(whole.output_text.length > 5);
  const streamed = await client.responses.stream(ask).finalResponse();
  assert.equal(streamed.output_text, whole.output_text);
  assert.deepEqual(streamed.usage.output_tokens, whole.usage.output_tokens);
  const next = await client.responses.create({ ...ask, input: 'And a lake?', previous_response_id: whole.id });
  assert.ok(next.usage.input_tokens > whole.usage.input_tokens);
  assert.ok(next.usage.input_tokens_details.cached_tokens > 0, 'the first turn is in the prompt cache');
  assert.equal((await client.responses.retrieve(next.id)).output_text, next.output_text);
  const items = [];
  for await (const item of client.responses.inputItems.list(next.id, { order: 'asc', limit: 2 })) items.push(item.role);
  assert.deepEqual(items, ['user', 'assistant', 'user']);
  await client.responses.delete(next.id);
  await assert.rejects(client.responses.retrieve(next.id), OpenAI.NotFoundError);
  await assert.rejects(client.responses.create({ ...ask, previous_response_id: next.id }), (e) => e.code === 'previous_response_not_found');
  assert.equal((await client.responses.inputTokens.count({ model: ask.model, input: ask.input })).input_tokens, whole.usage.input_tokens);
});

test('responses obey a schema and a forced tool', async () => {
  const schema = { type: 'object', properties: { river: { type: 'boolean' } }, required: ['river'], additionalProperties: false };
  const ask = { model: 'demo-model', input: 'Is the Nile a river?', max_output_tokens: 300 };
  const said = await client.responses.parse({ ...ask, text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } } });
  assert.equal(typeof said.output_parsed.river, 'boolean');
  const tools = [{ type: 'function', name: 'look', parameters: schema, strict: true }];
  for (const tool_choice of ['required', { type: 'function', name: 'look' }, { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'look' }] }]) {
    const called = await client.responses.create({ ...ask, tools, tool_choice });
    const call = called.output.find((i) => i.type === 'function_call');
    assert.equal(typeof JSON.parse(call.arguments).river, 'boolean');
  }
});
