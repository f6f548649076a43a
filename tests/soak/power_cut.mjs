// What a disk holds after a power cut, made at random moments under load: node tests/soak/power_cut.mjs [--cuts N]
// [--clients N] (60 and 6). Environment as in tests/api/harness.mjs; needs the sqlite3 program.
// All processes are stopped with SIGSTOP in one moment, sluice.db and its WAL are copied without the -shm, and from each such
// moment four disks are made that a cut could leave. Each must open, be sound, and hold what was acknowledged until then.
// - all: everything written has arrived.
// - tail: of what follows the last commit in the WAL any part is missing or garbage.
// - pages: sectors of pages that a checkpoint was writing are garbage; the WAL still has these pages.
// - unsynced: the WAL ends anywhere after what was checked in, as if commits had not been waited for:
//   sound, but with acknowledged writes gone. How many tells what the waiting is for.
// That the WAL is synced before a commit is acknowledged is shown in tests/unit/store/test_store_sync.c.
// Prints JSON; status 1 when something acknowledged is lost or a file is not sound.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sleep, start } from '../api/harness.mjs';
import { checkFile, compareAll, copy } from './database.mjs';
import { Ledger } from './ledger.mjs';
import { family } from './processes.mjs';
import { Writer } from './writer.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [CUTS, CLIENTS] = [option('cuts', 60), option('clients', 6)];
const WAL_HEADER = 32, FRAME_HEADER = 24, SECTOR = 512;
const BACKFILL_ATTEMPTED = 128; // where the -shm says how many frames a checkpoint may have written (wal.c: WalCkptInfo)

const server = await start({ args: ['--threads', '1'] });
const state = path.join(server.dir, 'state');
const ledger = new Ledger();
const everybody = () => [server.child.pid, ...family(server)];
const stopped = (pid) => { try { return /\) [TZ] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')); } catch { return true; } };
const random = (from, to) => from + Math.floor(Math.random() * (to - from + 1));

/** In one turn of the event loop, so that no client asks or hears anything between the two. */
function freeze() {
  const told = structuredClone(ledger);
  let pids = [];
  for (let now = everybody(); now.length > pids.length; now = everybody()) { // also those that were forked meanwhile
    pids = now;
    for (const pid of pids) { try { process.kill(pid, 'SIGSTOP'); } catch { /* gone */ } }
    while (!pids.every(stopped));
  }
  const disk = copy(state);
  const shm = path.join(state, 'sluice.db-shm');
  const attempted = existsSync(shm) ? readFileSync(shm).readUInt32LE(BACKFILL_ATTEMPTED) : 0;
  for (const pid of pids) { try { process.kill(pid, 'SIGCONT'); } catch { /* gone */ } }
  return { told, disk, attempted };
}

/** Pages with a committed frame, and where the last commit ends. */
function readWal(wal) {
  if (wal.length < WAL_HEADER) return { end: wal.length, frame: 0, pages: new Set(), size: 0 };
  const size = wal.readUInt32BE(8), frame = FRAME_HEADER + size, salt = wal.subarray(16, 24);
  let end = WAL_HEADER, pending = [];
  const pages = new Set();
  for (let at = WAL_HEADER; at + frame <= wal.length && wal.subarray(at + 8, at + 16).equals(salt); at += frame) {
    pending.push(wal.readUInt32BE(at));
    if (wal.readUInt32BE(at + 4)) {
      end = at + frame;
      pending.forEach((p) => pages.add(p));
      pending = [];
    }
  }
  return { end, frame, pages, size };
}

const disks = {
  all: () => {},
  tail: (db, wal, w) => ({ wal: Buffer.concat([wal.subarray(0, random(w.end, wal.length)), randomBytes(random(0, 3 * (w.frame || 1)))]) }),
  pages: (db, wal, w) => {
    const torn = Buffer.from(db);
    for (const page of w.pages) {
      for (let at = (page - 1) * w.size; at + SECTOR <= page * w.size && at + SECTOR <= torn.length; at += SECTOR) {
        if (at && Math.random() < 0.5) randomBytes(SECTOR).copy(torn, at); // a sector is written whole: the header's is old or new
      }
    }
    return { db: torn };
  },
  unsynced: (db, wal, w, attempted) => ({ wal: wal.subarray(0, random(Math.min(w.end, WAL_HEADER + attempted * w.frame), w.end)) }),
};

const writers = Array.from({ length: CLIENTS }, (_, i) => new Writer(server, ledger, `client${i}`));
const running = writers.map((w) => w.run());
const bad = [], seen = { cuts: 0, disks: 0, wal_bytes_max: 0, tail_bytes_max: 0, pages_torn_max: 0, during_a_checkpoint: 0 };
let lost = 0, shown = 0;
await sleep(1500);
while (seen.cuts < CUTS && !bad.length) {
  await sleep(Math.random() * 1500);
  const { told, disk, attempted } = freeze();
  seen.cuts++;
  const db = readFileSync(disk.file), log = `${disk.file}-wal`;
  const wal = existsSync(log) ? readFileSync(log) : Buffer.alloc(0);
  const w = readWal(wal);
  seen.wal_bytes_max = Math.max(seen.wal_bytes_max, wal.length);
  seen.tail_bytes_max = Math.max(seen.tail_bytes_max, wal.length - w.end);
  seen.pages_torn_max = Math.max(seen.pages_torn_max, w.pages.size);
  seen.during_a_checkpoint += attempted > 0 && WAL_HEADER + attempted * w.frame < w.end ? 1 : 0;
  for (const [name, change] of Object.entries(disks)) {
    const made = { db, wal, ...change(db, wal, w, attempted) };
    const d = copy(path.dirname(disk.file));
    writeFileSync(d.file, made.db);
    writeFileSync(`${d.file}-wal`, made.wal);
    const unsound = checkFile(d.file);
    const r = unsound.length ? { bad: [], short: [] } : compareAll(structuredClone(told), d.file);
    if (name === 'unsynced') lost += r.bad.length;
    else unsound.push(...r.bad);
    if (name === 'all') shown = Math.max(shown, ...r.short.map((x) => x.shown - x.kept));
    bad.push(...unsound.map((b) => `cut ${seen.cuts}, ${name}: ${b}`));
    d.drop();
    seen.disks++;
    await sleep(0);
  }
  disk.drop();
}
for (const w of writers) w.running = false;
await Promise.all(running);
for (const w of writers) bad.push(...w.bad);
console.log(JSON.stringify({ ...seen, acknowledged: ledger.acknowledged, running_text_not_written_max: shown, missed_without_sync: lost, bad: bad.slice(0, 20) }, null, 1));
await server.stop();
process.exit(bad.length ? 1 : 0);
