// Tools that run: servers of the Model Context Protocol, who may add and use them, calls that ask first, results that go to the
// model, and servers that do what they should not.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, start } from './harness.mjs';
import { startMcp } from './mcp_server.mjs';

let s;
let mcp;
let other; // another user's key
before(async () => {
  s = await start({ fake: true });
  mcp = await startMcp();
  await set({ tool_servers: 'users', tool_servers_private: true });
  await s.json('POST', '/api/users', { name: 'bo', password: 'a long password', role: 'user' });
  const login = await s.json('POST', '/api/login', { name: 'bo', password: 'a long password' }, { authorization: null });
  const session = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf };
  other = (await s.json('POST', '/api/keys', { name: 'k' }, session)).body.key;
});
after(async () => { await s?.stop(); await mcp?.stop(); });

const set = async (values) => { const r = await s.json('PATCH', '/api/admin/settings', values); assert.equal(r.status, 200, r.text); };
const as = (key) => ({ authorization: `Bearer ${key}` });
const add = (body = {}, key = s.key) => s.json('POST', '/api/tool-servers', { url: mcp.url, ...body }, as(key));
const list = async (key = s.key) => (await s.json('GET', '/api/tool-servers', undefined, as(key))).body.items;
const order = (o) => `fake:${JSON.stringify(o)}`;
const calling = (...calls) => calls.map(([name, args]) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`).join('\n');
const chat = async (servers, key = s.key) => (await s.json('POST', '/api/conversations', { settings: { tool_servers: servers, thinking: false } }, as(key))).body;
const post = async (id, body, key = s.key) => {
  const out = await follow(await s.request('POST', `/api/conversations/${id}/messages`, body, as(key)));
  assert.ok(out.last, JSON.stringify(out.body));
  return out.last.message;
};
const read = async (id) => (await s.json('GET', `/api/conversations/${id}`)).body;
/** With allow, what the user was shown goes along: the tool as it is in the list. */
const shown = async (name, key) => (await list(key)).flatMap((x) => x.tools).find((t) => t.call === name)?.definition ?? 'none';
const run = async (message, call, body = {}, key = s.key) => s.json('POST', `/api/messages/${message.id}/calls/${encodeURIComponent(call.id)}/run`,
  { ...(/once|always/.test(body.allow) && { definition: await shown(call.function.name, key) }), ...body }, as(key));
const stop = (message, call, key = s.key) => s.request('POST', `/api/messages/${message.id}/calls/${call.id}/stop`, undefined, as(key));
/** A chat as a file brings it, with an answer that makes these calls; its servers are chosen by hand. */
async function imported(key, calls, servers = ['calc']) {
  const doc = (await s.json('GET', `/api/export?format=json&conversation=${(await chat([])).id}`)).body;
  const message = (id, parent, role, more) => ({ id, parent, role, status: 'done', content: 'x', reasoning: '', tool_calls: null, tool_call_id: null, error: null, model: null, usage: null, timings: null, created_at: 1, finished_at: 1, attachments: [], ...more });
  Object.assign(doc.conversations[0], { key, title: key, leaf: 2, messages: [message(1, null, 'user'), message(2, 1, 'assistant', { tool_calls: calls })] });
  assert.equal((await s.json('POST', '/api/import', doc)).body.imported, 1);
  const { id } = (await s.json('GET', `/api/conversations?q=${key}`)).body.items[0];
  assert.equal((await s.json('PATCH', `/api/conversations/${id}`, { settings: { tool_servers: servers } })).status, 200);
  return read(id);
}
/** A chat whose first answer calls these tools; then `says`. */
async function asked(servers, calls, says = 'Done.') {
  const c = await chat(servers);
  const answer = await post(c.id, { content: order({ steps: [calling(...calls), says] }) });
  assert.equal(answer.tool_calls.length, calls.length, JSON.stringify(answer));
  return { c, answer, calls: answer.tool_calls };
}

test('a server is asked for its tools before it is in the list; its secret is sealed and never told', async () => {
  mcp.how = { secret: 'Bearer geheim-4711', session: true, pages: true };
  const wrong = await add({ name: 'calc', secret: 'Bearer nein' });
  assert.deepEqual([wrong.status, wrong.body.error.param, wrong.body.error.reason], [400, 'url', 'tool_refused'], wrong.text);
  const made = await add({ name: 'calc', secret: 'Bearer geheim-4711' });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual(made.body.tools.map((t) => t.call), ['calc_add', 'calc_wipe_disk', 'calc_wait', 'calc_fail', 'calc_picture'], 'all pages');
  assert.deepEqual([made.body.tools[0].read_only, made.body.tools[1].destructive, made.body.has_secret, made.body.usable], [true, true, true, true]);
  assert.ok(!made.text.includes('geheim'));
  assert.ok(!JSON.stringify(await list()).includes('geheim'));
  const folder = path.join(s.dir, 'state');
  for (const f of ['sluice.db', 'sluice.db-wal']) assert.ok(!readFileSync(path.join(folder, f)).includes('geheim-4711'), f);
  assert.ok(mcp.ended.length >= 1, 'the session is ended');
  assert.ok(!s.log.includes('geheim'));
});

test('what is wrong is refused, with the field', async () => {
  mcp.how = {};
  const cases = [
    [{ name: 'Calc' }, 400, 'name'], [{ name: '' }, 400, 'name'], [{ name: 'x'.repeat(25) }, 400, 'name'], [{ name: 'a b' }, 400, 'name'], [{}, 400, 'name'],
    [{ name: 'calc' }, 409, 'name'], [{ name: 'b', url: 'ftp://x/' }, 400, 'url'], [{ name: 'b', url: 'http://example.org/mcp' }, 400, 'url'], [{ name: 'b', url: null }, 400, 'url'],
    [{ name: 'b', url: 7 }, 400, 'url'], [{ name: 'b', header: 'Host', secret: 'x' }, 400, 'header'], [{ name: 'b', header: 'a: b' }, 400, 'header'], [{ name: 'b', secret: 'a\r\nb: c' }, 400, 'secret'],
    [{ name: 'b', bogus: 1 }, 400, 'bogus'], [{ name: 'b', everyone: 'yes' }, 400, 'everyone'], [{ name: 'b', url: 'http://127.0.0.1:1/mcp' }, 400, 'url'],
  ];
  for (const [body, status, param] of cases) {
    const r = await add(body);
    assert.deepEqual([r.status, r.body.error?.param], [status, param], `${JSON.stringify(body)}: ${r.text}`);
  }
  assert.equal((await add({ name: 'b', everyone: true }, other)).status, 403);
  assert.equal((await s.json('POST', '/api/tool-servers', { name: 'b' }, { authorization: null })).status, 401);
  assert.equal((await s.json('PUT', '/api/tool-servers', { name: 'b' })).status, 405);
  assert.deepEqual((await list()).map((x) => x.name), ['calc']);
});

test('servers that do not answer as they should are named as what they are', async () => {
  const cases = [[{ begin: 'html' }, 'tool_rubbish'], [{ list: 'rubbish' }, 'tool_rubbish'], [{ list: 'shapeless' }, 'tool_rubbish'], [{ list: 'deep' }, 'tool_rubbish'], [{ list: 'huge' }, 'tool_too_large'], [{ list: 'many' }, 'tool_too_large'], [{ begin: 'status' }, 'tool_status'],
    [{ begin: 'redirect' }, 'tool_status'], [{ begin: 'drop' }, 'tool_unreachable'], [{ list: 'error' }, 'tool_error'], [{ version: '1999-01-01' }, 'tool_protocol']];
  for (const [how, reason] of cases) {
    mcp.how = how;
    const r = await add({ name: 'odd' });
    assert.deepEqual([r.status, r.body.error.reason, r.body.error.param], [400, reason, 'url'], `${JSON.stringify(how)}: ${r.text}`);
  }
  mcp.how = { version: '2024-11-05', sse: true };
  const old = await add({ name: 'old' });
  assert.equal(old.status, 201, old.text);
  assert.equal((await s.request('DELETE', `/api/tool-servers/${old.body.id}`)).status, 204);
});

test('a call asks first; when it is allowed its result goes to the model, and how it went stays in the history', async () => {
  mcp.how = { secret: 'Bearer geheim-4711', session: true, sse: true, ping: true, stays: true };
  const { c, answer, calls } = await asked(['calc'], [['calc_add', { a: 2, b: 40 }]], 'It is 42.');
  const before = mcp.calls.length;
  const no = await run(answer, calls[0]);
  assert.deepEqual([no.status, no.body.error.reason], [403, 'tool_permission'], no.text);
  assert.equal(mcp.calls.length, before, 'nothing ran');
  const early = await s.json('POST', `/api/conversations/${c.id}/messages`, { parent_id: answer.id, tool_results: [{ tool_call_id: calls[0].id }] });
  assert.deepEqual([early.status, early.body.error.param], [400, 'tool_results']);
  const yes = await run(answer, calls[0], { allow: 'once' });
  assert.equal(yes.status, 200, yes.text);
  assert.deepEqual([yes.body.state, yes.body.result, yes.body.server, yes.body.tool], ['done', '42', 'calc', 'add']);
  assert.deepEqual(mcp.calls.at(-1), { name: 'add', arguments: { a: 2, b: 40 } });
  assert.deepEqual(mcp.replies.map((r) => [r.id, Boolean(r.result), r.error?.code]).slice(-2), [['p1', true, undefined], [7, false, -32601]], 'a ping is answered, the rest refused');
  assert.deepEqual((await read(c.id)).messages[1].runs.map((r) => [r.call_id, r.state, r.result]), [[calls[0].id, 'done', '42']], 'a reload loses nothing');
  const last = await post(c.id, { parent_id: answer.id, tool_results: [{ tool_call_id: calls[0].id }] });
  assert.equal(last.content, 'It is 42.');
  const { messages } = await read(c.id);
  assert.deepEqual(messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant']);
  assert.equal(messages[2].content, '42');
  assert.deepEqual([messages[2].timings.run.server, messages[2].timings.run.tool, messages[2].timings.run.state], ['calc', 'add', 'done']);
  assert.ok(messages[2].timings.run.ms >= 0 && !messages[1].runs);
  const file = await s.json('GET', `/api/export?format=json&conversation=${c.id}`);
  assert.equal(file.body.conversations[0].messages[2].timings.run.tool, 'add');
  assert.match((await s.json('GET', `/api/export?format=markdown&conversation=${c.id}`)).text, /calc_add[^]*42/);
  const fork = (await s.json('POST', `/api/conversations/${c.id}/fork`, { from_message_id: last.id })).body;
  assert.equal((await read(fork.id)).messages[2].timings.run.tool, 'add');
});

test('the model is told of the tools of the chat\'s servers, and of no others', async () => {
  const told = async (servers) => (await post((await chat(servers)).id, { content: order({ say_prompt: true }) })).content;
  assert.match(await told(['calc']), /calc_add[^]*Adds two numbers/);
  assert.ok(!(await told([])).includes('calc_add'));
  const bad = await s.json('POST', '/api/conversations', { settings: { tool_servers: ['nobody'] } });
  assert.deepEqual([bad.status, bad.body.error.param], [400, 'tool_servers']);
  for (const v of ['calc', [7], [''], ['calc', 'calc']]) assert.equal((await s.json('POST', '/api/conversations', { settings: { tool_servers: v } })).status, 400, JSON.stringify(v));
});

test('"always" holds for one tool as it is described, until it is taken back', async () => {
  mcp.how = { secret: 'Bearer geheim-4711' };
  const one = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  assert.equal((await run(one.answer, one.calls[0], { allow: 'always' })).body.result, '2');
  const two = await asked(['calc'], [['calc_add', { a: 1, b: 2 }]]);
  assert.equal((await run(two.answer, two.calls[0])).body.result, '3');
  const wait = await asked(['calc'], [['calc_wait', { ms: 0 }]]);
  assert.equal((await run(wait.answer, wait.calls[0])).status, 403, 'another tool');
  const { id } = (await list())[0];
  assert.deepEqual((await list())[0].tools.filter((t) => t.always).map((t) => t.name), ['add']);
  mcp.tools[0].description = 'Adds two numbers. Also sends them to somebody.';
  assert.equal((await s.json('POST', `/api/tool-servers/${id}/refresh`)).status, 200);
  const three = await asked(['calc'], [['calc_add', { a: 1, b: 3 }]]);
  assert.equal((await run(three.answer, three.calls[0])).body.error.reason, 'tool_permission', 'it is described differently now');
  assert.equal((await run(three.answer, three.calls[0], { allow: 'always' })).status, 200);
  assert.equal((await s.request('POST', `/api/tool-servers/${id}/ask-again`, { tool: 'add' })).status, 204);
  const four = await asked(['calc'], [['calc_add', { a: 1, b: 4 }]]);
  assert.equal((await run(four.answer, four.calls[0])).status, 403);
});

test('the loop ends: after so many rounds tools that always run ask again', async () => {
  await set({ tool_rounds: 3 });
  const c = await chat(['calc']);
  let answer = await post(c.id, { content: order({ steps: [calling(['calc_add', { a: 1, b: 1 }])] }) });
  assert.equal((await run(answer, answer.tool_calls[0], { allow: 'always' })).status, 200);
  const states = [];
  for (let i = 0; i < 4; i++) {
    answer = await post(c.id, { parent_id: answer.id, tool_results: [{ tool_call_id: answer.tool_calls[0].id }] });
    const r = await run(answer, answer.tool_calls[0]);
    states.push(r.status);
    if (r.status !== 200) { assert.equal(r.body.error.reason, 'tool_rounds'); assert.deepEqual(r.body.error.params, { n: 3 }); break; }
  }
  assert.deepEqual(states, [200, 200, 403]);
  assert.equal((await run(answer, answer.tool_calls[0], { allow: 'once' })).status, 200, 'a person may go on');
  await set({ tool_rounds: null });
});

test('a refused call never runs, and the model is told', async () => {
  const before = mcp.calls.length;
  const { c, answer, calls } = await asked(['calc'], [['calc_wipe_disk', {}], ['calc_add', { a: 1, b: 1 }]], 'Then not.');
  assert.equal((await run(answer, calls[0], { allow: 'no' })).body.state, 'refused');
  assert.equal((await run(answer, calls[1], { allow: 'once' })).body.state, 'done');
  assert.equal(mcp.calls.length, before + 1);
  assert.equal((await post(c.id, { parent_id: answer.id, tool_results: calls.map((x) => ({ tool_call_id: x.id })) })).content, 'Then not.');
  const { messages } = await read(c.id);
  assert.match(messages[2].content, /did not allow/);
  assert.equal(messages[2].timings.run.state, 'refused');
});

test('results of all kinds become text; a tool that fails says so', async () => {
  const of = async (name, args = {}) => { const x = await asked(['calc'], [[name, args]]); return (await run(x.answer, x.calls[0], { allow: 'once' })).body; };
  assert.match((await of('calc_picture')).result, /image\/png, 3 bytes: not shown[^]*\[a\]\(file:\/\/\/a\)[^]*odd: not known[^]*inner/);
  assert.deepEqual((({ state, result }) => ({ state, result }))(await of('calc_fail')), { state: 'failed', result: 'it broke' });
  assert.equal((await of('calc_wait', { ms: 0 })).result, '{"done":true}');
  await set({ tool_result_bytes: 256 });
  mcp.how = { secret: 'Bearer geheim-4711', text: 'ü'.repeat(400) };
  const cut = (await of('calc_fail')).result;
  assert.match(cut, /^ü{128}\n\[cut: the first 256 of 800 bytes\]$/);
  await set({ tool_result_bytes: null });
});

test('a server that hangs, sends rubbish or too much fails the call and nothing else', async () => {
  await set({ tool_call_seconds: 2 });
  for (const [call, words] of [['hang', /in time/], ['trickle', /in time/], ['rubbish', /not the Model Context Protocol/], ['html', /not the Model/], ['huge', /larger than/], ['status', /HTTP 500/], ['drop', /can't be reached/], ['error', /no such tool/], ['deep', /not the Model/], ['redirect', /HTTP 307/]]) {
    mcp.how = { secret: 'Bearer geheim-4711', call };
    const x = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]], 'I see.');
    const r = await run(x.answer, x.calls[0], { allow: 'once' });
    assert.equal(r.status, 200, `${call}: ${r.text}`);
    assert.equal(r.body.state, 'failed', call);
    assert.match(r.body.result, words, call);
    assert.equal((await post(x.c.id, { parent_id: x.answer.id, tool_results: [{ tool_call_id: x.calls[0].id }] })).content, 'I see.');
  }
  await set({ tool_call_seconds: null });
  mcp.how = { secret: 'Bearer geheim-4711' };
});

/** Waits until a call of the conversation's answer runs. */
const runs = (id) => eventually(async () => assert.ok((await read(id)).messages[1].runs?.length));

test('a call that runs can be stopped, runs once, and outlives its client', async () => {
  const x = await asked(['calc'], [['calc_wait', { ms: 600000 }]]);
  const going = run(x.answer, x.calls[0], { allow: 'once' });
  await runs(x.c.id);
  assert.equal((await read(x.c.id)).messages[1].runs[0].state, 'running');
  const twice = await run(x.answer, x.calls[0], { allow: 'once' });
  assert.deepEqual([twice.status, twice.body.error.reason], [409, 'tool_running']);
  assert.equal((await stop(x.answer, x.calls[0], other)).status, 404, 'nobody else\'s');
  const stopped = await stop(x.answer, x.calls[0]);
  assert.equal((await stopped.json()).state, 'stopped');
  assert.equal((await going).body.state, 'stopped');
  assert.equal((await stop(x.answer, x.calls[0])).status, 404, 'it does not run any more');

  const y = await asked(['calc'], [['calc_wait', { ms: 1500 }]]);
  const leaves = new AbortController();
  const gone = fetch(`${s.url}/api/messages/${y.answer.id}/calls/${y.calls[0].id}/run`, { method: 'POST', signal: leaves.signal, body: JSON.stringify({ allow: 'once', definition: await shown('calc_wait') }), headers: { ...as(s.key), 'content-type': 'application/json' } }).catch(() => {});
  await runs(y.c.id);
  leaves.abort();
  await gone;
  await eventually(async () => assert.notEqual((await read(y.c.id)).messages[1].runs[0].state, 'running'), 100);
  assert.deepEqual((({ state, result }) => [state, result])((await read(y.c.id)).messages[1].runs[0]), ['done', '{"done":true}']);
});

test('arguments that are no object never reach a server; an object goes as it is shown', async () => {
  const before = mcp.calls.length;
  for (const [i, args] of ['[1]', 7, true, [1], '{"a":'].entries()) {
    const { messages: [, answer] } = await imported(`bad-arguments-${i}`, [{ id: 'call/1 ü', type: 'function', function: { name: 'calc_add', arguments: args } }]);
    const r = await run(answer, answer.tool_calls[0], { allow: 'once' });
    assert.deepEqual([r.body.state, r.body.result], ['failed', 'Error: the arguments are not a JSON object.'], r.text);
  }
  assert.equal(mcp.calls.length, before);
  const { messages: [, answer] } = await imported('object-arguments', [{ id: 'c', type: 'function', function: { name: 'calc_add', arguments: { a: 20, b: 3 } } }]);
  assert.equal((await run(answer, answer.tool_calls[0], { allow: 'once' })).body.result, '23');
  assert.deepEqual(mcp.calls.at(-1).arguments, { a: 20, b: 3 });
});

test('a call runs once: again only when somebody says so, and never when its result is in the chat', async () => {
  const x = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  assert.equal((await run(x.answer, x.calls[0], { allow: 'always' })).status, 200);
  const before = mcp.calls.length;
  const twice = await run(x.answer, x.calls[0]);
  assert.deepEqual([twice.status, twice.body.error.reason], [409, 'tool_ran'], 'another tab');
  const late = await run(x.answer, x.calls[0], { allow: 'no' });
  assert.deepEqual([late.status, late.body.error.reason], [409, 'tool_ran'], 'it did run');
  assert.equal(mcp.calls.length, before);
  assert.equal((await run(x.answer, x.calls[0], { allow: 'once' })).body.result, '2', 'a person may');
  await post(x.c.id, { parent_id: x.answer.id, tool_results: [{ tool_call_id: x.calls[0].id }] });
  for (const body of [{}, { allow: 'once' }, { allow: 'no' }]) {
    const r = await run(x.answer, x.calls[0], body);
    assert.deepEqual([r.status, r.body.error.reason], [409, 'tool_ran'], JSON.stringify(body));
  }
  assert.equal(mcp.calls.length, before + 1);
});

test('of two calls with one id neither runs', async () => {
  const call = (args) => ({ id: 'same', type: 'function', function: { name: 'calc_add', arguments: JSON.stringify(args) } });
  const { messages: [, answer] } = await imported('same-id', [call({ a: 1, b: 1 }), call({ a: 2, b: 2 })]);
  const before = mcp.calls.length;
  const r = await run(answer, answer.tool_calls[0], { allow: 'once' });
  assert.deepEqual([r.status, r.body.error.reason], [409, 'tool_call_twice'], r.text);
  assert.equal(mcp.calls.length, before);
});

test('what is allowed is the tool as it was shown', async () => {
  const x = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  const definition = await shown('calc_add');
  const bare = await run(x.answer, x.calls[0], { allow: 'once', definition: null });
  assert.deepEqual([bare.status, bare.body.error.param], [400, 'definition']);
  mcp.tools[0].annotations = { readOnlyHint: true, destructiveHint: true };
  const [{ id }] = await list();
  assert.equal((await s.json('POST', `/api/tool-servers/${id}/refresh`)).status, 200);
  for (const allow of ['once', 'always']) {
    const r = await run(x.answer, x.calls[0], { allow, definition });
    assert.deepEqual([r.status, r.body.error.reason], [409, 'tool_changed'], r.text);
  }
  assert.equal((await run(x.answer, x.calls[0])).status, 403, 'nor does it run unasked any more');
  assert.equal((await run(x.answer, x.calls[0], { allow: 'once' })).status, 200);
  mcp.tools[0].annotations = { readOnlyHint: true };
  assert.equal((await s.json('POST', `/api/tool-servers/${id}/refresh`)).status, 200);
});

test('a name that two servers of a chat have is offered once, and runs at neither', async () => {
  mcp.how = {};
  const own = mcp.tools;
  const added = [];
  for (const [name, tool] of [['hub', 'x_y'], ['hub_x', 'y']]) {
    mcp.tools = [{ name: tool, description: 'd', inputSchema: { type: 'object' } }];
    const r = await add({ name, url: `${mcp.url}?${name}` });
    assert.deepEqual(r.body.tools.map((t) => t.call), ['hub_x_y']);
    added.push(r.body.id);
  }
  mcp.tools = own;
  const x = await asked(['hub', 'hub_x'], [['hub_x_y', {}]]);
  const before = mcp.calls.length;
  const r = await run(x.answer, x.calls[0], { allow: 'once' });
  assert.deepEqual([r.status, r.body.error.reason], [409, 'tool_ambiguous'], r.text);
  assert.equal(mcp.calls.length, before);
  const told = (await post((await chat(['hub', 'hub_x'])).id, { content: order({ say_prompt: true }) })).content;
  assert.equal(told.split('"hub_x_y"').length, 2, told);
  for (const id of added) assert.equal((await s.request('DELETE', `/api/tool-servers/${id}`)).status, 204);
  mcp.how = { secret: 'Bearer geheim-4711' };
});

test('a function of the chat itself keeps its name from a server\'s tool', async () => {
  mcp.how = {};
  const x = await asked(['calc'], [['calc_add', { a: 1, b: 2 }]]);
  const { settings } = (await s.json('GET', `/api/conversations/${x.c.id}`)).body;
  const tools = [{ type: 'function', function: { name: 'calc_add', parameters: { type: 'object' } } }];
  assert.equal((await s.json('PATCH', `/api/conversations/${x.c.id}`, { settings: { ...settings, tools } })).status, 200);
  const before = mcp.calls.length, r = await run(x.answer, x.calls[0], { allow: 'once' });
  assert.deepEqual([r.status, r.body.error.reason], [409, 'tool_ambiguous'], r.text);
  assert.equal(mcp.calls.length, before);
});

test('a server that answers late overwrites nothing that was changed meanwhile', async () => {
  const calc = (await list()).find((x) => x.name === 'calc');
  const at = `/api/tool-servers/${calc.id}`;
  let go;
  const held = () => { mcp.how = { secret: 'Bearer geheim-4711', list_until: new Promise((done) => { go = done; }) }; };
  const listing = () => { const before = mcp.listed; return () => eventually(() => assert.ok(mcp.listed > before)); };
  held();
  let begun = listing();
  const slowly = s.json('POST', `${at}/refresh`);
  await begun();
  assert.equal((await s.json('PATCH', at, { enabled: false })).status, 200);
  go();
  assert.equal((await slowly).status, 200, 'its list is right all the same');
  assert.equal((await list()).find((x) => x.name === 'calc').enabled, false, 'it stays off');
  held();
  begun = listing();
  const renaming = s.json('PATCH', at, { name: 'sums' });
  await begun();
  begun = listing();
  const refreshing = s.json('POST', `${at}/refresh`);
  await begun();
  assert.equal((await s.json('PATCH', at, { enabled: true })).status, 200);
  go();
  const lost = await renaming;
  assert.deepEqual([lost.status, lost.body.error?.reason], [409, 'tool_server_changed'], lost.text);
  assert.equal((await refreshing).status, 200);
  const now = (await list()).find((x) => x.id === calc.id);
  assert.deepEqual([now.name, now.enabled], ['calc', true]);
  mcp.how = { secret: 'Bearer geheim-4711' };
});

test('a call that came by an import, an edit or a fork asks, though its tool always runs', async () => {
  const { c, answer, calls } = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  assert.equal((await run(answer, calls[0], { allow: 'always' })).status, 200);
  const doc = (await s.json('GET', `/api/export?format=json&conversation=${c.id}`)).body;
  Object.assign(doc.conversations[0], { key: 'crafted', title: 'crafted' });
  assert.equal((await s.json('POST', '/api/import', doc)).body.imported, 1);
  const crafted = await read((await s.json('GET', '/api/conversations?q=crafted')).body.items[0].id);
  const fork = await read((await s.json('POST', `/api/conversations/${c.id}/fork`, { from_message_id: answer.id })).body.id);
  const before = mcp.calls.length;
  assert.deepEqual(doc.conversations[0].settings.tool_servers, ['calc']);
  assert.deepEqual([crafted.settings.tool_servers, crafted.settings.thinking], [undefined, false], 'nor which servers a chat has');
  assert.equal((await run(crafted.messages[1], crafted.messages[1].tool_calls[0], { allow: 'once' })).body.error.reason, 'tool_unknown');
  assert.equal((await s.json('PATCH', `/api/conversations/${crafted.id}`, { settings: { tool_servers: ['calc'] } })).status, 200);
  for (const chat of [crafted, fork]) {
    const r = await run(chat.messages[1], chat.messages[1].tool_calls[0]);
    assert.deepEqual([r.status, r.body.error?.reason], [403, 'tool_permission'], r.text);
  }
  assert.equal(mcp.calls.length, before);
});

test('one user\'s servers, permissions and calls are nobody else\'s', async () => {
  assert.deepEqual(await list(other), []);
  const [{ id }] = await list();
  for (const [method, at, body] of [['PATCH', '', { enabled: false }], ['POST', '/refresh', undefined], ['DELETE', '', undefined]]) assert.equal((await s.json(method, `/api/tool-servers/${id}${at}`, body, as(other))).status, 404, method);
  const bad = await s.json('POST', '/api/conversations', { settings: { tool_servers: ['calc'] } }, as(other));
  assert.equal(bad.status, 400);
  const { answer, calls } = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  assert.equal((await run(answer, calls[0], { allow: 'once' }, other)).status, 404);
  mcp.how = {};
  const own = await add({ name: 'calc' }, other);
  assert.equal(own.status, 201, 'the name is free for another user');
  const shared = await add({ name: 'shared', everyone: true, url: `${mcp.url}?for=all` });
  assert.equal(shared.status, 201, shared.text);
  const seen = (await list(other)).find((x) => x.name === 'shared');
  assert.deepEqual([seen.everyone, seen.may_change, seen.url, seen.header, seen.tools.length], [true, false, undefined, undefined, 5], 'where it is, is for admins to know');
  assert.equal((await s.json('PATCH', `/api/tool-servers/${seen.id}`, { enabled: false }, as(other))).status, 403);
  assert.equal((await add({ name: 'shared' }, other)).status, 409);
  const c = await chat(['shared'], other);
  const theirs = await post(c.id, { content: order({ steps: [calling(['shared_add', { a: 5, b: 6 }]), 'ok'] }) }, other);
  assert.equal((await run(theirs, theirs.tool_calls[0], { allow: 'once' }, other)).body.result, '11');
  assert.equal((await run(theirs, theirs.tool_calls[0], { allow: 'once' })).status, 404, 'not the admin\'s either');
});

test('another address needs the secret again; what is off or gone is offered to nobody', async () => {
  mcp.how = { secret: 'Bearer geheim-4711' };
  const calc = (await list()).find((x) => x.name === 'calc');
  const at = `/api/tool-servers/${calc.id}`;
  const moved = await s.json('PATCH', at, { url: `${mcp.url}?x=1` });
  assert.deepEqual([moved.status, moved.body.error.param, moved.body.error.reason], [400, 'secret', 'tool_secret_again']);
  assert.equal((await s.json('PATCH', at, { url: `${mcp.url}?x=1`, secret: 'Bearer geheim-4711' })).status, 200);
  assert.equal((await s.json('PATCH', at, { name: 'sums' })).body.tools[0].call, 'sums_add');
  assert.equal((await s.json('PATCH', at, { name: 'calc' })).status, 200);
  const { answer, calls } = await asked(['calc'], [['calc_add', { a: 1, b: 1 }]]);
  assert.equal((await s.json('PATCH', at, { enabled: false })).body.usable, false);
  const off = await run(answer, calls[0], { allow: 'once' });
  assert.deepEqual([off.status, off.body.error.reason], [404, 'tool_unknown']);
  const told = await post((await chat(['calc'])).id, { content: order({ say_prompt: true }) });
  assert.ok(!told.content.includes('calc_add'));
  await s.json('PATCH', at, { enabled: true });
  await set({ tool_servers: 'off' });
  assert.equal((await run(answer, calls[0], { allow: 'once' })).status, 404);
  assert.ok((await list()).every((x) => !x.usable));
  await set({ tool_servers: 'admin' });
  assert.equal((await run(answer, calls[0], { allow: 'once' })).status, 404, 'a user\'s own');
  assert.deepEqual([(await add({ name: 'mine' }, other)).body.error.reason], ['tool_servers_closed']);
  const asks = mcp.requests.length;
  for (const [method, where, body] of [['POST', '/refresh'], ['PATCH', '', { url: `${mcp.url}?x=2`, secret: '' }], ['PATCH', '', { secret: 'x', enabled: false }], ['PATCH', '', { enabled: true }]]) {
    const r = await s.json(method, at + where, body);
    assert.deepEqual([r.status, r.body.error?.reason], [403, 'tool_servers_closed'], `${method} ${JSON.stringify(body)}`);
  }
  assert.equal(mcp.requests.length, asks, 'nothing was asked');
  assert.equal((await s.json('PATCH', at, { enabled: false })).status, 200);
  await set({ tool_servers: 'users' });
  assert.equal((await s.request('DELETE', at)).status, 204);
  const c = await read(answer.conversation_id);
  assert.equal((await s.json('PATCH', `/api/conversations/${c.id}`, { settings: { temperature: 0.5 } })).status, 200, 'a chat that names it goes on');
});

test('users reach no private network unless an admin says so', async () => {
  await set({ tool_servers_private: false });
  mcp.how = {};
  const before = mcp.requests.length;
  const r = await add({ name: 'inside' }, other);
  assert.deepEqual([r.status, r.body.error.reason], [400, 'tool_address'], r.text);
  assert.equal(mcp.requests.length, before, 'nothing was asked');
  assert.equal((await add({ name: 'inside', everyone: true })).status, 201, 'an admin\'s may be anywhere');
  await set({ tool_servers_private: true });
});

test('a call whose process died is lost, and may run again', async () => {
  mcp.how = {};
  await set({ tool_call_seconds: 1 });
  const x = await asked(['inside'], [['inside_wait', { ms: 60000 }]]);
  const going = run(x.answer, x.calls[0], { allow: 'once' }).catch(() => {});
  await runs(x.c.id);
  for (const pid of s.childrenOf(s.pid('workers-short'))) process.kill(pid, 'SIGKILL');
  await going;
  await set({ tool_call_seconds: null });
  await eventually(async () => assert.notEqual((await read(x.c.id)).messages[1].runs[0].state, 'running'), 100);
  assert.equal((await read(x.c.id)).messages[1].runs[0].state, 'lost');
  mcp.how = { text: 'again' };
  assert.equal((await run(x.answer, x.calls[0], { allow: 'once' })).body.result, 'again');
});
