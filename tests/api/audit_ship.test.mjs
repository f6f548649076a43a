// The audit log beside the database: a file of JSON lines that has each row once, though the recorder is killed and the file moved.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, sleep, start } from './harness.mjs';

const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-audit-')), file = path.join(dir, 'audit.jsonl');
let s;
before(async () => { s = await start({ fake: true, args: ['--audit-log', file] }); });
after(async () => { await s?.stop(); rmSync(dir, { recursive: true, force: true }); });

/** The lines of audit.jsonl.1, .2, ... and at the end audit.jsonl. */
const lines = () => readdirSync(dir).sort((a, b) => Number(/\d+$/.exec(a)?.[0] ?? 99) - Number(/\d+$/.exec(b)?.[0] ?? 99))
  .flatMap((name) => readFileSync(path.join(dir, name), 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l)));

test('each row is in the files once, in order, through kills and rotations', async () => {
  let over = false, moved = 0, made = 0;
  const busy = Array.from({ length: 4 }, async () => {
    while (!over) {
      const key = await s.json('POST', '/api/keys', { name: 'k' });
      if (key.status === 201 && (await s.request('DELETE', `/api/keys/${key.body.id}`)).status === 204) made++;
    }
  });
  for (let i = 0; i < 8; i++) {
    const enough = 2 * i; // also where the machine has much else to do
    await sleep(350);
    await eventually(() => assert.ok(made >= enough));
    for (const pid of s.childrenOf(s.pid('recorder'))) process.kill(pid, 'SIGKILL');
    if (i % 2 === 0) continue;
    await eventually(() => assert.ok(existsSync(file), 'it is written again'));
    renameSync(file, `${file}.${++moved}`);
  }
  over = true;
  await Promise.all(busy);
  const rows = [];
  for (let next = ''; next !== null;) {
    const page = (await s.json('GET', `/api/admin/audit?limit=500${next && `&before=${next}`}`)).body;
    rows.unshift(...page.items.reverse());
    next = page.next;
  }
  await eventually(() => assert.ok(lines().length >= rows.length, `${lines().length} of ${rows.length} rows`), 100);
  assert.ok(rows.length > 20 && moved > 1, `${rows.length} rows, ${moved} files moved`);
  assert.deepEqual(lines(), rows);
});

test('a user adds a bounded number of rows in a minute, an admin as many as there are', async () => {
  assert.equal((await s.json('POST', '/api/users', { name: 'ada', password: 'a long enough password', role: 'user' })).status, 201);
  const login = await s.json('POST', '/api/login', { name: 'ada', password: 'a long enough password' }, { authorization: null });
  const ada = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf };
  const { id } = (await s.json('POST', '/api/keys', { name: 'mine' }, ada)).body;
  const mine = (await s.json('POST', '/api/keys', { name: 'admin' })).body.id;
  const limits = { max_jobs: 1 };
  for (let i = 0; i < 100; i++) {
    assert.equal((await s.json('PATCH', `/api/keys/${id}`, { limits }, ada)).status, 200);
    assert.equal((await s.json('PATCH', `/api/keys/${mine}`, { limits })).status, 200);
  }
  const count = async (user) => (await s.json('GET', `/api/admin/audit?limit=500&user=${user}&action=key.change`)).body.items.length;
  assert.equal(await count('admin'), 100);
  const hers = await count('ada');
  assert.ok(hers >= 50 && hers < 100, `${hers} of 100`);
});
