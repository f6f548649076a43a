// sluice launch: the files of each client say what reaches this server, and --restore leaves them byte for byte as they were.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { program, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const sluice = (args, { env } = {}) => new Promise((done) => {
  const child = execFile(program('sluice'), args, { env: { ...process.env, ...env } }, (error, out, err) => done({ code: error ? error.code ?? -1 : 0, out, err }));
  child.stdin.end();
});
function homeOf(t) {
  const home = mkdtempSync(path.join(os.tmpdir(), 'slh-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  return home;
}
const launch = (home, client, ...more) => sluice(['launch', client, '--home', home, '--url', s.url, '--state', path.join(s.dir, 'state'), ...more]);
const put = (home, name, text, mode = 0o644) => {
  mkdirSync(path.dirname(path.join(home, name)), { recursive: true });
  writeFileSync(path.join(home, name), text);
  chmodSync(path.join(home, name), mode);
};
/** Every file below a folder: name to mode and bytes. */
function tree(dir, at = '') {
  const all = {};
  for (const f of readdirSync(path.join(dir, at), { withFileTypes: true })) {
    const name = path.join(at, f.name);
    if (f.isDirectory()) Object.assign(all, { [name]: 'folder' }, tree(dir, name));
    else all[name] = [statSync(path.join(dir, name)).mode & 0o777, readFileSync(path.join(dir, name), 'latin1'), f.isSymbolicLink()];
  }
  return all;
}
const keys = async () => (await s.json('GET', '/api/keys')).body.items.filter((k) => k.name.startsWith('launch '));
const works = async (key) => (await s.json('GET', '/v1/models', undefined, { authorization: `Bearer ${key}` })).status;

const BEFORE = {
  codex: { '.codex/config.toml': '# mine\nmodel = "gpt-x" # the old one\napproval_policy = "never"\nnotes = """\nmodel = "kept"\n"""\n\n[model_providers.sluice]\nbase_url = "http://old"\n\n[projects."/x"]\nmodel = "inner"' },
  claude: { '.claude/settings.json': '{\n  "permissions": {"allow": ["Bash(ls)"]},\n  "env": {"FOO": "1", "ANTHROPIC_API_KEY": "sk-old"}\n}' },
  opencode: { '.config/opencode/opencode.json': '{"theme":"x","provider":{"other":{"npm":"y"}}}\n' },
  aider: { '.aider.conf.yml': 'model: gpt-4\ndark-mode: true', '.aider.model.settings.yml': '- name: a/b\n  edit_format: whole\n', '.aider.model.metadata.json': '{"a/b": {"mode": "chat"}}' },
};
const CLIENTS = Object.keys(BEFORE);

test('with files or without, --restore leaves all as it was, and the key is gone', async (t) => {
  for (const client of CLIENTS) for (const files of [{}, BEFORE[client]]) {
    const home = homeOf(t);
    for (const [name, text] of Object.entries(files)) put(home, name, text);
    put(home, '.bashrc', 'x\n');
    const was = tree(home);
    const r = await launch(home, client, '--config', '--yes');
    assert.equal(r.code, 0, `${client}: ${r.err}`);
    const made = await keys();
    assert.equal(made.length, 1, client);
    assert.equal(made[0].name, `launch ${client}`);
    assert.deepEqual(made[0].scopes, ['inference']);
    const text = Object.values(tree(home)).map((f) => f[1]).join('\n'), key = /sk-sluice-[\w-]{43}/.exec(text)[0];
    assert.equal(await works(key), 200);
    assert.ok(!r.out.includes(key), 'the key is not shown');
    assert.ok(r.out.includes('--restore'), r.out);
    assert.match(r.out, /A context of \d+ tokens is little .*sluice up --ctx/);
    for (const name of Object.keys(BEFORE[client])) assert.equal(statSync(path.join(home, name)).mode & 0o077, 0, `${name} holds a key`);
    const back = await launch(home, client, '--restore');
    assert.equal(back.code, 0, back.err);
    const now = tree(home);
    for (const dir of ['.local', '.local/state', '.local/state/sluice-launch']) delete now[dir];
    assert.deepEqual(now, was, client);
    assert.equal((await keys()).length, 0);
    assert.equal(await works(key), 401);
  }
});

test('what a client had keeps its meaning beside what is new', async (t) => {
  const home = homeOf(t), read = (name) => readFileSync(path.join(home, name), 'utf8');
  for (const client of CLIENTS) for (const [name, text] of Object.entries(BEFORE[client])) put(home, name, text);
  for (const client of CLIENTS) assert.equal((await launch(home, client, '--config', '--yes')).code, 0);
  const toml = read('.codex/config.toml');
  assert.match(toml, /^model = "[^"]+" # by sluice launch\nmodel_provider = "sluice" # by sluice launch\nmodel_context_window = \d+ /);
  assert.ok(toml.includes('# model = "gpt-x" # the old one\n') && toml.includes('"""\nmodel = "kept"\n"""') && toml.includes('[projects."/x"]\nmodel = "inner"\n'), toml);
  assert.equal(toml.split('[model_providers.sluice]').length, 2);
  assert.ok(!toml.includes('http://old') && toml.includes(`base_url = "${s.url}/v1"`));
  const claude = JSON.parse(read('.claude/settings.json'));
  assert.deepEqual(claude.permissions, { allow: ['Bash(ls)'] });
  assert.equal(claude.env.FOO, '1');
  assert.equal(claude.env.ANTHROPIC_BASE_URL, s.url);
  assert.equal(claude.env.ANTHROPIC_API_KEY, undefined, 'an old key would win over the token');
  const open = JSON.parse(read('.config/opencode/opencode.json'));
  assert.deepEqual([open.theme, open.provider.other, open.provider.sluice.options.baseURL], ['x', { npm: 'y' }, `${s.url}/v1`]);
  assert.ok(open.provider.sluice.models[open.model.slice('sluice/'.length)].limit.context > 0);
  assert.match(read('.aider.conf.yml'), /^# model: gpt-4\ndark-mode: true\nmodel: "openai\/[^"]+" # by sluice launch\n/);
  assert.match(read('.aider.model.settings.yml'), /^- name: a\/b\n {2}edit_format: whole\n- name: "openai\//);
  assert.equal(Object.keys(JSON.parse(read('.aider.model.metadata.json'))).length, 2);
  for (const client of CLIENTS) assert.equal((await launch(home, client, '--restore')).code, 0);
});

test('a second launch keeps the first backup, writes nothing twice, and leaves one key', async (t) => {
  const home = homeOf(t), was = {};
  for (const client of ['codex', 'aider']) {
    for (const [name, text] of Object.entries(BEFORE[client])) put(home, name, text);
  }
  Object.assign(was, tree(home));
  for (const client of ['codex', 'aider']) {
    await launch(home, client, '--config', '--yes');
    const once = tree(home);
    assert.equal((await launch(home, client, '--config', '--yes')).code, 0);
    const hide = (all) => Object.fromEntries(Object.entries(all).filter(([n]) => !n.endsWith('record.json')).map(([n, f]) => [n, String(f).replace(/sk-sluice-[\w-]+/g, 'KEY')]));
    assert.deepEqual(hide(tree(home)), hide(once), client);
    assert.equal((await keys()).length, 1);
    await launch(home, client, '--restore');
  }
  const now = tree(home);
  for (const [name, f] of Object.entries(was)) assert.deepEqual(now[name], f, name);
});

test('what the client wrote after the launch is kept beside the file', async (t) => {
  const home = homeOf(t), file = path.join(home, '.codex/config.toml');
  put(home, '.codex/config.toml', 'a = 1\n');
  await launch(home, 'codex', '--config', '--yes');
  writeFileSync(file, `${readFileSync(file, 'utf8')}\n[projects."/y"]\n`);
  const r = await launch(home, 'codex', '--restore', '--json');
  assert.equal(readFileSync(file, 'utf8'), 'a = 1\n');
  assert.match(readFileSync(`${file}.sluice-changed`, 'utf8'), /\[projects\."\/y"\]/);
  const told = JSON.parse(r.out);
  assert.deepEqual([told.client, told.done, told.files[0].path], ['codex', 'restored', `${file}.sluice-changed`]);
});

test('a file behind a link is changed where it lies, and the link stays', async (t) => {
  const home = homeOf(t);
  put(home, 'dotfiles/claude.json', '{"a":1}');
  mkdirSync(path.join(home, '.claude'));
  symlinkSync('../dotfiles/claude.json', path.join(home, '.claude/settings.json'));
  await launch(home, 'claude', '--config', '--yes');
  assert.ok(lstatSync(path.join(home, '.claude/settings.json')).isSymbolicLink());
  assert.equal(JSON.parse(readFileSync(path.join(home, 'dotfiles/claude.json'), 'utf8')).env.ANTHROPIC_BASE_URL, s.url);
  await launch(home, 'claude', '--restore');
  assert.equal(readFileSync(path.join(home, 'dotfiles/claude.json'), 'utf8'), '{"a":1}');
});

test('nothing is written and no key is left when something is in the way, and the next step is named', async (t) => {
  const home = homeOf(t), refused = async (re, ...args) => {
    const was = tree(home), r = await launch(home, ...args);
    assert.notEqual(r.code, 0);
    assert.match(r.err, re);
    assert.deepEqual(tree(home), was);
    assert.equal((await keys()).length, 0);
  };
  await refused(/yes: is needed/, 'codex', '--config');
  await refused(/must be one of codex, claude, opencode, aider/, 'cursor', '--config', '--yes');
  await refused(/nothing to take back/, 'codex', '--restore');
  await refused(/does not go with/, 'codex', '--config', '--restore');
  await refused(/nobody answers at http:\/\/127\.0\.0\.1:9;.*sluice up/, 'codex', '--config', '--yes', '--url', 'http://127.0.0.1:9');
  await refused(/--key-file/, 'codex', '--config', '--yes', '--state', path.join(home, 'none'));
  await refused(/no user 'nobody'/, 'codex', '--config', '--yes', '--user', 'nobody');
  put(home, '.config/opencode/opencode.json', '{ // a comment\n}');
  await refused(/opencode\.json can't be changed by a program/, 'opencode', '--config', '--yes');
  put(home, 'key', 'sk-sluice-wrong\n');
  await refused(/wants another API key/, 'codex', '--config', '--yes', '--key-file', path.join(home, 'key'));
});

test('a launch starts the client with the words behind --, and a given key is nobody else\'s to remove', async (t) => {
  const home = homeOf(t), bin = path.join(home, 'bin');
  put(home, 'bin/codex', '#!/bin/sh\necho "HOME=$HOME" "$@"\n', 0o755);
  put(home, 'key', `${s.key}\n`);
  const env = { PATH: `${bin}:${process.env.PATH}` };
  const args = (...more) => ['launch', 'codex', '--home', home, '--url', s.url, '--key-file', path.join(home, 'key'), '--state', '/nonexistent', ...more];
  const r = await sluice(args('--yes', '--', 'exec', '--full-auto'), { env });
  assert.equal(r.code, 0, r.err);
  assert.ok(r.out.endsWith(`HOME=${home} exec --full-auto\n`), r.out);
  const again = await sluice(args('--', 'resume'), { env });
  assert.equal(again.out, `HOME=${home} resume\n`, 'the second time nothing is asked');
  assert.equal((await sluice(args('--restore'), { env })).code, 0);
  assert.equal(await works(s.key), 200);
  assert.ok(!existsSync(path.join(home, '.codex')));
  const missing = await sluice(['launch', 'claude', '--home', home, '--url', s.url, '--key-file', path.join(home, 'key'), '--yes'], { env: { PATH: '/nonexistent' } });
  assert.match(missing.err, /claude is not installed.*npm install -g @anthropic-ai\/claude-code/);
});
