// A disk without room: each write is refused in words, nothing dies of it, and it goes on when there is room again.
// On a small tmpfs, where one may mount it; elsewhere this is skipped.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, rmdirSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { start } from './harness.mjs';

const disk = mkdtempSync(path.join(os.tmpdir(), 'sld-'));
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', disk]).status === 0;
let s;
after(async () => {
  await s?.stop();
  if (mounted) spawnSync('umount', [disk]);
  rmdirSync(disk);
});

function fill() {
  const fd = openSync(path.join(disk, 'fill'), 'w');
  for (let size = 1 << 20; size >= 512; size >>= 1) {
    try { for (;;) writeSync(fd, Buffer.alloc(size)); } catch (e) { assert.equal(e.code, 'ENOSPC'); }
  }
  closeSync(fd);
}

test('a full disk is 507 in words, and no process dies of it', { skip: !mounted && 'no right to mount' }, async () => {
  process.env.TMPDIR = disk; // the state is there
  s = await start({ fake: true });
  const octets = { 'content-type': 'application/octet-stream' };
  const upload = (n) => s.json('POST', '/api/attachments?name=a.txt', 'x'.repeat(n), octets);
  const line = (n) => `${JSON.stringify({ messages: [{ role: 'user', content: 'a'.repeat(n) }, { role: 'assistant', content: 'ok' }] })}\n`;
  // SQLite first writes over what its log no longer needs: so until there is no more of that
  let n = 0;
  const rows = async () => {
    for (;;) {
      const r = await s.json('POST', '/api/prompts', { name: `p${++n}`, text: 'x'.repeat(50000) });
      if (r.status !== 201 || n > 180) return r;
    }
  };
  const writes = {
    'a small file': () => upload(100),
    'a file that nginx puts on the disk': () => upload(300000),
    'an import': () => s.json('POST', '/api/import', line(500), octets),
    'a large import': () => s.json('POST', '/api/import', line(300000), octets),
    'rows': rows,
  };
  fill();
  for (const [what, write] of Object.entries(writes)) {
    const r = await write();
    assert.deepEqual([r.status, r.body?.error?.code], [507, 'disk_full'], `${what}: ${r.text.slice(0, 300)}`);
    assert.equal(r.headers.get('retry-after'), null, what);
  }
  for (let i = 0; i < 50; i++) assert.equal((await s.json('GET', '/api/conversations')).status, 200, 'it is read all the same');
  rmSync(path.join(disk, 'fill'));
  assert.equal((await upload(1000)).status, 201);
  assert.equal((await writes['an import']()).body.imported, 1);
  assert.equal((await s.json('GET', '/api/prompts')).body.items.length, n - 1, 'what was refused is not there, what was not is');
});
