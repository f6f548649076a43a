// The real `ollama` package, unmodified, against the real engine and the demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, load, start } from './harness.mjs';

let s, Ollama, client;
before(async () => {
  s = await start();
  ({ Ollama } = await load('ollama'));
  client = new Ollama({ host: s.url, headers: { Authorization: `Bearer ${s.key}` } });
});
after(() => s?.stop());

const ask = { model: 'demo-model', messages: [{ role: 'user', content: 'What is a river?' }], options: { num_predict: 30, temperature: 0 } };

test('list, show, ps, version', async () => {
  const [model] = (await client.list()).models;
  assert.equal(model.name, 'demo-model:latest');
  assert.match(model.digest, /^[0-9a-f]{16}$/);
  const show = await client.show({ model: model.name });
  assert.equal(show.details.family, show.model_info['general.architecture']);
  assert.ok(show.model_info['general.parameter_count'] > 1e5);
  assert.match(model.details.parameter_size, /^\d+\.\d[KMB]$/);
  assert.ok(model.details.quantization_level.length > 1, JSON.stringify(model));
  const [running] = (await client.ps()).models;
  assert.ok(running.size > 1e6 && running.size_vram === 0 && running.context_length > 0, JSON.stringify(running));
  assert.match((await client.version()).version, /^\d+\.\d+/);
});

test('a chat, whole and by lines, says the same; the figures are those of the other endpoints', async () => {
  const whole = await client.chat(ask);
  assert.ok(whole.message.content.length > 5 && whole.done);
  let text = '', last;
  for await (const part of await client.chat({ ...ask, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.deepEqual([last.done_reason, last.eval_count, last.prompt_eval_count], [whole.done_reason, whole.eval_count, whole.prompt_eval_count]);
  const other = (await s.chat({ messages: ask.messages, temperature: 0, max_tokens: 30 })).body;
  assert.equal(other.choices[0].message.content, text);
  assert.deepEqual([other.usage.prompt_tokens, other.usage.completion_tokens], [whole.prompt_eval_count, whole.eval_count]);
  assert.ok(whole.eval_duration > 0 && whole.total_duration >= whole.eval_duration + whole.prompt_eval_duration);
});

test('a generation is a chat of one message; raw is a completion', async () => {
  const { options, model } = ask;
  const g = await client.generate({ model, prompt: 'What is a river?', options });
  assert.equal(g.response, (await client.chat(ask)).message.content);
  const raw = await client.generate({ model, prompt: 'Once upon a time', raw: true, options });
  const plain = (await s.json('POST', '/v1/completions', { prompt: 'Once upon a time', max_tokens: 30, temperature: 0 })).body;
  assert.equal(raw.response, plain.choices[0].text);
  assert.equal((await client.generate({ model, prompt: '' })).done_reason, 'load');
});

test('a form is kept: json, and a schema', async () => {
  const schema = { type: 'object', properties: { town: { type: 'string', maxLength: 8 }, people: { type: 'integer', minimum: 0, maximum: 99 } }, required: ['town', 'people'], additionalProperties: false };
  const options = { num_predict: 300, temperature: 1, seed: 5 };
  const r = await client.chat({ ...ask, format: schema, options });
  const town = JSON.parse(r.message.content);
  assert.deepEqual([Object.keys(town), typeof town.town, Number.isInteger(town.people)], [['town', 'people'], 'string', true]);
  const g = await client.generate({ model: ask.model, prompt: 'A town.', format: schema, options });
  assert.deepEqual(Object.keys(JSON.parse(g.response)), ['town', 'people']);
  const any = await client.chat({ ...ask, format: 'json', options });
  assert.ok(any.message.content.startsWith('{') || any.done_reason === 'length', any.message.content);
});

test('a pull of what is there, streamed and whole', async () => {
  const seen = [];
  for await (const part of await client.pull({ model: 'demo-model', stream: true })) seen.push(part.status);
  assert.equal(seen.at(-1), 'success');
  assert.equal((await client.pull({ model: 'demo-model' })).status, 'success');
});

test('errors carry the server\'s words and status', async () => {
  const fails = (promise, status, words) => assert.rejects(promise, (e) => e.name === 'ResponseError' && e.status_code === status && words.test(e.message));
  await fails(client.chat({ ...ask, model: 'nope' }), 404, /^model 'nope' not found$/);
  await fails(client.chat({ ...ask, options: { temperature: 9 } }), 400, /^options\.temperature: /);
  await fails(client.embed({ model: 'demo-model', input: 'x' }), 400, /makes embeddings/);
  await fails(client.delete({ model: 'demo-model' }), 501, /admin/);
  await fails(client.create({ model: 'x', from: 'demo-model' }), 501, /admin/);
  await fails(client.chat({ ...ask, messages: [{ role: 'user', content: 'x '.repeat(6000) }] }), 400, /maximum context length/);
  await fails(new Ollama({ host: s.url }).list(), 401, /key/);
});

test('a stream that is aborted frees its slot at once', async () => {
  const before = await s.metric('generation_tokens_total');
  const stream = await client.chat({ ...ask, messages: [{ role: 'user', content: 'Tell a long story.' }], stream: true, options: { num_predict: 1500, temperature: 1 } });
  let n = 0;
  try {
    for await (const part of stream) if (part.message.content && ++n > 3) stream.abort();
  } catch (e) {
    assert.equal(e.name, 'AbortError');
  }
  await eventually(async () => assert.equal(await s.metric('num_requests_running'), 0));
  const grown = await s.metric('generation_tokens_total') - before;
  assert.ok(grown < 1500, `it was made to its end: ${grown}`);
});
