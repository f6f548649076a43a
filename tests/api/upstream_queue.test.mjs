// Requests that wait until an upstream has room for them: as many as may, and as long as may. The long wait idles.
import assert from 'node:assert/strict';
import http from 'node:http';
import test, { after, before } from 'node:test';
import { eventually, PATIENCE, sleep, start } from './harness.mjs';
import { addUpstream } from './upstream_rig.mjs';

let server, full, asked = 0; // full: never answers, and takes one request at a time
before(async () => {
  server = await start({ fake: true });
  assert.equal((await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 })).status, 200);
  full = http.createServer((q, r) => { if (q.method === 'GET') r.end('{"object":"list","data":[]}'); else { asked++; q.resume(); } });
  await new Promise((done) => { full.listen(0, '127.0.0.1', done); });
  full.unref();
  await addUpstream(server, 'full', `http://127.0.0.1:${full.address().port}/v1`, ['packed'], { max_streams: 1, first_byte_ms: 120000 });
});
after(async () => { await server?.stop(); full?.close(); full?.closeAllConnections(); });

/** A request from an address of its own: nginx lets one address have 256 at a time. */
function from(localAddress) {
  let request;
  const reply = new Promise((done) => {
    request = http.request({ port: server.port, host: '127.0.0.1', localAddress, method: 'POST', path: '/v1/chat/completions', agent: false,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' } }, (r) => {
      let text = '';
      r.on('data', (d) => { text += d; }).on('end', () => done({ status: r.statusCode, headers: r.headers, body: JSON.parse(text) })).on('error', done);
    }).on('error', done);
    request.end(JSON.stringify({ model: 'packed', messages: [{ role: 'user', content: 'Hi.' }] }));
  });
  return { reply, leave: () => request.destroy() };
}

test('as many wait for room as may, the next one gets 429, and one that waited too long 408', async () => {
  const runs = from('127.0.0.2');
  await eventually(() => assert.ok(asked));
  const since = Date.now(), waiting = from('127.0.0.2');
  const others = Array.from({ length: 255 }, (_, i) => from(`127.0.0.${3 + (i & 1)}`));
  let refused;
  try {
    for (const end = Date.now() + PATIENCE; !refused && Date.now() < end;) {
      const late = from('127.0.0.5');
      refused = await Promise.race([late.reply, sleep(500)]);
      late.leave();
    }
  } finally { for (const o of others) o.leave(); }
  assert.equal(refused?.status, 429, JSON.stringify(refused?.body));
  assert.equal(refused.body.error.code, 'rate_limit_exceeded');
  assert.match(refused.body.error.message, /too many answers wait for the upstreams already/);
  assert.equal(refused.headers['retry-after'], '2');

  const late = await waiting.reply;
  assert.equal(late.status, 408, JSON.stringify(late.body));
  assert.equal(late.body.error.code, 'upstream_timeout');
  assert.match(late.body.error.message, /no upstream had room for the answer in time/);
  assert.ok(Date.now() - since >= 29000, 'not before');
  assert.equal(asked, 1, 'none of them was asked of it');
  runs.leave();
});
