// The systemd units keep the programs locked in: by systemd's own measure where it is installed, else by their lines.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const units = ['sluice-engine.service', 'sluice-worker@.service'];
const text = (unit) => readFileSync(path.join(top, 'nginx', `${unit}.in`), 'utf8').replaceAll('@SYSCONFDIR@', '/etc').replaceAll('@LIBEXECDIR@', '/usr/libexec');

test('each unit names what it takes away', () => {
  for (const unit of units) {
    const lines = text(unit).split('\n');
    for (const line of ['NoNewPrivileges=yes', 'PrivateNetwork=yes', 'ProtectProc=invisible', 'RestrictAddressFamilies=AF_UNIX', 'CapabilityBoundingSet=',
      'ProtectSystem=strict', 'SystemCallFilter=@system-service', 'SystemCallErrorNumber=EPERM']) assert.ok(lines.includes(line), `${unit}: ${line}`);
    assert.ok(lines.some((l) => l.startsWith('SystemCallFilter=~') && /@privileged/.test(l) && /@debug/.test(l)), unit);
    assert.ok(lines.some((l) => /^TasksMax=\d+$/.test(l)), unit);
  }
});

test('the engine keeps its GPU: nothing that closes its devices', () => {
  assert.doesNotMatch(text(units[0]), /^(PrivateDevices|ProtectClock|DeviceAllow|MemoryDenyWriteExecute=yes)/m);
});

test('each program keeps what it locks itself in with', () => {
  for (const unit of units) assert.match(text(unit), /^SystemCallFilter=.*\bseccomp\b.*\blandlock_restrict_self\b/m, unit);
});

test('the engine is of a user that can\'t read what the workers keep, and they find its socket', () => {
  const [engine, worker] = units.map(text), line = (unit, name) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];
  const accounts = readFileSync(path.join(top, 'nginx/sysusers.conf'), 'utf8');
  assert.notEqual(line(engine, 'User'), line(worker, 'User'));
  assert.equal(line(engine, 'Group'), line(worker, 'Group'));
  assert.equal(line(worker, 'StateDirectoryMode'), '0700');
  assert.doesNotMatch(engine, /^StateDirectory=/m);
  for (const unit of [engine, worker]) assert.match(accounts, new RegExp(`^u ${line(unit, 'User')} `, 'm'));
  const run = `/run/${line(engine, 'RuntimeDirectory')}`;
  assert.match(line(engine, 'ExecStart'), new RegExp(`--socket ${run}/engine.sock --status ${run}/status --log-ring ${run}/log .*--group ${line(worker, 'Group')} `));
  assert.match(line(worker, 'ExecStart'), new RegExp(`--engine-run ${run} --log-ring ${run}/log `));
});

test('systemd-analyze finds each exposed by less than 2', (t) => {
  const version = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  if (version.error || Number(/systemd (\d+)/.exec(version.stdout)?.[1]) < 250) return t.skip('no systemd-analyze that reads files');
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slu-'));
  try {
    for (const unit of units) {
      const file = path.join(dir, unit);
      writeFileSync(file, text(unit));
      const r = spawnSync('systemd-analyze', ['security', '--offline=true', '--no-pager', '--threshold=19', file], { encoding: 'utf8' });
      assert.equal(r.status, 0, `${unit}: ${r.stdout.split('\n').slice(-3).join(' ')}${r.stderr}`);
      assert.doesNotMatch(r.stderr, /[Uu]nknown/, unit);
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});
