// Changing a conversation by hand: an answer's edited text beside it, one message taken out from between two others.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const order = (o) => `fake:${JSON.stringify(o)}`;
const make = async () => (await s.json('POST', '/api/conversations', {})).body;
const post = async (id, body) => (await follow(await s.request('POST', `/api/conversations/${id}/messages`, body))).last.message;
const read = async (id) => (await s.json('GET', `/api/conversations/${id}`)).body;
const version = (id, body) => s.json('POST', `/api/messages/${id}/versions`, body);
const takeOut = (id) => s.request('DELETE', `/api/messages/${id}?below=keep`);

test('an edited answer stands beside the one it was made of, is shown, found, and continued from', async () => {
  const c = await make();
  const one = await post(c.id, { content: order({ text: 'Bonn.' }) });
  const made = await version(one.id, { content: 'Berlin quokka.' });
  assert.equal(made.status, 201);
  assert.deepEqual([made.body.parent_id, made.body.role, made.body.status, made.body.content, made.body.model], [one.parent_id, 'assistant', 'done', 'Berlin quokka.', one.model]);
  const now = await read(c.id);
  assert.equal(now.leaf_id, made.body.id);
  assert.equal(now.messages.find((m) => m.id === one.id).content, 'Bonn.');
  assert.deepEqual((await s.json('GET', '/api/conversations?q=quokka')).body.items.map((i) => i.id), [c.id]);
  const next = await post(c.id, { content: order({ text: 'Yes.' }), parent_id: made.body.id });
  assert.equal(next.content, 'Yes.');
});

test('what cannot be edited is refused, with the field', async () => {
  const c = await make();
  const one = await post(c.id, { content: order({ text: 'x' }) });
  for (const [body, param] of [[{}, 'content'], [{ content: '' }, 'content'], [{ content: 5 }, 'content'], [{ content: 'x', bogus: 1 }, 'bogus']]) {
    const r = await version(one.id, body);
    assert.deepEqual([r.status, r.body.error.param], [400, param], JSON.stringify(body));
  }
  assert.equal((await version(one.parent_id, { content: 'x' })).status, 409, 'a question');
  assert.equal((await version('999999', { content: 'x' })).status, 404);
  assert.equal((await read(c.id)).messages.length, 2);
});

test('a message is taken out alone: what was below it follows what was above it, and the chat goes on', async () => {
  const c = await make();
  const one = await post(c.id, { content: order({ text: 'One.' }) });
  const two = await post(c.id, { content: order({ text: 'Two.' }), parent_id: one.id });
  assert.equal((await takeOut(one.id)).status, 204);
  const now = await read(c.id);
  assert.deepEqual(now.messages.map((m) => m.role), ['user', 'user', 'assistant']);
  assert.equal(now.messages[1].parent_id, one.parent_id);
  assert.equal(now.leaf_id, two.id);
  assert.equal((await post(c.id, { content: order({ text: 'Three.' }), parent_id: two.id })).content, 'Three.');
  assert.equal((await takeOut(one.id)).status, 404, 'it is gone');
});

test('after the last answer was deleted the chat goes on from its question', async () => {
  const c = await make();
  const one = await post(c.id, { content: order({ text: 'One.' }) });
  const twice = await s.json('POST', `/api/conversations/${c.id}/messages`, { content: 'again', parent_id: one.parent_id });
  assert.deepEqual([twice.status, twice.body.error.param], [400, 'parent_id'], 'a question that has an answer');
  assert.equal((await s.request('DELETE', `/api/messages/${one.id}`)).status, 204);
  const left = await read(c.id);
  assert.equal(left.leaf_id, one.parent_id);
  const two = await post(c.id, { content: order({ text: 'Two.' }), parent_id: left.leaf_id });
  assert.equal(two.content, 'Two.');
  assert.deepEqual((await read(c.id)).messages.map((m) => m.role), ['user', 'user', 'assistant']);
});

test('what belongs together goes together', async () => {
  const c = await make();
  const one = await post(c.id, { content: order({ text: 'One.' }) });
  assert.equal((await takeOut(one.parent_id)).status, 409, 'the first question');
  assert.equal((await s.json('DELETE', `/api/messages/${one.id}?below=maybe`)).body.error.param, 'below');
  assert.equal((await takeOut(one.id)).status, 204);
  const now = await read(c.id);
  assert.deepEqual([now.messages.length, now.leaf_id], [1, one.parent_id]);
});
