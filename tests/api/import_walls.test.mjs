// ZIP archives are unpacked by a process of their own, which can reach nothing, and whose death ends no worker.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { claude, zip } from './exports.mjs';
import { PATIENCE, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const read = (pid, file) => { try { return readFileSync(`/proc/${pid}/${file}`, 'utf8'); } catch { return ''; } };
const field = (pid, name) => new RegExp(`^${name}:\\s*(\\S+)`, 'm').exec(read(pid, 'status'))?.[1];
/** The process that unpacks for one of this server's workers. */
function unpacker() {
  for (const worker of s.childrenOf(s.pid('workers-stream'))) {
    for (const pid of s.childrenOf(worker)) if (read(pid, 'cmdline').split('\0')[1] === '--unzip') return { pid, worker };
  }
  return null;
}
const big = (key) => zip(Array.from({ length: 40 }, (_, f) => ({
  name: `part${f}.json`,
  data: JSON.stringify(Array.from({ length: 60 }, (_x, i) => claude({ uuid: `${key}.${f}.${i}`, name: `Chat ${f} ${i}` }))),
})));
const send = (body) => s.request('POST', '/api/import', body, { 'content-type': 'application/octet-stream' })
  .then(async (r) => ({ status: r.status, body: await r.json() }));
const confined = ({ pid, worker }) => field(pid, 'Seccomp') === '2' && Number(field(pid, 'Seccomp_filters')) > Number(field(worker, 'Seccomp_filters'));
/** The process that unpacks, once it is as `wanted` says; null where the import ended before. */
async function during(promise, wanted) {
  let done = false;
  promise.finally(() => { done = true; });
  for (const until = Date.now() + PATIENCE; Date.now() < until && !done; await sleep(2)) {
    const found = unpacker();
    if (found && wanted(found)) return found;
  }
  return null;
}

test('what unpacks holds the archive, a socket and nothing else', async () => {
  const answer = send(big('first'));
  const { pid } = await during(answer, confined);
  const files = readdirSync(`/proc/${pid}/fd`).map((n) => [n, readlinkSync(`/proc/${pid}/fd/${n}`)]);
  const flags = parseInt(/^flags:\s*(\d+)/m.exec(read(pid, 'fdinfo/0'))[1], 8);
  assert.equal(field(pid, 'NoNewPrivs'), '1');
  assert.deepEqual(files.map(([n]) => n).sort(), ['0', '1', '2']);
  assert.equal(flags & 3, 0, 'the archive is open for reading only');
  assert.match(files.find(([n]) => n === '1')[1], /^socket:/);
  assert.equal(files.find(([n]) => n === '2')[1], '/dev/null');
  assert.doesNotMatch(read(pid, 'maps'), /libsqlite|libsodium/, 'nothing of the store is in it');
  const r = await answer;
  assert.deepEqual([r.status, r.body.imported], [200, 2400]);
});

test('killed, it ends one import, with a report of what came in, and no worker', async () => {
  // On a busy machine all may be unpacked before it is seen: then the next one.
  let r, worker;
  for (let i = 0; !r || (i < 10 && r.body.complete); i++) {
    const answer = send(big(`second${i}`)), found = await during(answer, () => true);
    if (found) process.kill(found.pid, 'SIGKILL');
    r = await answer;
    worker = found?.worker;
  }
  assert.ok(r.status === 400 || (r.status === 200 && !r.body.complete), JSON.stringify(r.body).slice(0, 300));
  assert.match(JSON.stringify(r.body), /can't be unpacked/);
  assert.ok(s.childrenOf(s.pid('workers-stream')).includes(worker));
  assert.equal((await send(big('third'))).status, 200);
});
