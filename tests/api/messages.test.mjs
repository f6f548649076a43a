// POST /v1/messages and count_tokens: Anthropic's form, whole and streamed, and its errors.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { events } from './answers.mjs';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const ask = (body, headers) => s.json('POST', '/v1/messages', { model: 'demo-model', max_tokens: 400, ...body }, headers);
const say = (o) => ({ messages: order(o) });
const tools = [{ name: 'get_weather', description: 'Weather of a town',
  input_schema: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } }];
const call = (town) => `<tool_call>\n{"name": "get_weather", "arguments": {"town": "${town}", "days": 3}}\n</tool_call>`;

async function stream(body) {
  const r = await s.request('POST', '/v1/messages', { model: 'demo-model', max_tokens: 400, ...body, stream: true });
  assert.equal(r.status, 200);
  const out = [];
  for await (const { event, data } of events(r)) {
    assert.equal(event, data.type, 'the event has its name twice');
    out.push(data);
  }
  return out;
}

test('a whole message', async () => {
  const r = await ask(say({ text: 'Hello there.' }));
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.id, /^msg_[0-9a-f]{24}$/);
  assert.equal(r.headers.get('request-id'), r.headers.get('x-request-id'));
  assert.deepEqual([r.body.type, r.body.role, r.body.model], ['message', 'assistant', 'demo-model']);
  assert.deepEqual(r.body.content, [{ type: 'text', text: 'Hello there.', citations: null }]);
  assert.deepEqual([r.body.stop_reason, r.body.stop_sequence], ['end_turn', null]);
  assert.ok(r.body.usage.input_tokens > 0 && r.body.usage.output_tokens > 0);
});

test('max_tokens ends with max_tokens', async () => {
  const r = await ask({ ...say({ text: 'one two three four' }), max_tokens: 2 });
  assert.equal(r.body.stop_reason, 'max_tokens');
  assert.equal(r.body.usage.output_tokens, 2);
});

test('a system message may stand between the others', async () => {
  const r = await ask({ messages: [{ role: 'user', content: 'hi' }, { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
    ...order({ text: 'Yes.' })] });
  assert.equal(r.body.content?.[0].text, 'Yes.', r.text);
});

test('thinking and text are blocks; thinking is signed', async () => {
  const r = await ask({ ...say({ text: '<think>\nA greeting.\n</think>\n\nHello!' }), max_tokens: 3000,
    thinking: { type: 'enabled', budget_tokens: 2000 } });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.body.content.map((b) => b.type), ['thinking', 'text']);
  assert.equal(r.body.content[0].thinking.trim(), 'A greeting.');
  assert.match(r.body.content[0].signature, /^[0-9a-f]{16}$/);
  assert.equal(r.body.content[1].text, 'Hello!');
});

test('a tool loop, with the blocks sent back as they came', async () => {
  const first = await ask({ ...say({ text: `Let me look.\n${call('Köln')}\n${call('Bonn')}` }), tools });
  assert.equal(first.body.stop_reason, 'tool_use', first.text);
  assert.deepEqual(first.body.content.map((b) => b.type), ['text', 'tool_use', 'tool_use']);
  const [, a, b] = first.body.content;
  assert.match(a.id, /^toolu_[0-9A-Za-z]{24}$/);
  assert.deepEqual([a.name, a.input], ['get_weather', { town: 'Köln', days: 3 }]);
  assert.equal(b.input.town, 'Bonn');
  const second = await ask({ tools, messages: [...order({ text: 'x' }), { role: 'assistant', content: first.body.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: a.id, content: 'rain' },
      { type: 'tool_result', tool_use_id: b.id, is_error: true, content: [{ type: 'text', text: 'no such town' }] },
      { type: 'text', text: 'fake:{"text":"It rains."}' }] }] });
  assert.equal(second.status, 200, second.text);
  assert.equal(second.body.content[0].text, 'It rains.');
});

test('disable_parallel_tool_use ends after the first call', async () => {
  const r = await ask({ ...say({ text: `${call('A')}\n${call('B')}`, token_ms: 1 }), tools,
    tool_choice: { type: 'auto', disable_parallel_tool_use: true } });
  assert.equal(r.body.content.length, 1, r.text);
  assert.equal(r.body.stop_reason, 'tool_use');
});

test('tool_choice none: the text stays text', async () => {
  const r = await ask({ ...say({ text: call('A') }), tools, tool_choice: { type: 'none' } });
  assert.equal(r.body.content[0].type, 'text');
  assert.ok(r.body.content[0].text.includes('get_weather'));
});

test('the events come in the documented order', async () => {
  const list = await stream({ ...say({ text: `<think>\nHm.\n</think>\n\nGrüße 世界\n${call('Köln')}` }), tools, max_tokens: 3000,
    thinking: { type: 'adaptive' } });
  const names = list.map((e) => e.type).filter((n, i, all) => n !== 'ping' && n !== all[i - 1]);
  const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
  assert.deepEqual(names, ['message_start', ...block, ...block, ...block, 'message_delta', 'message_stop']);
  assert.ok(list.some((e) => e.type === 'ping'));
  const start = list[0].message;
  assert.deepEqual([start.content, start.stop_reason, start.role], [[], null, 'assistant']);
  const starts = list.filter((e) => e.type === 'content_block_start');
  assert.deepEqual(starts.map((e) => [e.index, e.content_block.type]), [[0, 'thinking'], [1, 'text'], [2, 'tool_use']]);
  assert.deepEqual(starts[2].content_block.input, {});
  const join = (i, type, name) => list.filter((e) => e.index === i && e.delta?.type === type).map((e) => e.delta[name]).join('');
  assert.equal(join(0, 'thinking_delta', 'thinking').trim(), 'Hm.');
  assert.match(join(0, 'signature_delta', 'signature'), /^[0-9a-f]{16}$/);
  assert.equal(join(1, 'text_delta', 'text').trim(), 'Grüße 世界');
  assert.deepEqual(JSON.parse(join(2, 'input_json_delta', 'partial_json')), { town: 'Köln', days: 3 });
  const last = list.at(-2);
  assert.deepEqual(last.delta, { stop_reason: 'tool_use', stop_sequence: null });
  assert.equal(last.usage.input_tokens, start.usage.input_tokens);
  assert.ok(last.usage.output_tokens > 0);
});

test('an engine that fails ends the stream with an error event, a whole reply with its status', async () => {
  const list = await stream(say({ text: 'one two three four', fail_after: 2 }));
  assert.equal(list.at(-1).type, 'error');
  assert.equal(list.at(-1).error.type, 'overloaded_error');
  assert.ok(!list.some((e) => e.type === 'message_stop'));
  const whole = await ask(say({ text: 'one two three four', fail_after: 2 }));
  assert.equal(whole.status, 503);
  assert.equal(whole.body.type, 'error');
});

test('count_tokens counts what the message then costs', async () => {
  const body = { model: 'demo-model', system: 'Be brief.', tools, ...say({ text: 'x' }) };
  const count = await s.json('POST', '/v1/messages/count_tokens', body);
  assert.equal(count.status, 200, count.text);
  const r = await ask(body);
  assert.equal(count.body.input_tokens, r.body.usage.input_tokens);
  const more = await s.json('POST', '/v1/messages/count_tokens', { ...body, max_tokens: 5 });
  assert.equal(more.body.input_tokens, count.body.input_tokens, more.text);
});

const user = { role: 'user', content: 'hi' };
const cases = [
  ['thread', { thread: { id: 'x' } }],
  ['tools[0].type', { tools: [{ type: 5, name: 'f', input_schema: { type: 'object' } }] }],
  ['thinking.display', { thinking: { type: 'adaptive', display: 5 } }],
  ['messages[0].content[0].source.data', { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'base64' } }] }] }],
  ['messages[0].content[0]', { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'base64', data: '%%%' } }] }] }],
  ['max_tokens', { max_tokens: undefined }],
  ['max_tokens', { max_tokens: 0 }],
  ['max_tokens', { max_tokens: 'many' }],
  ['messages', { messages: undefined }],
  ['messages', { messages: [] }],
  ['messages', { messages: 'hi' }],
  ['messages', { messages: [user, { role: 'assistant', content: 'I beg' }] }],
  ['messages[0].role', { messages: [{ role: 'tool', content: 'x' }] }],
  ['messages[0].content', { messages: [{ role: 'user' }] }],
  ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }],
  ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text' }] }] }],
  ['messages[0].content[0].tool_use_id', { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] }],
  ['messages[1].content[0]', { messages: [user, { role: 'assistant', content: [{ type: 'tool_use', id: 'a' }] }, user] }],
  ['system', { system: 5 }],
  ['temperature', { temperature: 3 }],
  ['top_k', { top_k: 1.5 }],
  ['stop_sequences', { stop_sequences: 'x' }],
  ['stop_sequences', { stop_sequences: [''] }],
  ['stream', { stream: 1 }],
  ['tools', { tools: {} }],
  ['tools[0].input_schema', { tools: [{ name: 'f' }] }],
  ['tools[0].input_schema', { tools: [{ name: 'f', input_schema: 5 }] }],
  ['tools[0].name', { tools: [{ name: 'a b', input_schema: {} }] }],
  ['output_config.format.schema', { output_config: { format: { type: 'json_schema', schema: { type: 'nothing' } } } }],
  ['output_config.format.type', { output_config: { format: { type: 'xml' } } }],
  ['tool_choice', { tools, tool_choice: { type: 'tool', name: 'nobody' } }],
  ['tool_choice', { tools, tool_choice: 'auto' }],
  ['tool_choice', { tools, tool_choice: { type: 'always' } }],
  ['thinking.type', { thinking: { type: 'deep' } }],
  ['output_config.effort', { output_config: { effort: 'huge' } }],
];
for (const [field, change] of cases) {
  test(`400 ${field}: ${JSON.stringify(change).slice(0, 70)}`, async () => {
    const r = await ask({ messages: [user], ...change });
    assert.equal(r.status, 400, r.text);
    assert.deepEqual(Object.keys(r.body).sort(), ['error', 'request_id', 'type']);
    assert.equal(r.body.error.type, 'invalid_request_error');
    assert.ok(r.body.error.message.startsWith(`${field}: `), r.text);
  });
}

test('every failure has Anthropic\'s shape', async () => {
  const shape = (r, status, type) => {
    assert.equal(r.status, status, r.text);
    assert.equal(r.body.type, 'error', r.text);
    assert.equal(r.body.error.type, type);
    assert.equal(r.body.request_id, r.headers.get('request-id'));
  };
  shape(await ask({ messages: [user] }, { authorization: null, 'x-api-key': 'sk-no' }), 401, 'authentication_error');
  shape(await ask({ messages: [user], model: 'claude' }), 404, 'not_found_error');
  shape(await s.json('GET', '/v1/messages'), 405, 'invalid_request_error');
  shape(await s.json('POST', '/v1/messages/nothing', {}), 404, 'not_found_error');
  shape(await s.json('POST', '/v1/messages', '{', { 'content-type': 'application/json' }), 400, 'invalid_request_error');
  shape(await s.json('POST', '/v1/messages', '{}', { 'content-type': 'text/plain' }), 415, 'invalid_request_error');
  shape(await ask({ messages: [{ role: 'user', content: 'x'.repeat(17 << 20) }] }), 413, 'request_too_large');
  shape(await s.json('POST', '/v1/messages', Buffer.alloc(33 << 20, 'x'), { 'content-type': 'application/json' }), 413, 'request_too_large');
  shape(await s.json('POST', '/v1/messages/count_tokens', Buffer.alloc(33 << 20, 'x'), { 'content-type': 'application/json' }), 413, 'request_too_large');
  shape(await ask({ messages: [user] }, { 'anthropic-version': '2023-01-01' }), 400, 'invalid_request_error');
  shape(await ask(say({ refuse: 'busy' })), 503, 'overloaded_error');
  const limit = await ask(say({ refuse: 'limit' }));
  shape(limit, 400, 'invalid_request_error');
  assert.match(limit.body.error.message, /^messages: /);
  const good = await ask(say({ text: 'x' }), { authorization: null, 'x-api-key': s.key, 'anthropic-version': '2023-06-01' });
  assert.equal(good.status, 200, good.text);
});

test('what Claude Code sends is taken, and what has no effect is named', async () => {
  const r = await s.json('POST', '/v1/messages?beta=true', { model: 'demo-model', max_tokens: 400, ...say({ text: 'ok' }),
    thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'high' }, context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    metadata: { user_id: 'x' }, tools: [...tools.map((t) => ({ ...t, input_examples: [{ town: 'Kiel' }], defer_loading: true, cache_control: { type: 'ephemeral', ttl: '1h' } })),
      { type: 'web_search_20250305', name: 'web_search', max_uses: 5 }] }, { authorization: `Bearer ${s.key}`, 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14' });
  assert.equal(r.status, 200, r.text);
  const named = r.body.warnings.map((w) => w.field);
  for (const field of ['context_management', 'metadata', 'tools[].input_examples', 'tools[].defer_loading', 'tools[1] (web_search_20250305)', 'thinking.display']) assert.ok(named.includes(field), `${field}: ${named}`);
});

test('a thread is refused with the details that the SDK goes on by', async () => {
  const r = await ask({ ...say({ text: 'x' }), thread: { type: 'new' } });
  assert.equal(r.status, 400);
  assert.deepEqual(r.body.error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] });
});

test('blocks that a text model cannot read become text, or are named', async () => {
  const base64 = (text) => Buffer.from(text).toString('base64');
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const r = await ask({ system: [{ type: 'text', text: 'SYSTEM' }, image], messages: [
    { role: 'user', content: [image] },
    { role: 'assistant', content: [{ type: 'redacted_thinking', data: 'x' }, { type: 'text', text: 'I look.' }, { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
      { type: 'web_search_tool_result', tool_use_id: 's', content: [{ type: 'web_search_result', title: 'TITLE-1', url: 'http://example.org/1', encrypted_content: 'x' }] },
      { type: 'tool_use', id: 'a', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [image, { type: 'text', text: 'RESULT' }, { type: 'tool_reference', tool_name: 'TOOL-REF' },
      { type: 'search_result', source: 'http://example.org/2', title: 'TITLE-2', content: [{ type: 'text', text: 'PASSAGE' }] }] },
    { type: 'document', title: 'notes.txt', context: 'CONTEXT', source: { type: 'text', media_type: 'text/plain', data: 'DOC-TEXT' } },
    { type: 'document', source: { type: 'base64', media_type: 'text/plain', data: base64('DOC-BASE64 of some length, so that it is text') } },
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'DOC-CONTENT' }] } },
    { type: 'document', source: { type: 'url', url: 'http://example.org/x.pdf' } },
    { type: 'text', text: order({ say_prompt: true })[0].content }] }] });
  assert.equal(r.status, 200, r.text);
  const prompt = r.body.content.map((b) => b.text).join('');
  assert.equal(prompt.split('[image: this model reads text only]').length, 4, prompt);
  for (const word of ['SYSTEM', 'TITLE-1', 'http://example.org/1', 'RESULT', 'TOOL-REF', 'TITLE-2', 'PASSAGE', 'CONTEXT', 'notes.txt', 'DOC-TEXT', 'DOC-BASE64', 'DOC-CONTENT',
    '[document http://example.org/x.pdf: not read]']) assert.ok(prompt.includes(word), `${word} is not in ${prompt}`);
  const named = r.body.warnings.map((w) => w.field);
  for (const field of ['system[1]', 'messages[0].content[0]', 'messages[1].content[0]', 'messages[1].content[2]', 'messages[2].content[0].content[0]', 'messages[2].content[4]']) {
    assert.ok(named.includes(field), `${field}: ${named}`);
  }
});

test('images in a chat become text where there is a question beside them', async () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
  const r = await s.chat({ messages: [{ role: 'user', content: [image] }, { role: 'assistant', content: 'a picture' },
    { role: 'user', content: [image, { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }, { type: 'text', text: order({ say_prompt: true })[0].content }] }] });
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.choices[0].message.content.split('[image: this model reads text only]').length, 3);
  assert.ok(r.body.choices[0].message.content.includes('[recording: this model reads text only]'));
  assert.deepEqual(r.headers.get('x-sluice-ignored'), 'messages[0].content[0], messages[2].content[0], messages[2].content[1]');
});

test("a tool's picture, as its result or behind it, becomes text: the question stands before it", async () => {
  const args = { name: 'read', arguments: '{}' }, asked = order({ say_prompt: true }), url = 'data:image/png;base64,AAAA', image = { type: 'image_url', image_url: { url } };
  const called = [...asked, { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: args }] }];
  const tool = (content) => ({ role: 'tool', tool_call_id: 'c', content }), user = (part) => ({ role: 'user', content: [part] });
  const item = { type: 'function_call', call_id: 'c', ...args }, output = (list) => ({ type: 'function_call_output', call_id: 'c', output: list });
  const used = [...asked, { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'read', input: {} }] }];
  const block = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }, result = { type: 'tool_result', tool_use_id: 'c', content: 'read' };
  for (const [where, body] of [
    ['chat/completions', { messages: [...called, tool([image])] }], ['chat/completions', { messages: [...called, tool('read'), user(image)] }],
    ['responses', { input: [...asked, item, output([{ type: 'input_image', image_url: url }])] }], ['responses', { input: [...asked, item, output('read'), user({ type: 'input_image', image_url: url })] }],
    ['messages', { max_tokens: 9999, messages: [...used, user({ ...result, content: [block] })] }], ['messages', { max_tokens: 9999, messages: [...used, user(result), user(block)] }],
  ]) {
    const r = await s.json('POST', `/v1/${where}`, { model: 'demo-model', ...body });
    assert.equal(r.status, 200, `${where}: ${r.text}`);
    assert.ok(r.text.includes('[image: this model reads text only]'), `${where}: ${r.text}`);
  }
  for (const [where, body] of [['chat/completions', { messages: [...asked, { role: 'assistant', content: 'ok' }, user(image)] }],
    ['responses', { input: [...asked, user({ type: 'input_image', image_url: url })] }], ['messages', { max_tokens: 9, messages: [user(block)] }]]) {
    const r = await s.json('POST', `/v1/${where}`, { model: 'demo-model', ...body });
    assert.equal(r.status, 400, `${where}: ${r.text}`);
  }
});
