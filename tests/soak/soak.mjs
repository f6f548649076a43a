#!/usr/bin/env node
// By hand: random chats against a running server for a given time; prints the engine's and workers' memory as they go.
//   node tests/soak/soak.mjs --env var/quickstart.env --state var/state --minutes 60 --clients 4 --pause 500
// Ends with the growth between the first tenth (after warming up) and the last tenth; status 1 when the engine's
// own memory (resident pages that no file backs) grew by more than 5 %.
import { readdirSync, readFileSync } from 'node:fs';

const arg = (name, fallback) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? fallback : process.argv[i + 1];
};
const env = Object.fromEntries(readFileSync(arg('env', 'var/quickstart.env'), 'utf8').split('\n').filter(Boolean)
  .map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)]));
const state = arg('state', 'var/state');
const minutes = Number(arg('minutes', 60));
const clients = Number(arg('clients', 4));
const pause = Number(arg('pause', 500));
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

async function chat() {
  const turns = 1 + Math.floor(Math.random() * 4);
  const messages = [];
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
    console.log(JSON.stringify({ minute: Math.round((Date.now() - began) / 6000) / 10, ...p, ...count }));
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
console.log(JSON.stringify(count));
process.exit(bad || (count.failed ? 1 : 0));
