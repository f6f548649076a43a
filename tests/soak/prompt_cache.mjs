// By hand: the prompt cache in steady eviction, every budget sampled: node tests/soak/prompt_cache.mjs [--minutes 60] [--clients 3]
// [--think 4000] [--disk 24000000] [--kv 12000000] [--kill-minutes 12] [--every 15]. Environment as in tests/api/harness.mjs.
// Clients hold conversations that grow, come back to older ones (whose blocks may be on the device, on the disk or gone), have some
// forgotten, and think in between. Each sample has the device's blocks against the pool, the engine's own memory against its plan, copies
// in RAM against theirs, and the disk's budget against the engine's count, the rows and the files' own blocks. Some questions are asked
// twice: greedy answers must be equal, wherever their beginnings came from. The engine is killed now and then. Ends with status 1 when a
// budget was exceeded in any sample, or count and files differed by more than 1 % in two samples, one after the other (a record is counted
// when it is whole) or at the end, or the engine's own memory grew by more than 5 %, or an answer failed or differed.
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from './leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [MINUTES, CLIENTS, THINK, DISK, KV] = [option('minutes', 60), option('clients', 3), option('think', 4000), option('disk', 24000000), option('kv', 12000000)];
const [KILL_MINUTES, EVERY] = [option('kill-minutes', 12), option('every', 15)];
const WORDS = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning'.split(' ');
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const say = (n) => Array.from({ length: n }, () => pick(WORDS)).join(' ');

const server = await start({ args: ['--threads', '1', '--slots', '4', '--prompt-cache-disk', String(DISK), '--kv-memory', String(KV)] });
leaveCleanly(() => server.stop());
const began = Date.now(), end = began + MINUTES * 60000, minute = () => Math.round((Date.now() - began) / 6000) / 10;
const count = { answers: 0, twice: 0, differed: 0, failed: 0, forgotten: 0, kills: 0, from: { device: 0, ram: 0, disk: 0, computed: 0 } };
const older = []; // conversations that somebody may come back to
let away = 0; // until then the engine may be starting

async function ask(messages, key) {
  for (;;) {
    let r;
    try { r = await server.chat({ messages, prompt_cache_key: key, max_tokens: 12, temperature: 0 }); } catch (e) { r = { status: 0, text: e.message }; }
    if (r.status === 200) {
      count.answers++;
      const { from } = r.body.timings.cache;
      for (const where of ['device', 'ram', 'disk']) count.from[where] += from[where] ?? 0;
      count.from.computed += r.body.usage.prompt_tokens - r.body.usage.prompt_tokens_details.cached_tokens;
      return r.body.choices[0].message.content;
    }
    if (Date.now() > away) {
      count.failed++;
      console.log(`failed: ${r.status} ${r.text.slice(0, 300)}`);
      return null;
    }
    await sleep(300); // it was killed
  }
}

async function turn() {
  const c = older.length && Math.random() < 0.6 ? older.splice(Math.floor(Math.random() * older.length), 1)[0] : { key: `k${Math.random()}`, messages: [], said: [] };
  c.messages.push({ role: 'user', content: say(c.messages.length ? 40 : 200 + Math.floor(Math.random() * 300)) });
  const content = await ask(c.messages, c.key);
  if (content === null) return;
  if (Math.random() < 0.2) {
    count.twice++;
    await sleep(THINK * Math.random());
    const again = await ask(c.messages, c.key);
    if (again !== null && again !== content) {
      count.differed++;
      console.log(`differed: ${JSON.stringify([content, again])}`);
    }
  }
  c.messages.push({ role: 'assistant', content });
  if (Math.random() < 0.05) {
    count.forgotten++;
    await server.json('DELETE', `/api/prompt-cache?key=${c.key}`).catch(() => {});
  } else if (c.messages.length < 14) older.push(c);
  if (older.length > 60) older.shift();
}

const figures = async () => {
  const text = await server.metrics();
  return (name, labels = '') => Number(text.split('\n').find((l) => l.startsWith(`sluice_${name}${labels} `))?.split(' ').at(-1) ?? 0);
};

async function sample() {
  const f = await figures(), folder = path.join(server.dir, 'state/cache/prompt-cache');
  const files = readdirSync(folder).filter((x) => x.endsWith('.kv')).reduce((n, x) => { try { return n + statSync(path.join(folder, x)).blocks * 512; } catch { return n; } }, 0);
  return { minute: minute(), device: { blocks: f('kv_cache_blocks'), used: Math.round(f('kv_cache_usage_perc') * f('kv_cache_blocks')), cached: f('kv_cache_blocks_cached') },
    memory: { planned: f('memory_bytes', '{part="kv"}') + f('memory_bytes', '{part="state"}') + f('memory_bytes', '{part="work"}'), own: f('anonymous_memory_bytes') },
    ram: { budget: f('prompt_cache_ram_budget_bytes'), taken: f('prompt_cache_ram_bytes') },
    disk: { budget: f('prompt_cache_budget_bytes'), engine: f('prompt_cache_bytes'), rows: f('prompt_cache_row_bytes'), files },
    records: f('prompt_cache_records'), listed: f('prompt_cache_rows'), removals: f('prompt_cache_removals'),
    stored: f('prompt_cache_stored_total'), forgotten: f('prompt_cache_forgotten_total'), refused: f('prompt_cache_refused_total'), damaged: f('prompt_cache_damaged_total') };
}

const apart = (d) => Math.abs(d.engine - d.files) > Math.max(d.engine, d.files) / 100;
const bad = [], samples = [];
let before = false;
async function watch() {
  for (; Date.now() < end; await sleep(EVERY * 1000)) {
    let s;
    try { s = await sample(); } catch (e) {
      if (Date.now() > away) bad.push({ minute: minute(), why: e.message });
      continue;
    }
    console.log(JSON.stringify(s));
    if (!s.disk.budget) continue; // it is starting
    samples.push(s);
    const over = s.device.used + s.device.cached > s.device.blocks || s.ram.taken > s.ram.budget || s.disk.engine > s.disk.budget || s.disk.rows > s.disk.budget || s.disk.files > s.disk.budget * 1.01;
    if (over || (apart(s.disk) && before)) bad.push({ why: over ? 'over a budget' : 'count and files differ', ...s });
    before = apart(s.disk);
  }
}

async function kill() {
  for (let next = began + KILL_MINUTES * 60000; KILL_MINUTES && next < end - 60000; next += KILL_MINUTES * 60000) {
    while (Date.now() < next) await sleep(1000);
    count.kills++;
    before = false;
    away = Date.now() + 60000;
    process.kill(server.pid('engine'), 'SIGKILL');
  }
}

const client = async (i) => {
  await sleep(THINK * i / CLIENTS);
  while (Date.now() < end) { await turn(); await sleep(THINK * 2 * Math.random()); }
};
await Promise.all([watch(), kill(), ...Array.from({ length: CLIENTS }, (_, i) => client(i))]);

// At rest: what is counted is what the files have, and every record has its row.
let last;
for (let i = 0, same = 0; i < 200 && same < 3; i++, await sleep(200)) {
  last = await sample();
  same = last.removals === 0 && last.records === last.listed && !apart(last.disk) ? same + 1 : 0;
}
if (last.removals || last.records !== last.listed || apart(last.disk)) bad.push({ why: 'not settled at the end', ...last });
const mean = (list, of) => list.reduce((n, s) => n + of(s), 0) / Math.max(1, list.length);
const part = (from, to) => samples.filter((s) => s.minute >= MINUTES * from && s.minute <= MINUTES * to);
const [own, later] = [part(0.15, 0.4), part(0.75, 1)].map((list) => mean(list, (s) => s.memory.own));
if (later > own * 1.05) bad.push({ why: `the engine's own memory grew from ${own} to ${later}` });
const most = (of) => Math.max(...samples.map(of));
console.log(JSON.stringify({ minutes: MINUTES, samples: samples.length, ...count, own: { first: Math.round(own), last: Math.round(later), planned: last.memory.planned },
  most: { disk: most((s) => s.disk.engine / s.disk.budget), rows: most((s) => s.disk.rows / s.disk.budget), device: most((s) => (s.device.used + s.device.cached) / s.device.blocks),
    apart: most((s) => Math.abs(s.disk.engine - s.disk.files) / Math.max(1, s.disk.engine)) }, last, bad: bad.slice(0, 20) }, null, 1));
await server.stop();
process.exit(bad.length || count.failed || count.differed ? 1 : 0);
