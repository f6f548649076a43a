// A test that fails leaves no server behind, and its file ends.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { lives, PATIENCE } from './harness.mjs';

let dir;
before(() => { dir = mkdtempSync(path.join(os.tmpdir(), 'slh-')); });
after(() => rmSync(dir, { recursive: true, force: true }));

/** Runs a file of tests; gives {code, pid, folder} of the server that it started. */
function run(name, hook) {
  const file = path.join(dir, `${name}.test.mjs`), harness = fileURLToPath(new URL('harness.mjs', import.meta.url));
  writeFileSync(file, `import { before, test } from 'node:test';
    import { writeFileSync } from 'node:fs';
    import { start } from ${JSON.stringify(harness)};
    before(async () => { ${hook} });
    test('never runs', () => {});`);
  const out = spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: PATIENCE, killSignal: 'SIGKILL', env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  return { signal: out.signal, code: out.status, text: out.stdout };
}

test('a hook that fails once the server runs', () => {
  const note = path.join(dir, 'note');
  const end = run('late', `const s = await start({ fake: true });
    writeFileSync(${JSON.stringify(note)}, JSON.stringify([s.child.pid, s.pid('nginx'), s.dir])); throw new Error('no');`);
  assert.equal(end.signal, null, `the file did not end: ${end.text}`);
  assert.equal(end.code, 1, end.text);
  const [pid, nginx, folder] = JSON.parse(readFileSync(note, 'utf8'));
  assert.deepEqual([lives(pid), lives(nginx), existsSync(folder)], [false, false, false]);
});

test('a server that hangs when it is to end', () => {
  const end = run('hangs', `const s = await start({ fake: true }); process.kill(s.child.pid, 'SIGSTOP'); await s.stop(300);`);
  assert.equal(end.signal, null, `the file did not end: ${end.text}`);
  assert.match(end.text, /the server did not end within 300 ms/);
});

test('rigs that a failed test leaves open', () => {
  const rigs = { 'upstream_rig.mjs': 'FakeUpstream.open()', 'oidc_rig.mjs': 'FakeProvider.open()', 'oauth_rig.mjs': 'FakePeer.open()', 'mcp_server.mjs': 'startMcp()', '../cli/hub.mjs': 'startHub({})' };
  const opened = Object.entries(rigs).map(([file, open]) => `await (await import(${JSON.stringify(new URL(file, import.meta.url))})).${open};`);
  const end = run('rigs', `${opened.join(' ')} throw new Error('all are open');`);
  assert.equal(end.signal, null, `the file did not end: ${end.text}`);
  assert.match(end.text, /all are open/);
});

test('a server that does not start', () => {
  const end = run('early', "await start({ fake: true, args: ['--no-such-option'] });");
  assert.equal(end.signal, null, `the file did not end: ${end.text}`);
  assert.match(end.text, /sluice up ended/);
});
