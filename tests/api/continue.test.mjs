// An answer that ended early is gone on with: on the real engine, greedily, it becomes what it would have been uncut.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, start } from './harness.mjs';

let s;
before(async () => { s = await start({ args: ['--threads', '1'] }); });
after(() => s?.stop());

const endless = '1 2 3 4 5 6 7 8 9 10 11 12'; // greedily, the demo model counts on and on
const BLOCK = 32; // tokens of the prefix cache
const greedy = { temperature: 0, max_tokens: 60 };
const make = async (settings) => (await s.json('POST', '/api/conversations', { settings })).body.id;
const post = (id, body, onEvent) => s.request('POST', `/api/conversations/${id}/messages`, body).then((r) => follow(r, onEvent));
const refused = (id, body) => s.json('POST', `/api/conversations/${id}/messages`, body);
const text = (m) => `${m.reasoning}|${m.content}`;

for (const thinking of [false, true]) {
  test(`cut at any token it goes on as if it had not been cut (thinking: ${thinking})`, async () => {
    const whole = (await post(await make({ ...greedy, thinking }), { content: endless })).last.message;
    assert.equal(whole.status, 'length');
    assert.equal(whole.usage.completion_tokens, 60);
    for (const at of [1, 17, 33]) {
      const id = await make({ ...greedy, thinking, max_tokens: at });
      const first = (await post(id, { content: endless })).last.message;
      assert.equal(first.status, 'length');
      const out = await post(id, { continue: first.id, settings: { max_tokens: 60 - at } });
      const m = out.last.message;
      assert.equal(out.start.message.id, first.id, 'the same row goes on');
      assert.equal(out.start.user_message, null);
      assert.equal(text(m), text(whole), `cut at ${at}`);
      assert.equal(`${out.reasoning}|${out.content}`, text(whole), 'the stream gives all of it, from the beginning');
      assert.equal(out.n, 60);
      assert.equal(m.usage.prompt_tokens, first.usage.prompt_tokens + at, 'the same prefix, then the tokens so far');
      assert.equal(m.usage.completion_tokens, 60 - at);
      assert.equal(m.timings.earlier_tokens, at);
      assert.equal(m.usage.cached_tokens, Math.floor((first.usage.prompt_tokens + at - 1) / BLOCK) * BLOCK, 'from the cache, in whole blocks');
      const stored = (await s.json('GET', `/api/conversations/${id}`)).body;
      assert.equal(stored.messages.length, 2);
      assert.deepEqual(stored.messages[1], m);
    }
  });
}

test('stopped twice, gone on with twice; searched by its new text; counted once each', async () => {
  const id = await make({ temperature: 0, max_tokens: 3000, thinking: false });
  const before = (await s.json('GET', '/api/usage')).body.total.completion_tokens;
  const stop = async ({ data, out }) => {
    if (out.n > 20 && !out.asked) { out.asked = true; await s.request('POST', `/api/messages/${out.start.message.id}/stop`); }
    return data === null;
  };
  const first = (await post(id, { content: endless }, stop)).last.message;
  assert.equal(first.status, 'stopped');
  const second = (await post(id, { continue: first.id, settings: { max_tokens: 25 } })).last.message;
  assert.equal(second.status, 'length');
  assert.ok(text(second).startsWith(text(first)));
  const third = (await post(id, { continue: first.id, settings: { max_tokens: 10 } })).last.message;
  assert.ok(text(third).startsWith(text(second)) && text(third).length > text(second).length);
  const sum = [first, second, third].reduce((n, m) => n + m.usage.completion_tokens, 0);
  assert.equal(third.timings.earlier_tokens + third.usage.completion_tokens, sum);
  assert.equal((await s.json('GET', '/api/usage')).body.total.completion_tokens - before, sum);
  const tail = third.content.slice(-12).trim();
  const found = (await s.json('GET', `/api/conversations?q=${encodeURIComponent(tail)}`)).body.items;
  assert.ok(found.some((c) => c.id === id), `'${tail}' is found`);
});

test('the engine dies in mid-answer: what was written is gone on with', async () => {
  const id = await make({ temperature: 0, max_tokens: 400, thinking: false });
  const whole = (await post(await make({ temperature: 0, max_tokens: 400, thinking: false }), { content: endless })).last.message;
  let killed;
  const out = await post(id, { content: endless }, ({ out: o }) => {
    if (o.n > 30 && !killed) { killed = true; process.kill(s.pid('engine'), 'SIGKILL'); }
    return false;
  });
  const message = out.start.message.id;
  assert.equal(out.names.at(-1), 'error');
  await s.ready();
  const status = await eventually(async () => {
    const { status: now } = (await s.json('GET', `/api/conversations/${id}`)).body.messages[1];
    assert.notEqual(now, 'running');
    return now;
  });
  assert.notEqual(status, 'done');
  const m = (await post(id, { continue: message })).last.message;
  assert.ok(text(m).startsWith(text(whole).slice(0, 200)), text(m).slice(0, 300));
});

test('where the tokens are not known, the text is set as the model would have', async () => {
  for (const thinking of [false, true]) {
    const whole = (await post(await make({ ...greedy, thinking }), { content: endless })).last.message;
    const id = await make({ ...greedy, thinking, max_tokens: 30 });
    const first = (await post(id, { content: endless })).last.message;
    const copy = (await s.json('POST', `/api/conversations/${id}/fork`, { from_message_id: first.id })).body; // copies no tokens
    const m = (await post(copy.id, { continue: copy.leaf_id, settings: { max_tokens: 20 } })).last.message;
    assert.ok(text(m).startsWith(text(first).replace(/\s*\|?\s*$/, '')), `${text(first)} -> ${text(m)}`);
    assert.equal(m.status, 'length');
    assert.ok(m.timings.earlier_tokens > 0 && text(m).length > text(first).length);
    const again = (await post(copy.id, { continue: copy.leaf_id, settings: { max_tokens: 5 } })).last.message; // now they are
    assert.equal(again.timings.earlier_tokens, m.timings.earlier_tokens + 20);
    assert.ok(text(again).startsWith(text(m)) && whole.status === 'length');
  }
});

test('what can not be gone on with is refused in words', async () => {
  const id = await make(greedy);
  const first = (await post(id, { content: endless, settings: { max_tokens: 5 } })).last.message;
  const user = (await s.json('GET', `/api/conversations/${id}`)).body.messages[0];
  assert.equal((await refused(id, { continue: user.id })).status, 400);
  assert.equal((await refused(id, { continue: '999999' })).status, 400);
  assert.equal((await refused(id, { continue: first.id, content: 'x' })).status, 400);
  const other = await make(greedy);
  assert.equal((await refused(other, { continue: first.id })).status, 400, 'of another conversation');
  await post(id, { content: 'and then?', settings: { max_tokens: 3 } });
  assert.equal((await refused(id, { continue: first.id })).status, 409, 'something follows it');
  const done = (await post(other, { content: 'Hello' })).last.message;
  if (done.status === 'done') assert.equal((await refused(other, { continue: done.id })).status, 409);
  const held = await make({ temperature: 0, json_schema: { type: 'array', items: { type: 'integer' }, minItems: 200 } });
  const cut = (await post(held, { content: 'numbers', settings: { max_tokens: 12, thinking: false } })).last.message;
  assert.equal(cut.status, 'length');
  const why = await refused(held, { continue: cut.id });
  assert.equal(why.status, 400);
  assert.match(why.body.error.message, /schema/);
});
