// kill -9 of a random program at random moments, under load: node tests/siege/kills.mjs [--kills N] [--clients N] [--seed N]
// [--sweep]. By default 500 kills and 4 clients, some 15 minutes; the check runs 5 (tests/api/kills.test.mjs). Environment as in
// tests/api/harness.mjs; needs the sqlite3 program. Clients chat, edit, fork, cut and delete (tests/soak/writer.mjs), and
// import and upload here. After each kill: the service is back (a write is acknowledged, an answer comes), SQLite finds the
// file sound, and every client finds all that was ever acknowledged, as it was, and no answer that has been running for long. At the
// end, when all processes are gone: the file, what imports left, and every attached file. --sweep also waits, half an hour at
// most, until the recorder has removed the files of uploads that were killed. Prints JSON; status 1 if anything was wrong.
//
// While a program restarts clients may meet 503 and 504 from nginx, or a connection that breaks; any other 5xx is a fault, and
// so is one of these later than 30 s after a kill.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { lives, PATIENCE, sleep, start } from '../api/harness.mjs';
import { checkFile, compareAll, copy } from '../soak/database.mjs';
import { leaveCleanly } from '../soak/leave.mjs';
import { Ledger, fieldsOf } from '../soak/ledger.mjs';
import { BACK_MS, backAgain, family } from '../soak/processes.mjs';
import { Writer } from '../soak/writer.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [KILLS, CLIENTS, SEED] = [option('kills', 500), option('clients', 4), option('seed', Date.now() % 1e6)];
const RUNNING_MS = 3 * PATIENCE, BUILDING_MS = 2 * PATIENCE;
const ALLOWED = new Set([503, 504]); // what nginx says for a program that is not there

let state = SEED >>> 0;
const random = () => { // mulberry32: which kill comes when can be had again, what it meets cannot
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const pick = (list) => list[Math.floor(random() * list.length)];
const sha256 = (data) => createHash('sha256').update(data).digest('hex');

const bad = [], statuses = {}, kills = [];
let killed = Date.now(); // or started
const ask = globalThis.fetch;
globalThis.fetch = async (...args) => {
  const r = await ask(...args);
  if (r.status >= 500) {
    statuses[r.status] = (statuses[r.status] ?? 0) + 1;
    if (!ALLOWED.has(r.status)) bad.push(`${args[1]?.method} ${args[0]}: ${r.status} ${(await r.clone().text()).slice(0, 200)}`);
    else if (Date.now() - killed > BACK_MS) bad.push(`${args[0]}: ${r.status}, ${Date.now() - killed} ms after the last kill`);
  }
  return r;
};

class Client extends Writer {
  imports = []; // {title, n, done}
  brought = []; // what came in and its forks: longer than the model's context, so that nobody writes there
  files = [];   // {id, data, gone}

  /** Up to a megabyte, so that some come in by several transactions. */
  async bringIn() {
    const n = 2 * (1 + Math.floor(Math.random() * 20)), size = Math.random() < 0.3 ? 25000 : 500, title = `${this.name} import ${this.n++}`;
    const texts = Array.from({ length: n }, (_, i) => `${title} ${i} ${'water '.repeat(size / 6)}`), kept = { title, n, done: false };
    this.imports.push(kept);
    this.ledger.unacknowledged++;
    const messages = texts.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content }));
    const r = await this.ask('POST', '/api/import', JSON.stringify({ title, messages }));
    this.expect(r, [200, 409], 'import'); // 409: another client, who is the same user, imports just now
    if (r.status === 409) this.ledger.unacknowledged--;
    if (r.status !== 200) return;
    if (r.body.imported !== 1) { this.bad.push(`import: ${r.text.slice(0, 300)}`); return; }
    kept.done = true;
    let found;
    for (let i = 0; i < 100 && !found; i++) { // who was told so may look for it while a program is away
      const list = await this.ask('GET', `/api/conversations?limit=50&q=${encodeURIComponent(title)}`);
      found = list.body?.items?.find((c) => c.title === title);
      if (list.status === 200 && !found) { this.bad.push(`${title} was acknowledged and is not there`); return; }
    }
    if (!found) { this.bad.push(`${title} could not be looked for`); return; }
    this.ledger.unacknowledged--;
    this.brought.push(this.ledger.add(found.id, fieldsOf(found), texts));
  }

  /** A long one takes several transactions as well. */
  async copyBrought(c) {
    const answers = [...c.messages.values()].filter((m) => m.role === 'assistant'), before = this.own.length;
    if (!answers.length) return this.read(c); // then they are known
    await this.fork(c, pick(answers));
    this.brought.push(...this.own.splice(before));
    return undefined;
  }

  async upload() {
    const data = `${this.name} file ${this.n++} ${'stone '.repeat(10 + Math.floor(Math.random() * 20000))}`;
    const r = await this.ask('POST', `/api/attachments?name=${encodeURIComponent(`${this.n}.txt`)}`, Buffer.from(data));
    this.expect(r, [201, 413], 'upload'); // 413: its reader was killed, as one that takes too long is
    if (r.status === 201) {
      this.ledger.acknowledged++;
      this.files.push({ id: r.body.id, sha256: sha256(data), gone: 'no' });
    }
  }

  async drop(file) {
    const before = file.gone;
    file.gone = 'maybe';
    const r = await this.ask('DELETE', `/api/attachments/${file.id}`);
    this.expect(r, before === 'no' ? [204] : [204, 404], 'delete of a file');
    if (r.status) file.gone = 'yes';
  }

  async checkFile(file) {
    if (file.gone === 'maybe') return;
    const r = await this.server.request('GET', `/api/attachments/${file.id}/content`).catch(() => null);
    const data = await r?.arrayBuffer().catch(() => null);
    if (!r || !data || r.status >= 500) return; // the next check asks again
    if (file.gone === 'no' && (r.status !== 200 || sha256(Buffer.from(data)) !== file.sha256)) this.bad.push(`file ${file.id} is lost: ${r.status}`);
    if (file.gone === 'yes' && r.status !== 404) this.bad.push(`file ${file.id} came back: ${r.status}`);
  }

  /** All that was acknowledged to this client; what was deleted at the end only, since there is ever more of it. */
  async checkAll(deleted = false) {
    for (const c of [...this.own, ...this.brought]) {
      if (c.gone === 'yes' && !deleted) continue;
      const r = await this.read(c);
      for (const m of r?.body?.messages ?? []) {
        if (m.status === 'running' && Date.now() - m.created_at > RUNNING_MS) this.bad.push(`answer ${m.id} has been running for ${Date.now() - m.created_at} ms`);
      }
    }
    for (const f of this.files) await this.checkFile(f);
  }

  async step() {
    if (this.wanted) {
      await this.checkAll();
      this.wanted = false;
      return undefined;
    }
    const dice = Math.random(), live = this.own.filter((c) => c.gone !== 'yes'), brought = this.brought.filter((c) => c.gone !== 'yes');
    if (brought.length > 5) return this.remove(pick(brought));
    if (dice < 0.05) return this.bringIn();
    if (dice < 0.12) return this.upload();
    if (dice < 0.15 && this.files.length > 3) return this.drop(pick(this.files));
    if (dice < 0.18 && brought.length) return this.copyBrought(pick(brought));
    if (live.length > 12) return this.remove(pick(live));
    return super.step();
  }
}

const server = await start({ args: ['--threads', '1'] });
leaveCleanly(() => server.stop());
const ledger = new Ledger(), probe = new Client(server, ledger, 'probe');
await probe.create();
const clients = Array.from({ length: CLIENTS }, (_, i) => new Client(server, ledger, `client${i}`));

const children = (name) => server.childrenOf(server.pid(name));

/** A reader lives for some milliseconds: waits until somebody uploads. */
async function readers() {
  probe.upload().catch(() => {});
  for (const until = Date.now() + 1000; Date.now() < until;) {
    const found = [...children('workers-short'), ...children('workers-stream')].flatMap((p) => server.childrenOf(p));
    if (found.length) return found;
    await new Promise((done) => { setImmediate(done); });
  }
  return [];
}

const targets = {
  engine: () => [server.pid('engine')],
  'stream worker': () => [pick(children('workers-stream'))],
  'stream master': () => [server.pid('workers-stream')],
  'short worker': () => [pick(children('workers-short'))],
  recorder: () => children('recorder'),
  'nginx worker': () => [pick(children('nginx'))],
  reader: readers,
  everything: () => [server.child.pid, ...family(server)],
};

/** The file while it is in use: what SQLite itself finds wrong. */
function soundness() {
  const file = path.join(server.dir, 'state/sluice.db');
  const said = execFileSync('sqlite3', ['-batch', '-readonly', '-cmd', '.timeout 10000', file, 'PRAGMA integrity_check; PRAGMA foreign_key_check;'], { encoding: 'utf8' }).trim();
  if (said !== 'ok') bad.push(`the database: ${said.slice(0, 300)}`);
}

/** Nobody is there who could still write. */
function checkQuiet(told) {
  const c = copy(path.join(server.dir, 'state'));
  bad.push(...checkFile(c.file), ...compareAll(told, c.file).bad);
  c.drop();
}

async function fellApart(pids) {
  await server.exited;
  for (const until = Date.now() + PATIENCE; pids.some(lives); await sleep(10)) {
    if (Date.now() > until) { bad.push(`outlived the supervisor: ${pids.filter(lives)}`); break; }
  }
}

async function everyoneChecks() {
  for (const c of clients) c.wanted = true;
  for (const until = Date.now() + PATIENCE; clients.some((c) => c.wanted); await sleep(10)) {
    if (Date.now() > until) { bad.push('a client did not come to its check'); break; }
  }
  for (const c of [probe, ...clients]) bad.push(...c.bad.splice(0));
}

const running = clients.map((c) => c.run());
await sleep(1000);
const began = Date.now();
while (kills.length < KILLS && bad.length < 20) {
  const name = kills.length < Object.keys(targets).length ? Object.keys(targets)[(kills.length * 3 + 7) % 8] : pick(Object.keys(targets));
  await sleep(random() * 700);
  const all = family(server), pids = (await targets[name]()).filter(Boolean);
  let at = killed = Date.now();
  for (const pid of pids) { try { process.kill(pid, 'SIGKILL'); } catch { /* it ended by itself */ } }
  if (pids.includes(server.child.pid)) {
    await fellApart(all);
    checkQuiet(structuredClone(ledger));
    server.spawn();
    at = killed = Date.now(); // what follows counts from the new start
  }
  const times = await backAgain(server, probe, at, bad);
  kills.push({ name, hit: pids.length, ...times });
  soundness();
  await everyoneChecks();
}
for (const c of clients) c.running = false;
await Promise.all(running);

/** Waits until a question about the database has the answer 0. */
async function until0(what, text, ms) {
  const file = path.join(server.dir, 'state/sluice.db');
  const count = () => Number(execFileSync('sqlite3', ['-batch', '-readonly', '-cmd', '.timeout 10000', file, text], { encoding: 'utf8' }));
  for (const until = Date.now() + ms; count(); await sleep(200)) {
    if (Date.now() > until) { bad.push(`${what}: ${count()} after ${ms} ms`); return; }
  }
}
await until0('answers that still run', "SELECT count(*) FROM messages WHERE status = 'running'", PATIENCE);
for (const c of [probe, ...clients]) { await c.checkAll(true); bad.push(...c.bad); }

const stored = () => readdirSync(path.join(server.dir, 'state/attachments'), { recursive: true, withFileTypes: true }).filter((f) => f.isFile() && /^[0-9a-f]{64}$/.test(f.name)).map((f) => f.name);
const named = () => new Set(execFileSync('sqlite3', ['-batch', '-readonly', path.join(server.dir, 'state/sluice.db'), 'SELECT DISTINCT sha256 FROM attachments'], { encoding: 'utf8' }).split('\n').filter(Boolean));
const strays = () => { const rows = named(); return stored().filter((f) => !rows.has(f)); };
const straysAtEnd = strays().length;
if (process.argv.includes('--sweep')) {
  await until0('what was half made or deleted', 'SELECT count(*) FROM conversations WHERE deleted_at IS NOT NULL', BUILDING_MS);
  for (const until = Date.now() + 1800000; strays().length; await sleep(1000)) {
    if (Date.now() > until) { bad.push(`files of nobody after half an hour: ${strays().length}`); break; }
  }
}
server.child.kill('SIGTERM');
await server.exited;
checkQuiet(structuredClone(ledger));
const there = new Set(stored());
for (const f of named()) if (!there.has(f)) bad.push(`the file ${f} of an attachment is gone`);
for (const { title, n, done } of clients.flatMap((c) => c.imports)) {
  const file = path.join(server.dir, 'state/sluice.db'), like = title.replaceAll("'", "''");
  const counts = execFileSync('sqlite3', ['-batch', '-readonly', file, `SELECT (SELECT count(*) FROM messages m WHERE m.conversation_id = c.id AND m.content LIKE '${like} %') FROM conversations c WHERE c.title = '${like}' AND c.deleted_at IS NULL`], { encoding: 'utf8' }).split('\n').filter(Boolean).map(Number);
  if (counts.length > 1 || (!done && counts.some((k) => k !== n))) bad.push(`${title}: ${counts} of ${n} messages`);
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const costs = Object.fromEntries(Object.keys(targets).map((name) => {
  const of = kills.filter((k) => k.name === name && k.wrote !== null);
  return [name, of.length && { kills: of.length, hit: of.filter((k) => k.hit).length, write_median_ms: median(of.map((k) => k.wrote)), write_max_ms: Math.max(...of.map((k) => k.wrote)),
    answer_median_ms: median(of.map((k) => k.answered)), answer_max_ms: Math.max(...of.map((k) => k.answered)) }];
}));
const sum = (f) => clients.reduce((n, c) => n + f(c), 0);
console.log(JSON.stringify({ kills: kills.length, seed: SEED, minutes: Math.round((Date.now() - began) / 6000) / 10, acknowledged: ledger.acknowledged,
  requests: sum((c) => c.count.asked), lost: sum((c) => c.count.lost), streams: sum((c) => c.count.streams), broken: sum((c) => c.count.broken),
  imports: sum((c) => c.imports.length), uploads: sum((c) => c.files.length), statuses, strays_at_end: straysAtEnd, costs, bad: bad.slice(0, 20) }, null, 1));
if (bad.length) console.error(server.log);
await server.stop();
process.exit(bad.length ? 1 : 0);
