// That the whole check, ended early, leaves nothing running: a lane that is left would join the next check. And what it makes of a file that
// fails once.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { eventually, top } from '../api/harness.mjs';

/** A tree of which all that is run is a stand-in: its API's tests go on for good, and the sanitized lane waits for them. tests: what runs them. */
function standIn(tests = 'exec sleep 600') {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-check-'));
  const program = (name, text) => { writeFileSync(path.join(dir, name), `#!/bin/sh\n${text}\n`); chmodSync(path.join(dir, name), 0o755); };
  for (const folder of ['bin', 'tests/api', 'tests/fuzz', 'build/release', 'build/asan']) mkdirSync(path.join(dir, folder), { recursive: true });
  copyFileSync(path.join(top, 'tests/run-all'), path.join(dir, 'tests/run-all'));
  for (const name of ['make', 'npm', 'python3']) program(`bin/${name}`, 'exit 0');
  program('bin/node', `echo $$ >"${dir}/node.pid"; ${tests}`);
  program('tests/fuzz/run', 'exit 0');
  for (const name of ['build/asan/config.status', 'tests/api/x.test.mjs', 'tests/package-lock.json']) writeFileSync(path.join(dir, name), '');
  return dir;
}

const lives = (pid) => { try { process.kill(pid, 0); return true; } catch { return false; } };
const soon = (what, said) => eventually(() => assert.ok(what(), said));

function check(t, dir, env = {}) {
  const child = spawn('sh', [path.join(dir, 'tests/run-all'), path.join(dir, 'build/release')], { detached: true, stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, PATH: `${dir}/bin:${process.env.PATH}`, ...env } });
  t.after(() => {
    if (lives(-child.pid)) process.kill(-child.pid, 'SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  return child;
}

test('a file that waits for a command which never ends is ended, and by itself', async (t) => {
  const dir = standIn(`"${process.execPath}" "$(dirname "$0")/../stuck.mjs" & wait`), left = path.join(dir, 'left');
  writeFileSync(path.join(dir, 'stuck.mjs'), `import { spawnSync } from 'node:child_process';
    import { writeFileSync } from 'node:fs';
    process.on('exit', () => writeFileSync(${JSON.stringify(left)}, ''));
    process.once('SIGTERM', () => process.exit(143)); // as the harness does, to end its servers
    for (;;) { spawnSync('sleep', ['600']); await new Promise((done) => { setTimeout(done, 1); }); }`);
  check(t, dir, { SLUICE_TEST_FILE_S: '1' });
  await soon(() => existsSync(left), 'it has ended');
});

for (const [signal, whom] of [['SIGTERM', 'itself'], ['SIGINT', 'its group, as Ctrl-C does'], ['SIGKILL', 'itself']]) {
  test(`${signal} to ${whom} ends the check and its lanes`, async (t) => {
    const dir = standIn();
    const child = check(t, dir), group = -child.pid;
    const ended = new Promise((done) => child.on('exit', done));
    const built = path.join(dir, 'build/release/tests-log/sanitized-build');
    await soon(() => existsSync(built) && existsSync(path.join(dir, 'node.pid')), 'the lane waits for the API\'s tests');
    process.kill(signal === 'SIGINT' ? group : child.pid, signal);
    await ended;
    if (signal === 'SIGKILL') process.kill(Number(readFileSync(path.join(dir, 'node.pid'), 'utf8')), 'SIGKILL'); // of what ran then nobody can take care
    await soon(() => !lives(group), 'nothing of it is left');
  });
}

for (const [what, file, ends] of [
  ['fails once is run again, and told', "if (!existsSync(mark)) { writeFileSync(mark, ''); throw new Error('the first time'); }", /unsteady[^\n]*API: shaky[^\n]*\n1 passed, 0 failed/],
  ['fails twice fails the check', "throw new Error('each time');", /\n0 passed, 1 failed/],
]) {
  test(`a file that ${what}`, async (t) => {
    const dir = standIn(`exec "${process.execPath}" "$@"`);
    for (const folder of ['tests/sdk', 'build/python']) mkdirSync(path.join(dir, folder));
    for (const name of ['tests/sdk/requirements.txt', 'build/python/.installed']) writeFileSync(path.join(dir, name), ''); // nothing is to be installed
    writeFileSync(path.join(dir, 'tests/api/x.test.mjs'), `import { existsSync, writeFileSync } from 'node:fs';
      import { test } from 'node:test';
      const mark = ${JSON.stringify(path.join(dir, 'mark'))};
      test('shaky', () => { ${file} });`);
    const child = check(t, dir, { NODE_TEST_CONTEXT: undefined });
    let said = '';
    child.stdout.on('data', (piece) => { said += piece; });
    const [code] = await once(child, 'close');
    assert.match(said, ends);
    assert.equal(code, / 0 failed/.test(ends.source) ? 0 : 1);
  });
}
