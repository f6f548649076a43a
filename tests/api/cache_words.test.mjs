// What clients say of the prompt cache in OpenAI's and Anthropic's words reaches the job, and what the engine counted reaches the
// client: over a scripted engine, whose answers are what the job says.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s, chat, anthropic;
before(async () => {
  s = await start({ fake: true });
  chat = async (say, more = {}) => s.chat({ messages: order(say), ...more });
  anthropic = async (say, more = {}) => s.json('POST', '/v1/messages', { model: 'demo-model', max_tokens: 100, messages: order(say), ...more });
});
after(() => s?.stop());

const said = async (more) => {
  const r = await chat({ say_cache: true }, more);
  assert.equal(r.status, 200, r.text);
  assert.ok(!(r.body.warnings || []).some((w) => /^prompt_cache_(key|retention)$/.test(w.field)), r.text);
  return r.body.choices[0].message.content;
};

test('prompt_cache_retention says how long blocks are kept on disk', async () => {
  assert.match(await said({}), /^owner= keep=0 /);
  assert.match(await said({ prompt_cache_retention: '24h' }), / keep=86400 /);
  assert.match(await said({ prompt_cache_retention: 'in_memory' }), / keep=-1 /);
  assert.match(await said({ prompt_cache_retention: 'in-memory' }), / keep=-1 /);
  assert.match(await said({ prompt_cache_retention: null }), / keep=0 /);
  for (const [field, value] of [['prompt_cache_retention', '7d'], ['prompt_cache_retention', 5], ['prompt_cache_key', 5], ['prompt_cache_key', {}]]) {
    const bad = await chat({}, { [field]: value });
    assert.deepEqual([bad.status, bad.body.error.param], [400, field]);
  }
});

test('prompt_cache_key labels the blocks and changes no scope', async () => {
  const [a, b, plain] = [await said({ prompt_cache_key: 'project a' }), await said({ prompt_cache_key: 'project b' }), await said({})];
  assert.match(a, /^owner=k:[0-9a-f]{16} /);
  assert.notEqual(a, b);
  const scope = (text) => /scope=(\S+)/.exec(text)[1];
  assert.equal(scope(a), scope(plain));
  assert.match(await said({ prompt_cache_key: '' }), /^owner= /);
  const r = await s.json('POST', '/v1/responses', { input: order({ say_cache: true }), prompt_cache_key: 'project a', prompt_cache_retention: '24h' });
  assert.equal(r.body.output.at(-1).content[0].text, a.replace('owner=k', `owner=${r.body.id}`).replace('keep=0', 'keep=86400'));
  const unnamed = await s.json('POST', '/v1/responses', { input: order({ say_cache: true }) });
  assert.match(unnamed.body.output.at(-1).content[0].text, new RegExp(`^owner=${unnamed.body.id} `));
  const unkept = await s.json('POST', '/v1/responses', { input: order({ say_cache: true }), store: false });
  assert.match(unkept.body.output.at(-1).content[0].text, /^owner= /);
});

test('where cached tokens came from stands in usage and timings', async () => {
  const figures = { cached: 96, from_ram: 32, from_disk: 40 }, from = { device: 24, ram: 32, disk: 40 };
  const r = await chat(figures);
  assert.deepEqual(r.body.usage.prompt_tokens_details, { cached_tokens: 96, cached_from: from });
  assert.deepEqual(r.body.timings.cache, { from, read_bytes: 40000, ms: 0, miss: 'unknown' });
  const response = await s.json('POST', '/v1/responses', { input: order(figures) });
  assert.deepEqual(response.body.usage.input_tokens_details, { cached_tokens: 96, cache_write_tokens: 0, cached_from: from });
});

test('cache_control: what was created is counted, and its ttl holds', async () => {
  const text = (r) => r.body.content[0].text;
  const mark = (ttl) => ({ cache_control: ttl ? { type: 'ephemeral', ttl } : { type: 'ephemeral' } });
  const long = [{ type: 'text', text: 'word '.repeat(200), ...mark('5m') }];
  const plain = await anthropic({ cached: 32 }, { system: 'word '.repeat(200) });
  const all = plain.body.usage.input_tokens + 32;
  assert.equal(plain.body.usage.cache_creation_input_tokens, 0, 'nobody asked');
  assert.equal(plain.body.usage.cache_read_input_tokens, 32);
  const r = await anthropic({ cached: 32 }, { system: long });
  const u = r.body.usage;
  assert.equal(u.cache_read_input_tokens, 32);
  assert.ok(u.cache_creation_input_tokens >= 100 && u.cache_creation_input_tokens % 32 === 0, JSON.stringify(u));
  assert.equal(u.input_tokens + u.cache_creation_input_tokens + u.cache_read_input_tokens, all);
  assert.deepEqual(u.cache_creation, { ephemeral_5m_input_tokens: u.cache_creation_input_tokens, ephemeral_1h_input_tokens: 0 });
  const keep = async (more, messages) => /keep=(-?\d+)/.exec(text(await anthropic({ say_cache: true }, messages ? { ...more, messages } : more)))[1];
  assert.equal(await keep({ system: long }), '300');
  assert.equal(await keep({ system: long, tools: [{ name: 'f', input_schema: { type: 'object' }, ...mark('1h') }] }), '3600', 'the longest');
  assert.equal(await keep({ system: long, ...mark() }), '0', 'as long as there is room');
  assert.equal(await keep({}, [{ role: 'user', content: [{ type: 'text', text: order({ say_cache: true })[0].content, ...mark('1h') }] }]), '3600');
});

test('a wrong cache_control is refused by its place', async () => {
  const user = (block) => [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: block }] }];
  for (const [more, field] of [[{ cache_control: { type: 'ephemeral', ttl: '2h' } }, 'cache_control.ttl'], [{ cache_control: 5 }, 'cache_control'],
    [{ system: [{ type: 'text', text: 'x', cache_control: { type: 'forever' } }] }, 'system[0].cache_control.type'],
    [{ messages: user({ type: 'ephemeral', ttl: 5 }) }, 'messages[0].content[0].cache_control.ttl'],
    [{ messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x', cache_control: {} }] }] }] }, 'messages[0].content[0].content[0].cache_control.type'],
    [{ tools: [{ name: 'f', input_schema: {}, cache_control: { type: 'ephemeral', ttl: '' } }] }, 'tools[0].cache_control.ttl']]) {
    const r = await anthropic({}, more);
    assert.equal(r.status, 400, r.text);
    assert.ok(r.body.error.message.startsWith(`${field}: `), r.body.error.message);
  }
  const inside = await anthropic({}, { messages: [{ role: 'user', content: 'x' }, { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: { cache_control: 5 } }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'y' }] }] });
  assert.equal(inside.status, 200, 'a tool\'s input is its own');
});

test('what is kept can be asked for and forgotten, and is nobody else\'s', async () => {
  const made = await s.json('POST', '/api/conversations', {});
  const path = `/api/conversations/${made.body.id}/prompt-cache`;
  assert.deepEqual((await s.json('GET', path)).body, { tokens: 0, bytes: 0 });
  assert.deepEqual((await s.json('DELETE', path)).body, { forgotten_tokens: 0 });
  assert.equal((await s.json('GET', '/api/conversations/999/prompt-cache')).status, 404);
  assert.equal((await s.json('DELETE', '/api/conversations/999/prompt-cache')).status, 404);
  assert.deepEqual((await s.json('GET', '/api/prompt-cache')).body, { tokens: 0, bytes: 0 });
  assert.deepEqual((await s.json('DELETE', '/api/prompt-cache?key=a')).body, { forgotten_tokens: 0 });
  assert.equal((await s.json('DELETE', '/api/prompt-cache?key=')).status, 400);
});
