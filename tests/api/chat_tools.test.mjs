// Tool calls and reasoning, as the demo model's template family writes them, through the whole way.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { joined, order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather of a town',
  parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } } }];
const call = (town) => `<tool_call>\n{"name": "get_weather", "arguments": {"town": "${town}", "note": "a \\"b\\" é"}}\n</tool_call>`;
const said = { town: 'Köln', note: 'a "b" é' };

test('a call comes back whole', async () => {
  const r = await s.chat({ messages: order({ text: call('Köln') }), tools });
  const m = r.body.choices[0].message;
  assert.equal(r.body.choices[0].finish_reason, 'tool_calls', r.text);
  assert.equal(m.content, null);
  assert.equal(m.tool_calls.length, 1);
  assert.match(m.tool_calls[0].id, /^call_[0-9A-Za-z]{24}$/);
  assert.equal(m.tool_calls[0].type, 'function');
  assert.equal(m.tool_calls[0].function.name, 'get_weather');
  assert.deepEqual(JSON.parse(m.tool_calls[0].function.arguments), said);
});

test('streamed: index, id and name first, then the arguments', async () => {
  const r = await s.stream({ messages: order({ text: `Let me look.\n${call('Köln')}\n${call('Bonn')}` }), tools });
  const deltas = r.chunks.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
  for (const i of [0, 1]) {
    const mine = deltas.filter((d) => d.index === i);
    assert.match(mine[0].id, /^call_/);
    assert.equal(mine[0].type, 'function');
    assert.equal(mine[0].function.name, 'get_weather');
    assert.ok(mine.length >= 2, 'the arguments follow');
    assert.ok(mine.slice(1).every((d) => d.id === undefined && d.function.name === undefined));
  }
  const j = joined(r.chunks);
  assert.deepEqual(JSON.parse(j.calls[0].arguments), said);
  assert.equal(JSON.parse(j.calls[1].arguments).town, 'Bonn');
  assert.notEqual(j.calls[0].id, j.calls[1].id);
  assert.equal(j.content.trim(), 'Let me look.');
  assert.deepEqual(j.finish, ['tool_calls']);
});

test('parallel_tool_calls: false ends after the first', async () => {
  const text = `${call('Köln')}\n${call('Bonn')}\nand more`;
  const r = await s.chat({ messages: order({ text, token_ms: 1 }), tools, parallel_tool_calls: false });
  assert.equal(r.body.choices[0].message.tool_calls.length, 1);
  assert.equal(r.body.choices[0].finish_reason, 'tool_calls');
});

test('a named function is called once, whatever the model goes on with', async () => {
  const text = `${call('Köln')}\n${call('Bonn')}`;
  const tool_choice = { type: 'function', function: { name: 'get_weather' } };
  assert.equal((await s.chat({ messages: order({ text }), tools, tool_choice: 'required' })).body.choices[0].message.tool_calls.length, 2);
  const whole = await s.chat({ messages: order({ text, token_ms: 1 }), tools, tool_choice });
  assert.equal(whole.body.choices[0].message.tool_calls.length, 1, whole.text);
  assert.equal(joined((await s.stream({ messages: order({ text, token_ms: 1 }), tools, tool_choice })).chunks).calls.length, 1);
});

test('tool_choice auto asks for nothing, so that it needs no tools; required and a function do', async () => {
  const messages = order({ text: call('Köln') });
  for (const more of [{}, { tools: [] }]) {
    const r = await s.chat({ messages, tool_choice: 'auto', ...more });
    assert.ok(r.body.choices?.[0].message.content.includes('get_weather'), r.text);
  }
  const input = messages[0].content;
  assert.equal((await s.json('POST', '/v1/responses', { input, tool_choice: 'auto' })).body.status, 'completed');
  const anthropic = { max_tokens: 50, messages, tool_choice: { type: 'auto' } };
  assert.equal((await s.json('POST', '/v1/messages', anthropic, { 'anthropic-version': '2023-06-01' })).body.content[0].type, 'text');
  for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
    const r = await s.chat({ messages, tool_choice });
    assert.deepEqual([r.status, r.body.error?.param], [400, 'tool_choice'], r.text);
  }
});

test('tool_choice none: the text stays text', async () => {
  const r = await s.chat({ messages: order({ text: call('Köln') }), tools, tool_choice: 'none' });
  assert.equal(r.body.choices[0].message.tool_calls, undefined);
  assert.ok(r.body.choices[0].message.content.includes('get_weather'));
  assert.equal(r.body.choices[0].finish_reason, 'stop');
});

const strict = [{ type: 'function', function: { ...tools[0].function, strict: true,
  parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'], additionalProperties: false } } }];

test('a malformed call comes back as content, whole and streamed: nothing is lost', async () => {
  for (const text of ['<tool_call>\n{"name": "get_weather", "town" \n</tool_call> end',
    '<tool_call>\n{"name": "get_weather", "arguments": {"town": \n</tool_call> end']) {
    const whole = await s.chat({ messages: order({ text }), tools });
    assert.equal(whole.body.choices[0].message.tool_calls, undefined, whole.text);
    assert.equal(whole.body.choices[0].message.content, text);
    assert.equal(joined((await s.stream({ messages: order({ text }), tools })).chunks).content, text);
  }
});

test('arguments follow the name; in pieces while they are written where a grammar holds the call to its form', async () => {
  const town = 'Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch and its neighbours';
  for (const [more, least] of [[{ tools }, 2], [{ tools: strict }, 8], [{ tools, tool_choice: 'required' }, 8]]) {
    const r = await s.stream({ messages: order({ text: call(town) }), ...more });
    const pieces = r.chunks.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
    assert.equal(pieces[0].function.name, 'get_weather');
    assert.equal(pieces[0].function.arguments, '');
    assert.ok(pieces.length >= least, `${pieces.length} pieces`);
    assert.equal(JSON.parse(joined(r.chunks).calls[0].arguments).town, town);
  }
});

test('max_tokens may cut a call: length, and what there is of it', async () => {
  const text = call('Köln');
  const free = await s.chat({ messages: order({ text }), tools, max_tokens: 18 });
  assert.equal(free.body.choices[0].finish_reason, 'length');
  assert.ok(text.startsWith(free.body.choices[0].message.content));
  const held = await s.chat({ messages: order({ text }), tools: strict, max_tokens: 18 });
  assert.equal(held.body.choices[0].finish_reason, 'length');
  assert.ok(text.includes(held.body.choices[0].message.tool_calls[0].function.arguments));
});

test('reasoning is apart from content, streamed and whole', async () => {
  const text = '<think>\nThe user greets.\n</think>\n\nHello!';
  const whole = await s.chat({ messages: order({ text }) });
  assert.equal(whole.body.choices[0].message.content, 'Hello!');
  assert.equal(whole.body.choices[0].message.reasoning_content.trim(), 'The user greets.');
  assert.ok(whole.body.usage.completion_tokens_details.reasoning_tokens > 0);
  const r = await s.stream({ messages: order({ text }) });
  const j = joined(r.chunks);
  assert.equal(j.content, whole.body.choices[0].message.content);
  assert.equal(j.reasoning, whole.body.choices[0].message.reasoning_content);
});

test('a tool loop: the result goes back in', async () => {
  const first = await s.chat({ messages: order({ text: call('Köln') }), tools });
  const m = first.body.choices[0].message;
  const r = await s.chat({ tools, messages: [...order({ text: call('Köln') }), m,
    { role: 'tool', tool_call_id: m.tool_calls[0].id, content: 'fake:{"text":"It rains."}' }] });
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.choices[0].message.content, 'It rains.');
});

test('enable_thinking and chat_template_kwargs reach the template', async () => {
  const base = { messages: [{ role: 'user', content: 'hi' }] };
  const on = await s.json('POST', '/apply-template', base);
  const off = await s.json('POST', '/apply-template', { ...base, chat_template_kwargs: { enable_thinking: false } });
  assert.notEqual(on.body.prompt, off.body.prompt);
  for (const extra of [{ enable_thinking: false }, { reasoning_effort: 'none' }, { chat_template_kwargs: { enable_thinking: false } }]) {
    const r = await s.chat({ messages: order({ text: 'x' }), ...extra });
    assert.equal(r.status, 200, r.text);
    const plain = await s.chat({ messages: order({ text: 'x' }) });
    assert.ok(r.body.usage.prompt_tokens > plain.body.usage.prompt_tokens, 'the empty think block is in the prompt');
  }
});
