// The check's slice of tests/siege/kills.mjs: one program after the other is killed under load, and nothing that was
// acknowledged is lost. What is run by hand are its 500 kills.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const sqlite = spawnSync('sqlite3', ['--version']).status === 0;

test('five kills cost nobody anything', { skip: !sqlite && 'there is no sqlite3 program' }, () => {
  const script = fileURLToPath(new URL('../siege/kills.mjs', import.meta.url));
  const run = spawnSync(process.execPath, [script, '--kills', '5', '--clients', '2', '--seed', '1'], { encoding: 'utf8', timeout: 900000, maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stdout + run.stderr.slice(-5000));
  const said = JSON.parse(run.stdout);
  assert.equal(said.kills, 5);
  assert.ok(said.acknowledged > 10, run.stdout);
});
