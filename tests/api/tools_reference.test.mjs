// Tools that run, with the protocol's own reference server (@modelcontextprotocol/server-everything): sessions, streams with progress
// and log messages before the result, all kinds of content, requests that the server makes of its client.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, lives, PATIENCE, program as find, sleep, start, top } from './harness.mjs';

const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
const program = path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js');
const sanitized = Boolean(process.env.SLUICE_TEST_SANITIZED); // no filter is loaded
const noise = `process.stdout.write("words for people\\n"); process.stdin.resume(); process.stdin.on("end", () => {});`; // and it never ends by itself
/** Says what it can reach, as a tool. */
const probe = `
const fs = require("fs"), net = require("net"), cp = require("child_process");
const tryIt = (f) => { try { return f(); } catch (e) { return e.code || e.message; } };
let held = "";
process.stdin.on("data", (d) => { held += d; for (let i; (i = held.indexOf("\\n")) >= 0; held = held.slice(i + 1)) take(JSON.parse(held.slice(0, i))); });
const send = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
function take(m) {
  if (m.method === "initialize") send(m.id, { protocolVersion: m.params.protocolVersion, capabilities: {}, serverInfo: { name: "p", version: "1" } });
  if (m.method === "tools/list") send(m.id, { tools: [{ name: "look", inputSchema: { type: "object" } }, { name: "hang", inputSchema: { type: "object" } }, { name: "flood", inputSchema: { type: "object" } }, { name: "leave", inputSchema: { type: "object" } }] });
  if (m.method !== "tools/call") return;
  if (m.params.name === "flood") { for (let i = 0; i < 600; i++) process.stdout.write("x".repeat(10000)); return; }
  if (m.params.name === "leave") { // one child in its group, one apart, and one whose parent ends before
    const pids = [false, true].map((detached) => cp.spawn("/bin/sleep", ["600"], { detached, stdio: "ignore" }).pid);
    pids.push(Number(cp.execFileSync("/bin/sh", ["-c", "setsid sleep 600 >&- 2>&- & echo $!"], { encoding: "utf8" })));
    send(m.id, { content: [{ type: "text", text: JSON.stringify(pids.concat(tryIt(() => process.kill(pids[2], 0)))) }] });
    return;
  }
  if (m.params.name === "hang") { fs.writeFileSync(process.env.PLACE + "/pid", String(process.pid)); return; }
  const state = tryIt(() => fs.readdirSync(process.env.STATE).length), own = tryIt(() => { fs.writeFileSync(process.env.PLACE + "/x", "1"); return "written"; });
  const outside = tryIt(() => fs.writeFileSync("/tmp/from-a-tool", "1")), ran = tryIt(() => cp.execFileSync("/bin/echo", ["ran"], { encoding: "utf8" }).trim());
  const done = (network, local) => send(m.id, { content: [{ type: "text", text: JSON.stringify({ state, own, outside, ran, network, local, env: Object.keys(process.env).sort(), texts: ["HOME", "LANG", "PATH"].map((name) => process.env[name]), cwd: process.cwd() }) }] });
  const connect = (next, ...to) => net.connect(...to, () => next("connected")).on("error", (e) => next(e.code));
  const sockets = tryIt(() => fs.readFileSync(process.env.PLACE + "/sockets", "utf8").split("\\n"));
  connect((network) => connect((tools) => connect((short) => done(network, [tools, short]), sockets[1]), sockets[0]), Number(process.env.PORT), "127.0.0.1");
}`;
let s, child, url, place;
let said = '';

const freePort = () => new Promise((done) => { const n = net.createServer().listen(0, '127.0.0.1', () => { const { port } = n.address(); n.close(() => done(port)); }); });
before(async () => {
  const port = await freePort();
  place = mkdtempSync(path.join(os.tmpdir(), 'slt-tool-'));
  const node = (...args) => ({ command: process.execPath, args, folder: place });
  const reach = { write: [place], env: { PLACE: place, STATE: os.tmpdir(), PORT: String(port) } };
  const file = path.join(place, 'programs.json');
  writeFileSync(file, JSON.stringify({ programs: {
    everything: { ...node(program, 'stdio'), read: [modules, path.join(place, 'later')] },
    probe: { ...node('-e', probe), ...reach },
    online: { ...node('-e', probe), ...reach, env: { ...reach.env, HOME: '/usr', LANG: 'C', PATH: '/bin' }, network: true },
    noise: node('-e', noise), crash: node('-e', 'process.exit(3)') } }));
  s = await start({ fake: true, args: ['--tool-programs', file] });
  writeFileSync(path.join(place, 'sockets'), ['tools.sock', 'short.sock'].map((name) => path.join(s.dir, 'state', name)).join('\n'));
  url = `http://127.0.0.1:${port}/mcp`;
  child = spawn(process.execPath, [program, 'streamableHttp'], { env: { ...process.env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { said += d; });
  await eventually(() => assert.match(said, /listening/, said));
});
after(async () => { child?.kill('SIGKILL'); await s?.stop(); rmSync(place, { recursive: true, force: true }); });

async function run(tool, args) {
  const c = (await s.json('POST', '/api/conversations', { settings: { tool_servers: ['all'], thinking: false } })).body;
  const text = `<tool_call>\n${JSON.stringify({ name: `all_${tool.replace(/[^a-z]/g, '-')}`, arguments: args })}\n</tool_call>`;
  const out = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { content: `fake:${JSON.stringify({ steps: [text, 'Done.'] })}` }));
  const answer = out.last.message;
  const { definition } = (await s.json('GET', '/api/tool-servers')).body.items[0].tools.find((t) => t.call === answer.tool_calls[0].function.name);
  const r = await s.json('POST', `/api/messages/${answer.id}/calls/${answer.tool_calls[0].id}/run`, { allow: 'once', definition });
  assert.equal(r.status, 200, r.text);
  const next = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { parent_id: answer.id, tool_results: [{ tool_call_id: answer.tool_calls[0].id }] }));
  assert.equal(next.last.message.content, 'Done.');
  return r.body;
}

test('it lists its tools, and all can be offered', async () => {
  const r = await s.json('POST', '/api/tool-servers', { name: 'all', url, everyone: true });
  assert.equal(r.status, 201, r.text);
  const names = r.body.tools.map((t) => t.name);
  for (const name of ['echo', 'get-sum', 'get-tiny-image', 'trigger-long-running-operation']) assert.ok(names.includes(name), `${name} in ${names}`);
  assert.deepEqual(r.body.tools.filter((t) => t.problem), []);
});

test('texts, structures, pictures and links come back', async () => {
  assert.match((await run('echo', { message: 'grüße' })).result, /grüße/);
  assert.match((await run('get-sum', { a: 17, b: 25 })).result, /42/);
  assert.match((await run('get-structured-content', { location: 'New York' })).result, /temperature/);
  assert.match((await run('get-tiny-image', {})).result, /image\/png, \d+ bytes: not shown to the model/);
  assert.match((await run('get-resource-links', { count: 3 })).result, /\]\(\w+:\/\//);
});

test('a long call tells of its progress before it ends', async () => {
  const r = await run('trigger-long-running-operation', { duration: 2, steps: 4 });
  assert.equal(r.state, 'done', r.result);
  assert.ok(r.ends_at - r.began_at >= 1900, JSON.stringify(r));
});

test('what its arguments must be it says itself, as the call\'s result', async () => {
  const r = await run('get-sum', { a: 'x' });
  assert.equal(r.state, 'failed');
  assert.match(r.result, /number|invalid/i);
});

// --- the same server as a program, over its standard input and output ---------------------------------------------------------

async function addProgram(name, more = {}) {
  return s.json('POST', '/api/tool-servers', { name, url: `stdio://${name}`, everyone: true, ...more });
}

async function call(name, args = {}) {
  const [server] = name.split('_');
  const c = (await s.json('POST', '/api/conversations', { settings: { tool_servers: [server], thinking: false } })).body;
  const text = `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
  const out = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { content: `fake:${JSON.stringify({ steps: [text, 'Done.'] })}` }));
  const answer = out.last.message;
  const { definition } = (await s.json('GET', '/api/tool-servers')).body.items.find((x) => x.name === server).tools.find((t) => t.call === name);
  return s.json('POST', `/api/messages/${answer.id}/calls/${answer.tool_calls[0].id}/run`, { allow: 'once', definition });
}

test('as a program it does the same, and nobody but an admin offers one', async () => {
  const r = await addProgram('everything');
  assert.equal(r.status, 201, r.text);
  assert.deepEqual(r.body.tools.map((t) => t.name), (await s.json('GET', '/api/tool-servers')).body.items.find((x) => x.name === 'all').tools.map((t) => t.name));
  const sum = await call('everything_get-sum', { a: 17, b: 25 });
  assert.equal(sum.body.state, 'done', sum.text);
  assert.match(sum.body.result, /42/);
  assert.equal((await addProgram('nobody')).body.error.reason, 'tool_program');
  assert.equal((await addProgram('everything', { name: 'mine', everyone: false })).status, 403);
  for (const [field, body] of [['url', { url: 'stdio://' }], ['url', { url: 'stdio://../x' }], ['secret', { secret: 'x' }], ['header', { header: 'X-Key' }]]) {
    const bad = await addProgram('probe', body);
    assert.equal(bad.status, 400, JSON.stringify(body));
    assert.equal(bad.body.error.param, field);
  }
  const kept = await s.json('PATCH', `/api/tool-servers/${r.body.id}`, { secret: 'x' }); // one that is there gets none either
  assert.deepEqual([kept.status, kept.body.error.param], [400, 'secret']);
  await s.json('PATCH', '/api/admin/settings', { tool_servers: 'users' });
  await s.json('POST', '/api/users', { name: 'ed', password: 'a long password' });
  const login = await s.json('POST', '/api/login', { name: 'ed', password: 'a long password' }, { authorization: null });
  const r2 = await s.json('POST', '/api/tool-servers', { name: 'x', url: 'stdio://everything' }, { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf });
  assert.equal(r2.status, 403, r2.text);
});

test('a path that is not there is said in the log, at the start and whenever the program starts', async () => {
  const said = () => s.log.match(/program everything: read: \/\S*\/later: No such file or directory/g)?.length ?? 0;
  const before = said();
  assert.ok(before >= 1, s.log.slice(0, 2000));
  assert.equal((await call('everything_echo', { message: 'x' })).body.state, 'done'); // the rest of its entry holds
  await eventually(() => assert.ok(said() > before));
  assert.equal(said(), before + 1);
});

test('a program reaches its own folder and nothing else: no state, no network, no variables of ours', async () => {
  assert.equal((await addProgram('probe')).status, 201);
  const saw = JSON.parse((await call('probe_look')).body.result);
  assert.equal(saw.state, 'EACCES');
  assert.equal(saw.own, 'written');
  assert.equal(saw.outside, 'EACCES');
  assert.ok(['EAFNOSUPPORT', 'EACCES', 'EPERM'].includes(saw.network), saw.network);
  assert.deepEqual(saw.env, ['HOME', 'LANG', 'PATH', 'PLACE', 'PORT', 'STATE']);
  assert.equal(saw.cwd, place);
  assert.equal(saw.ran, 'ran');
  if (!sanitized) assert.deepEqual(saw.local, ['EAFNOSUPPORT', 'EAFNOSUPPORT'], 'the sockets of the tool host and of the workers');
});

test('one that may, has a network', async () => {
  assert.equal((await addProgram('online')).status, 201);
  const saw = JSON.parse((await call('online_look')).body.result);
  assert.equal(saw.network, 'connected');
  assert.deepEqual(saw.texts, ['/usr', 'C', '/bin'], 'what its entry says, not what others get');
  if (!sanitized) assert.deepEqual(saw.local, ['EAFNOSUPPORT', 'EAFNOSUPPORT']);
});

test('time, output and words between the messages are bounded; who ends at once is started later and later', async () => {
  const within = (tool_call_seconds) => s.json('PATCH', '/api/admin/settings', { tool_call_seconds });
  let hung;
  for (let seconds = 2; seconds <= 64 && !existsSync(path.join(place, 'pid')); seconds *= 2) { // it may take longer to start
    await within(seconds);
    hung = await call('probe_hang');
  }
  assert.equal(hung.body.state, 'failed');
  assert.match(hung.body.result, /in time/);
  const pid = readFileSync(path.join(place, 'pid'), 'utf8');
  await eventually(() => assert.ok(!lives(pid), 'it is killed when the call is over'));
  await within(60);
  assert.match((await call('probe_flood')).body.result, /larger than/);
  await within(2);
  const mute = await addProgram('noise'); // prints words, never answers
  assert.equal(mute.status, 400);
  await within(60);
  const first = await addProgram('crash');
  assert.equal(first.body.error.reason, 'tool_program_failed', first.text);
  const again = await addProgram('crash'); // refused without a start
  assert.equal(again.body.error.reason, 'tool_program_failed', again.text);
  assert.equal((s.log.match(/program crash ended by itself/g) || []).length, 1, s.log.slice(-2000));
});

test('what a program started ends with it, also what left its group, and nothing is left to be collected', async () => {
  const pids = JSON.parse((await call('probe_leave')).body.result);
  assert.equal(pids.pop(), true, 'one whose parent has ended lives on while the program does');
  const there = () => pids.filter((pid) => existsSync(`/proc/${pid}`)); // a zombie is there, too
  await eventually(() => assert.deepEqual(there(), []));
  const host = s.pid('toolhost');
  assert.equal(readFileSync(`/proc/${host}/task/${host}/children`, 'utf8').trim(), '');
});

test('a killed worker takes its programs along', async () => {
  const known = readFileSync(path.join(place, 'pid'), 'utf8');
  const running = call('probe_hang').catch(() => {});
  const pid = await eventually(() => {
    const now = readFileSync(path.join(place, 'pid'), 'utf8');
    assert.ok(now && now !== known);
    return now;
  });
  assert.ok(lives(pid));
  for (const worker of s.childrenOf(s.pid('workers-short'))) try { process.kill(worker, 'SIGKILL'); } catch { /* gone */ }
  await eventually(() => assert.ok(!lives(pid)));
  await running;
});

test('a file of programs that is wrong says where, and nothing starts', () => {
  const file = path.join(place, 'bad.json');
  for (const [text, words] of [['{', /JSON|json|end/], ['{}', /"programs"/], ['{"programs": {"X": {"command": "/bin/cat"}}}', /'X': its name/], ['{"programs": {"a": {}}}', /'a': command/],
    ['{"programs": {"a": {"command": "cat"}}}', /'a': command must be the absolute path/], ['{"programs": {"a": {"command": "/bin/cat", "netwrok": true}}}', /'a': netwrok is not a field/],
    ['{"programs": {"a": {"command": "/bin/cat", "read": ["x"]}}}', /'a': read must hold absolute paths/], ['{"programs": {"a": {"command": "/bin/cat", "env": {"A": 1}}}}', /'a': env/],
    ['{"programs": {"a": {"command": "/bin/cat", "memory_mb": 1}}}', /'a': memory_mb: must be from/]]) {
    writeFileSync(file, text);
    const r = spawnSync(find('sluice-toolhost'), ['--programs', file, '--socket', path.join(place, 's')], { encoding: 'utf8', timeout: PATIENCE });
    assert.equal(r.status, 1, text);
    assert.match(r.stderr, words, text);
  }
  const up = spawnSync(find('sluice'), ['up', '--state', path.join(place, 'up'), '--bin-dir', s.places.binDir, '--share-dir', s.places.share, '--model', s.places.share, '--port', '9', '--tool-programs', file], { encoding: 'utf8', timeout: PATIENCE });
  assert.equal(up.status, 1, up.stderr); // of the whole server, and not of a host that is started anew for ever
  assert.match(up.stderr, /'a': memory_mb: must be from/);
  assert.ok(!existsSync(path.join(place, 'up')));
});
