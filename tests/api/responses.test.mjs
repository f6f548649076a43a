// POST /v1/responses: items in and out, whole and streamed; what is kept, and for whom.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { events } from './answers.mjs';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const ask = (body, headers) => s.json('POST', '/v1/responses', { model: 'demo-model', ...body }, headers);
const say = (o) => order(o)[0].content;
const tools = [{ type: 'function', name: 'get_weather', description: 'Weather of a town', strict: false,
  parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } }];
const call = (town) => `<tool_call>\n{"name": "get_weather", "arguments": {"town": "${town}"}}\n</tool_call>`;

async function stream(body) {
  const r = await s.request('POST', '/v1/responses', { ...body, stream: true });
  assert.equal(r.status, 200);
  const out = [];
  for await (const { event, data } of events(r)) {
    assert.equal(event, data.type, 'the event has its name twice');
    assert.equal(data.sequence_number, out.length, 'events are numbered');
    out.push(data);
  }
  return out;
}

test('a whole response repeats what was asked', async () => {
  const r = await ask({ input: say({ text: 'Hello there.' }), instructions: 'Be brief.', max_output_tokens: 50, temperature: 0.5,
    metadata: { a: 'b' }, user: 'u1' });
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.id, /^resp_[0-9a-f]{24}$/);
  assert.deepEqual([r.body.object, r.body.status, r.body.model, r.body.error, r.body.incomplete_details],
    ['response', 'completed', 'demo-model', null, null]);
  assert.equal(r.body.output.length, 1);
  const m = r.body.output[0];
  assert.match(m.id, /^msg_/);
  assert.deepEqual([m.type, m.role, m.status], ['message', 'assistant', 'completed']);
  assert.deepEqual(m.content, [{ type: 'output_text', text: 'Hello there.', annotations: [], logprobs: [] }]);
  assert.deepEqual([r.body.instructions, r.body.max_output_tokens, r.body.temperature, r.body.metadata, r.body.user, r.body.store],
    ['Be brief.', 50, 0.5, { a: 'b' }, 'u1', true]);
  const u = r.body.usage;
  assert.equal(u.total_tokens, u.input_tokens + u.output_tokens);
  assert.ok(r.body.completed_at >= r.body.created_at);
});

test('max_output_tokens ends incomplete', async () => {
  const r = await ask({ input: say({ text: 'one two three four' }), max_output_tokens: 2 });
  assert.equal(r.body.status, 'incomplete');
  assert.deepEqual(r.body.incomplete_details, { reason: 'max_output_tokens' });
  assert.equal(r.body.output.at(-1).status, 'incomplete');
});

test('reasoning is an item of its own', async () => {
  const r = await ask({ input: say({ text: '<think>\nA greeting.\n</think>\n\nHello!' }), include: ['reasoning.encrypted_content'],
    reasoning: { summary: 'auto' } });
  assert.deepEqual(r.body.output.map((i) => i.type), ['reasoning', 'message'], r.text);
  assert.equal(r.body.output[0].content[0].text.trim(), 'A greeting.');
  assert.deepEqual(r.body.output[0].summary, [{ type: 'summary_text', text: r.body.output[0].content[0].text }]);
  const plain = await ask({ input: say({ text: '<think>\nA greeting.\n</think>\n\nHello!' }) });
  assert.deepEqual(plain.body.output[0].summary, []);
  assert.ok(r.body.usage.output_tokens_details.reasoning_tokens > 0);
});

test('logprobs when they are included', async () => {
  const r = await ask({ input: say({ text: '<think>\nHm.\n</think>\n\nGrüße 世界' }), include: ['message.output_text.logprobs'], top_logprobs: 2 });
  const { text, logprobs } = r.body.output[1].content[0];
  const bytes = Buffer.concat(logprobs.map((i) => Buffer.from(i.bytes))).toString('utf8');
  assert.ok(bytes.endsWith(text), `${bytes} ends with ${text}`);
  assert.equal(logprobs[0].top_logprobs.length, 2);
});

test('a tool loop with items sent back', async () => {
  const first = await ask({ input: say({ text: `<think>\nHm.\n</think>\n\nLook.\n${call('Köln')}\n${call('Bonn')}` }), tools, store: false });
  assert.deepEqual(first.body.output.map((i) => i.type), ['reasoning', 'message', 'function_call', 'function_call'], first.text);
  const [, , a, b] = first.body.output;
  assert.match(a.id, /^fc_/);
  assert.match(a.call_id, /^call_/);
  assert.deepEqual([a.name, JSON.parse(a.arguments)], ['get_weather', { town: 'Köln' }]);
  const second = await ask({ tools, store: false, input: [{ role: 'user', content: 'x' }, ...first.body.output,
    { type: 'function_call_output', call_id: a.call_id, output: 'rain' },
    { type: 'function_call_output', call_id: b.call_id, output: [{ type: 'input_text', text: 'sun' }] },
    { role: 'user', content: [{ type: 'input_text', text: say({ text: 'It rains.' }) }] }] });
  assert.equal(second.status, 200, second.text);
  assert.equal(second.body.output[0].content[0].text, 'It rains.');
  assert.equal(second.body.store, false);
  assert.equal((await s.json('GET', `/v1/responses/${second.body.id}`)).status, 404);
});

test('items make the same prompt as chat\'s messages', async () => {
  const input = [{ role: 'user', content: 'Rain?' }, { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Look it up.' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me see.' }] },
    { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"town":"Bonn"}' },
    { type: 'function_call_output', call_id: 'call_1', output: 'sun' }];
  const count = await s.json('POST', '/v1/responses/input_tokens', { input, tools, instructions: 'Be brief.' });
  assert.equal(count.status, 200, count.text);
  assert.equal(count.body.object, 'response.input_tokens');
  const { type, strict, ...f } = tools[0];
  const chat = await s.chat({ max_tokens: 1, tools: [{ type: 'function', function: { ...f, strict } }], messages: [{ role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Rain?' }, { role: 'assistant', content: 'Let me see.', reasoning_content: 'Look it up.',
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"town":"Bonn"}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: 'sun' }] });
  assert.equal(count.body.input_tokens, chat.body.usage.prompt_tokens, chat.text);
});

test('the events come in the documented order', async () => {
  const list = await stream({ input: say({ text: `<think>\nHm.\n</think>\n\nGrüße 世界\n${call('Köln')}` }), tools });
  const names = list.map((e) => e.type.replace('response.', '')).filter((n, i, all) => !n.endsWith('.delta') || n !== all[i - 1]);
  const item = (kind) => ['output_item.added', 'content_part.added', `${kind}.delta`, `${kind}.done`, 'content_part.done', 'output_item.done'];
  assert.deepEqual(names, ['created', 'in_progress', ...item('reasoning_text'), ...item('output_text'), 'output_item.added',
    'function_call_arguments.delta', 'function_call_arguments.done', 'output_item.done', 'completed']);
  const final = list.at(-1).response;
  for (const [i, made] of final.output.entries()) {
    assert.deepEqual(list.find((e) => e.type === 'response.output_item.done' && e.output_index === i).item, made);
    const deltas = list.filter((e) => e.type.endsWith('.delta') && e.output_index === i);
    assert.ok(deltas.every((e) => e.item_id === made.id));
    assert.equal(deltas.map((e) => e.delta).join(''), made.arguments ?? made.content[0].text);
  }
  assert.equal(list[0].response.status, 'in_progress');
  assert.deepEqual(list[0].response.output, []);
  assert.equal(list[0].response.id, final.id);
  const kept = await s.json('GET', `/v1/responses/${final.id}`);
  assert.deepEqual(kept.body, final, 'what is kept is what was sent');
});

test('an engine that fails ends the stream with response.failed', async () => {
  const list = await stream({ input: say({ text: 'one two three four', fail_after: 2 }) });
  assert.equal(list.at(-1).type, 'response.failed');
  assert.equal(list.at(-1).response.status, 'failed');
  assert.equal(list.at(-1).response.error.code, 'server_error');
  assert.equal((await s.json('GET', `/v1/responses/${list[0].response.id}`)).status, 404);
});

test('previous_response_id carries the conversation on', async () => {
  const first = await ask({ input: 'My name is Ada.', instructions: 'Be brief.' });
  const second = await ask({ input: 'And yours?', previous_response_id: first.body.id });
  assert.equal(second.status, 200, second.text);
  assert.equal(second.body.previous_response_id, first.body.id);
  const third = await ask({ input: [{ role: 'user', content: say({ text: 'Fine.' }) }], previous_response_id: second.body.id });
  const chat = await s.chat({ max_tokens: 50, messages: [{ role: 'user', content: 'My name is Ada.' }, { role: 'assistant', content: 'ok' },
    { role: 'user', content: 'And yours?' }, { role: 'assistant', content: 'ok' }, { role: 'user', content: say({ text: 'Fine.' }) }] });
  assert.equal(third.body.usage.input_tokens, chat.body.usage.prompt_tokens, 'the instructions are not carried on');
  const items = await s.json('GET', `/v1/responses/${third.body.id}/input_items?order=asc`);
  assert.deepEqual(items.body.data.map((i) => i.content[0].text), ['My name is Ada.', 'ok', 'And yours?', 'ok', say({ text: 'Fine.' })]);
  const page = await s.json('GET', `/v1/responses/${third.body.id}/input_items?limit=2`);
  assert.deepEqual(page.body.data.map((i) => i.id), items.body.data.slice(3).reverse().map((i) => i.id));
  assert.deepEqual([page.body.has_more, page.body.first_id, page.body.last_id], [true, items.body.data[4].id, items.body.data[3].id]);
  const rest = await s.json('GET', `/v1/responses/${third.body.id}/input_items?limit=9&after=${page.body.last_id}`);
  assert.equal(rest.body.data.length, 3);
  assert.equal(rest.body.has_more, false);
  const gone = await s.json('DELETE', `/v1/responses/${first.body.id}`);
  assert.deepEqual(gone.body, { id: first.body.id, object: 'response', deleted: true });
  assert.equal((await s.json('GET', `/v1/responses/${first.body.id}`)).status, 404);
  const broken = await ask({ input: 'x', previous_response_id: third.body.id });
  assert.equal(broken.status, 400);
  assert.equal(broken.body.error.code, 'previous_response_not_found');
});

test('nulls in items are as if they were absent, also where they are kept', async () => {
  const first = await ask({ input: [{ id: null, type: null, status: null, role: 'user', content: 'hi', phase: null }], store: null });
  assert.equal(first.status, 200, first.text);
  const second = await ask({ input: 'x', previous_response_id: first.body.id });
  assert.equal(second.status, 200, second.text);
});

test('a conversation that grew past a body\'s limit is refused', async () => {
  const big = 'x'.repeat(1.9e6);
  let previous;
  for (let i = 0; i < 12; i++) {
    const r = await ask({ input: [{ role: 'user', content: `fake:{"text":"ok"}` }, { role: 'user', content: 'y', junk: big }], previous_response_id: previous });
    if (r.status !== 200) {
      assert.deepEqual([r.status, r.body.error.param], [413, 'previous_response_id'], r.text);
      assert.ok(i > 5);
      return;
    }
    assert.equal(r.body.store, true);
    previous = r.body.id;
  }
  assert.fail('never refused');
});

test('another user\'s hands reach nothing', async () => {
  const mine = await ask({ input: 'a secret' });
  const login = await s.request('POST', '/api/login', { name: s.admin.name, password: s.admin.password }, { authorization: null });
  const cookie = login.headers.get('set-cookie').split(';')[0];
  const csrf = (await login.json()).csrf;
  const head = { authorization: null, cookie, 'x-csrf-token': csrf };
  const made = await s.json('POST', '/api/users', { name: 'eve', password: 'long enough a password', role: 'user' }, head);
  assert.equal(made.status, 201, made.text);
  const evelogin = await s.request('POST', '/api/login', { name: 'eve', password: 'long enough a password' }, { authorization: null });
  const eve = { authorization: null, cookie: evelogin.headers.get('set-cookie').split(';')[0], 'x-csrf-token': (await evelogin.json()).csrf };
  const where = `/v1/responses/${mine.body.id}`;
  for (const [method, path, body] of [['GET', where], ['GET', `${where}/input_items`], ['DELETE', where], ['POST', `${where}/cancel`]]) {
    const r = await s.json(method, path, body, eve);
    assert.equal(r.status, 404, `${method} ${path}: ${r.text}`);
  }
  const r = await ask({ input: 'x', previous_response_id: mine.body.id }, eve);
  assert.equal(r.body.error.code, 'previous_response_not_found', r.text);
  assert.equal((await s.json('GET', where)).status, 200);
});

test('cancel and streams of kept responses are refused plainly', async () => {
  const r = await ask({ input: 'hi' });
  const cancel = await s.json('POST', `/v1/responses/${r.body.id}/cancel`);
  assert.deepEqual([cancel.status, cancel.body.error.param], [400, 'response_id']);
  const again = await s.json('GET', `/v1/responses/${r.body.id}?stream=true`);
  assert.deepEqual([again.status, again.body.error.param], [400, 'stream']);
  for (const [method, path] of [['GET', ''], ['DELETE', ''], ['POST', '/cancel'], ['GET', '/input_items']])
    assert.equal((await s.json(method, `/v1/responses/resp_nothing${path}`)).status, 404, method + path);
  for (const query of ['limit=0', 'limit=x', 'order=up', 'after=nobody'])
    assert.equal((await s.json('GET', `/v1/responses/${r.body.id}/input_items?${query}`)).status, 400, query);
});

const user = { role: 'user', content: 'hi' };
const cases = [
  ['input', { input: undefined }],
  ['input', { input: [] }],
  ['input', { input: 5 }],
  ['input[0]', { input: ['hi'] }],
  ['input[0].role', { input: [{ role: 'robot', content: 'x' }] }],
  ['input[0].content', { input: [{ role: 'user' }] }],
  ['input[0].content', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }],
  ['input[0].type', { input: [{ type: 5, role: 'user', content: 'x' }] }],
  ['input[0].id', { input: [{ id: 5, role: 'user', content: 'x' }] }],
  ['input[0].status', { input: [{ status: {}, role: 'user', content: 'x' }] }],
  ['input[1].call_id', { input: [user, { type: 'function_call', name: 'f', arguments: '{}' }] }],
  ['input[1].call_id', { input: [user, { type: 'function_call_output', output: 'x' }] }],
  ['input[1].output', { input: [user, { type: 'function_call_output', call_id: 'a' }] }],
  ['previous_response_id', { previous_response_id: 'resp_nothing' }],
  ['previous_response_id', { previous_response_id: 5 }],
  ['instructions', { instructions: 5 }],
  ['store', { store: 'yes' }],
  ['truncation', { truncation: 'some' }],
  ['reasoning.summary', { reasoning: { summary: 'long' } }],
  ['reasoning.summary', { reasoning: { summary: 5 } }],
  ['input[0].content', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA' }] }] }],
  ['input[0].content', { input: [{ role: 'user', content: [{ type: 'input_file', file_data: '%%%' }] }] }],
  ['include', { include: 'x' }],
  ['max_output_tokens', { max_output_tokens: 0 }],
  ['max_output_tokens', { max_output_tokens: 'x' }],
  ['temperature', { temperature: 3 }],
  ['top_logprobs', { top_logprobs: 21 }],
  ['metadata', { metadata: 'x' }],
  ['metadata', { metadata: { a: 1 } }],
  ['reasoning.effort', { reasoning: { effort: 'huge' } }],
  ['reasoning.effort', { reasoning: { effort: 5 } }],
  ['stream_options', { stream_options: {} }],
  ['tools', { tools: {} }],
  ['tools[0].name', { tools: [{ type: 'function', name: 'a b' }] }],
  ['tools[0].parameters', { tools: [{ type: 'function', name: 'f', parameters: 5 }] }],
  ['text.format.type', { text: { format: { type: 'xml' } } }],
  ['text.format.schema', { text: { format: { type: 'json_schema', name: 'x', schema: { type: 'nothing' } } } }],
  ['tool_choice', { tools, tool_choice: { type: 'function', name: 'nobody' } }],
  ['tool_choice', { tools, tool_choice: 'always' }],
];
for (const [field, change] of cases) {
  test(`400 ${field}: ${JSON.stringify(change).slice(0, 70)}`, async () => {
    const r = await ask({ input: 'hi', ...change });
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, field, r.text);
  });
}

test('unauthorised, oversized, wrong method, the engine\'s refusals', async () => {
  assert.equal((await ask({ input: 'hi' }, { authorization: null })).status, 401);
  assert.equal((await ask({ input: 'x'.repeat(17 << 20) })).status, 413);
  const method = await s.json('GET', '/v1/responses');
  assert.deepEqual([method.status, method.headers.get('allow')], [405, 'POST']);
  const limit = await ask({ input: say({ refuse: 'limit' }) });
  assert.deepEqual([limit.status, limit.body.error.param, limit.body.error.code], [400, 'input', 'context_length_exceeded']);
  assert.equal((await ask({ input: say({ refuse: 'busy' }) })).status, 503);
});

test('what is too large to keep says that it was not kept', async () => {
  const r = await ask({ input: [{ role: 'user', content: 'the '.repeat(1100000) }, { role: 'user', content: say({ text: 'ok' }) }] });
  assert.equal(r.status, 200, r.text.slice(0, 300));
  assert.equal(r.body.store, false);
  assert.equal((await s.json('GET', `/v1/responses/${r.body.id}`)).status, 404);
});

test('a stream gives reasoning as its summary too, where one is asked for', async () => {
  const list = await stream({ input: say({ text: '<think>\nA greeting.\n</think>\n\nHello!' }), reasoning: { effort: 'high', summary: 'detailed' } });
  const of = list.filter((e) => e.type.startsWith('response.reasoning_summary'));
  assert.deepEqual([...new Set(of.map((e) => e.type.slice('response.reasoning_summary_'.length)))], ['part.added', 'text.delta', 'text.done', 'part.done']);
  const text = of.filter((e) => e.type.endsWith('text.delta')).map((e) => e.delta).join('');
  assert.equal(text.trim(), 'A greeting.');
  assert.deepEqual([of.at(-2).text, of.at(-1).part], [text, { type: 'summary_text', text }]);
  assert.ok(of.every((e) => e.summary_index === 0 && e.output_index === 0 && e.item_id === of[0].item_id));
  assert.equal(list.find((e) => e.type === 'response.output_item.done').item.summary[0].text, text);
});

test('what Codex sends is taken, and what has no effect is named', async () => {
  const r = await ask({ instructions: 'You are Codex.', input: [{ type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'x' }] },
    { role: 'user', content: say({ text: 'ok' }) }], tools: [...tools, { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'web_search', external_web_access: true }, { type: 'namespace', name: 'mcp', tools: [] }, { type: 'local_shell' }],
    tool_choice: 'auto', parallel_tool_calls: false, reasoning: { effort: 'xhigh', summary: 'auto' }, store: false, include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k', client_metadata: { a: 'b' }, text: { verbosity: 'low' }, truncation: 'auto', ignore_eos: false });
  assert.equal(r.status, 200, r.text);
  const named = r.body.warnings.map((w) => w.field);
  for (const field of ['client_metadata', 'text.verbosity', 'tools[1] (custom apply_patch)', 'tools[2] (web_search)', 'tools[3] (namespace mcp)',
    'tools[4] (local_shell)', 'reasoning.effort']) assert.ok(named.includes(field), `${field}: ${named}`);
  const choice = await ask({ input: say({ text: 'ok' }), tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } });
  assert.equal(choice.status, 200, choice.text);
  assert.deepEqual(choice.body.warnings.map((w) => w.field), ['tools[0] (web_search)', 'tool_choice']);
});

test('items of other kinds become text, or are named', async () => {
  const base64 = Buffer.from('FILE-TEXT, long enough to be text').toString('base64');
  const r = await ask({ input: [
    { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA' }] },
    { type: 'reasoning', summary: [], encrypted_content: 'x' }, { type: 'reasoning', content: [], summary: [{ type: 'summary_text', text: 'SUMMARY' }] },
    { type: 'item_reference', id: 'msg_1' }, { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
    { type: 'custom_tool_call', call_id: 'a', name: 'apply_patch', input: 'PATCH' }, { type: 'custom_tool_call_output', call_id: 'a', output: 'PATCHED' },
    { type: 'local_shell_call', call_id: 'b', status: 'completed', action: { type: 'exec', command: ['LS-COMMAND'] } },
    { type: 'local_shell_call_output', call_id: 'b', output: { stdout: 'LS-OUTPUT' } },
    { type: 'function_call', call_id: 'c', name: 'view', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: 'x' }, { type: 'input_text', text: 'SEEN' }] },
    { role: 'user', content: [{ type: 'input_file', filename: 'notes.txt', file_data: `data:text/plain;base64,${base64}` }, { type: 'input_file', file_id: 'file_1', filename: 'gone.txt' },
      { type: 'input_text', text: say({ say_prompt: true }) }] }] });
  assert.equal(r.status, 200, r.text);
  const prompt = r.body.output.map((o) => (o.content || []).map((c) => c.text).join('')).join('');
  for (const word of ['[image: this model reads text only]', 'PATCH', 'PATCHED', 'LS-COMMAND', 'LS-OUTPUT', 'SEEN', 'FILE-TEXT', 'notes.txt', '[file gone.txt: not read]']) {
    assert.ok(prompt.includes(word), `${word} is not in ${prompt}`);
  }
  assert.equal(prompt.split('[image: this model reads text only]').length, 3);
  const named = r.body.warnings.map((w) => w.field);
  for (const field of ['input[0].content', 'input[1].encrypted_content', 'input[3] (item_reference)', 'input[4] (web_search_call)', 'input[10].output', 'input[11].content']) {
    assert.ok(named.includes(field), `${field}: ${named}`);
  }
});
