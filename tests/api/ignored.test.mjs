// Parameters of other servers: each is done, or named as ignored in the answer; only strict servers and keys refuse them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CLIENT_FIELDS, clientField } from './client_fields.mjs';
import { documented, fieldTable, line } from './field_table.mjs';
import { start } from './harness.mjs';

let s;
before(async () => {
  s = await start({ fake: true });
  CLIENT_FIELDS.conversation = (await s.json('POST', '/v1/conversations', {})).body.id; // one that is kept here
});
after(() => s?.stop());

const user = [{ role: 'user', content: 'hi' }];
const BODIES = {
  chat: ['/v1/chat/completions', { messages: user, max_tokens: 8 }],
  completions: ['/v1/completions', { prompt: 'hi', max_tokens: 8 }],
  responses: ['/v1/responses', { input: 'hi', max_output_tokens: 16 }],
  messages: ['/v1/messages', { messages: user, max_tokens: 8 }],
  llamacpp: ['/completion', { prompt: 'hi', n_predict: 8 }],
  'Ollama chat': ['/api/chat', { messages: user, stream: false }],
  'Ollama generate': ['/api/generate', { prompt: 'hi', stream: false }],
};
const sample = (name) => (name in CLIENT_FIELDS ? CLIENT_FIELDS[name] : 1);
const send = (endpoint, change, headers) => s.json('POST', BODIES[endpoint][0], { ...BODIES[endpoint][1], ...change }, headers);
const ignored = (r) => (r.headers.get('x-sluice-ignored') || '').split(', ').filter(Boolean);

test('docs/API-fields.md is what the tables in C say', () => {
  const table = fieldTable();
  assert.ok(table.length > 200, `${table.length} fields`);
  assert.deepEqual(documented(), table.map(line)); // made by: node tests/api/field_table.mjs
});

for (const endpoint of Object.keys(BODIES)) {
  test(`each ignored field of ${endpoint} is taken and named`, async () => {
    for (const row of fieldTable().filter((f) => f[endpoint] === 'ignored')) {
      const r = await send(endpoint, { [row.name]: sample(row.name) });
      assert.equal(r.status, 200, `${row.name}: ${r.text}`);
      assert.deepEqual(ignored(r), [row.name], r.text);
      assert.equal(r.body.warnings.length, 1);
      assert.equal(r.body.warnings[0].field, row.name);
      assert.match(r.body.warnings[0].message, /^ignored: [a-z/].{8,}/);
    }
  });
}

for (const endpoint of Object.keys(BODIES)) {
  test(`what clients of other servers send is no error in ${endpoint}: done, or named`, async () => {
    const table = new Map(fieldTable().map((f) => [f.name, f[endpoint]]));
    assert.ok(Object.keys(CLIENT_FIELDS).length > 150);
    for (const name of Object.keys(CLIENT_FIELDS)) {
      const change = clientField(endpoint, name), r = await send(endpoint, change);
      assert.equal(r.status, 200, `${name}: ${r.text}`);
      if (table.get(name) === 'ignored' || !table.has(name)) assert.ok(ignored(r).includes(name), `${name} is dropped in silence: ${r.text}`);
      else assert.deepEqual(ignored(r).filter((f) => !f.startsWith(name)), [], name); // a part of it may be, or a value
    }
  });
}

test('what counts tokens takes the whole request that it counts for', async () => {
  for (const [endpoint, path] of [['messages', '/v1/messages/count_tokens'], ['responses', '/v1/responses/input_tokens']]) {
    for (const name of Object.keys(CLIENT_FIELDS)) {
      const r = await s.json('POST', path, { ...BODIES[endpoint][1], ...clientField(endpoint, name) });
      assert.equal(r.status, 200, `${name}: ${r.text}`);
      assert.ok(r.body.input_tokens > 0);
    }
  }
});

test('a null asks for nothing; what nobody knows is named as well', async () => {
  for (const endpoint of Object.keys(BODIES)) {
    const none = await send(endpoint, { top_a: null, nonsense: null, temperature: null });
    assert.equal(none.status, 200, none.text);
    assert.deepEqual([ignored(none), none.body.warnings], [[], undefined]);
    const r = await send(endpoint, { nonsense: { deep: [1] }, 'a,b\r\nSet-Cookie: x': 1 });
    assert.deepEqual(ignored(r), ['nonsense', 'a?b??Set-Cookie:?x']);
    assert.equal(r.headers.get('set-cookie'), null);
  }
});

test('a thousand unknown fields are counted, not listed', async () => {
  const r = await send('chat', Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`field_${i}`, i])));
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.warnings.length, 49);
  assert.equal(r.body.warnings[48].message, '952 more fields were ignored');
});

test('a stream names them in its first event', async () => {
  const first = async (path, body) => {
    const r = await fetch(s.url + path, { method: 'POST', headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true, mirostat: 2 }) });
    assert.equal(r.headers.get('x-sluice-ignored'), 'mirostat');
    const events = (await r.text()).split('\n').filter((l) => /^(data: )?\{/.test(l)).map((l) => JSON.parse(l.replace('data: ', '')));
    return [events[0], events.slice(1)];
  };
  for (const endpoint of Object.keys(BODIES)) {
    const [event, others] = await first(...BODIES[endpoint]);
    const where = endpoint.startsWith('Ollama') ? event : event.message ?? event.response ?? event;
    assert.equal(where.warnings[0].field, 'mirostat', JSON.stringify(event));
    if (endpoint !== 'responses') assert.ok(others.every((e) => !e.warnings)); // its later events hold the response again
  }
});

test('usage comes with every chunk where it is asked for, and grows to the whole', async () => {
  for (const endpoint of ['chat', 'completions']) {
    const [path, body] = BODIES[endpoint];
    const r = await fetch(s.url + path, { method: 'POST', headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } }) });
    const events = (await r.text()).split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
    const counts = events.map((e) => e.usage.completion_tokens), last = events.at(-1);
    assert.equal(last.choices.length, 0);
    assert.deepEqual(counts, [...counts].sort((a, b) => a - b));
    assert.ok(counts.at(-1) > 0 && events.at(-2).usage.completion_tokens === counts.at(-1));
    assert.ok(events.every((e) => e.usage.prompt_tokens === last.usage.prompt_tokens));
  }
  const r = await send('chat', { stream: true, stream_options: { nonsense: 1 } });
  assert.deepEqual(ignored(r), ['stream_options.nonsense']);
});

test('a strict server, and a strict key, refuse what they would ignore', async () => {
  const key = await s.json('POST', '/api/keys', { name: 'strict', strict_parameters: true });
  assert.equal(key.body.strict_parameters, true, key.text);
  const strict = { authorization: `Bearer ${key.body.key}` };
  const refused = async (change, code, headers) => {
    for (const endpoint of ['chat', 'completions', 'responses']) {
      const r = await send(endpoint, change, headers);
      assert.deepEqual([r.status, r.body.error.param, r.body.error.code], [400, Object.keys(change)[0], code], r.text);
    }
    const r = await send('messages', change, headers);
    assert.equal(r.status, 400, r.text);
    assert.ok(r.body.error.message.startsWith(`${Object.keys(change)[0]}: `), r.text);
    const lines = await send('Ollama chat', change, headers);
    assert.ok(lines.status === 400 && lines.body.error.startsWith(`${Object.keys(change)[0]}: `), lines.text);
  };
  await refused({ mirostat: 2 }, 'unsupported_parameter', strict);
  await refused({ nonsense: 1 }, 'unknown_parameter', strict);
  assert.equal((await send('chat', { user: 'u', reasoning_effort: null }, strict)).status, 200);
  assert.equal((await send('chat', { mirostat: 2 })).status, 200);
  const loosened = await s.json('PATCH', `/api/keys/${key.body.id}`, { strict_parameters: false });
  assert.equal(loosened.body.strict_parameters, false, loosened.text);
  assert.equal((await send('chat', { mirostat: 2 }, strict)).status, 200);

  assert.equal((await s.json('PATCH', '/api/admin/settings', { strict_parameters: true })).status, 200);
  await refused({ mirostat: 2 }, 'unsupported_parameter');
  await s.json('PATCH', '/api/admin/settings', { strict_parameters: null });
  assert.equal((await send('chat', { mirostat: 2 })).status, 200);
});

test('effort and thinking are obeyed, clamped or named, never refused', async () => {
  const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];
  for (const effort of efforts) {
    for (const [endpoint, change] of [['chat', { reasoning_effort: effort }], ['chat', { reasoning: { effort } }], ['chat', { think: effort }],
      ['responses', { reasoning: { effort, summary: 'auto' } }], ['messages', { output_config: { effort } }]]) {
      const r = await send(endpoint, change);
      assert.equal(r.status, 200, `${effort}: ${r.text}`);
      assert.ok(effort === 'none' || r.body.warnings?.length === 1, `${effort} in ${endpoint}: ${r.text}`);
    }
  }
  for (const change of [{ thinking: { type: 'enabled', budget_tokens: 2000 } }, { thinking: { type: 'adaptive' } }, { thinking: { type: 'disabled' } },
    { thinking: true }, { think: false }, { enable_thinking: true }]) assert.equal((await send('chat', change)).status, 200, JSON.stringify(change));
  for (const [field, change] of [['reasoning_effort', { reasoning_effort: 'huge' }], ['reasoning_effort', { reasoning_effort: 5 }],
    ['thinking', { thinking: 'yes' }], ['thinking.type', { thinking: { type: 'often' } }], ['think', { think: {} }], ['reasoning', { reasoning: 'low' }],
    ['reasoning.effort', { reasoning: { effort: 5 } }]]) {
    const r = await send('chat', change);
    assert.deepEqual([r.status, r.body.error.param], [400, field], r.text);
  }
});
