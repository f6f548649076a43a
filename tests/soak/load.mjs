#!/usr/bin/env node
// By hand: many concurrent streams of the demo model through nginx, a storm of clients that leave, and /health meanwhile.
//   node tests/soak/load.mjs [--streams 200] [--storm 200] [--tokens 60]
// Starts its own server (SLUICE_PREFIX as for the tests). Status 1 when a stream is not whole, a slot stays held for more
// than a second after the storm, or the server is not as before. Prints figures for docs/speed/page.md.
import os from 'node:os';
import { joined, sleep, start } from '../api/harness.mjs';

const arg = (name, fallback) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? fallback : Number(process.argv[i + 1]);
};
const streams = arg('streams', 200), storm = arg('storm', 200), tokens = arg('tokens', 60);
const s = await start({ args: ['--slots', '32', '--max-queue', '1000', '--log-level', 'warn'] });
await s.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 }); // all of one user
const load = () => os.loadavg()[0].toFixed(1);
console.log(`${os.cpus().length} cores, load ${load()} before`);

let watching = true;
const health = [];
const watcher = (async () => {
  while (watching) {
    const began = performance.now();
    await (await fetch(`${s.url}/health`)).text();
    health.push(performance.now() - began);
    await sleep(20);
  }
})();
const quantile = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))];
const sayHealth = (when) => {
  console.log(`/health ${when}: ${health.length} asked, p50 ${quantile(health, 0.5).toFixed(1)} ms, p99 ${quantile(health, 0.99).toFixed(1)} ms, max ${Math.max(...health).toFixed(1)} ms`);
  health.length = 0;
};

const body = (i, n) => ({ messages: [{ role: 'user', content: `Tell a story about number ${i % 10}.` }], max_tokens: n, temperature: 0, ignore_eos: true,
  stream_options: { include_usage: true } });
let bad = 0;
const began = Date.now();
const all = await Promise.all(Array.from({ length: streams }, (_, i) => s.stream(body(i, tokens))));
const took = (Date.now() - began) / 1000;
const texts = {};
for (const [i, r] of all.entries()) {
  const usage = r.chunks?.at(-1)?.usage, text = joined(r.chunks ?? []);
  const whole = r.status === 200 && r.done && r.rest === '' && usage?.completion_tokens === tokens && text.finish.join() === 'length';
  const same = (texts[i % 10] ??= text.content + text.reasoning) === text.content + text.reasoning;
  if (!whole || !same) bad++;
}
console.log(`${streams} streams of ${tokens} tokens: ${streams - bad} whole and the same as those of the same prompt, ${took.toFixed(1)} s, ` +
  `${(streams * tokens / took).toFixed(0)} tokens/s, load ${load()}`);
sayHealth('meanwhile');

const stops = Array.from({ length: storm }, () => new AbortController());
const gone = stops.map((c, i) => s.stream(body(i, 2000), { signal: c.signal }).catch(() => {}));
while (await s.metric('num_requests_running') < 16) await sleep(20);
for (const c of stops) c.abort();
const left = Date.now();
await Promise.all(gone);
while (await s.metric('num_requests_running') + await s.metric('num_requests_waiting') > 0 && Date.now() - left < 20000) await sleep(10);
const freed = Date.now() - left;
console.log(`storm: ${storm} clients left at once; nothing runs or waits ${freed} ms later, load ${load()}`);
sayHealth('in the storm');
watching = false;
await watcher;
const after = await s.chat({ messages: [{ role: 'user', content: 'What is 17 + 25?' }], temperature: 0, max_tokens: 200 });
const fine = after.status === 200 && await s.metric('worker_crashes_total') === 0;
console.log(`afterwards: ${after.status}, workers died: ${await s.metric('worker_crashes_total')}`);
await s.stop();
process.exit(bad || freed > 1000 || !fine ? 1 : 0);
