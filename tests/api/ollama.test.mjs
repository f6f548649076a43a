// Ollama's API: chat and generate by lines and whole, tools, thinking, forms, options, what is ignored, errors in its form.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const says = (o, more) => [...(more ?? []), ...order(o)];
const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const chat = (body, headers) => s.json('POST', '/api/chat', { model: 'demo-model', stream: false, ...body }, headers);
const generate = (body, headers) => s.json('POST', '/api/generate', { model: 'demo-model', stream: false, ...body }, headers);
const shown = async (body) => (await chat({ ...body, messages: body.messages.concat() })).body.message.content;
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather', parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } } }];

/** The lines of a stream. */
async function lines(where, body) {
  const r = await s.request('POST', where, { model: 'demo-model', ...body });
  const text = await r.text();
  assert.ok(text.endsWith('\n'), text);
  return { status: r.status, type: r.headers.get('content-type'), ignored: r.headers.get('x-sluice-ignored'), list: text.trim().split('\n').map((l) => JSON.parse(l)) };
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
function checkFigures(o, reason = 'stop') {
  assert.deepEqual([o.done, o.done_reason, o.load_duration], [true, reason, 0]);
  assert.match(o.created_at, TIME);
  for (const name of ['total_duration', 'prompt_eval_count', 'prompt_eval_duration', 'eval_count', 'eval_duration'])
    assert.ok(Number.isInteger(o[name]) && o[name] > 0, `${name}: ${o[name]}`);
  assert.ok(o.total_duration >= o.prompt_eval_duration + o.eval_duration, JSON.stringify(o));
}

test('a chat, whole', async () => {
  const began = Date.now();
  const r = await chat({ messages: says({ text: 'Four words of answer.', prefill_ms: 60, token_ms: 5 }) });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.body.message, { role: 'assistant', content: 'Four words of answer.' });
  assert.equal(r.body.model, 'demo-model');
  assert.equal(r.body.warnings, undefined);
  checkFigures(r.body);
  assert.ok(r.body.total_duration <= (Date.now() - began + 1) * 1e6 && r.body.prompt_eval_duration >= 50e6, JSON.stringify(r.body));
});

test('a stream by lines is the default, and says the same', async () => {
  const { type, list } = await lines('/api/chat', { messages: says({ text: 'Umlaute äöü and a 🦊.' }) });
  assert.equal(type, 'application/x-ndjson');
  assert.equal(list.map((l) => l.message.content).join(''), 'Umlaute äöü and a 🦊.');
  assert.ok(list.length > 3);
  assert.ok(list.slice(0, -1).every((l) => l.done === false && l.done_reason === undefined && TIME.test(l.created_at)));
  checkFigures(list.at(-1));
  assert.equal(list.at(-1).message.content, '');
});

test('generate, whole and by lines', async () => {
  const prompt = order({ text: 'one two three' })[0].content;
  const r = await generate({ prompt });
  assert.equal(r.body.response, 'one two three', r.text);
  assert.equal(r.body.message, undefined);
  checkFigures(r.body);
  const { list } = await lines('/api/generate', { prompt });
  assert.equal(list.map((l) => l.response).join(''), 'one two three');
  checkFigures(list.at(-1));
});

test('what a prompt becomes: system, template, raw', async () => {
  const prompt = order({ say_prompt: true })[0].content;
  const templated = (await generate({ prompt, system: 'Be a fox.' })).body.response;
  assert.match(templated, /Be a fox\.[^]*fake:/);
  assert.match(templated, /assistant/);
  assert.equal((await generate({ prompt, raw: true })).body.response, prompt);
  for (const name of ['system', 'template', 'context']) {
    const r = await generate({ prompt, raw: true, [name]: name === 'context' ? [1] : 'x' });
    assert.deepEqual([r.status, r.body.error], [400, `${name}: does not go with raw: true`]);
  }
});

test('an empty prompt asks whether the model is loaded; nothing unloads it', async () => {
  for (const [where, body, member] of [['/api/generate', {}, 'response'], ['/api/chat', { messages: [] }, 'message'], ['/api/generate', { prompt: '', keep_alive: 0 }, 'response']]) {
    const r = await s.json('POST', where, { model: 'demo-model', ...body, stream: false });
    assert.deepEqual([r.status, r.body.done, r.body.done_reason], [200, true, 'load'], r.text);
    assert.ok(member in r.body && r.body.eval_count === undefined);
    assert.deepEqual(r.body.warnings?.map((w) => w.field), 'keep_alive' in body ? ['keep_alive'] : undefined);
  }
  const { type, list } = await lines('/api/chat', { messages: [], keep_alive: '5m' });
  assert.deepEqual([type, list.length, list[0].done_reason], ['application/x-ndjson', 1, 'load']);
});

test('thinking is apart, and can be switched', async () => {
  const messages = says({ text: '<think>\nhm hm\n</think>\n\nyes' });
  const r = await chat({ messages, think: true });
  assert.deepEqual([r.body.message.thinking?.trim(), r.body.message.content.trim()], ['hm hm', 'yes'], r.text);
  const { list } = await lines('/api/chat', { messages, think: true });
  assert.equal(list.map((l) => l.message.thinking ?? '').join('').trim(), 'hm hm');
  const g = await generate({ prompt: messages[0].content, think: true });
  assert.deepEqual([g.body.thinking?.trim(), g.body.response.trim()], ['hm hm', 'yes'], g.text);
  const off = await shown({ messages: says({ say_prompt: true }), think: false });
  const on = await shown({ messages: says({ say_prompt: true }), think: true });
  assert.notEqual(off, on);
  for (const think of ['low', 'medium', 'high', 'max']) assert.equal((await chat({ messages, think })).status, 200, think);
  for (const think of ['very', 7, {}]) {
    const wrong = await chat({ messages, think });
    assert.deepEqual([wrong.status, /^think: /.test(wrong.body.error)], [400, true], wrong.text);
  }
  const earlier = await shown({ messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: '', thinking: 'I recall', tool_calls: [{ function: { name: 'f', arguments: {} } }] },
    { role: 'tool', tool_name: 'f', content: 'r' }, ...says({ say_prompt: true })] });
  assert.match(earlier, /fake:/);
});

test('a loop of tools: arguments are objects, results find their calls by name', async () => {
  const messages = says({ steps: [`${call('get_weather', { town: 'Köln' })}\n${call('get_weather', { town: 'Bonn' })}`, 'It rains.'] });
  const first = await chat({ messages, tools });
  const calls = first.body.message.tool_calls;
  assert.deepEqual(calls.map((c) => [c.function.index, c.function.name, c.function.arguments]), [[0, 'get_weather', { town: 'Köln' }], [1, 'get_weather', { town: 'Bonn' }]], first.text);
  checkFigures(first.body);
  const { list } = await lines('/api/chat', { messages, tools });
  assert.deepEqual(list.flatMap((l) => l.message.tool_calls ?? []).map((c) => c.function.arguments.town), ['Köln', 'Bonn']);
  assert.ok(list.filter((l) => l.message.tool_calls).every((l) => !l.done), 'a call comes when it is whole');
  const second = await chat({ tools, messages: [...messages, first.body.message, { role: 'tool', tool_name: 'get_weather', content: 'rain' }, { role: 'tool', tool_name: 'get_weather', content: 'sun' }] });
  assert.equal(second.body.message.content, 'It rains.', second.text);
});

test('a call that is cut off keeps what there is of it', async () => {
  const schema = { type: 'object', properties: { town: { type: 'string' } }, required: ['town'], additionalProperties: false };
  const strict = [{ type: 'function', function: { name: 'f', strict: true, parameters: schema } }];
  const r = await chat({ messages: says({ text: '<tool_call>\n{"name": "f", "arguments": {"town": "Kö', finish: 'length' }), tools: strict });
  assert.equal(r.body.done_reason, 'length', r.text);
  assert.deepEqual(Object.keys(r.body.message.tool_calls[0].function.arguments), ['INVALID_JSON'], r.text);
  const { list } = await lines('/api/chat', { messages: says({ text: '<tool_call>\n{"name": "f", "arguments": {"town": "Kö', finish: 'length' }), tools: strict });
  assert.deepEqual(list.at(-1).message.tool_calls?.[0].function, r.body.message.tool_calls[0].function);
});

test('images become a text that says so; alone they are refused', async () => {
  const image = 'iVBORw0KGgo=';
  const r = await chat({ messages: [{ role: 'user', content: order({ say_prompt: true })[0].content, images: [image, image] }] });
  assert.equal(r.body.message.content.split('[image: this model reads text only]').length, 3, r.text);
  assert.deepEqual(r.body.warnings.map((w) => w.field), ['messages[0].images']);
  assert.equal(r.headers.get('x-sluice-ignored'), 'messages[0].images');
  assert.equal((await chat({ messages: [{ role: 'user', content: '', images: [image] }] })).status, 400);
  assert.equal((await chat({ messages: [{ role: 'user', content: 'x', images: [7] }] })).status, 400);
  const g = await generate({ prompt: order({ say_prompt: true })[0].content, images: [image] });
  assert.match(g.body.response, /\[image: this model reads text only\]/);
  assert.equal((await generate({ prompt: '', images: [image] })).status, 400);
});

test('options: done by their own names, or named', async () => {
  const text = 'one two three four five six';
  const cut = await chat({ messages: says({ text }), options: { num_predict: 2, temperature: 0, top_k: 5, top_p: 0.5, min_p: 0.1, seed: 3, stop: ['x'], repeat_penalty: 1.1, presence_penalty: 0.1, frequency_penalty: 0.1 } });
  assert.deepEqual([cut.status, cut.body.done_reason, cut.body.eval_count, cut.body.warnings], [200, 'length', 2, undefined], cut.text);
  for (const num_predict of [-1, -2, 0, null]) assert.equal((await chat({ messages: says({ text }), options: { num_predict, seed: -1 } })).body.message?.content, text);
  const r = await chat({ messages: says({ text }), options: { num_ctx: 4096, mirostat: 1, typical_p: 0.5, nonsense: 1, stop: null, num_thread: null } });
  assert.deepEqual(r.body.warnings.map((w) => w.field), ['options.num_ctx', 'options.mirostat', 'options.typical_p', 'options.nonsense']);
  assert.ok(r.body.warnings.every((w) => /^ignored: [a-z]/.test(w.message)));
  const { ignored, list } = await lines('/api/chat', { messages: says({ text }), options: { num_ctx: 4096 } });
  assert.equal(ignored, 'options.num_ctx');
  assert.equal(list[0].warnings[0].field, 'options.num_ctx');
  assert.ok(list.slice(1).every((l) => !l.warnings));
  for (const [options, field] of [[{ temperature: 9 }, 'options.temperature'], [{ num_predict: -7 }, 'options.num_predict'], [{ num_predict: 'x' }, 'options.num_predict'],
    [{ repeat_penalty: 0 }, 'options.repeat_penalty'], [{ stop: 7 }, 'options.stop'], [[], 'options'], ['x', 'options']]) {
    const bad = await chat({ messages: says({ text }), options });
    assert.deepEqual([bad.status, bad.body.error.startsWith(`${field}: `)], [400, true], bad.text);
  }
});

test('log probabilities in Ollama\'s place', async () => {
  const r = await chat({ messages: says({ text: 'a b' }), logprobs: true, top_logprobs: 2 });
  assert.equal(r.body.logprobs.map((t) => t.token).join(''), 'a b', r.text);
  assert.equal(r.body.logprobs[0].top_logprobs.length, 2);
  const { list } = await lines('/api/generate', { prompt: order({ text: 'a b' })[0].content, logprobs: true });
  assert.equal(list.flatMap((l) => l.logprobs ?? []).map((t) => t.token).join(''), 'a b');
  assert.equal((await chat({ messages: says({}), top_logprobs: 2 })).status, 400);
});

test('names of the model', async () => {
  await s.json('PATCH', '/api/admin/settings', { model_aliases: 'llama3.2 qwen-*' });
  for (const model of ['demo-model', 'demo-model:latest', 'llama3.2', 'llama3.2:latest', 'qwen-3:8b']) assert.equal((await chat({ model, messages: says({}) })).status, 200, model);
  assert.equal((await s.chat({ model: 'demo-model:latest', messages: says({}) })).status, 200);
  const list = (await s.json('GET', '/api/tags')).body.models;
  assert.deepEqual(list.map((m) => m.name), ['demo-model:latest', 'llama3.2:latest']);
  await s.json('PATCH', '/api/admin/settings', { model_aliases: '' });
  for (const [method, where, body] of [['POST', '/api/chat', { model: 'nope', messages: says({}) }], ['POST', '/api/generate', { model: 'nope', prompt: 'x' }], ['POST', '/api/show', { name: 'nope' }]]) {
    const r = await s.json(method, where, body);
    assert.deepEqual([r.status, r.body], [404, { error: "model 'nope' not found" }], r.text);
  }
  assert.equal((await chat({ model: 'nope:latest', messages: says({}) })).status, 404);
  assert.equal((await chat({ model: ':latest', messages: says({}) })).status, 404);
});

test('tags, show, ps and version', async () => {
  const [m] = (await s.json('GET', '/api/tags')).body.models;
  assert.deepEqual([m.name, m.model, m.details.format], ['demo-model:latest', 'demo-model:latest', 'safetensors']);
  assert.ok(m.size > 1e6 && TIME.test(m.modified_at), JSON.stringify(m));
  const show = await s.json('POST', '/api/show', { model: 'demo-model', verbose: true, system: 'x' });
  assert.equal(show.status, 200, show.text);
  const arch = show.body.model_info['general.architecture'];
  assert.ok(show.body.model_info[`${arch}.context_length`] > 0, show.text);
  assert.ok(show.body.capabilities.includes('completion') && show.body.capabilities.includes('tools'));
  assert.match(show.body.parameters, /^temperature [\d.]+\n/);
  assert.match(show.body.template, /\{%/);
  assert.deepEqual(show.body.warnings.map((w) => w.field), ['system']);
  const ps = (await s.json('GET', '/api/ps')).body.models;
  assert.equal(ps.length, 1);
  assert.ok('size_vram' in ps[0] && Date.parse(ps[0].expires_at) > Date.now());
  const v = await s.json('GET', '/api/version', undefined, { authorization: null });
  assert.match(v.body.version, /^\d+\.\d+\.\d+$/);
  assert.match(v.body.sluice, /^\d/);
  assert.equal((await s.request('HEAD', '/api/tags')).status, 200);
  assert.equal((await s.request('HEAD', '/', undefined, { authorization: null })).status, 200, 'the clients\' first knock');
});

test('a page that still asks the old path for its tags is sent on', async () => {
  const none = { authorization: null };
  const login = await s.json('POST', '/api/login', s.admin, none);
  const cookie = login.headers.get('set-cookie').split(';')[0];
  const r = await fetch(`${s.url}/api/tags`, { headers: { cookie }, redirect: 'manual' });
  assert.equal(r.status, 308);
  assert.equal(new URL(r.headers.get('location'), s.url).pathname, '/api/conversation-tags');
  const followed = await fetch(`${s.url}/api/tags`, { headers: { cookie } });
  assert.ok(Array.isArray((await followed.json()).items));
});

test('what this server does not do says why', async () => {
  for (const [method, where, body] of [['POST', '/api/create', { model: 'x', from: 'y' }], ['POST', '/api/copy', { source: 'a', destination: 'b' }], ['DELETE', '/api/delete', { model: 'demo-model' }],
    ['POST', '/api/push', { model: 'x' }]]) {
    const r = await s.json(method, where, body);
    assert.equal(r.status, 501, r.text);
    assert.ok(r.body.error.length > 30, r.text);
  }
  assert.equal((await s.request('POST', '/api/blobs/sha256:00', 'x', { 'content-type': 'application/octet-stream' })).status, 501);
  const suffix = await generate({ prompt: 'x', suffix: 'y' });
  assert.deepEqual([suffix.status, /^suffix: .*insert/.test(suffix.body.error)], [400, true]);
});

test('errors have Ollama\'s form, and name the field', async () => {
  const wrong = async (body, start, where = '/api/chat') => {
    const r = await s.json('POST', where, body);
    assert.deepEqual([r.status, typeof r.body.error, r.body.error?.startsWith?.(start)], [400, 'string', true], `${start} <- ${r.text}`);
  };
  const m = (message) => ({ messages: [message] });
  await wrong({ messages: 'x' }, 'messages: ');
  await wrong(m('x'), 'messages[0]: ');
  await wrong(m({ content: 'x' }), 'messages[0].role: ');
  await wrong(m({ role: 'robot', content: 'x' }), 'messages[0].role: ');
  await wrong(m({ role: 'user', content: ['x'] }), 'messages[0].content: ');
  await wrong(m({ role: 'user', content: 'x', images: 'y' }), 'messages[0].images: ');
  await wrong({ messages: [{ role: 'assistant', tool_calls: [{ function: { arguments: {} } }] }, ...says({})] }, 'messages[0].tool_calls[0].function.name: ');
  await wrong({ messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: 7 } }] }, ...says({})] }, 'messages[0].tool_calls[0].function.arguments: ');
  await wrong({ messages: [...says({}), { role: 'assistant', content: 'I am' }] }, 'messages: end with');
  await wrong({ messages: says({}), tools: 'x' }, 'tools: ');
  await wrong({ messages: says({}), tools: [{ type: 'function', function: { name: 'a b' } }] }, 'tools[0].function.name: ');
  await wrong({ messages: says({}), format: 'xml' }, 'format: ');
  await wrong({ messages: says({}), format: 7 }, 'format: ');
  await wrong({ messages: says({}), format: { type: 'object', not: {} } }, 'format: ');
  await wrong({ messages: says({}), keep_alive: [] }, 'keep_alive: ');
  await wrong({ messages: says({}), stream: 'yes' }, 'stream: ');
  await wrong({ model: 7, messages: says({}) }, 'model: ');
  await wrong({ prompt: 7 }, 'prompt: ', '/api/generate');
  await wrong({ name: '' }, 'model: is needed', '/api/pull');
  await wrong({}, 'model: is needed', '/api/show');
  for (const [r, status] of [[await chat({ messages: says({}) }, { authorization: 'Bearer sk-no' }), 401], [await s.json('GET', '/api/chat'), 405],
    [await chat({ messages: says({ refuse: 'busy' }) }), 503], [await s.json('GET', '/api/ps', undefined, { authorization: null }), 401]])
    assert.deepEqual([r.status, typeof r.body.error], [status, 'string'], r.text);
  const broken = await lines('/api/chat', { messages: says({ text: 'a b c d e f', fail_after: 2 }) });
  assert.equal(typeof broken.list.at(-1).error, 'string');
});

test('a body is JSON whatever its type says, as curl and LiteLLM send it', async () => {
  const body = JSON.stringify({ model: 'demo-model', messages: says({ text: 'yes' }), stream: false });
  for (const type of ['application/x-www-form-urlencoded', 'text/plain', null]) {
    const r = await s.json('POST', '/api/chat', Buffer.from(body), type ? { 'content-type': type } : {});
    assert.deepEqual([r.status, r.body.message?.content], [200, 'yes'], r.text);
  }
  assert.equal((await s.json('POST', '/api/chat', 'x', { 'content-type': 'text/plain' })).status, 400);
  assert.equal((await s.json('POST', '/v1/chat/completions', body, { 'content-type': 'text/plain' })).status, 415);
});

test('a strict key refuses what would be ignored, but not keep_alive', async () => {
  const key = (await s.json('POST', '/api/keys', { name: 'strict', strict_parameters: true })).body.key;
  const strict = { authorization: `Bearer ${key}` };
  const r = await chat({ messages: says({}), options: { num_ctx: 5 } }, strict);
  assert.deepEqual([r.status, /^options\.num_ctx: /.test(r.body.error)], [400, true], r.text);
  assert.equal((await generate({ prompt: order({})[0].content, context: [1] }, strict)).status, 400);
  assert.equal((await chat({ messages: says({}), keep_alive: '5m', options: { seed: 3 } }, strict)).status, 200);
});

test('a pull of what is served succeeds; others need an admin, and a name of the hub', async () => {
  const { list } = await lines('/api/pull', { model: 'demo-model:latest' });
  assert.deepEqual(list, [{ status: 'already loaded' }, { status: 'success' }]);
  assert.deepEqual((await s.json('POST', '/api/pull', { name: 'demo-model', stream: false, insecure: true })).body.status, 'success');
  const unknown = await s.json('POST', '/api/pull', { model: 'llama3.2' });
  assert.deepEqual([unknown.status, unknown.body.error.startsWith("model 'llama3.2' not found")], [404, true], unknown.text);
  const key = (await s.json('POST', '/api/keys', { name: 'runs only', scopes: ['inference'] })).body.key;
  const r = await s.json('POST', '/api/pull', { model: 'lab/tiny' }, { authorization: `Bearer ${key}` });
  assert.deepEqual([r.status, /admin/.test(r.body.error)], [403, true], r.text);
  for (const model of ['../x', '-x/y', 'a/b c']) assert.equal((await s.json('POST', '/api/pull', { model })).status, 400, model);
});
