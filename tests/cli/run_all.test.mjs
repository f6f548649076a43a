// That the whole check, ended early, leaves nothing running: a lane that is left would join the next check.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { eventually, top } from '../api/harness.mjs';

/** A tree of which all that is run is a stand-in: its API's tests go on for good, and the sanitized lane waits for them. */
function standIn() {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-check-'));
  const program = (name, text) => { writeFileSync(path.join(dir, name), `#!/bin/sh\n${text}\n`); chmodSync(path.join(dir, name), 0o755); };
  for (const folder of ['bin', 'tests/api', 'tests/fuzz', 'build/release', 'build/asan']) mkdirSync(path.join(dir, folder), { recursive: true });
  copyFileSync(path.join(top, 'tests/run-all'), path.join(dir, 'tests/run-all'));
  for (const name of ['make', 'npm', 'python3']) program(`bin/${name}`, 'exit 0');
  program('bin/node', `echo $$ >"${dir}/node.pid"; exec sleep 600`);
  program('tests/fuzz/run', 'exit 0');
  for (const name of ['build/asan/config.status', 'tests/api/x.test.mjs', 'tests/package-lock.json']) writeFileSync(path.join(dir, name), '');
  return dir;
}

const lives = (pid) => { try { process.kill(pid, 0); return true; } catch { return false; } };
const soon = (what, said) => eventually(() => assert.ok(what(), said));

for (const [signal, whom] of [['SIGTERM', 'itself'], ['SIGINT', 'its group, as Ctrl-C does'], ['SIGKILL', 'itself']]) {
  test(`${signal} to ${whom} ends the check and its lanes`, async (t) => {
    const dir = standIn();
    const check = spawn('sh', [path.join(dir, 'tests/run-all'), path.join(dir, 'build/release')], { detached: true, stdio: 'ignore', env: { ...process.env, PATH: `${dir}/bin:${process.env.PATH}` } });
    const group = -check.pid;
    t.after(() => {
      if (lives(group)) process.kill(group, 'SIGKILL');
      rmSync(dir, { recursive: true, force: true });
    });
    const ended = new Promise((done) => check.on('exit', done));
    const built = path.join(dir, 'build/release/tests-log/sanitized-build');
    await soon(() => existsSync(built) && existsSync(path.join(dir, 'node.pid')), 'the lane waits for the API\'s tests');
    process.kill(signal === 'SIGINT' ? group : check.pid, signal);
    await ended;
    if (signal === 'SIGKILL') process.kill(Number(readFileSync(path.join(dir, 'node.pid'), 'utf8')), 'SIGKILL'); // of what ran then nobody can take care
    await soon(() => !lives(group), 'nothing of it is left');
  });
}
