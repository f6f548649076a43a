// The check's slice of tests/siege/cache_kills.mjs: kills and damage while blocks of the prompt cache are written and read change no
// answer and lose no row. Its 200 kills are run by hand.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const sqlite = spawnSync('sqlite3', ['--version']).status === 0;

test('five kills, damage and a full disk between them change no answer and lose no row', { skip: !sqlite && 'there is no sqlite3 program' }, () => {
  const script = fileURLToPath(new URL('../siege/cache_kills.mjs', import.meta.url));
  const run = spawnSync(process.execPath, [script, '--kills', '5', '--clients', '2', '--chats', '2', '--seed', '1'], { encoding: 'utf8', maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stdout + run.stderr.slice(-5000));
  const said = JSON.parse(run.stdout);
  assert.equal(said.kills, 5);
  assert.ok(said.answers > 5 && said.stored > 5, run.stdout);
  assert.equal(said.full_disks, said.damage['a full disk'] ?? 0, 'where one may be mounted, writes met its end');
});
