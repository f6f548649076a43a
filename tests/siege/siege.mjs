// Three hostile users and strangers' slow connections against five ordinary users, on the real engine with the demo model:
//   node tests/siege/siege.mjs [--quiet SECONDS] [--siege SECONDS] [--without engine,database,threads,logins,connections]
// By default 30 and 120 seconds; the full siege is --siege 1800. Environment as in tests/api/harness.mjs. Measures what the
// ordinary users wait for, first in peace and then under siege, and prints JSON: percentiles and statuses of each
// operation, processes' memory, the state folder's bytes. Exits with 1 if an ordinary user met a 5xx or lost a row.
import { execFileSync } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { sleep, start } from '../api/harness.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const QUIET_S = Number(option('quiet', 30)), SIEGE_S = Number(option('siege', 120));
const WITHOUT = new Set(option('without', '').split(','));
const PASSWORD = 'a long enough password';
const CHAT_BYTES = 8 << 20, TEXT_BYTES = 1 << 20;

let s, over = false;

/** One request from an address of 127/8: {status, body, first, ms}; first: milliseconds until the body had `mark`, or anything. */
function ask(from, method, path, { body, headers = {}, timeout = 120000, mark } = {}) {
  const began = performance.now();
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((done) => {
    const r = http.request({ host: '127.0.0.1', port: s.port, localAddress: from, method, path, agent: false, timeout,
      headers: { ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } }, (answer) => {
      let got = '', first;
      answer.setEncoding('utf8').on('data', (d) => { if (got.length < 1 << 20) got += d; if (first === undefined && (!mark || got.includes(mark))) first = performance.now() - began; });
      answer.on('error', () => {}).on('close', () => done({ status: answer.statusCode, headers: answer.headers, body: got, first, ms: performance.now() - began }));
    });
    r.on('timeout', () => r.destroy(new Error('timeout')));
    r.on('error', (e) => done({ status: 0, body: e.message, ms: performance.now() - began }));
    r.end(text);
  });
}

/** A user with a session and a key: {from, name, cookie, csrf, key, call}. */
async function person(name, from) {
  const made = await s.json('POST', '/api/users', { name, password: PASSWORD, role: 'user' });
  if (made.status !== 201) throw new Error(made.text);
  const login = await ask(from, 'POST', '/api/login', { body: { name, password: PASSWORD } });
  const cookie = login.headers['set-cookie'][0].split(';')[0], { csrf } = JSON.parse(login.body);
  const page = { cookie, 'x-csrf-token': csrf };
  const key = await ask(from, 'POST', '/api/keys', { headers: page, body: { name: 'siege', scopes: ['inference', 'history'], password: PASSWORD } });
  if (key.status !== 201) throw new Error(`${key.status} ${key.body}`);
  const bearer = { authorization: `Bearer ${JSON.parse(key.body).key}` };
  return { name, from, page: (method, path, body, more) => ask(from, method, path, { headers: page, body, ...more }),
    api: (method, path, body, more) => ask(from, method, path, { headers: bearer, body, ...more }) };
}

// --- the ordinary users ---

const OPERATIONS = {
  'first token of 12': async (p) => p.api('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: `What is bread? ${Math.random()}` }],
    max_tokens: 12, stream: true }, { mark: '"content":"' }).then((r) => ({ ...r, ms: r.first ?? r.ms })),
  session: (p) => p.page('GET', '/api/session'),
  list: (p) => p.page('GET', '/api/conversations'),
  'new chat': async (p) => {
    const r = await p.page('POST', '/api/conversations', {});
    if (r.status === 201) p.chats.push(JSON.parse(r.body).id);
    return r;
  },
  login: (p) => ask(p.from, 'POST', '/api/login', { body: { name: p.name, password: PASSWORD } }),
  health: (p) => ask(p.from, 'GET', '/health'),
};

async function live(p, seen, until) {
  while (performance.now() < until) {
    for (const [name, run] of Object.entries(OPERATIONS)) {
      const r = await run(p);
      (seen[name] ??= []).push(r);
      await sleep(150);
    }
  }
}

function summary(seen) {
  const out = {};
  for (const [name, all] of Object.entries(seen)) {
    const ms = all.map((r) => r.ms).sort((a, b) => a - b), at = (q) => Math.round(ms[Math.min(ms.length - 1, Math.floor(ms.length * q))]);
    const statuses = {};
    for (const r of all) statuses[r.status] = (statuses[r.status] ?? 0) + 1;
    out[name] = { n: ms.length, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: Math.round(ms.at(-1)), statuses };
  }
  return out;
}

// --- the hostile ones ---

const forever = async (run) => { while (!over) { await run().catch(() => {}); await sleep(5); } };

/** Holds all slots and the queue. */
const engine = (p) => Promise.all([
  forever(() => p.api('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Go on.' }], n: 16, ignore_eos: true, max_tokens: 2000 }, { timeout: 60000 })),
  ...Array.from({ length: 100 }, (_, i) => forever(() => p.api('POST', '/v1/completions', { prompt: `again ${i}`, ignore_eos: true, max_tokens: 200 }, { timeout: 60000 }))),
]);

/** A chat of many megabytes: imported, copied and deleted again and again. */
async function database(p) {
  const line = 'Each of these words is indexed by its three-letter parts, which takes the database some time. ';
  const messages = Array.from({ length: 64 }, (_, i) => ({ id: i + 1, parent: i || null, role: i % 2 ? 'assistant' : 'user', status: 'done',
    content: line.repeat(Math.ceil(CHAT_BYTES / 64 / line.length)) + i, reasoning: '', tool_calls: null, tool_call_id: null, error: null, model: null,
    usage: null, timings: null, created_at: Date.now(), finished_at: Date.now(), attachments: [] }));
  const body = () => JSON.stringify({ schema: 'sluice-export', version: 1, exported_at: Date.now(), conversations: [{ key: randomUUID(), title: 'large',
    created_at: Date.now(), updated_at: Date.now(), pinned: false, archived: false, trashed_at: null, fork_of: null, tags: [], settings: {}, leaf: 64, messages }] });
  await forever(async () => {
    await p.page('POST', '/api/import', body());
    const list = JSON.parse((await p.page('GET', '/api/conversations')).body).conversations ?? [];
    for (const c of list.slice(0, 2)) await p.page('POST', `/api/conversations/${c.id}/fork`, {});
    const all = JSON.parse((await p.page('GET', '/api/conversations')).body).conversations ?? [];
    for (const c of all) await p.page('DELETE', `/api/conversations/${c.id}?forever=true`);
  });
}

/** Requests that hold a thread each. */
const threads = (p) => Promise.all(Array.from({ length: 20 }, () =>
  forever(() => p.api('POST', '/tokenize', { content: 'some text to be cut into pieces '.repeat(TEXT_BYTES / 32) }))));

/** Wrong passwords from 50 addresses, some hundred a second. */
const logins = () => Promise.all(Array.from({ length: 50 }, (_, i) =>
  forever(async () => { await ask(`127.0.20.${i + 1}`, 'POST', '/api/login', { body: { name: `nobody${i}`, password: 'wrong password' } }); await sleep(200); })));

/** A thousand connections that send a byte now and then. */
async function connections() {
  const open = new Set();
  const hold = (i) => {
    const c = net.connect({ port: s.port, host: '127.0.0.1', localAddress: `127.0.21.${(i % 4) + 1}` });
    open.add(c);
    c.on('error', () => {}).on('data', () => {}).on('close', () => open.delete(c))
      .on('connect', () => c.write(i % 2 ? 'GET / HTTP/1.1\r\nHost: x\r\n' : 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 15000\r\n\r\n'));
  };
  for (let i = 0; !over; i++) {
    if (open.size < 1000) hold(i);
    else await sleep(100);
    for (const c of open) if (Math.random() < 0.001) c.write('x');
    if (i % 50 === 0) await sleep(20);
  }
  for (const c of open) c.destroy();
}

const HOSTILE = { engine, database, threads, logins, connections };

// --- what is measured beside ---

function memory() {
  const out = {};
  for (const name of ['engine', 'recorder', 'workers-short', 'workers-stream', 'nginx']) {
    const pid = s.pid(name), all = pid ? [pid, ...s.childrenOf(pid)] : [];
    out[name] = all.reduce((sum, p) => {
      try { return sum + Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${p}/status`, 'utf8'))[1]); } catch { return sum; }
    }, 0) >> 10;
  }
  return out;
}

s = await start();
const people = [];
for (let i = 0; i < 5; i++) people.push({ ...await person(`person${i}`, `127.0.8.${i + 1}`), chats: [] });
const hostile = {};
for (const name of Object.keys(HOSTILE)) if (!WITHOUT.has(name)) hostile[name] = await person(`hostile-${name}`, '127.0.9.1');

const peace = {}, war = {}, report = { seconds: { quiet: QUIET_S, siege: SIEGE_S }, hostile: Object.keys(hostile) };
await Promise.all(people.map((p) => live(p, peace, performance.now() + QUIET_S * 1000)));
const attacks = Object.entries(hostile).map(([name, p]) => HOSTILE[name](p));
const peak = {};
const sampler = setInterval(() => { for (const [k, v] of Object.entries(memory())) peak[k] = Math.max(peak[k] ?? 0, v); }, 2000);
await sleep(3000);
await Promise.all(people.map((p) => live(p, war, performance.now() + SIEGE_S * 1000)));
over = true;
clearInterval(sampler);
report.quiet = summary(peace);
report.siege = summary(war);
report.peak_mb = peak;
report.state_mb = Number(execFileSync('du', ['-sm', `${s.dir}/state`], { encoding: 'utf8' }).split('\t')[0]);
let lost = 0;
await sleep(5000);
for (const p of people) for (const id of p.chats) if ((await p.page('GET', `/api/conversations/${id}`)).status !== 200) lost += 1;
report.rows = { made: people.reduce((n, p) => n + p.chats.length, 0), lost };
const bad = Object.values(war).flat().filter((r) => r.status >= 500 || r.status === 0);
report.failed = bad.length;
report.failures = [...new Set(bad.map((r) => `${r.status} ${r.body.slice(0, 200)}`))].slice(0, 8);
console.log(JSON.stringify(report, null, 1));
await Promise.race([Promise.all(attacks), sleep(10000)]);
await s.stop();
process.exit(bad.length || lost ? 1 : 0);
