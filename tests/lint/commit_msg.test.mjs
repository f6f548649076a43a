// The hook that developers install (CONTRIBUTING.md) takes and refuses what it should.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const hook = join(dirname(fileURLToPath(import.meta.url)), '../hooks/commit-msg');
const dir = mkdtempSync(join(tmpdir(), 'sluice-hook-'));
test.after(() => rmSync(dir, { recursive: true }));
const run = (message) => {
  const file = join(dir, 'message');
  writeFileSync(file, message);
  return spawnSync(hook, [file], { encoding: 'utf8' });
};

test('a message in the form of CONTRIBUTING.md passes', () => {
  for (const m of ['http: close a reply that was never begun', 'engine/sched: admit jobs in order\n\nThe body says why.',
    'docs, tests: name each field\n\n# a comment of git', 'Revert "http: x"', 'cpu: process rows in lanes']) {
    assert.equal(run(m).status, 0, m + run(m).stderr);
  }
});

test('each fault is refused with its reason', () => {
  for (const [m, why] of [[`http: ${'x'.repeat(60)}`, /more than 60/], ['close a reply', /room: what/], ['http: Closed a reply', /imperative/],
    ['http: closes a reply', /imperative/], ['http: fixing it', /imperative/], ['http: the reply', /imperative/], ['http: close it.', /full stop/],
    ['http: close it; open it', /two ideas/], ['http: close it\nat once', /second line/], ['\n# nothing', /empty/]]) {
    const r = run(m);
    assert.equal(r.status, 1, m);
    assert.match(r.stderr, why, m);
  }
});
