// sluice backup into a folder, its rotation, and sluice restore: what was there comes back, what was before is kept.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { start } from '../api/harness.mjs';
import { sluice } from './sluice.mjs';

let s, state, dir, file;
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
const run = (...args) => sluice([...args, '--state', state]);
const backups = () => readdirSync(dir).filter((f) => f.endsWith('.db')).sort();
const titles = async () => JSON.parse((await run('export', 'admin')).out).conversations.map((c) => c.title);
const pool = (sha) => path.join(dir, 'attachments', sha.slice(0, 2), sha);
const bytes = 'line of text\n'.repeat(40);

before(async () => {
  s = await start({ fake: true });
  state = path.join(s.dir, 'state');
  dir = path.join(s.dir, 'backups');
  await s.json('POST', '/api/conversations', { title: 'first' });
  const r = await s.json('POST', '/api/attachments?name=notes.txt', bytes, { 'content-type': 'application/octet-stream' });
  assert.equal(r.status, 201, r.text);
  file = hash(bytes);
});
after(() => s?.stop());

test('while the server runs: database and attachments, checked, 0600', async () => {
  const r = await run('backup', dir, '--keep', '2');
  assert.equal(r.code, 0, r.err);
  assert.match(r.out, /1 attachments \(1 new, /);
  assert.equal(backups().length, 1);
  assert.match(backups()[0], /^sluice-\d{8}-\d{6}\.db$/);
  assert.equal(statSync(path.join(dir, backups()[0])).mode & 0o777, 0o600);
  assert.equal(readFileSync(pool(file), 'utf8'), bytes);
  const status = (await s.json('GET', '/api/admin/status')).body;
  assert.ok(Math.abs(status.database.backup_at - Date.now()) < 60000);
});

test('for programs: the same facts as one JSON object', async () => {
  const alone = path.join(s.dir, 'alone.db'), r = JSON.parse((await run('backup', alone, '--json')).out);
  assert.deepEqual([r.path, r.bytes, r.attachments, r.attachments_missing, r.removed], [alone, statSync(alone).size, 0, 1, 0]);
  const into = JSON.parse((await run('backup', path.join(s.dir, 'further'), '--keep', '3', '--json')).out);
  assert.deepEqual([into.attachments, into.attachments_copied, into.attachment_bytes, into.attachments_missing], [1, 1, bytes.length, 0]);
  assert.equal(into.bytes, statSync(into.path).size);
});

test('the oldest go, and with them what only they named', async () => {
  for (const day of ['20200101', '20200102']) writeFileSync(path.join(dir, `sluice-${day}-000000.db`), readFileSync(path.join(dir, backups().at(-1))));
  const stray = 'ab'.repeat(32);
  mkdirSync(path.dirname(pool(stray)), { recursive: true });
  writeFileSync(pool(stray), 'nobody names it');
  writeFileSync(path.join(dir, 'mine.db'), 'not a backup');
  const r = await run('backup', dir, '--keep', '2');
  assert.equal(r.code, 0, r.err);
  assert.equal(backups().filter((f) => f.startsWith('sluice-')).length, 2);
  assert.ok(!backups().includes('sluice-20200101-000000.db') && backups().includes('mine.db'));
  assert.ok(existsSync(pool(file)) && !existsSync(pool(stray)));
  assert.equal((await sluice(['backup', dir, '--keep', '0', '--state', state])).code, 2);
});

test('a running server is not restored over', async () => {
  const r = await run('restore', dir);
  assert.equal(r.code, 1);
  assert.match(r.err, /a server is running/);
  assert.ok((await s.json('GET', '/api/conversations')).body.items.some((c) => c.title === 'first'));
});

test('what was there comes back, and what was before is kept', async () => {
  await s.json('POST', '/api/conversations', { title: 'second' });
  s.child.kill('SIGTERM');
  await s.exited;
  rmSync(path.join(state, 'attachments'), { recursive: true });
  assert.deepEqual(await titles(), ['first', 'second']);
  const r = await run('restore', dir, '--json');
  assert.equal(r.code, 0, r.err);
  const said = JSON.parse(r.out);
  assert.deepEqual([said.database, said.backup, said.attachments, said.attachments_copied], [path.join(state, 'sluice.db'), path.join(dir, backups().findLast((f) => f.startsWith('sluice-'))), 1, 1]);
  assert.ok(existsSync(said.aside), said.aside);
  assert.deepEqual(await titles(), ['first']);
  assert.equal(readFileSync(path.join(state, 'attachments', file.slice(0, 2), file), 'utf8'), bytes);
  const old = readdirSync(state).filter((f) => /^sluice\.db\.before-[\d-]+$/.test(f));
  assert.equal(old.length, 1);
  mkdirSync(path.join(s.dir, 'old'));
  renameSync(path.join(state, old[0]), path.join(s.dir, 'old/sluice.db'));
  const kept = await sluice(['export', 'admin', '--state', path.join(s.dir, 'old')]);
  assert.deepEqual(JSON.parse(kept.out).conversations.map((c) => c.title), ['first', 'second'], kept.err);
});

test('damaged, foreign and incomplete backups are refused, and nothing changes', async () => {
  const good = path.join(dir, backups().filter((f) => f.startsWith('sluice-')).at(-1));
  const bad = path.join(dir, 'bad.db');
  const torn = readFileSync(good);
  torn.fill(0xff, 8192, 12288);
  for (const [content, what] of [['this is no database', /not a database/], [torn, /damaged|malformed|corrupt/i]]) {
    writeFileSync(bad, content);
    const r = await run('restore', bad);
    assert.equal(r.code, 1, what);
    assert.match(r.err, what);
  }
  writeFileSync(pool(file), 'other bytes');
  rmSync(path.join(state, 'attachments'), { recursive: true });
  assert.match((await run('restore', good)).err, /is damaged: its content is/);
  rmSync(pool(file));
  assert.match((await run('restore', good)).err, /1 attachments of this backup are not beside it; nothing was changed/);
  assert.equal((await run('restore', path.join(dir, 'nothing.db'))).code, 1);
  assert.deepEqual(await titles(), ['first']);
});
