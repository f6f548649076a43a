#!/usr/bin/env node
// By hand: kill -9 of the engine while it streams experts, of the engine while it stops and keeps what it learnt about them, and
// of `sluice pack` while it writes, at random moments.
//   node tests/soak/streaming_kill.mjs [--kills 50] [--clients 3] [--model DIR | --layers 2 --dir DIR]
// Each answer that came whole must equal the one of before the first kill, from the model's own files as from a packed one; what
// a killed pack left must become the very bytes of one that was not killed. Prints JSON; status 1 when anything differs.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { joined, lives, program, sleep } from '../api/harness.mjs';
import { figures, load, model, number, open, quantile, question, streaming } from './streaming_model.mjs';

const KILLS = number('kills', 50), CLIENTS = number('clients', 3), TOKENS = 16;
const m = model(2);
const beside = () => readdirSync(m.dir).filter((f) => /\.experts(\.part|\.link)?$/.test(f));
if (beside().length) throw new Error(`${m.dir} is packed: ${beside()}`);
const fit = streaming(m.dir, 0.4, ['--slots', String(CLIENTS)]);
const server = await open(m.dir, [...fit.args, '--expert-cache', String(fit.cache)]);
const bad = [], cache = path.join(server.dir, 'state/cache');
const count = { engine_in_stream: 0, engine_while_stopping: 0, pack: 0, packs_whole: 0, answers: 0, answers_from_packed: 0, broken: 0, warm_starts: 0 };
const back = [];

// --- answers ---
const questions = Array.from({ length: 6 }, (_, i) => ({ messages: [{ role: 'user', content: question(10 + 30 * i, i + 1) }], max_tokens: TOKENS, temperature: 0, ignore_eos: true }));
async function ask(i) {
  let begun = false;
  const out = await server.stream(questions[i], { onChunk: () => { begun = true; } }).catch(() => null);
  if (!out || out.status !== 200 || !out.done || out.chunks.some((c) => c.error)) {
    if (begun) count.broken++;
    return null;
  }
  const { content, reasoning } = joined(out.chunks);
  return reasoning + content;
}
const want = [];
for (let i = 0; i < questions.length; i++) want.push(await ask(i));
if (new Set(want).size < 2 || want.includes(null)) throw new Error(`no answers to compare: ${JSON.stringify(want)}`);

let running = true, quiet = false, idle = 0;
async function check(i) {
  const text = await ask(i);
  if (text === null) { await sleep(100); return; }
  count.answers++;
  if (/packed=yes/.test(server.log.slice(server.log.lastIndexOf('experts stay on disk')))) count.answers_from_packed++;
  if (text !== want[i]) bad.push(`question ${i}: ${JSON.stringify(text)} instead of ${JSON.stringify(want[i])}`);
}
async function client() {
  while (running) {
    if (quiet) { idle++; while (quiet && running) await sleep(5); idle--; }
    if (running) { await check(Math.floor(Math.random() * questions.length)); await sleep(20); }
  }
}

// --- packing, killed and resumed ---
const hash = (file) => new Promise((done, fail) => {
  const h = createHash('sha256');
  createReadStream(file).on('data', (d) => h.update(d)).on('end', () => done(h.digest('hex'))).on('error', fail);
});
execFileSync(program('sluice'), ['pack', m.dir], { stdio: 'ignore' });
const [whole] = beside();
const wanted = await hash(path.join(m.dir, whole));
rmSync(path.join(m.dir, whole)); // the running engine reads the model's own files
async function packing() {
  for (let tries = 0; running; tries++) {
    const child = spawn(program('sluice'), ['pack', m.dir], { stdio: 'ignore' });
    const ended = new Promise((done) => child.on('exit', (code, signal) => done(signal ?? code)));
    const timer = setTimeout(() => child.kill('SIGKILL'), Math.random() * (1000 + 1000 * tries)); // a kill costs what was not made safe: more time each time
    const how = await ended;
    clearTimeout(timer);
    if (how === 'SIGKILL') { count.pack++; continue; }
    if (how !== 0) bad.push(`pack ended with ${how}`);
    count.packs_whole++;
    tries = 0;
    if (await hash(path.join(m.dir, whole)) !== wanted) bad.push('a packed file that was resumed differs from one that was written at once');
    for (let i = 0; running && i < 100; i++) await sleep(100); // some starts find it
    for (const f of beside()) rmSync(path.join(m.dir, f));
  }
}

// --- kills ---
async function kill(gently) {
  const engine = server.pid('engine');
  const all = ['engine', 'recorder', 'workers-short', 'workers-stream', 'nginx'].map((n) => server.pid(n)).filter(Boolean).flatMap((p) => [p, ...server.childrenOf(p)]);
  if (gently) {
    quiet = true;
    while (idle < CLIENTS) await sleep(5);
    process.kill(engine, 'SIGTERM');
    await sleep(Math.random() * 60);
  } else {
    await sleep(Math.random() * 2500);
  }
  try { process.kill(engine, 'SIGKILL'); } catch { /* it was through */ }
  server.child.kill('SIGKILL'); // with the supervisor, so that the next start does not wait longer each time
  await server.exited;
  for (const until = Date.now() + 20000; all.some(lives);) {
    if (Date.now() > until) { bad.push('a process outlived the supervisor'); break; }
    await sleep(10);
  }
  quiet = false;
  const from = server.log.length, began = Date.now();
  await server.again();
  back.push(Date.now() - began);
  count[gently ? 'engine_while_stopping' : 'engine_in_stream']++;
  const log = server.log.slice(from), f = await figures(server);
  bad.push(...(log.match(/what was learnt about experts is not (used|kept).*/g) ?? []));
  if (f.expert_warm_bytes_total > 0) count.warm_starts++;
  if (f.expert_failures_total > 0) bad.push(`${f.expert_failures_total} experts could not be read`);
  await check(back.length % 2);
}
const began = Date.now();
const clients = Array.from({ length: CLIENTS }, () => client());
const packer = packing();
let enough = false;
process.on('SIGTERM', () => { enough = true; }); // what was done until then is told
for (let i = 0; i < KILLS && !enough && !bad.length; i++) await kill(i % 3 === 2);
running = false;
await Promise.all([...clients, packer]);
const kept = existsSync(cache) ? readdirSync(cache).filter((f) => f.startsWith('experts-')) : [];
console.log(JSON.stringify({ minutes: Math.round((Date.now() - began) / 6000) / 10, load: load(), expert_bytes: fit.all, cache_bytes: fit.cache, ...count,
  start_ms: { median: quantile(back, 0.5), worst: Math.max(...back) }, state_files: kept.length, bad: bad.slice(0, 10) }, null, 1));
await server.stop();
m.remove();
process.exit(bad.length ? 1 : 0);
