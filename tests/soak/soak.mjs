#!/usr/bin/env node
// By hand: random chats against a running server for a given time; prints the engine's and workers' memory as they go.
//   node tests/soak/soak.mjs --env var/quickstart.env --state var/state --minutes 60 --clients 4 --pause 500
//   [--fresh 0.3]: this share of the chats begin with long words of their own, so that the prompt cache fills its budget.
// Each sample has the prompt cache's budgets: what is taken of the disk by the engine's count, by the rows' and by the files' own blocks.
// Ends with the growth between the first tenth (after warming up) and the last tenth; status 1 when the engine's
// own memory (resident pages that no file backs) grew by more than 5 %, or a budget was exceeded in any sample, or the engine's count and
// the files differed by more than 1 % in two samples, one after the other (a record is counted when it is whole).
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';

const arg = (name, fallback) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? fallback : process.argv[i + 1];
};
const env = Object.fromEntries(readFileSync(arg('env', 'var/quickstart.env'), 'utf8').split('\n').filter(Boolean)
  .map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)]));
const state = arg('state', 'var/state');
const minutes = Number(arg('minutes', 60));
const clients = Number(arg('clients', 4));
const pause = Number(arg('pause', 500)), fresh = Number(arg('fresh', 0));
const began = Date.now();
const end = began + minutes * 60000;
const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const pick = (list) => list[Math.floor(Math.random() * list.length)];

const words = 'river stone lamp winter garden number letter bridge story apple engine window paper quiet morning'.split(' ');
const openings = ['Tell me a story about a', 'What is a', 'Write a Python program about a', 'Explain the word', 'Who made the first'];
const count = { done: 0, cancelled: 0, stopped: 0, failed: 0, tokens: 0 };

/** Resident memory that no file backs, in KiB: what could leak. */
function anonymous(pid) {
  try { return Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]); } catch { return 0; }
}
function processes() {
  const list = JSON.parse(readFileSync(`${state}/processes.json`, 'utf8'));
  const out = {};
  for (const p of list) {
    const children = readdirSync('/proc').filter((d) => /^\d+$/.test(d) && (() => {
      try { return Number(readFileSync(`/proc/${d}/stat`, 'utf8').split(') ')[1].split(' ')[1]) === p.pid; } catch { return false; }
    })());
    out[p.name] = anonymous(p.pid) + children.reduce((s, c) => s + anonymous(c), 0);
    out[`${p.name} restarts`] = p.restarts;
  }
  return out;
}

/** What the prompt cache takes, by three accounts. */
async function promptCache() {
  const text = await fetch(`${env.SLUICE_URL}/metrics`, { headers: { authorization: `Bearer ${env.SLUICE_API_KEY}` } }).then((r) => r.text(), () => '');
  const figure = (name) => Number(new RegExp(`^sluice_prompt_cache_${name} (\\S+)`, 'm').exec(text)?.[1] ?? 0);
  const folder = `${state}/cache/prompt-cache`, files = existsSync(folder) ? readdirSync(folder).filter((f) => f.endsWith('.kv')) : [];
  const onDisk = files.reduce((n, f) => { try { return n + statSync(`${folder}/${f}`).blocks * 512; } catch { return n; } }, 0);
  return { budget: figure('budget_bytes'), engine: figure('bytes'), rows: figure('row_bytes'), files: onDisk, records: figure('records'), listed: figure('rows'), removals: figure('removals'),
    evicted: figure('forgotten_total'), refused: figure('refused_total'), damaged: figure('damaged_total') };
}

const exceeded = [];
let apart = 0; // samples, one after the other, in which engine and files differ
function checkCache(c, minute) {
  if (!c.budget) return;
  apart = Math.abs(c.engine - c.files) > Math.max(c.engine, c.files) / 100 ? apart + 1 : 0;
  if (c.engine > c.budget || c.rows > c.budget || apart > 1) exceeded.push({ minute, ...c });
}

async function chat() {
  const turns = 1 + Math.floor(Math.random() * 4);
  const messages = [];
  if (Math.random() < fresh) messages.push({ role: 'system', content: Array.from({ length: 600 }, () => pick(words)).join(' ') });
  for (let t = 0; t < turns; t++) {
    messages.push({ role: 'user', content: `${pick(openings)} ${pick(words)} ${pick(words)} ${Math.floor(Math.random() * 1e6)}?` + (Math.random() < 0.1 ? ` ${pick(words)}`.repeat(600) : '') });
    const control = new AbortController();
    const cut = Math.random() < 0.15;
    const body = { messages, stream: Math.random() < 0.8, max_tokens: 20 + Math.floor(Math.random() * 200), temperature: pick([0, 0.7, 1.2]),
      top_p: pick([1, 0.9]), presence_penalty: pick([0, 0.5]), logprobs: Math.random() < 0.1, stop: Math.random() < 0.2 ? ['.'] : undefined, enable_thinking: Math.random() < 0.5 };
    try {
      const r = await fetch(`${env.SLUICE_URL}/v1/chat/completions`, { method: 'POST', signal: control.signal, body: JSON.stringify(body),
        headers: { authorization: `Bearer ${env.SLUICE_API_KEY}`, 'content-type': 'application/json' } });
      if (cut) setTimeout(() => control.abort(), Math.random() * 400);
      const text = await r.text();
      if (r.status !== 200) throw new Error(`${r.status} ${text.slice(0, 200)}`);
      count.done++;
      const content = body.stream ? [...text.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map((m) => JSON.parse(`"${m[1]}"`)).join('')
        : JSON.parse(text).choices[0].message.content;
      count.tokens += content.length;
      messages.push({ role: 'assistant', content });
    } catch (error) {
      if (error.name === 'AbortError') { count.cancelled++; return; }
      count.failed++;
      console.log(`failed: ${error.message}`);
      return;
    }
    await sleep(pause * Math.random() * 2);
  }
}

const samples = [];
async function watch() {
  while (Date.now() < end) {
    const p = processes();
    samples.push({ at: Date.now() - began, ...p });
    const minute = Math.round((Date.now() - began) / 6000) / 10, cache = await promptCache();
    checkCache(cache, minute);
    console.log(JSON.stringify({ minute, ...p, ...count, cache }));
    await sleep(30000);
  }
}
await Promise.all([watch(), ...Array.from({ length: clients }, async () => { while (Date.now() < end) await chat(); })]);

const warm = samples.filter((s) => s.at > (end - began) * 0.1 && s.at < (end - began) * 0.3);
const last = samples.filter((s) => s.at > (end - began) * 0.8);
const mean = (list, key) => list.reduce((s, x) => s + (x[key] || 0), 0) / Math.max(1, list.length);
let bad = 0;
for (const key of Object.keys(samples[0]).filter((k) => k !== 'at' && !k.includes('restarts'))) {
  const [a, b] = [mean(warm, key), mean(last, key)];
  console.log(`${key}: ${a.toFixed(0)} KiB -> ${b.toFixed(0)} KiB (${(100 * (b / a - 1)).toFixed(1)} %)`);
  if (key === 'engine' && b > a * 1.05) bad = 1;
}
for (const c of exceeded.slice(0, 20)) console.log(`the prompt cache out of its bounds: ${JSON.stringify(c)}`);
console.log(JSON.stringify(count));
process.exit(bad || (count.failed || exceeded.length ? 1 : 0));
