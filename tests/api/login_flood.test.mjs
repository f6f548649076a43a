// A flood of wrong logins from many addresses: who comes from where a login was right lately still gets in, at the first try.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { eventually, PATIENCE, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

/** A login from an address of 127/8: its status; 0: no answer. */
const login = (localAddress, body) => new Promise((done) => {
  const text = JSON.stringify(body);
  const r = http.request({ host: '127.0.0.1', port: s.port, localAddress, method: 'POST', path: '/api/login', agent: false, timeout: PATIENCE,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } }, (answer) => {
    answer.resume().on('end', () => done(answer.statusCode));
  });
  r.on('timeout', () => r.destroy()).on('error', () => done(0));
  r.end(text);
});

test('strangers fill the gate, and a known address gets in', async () => {
  assert.equal(await login('127.0.8.1', s.admin), 200);
  let over = false;
  const counts = {};
  const strangers = Array.from({ length: 50 }, async (_, i) => {
    while (!over) {
      const status = await login(`127.0.20.${i + 1}`, { name: `nobody${i}`, password: 'wrong password' });
      counts[status] = (counts[status] ?? 0) + 1;
      await sleep(100);
    }
  });
  await eventually(() => assert.ok(counts[503] > 20, `the gate is not full: ${JSON.stringify(counts)}`));
  const known = [];
  for (let i = 0; i < 6; i++) {
    known.push(await login('127.0.8.1', s.admin));
    await sleep(50);
  }
  over = true;
  await Promise.all(strangers);
  assert.ok(counts[503] > 20, `the gate was full: ${JSON.stringify(counts)}`);
  assert.deepEqual(known, Array(6).fill(200), JSON.stringify(counts));
});
