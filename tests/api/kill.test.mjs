// kill -9 in mid-stream: a stream worker, the engine, nginx. A broken stream ends with an error event, others go on,
// service is back.
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { events } from './answers.mjs';
import { atRest, eventually, joined, lasting, lives, order, PATIENCE, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

// The log does not say before the end which process is busy: the one with most sockets is.
const sockets = (pid) => readdirSync(`/proc/${pid}/fd`).filter((f) => {
  try { return readlinkSync(`/proc/${pid}/fd/${f}`).startsWith('socket:'); } catch { return false; }
}).length;

const text = 'one two three four five six seven eight nine ten '.repeat(6).trim();
const ask = (token_ms = lasting(20)) => ({ messages: order({ text, token_ms }) });

async function startStream(token_ms) {
  let began;
  const first = new Promise((done) => { began = done; });
  const whole = s.stream(ask(token_ms), { onChunk: (c) => { if (c.choices?.[0]?.delta.content) began(); } })
    .catch((error) => ({ broken: error }));
  await first;
  return whole.then ? { whole } : null;
}

const back = () => eventually(async () => assert.equal((await s.chat({ messages: order({ text: 'back' }) })).status, 200));

/** The stream worker that has taken a job: it has a connection more than the others. */
const busyWorker = () => eventually(() => {
  const all = s.childrenOf(s.pid('workers-stream')).map((pid) => [sockets(pid), pid]).sort(([a], [b]) => b - a);
  assert.ok(all[0][0] > all[1][0], `${all}`);
  return all[0][1];
});

test('an engine that dies ends the stream with an error event and [DONE]', async () => {
  const { whole } = await startStream();
  process.kill(s.pid('engine'), 'SIGKILL');
  const r = await whole;
  assert.equal(r.broken, undefined);
  assert.ok(r.done, r.raw);
  const error = r.chunks.at(-1).error;
  assert.equal(error.type, 'server_error');
  assert.equal(error.code, 'engine_unavailable');
  assert.ok(text.startsWith(joined(r.chunks.slice(0, -1)).content));
  assert.deepEqual(joined(r.chunks.slice(0, -1)).finish, [], 'no finish_reason for an answer that broke');
  await back();
});

test('while the engine is down: 503 with Retry-After, and health says so', async () => {
  process.kill(s.pid('engine'), 'SIGKILL');
  const r = await s.chat({ messages: order({}) });
  if (r.status !== 200) { // the supervisor may have been faster
    assert.equal(r.status, 503);
    assert.equal(r.body.error.code, 'engine_unavailable');
    assert.ok(Number(r.headers.get('retry-after')) > 0);
  }
  await back();
});

test('a killed stream worker takes its own stream and no other', async () => {
  const children = () => s.childrenOf(s.pid('workers-stream'));
  const { whole: first } = await startStream();
  const { whole: second } = await startStream();
  const crashes = await s.metric('worker_crashes_total', 'pool="stream"');
  const victim = children().sort((a, b) => sockets(b) - sockets(a))[0];
  process.kill(victim, 'SIGKILL');
  const results = await Promise.all([first, second]);
  const good = results.filter((r) => !r.chunks.at(-1).error && joined(r.chunks).content === text);
  assert.equal(good.length, 1, 'the other stream is whole');
  const killed = results.find((r) => r !== good[0]);
  assert.equal(killed.chunks.at(-1).error.code, 'worker_lost', 'its master says so in its place');
  assert.ok(killed.done && text.startsWith(joined(killed.chunks.slice(0, -1)).content));
  await eventually(async () => {
    assert.equal(await s.metric('worker_crashes_total', 'pool="stream"'), crashes + 1);
    assert.ok((await s.metric('worker_processes', 'pool="stream",state="idle"')) >= 4);
  });
  await back();
});

test('a killed worker\'s last words have the form of its stream', async () => {
  for (const [where, body] of [['/v1/messages', { max_tokens: 500, messages: ask().messages }], ['/v1/responses', { input: ask().messages[0].content }]]) {
    const r = await s.request('POST', where, { ...body, stream: true });
    const list = [];
    for await (const { event, data } of events(r)) {
      assert.equal(event, data.type);
      list.push(data);
      if (list.length === 6) process.kill(s.childrenOf(s.pid('workers-stream')).sort((a, b) => sockets(b) - sockets(a))[0], 'SIGKILL');
    }
    assert.equal(list.at(-1).type, 'error', JSON.stringify(list.slice(-2)));
    assert.match(list.at(-1).message ?? list.at(-1).error.message, /died/);
    await back();
  }
});

test('a stream of lines ends with a line that says so', async () => {
  const r = await s.request('POST', '/api/chat', { model: 'demo-model', messages: ask().messages });
  const decoder = new TextDecoder();
  let text = '', killed = false;
  for await (const bytes of r.body) {
    text += decoder.decode(bytes, { stream: true });
    if (killed || text.split('\n').length < 6) continue;
    killed = true;
    process.kill(s.childrenOf(s.pid('workers-stream')).sort((a, b) => sockets(b) - sockets(a))[0], 'SIGKILL');
  }
  const list = text.trim().split('\n').map((l) => JSON.parse(l));
  assert.match(list.at(-1).error, /died/, text.slice(-300));
  await back();
});

test('a worker that is killed before its answer began: 503', async () => {
  const asked = s.chat({ messages: order({ prefill_ms: 600000 }) });
  process.kill(await busyWorker(), 'SIGKILL');
  const r = await asked;
  assert.equal(r.status, 503);
  assert.equal(r.body.error.code, 'unavailable');
});

test('the same in Ollama\'s form', async () => {
  const asked = s.json('POST', '/api/chat', { messages: order({ prefill_ms: 600000 }), stream: false });
  process.kill(await busyWorker(), 'SIGKILL');
  const r = await asked;
  assert.deepEqual([r.status, typeof r.body.error], [503, 'string'], r.text);
});

test('a killed pool master comes back', async () => {
  process.kill(s.pid('workers-stream'), 'SIGKILL');
  const r = await s.json('GET', '/health');
  if (r.status !== 200) assert.equal(r.body.workers, 'unavailable'); // else it is back already
  await back();
  process.kill(s.pid('workers-short'), 'SIGKILL');
  await s.ready();
});

test('a killed nginx comes back, and its old workers are gone', async () => {
  const old = s.pid('nginx'), workers = s.childrenOf(old);
  process.kill(old, 'SIGKILL');
  await eventually(() => {
    assert.notEqual(s.pid('nginx'), old);
    assert.deepEqual(workers.filter(lives), []);
  });
  await back();
});

test('SIGHUP renews the workers without losing a stream', async () => {
  const { whole } = await startStream(20);
  const old = s.childrenOf(s.pid('workers-stream'));
  process.kill(s.pid('workers-stream'), 'SIGHUP');
  const r = await whole;
  assert.ok(r.done && joined(r.chunks).content === text);
  await back();
  await eventually(() => assert.equal(s.childrenOf(s.pid('workers-stream')).filter((p) => old.includes(p)).length, 0, 'all are new'));
});

// The kernel wakes one process for a connection; who leaves must not leave it lying.
test('workers that leave take along the request that woke them', async () => {
  for (const [pool, ask] of [['workers-short', () => s.json('GET', '/v1/models')], ['workers-stream', () => s.chat({ messages: order({}) })]]) {
    const master = s.pid(pool), children = s.childrenOf(master);
    for (const pid of [master, ...children]) process.kill(pid, 'SIGSTOP'); // no fresh ones come to help
    const asked = ask();
    await sleep(100);
    await atRest(s.childrenOf(s.pid('nginx'))); // it lies at the pool's socket
    for (const pid of children) process.kill(pid, 'SIGTERM');
    for (const pid of children) process.kill(pid, 'SIGCONT');
    const r = await Promise.race([asked, new Promise((done) => { setTimeout(done, PATIENCE).unref(); })]);
    process.kill(master, 'SIGCONT');
    assert.equal(r?.status, 200, `${pool}: ${r?.text ?? 'no answer'}`);
    await asked;
  }
});

test('SIGTERM lets a running stream end', async () => {
  const { whole } = await startStream(20);
  process.kill(s.pid('workers-stream'), 'SIGTERM');
  const r = await whole;
  assert.ok(r.done && joined(r.chunks).content === text, r.raw?.slice(-300));
  await back();
});
