// A streamed chat: one id, role first, one finish_reason, usage last, [DONE] always, LF framing, whole UTF-8.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { joined, order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const text = 'Grüße, 世界! 🦉 and a line\nbreak "quoted" \\ done\u2028.';

test('chunks carry one id, the role first and one finish_reason', async () => {
  const r = await s.stream({ messages: order({ text }) });
  assert.equal(r.status, 200);
  assert.equal(r.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  assert.equal(r.headers.get('cache-control'), 'no-cache, no-transform');
  assert.match(r.headers.get('x-request-id'), /^req_[0-9a-f]{24}$/);
  assert.equal(new Set(r.chunks.map((c) => c.id)).size, 1);
  assert.equal(new Set(r.chunks.map((c) => c.created)).size, 1);
  assert.ok(r.chunks.every((c) => c.object === 'chat.completion.chunk' && c.model === 'demo-model'));
  assert.equal(r.chunks[0].choices[0].delta.role, 'assistant');
  assert.ok(r.chunks.slice(1).every((c) => c.choices[0].delta.role === undefined));
  const j = joined(r.chunks);
  assert.equal(j.content, text);
  assert.deepEqual(j.finish, ['stop']);
  assert.equal(r.chunks.at(-1).choices[0].finish_reason, 'stop');
  assert.ok(r.done);
  assert.equal(r.rest, '');
  assert.ok(!r.raw.includes('\r'), 'LF framing');
  assert.ok(r.chunks.every((c) => !('usage' in c)), 'no usage unless asked');
});

test('usage comes last, with empty choices, when asked', async () => {
  const r = await s.stream({ messages: order({ text: 'a b c' }), stream_options: { include_usage: true } });
  const last = r.chunks.at(-1);
  assert.deepEqual(last.choices, []);
  assert.ok(last.usage.prompt_tokens > 0);
  assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens);
  assert.equal(last.usage.prompt_tokens_details.cached_tokens, 0);
  assert.ok(r.chunks.slice(0, -1).every((c) => c.usage === null));
});

test('n choices are interleaved, each whole', async () => {
  const r = await s.stream({ messages: order({ text: 'one two three', token_ms: 2 }), n: 3 });
  for (let i = 0; i < 3; i++) {
    assert.equal(joined(r.chunks, i).content, 'one two three');
    assert.deepEqual(joined(r.chunks, i).finish, ['stop']);
  }
  assert.equal(r.chunks.filter((c) => c.choices[0].delta.role).length, 3);
});

test('max_tokens ends with length', async () => {
  const r = await s.stream({ messages: order({ text: 'one two three four five six' }), max_tokens: 3 });
  assert.deepEqual(joined(r.chunks).finish, ['length']);
});

test('logprobs have bytes that join to the text', async () => {
  const r = await s.stream({ messages: order({ text: 'Grüße 世界' }), logprobs: true, top_logprobs: 3 });
  const items = r.chunks.flatMap((c) => c.choices[0].logprobs?.content ?? []);
  assert.equal(Buffer.concat(items.map((i) => Buffer.from(i.bytes))).toString('utf8'), 'Grüße 世界');
  for (const i of items) {
    assert.ok(i.logprob <= 0 && Number.isFinite(i.logprob));
    assert.equal(i.top_logprobs.length, 3);
    assert.deepEqual(i.top_logprobs[0].bytes, i.bytes);
  }
});

test('a long prefill says how far it is, and silence is kept alive', async () => {
  const r = await s.stream({ messages: order({ text: 'a b', prefill_ms: 1300, token_ms: 9000 }), max_tokens: 1 });
  const marks = r.comments.filter((c) => /^: prefill \d+\/\d+$/.test(c));
  assert.ok(marks.length >= 1, r.raw);
  assert.ok(r.comments.includes(': keepalive'), r.raw);
  assert.equal(joined(r.chunks).finish.length, 1);
});

test('return_progress: chunks without choices tell how far the prompt is read', async () => {
  const r = await s.stream({ messages: order({ text: 'a b', prefill_ms: 600 }), return_progress: true });
  const told = r.chunks.filter((c) => c.prompt_progress);
  assert.ok(told.length >= 3, r.raw);
  assert.ok(told.every((c) => c.choices.length === 0 && c.prompt_progress.processed <= c.prompt_progress.total));
  assert.ok(told.at(-1).prompt_progress.processed > told[0].prompt_progress.processed);
  assert.equal(joined(r.chunks).content, 'a b');
  assert.equal((await s.chat({ messages: order({ text: 'x' }), return_progress: true })).body.error.param, 'return_progress');
});
