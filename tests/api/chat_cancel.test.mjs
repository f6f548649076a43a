// A client that leaves: its job is cancelled at once, in prefill and in decode, streamed or not, and nobody else notices.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { eventually, joined, order, sleep, start } from './harness.mjs';

let s;
before(async () => {
  s = await start({ fake: true });
  await s.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 }); // all of one user
});
after(() => s?.stop());

const busy = async () => s.metric('worker_processes', 'pool="stream",state="busy"');

/** All answers here would go on for longer than this waits. */
const becomesIdle = () => eventually(async () => assert.equal(await busy(), 0, 'still busy'));

for (const [name, o, stream] of [
  ['a stream in decode', { text: 'x '.repeat(500), token_ms: 500 }, true],
  ['a stream in a silent prefill', { prefill_ms: 600000 }, true],
  ['a whole answer in prefill', { prefill_ms: 600000 }, false],
  ['a whole answer in decode', { text: 'x '.repeat(500), token_ms: 500 }, false],
]) {
  test(name, async () => {
    const gone = await s.metric('client_disconnects_total');
    let whole = false;
    const request = http.request(`${s.url}/v1/chat/completions`, {
      method: 'POST', headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' },
    }, (reply) => reply.on('end', () => { whole = true; }).on('error', () => {}).resume());
    request.on('error', () => {}); // its own leaving
    request.end(JSON.stringify({ messages: order(o), stream }));
    await eventually(async () => assert.ok(await busy() > 0));
    await sleep(100);
    assert.equal(await busy(), 1);
    request.destroy();
    await becomesIdle();
    assert.equal(whole, false);
    await eventually(async () => assert.ok(await s.metric('client_disconnects_total') > gone));
    assert.equal(await s.metric('client_disconnects_total'), gone + 1);
  });
}

test('a client that does not read holds up nobody, and is let go when it leaves', async () => {
  const net = await import('node:net');
  const body = JSON.stringify({ messages: order({ text: 'word '.repeat(3000) }), stream: true });
  const socket = net.connect(s.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.pause();
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${s.key}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  await sleep(700);
  const other = await s.stream({ messages: order({ text: 'not held up' }) });
  assert.equal(joined(other.chunks).content, 'not held up');
  socket.destroy();
  await becomesIdle();
});

test('a storm of disconnects leaves the rest alone', async () => {
  const text = 'alpha beta gamma delta '.repeat(20).trim();
  const stays = s.stream({ messages: order({ text, token_ms: 10 }) });
  const leave = Array.from({ length: 40 }, async (_, i) => {
    const control = new AbortController();
    setTimeout(() => control.abort(), 50 + 10 * i);
    try {
      await s.stream({ messages: order({ text: 'x '.repeat(500), token_ms: 500 }) }, { signal: control.signal });
    } catch { /* as ordered */ }
  });
  await Promise.all(leave);
  assert.equal(joined((await stays).chunks).content, text);
  await becomesIdle();
});
