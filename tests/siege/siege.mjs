// Three hostile users and a thousand hostile connections against five ordinary users, on the real engine with the demo model:
//   node tests/siege/siege.mjs [--quiet SECONDS] [--siege SECONDS] [--without engine,database,files,logins,connections] [--no-browser]
//     [--log FILE], for the server's log lines at level debug
// By default 30 and 120 seconds; the full siege is --siege 1800. Environment as in tests/api/harness.mjs. Measures what the
// ordinary users wait for, first in peace and then under siege, and prints JSON: percentiles and statuses of each operation,
// processes' memory, the state folder's bytes, and what is out of bounds. Exits with 1 if anything is.
//
// The bound of the first token: twice its 99th percentile in peace, and one share of the engine: a turn of 64 steps as long
// as the engine's steps took under siege.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { load, sleep, start } from '../api/harness.mjs';
import { NAMES } from '../soak/processes.mjs';
import { ask, PASSWORD } from './ask.mjs';
import { anthropicPerson, FIRST, openaiPerson, pagePerson, plainPerson } from './people.mjs';

const given = (name) => process.argv.includes(`--${name}`);
const option = (name, otherwise) => (given(name) ? process.argv[process.argv.indexOf(`--${name}`) + 1] : otherwise);
const QUIET_S = Number(option('quiet', 30)), SIEGE_S = Number(option('siege', 120));
const TURN_STEPS = 64;
/** Megabytes that a program and its children may hold: what their limits add up to; the engine what it planned, and what it
    keeps in reserve for itself (docs/operations/memory.md). Weights are pages of files and not counted here. */
const MOST_MB = { recorder: 200, 'workers-short': 1200, 'workers-stream': 1200, nginx: 300 };
const ENGINE_RESERVE_MB = 96, REST_MB = 2048;
const plannedMb = ({ kv_bytes, state_bytes, work_bytes, expert_cache_bytes }) => Math.round((kv_bytes + state_bytes + work_bytes + expert_cache_bytes) / 1048576);

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

function memory(server) {
  const out = {};
  for (const name of NAMES) {
    const pid = server.pid(name), all = pid ? [pid, ...server.childrenOf(pid)] : [];
    out[name] = all.reduce((sum, p) => {
      try { return sum + Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${p}/status`, 'utf8'))[1]); } catch { return sum; }
    }, 0) >> 10;
  }
  return out;
}

/** Megabytes on the disk: of the prompt cache, which has a budget, and of all else in the state folder. */
function disk(server) {
  const folder = (dir, without) => readdirSync(dir, { withFileTypes: true }).reduce((sum, f) => {
    const at = path.join(dir, f.name);
    try { return at === without ? sum : sum + (f.isDirectory() ? folder(at, without) : lstatSync(at).blocks * 512); } catch { return sum; }
  }, 0);
  const state = path.join(server.dir, 'state'), cache = path.join(state, 'cache', 'prompt-cache'), mb = (bytes) => Math.round(bytes / 1048576);
  return { prompt_cache: existsSync(cache) ? mb(folder(cache)) : 0, rest: mb(folder(state, cache)) };
}

async function browserOf() {
  if (given('no-browser')) return null;
  const { executablePath } = await import('../web/page.mjs');
  if (!executablePath) return null;
  const { default: playwright } = await load('playwright-core');
  return playwright.chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'] });
}

/** The five. Where there is no browser, plain HTTP takes the page's place. */
async function settle(server, browser) {
  const kinds = [pagePerson, pagePerson, openaiPerson, anthropicPerson, plainPerson], all = [];
  for (const [i, kind] of kinds.entries()) {
    const name = `person${i}`, from = `127.0.8.${i + 1}`;
    await account(server, name);
    if (kind !== pagePerson) all.push(await kind(server, name, from));
    else all.push(browser ? await pagePerson(server, browser, name, from) : await plainPerson(server, name, from));
  }
  return all;
}

async function account(server, name) {
  const made = await server.json('POST', '/api/users', { name, password: PASSWORD, role: 'user' });
  if (made.status !== 201) throw new Error(made.text);
}

/** Chats and messages that were acknowledged and are not there. */
async function lost(server, people) {
  let missing = 0;
  for (const p of people) {
    const get = async (where) => ask(server.port, p.from, 'GET', where, { headers: p.page });
    for (const id of p.chats) missing += (await get(`/api/conversations/${id}`)).status !== 200;
    if (!p.said) continue;
    const kept = new Map();
    for (let where = '/api/conversations?limit=100', n = 0; where && n < 100; n++) {
      const list = JSON.parse((await get(where)).body);
      for (const c of list.items) for (const m of JSON.parse((await get(`/api/conversations/${c.id}`)).body).messages ?? [])
        if (m.role === 'user') kept.set(m.content, (kept.get(m.content) ?? 0) + 1);
      where = list.next && `/api/conversations?limit=100&before=${list.next}`;
    }
    for (const message of p.said) missing += !kept.get(message);
  }
  return missing;
}

async function steps(server) {
  return { steps: await server.metric('steps_total'), seconds: await server.metric('step_seconds_total') };
}

async function besiege(server) {
  const hostile = spawn(process.execPath, [new URL('hostile.mjs', import.meta.url).pathname, String(server.port), '--without', option('without', '')],
    { stdio: ['pipe', 'pipe', 'inherit'] });
  let out = '';
  hostile.stdout.on('data', (d) => { out += d; });
  while (!out.includes('begun\n')) { if (hostile.exitCode !== null) throw new Error('the hostile side did not begin'); await sleep(100); }
  return async () => {
    hostile.stdin.end();
    await once(hostile, 'exit');
    return JSON.parse(out.slice(out.indexOf('\n') + 1));
  };
}

const server = await start({ args: option('log') ? ['--log-level', 'debug'] : [] }), browser = await browserOf();
server.model = (await server.json('GET', '/v1/models')).body.data[0].id; // the SDKs name one
const { plan, prompt_cache: cache } = (await server.json('GET', '/api/admin/status')).body;
MOST_MB.engine = plannedMb(plan) + ENGINE_RESERVE_MB;
const MOST_STATE_MB = { prompt_cache: Math.ceil(cache.budget_bytes / 1048576), rest: REST_MB };
const people = await settle(server, browser);
await server.json('PATCH', '/api/admin/settings', { share_links: true });
for (const name of ['engine', 'database', 'files']) await account(server, `hostile-${name}`);
const peace = {}, war = {}, peak = {};
let end = performance.now() + QUIET_S * 1000;
const live = (seen) => Promise.all(people.map((p) => p.live(seen, () => end)));
await live(peace);
const quietMemory = memory(server), attackers = await besiege(server), before = await steps(server);
const mostDisk = { prompt_cache: 0, rest: 0 };
const sampler = setInterval(() => {
  for (const [k, v] of Object.entries(memory(server))) peak[k] = Math.max(peak[k] ?? 0, v);
  for (const [k, v] of Object.entries(disk(server))) mostDisk[k] = Math.max(mostDisk[k], v);
}, 2000);
await sleep(3000);
end = performance.now() + SIEGE_S * 1000;
await live(war);
clearInterval(sampler);
const after = await steps(server), struck = await attackers();
await sleep(5000);

const report = { seconds: { quiet: QUIET_S, siege: SIEGE_S }, browser: Boolean(browser), quiet: summary(peace), siege: summary(war), hostile: struck,
  memory_mb: { quiet: quietMemory, peak, most: MOST_MB }, state_mb: { peak: mostDisk, most: MOST_STATE_MB }, lost: await lost(server, people), out_of_bounds: [] };
const stepMs = (after.seconds - before.seconds) * 1000 / Math.max(1, after.steps - before.steps);
report.share_ms = Math.round(stepMs * TURN_STEPS);
const bad = [peace, war].flatMap((seen) => Object.values(seen).flat()).filter((r) => r.status >= 500 || r.status === 0);
report.failures = [...new Set(bad.map((r) => `${r.status} ${String(r.body).slice(0, 200)}`))].slice(0, 8);
const wrong = (text) => report.out_of_bounds.push(text);
for (const name of Object.keys(report.siege).filter((n) => n.startsWith(FIRST))) {
  const most = 2 * report.quiet[name].p99_ms + report.share_ms;
  if (report.siege[name].p99_ms > most) wrong(`${name}: p99 ${report.siege[name].p99_ms} ms, at most ${most}`);
}
if (bad.length) wrong(`${bad.length} operations of ordinary users failed`);
if (report.lost) wrong(`${report.lost} rows were lost`);
for (const [name, most] of Object.entries(MOST_MB)) if (peak[name] > most) wrong(`${name} held ${peak[name]} MB, at most ${most}`);
for (const [name, most] of Object.entries(MOST_STATE_MB)) if (mostDisk[name] > most) wrong(`${name} grew to ${mostDisk[name]} MB on the disk, at most ${most}`);
console.log(JSON.stringify(report, null, 1));
if (option('log')) writeFileSync(option('log'), server.log);
await browser?.close();
await server.stop();
process.exit(report.out_of_bounds.length ? 1 : 0);
