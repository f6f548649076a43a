#!/usr/bin/env node
// By hand: does an engine that streams experts stay inside its budget? Random chats for a given time, the engine's memory looked
// at each second.
//   node tests/soak/streaming_memory.mjs [--minutes 60] [--clients 2] [--pause 500] [--model DIR | --layers 6 --dir DIR] [--share 0.4]
// The budget is --ram-budget, such that --share of the experts fit. A line a minute; ends (SIGINT and SIGTERM end it early) with
// least, mean and most of each figure and the drift from the fifth tenth to the last (KV's pages come with their first use). Status 1 when a sample was over the budget,
// the cache over its own, or the engine's own pages grew by more than 2 %.
import { readFileSync } from 'node:fs';
import { sleep } from '../api/harness.mjs';
import { figures, load, mean, model, number, open, question, streaming } from './streaming_model.mjs';

const minutes = number('minutes', 60), clients = number('clients', 2), pause = number('pause', 500);
const m = model(6);
const fit = streaming(m.dir, number('share', 0.4), ['--slots', '4']);
const server = await open(m.dir, [...fit.args, '--ram-budget', String(fit.ram)]);
const pid = server.pid('engine'), began = Date.now();
let end = began + minutes * 60000;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { end = 0; });
const { body: { plan } } = await server.json('GET', '/api/admin/status');
console.log(`budget ${fit.ram}, experts ${fit.all}, planned: cache ${plan.expert_cache_bytes}, in all ${plan.host_bytes}, ${load()}`);

const kib = (text, name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN) * 1024;
/** What the kernel says of the engine, in bytes: nothing of it is our own count. */
function look() {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'), status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return { rss: kib(rollup, 'Rss'), pss: kib(rollup, 'Pss'), anonymous: kib(status, 'RssAnon'), locked: kib(status, 'VmLck') + kib(status, 'VmPin'), swap: kib(status, 'VmSwap'),
    major_faults: Number(stat[9]) };
}

const count = { done: 0, cancelled: 0, failed: 0, tokens: 0 };
const under_way = new Set();
async function chat(seed) {
  const control = new AbortController();
  const timer = Math.random() < 0.15 ? setTimeout(() => control.abort(), Math.random() * 5000) : null;
  under_way.add(control);
  const n = Math.random() < 0.15 ? 300 + Math.random() * 1500 : 5 + Math.random() * 100;
  try {
    const out = await server.stream({ messages: [{ role: 'user', content: question(n, seed) }], max_tokens: 10 + Math.floor(Math.random() * 80), temperature: Math.random() < 0.5 ? 0 : 0.8,
      stream_options: { include_usage: true } }, { signal: control.signal });
    if (out.status !== 200 || !out.done) throw new Error(JSON.stringify(out.error ?? out.raw.slice(-200)));
    count.done++;
    count.tokens += out.chunks.at(-1).usage.completion_tokens;
  } catch (error) {
    if (error.name === 'AbortError') { count.cancelled++; return; }
    count.failed++;
    console.log(`failed: ${error.message}`);
  } finally { clearTimeout(timer); under_way.delete(control); }
}

const samples = [];
let over = 0;
async function watch() {
  for (let i = 0; Date.now() < end; i++) {
    const f = await figures(server), s = { at: Date.now() - began, ...look(), cache: f.expert_cache_bytes, cache_budget: f.expert_cache_budget_bytes, cache_locked: f.expert_cache_locked_bytes };
    samples.push(s);
    if (s.rss > fit.ram || s.cache > s.cache_budget || s.cache_budget > plan.expert_cache_bytes) {
      if (!over++) console.log(`over: ${JSON.stringify(s)}`);
    }
    if (i % 60 === 0) console.log(JSON.stringify({ minute: Math.round(s.at / 6000) / 10, rss_mb: Math.round(s.rss / 1e6), pss_mb: Math.round(s.pss / 1e6), locked_mb: Math.round(s.locked / 1e6),
      cache_mb: Math.round(s.cache / 1e6), read_gb: Math.round(f.expert_read_bytes_total / 1e8) / 10, shrinks: f.memory_pressure_shrinks_total, ...count, load: load() }));
    await sleep(Math.max(0, began + (i + 1) * 1000 - Date.now()));
  }
  for (const control of under_way) control.abort();
}
await Promise.all([watch(), ...Array.from({ length: clients }, async (_, c) => {
  for (let i = 0; Date.now() < end; i++) { await chat(c * 100003 + i); await sleep(Math.min(pause * Math.random() * 2, Math.max(0, end - Date.now()))); }
})]);

const seconds = samples.at(-1).at / 1000, part = (from, to) => samples.filter((s) => s.at >= from * seconds * 1000 && s.at <= to * seconds * 1000);
console.log(`${samples.length} samples in ${seconds.toFixed(0)} s, ${load()}, ${JSON.stringify(count)}`);
let grew = 0;
for (const key of ['rss', 'pss', 'anonymous', 'locked', 'cache', 'cache_locked', 'swap', 'major_faults']) {
  const all = samples.map((s) => s[key]), early = mean(part(0.4, 0.5).map((s) => s[key])), late = mean(part(0.9, 1).map((s) => s[key]));
  const drift = early ? 100 * (late / early - 1) : 0;
  console.log(`${key}: least ${Math.min(...all)}, mean ${Math.round(mean(all))}, most ${Math.max(...all)}, drift ${drift.toFixed(2)} %`);
  if (key === 'anonymous' && drift > 2) grew = 1;
}
console.log(`most of the budget: ${(100 * Math.max(...samples.map((s) => s.rss)) / fit.ram).toFixed(1)} %; samples over it: ${over}; restarts of the engine: ${server.pid('engine') === pid ? 0 : 'yes'}`);
const died = server.pid('engine') !== pid;
await server.stop();
m.remove();
process.exit(over || grew || died || count.failed ? 1 : 0);
