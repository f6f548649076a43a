// The prompt cache is a user's own: the same prompt of another user is computed anew, and nothing that a client sees
// (counts, progress, other endpoints) tells that it was there. cache_salt parts a user's own requests, and no more.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s, ada, bob;
before(async () => {
  s = await start();
  ada = s.key;
  bob = await otherUser('bob');
});
after(() => s?.stop());

async function otherUser(name) {
  const password = 'a long password';
  assert.equal((await s.json('POST', '/api/users', { name, password })).status, 201);
  const login = await s.json('POST', '/api/login', { name, password }, { authorization: null });
  const cookie = login.headers.get('set-cookie').split(';')[0];
  return (await s.json('POST', '/api/keys', { name: 'mine' }, { authorization: null, cookie, 'x-csrf-token': login.body.csrf })).body.key;
}

let nonce = 0;
/** A prompt of several cache blocks that nobody has sent before. */
const secret = () => `Case ${++nonce}: ${`the patient number ${nonce} was seen on day ${nonce * 7}; `.repeat(12)}`;
const chat = async (key, content, more = {}) => {
  const r = await s.chat({ messages: [{ role: 'user', content }], max_tokens: 2, temperature: 0, ...more }, { authorization: `Bearer ${key}` });
  assert.equal(r.status, 200, r.text);
  return r.body;
};
const cached = async (...a) => (await chat(...a)).usage.prompt_tokens_details.cached_tokens;
/** Prompt tokens that the engine computed for what `fn` does: the truth behind any timing. */
async function computed(fn) {
  const before = await s.metric('prefill_tokens_total');
  await fn();
  return await s.metric('prefill_tokens_total') - before;
}

test('one\'s own prompt is found again, with any of one\'s keys', async () => {
  const text = secret();
  const { body: second } = await s.json('POST', '/api/keys', { name: 'second' });
  assert.equal(await cached(ada, text), 0);
  assert.ok(await cached(ada, text) > 50);
  assert.ok(await cached(second.key, text) > 50);
});

test('a key that may not read the user\'s chats finds nothing of them, as prompt or by drafts', async () => {
  const text = secret();
  const { body: narrow } = await s.json('POST', '/api/keys', { name: 'narrow', scopes: ['inference'] });
  await chat(ada, text);
  assert.equal(await cached(narrow.key, text), 0);
  assert.ok(await cached(narrow.key, text) > 50, 'its own');
  assert.equal(await cached(narrow.key, text, { cache_salt: 'x' }), 0);
});

test('another\'s is not: no count says so, and all of it is computed', async () => {
  const text = secret();
  await chat(ada, text);
  let answer;
  const work = await computed(async () => { answer = await chat(bob, text); });
  assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 0);
  assert.equal(work, answer.usage.prompt_tokens, 'as many tokens as for a prompt that nobody sent');
  assert.ok(await cached(bob, text) > 50, 'now it is bob\'s own');
});

test('two users who hammer equal prompts at once hit nothing of each other\'s', async () => {
  const texts = Array.from({ length: 8 }, secret);
  const work = await computed(async () => {
    const both = await Promise.all([ada, bob].map((who) => Promise.all(texts.map((text) => chat(who, text)))));
    assert.deepEqual(both.flat().map((a) => a.usage.prompt_tokens_details.cached_tokens > 32), Array(16).fill(false), 'more than the template\'s beginning');
    assert.deepEqual(both[0].map((a) => a.choices[0].message.content), both[1].map((a) => a.choices[0].message.content));
  });
  const again = await chat(ada, texts[0]);
  assert.ok(work >= 16 * (again.usage.prompt_tokens - 64), `${work} tokens computed`);
});

test('nor by the other endpoints, nor by a stream\'s progress', async () => {
  const text = secret();
  const asBob = { authorization: `Bearer ${bob}` };
  await chat(ada, text);
  await s.json('POST', '/v1/completions', { prompt: text, max_tokens: 1 });
  const completion = await s.json('POST', '/v1/completions', { prompt: text, max_tokens: 1 }, asBob);
  assert.equal(completion.body.usage.prompt_tokens_details.cached_tokens, 0);
  const message = await s.json('POST', '/v1/messages', { max_tokens: 1, messages: [{ role: 'user', content: text }] }, asBob);
  assert.equal(message.body.usage.cache_read_input_tokens, 0, message.text);
  const other = secret();
  await chat(ada, other);
  const r = await s.request('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: other }], max_tokens: 1, stream: true,
    stream_options: { include_usage: true } }, asBob);
  const raw = await r.text();
  assert.match(raw, /"cached_tokens":0/);
  assert.doesNotMatch(raw, /"cached(_tokens)?":[1-9]/);
});

test('the page\'s chats are the user\'s own as well', async () => {
  const text = secret();
  await chat(ada, text);
  const c = await s.json('POST', '/api/conversations', { settings: { max_tokens: 2 } }, { authorization: `Bearer ${bob}` });
  const r = await s.request('POST', `/api/conversations/${c.body.id}/messages`, { content: text }, { authorization: `Bearer ${bob}` });
  const raw = await r.text();
  assert.match(raw, /event: done/);
  assert.match(raw, /"cached_tokens":0/);
});

test('cache_salt parts one\'s own requests, and joins nobody else\'s', async () => {
  const text = secret();
  assert.equal(await cached(ada, text, { cache_salt: 'project x' }), 0);
  assert.ok(await cached(ada, text, { cache_salt: 'project x' }) > 50);
  assert.equal(await cached(ada, text), 0, 'without salt');
  assert.equal(await cached(ada, text, { cache_salt: 'project y' }), 0, 'another salt');
  assert.equal(await cached(bob, text, { cache_salt: 'project x' }), 0, 'the same salt of another user');
  for (const salt of ['', '1', 'user:1', '1:project x', 'project x\u0001'])
    assert.equal(await cached(bob, text, { cache_salt: salt }), 0, `no salt reaches over: ${JSON.stringify(salt)}`);
});
