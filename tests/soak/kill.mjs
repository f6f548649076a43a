// kill -9 of every kind of process at random moments while clients write, edit and delete: node tests/soak/kill.mjs
// [--kills N] [--clients N] (200 and 6). Environment as in tests/api/harness.mjs; needs the sqlite3 program. After each kill a
// write is tried until it is acknowledged; after each death of everything the files are checked before the next start. At the
// end every acknowledged write must be there, nothing may still run, and the file must be sound. Prints JSON; status 1 else.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { lives, sleep, start } from '../api/harness.mjs';
import { checkFile, compareAll, copy } from './database.mjs';
import { leaveCleanly } from './leave.mjs';
import { Ledger } from './ledger.mjs';
import { backAgain, family } from './processes.mjs';
import { Writer } from './writer.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [KILLS, CLIENTS] = [option('kills', 200), option('clients', 6)];

const server = await start({ args: ['--threads', '1'] });
leaveCleanly(() => server.stop());
const ledger = new Ledger();
const kills = [], bad = [];
let checked = 0;

const pick = (list) => list[Math.floor(Math.random() * list.length)];

const targets = {
  engine: () => [server.pid('engine')],
  'stream worker': () => [pick(server.childrenOf(server.pid('workers-stream')))],
  'all stream workers': () => server.childrenOf(server.pid('workers-stream')),
  'short worker': () => [pick(server.childrenOf(server.pid('workers-short')))],
  recorder: () => server.childrenOf(server.pid('recorder')),
  'pool master': () => [server.pid(pick(['workers-short', 'workers-stream', 'recorder']))],
  nginx: () => [server.pid('nginx')],
  'engine and recorder': () => [server.pid('engine'), ...server.childrenOf(server.pid('recorder'))],
  supervisor: () => [server.child.pid],
  everything: () => [server.child.pid, ...family(server)],
};

const about = (pid) => {
  const of = (f) => { try { return readFileSync(`/proc/${pid}/${f}`, 'utf8').replaceAll('\0', ' '); } catch { return ''; } };
  return `${of('cmdline')} ${of('wchan')} ${/SigPnd[^]*SigCgt.*/.exec(of('status'))} children: ${server.childrenOf(pid)}\n${server.log.slice(-3000)}`;
};

async function fellApart(pids) {
  await server.exited;
  const until = Date.now() + 20000;
  while (pids.some(lives)) {
    if (Date.now() > until) { bad.push(...pids.filter(lives).map((p) => `outlived the supervisor: ${p} ${about(p)}`)); break; }
    await sleep(10);
  }
}

function checkFiles(told) {
  const c = copy(path.join(server.dir, 'state'));
  bad.push(...checkFile(c.file), ...compareAll(told, c.file).bad);
  c.drop();
  checked++;
}

const probe = new Writer(server, ledger, 'probe');
await probe.create();
const writers = Array.from({ length: CLIENTS }, (_, i) => new Writer(server, ledger, `client${i}`));
const running = writers.map((w) => w.run());
await sleep(1500);
const names = Object.keys(targets);
for (let i = 0; i < KILLS && !bad.length; i++) {
  const name = names[i % names.length];
  const all = family(server);
  const pids = targets[name]().filter(Boolean);
  let at = Date.now();
  for (const pid of pids) { try { process.kill(pid, 'SIGKILL'); } catch { /* it died by itself */ } }
  if (pids.includes(server.child.pid)) {
    await fellApart(all);
    checkFiles(structuredClone(ledger)); // nobody is there who could still do what was asked
    server.spawn();
    at = Date.now(); // what follows counts from the new start
  }
  kills.push({ name, at, ...await backAgain(server, probe, at, bad) });
  await sleep(Math.random() * 1200);
}
for (const w of writers) w.running = false;
await Promise.all(running);

/** No answer may be left that nobody works at. */
async function settled() {
  const until = Date.now() + 15000;
  for (;;) {
    const list = (await server.json('GET', '/api/conversations?limit=199&archived=any')).body.items.filter((c) => c.running);
    if (!list.length) return Date.now();
    if (Date.now() > until) { bad.push(`still running: ${list.map((c) => c.id)}`); return null; }
    await sleep(50);
  }
}
await settled();
for (const w of [probe, ...writers]) {
  for (const c of w.own) await w.read(c);
  bad.push(...w.bad);
}
server.child.kill('SIGTERM');
await server.exited;
checkFiles(structuredClone(ledger));

// Text that a reader saw and the row does not have: only where the recorder died as well may that be.
const short = new Map(writers.flatMap((w) => w.short).map((x) => [x.id, x]));
const excused = (x) => kills.some((k) => ['recorder', 'pool master', 'engine and recorder', 'supervisor', 'everything'].includes(k.name) && k.at > x.began - 2000 && k.at < x.ended + 2000);
for (const x of short.values()) if (!x.prefix || !excused(x)) bad.push(`answer ${x.id}: ${x.shown} characters were shown, ${x.kept} are kept`);

const middle = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const costs = Object.fromEntries(names.map((n) => {
  const of = kills.filter((k) => k.name === n && k.wrote !== null);
  return [n, of.length && { kills: of.length, write_median_ms: middle(of.map((k) => k.wrote)), write_max_ms: Math.max(...of.map((k) => k.wrote)),
    engine_median_ms: middle(of.map((k) => k.answered)), engine_max_ms: Math.max(...of.map((k) => k.answered)) }];
}));
const sum = (f) => writers.reduce((s, w) => s + w.count[f], 0);
console.log(JSON.stringify({ kills: kills.length, minutes: Math.round((Date.now() - kills[0].at) / 6000) / 10, files_checked: checked,
  acknowledged: ledger.acknowledged, requests: sum('asked'), lost: sum('lost'), streams: sum('streams'), broken: sum('broken'),
  shown_and_not_kept: { answers: short.size, characters: Math.max(0, ...[...short.values()].map((x) => x.shown - x.kept)) }, 
  taken_by_a_late_deletion: [...ledger.conversations.values()].reduce((n, c) => n + c.late.size, 0), costs, bad: bad.slice(0, 20) }, null, 1));
await server.stop();
process.exit(bad.length ? 1 : 0);
