// kill -9 at random moments while blocks of the prompt cache are written and read, and damage of all kinds between them: node
// tests/siege/cache_kills.mjs [--kills N] [--minutes N] [--clients N] [--seed N] [--chats N]. By default 200 kills and 4 clients; the check runs a few
// (tests/api/cache_kills.test.mjs); it ends earlier after so many minutes. Environment as in tests/api/harness.mjs; needs the sqlite3 program; the full disk also needs the
// right to mount a small tmpfs, and is left out elsewhere.
//
// Two users ask the same chats, greedily, under changing salts, so that there is always something new to store. Each answer is
// compared with that of a server that keeps no cache of any kind. Damage: bits of segment files, while they are in use and while they
// are not; bits of rows; a file cut short; the folder of another model; a disk that is full, which writes must have met; a limit on
// the size of files. After each kill: the service is back, and every row that there was is there still, but those that were damaged. At
// the end rows, records, /metrics and the files agree, and what is forgotten leaves the disk. Prints JSON; status 1 if anything was wrong. While a program restarts clients may meet 502, 503 and 504 from nginx, or a connection that breaks; any other
// 5xx is a fault, and so is one of these later than 30 s after a kill.
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, fstatSync, mkdirSync, mkdtempSync, openSync, readSync, readdirSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { lives, PATIENCE, program, sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';
import { BACK_MS, family } from '../soak/processes.mjs';
import { chatsOf, salted } from './greedy_chats.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [KILLS, CLIENTS, SEED, CHATS] = [option('kills', 200), option('clients', 4), option('seed', Date.now() % 1e6), option('chats', 12)], MINUTES = option('minutes', 600);

let state = SEED >>> 0;
const random = () => { // mulberry32: which kill comes when can be had again, what it meets cannot
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n), pick = (list) => list[below(list.length)];

const bad = [], kills = [], statuses = {};
const count = { asked: 0, answers: 0, broken: 0, from_disk: 0, from_device: 0, full_disks: 0, damaged: 0, stored: 0, rows_kept: 0 };

// What is right, and what another model's folder looks like.
const plain = await start({ args: ['--threads', '2', '--prompt-cache-disk', 'off'] });
const chats = await chatsOf(plain, CHATS, random);
await plain.stop();
const foreign = mkdtempSync(path.join(os.tmpdir(), 'foreign-'));
const other = await start({ args: ['--threads', '2', '--kv-type', 'q8'] });
for (const chat of chats.slice(0, 3)) await other.chat(salted(chat, 1, 'foreign'));
for (const until = Date.now() + PATIENCE; await other.metric('prompt_cache_rows') < 4 && Date.now() < until;) await sleep(100);
for (const f of readdirSync(path.join(other.dir, 'state/cache/prompt-cache'))) if (f.endsWith('.kv')) copyFileSync(path.join(other.dir, 'state/cache/prompt-cache', f), path.join(foreign, f));
await other.stop();

// A budget in bytes: the share of what is free would shrink with a small disk, which then never gets full.
const server = await start({ args: ['--threads', '1', '--prompt-cache-disk', '2GB'] });
const folder = path.join(server.dir, 'state/cache/prompt-cache'), file = path.join(server.dir, 'state/sluice.db');
let mounted = false, met = false; // a small disk in the folder's place; and its end, by a write
const unmount = () => { if (mounted) mounted = spawnSync('umount', ['-l', folder]).status !== 0; };
leaveCleanly(async () => { unmount(); await server.stop(); });
await server.json('POST', '/api/users', { name: 'bob', password: 'correct horse battery' });
const made = spawnSync(program('sluice'), ['key', 'add', 'bob', '--state', path.join(server.dir, 'state')], { encoding: 'utf8' });
const keys = [server.key, /sk-[\w-]+/.exec(made.stdout)[0]];

// ---- clients ----

let killed = Date.now(), running = true, salts = 1;

async function client(key) {
  while (running) {
    const chat = chats[Math.floor(Math.random() * chats.length)], turn = Math.floor(Math.random() * chat.answers.length);
    if (Math.random() < 0.08) salts++;
    const salt = `s${salts - Math.floor(Math.random() * 2)}`;
    count.asked++;
    let r = null;
    try {
      r = await server.chat(salted(chat, turn, salt), { authorization: `Bearer ${key}` });
    } catch { count.broken++; }
    if (r?.status >= 500) statuses[r.status] = (statuses[r.status] ?? 0) + 1;
    if (r?.status === 200) {
      const said = r.body.choices[0].message.content ?? '', from = r.body.timings?.cache?.from ?? {};
      if (said !== chat.answers[turn]) bad.push(`a wrong answer: ${JSON.stringify({ said, right: chat.answers[turn], from, turn })}`);
      count.answers++;
      count.from_disk += from.disk ?? 0;
      count.from_device += from.device ?? 0;
      continue;
    }
    if (r && (![502, 503, 504].includes(r.status) || Date.now() - killed > BACK_MS)) bad.push(`${r.status}, ${Date.now() - killed} ms after the last kill: ${r.text.slice(0, 200)}`);
    await sleep(100);
  }
}

// ---- what is there ----

const sql = (text, ...more) => execFileSync('sqlite3', ['-batch', '-cmd', '.timeout 10000', ...more, file, text], { encoding: 'utf8' }).trim();
const rowsNow = () => new Map(sql('SELECT hex(key), segment, segment_offset, bytes FROM prompt_blocks').split('\n').filter(Boolean)
  .map((l) => l.split('|')).map(([key, segment, offset, bytes]) => [key, { segment: Number(segment), offset: Number(offset), bytes: Number(bytes) }]));
let known = new Map();
const doubtful = new Set(); // rows that may go, because we have damaged them or their records
const named = (key, row) => `${key} ${row.segment} ${row.offset}`;
const excuse = (which) => { for (const [key, row] of known) if (which(row, key)) doubtful.add(named(key, row)); };

function checkRows() {
  const now = rowsNow(), sure = [...known].filter(([key, row]) => !doubtful.has(named(key, row)));
  const lost = sure.filter(([key]) => !now.has(key)).length;
  if (lost) bad.push(`${lost} of ${sure.length} rows are lost after ${JSON.stringify(kills.at(-1))}`);
  known = now;
  count.rows_kept += sure.length - lost;
}

// ---- damage ----

const segments = () => (existsSync(folder) ? readdirSync(folder).filter((f) => f.endsWith('.kv')) : []);
const number = (name) => parseInt(name, 16);

/** Some bits of what a row names, or of anything else in the files. */
function flipBits() {
  known = rowsNow();
  const rows = [...known.values()], names = segments();
  for (let n = 1 + below(8); n && rows.length && names.length; n--) {
    const row = pick(rows), name = names.find((f) => number(f) === row.segment);
    if (!name) continue;
    const at = row.offset + below(random() < 0.3 ? 512 : row.bytes), fd = openSync(path.join(folder, name), 'r+'), byte = Buffer.alloc(1);
    if (at < fstatSync(fd).size && readSync(fd, byte, 0, 1, at) === 1) writeSync(fd, Buffer.from([byte[0] ^ (1 << below(8))]), 0, 1, at);
    closeSync(fd);
    excuse((r) => r.segment === row.segment && r.offset <= at && at < r.offset + r.bytes);
  }
}

/** A bit of a row, past all triggers. */
function flipRow() {
  known = rowsNow();
  const key = known.size ? pick([...known.keys()]) : null, bit = 2 ** below(20);
  if (!key) return;
  const flipped = (column) => `${column} = (${column} | ${bit}) - (${column} & ${bit})`, other = key.slice(0, 30) + (parseInt(key.slice(30), 16) ^ (1 << below(8))).toString(16).padStart(2, '0');
  const change = pick([...['segment', 'segment_offset', 'identity', 'end_tokens'].map(flipped), `key = x'${other}'`, 'parent = zeroblob(16)']);
  excuse((r, k) => k === key);
  sql(`UPDATE OR IGNORE prompt_blocks SET ${change} WHERE hex(key) = '${key}'`, '-cmd', '.dbconfig enable_trigger off');
  const before = known;
  known = rowsNow();
  excuse((row, k) => !before.has(k) || named(k, row) !== named(k, before.get(k))); // as it stands now
}

function cutFile() {
  const names = segments();
  if (!names.length) return;
  const name = pick(names), size = Math.floor(statSync(path.join(folder, name)).size * random());
  known = rowsNow();
  excuse((r) => r.segment === number(name) && r.offset + r.bytes > size);
  truncateSync(path.join(folder, name), size);
}

function foreignFolder() {
  known = rowsNow();
  excuse(() => true);
  for (const f of segments()) rmSync(path.join(folder, f));
  for (const f of readdirSync(foreign)) copyFileSync(path.join(foreign, f), path.join(folder, f));
}

/** The folder becomes one of a disk that has room for some blocks (the demo model's have 135 KB). */
function fullDisk() {
  mkdirSync(folder, { recursive: true });
  mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${1 + below(2)}m,mode=0700`, 'tmpfs', folder]).status === 0;
  met = false;
  known = rowsNow();
  excuse(() => mounted);
}

/** Writes meet the end of the small disk, and nobody is refused for it. */
async function meetsItsEnd() {
  for (const until = Date.now() + PATIENCE; ; await sleep(100)) {
    if (await server.metric('prompt_cache_refused_total').catch(() => 0) > 0) break;
    if (Date.now() > until) { bad.push('the full disk was never met'); return; }
  }
  count.full_disks += !met;
  met = true;
  if (!/nothing is stored for now/.test(server.log)) bad.push('nobody was told of the full disk');
}

/** Files of the running engine may have this size and no more. */
function limitFiles() {
  spawnSync('prlimit', ['--pid', String(server.pid('engine')), `--fsize=${(1 + below(8)) << 20}`]);
}

const WHILE_DOWN = { nothing: () => {}, 'bits of files': flipBits, 'bits of rows': flipRow, 'a file cut short': cutFile, 'another model\'s folder': foreignFolder, 'a full disk': fullDisk };
const WHILE_UP = { nothing: () => {}, 'bits of files in use': flipBits, 'a limit of file sizes': limitFiles };

// ---- kills ----

const children = (name) => server.childrenOf(server.pid(name));
const targets = {
  engine: () => [server.pid('engine')],
  everything: () => [server.child.pid, ...family(server)],
  recorder: () => children('recorder'),
  'stream worker': () => [pick(children('workers-stream'))],
};
// What comes first, so that a short run has met it all; then by chance.
const FIRST = [['everything', 'bits of files'], ['engine'], ['everything', 'a full disk'], ['everything', 'bits of rows'], ['recorder'], ['everything', 'another model\'s folder'],
  ['stream worker'], ['everything', 'a file cut short'], ['engine']];

async function answersAgain() {
  for (const began = Date.now(); ; await sleep(20)) {
    try {
      if ((await server.chat({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 })).status === 200) return Date.now() - began;
    } catch { /* not yet */ }
    if (Date.now() - began > BACK_MS) { bad.push(`not back after ${BACK_MS} ms\n${server.log.slice(-2000)}`); return null; }
  }
}

/** Counters begin anew with each engine. */
async function collect() {
  for (const name of ['damaged', 'stored']) count[name] += await server.metric(`prompt_cache_${name}_total`).catch(() => 0);
}

async function fellApart(pids) {
  await server.exited;
  for (const until = Date.now() + PATIENCE; pids.some(lives); await sleep(10)) {
    if (Date.now() > until) { bad.push(`outlived the supervisor: ${pids.filter(lives)}`); break; }
  }
}

const asking = Array.from({ length: CLIENTS }, (_, i) => client(keys[i % 2]));
const began = Date.now();
await sleep(1500);
while (kills.length < KILLS && bad.length < 20 && Date.now() < began + MINUTES * 60000) {
  const i = kills.length, [name, first] = FIRST[i] ?? [pick(FIRST)[0]], downs = Object.keys(WHILE_DOWN), ups = Object.keys(WHILE_UP);
  const up = mounted ? 'nothing' : ups[i < FIRST.length ? i % ups.length : below(ups.length)];
  WHILE_UP[up]();
  if (mounted) await meetsItsEnd();
  for (const answered = count.answers, until = Date.now() + 15000; count.answers < answered + CLIENTS && Date.now() < until;) await sleep(20);
  await sleep(random() * 1500);
  await collect();
  const all = family(server), pids = targets[name]().filter(Boolean);
  let down = 'nothing';
  killed = Date.now();
  for (const pid of pids) { try { process.kill(pid, 'SIGKILL'); } catch { /* it ended by itself */ } }
  if (name === 'everything') {
    await fellApart(all);
    checkRows();
    if (mounted) excuse(() => true); // what was stored meanwhile lies in the small one
    unmount();
    down = first ?? pick(random() < 0.2 ? downs : downs.slice(0, 4)); // the two that empty the cache come seldom: there must be something to damage
    WHILE_DOWN[down]();
    if (down === 'a full disk' && !mounted) down = 'nothing'; // nobody may mount one here
    await server.again();
    killed = Date.now();
  }
  const back_ms = await answersAgain();
  kills.push({ name, up, down, back_ms });
  if (process.argv.includes('--verbose')) console.error(kills.length, JSON.stringify(kills.at(-1)), JSON.stringify(count), bad.length);
  checkRows();
}
running = false;
await Promise.all(asking);

// ---- the end: rows and records agree, and what is listed is whole, or was damaged by us and not met yet ----

const figures = async () => Object.fromEntries(await Promise.all(['rows', 'records', 'row_bytes', 'bytes', 'removals'].map(async (n) => [n, await server.metric(`prompt_cache_${n}`)])));
let last;
for (let same = 0, until = Date.now() + PATIENCE; same < 4; await sleep(250)) {
  const f = await figures();
  same = JSON.stringify(f) === JSON.stringify(last) && f.rows === f.records && f.removals === 0 ? same + 1 : 0;
  last = f;
  if (Date.now() > until) { bad.push(`rows and records never agreed: ${JSON.stringify(f)}`); break; }
}
await collect();
checkRows();
const onDisk = segments().reduce((n, f) => n + statSync(path.join(folder, f)).blocks * 512, 0);
if (Math.abs(onDisk - last.bytes) > onDisk / 100) bad.push(`the files take ${onDisk} bytes, /metrics says ${last.bytes}`);
const verified = JSON.parse(spawnSync(program('sluice'), ['cache', 'verify', '--json', '--state', path.join(server.dir, 'state')], { encoding: 'utf8' }).stdout);
if (verified.missing || verified.unlisted) bad.push(`sluice cache verify: ${JSON.stringify(verified)}`);
const figuresAtEnd = last, forgetting = Date.now();
for (const key of keys) await server.json('DELETE', '/api/prompt-cache', undefined, { authorization: `Bearer ${key}` });
for (let until = Date.now() + PATIENCE; (last = await figures()).bytes > 0; await sleep(250)) {
  if (Date.now() > until) { bad.push(`what was forgotten stays: ${JSON.stringify(last)}`); break; }
}
const forgottenMs = Date.now() - forgetting;

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const tally = (by) => Object.fromEntries([...new Set(kills.map(by))].map((k) => [k, kills.filter((x) => by(x) === k).length]));
console.log(JSON.stringify({ kills: kills.length, seed: SEED, minutes: Math.round((Date.now() - began) / 6000) / 10, ...count, statuses, killed: tally((k) => k.name), damage: { ...tally((k) => k.up), ...tally((k) => k.down) },
  back_median_ms: median(kills.map((k) => k.back_ms)), back_max_ms: Math.max(...kills.map((k) => k.back_ms)), verified, bytes: { metrics: figuresAtEnd.bytes, files: onDisk }, forgotten_ms: forgottenMs, bad: bad.slice(0, 20) }, null, 1));
if (bad.length) console.error(server.log.slice(-20000));
unmount();
await server.stop();
rmSync(foreign, { recursive: true, force: true });
process.exit(bad.length ? 1 : 0);
