// Every program of a running server has locked itself in, and answers all the same.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { eventually, start } from './harness.mjs';

const sanitized = Boolean(process.env.SLUICE_TEST_SANITIZED); // traces itself: no filter is loaded
const programs = ['engine', 'recorder', 'relay', 'workers-short', 'workers-stream'];
const names = { recorder: 'record', 'workers-short': 'short', 'workers-stream': 'stream' };
const field = (pid, name) => new RegExp(`^${name}:\\s*(\\S+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
/** A program and the processes that it made. */
const family = (s, name) => [s.pid(name), ...s.childrenOf(s.pid(name))];

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

test('no process gains rights, and each has its calls filtered', { skip: sanitized }, () => {
  for (const name of programs) for (const pid of family(s, name)) {
    assert.equal(field(pid, 'NoNewPrivs'), '1', `${name} ${pid}`);
    assert.equal(field(pid, 'Seccomp'), '2', `${name} ${pid}`);
    assert.match(s.log, new RegExp(`confined ${names[name] ?? name} landlock=\\d+ seccomp=yes`));
  }
  assert.ok(Number(field(s.childrenOf(s.pid('recorder'))[0], 'Seccomp_filters') ?? 4) > Number(field(s.pid('recorder'), 'Seccomp_filters') ?? 2),
    'the recorder itself may do less than what starts it');
});

test('what only root may do is given up', { skip: process.getuid() !== 0 }, () => {
  const kept = (1n << 0n) | (1n << 1n) | (1n << 2n) | (1n << 3n) | (1n << 4n) | (1n << 5n) | (1n << 14n) | (1n << 23n) | (1n << 24n);
  for (const name of programs) for (const pid of family(s, name)) for (const set of ['CapEff', 'CapPrm', 'CapBnd']) {
    assert.equal(BigInt(`0x${field(pid, set)}`) & ~kept, 0n, `${name} ${pid} ${set}`);
  }
});

test('behind the walls a model answers, and a killed engine comes back', async () => {
  const ask = () => s.chat({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 });
  assert.equal((await ask()).status, 200);
  const pid = s.pid('engine');
  process.kill(pid, 'SIGKILL');
  await eventually(async () => {
    assert.notEqual(s.pid('engine'), pid);
    assert.equal((await ask()).status, 200);
  });
});

test('the options leave the walls out, and the log says so', async () => {
  const open = await start({ args: ['--without-landlock', '--without-seccomp'] });
  try {
    for (const name of programs) {
      assert.equal(field(open.pid(name), 'Seccomp'), '0', name);
      const who = names[name] ?? name;
      assert.match(open.log, new RegExp(`${who} reaches every file that its user does: --without-landlock`));
      assert.match(open.log, new RegExp(`${who} may make every system call: --without-seccomp`));
    }
  } finally { await open.stop(); }
});
