// `sluice up` as root gives its programs to users of their own: no process is root's, no file is anybody else's.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { demo, eventually, PATIENCE, program, start } from './harness.mjs';

const skip = process.getuid() !== 0 && 'only root can start programs as others';
const USER = 54321, ENGINE = 54322; // no accounts
const programs = ['engine', 'recorder', 'relay', 'workers-short', 'workers-stream', 'nginx'];
const status = (pid, name) => new RegExp(`^${name}:[^\\S\\n]*(.*)$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1].split('\t');
const hello = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 };

/** Owners of all that lies in a folder: {uid: [names]}. */
function owners(folder, below = '.', out = {}) {
  for (const name of readdirSync(path.join(folder, below))) {
    const at = path.join(below, name), st = lstatSync(path.join(folder, at));
    (out[st.uid] ??= []).push(at);
    if (st.isDirectory()) owners(folder, at, out);
  }
  return out;
}
/** What a user sees of a file: the exit status of cat. */
const cat = (uid, file) => spawnSync('setpriv', [`--reuid=${uid}`, `--regid=${USER}`, '--clear-groups', 'cat', file], { encoding: 'utf8' });

test('--user: every program and every file is that user\'s', { skip }, async () => {
  const s = await start({ owner: USER, args: ['--user', `${USER}:${USER}`] });
  try {
    assert.equal((await s.chat(hello)).status, 200);
    for (const pid of [s.child.pid, ...programs.flatMap((p) => [s.pid(p), ...s.childrenOf(s.pid(p))])]) {
      assert.deepEqual(status(pid, 'Uid'), Array(4).fill(String(USER)));
      assert.deepEqual(status(pid, 'Gid'), Array(4).fill(String(USER)));
      assert.equal(status(pid, 'Groups')[0].trim(), '');
      assert.equal(BigInt(`0x${status(pid, 'CapEff')[0]}`), 0n);
    }
    assert.deepEqual(Object.keys(owners(path.join(s.dir, 'state'))), [String(USER)]);
    assert.doesNotMatch(s.log, /run as root/);
    // not even another process of that user reads their memory
    const nosy = cat(USER, `/proc/${s.pid('engine')}/environ`);
    assert.notEqual(nosy.status, 0);
    assert.match(nosy.stderr, /Permission denied/);
  } finally { await s.stop(); }
});

test('--engine-user: the engine is another, and reads nothing of the state folder', { skip }, async () => {
  // without Landlock, which would hide the files in any case
  const s = await start({ owner: USER, args: ['--user', `${USER}:${USER}`, '--engine-user', `${ENGINE}:${ENGINE}`, '--without-landlock'] });
  try {
    assert.equal((await s.chat(hello)).status, 200);
    assert.equal(status(s.pid('engine'), 'Uid')[1], String(ENGINE));
    for (const p of programs.slice(1)) assert.equal(status(s.pid(p), 'Uid')[1], String(USER), p);
    assert.equal(BigInt(`0x${status(s.pid('engine'), 'CapPrm')[0]}`), 0n);
    const state = path.join(s.dir, 'state'), all = owners(state);
    assert.deepEqual(Object.keys(all), [String(USER), String(ENGINE)]);
    assert.ok(all[ENGINE].every((f) => f === 'engine' || f.startsWith('engine/')), `${all[ENGINE]}`);
    for (const f of ['sluice.db', 'factor.key', 'sluice.db-wal', '.']) {
      assert.notEqual(cat(ENGINE, path.join(state, f)).status, 0, f);
      assert.match(cat(ENGINE, path.join(state, f)).stderr, /Permission denied|Is a directory/, f);
    }
    assert.equal(spawnSync('setpriv', [`--reuid=${ENGINE}`, `--regid=${USER}`, '--clear-groups', 'ls', state]).status, 2);
    // the rest works as ever: log, figures, a restart of the engine
    const pid = s.pid('engine');
    process.kill(pid, 'SIGKILL');
    await eventually(async () => {
      assert.notEqual(s.pid('engine'), pid);
      assert.equal((await s.chat(hello)).status, 200);
    });
    assert.equal(status(s.pid('engine'), 'Uid')[1], String(ENGINE));
    // the socket lets in whom --peer names, nobody else who reaches it
    const socket = path.join(state, 'engine/engine.sock');
    const knock = `const c=require('net').connect(${JSON.stringify(socket)});c.on('error',e=>{console.log(e.code);process.exit(0)});c.on('close',()=>{console.log('refused');process.exit(0)});c.on('data',()=>{console.log('open');process.exit(0)})`;
    const stranger = (uid) => spawnSync('setpriv', [`--reuid=${uid}`, `--regid=${USER}`, '--clear-groups', process.execPath, '-e', knock], { encoding: 'utf8' }).stdout.trim();
    assert.notEqual(stranger(54399), 'open');
    assert.equal(stranger(USER), 'open');
  } finally { await s.stop(); }
});

test('what can\'t be is refused in words that help', { skip }, () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'sla-'));
  const up = (...args) => spawnSync(program('sluice'), ['up', '--port', '1', '--model', demo, ...args], { encoding: 'utf8', timeout: PATIENCE });
  try {
    chmodSync(dir, 0o755);
    const state = path.join(dir, 'state');
    mkdirSync(state);
    const other = up('--state', state, '--user', `${USER}:${USER}`);
    assert.equal(other.status, 1);
    assert.match(other.stderr, new RegExp(`${state} belongs to uid 0, not to ${USER}; to hand all of it over: chown -R ${USER}:${USER} ${state}`));
    assert.match(up('--state', state, '--user', 'nobody-of-that-name').stderr, /user: there is no user/);
    assert.match(up('--state', state, '--user', '0:0').stderr, /user: root is who/);
    assert.match(up('--state', state, '--user', 'root').stderr, /user: root is who/);
    assert.match(up('--state', state, '--engine-user', `${ENGINE}:1`).stderr, /engine-user: must be another user/);
    assert.match(up('--state', state, '--user', `${USER}:1`, '--engine-user', `${USER}:1`).stderr, /engine-user: must be another user/);
    chownSync(state, USER, USER);
    const plain = spawnSync('setpriv', [`--reuid=${ENGINE}`, `--regid=${ENGINE}`, '--clear-groups', program('sluice'), 'up', '--state', state, '--model', demo, '--user', `${USER}:${USER}`], { encoding: 'utf8', timeout: PATIENCE });
    assert.match(plain.stderr, /user: only root can start programs as another user/);
    assert.deepEqual(readdirSync(state), [], 'nothing was made');
  } finally { rmSync(dir, { recursive: true }); }
});
