// Health, readiness, version, status and metrics are true, also when the engine is down.
import assert from 'node:assert/strict';
import { readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const open = { authorization: null };

test('without a key: health, ready, version', async () => {
  for (const path of ['/health', '/ready', '/version']) {
    const r = await s.request('GET', path, undefined, open);
    assert.equal(r.status, 200, path);
    await r.text();
  }
  assert.equal((await s.json('GET', '/api/status', undefined, open)).status, 401);
});

test('every line of /metrics is Prometheus text, histograms add up', async () => {
  await s.chat({ messages: order({}) });
  const text = await s.metrics();
  const types = {};
  for (const line of text.trim().split('\n')) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (type) {
      assert.ok(!types[type[1]], `twice: ${type[1]}`);
      types[type[1]] = type[2];
    } else if (!line.startsWith('# HELP ')) {
      assert.match(line, /^sluice_[a-z0-9_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? (-?[0-9.e+-]+|\+Inf|NaN)$/);
      const name = line.split(/[{ ]/)[0];
      assert.ok(types[name] || types[name.replace(/_(bucket|sum|count)$/, '')] === 'histogram', line);
    }
  }
  const inf = /sluice_worker_overhead_seconds_bucket\{le="\+Inf"\} (\d+)/.exec(text)[1];
  assert.equal(inf, /sluice_worker_overhead_seconds_count (\d+)/.exec(text)[1]);
  assert.ok(await s.metric('http_requests_total', 'route="/v1/chat/completions",status="200"') >= 1);
});

test('the page\'s status has what docs/API-pages.md promises', async () => {
  const r = await s.json('GET', '/api/status');
  assert.deepEqual(Object.keys(r.body).sort(), ['banner', 'engine', 'load', 'loading', 'model', 'suggestions', 'version']);
  assert.equal(r.body.engine.state, 'ready');
  assert.equal(r.body.engine.error, null);
  for (const k of ['id', 'name', 'family', 'n_ctx', 'thinking', 'thinking_switch', 'tools', 'backend', 'device']) assert.ok(k in r.body.model, k);
});

test('a hung engine is told within seconds and holds up nothing that works without it; what it wrote goes on when it does', async () => {
  const engine = s.pid('engine');
  const text = 'one two three four five six seven eight nine ten '.repeat(4).trim();
  /** Asks in a new conversation and waits until the answer has begun. */
  const begin = async () => {
    const { id } = (await s.json('POST', '/api/conversations', {})).body;
    let began;
    const first = new Promise((done) => { began = done; });
    const content = order({ text, token_ms: 20 })[0].content;
    const answer = s.request('POST', `/api/conversations/${id}/messages`, { content })
      .then((response) => follow(response, ({ event, out }) => { if (event === 'delta') began(out.start.message.id); }));
    return { id, answer, message: await Promise.race([first, answer.then((a) => assert.fail(`ended before it began: ${a.names}`))]) };
  };
  const running = await begin(), doomed = await begin();
  const hung = [engine, ...s.childrenOf(engine)];
  for (const pid of hung) process.kill(pid, 'SIGSTOP'); // the heartbeat grows old
  const r = await eventually(async () => {
    const now = await s.json('GET', '/health', undefined, open);
    assert.notEqual(now.status, 200);
    return now;
  }, 200);
  assert.equal(r.status, 503, r.text);
  assert.equal(r.body.status, 'unavailable');
  assert.equal(r.body.error, undefined, 'why is not for strangers');
  assert.ok((await s.json('GET', '/health')).body.error.length > 5);
  assert.equal((await s.json('GET', '/api/conversations')).status, 200);
  assert.equal((await s.json('GET', '/v1/models')).status, 200);
  assert.equal(await s.metric('up'), 0);
  const refused = await s.chat({ messages: order({}) });
  assert.deepEqual([refused.status, refused.body.error.code], [503, 'engine_unavailable'], refused.text);
  assert.match(refused.body.error.message, /does not answer: no heartbeat/);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  const followed = await s.json('GET', `/api/messages/${running.message}/stream`);
  assert.deepEqual([followed.status, followed.body.error?.code], [503, 'engine_unavailable'], followed.text);
  assert.ok(Number(followed.headers.get('retry-after')) > 0);
  assert.equal((await s.request('DELETE', `/api/conversations/${doomed.id}`)).status, 204);
  const other = (await s.json('POST', '/api/conversations', { title: 'while it hangs' })).body;
  const kept = await follow(await s.request('POST', `/api/conversations/${other.id}/messages`, { content: 'kept' }));
  assert.equal(kept.names.at(-1), 'error');
  assert.deepEqual([kept.start.message.status, kept.start.message.error], ['running', null], 'the end is told by the last event alone');
  assert.match(kept.last.error.message, /no heartbeat/);
  const rows = (await s.json('GET', `/api/conversations/${other.id}`)).body.messages;
  assert.deepEqual(rows.map((m) => [m.content, m.status]), [['kept', 'done'], ['', 'error']]);
  for (const pid of hung) process.kill(pid, 'SIGCONT');
  await s.ready();
  const whole = await running.answer;
  await doomed.answer;
  assert.deepEqual([whole.names.at(-1), whole.content.trim()], ['done', text]);
  const again = await follow(await s.request('POST', `/api/conversations/${other.id}/messages`, { regenerate: rows[1].id }));
  assert.equal(again.names.at(-1), 'done', JSON.stringify(again.last));
});

test('what a probe finds is no error of the server, on the first page of the admin', async () => {
  const found = [...(await s.metrics()).matchAll(/http_requests_total\{.*route="([^"]*)".*status="5\d\d"\} (\d+)/g)].map(([, route, n]) => [/health|ready|ping/.test(route), Number(n)]);
  const sum = (probes) => found.reduce((all, [probe, n]) => all + (probe === probes ? n : 0), 0);
  assert.ok(sum(true) >= 2 && sum(false) >= 2, JSON.stringify(found)); // of the test before
  const shown = async () => (await s.json('GET', '/api/admin/history?seconds=600')).body.columns.http_errors.reduce((all, n) => all + (n ?? 0), 0);
  await eventually(async () => assert.ok(await shown() >= sum(false)), 100); // the recorder looks once a second
  assert.equal(await shown(), sum(false));
});

test('after the power failed, it is healthy when its own workers serve, whoever has the number of one of the last run', async () => {
  const master = s.pid('workers-stream'), board = path.join(s.dir, 'state/workers');
  await s.powerFails();
  const bytes = readFileSync(board);
  let found = 0;
  for (let at = 0; at < bytes.length; at += 4) if (bytes.readInt32LE(at) === master) found += bytes.writeInt32LE(process.pid, at) > 0;
  assert.ok(found >= 1, 'the pool\'s number lies there');
  writeFileSync(board, bytes);
  const worker = path.join(s.places.binDir, 'sluice-worker'), mayServe = path.join(s.dir, 'may-serve');
  const real = readlinkSync(worker);
  rmSync(worker);
  writeFileSync(worker, `#!/bin/sh\ncase "$*" in *"--pool stream"*) until [ -e '${mayServe}' ]; do sleep 0.05; done;; esac\nexec '${real}' "$@"\n`, { mode: 0o755 });
  s.spawn();
  await eventually(async () => {
    const health = await s.json('GET', '/health', undefined, open);
    assert.deepEqual([health.status, health.body.engine, health.body.database], [503, 'ready', 'ok'], health.text);
    assert.equal(health.body.workers, 'unavailable');
  });
  writeFileSync(mayServe, '');
  await s.ready();
  assert.equal((await s.chat({ messages: order({}) })).status, 200);
});
