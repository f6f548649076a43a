// sluice chat, status, logs: the terminal's view of a running server, and completion for shells out of the same tables.
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, program, start } from './harness.mjs';

const order = (o) => `fake:${JSON.stringify(o)}`;
let s, home;
before(async () => {
  s = await start({ fake: true });
  home = mkdtempSync(path.join(os.tmpdir(), 'slt-home-'));
});
after(async () => {
  await s?.stop();
  if (home) rmSync(home, { recursive: true, force: true });
});
const state = () => path.join(s.dir, 'state');
const run = (args, input = '') => new Promise((done) => {
  const child = execFile(program('sluice'), args, (error, out, err) => done({ code: error ? error.code ?? -1 : 0, out, err }));
  child.stdin.on('error', () => {});
  child.stdin.end(input);
});
const at = () => ['--url', s.url, '--state', state(), '--home', home];
const chat = (args, input) => run(['chat', ...at(), ...args], input);
const lists = async () => (await s.json('GET', '/api/conversations')).body.items;
const whole = async (id) => (await s.json('GET', `/api/conversations/${id}`)).body;

test('one message, one answer, in the history that the page shows; the key is made once and kept for its owner alone', async () => {
  const r = await chat([order({ text: 'HELLO-BACK' })]);
  assert.equal(r.code, 0, r.err);
  assert.equal(r.out, 'HELLO-BACK\n');
  const [c] = await lists();
  assert.deepEqual((await whole(c.id)).messages.map((m) => [m.role, m.status]), [['user', 'done'], ['assistant', 'done']]);
  const kept = path.join(home, '.config/sluice/chat.json');
  assert.equal(statSync(kept).mode & 0o777, 0o600);
  const text = readFileSync(kept, 'utf8');
  const json = await chat(['--json', order({ text: 'AGAIN' })]);
  assert.equal(JSON.parse(json.out).content, 'AGAIN');
  assert.equal(readFileSync(kept, 'utf8'), text);
  const keys = (await s.json('GET', '/api/keys')).body.items.filter((k) => k.name === 'launch chat');
  assert.equal(keys.length, 1);
  assert.deepEqual(keys[0].scopes.toSorted(), ['history', 'inference']);
  await s.json('DELETE', `/api/keys/${keys[0].id}`);
  assert.equal((await chat([order({ text: 'NEW-KEY' })])).out, 'NEW-KEY\n', 'a revoked key is replaced');
});

test('a conversation goes on: the next message, another answer, an older one, several lines, files', async () => {
  const file = path.join(home, 'town.txt');
  writeFileSync(file, 'The town is Kiel.\n');
  const r = await chat([], [order({ text: 'ONE' }), '/again', 'first \\', `second ${order({ text: 'TWO' })}`, '/new', `/file ${file}`, order({ text: 'THREE' }), '/list', '/quit', 'never'].join('\n'));
  assert.equal(r.code, 0, r.err);
  const [third, first] = await lists();
  assert.match(r.out, /^ONE\nONE\nTWO\nattached to the next message: .*town\.txt\nTHREE\n/);
  assert.ok(r.out.includes(`\n${third.id.padEnd(8)} `) && !r.out.includes('never'));
  const one = await whole(first.id), users = one.messages.filter((m) => m.role === 'user');
  assert.equal(users.length, 2);
  assert.ok(users[1].content.startsWith('first \nsecond '));
  assert.equal(one.messages.filter((m) => m.content === 'ONE').length, 2, 'both answers are branches');
  assert.deepEqual((await whole(third.id)).messages[0].attachments.map((a) => a.name), ['town.txt']);
  const more = await chat(['--open', first.id, order({ text: 'FOUR' })]);
  assert.equal(more.out, 'FOUR\n');
  assert.equal((await whole(first.id)).messages.length, one.messages.length + 2);
  await chat(['--continue', order({ text: 'FIVE' })]);
  assert.equal((await whole(first.id)).messages.length, one.messages.length + 4, 'the newest goes on');
  const listed = JSON.parse((await chat(['--list', '--json'])).out);
  assert.equal(listed[0].id, first.id);
  assert.match((await chat(['--open', first.id], '')).out, /FOUR\n/);
});

test('Ctrl-C stops an answer, and what was written is kept', async () => {
  const child = spawn(program('sluice'), ['chat', ...at(), order({ text: 'word '.repeat(2000), token_ms: 50 })], { stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  child.stdout.on('data', (d) => { out += d; });
  await eventually(() => assert.ok(out.includes('word')));
  child.kill('SIGINT');
  const code = await new Promise((done) => { child.on('exit', done); });
  assert.equal(code, 0);
  const [c] = await lists(), last = (await whole(c.id)).messages.at(-1);
  assert.equal(last.status, 'stopped');
  assert.ok(last.content.length > 0 && last.content.length < 10000);
});

test('what is wrong is said with the next step', async () => {
  const says = async (re, ...args) => {
    const r = await run(args);
    assert.notEqual(r.code, 0, args.join(' '));
    assert.match(r.err, re);
  };
  await says(/nobody answers at http:\/\/127\.0\.0\.1:9;.*`sluice up`/, 'chat', '--url', 'http://127.0.0.1:9', '--state', state(), '--home', home, 'hello');
  await says(/--key-file FILE/, 'chat', '--url', s.url, '--home', path.join(home, 'x'), '--state', path.join(home, 'none'), 'hello');
  await says(/url: must be an address/, 'chat', '--url', 'box:8080', 'hello');
  await says(/json: goes with/, 'chat', ...at(), '--json');
  await says(/no conversation's id/, 'chat', ...at(), '--open', 'x', 'hello');
  await says(/404|not found|no such|no conversation/i, 'chat', ...at(), '--open', '999999', 'hello');
  await says(/sluice up --state/, 'status', '--state', home);
  await says(/No such file/, 'status', '--state', path.join(home, 'none'));
  await says(/sluice up --state DIR/, 'logs', '--state', home);
});

test('status and logs say what runs, for people and programs', async () => {
  const people = await run(['status', '--state', state()]);
  assert.equal(people.code, 0, people.err);
  assert.match(people.out, /^state {5}ready$/m);
  assert.match(people.out, /^nginx {4} pid \d+, started again 0 times$/m);
  const o = JSON.parse((await run(['status', '--state', state(), '--json'])).out), page = (await s.json('GET', '/api/status')).body;
  assert.deepEqual([o.state, o.n_ctx, o.device], [page.engine.state, page.model.n_ctx, page.model.device]);
  assert.ok(o.processes.length >= 4, JSON.stringify(o));
  const items = (await s.json('GET', '/api/admin/log?limit=500')).body.items;
  const lines = (await run(['logs', '--state', state(), '--json', '--lines', '2000'])).out.trim().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(lines.slice(0, items.length).map((l) => l.sequence), items.map((l) => l.sequence));
  assert.deepEqual(lines[0], items[0]);
  const some = (await run(['logs', '--state', state(), '--json', '--lines', '3', '--program', 'up'])).out.trim().split('\n').map((l) => JSON.parse(l));
  assert.ok(some.length <= 3 && some.every((l) => l.program === 'up'));
  for (const l of (await run(['logs', '--state', state(), '--json', '--level', 'warn'])).out.trim().split('\n').filter(Boolean)) assert.match(JSON.parse(l).level, /error|warn/);
});

test('logs --follow goes on with what comes', async () => {
  const child = spawn(program('sluice'), ['logs', '--state', state(), '--follow', '--lines', '1', '--json'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (d) => { out += d; });
  try {
    const count = () => out.split('\n').length - 1;
    await eventually(() => assert.ok(count() >= 1));
    assert.equal(count(), 1);
    const before = JSON.parse(out.trim().split('\n')[0]).sequence;
    const { processes } = JSON.parse((await run(['status', '--state', state(), '--json'])).out);
    process.kill(processes.find((p) => /record/.test(p.name)).pid, 'SIGKILL'); // which the supervisor logs
    await eventually(() => assert.ok(count() >= 2));
    assert.ok(JSON.parse(out.trim().split('\n')[1]).sequence > before);
  } finally {
    child.kill();
  }
});

test('shells complete commands, words, options and their values', async () => {
  const written = Object.fromEntries(await Promise.all(['bash', 'zsh', 'fish'].map(async (sh) => {
    const r = await run(['completion', sh]);
    assert.equal(r.code, 0, r.err);
    const file = path.join(home, `sluice.${sh}`);
    writeFileSync(file, r.out);
    return [sh, file];
  })));
  const bash = (...words) => {
    const r = spawnSync('bash', ['-c', 'f=$1; shift; source "$f"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _sluice; echo "${COMPREPLY[@]}"', '-', written.bash, ...words], { encoding: 'utf8' });
    assert.equal(r.status, 0, r.stderr);
    return r.stdout.trim().split(/\s+/).filter(Boolean);
  };
  const commands = [...(await run(['help'])).out.matchAll(/^ {2}([a-z]+) /gm)].map((m) => m[1]);
  assert.deepEqual(bash('sluice', '').filter((w) => !['help', 'version'].includes(w)), commands);
  assert.deepEqual(bash('sluice', 'launch', 'cl'), ['claude']);
  assert.deepEqual(bash('sluice', 'up', '--backend', ''), ['auto', 'vulkan', 'cpu']);
  assert.deepEqual(bash('sluice', 'up', '--prompt-c'), ['--prompt-cache-disk', '--prompt-cache-ram']);
  assert.deepEqual(bash('sluice', 'up', '--model', ''), [], 'files, which bash itself completes');
  for (const [sh, args] of [['zsh', ['-n']], ['fish', ['-n']]]) {
    const r = spawnSync(sh, [...args, written[sh]], { encoding: 'utf8' });
    if (!r.error) assert.equal(r.status, 0, r.stderr);
  }
  const fish = spawnSync('fish', ['-c', `source ${written.fish}; complete -C "sluice up --backend "`], { encoding: 'utf8' });
  if (!fish.error) assert.deepEqual(fish.stdout.trim().split('\n').map((l) => l.split('\t')[0]).sort(), ['auto', 'cpu', 'vulkan']);
  assert.notEqual((await run(['completion', 'tcsh'])).code, 0);
});
