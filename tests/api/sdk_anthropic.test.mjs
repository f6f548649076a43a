// The real `@anthropic-ai/sdk`, unmodified, against the real engine and, where the answer must be a certain one, a fake.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { load, order, start } from './harness.mjs';

let real, fake, Anthropic;
const client = (s, key = s.key) => new Anthropic({ apiKey: key, baseURL: s.url, maxRetries: 0 });
before(async () => {
  ({ default: Anthropic } = await load('@anthropic-ai/sdk'));
  [real, fake] = await Promise.all([start(), start({ fake: true })]);
});
after(() => Promise.all([real?.stop(), fake?.stop()]));

const ask = { model: 'demo-model', max_tokens: 40, temperature: 0, messages: [{ role: 'user', content: 'What is a river?' }] };
const tools = [{ name: 'add', description: 'Adds', input_schema: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'integer' } } } }];
const call = '<think>\nSum.\n</think>\n\nLet me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>';

test('a message, and the same streamed', async () => {
  const whole = await client(real).messages.create(ask);
  assert.ok(whole.content[0].text.length > 5);
  assert.ok(['end_turn', 'max_tokens'].includes(whole.stop_reason));
  const runner = client(real).messages.stream(ask);
  let text = '';
  runner.on('text', (delta) => { text += delta; });
  const final = await runner.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(final.content.map((b) => b.text), whole.content.map((b) => b.text));
  assert.equal(final.stop_reason, whole.stop_reason);
  const sum = (u) => u.input_tokens + u.cache_read_input_tokens;
  assert.equal(sum(final.usage), sum(whole.usage));
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test('what the prompt cache held is told, at the start of a stream as well', async () => {
  const long = { ...ask, system: 'You answer shortly. '.repeat(40), max_tokens: 4 };
  const first = await client(real).messages.create(long);
  const list = [];
  for await (const event of await client(real).messages.create({ ...long, stream: true })) list.push(event);
  const begun = list[0].message.usage;
  assert.ok(begun.cache_read_input_tokens > 0);
  assert.equal(begun.cache_read_input_tokens + begun.input_tokens, first.usage.cache_read_input_tokens + first.usage.input_tokens);
  assert.equal(list.find((e) => e.type === 'message_delta').usage.cache_read_input_tokens, begun.cache_read_input_tokens);
});

test('a stop sequence is named', async () => {
  const whole = await client(real).messages.create(ask);
  const word = ` ${whole.content[0].text.split(' ')[3]}`;
  const cut = await client(real).messages.create({ ...ask, stop_sequences: [word] });
  assert.deepEqual([cut.stop_reason, cut.stop_sequence], ['stop_sequence', word]);
  assert.ok(!cut.content[0].text.includes(word));
});

test('tokens are counted', async () => {
  const { max_tokens, temperature, ...prompt } = ask;
  const count = await client(real).messages.countTokens(prompt);
  const r = await client(real).messages.create(ask);
  assert.equal(count.input_tokens, r.usage.input_tokens + r.usage.cache_read_input_tokens);
});

test('a tool call streams and the loop ends', async () => {
  const body = { ...ask, max_tokens: 3000, tools, messages: order({ text: call }), thinking: { type: 'enabled', budget_tokens: 2048 } };
  const runner = client(fake).messages.stream(body);
  const final = await runner.finalMessage();
  assert.deepEqual(final.content.map((b) => b.type), ['thinking', 'text', 'tool_use']);
  assert.deepEqual(final.content[2].input, { a: 17, b: 25 });
  assert.equal(final.stop_reason, 'tool_use');
  const next = await client(fake).messages.create({ ...body, messages: [...body.messages, { role: 'assistant', content: final.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: final.content[2].id, content: 'fake:{"text":"42"}' }] }] });
  assert.equal(next.content.at(-1).text, '42');
});

test('a forced tool and a schema are obeyed', async () => {
  const body = { ...ask, max_tokens: 300, tools, messages: [{ role: 'user', content: 'Add 17 and 25.' }] };
  const forced = await client(real).messages.create({ ...body, tool_choice: { type: 'tool', name: 'add' } });
  assert.equal(forced.stop_reason, 'tool_use');
  assert.equal(forced.content.at(-1).name, 'add');
  const schema = { type: 'object', properties: { river: { type: 'boolean' }, size: { enum: ['small', 'large'] } }, required: ['river'], additionalProperties: false };
  const said = await client(real).messages.create({ ...ask, output_config: { format: { type: 'json_schema', schema } } });
  assert.equal(typeof JSON.parse(said.content.at(-1).text).river, 'boolean');
});

test('errors become the SDK\'s classes', async () => {
  const fails = (promise, kind, id = true) => assert.rejects(promise, (e) => e instanceof kind && (!id || /^req_/.test(e.requestID)));
  await fails(client(fake).messages.create({ ...ask, temperature: 9 }), Anthropic.BadRequestError);
  await fails(client(fake).messages.create({ ...ask, model: 'nope' }), Anthropic.NotFoundError);
  await fails(client(fake, 'sk-no').messages.create(ask), Anthropic.AuthenticationError);
  await fails(client(fake).messages.create({ ...ask, messages: order({ refuse: 'busy' }) }), Anthropic.InternalServerError);
  await fails(client(fake).messages.stream({ ...ask, messages: order({ text: 'a b c d', fail_after: 2 }) }).finalMessage(), Anthropic.APIError, false);
});
