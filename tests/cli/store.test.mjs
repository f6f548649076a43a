// sluice user, key, export, backup: on a state folder without a server.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const sluice = process.env.SLUICE_BIN ? path.join(process.env.SLUICE_BIN, 'sluice')
  : path.join(process.env.SLUICE_PREFIX ?? path.join(top, 'build/root'), 'bin/sluice');
const dir = mkdtempSync(path.join(os.tmpdir(), 'slc-'));
const state = path.join(dir, 'state');
after(() => rmSync(dir, { recursive: true, force: true }));

function run(args, input) {
  const r = spawnSync(sluice, [...args, '--state', state], { input, encoding: 'utf8' });
  return { code: r.status, out: r.stdout, err: r.stderr };
}

test('nothing is made by commands that only read', () => {
  const r = run(['user', 'list']);
  assert.equal(r.code, 1);
  assert.match(r.err, /no database yet/);
  assert.ok(!existsSync(path.join(state, 'sluice.db')));
});

test('a mistyped folder gets no database: it is named, and what would make one', () => {
  for (const args of [['user', 'add', 'ada'], ['user', 'password', 'ada'], ['user', 'remove', 'ada'], ['user', 'disable', 'ada'], ['key', 'add', 'ada'], ['key', 'remove', 'ada', '1']]) {
    const r = run(args);
    assert.equal(r.code, 1, args.join(' '));
    assert.ok(r.err.includes(state), r.err);
    assert.match(r.err, /sluice user add --create/);
    assert.ok(!existsSync(state), args.join(' '));
  }
  for (const verb of ['password', 'remove', 'enable']) assert.match(run(['user', verb, 'ada', '--create']).err, /create: only add and invite take it/);
  assert.match(run(['user', 'list', '--create']).err, /create: only add and invite take it/);
  assert.ok(!existsSync(state));
});

test('a user is added with a password that is shown once', () => {
  const r = run(['user', 'add', 'ada', '--admin', '--create']);
  assert.equal(r.code, 0, r.err);
  assert.match(r.out, /password {2}[a-z2-9]{5}(-[a-z2-9]{5}){3}\n/);
  assert.equal(statSync(path.join(state, 'sluice.db')).mode & 0o777, 0o600);
  assert.match(run(['user', 'list']).out, /ada +admin +active/);
  assert.equal(run(['user', 'add', 'Ada']).code, 1, 'the name is taken');
});

test('a password from outside is not printed, and a short one is refused', () => {
  const r = run(['user', 'add', 'bob', '--password-file', '-'], 'correct horse battery\n');
  assert.equal(r.code, 0, r.err);
  assert.doesNotMatch(r.out, /horse/);
  const short = run(['user', 'password', 'bob', '--password-file', '-'], 'short\n');
  assert.equal(short.code, 2);
  assert.match(short.err, /password: a password has 8 to 1024 bytes/);
  const file = path.join(dir, 'password');
  writeFileSync(file, 'another good one\n');
  assert.equal(run(['user', 'password', 'bob', '--password-file', file]).code, 0);
});

test('a new password revokes the keys that were made under the old one, unless told otherwise', () => {
  const password = (...more) => assert.equal(run(['user', 'password', 'cyn', ...more]).code, 0);
  assert.equal(run(['user', 'add', 'cyn']).code, 0);
  assert.equal(run(['key', 'add', 'cyn', '--name', 'laptop']).code, 0);
  password('--keep-keys');
  assert.match(run(['key', 'list', 'cyn']).out, /laptop/);
  password();
  assert.doesNotMatch(run(['key', 'list', 'cyn']).out, /laptop/);
});

test('keys are shown once, listed by their beginning, removed by id', () => {
  const made = run(['key', 'add', 'bob', '--name', 'laptop']);
  assert.equal(made.code, 0, made.err);
  const key = made.out.trim();
  assert.match(key, /^sk-sluice-[\w-]{43}$/);
  const list = run(['key', 'list', 'bob']).out;
  assert.match(list, /laptop/);
  assert.ok(!list.includes(key));
  const database = readFileSync(path.join(state, 'sluice.db')).toString('latin1') + readFileSync(path.join(state, 'sluice.db-wal')).toString('latin1');
  assert.ok(!database.includes(key.slice(20)), 'only its hash is kept');
  const id = list.split('\n')[1].split(' ')[0];
  assert.equal(run(['key', 'remove', 'ada', id]).code, 1, "another user's");
  assert.equal(run(['key', 'remove', 'bob', id]).code, 0);
  assert.equal(run(['key', 'remove', 'bob', id]).code, 1);
  assert.equal(run(['key', 'remove', 'bob', 'x']).code, 2);
});

test('--json says the same for programs, a line for each', () => {
  const made = JSON.parse(run(['user', 'add', 'json"er', '--json']).out);
  assert.equal(made.name, 'json"er');
  assert.match(made.password, /^[a-z2-9]{5}(-[a-z2-9]{5}){3}$/);
  const users = run(['user', 'list', '--json']).out.trim().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(users.find((u) => u.name === 'ada').role, 'admin');
  assert.equal(users.length, run(['user', 'list']).out.trim().split('\n').length - 1);
  const key = JSON.parse(run(['key', 'add', 'bob', '--name', 'a', '--scopes', 'history', '--json']).out);
  assert.match(key.key, /^sk-sluice-[\w-]{43}$/);
  const [listed] = run(['key', 'list', 'bob', '--json']).out.trim().split('\n').map((l) => JSON.parse(l)).filter((k) => k.id === key.id);
  assert.deepEqual([listed.name, listed.scopes, listed.key], ['a', ['history'], undefined]);
  run(['key', 'remove', 'bob', String(key.id)]);
  const invite = JSON.parse(run(['user', 'invite', '--admin', '--json']).out);
  assert.equal(invite.role, 'admin');
  assert.match(invite.link, /^http:\/\/127\.0\.0\.1:8080\/#\/invite\/[\w-]{43}$/);
});

test('a key for the figures alone is an admin\'s', () => {
  assert.equal(run(['key', 'add', 'ada', '--name', 'prometheus', '--scopes', 'metrics']).code, 0);
  assert.match(run(['key', 'list', 'ada']).out, /prometheus .* metrics /);
  const refused = run(['key', 'add', 'bob', '--scopes', 'metrics']);
  assert.deepEqual([refused.code, refused.out], [2, '']);
  assert.match(refused.err, /scopes: can hold metrics in an admin's key alone/);
});

test('the last admin stays; a removed name is free', () => {
  assert.equal(run(['user', 'disable', 'ada']).code, 1, 'the last admin stays');
  assert.equal(run(['user', 'disable', 'bob']).code, 0);
  assert.match(run(['user', 'list']).out, /bob +user +disabled/);
  assert.equal(run(['user', 'enable', 'bob']).code, 0);
  assert.equal(run(['user', 'reset-factor', 'bob']).code, 0);
  assert.equal(run(['user', 'reset-factor', 'nobody']).code, 1);
  const last = run(['user', 'remove', 'ada']);
  assert.equal(last.code, 1);
  assert.match(last.err, /last admin/);
  assert.equal(run(['user', 'remove', 'bob']).code, 0);
  assert.equal(run(['user', 'remove', 'bob']).code, 1);
  assert.equal(run(['user', 'add', 'bob']).code, 0);
});

test('an export is JSON; a backup is a database of its own', () => {
  const out = run(['export', 'ada']);
  assert.equal(out.code, 0, out.err);
  const value = JSON.parse(out.out);
  assert.equal(value.schema, 'sluice-export');
  assert.deepEqual(value.conversations, []);
  const file = path.join(dir, 'copy.db');
  assert.equal(run(['backup', file]).code, 0);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(readFileSync(file).subarray(0, 15).toString(), 'SQLite format 3');
  assert.equal(run(['backup', path.join(dir, 'nowhere/copy.db')]).code, 1);
  assert.equal(run(['export', 'nobody']).code, 1);
});

test('models of this machine are added without a server, and loaded by none', () => {
  assert.equal(run(['models', 'add', 'near', dir, '--idle', '60', '--users', 'ada']).code, 0);
  const near = JSON.parse(run(['models', 'list', '--json']).out);
  assert.deepEqual([near.name, near.path, near.state, near.idle_s, near.everyone], ['near', dir, '-', 60, false]);
  for (const verb of ['load', 'unload']) assert.match(run(['models', verb, 'near']).err, /no `sluice up` runs/);
  assert.equal(run(['models', 'set', 'near', '--pinned', 'maybe']).code, 2);
  assert.equal(run(['models', 'remove', 'near']).code, 0);
  assert.equal(run(['models', 'remove', 'near']).code, 1);
});

test('groups: made, filled, given models and limits, shown, removed', () => {
  assert.equal(run(['user', 'add', 'gil']).code, 0);
  assert.equal(run(['group', 'add', 'lab', '--description', 'tries things', '--tokens-per-day', '5000']).code, 0);
  assert.match(run(['group', 'add', 'LAB']).err, /called that already/);
  assert.match(run(['group', 'join', 'lab', 'nobody']).err, /nobody/);
  assert.match(run(['group', 'join', 'no lab', 'gil']).err, /there is no group 'no lab'/);
  assert.equal(run(['group', 'join', 'lab', 'gil']).code, 0);
  assert.equal(run(['group', 'set', 'lab', '--max-jobs', '0', '--claim', 'x-lab']).code, 0);
  assert.match(run(['group', 'set', 'lab', '--models', 'none such']).err, /models: there is no model 'none such'/);
  const g = JSON.parse(run(['group', 'list', '--json']).out);
  assert.deepEqual([g.name, g.description, g.claim, g.members, g.models, g.limits], ['lab', 'tries things', 'x-lab', 1, [], { requests_per_minute: null, tokens_per_minute: null, max_jobs: 0, tokens_per_day: 5000, storage_bytes: null }]);
  const shown = run(['group', 'show', 'lab']).out;
  assert.match(shown, /tokens_per_day 5000/);
  assert.match(shown, /gil/);
  assert.equal(run(['group', 'leave', 'lab', 'gil']).code, 0);
  assert.equal(run(['group', 'remove', 'lab']).code, 0);
  assert.equal(run(['group', 'list', '--json']).out, '');
  for (const words of [['group'], ['group', 'join', 'lab'], ['group', 'list', 'x'], ['group', 'paint', 'x']]) {
    const r = run(words);
    assert.match(r.out + r.err, /usage/);
  }
});

test('wrong use says how to use it', () => {
  for (const args of [['user'], ['user', 'add'], ['user', 'fly', 'x'], ['user', 'list', 'x'], ['key'], ['key', 'add'], ['key', 'remove', 'ada'],
    ['export'], ['backup'], ['backup', 'a', 'b'], ['user', 'list', '--bogus']]) {
    const r = run(args);
    assert.equal(r.code, 2, args.join(' '));
    assert.match(r.out + r.err, /usage|bogus/);
  }
  for (const name of ['user', 'key', 'export', 'backup']) assert.equal(run([name, '--help']).code, 0);
});
