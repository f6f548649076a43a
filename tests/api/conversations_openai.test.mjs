// /v1/conversations: lists of items, for their owner alone, and responses that continue them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { events } from './answers.mjs';
import { lasting, order, start } from './harness.mjs';

let s, other;
before(async () => {
  s = await start({ fake: true });
  const name = 'bob', password = 'a long password of bob';
  assert.equal((await s.json('POST', '/api/users', { name, password, role: 'user' })).status, 201);
  const login = await s.request('POST', '/api/login', { name, password }, { authorization: null });
  const cookie = login.headers.getSetCookie().map((c) => c.split(';')[0]).join('; ');
  const { csrf } = await login.json();
  const { body } = await s.json('POST', '/api/keys', { name: 'k' }, { authorization: null, cookie, 'x-csrf-token': csrf });
  other = { authorization: `Bearer ${body.key}` };
});
after(() => s?.stop());

const URL = '/v1/conversations';
const begin = async (body = {}) => {
  const r = await s.json('POST', URL, body);
  assert.equal(r.status, 200, r.text);
  return r.body;
};
const ask = (body, headers) => s.json('POST', '/v1/responses', body, headers);
const say = (o) => order(o)[0].content;
const user = (text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const items = async (id, query = 'order=asc') => {
  const r = await s.json('GET', `${URL}/${id}/items?${query}`);
  assert.equal(r.status, 200, r.text);
  return r.body;
};
const texts = (list) => list.map((i) => i.content?.[0]?.text ?? i.type);
const counted = async (body) => {
  const r = await s.json('POST', '/v1/responses/input_tokens', body);
  assert.equal(r.status, 200, r.text);
  return r.body.input_tokens;
};

test('a conversation is made, read, changed and deleted', async () => {
  const c = await begin({ metadata: { topic: 'rain' }, items: [{ role: 'user', content: 'Hello' }] });
  assert.match(c.id, /^conv_[0-9a-f]{24}$/);
  assert.deepEqual({ ...c, id: 0, created_at: 0 }, { id: 0, object: 'conversation', created_at: 0, metadata: { topic: 'rain' } });
  assert.ok(Math.abs(c.created_at - Date.now() / 1000) < 100);
  assert.deepEqual((await s.json('GET', `${URL}/${c.id}`)).body, c);
  const changed = await s.json('POST', `${URL}/${c.id}`, { metadata: { topic: 'sun' } });
  assert.deepEqual(changed.body, { ...c, metadata: { topic: 'sun' } });
  assert.deepEqual((await s.json('POST', `${URL}/${c.id}`, { metadata: null })).body.metadata, {});
  assert.deepEqual((await s.json('DELETE', `${URL}/${c.id}`)).body, { id: c.id, object: 'conversation.deleted', deleted: true });
  for (const [method, path, body] of [['GET', ''], ['DELETE', ''], ['POST', '', { metadata: {} }], ['GET', '/items'], ['POST', '/items', { items: [user('x')] }],
    ['GET', '/items/msg_1'], ['DELETE', '/items/msg_1']])
    assert.equal((await s.json(method, `${URL}/${c.id}${path}`, body)).status, 404, `${method} ${path}`);
});

test('items are completed, keep their ids, and are listed in pages', async () => {
  const c = await begin();
  const added = await s.json('POST', `${URL}/${c.id}/items`, { items: [{ role: 'user', content: 'one' }, { ...user('two'), id: 'msg_mine' },
    { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: 'call_1', output: 'done' },
    { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }] });
  assert.equal(added.status, 200, added.text);
  const { data } = added.body;
  assert.deepEqual(data.map((i) => i.id.split('_')[0]), ['msg', 'msg', 'fc', 'fco', 'rs']);
  assert.deepEqual({ ...data[0], id: 0 }, { id: 0, type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text: 'one' }] });
  assert.equal(data[1].id, 'msg_mine');
  assert.deepEqual([data[2].status, data[3].status], ['completed', 'completed']);
  assert.deepEqual([added.body.object, added.body.first_id, added.body.last_id, added.body.has_more], ['list', data[0].id, data[4].id, false]);
  assert.deepEqual((await items(c.id, '')).data, data.toReversed(), 'the newest first, where nothing is said');
  const first = await items(c.id, 'order=asc&limit=2&include[]=message.output_text.logprobs');
  assert.deepEqual([first.data, first.has_more, first.last_id], [data.slice(0, 2), true, 'msg_mine']);
  assert.deepEqual((await items(c.id, `order=asc&limit=3&after=${first.last_id}`)).data, data.slice(2));
  assert.deepEqual((await items(c.id, 'order=desc&after=msg_mine')).data, [data[0]]);
  assert.deepEqual((await s.json('GET', `${URL}/${c.id}/items/msg_mine`)).body, data[1]);
  assert.deepEqual((await s.json('DELETE', `${URL}/${c.id}/items/msg_mine`)).body, c);
  assert.equal((await s.json('GET', `${URL}/${c.id}/items/msg_mine`)).status, 404);
  assert.equal((await items(c.id)).data.length, 4);
});

test('what cannot be kept is refused by name', async () => {
  const c = await begin({ items: [{ ...user('x'), id: 'msg_1' }] });
  const at = `${URL}/${c.id}`;
  for (const [path, body, param, word] of [[URL, { items: Array(21).fill(user('x')) }, 'items', '20'], [URL, { items: 'x' }, 'items'], [URL, { metadata: { a: 1 } }, 'metadata'],
    [URL, { items: [{ role: 'nobody', content: 'x' }] }, 'items[0].role'], [URL, { items: [5] }, 'items[0]'], [at, {}, 'metadata'], [at, { metadata: [] }, 'metadata'],
    [`${at}/items`, {}, 'items'], [`${at}/items`, { items: [] }, 'items'], [`${at}/items`, { items: [user('y'), { ...user('x'), id: 'msg_1' }] }, 'items[1].id', 'already'],
    [`${at}/items`, { items: [{ ...user('x'), id: 'm' }, { ...user('y'), id: 'm' }] }, 'items', "'m'"], [`${at}/items`, { items: [{ ...user('x'), id: 'm'.repeat(129) }] }, 'items[0].id'],
    [`${at}/items`, { items: [{ ...user('x'), id: '' }] }, 'items[0].id'],
    ['/v1/responses', { conversation: c.id, previous_response_id: 'resp_1', input: 'x' }, 'conversation', 'previous_response_id'], ['/v1/responses', { conversation: 5, input: 'x' }, 'conversation'],
    ['/v1/responses', { conversation: {}, input: 'x' }, 'conversation.id'], ['/v1/responses', { conversation: c.id, input: [{ ...user('x'), id: 'msg_1' }] }, 'input[0].id', 'already']]) {
    const r = await s.json('POST', path, body);
    assert.equal(r.status, 400, `${JSON.stringify(body).slice(0, 100)}: ${r.text}`);
    assert.equal(r.body.error.param, param, r.text);
    if (word) assert.ok(r.body.error.message.includes(word), r.text);
  }
  assert.equal((await s.json('GET', `${at}/items?after=nothing`)).body.error.param, 'after');
  assert.equal((await s.json('GET', `${at}/items?limit=101`)).body.error.param, 'limit');
  assert.equal((await s.json('GET', `${at}/items?order=up`)).body.error.param, 'order');
  const gone = await ask({ conversation: 'conv_nothing', input: 'x' });
  assert.deepEqual([gone.status, gone.body.error.param], [404, 'conversation']);
  assert.deepEqual((await items(c.id)).data.map((i) => i.id), ['msg_1'], 'nothing of it was kept');
  const odd = await s.json('POST', `${at}/items`, { items: [user('x')], colour: 'red' });
  assert.deepEqual([odd.status, odd.headers.get('x-sluice-ignored'), odd.body.warnings[0].field], [200, 'colour', 'colour']);
});

test('a response reads the conversation and adds to it', async () => {
  const c = await begin({ items: [user('My name is Ada.')] });
  const question = say({ text: '<think>\nHm.\n</think>\n\nHello Ada.' });
  assert.equal(await counted({ conversation: c.id, input: question }), await counted({ input: [user('My name is Ada.'), user(question)] }));
  const r = await ask({ conversation: c.id, input: question });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.body.conversation, { id: c.id });
  const { data } = await items(c.id);
  assert.deepEqual(texts(data.slice(0, 2)), ['My name is Ada.', question]);
  assert.deepEqual(data.slice(2), r.body.output, 'the items are those of the answer');
  const next = await ask({ conversation: { id: c.id }, input: 'And?', store: false });
  assert.deepEqual([next.status, next.body.store, next.body.conversation], [200, false, { id: c.id }], next.text);
  assert.equal((await items(c.id)).data.length, 4 + 1 + next.body.output.length, 'store does not concern the conversation');
  await s.json('POST', `${URL}/${c.id}/items`, { items: [user(say({ text: 'asked in the conversation' }))] });
  const alone = await ask({ conversation: c.id });
  assert.equal(alone.body.output?.at(-1).content[0].text, 'asked in the conversation', alone.text);
  assert.equal((await ask({ input: 'x' })).body.conversation, null);
  const empty = await begin();
  assert.equal((await ask({ conversation: empty.id })).body.error.param, 'input');
});

test('a stream adds when it is complete, and only then', async () => {
  const c = await begin();
  const run = async (o) => {
    const r = await s.request('POST', '/v1/responses', { conversation: c.id, stream: true, ...o });
    const list = [];
    for await (const { data } of events(r)) list.push(data);
    return list;
  };
  const list = await run({ input: say({ text: 'one two' }) });
  assert.deepEqual(list[0].response.conversation, { id: c.id });
  assert.deepEqual(list.at(-1).response.conversation, { id: c.id });
  assert.deepEqual((await items(c.id)).data.slice(1), list.at(-1).response.output);
  const failed = await run({ input: say({ text: 'one two three four', fail_after: 2 }) });
  assert.equal(failed.at(-1).type, 'response.failed');
  assert.equal((await items(c.id)).data.length, 2, 'what failed is not in it');
  const cut = await run({ input: say({ text: 'one two three four' }), max_output_tokens: 2 });
  assert.equal(cut.at(-1).type, 'response.incomplete');
  assert.equal((await items(c.id)).data.at(-1).status, 'incomplete');
});

test('a conversation that goes in the meantime: the answer says that nothing was added', async () => {
  const c = await begin();
  const r = await s.request('POST', '/v1/responses', { conversation: c.id, stream: true, input: say({ text: 'one two three four five six', token_ms: lasting(150) }) });
  let last, deleted = false;
  for await (const { data } of events(r)) {
    if (!deleted) deleted = (await s.json('DELETE', `${URL}/${c.id}`)).status === 200;
    last = data;
  }
  assert.equal(last.type, 'response.completed');
  assert.equal(last.response.conversation, null);
  assert.deepEqual(last.response.warnings.map((w) => w.field), ['conversation']);
  const next = await ask({ previous_response_id: last.response.id, input: 'x' });
  assert.deepEqual([next.status, next.body.error.code], [400, 'previous_response_not_found'], next.text);
});

test('answers at once do not mix', async () => {
  const c = await begin();
  const all = await Promise.all(Array.from({ length: 6 }, (_, i) => ask({ conversation: c.id, input: [user(`q${i}`), user(say({ text: `<think>\nt\n</think>\n\na${i}` }))] })));
  const { data } = await items(c.id, 'order=asc&limit=100');
  assert.equal(data.length, 24);
  for (let at = 0; at < 24; at += 4) {
    const i = Number(data[at].content[0].text.slice(1));
    assert.deepEqual(data.slice(at + 2, at + 4), all[i].body.output, 'an answer stands behind its own question');
  }
});

test('a kept response knows what came before it, though the conversation went on', async () => {
  const c = await begin({ items: [user('before')] });
  const first = await ask({ conversation: c.id, input: [user('asked')] });
  await ask({ conversation: c.id, input: 'later' });
  const given = (await s.json('GET', `/v1/responses/${first.body.id}/input_items?order=asc`)).body.data;
  assert.deepEqual(texts(given), ['before', 'asked']);
  const on = { previous_response_id: first.body.id, input: 'more' };
  assert.equal(await counted(on), await counted({ input: [user('before'), user('asked'), ...first.body.output, user('more')] }));
});

test('another user has no part in it', async () => {
  const c = await begin({ items: [{ ...user('secret'), id: 'msg_1' }] });
  const at = `${URL}/${c.id}`;
  for (const [method, path, body] of [['GET', at], ['POST', at, { metadata: {} }], ['DELETE', at], ['GET', `${at}/items`], ['POST', `${at}/items`, { items: [user('x')] }],
    ['GET', `${at}/items/msg_1`], ['DELETE', `${at}/items/msg_1`], ['POST', '/v1/responses', { conversation: c.id, input: 'x' }],
    ['POST', '/v1/responses/compact', { conversation: c.id }]]) {
    const r = await s.json(method, path, body, other);
    assert.equal(r.status, 404, `${method} ${path}: ${r.text}`);
    assert.ok(!r.text.includes('secret'));
  }
  assert.deepEqual((await items(c.id)).data.length, 1);
});

test('a conversation with an image is read, and the model is told of it', async () => {
  const image = { type: 'message', role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] };
  const c = await begin({ items: [image] });
  const r = await ask({ conversation: c.id, input: 'What was it?' });
  assert.equal(r.status, 200, r.text);
  assert.ok(r.body.warnings.some((w) => w.field === 'input[0].content'), r.text);
});
