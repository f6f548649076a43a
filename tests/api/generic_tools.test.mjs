// Tools with a model whose chat template shows none: the server's setting generic_tool_prompt, in every dialect.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, joined, order, start } from './harness.mjs';

// As SmolLM2 has it: the first message is the system's, and no word of tools.
const template = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`;

let dir, model, s, real;
before(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
  model = path.join(dir, 'no-tools');
  mkdirSync(model);
  for (const f of readdirSync(demo).filter((f) => !/^(chat_template|tokenizer_config)/.test(f))) symlinkSync(path.join(demo, f), path.join(model, f));
  const config = JSON.parse(readFileSync(path.join(demo, 'tokenizer_config.json'), 'utf8'));
  writeFileSync(path.join(model, 'tokenizer_config.json'), JSON.stringify({ ...config, chat_template: template }));
  [s, real] = await Promise.all([start({ fake: true, model }), start({ model })]);
});
after(async () => {
  await Promise.all([s?.stop(), real?.stop()]);
  rmSync(dir, { recursive: true, force: true });
});

const parameters = { type: 'object', properties: { town: { type: 'string', maxLength: 12 } }, required: ['town'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather of a town', parameters } }];
const call = '<tool_call>\n{"name": "get_weather", "arguments": {"town": "Bonn"}}\n</tool_call>';
const anthropic = { 'anthropic-version': '2023-06-01' };

test('the model is told of the tools, and its call comes back as one', async () => {
  const r = await s.chat({ messages: order({ text: `Let me look.\n${call}` }), tools });
  assert.equal(r.status, 200, r.text);
  const m = r.body.choices[0].message;
  assert.equal(r.body.choices[0].finish_reason, 'tool_calls');
  assert.equal(m.content, 'Let me look.');
  assert.deepEqual(m.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]), [['get_weather', { town: 'Bonn' }]]);
  const streamed = joined((await s.stream({ messages: order({ text: call }), tools })).chunks);
  assert.deepEqual(JSON.parse(streamed.calls[0].arguments), { town: 'Bonn' });
  const { prompt } = (await s.json('POST', '/apply-template', { messages: [{ role: 'user', content: 'hi' }], tools })).body;
  assert.match(prompt, /^<\|im_start\|>system\n# Tools\n[^]*<tools>\n\{"type": "function", "function": \{"name": "get_weather"[^]*<\|im_start\|>user\nhi/);
});

test('earlier calls and results are in the prompt', async () => {
  const messages = [{ role: 'user', content: 'Weather?' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{"town": "Bonn"}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'Rain.' }];
  for (const body of [{ messages, tools }, { messages: structuredClone(messages) }]) {
    const { prompt } = (await s.json('POST', '/apply-template', body)).body;
    assert.ok(prompt.endsWith(`<|im_start|>assistant\n${call}<|im_end|>\n<|im_start|>user\n<tool_response>\nRain.\n</tool_response><|im_end|>\n<|im_start|>assistant\n`), prompt);
  }
});

test('responses and messages have calls as well', async () => {
  const r = await s.json('POST', '/v1/responses', { input: order({ text: call })[0].content, tools: [{ type: 'function', ...tools[0].function }] });
  const item = r.body.output?.find((o) => o.type === 'function_call');
  assert.deepEqual([item?.name, JSON.parse(item?.arguments ?? '0')], ['get_weather', { town: 'Bonn' }], r.text);
  const m = await s.json('POST', '/v1/messages', { max_tokens: 90, messages: order({ text: call }),
    tools: [{ name: 'get_weather', input_schema: parameters }] }, anthropic);
  assert.deepEqual(m.body.content?.map((b) => [b.type, b.name, b.input]), [['tool_use', 'get_weather', { town: 'Bonn' }]], m.text);
});

test('a forced call is held to the form by the grammar, with the real engine', async () => {
  for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
    const r = await real.chat({ messages: [{ role: 'user', content: 'How is the weather in Bonn?' }], tools, tool_choice, max_tokens: 200, parallel_tool_calls: false });
    assert.equal(r.status, 200, r.text);
    const calls = r.body.choices[0].message.tool_calls;
    assert.equal(calls?.length, 1, r.text);
    assert.equal(typeof JSON.parse(calls[0].function.arguments).town, 'string');
  }
});

test('a conversation of the page has tools too, and its page is told so', async () => {
  assert.equal((await s.json('GET', '/api/defaults/base')).body.tools, true);
  assert.equal((await s.json('GET', '/api/status')).body.model.tools, true);
  const c = (await s.json('POST', '/api/conversations', { title: 't', settings: { tools } })).body;
  const stream = await (await s.request('POST', `/api/conversations/${c.id}/messages`, { content: order({ text: call })[0].content })).text();
  const done = JSON.parse(/event: done\ndata: (.*)/.exec(stream)[1]).message;
  assert.equal(done.tool_calls?.[0].function.name, 'get_weather', stream);
});

test('switched off, a request with tools is refused and names the field', async () => {
  assert.equal((await s.json('PATCH', '/api/admin/settings', { generic_tool_prompt: false })).status, 200);
  const r = await s.chat({ messages: order({ text: call }), tools });
  assert.deepEqual([r.status, r.body.error?.param], [400, 'tools'], r.text);
  assert.equal((await s.json('GET', '/api/defaults/base')).body.tools, false);
  await s.json('PATCH', '/api/admin/settings', { generic_tool_prompt: null });
  assert.equal((await s.chat({ messages: order({ text: call }), tools })).status, 200);
});
