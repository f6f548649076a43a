#!/usr/bin/env node
// By hand: many clients at once over a model whose experts stay on disk: does the whole get faster, does anyone starve, how long is
// the first token waited for?
//   node tests/soak/streaming_clients.mjs [--model DIR | --layers 6 --dir DIR] [--share 0.4] [--clients 1,2,4,8] [--tokens 60] [--prompt 100] [--long 1500]
// Rates are the engine's own counts between two moments: the last client has its first token, the first one has its last. Then a
// long prompt comes beside as many running answers. Random weights route nearly at random: caches and sharing gain less than with
// a trained model. Status 1 when a client got less than half of the mean, or the long prompt ended after the answers beside it.
import { figures, load, mean, model, number, open, option, quantile, question, streaming, sum } from './streaming_model.mjs';

const share = number('share', 0.4), tokens = number('tokens', 60), prompt = number('prompt', 100), long = number('long', 1500);
const counts = String(option('clients', '1,2,4,8')).split(',').map(Number);
const most = Math.max(...counts);
const m = model(6);
const fit = streaming(m.dir, share, ['--slots', String(most + 1)]);
const server = await open(m.dir, [...fit.args, '--expert-cache', String(fit.cache)]);
let seed = 1, bad = 0;
console.log(`experts ${(fit.all / 1e9).toFixed(2)} GB, cache ${(fit.cache / 1e9).toFixed(2)} GB (${Math.round(share * 100)} %), ${load()}`);

/** One client: when its tokens came, in ms since the call. */
async function client(n, max_tokens, on = () => {}) {
  const began = performance.now(), times = [];
  const out = await server.stream({ messages: [{ role: 'user', content: question(n, seed++) }], max_tokens, temperature: 0, ignore_eos: true,
    stream_options: { include_usage: true } }, { onChunk: (c) => {
    const d = c.choices?.[0]?.delta;
    if (d?.content || d?.reasoning_content) { times.push(performance.now() - began); on(times.length); }
  } });
  const usage = out.chunks?.at(-1)?.usage;
  if (out.status !== 200 || !out.done || usage?.completion_tokens !== max_tokens) throw new Error(JSON.stringify(out.error ?? usage ?? out.raw.slice(-300)));
  return { began, times, usage, timings: out.chunks.find((c) => c.timings)?.timings };
}
const gaps = (c) => c.times.slice(1).map((t, i) => t - c.times[i]);

await client(prompt, tokens); // the cache is filled, rates are learnt
console.log('| clients | tok/s together | each, slowest to fastest | first token: median, worst | between tokens: median, p99 | read a token | hit rate |\n| --- | --- | --- | --- | --- | --- | --- |');
for (const n of counts) {
  let started = 0, from, to;
  const all = await Promise.all(Array.from({ length: n }, () => client(prompt, tokens, (i) => {
    if (i === 1 && ++started === n) from = { at: performance.now(), f: figures(server) };
    if (i === tokens - 1) to ??= { at: performance.now(), f: figures(server) };
  })));
  to ??= { at: performance.now(), f: figures(server) }; // some tokens came together in one piece of text
  const [a, b] = [await from.f, await to.f], d = (name) => b[name] - a[name];
  const rate = d('generation_tokens_total') / ((to.at - from.at) / 1000);
  const own = all.map((c) => (c.usage.completion_tokens - 1) / ((c.times.at(-1) - c.times[0]) / 1000));
  const between = all.flatMap(gaps);
  const hit = (d('expert_hits_total') + d('expert_late_total')) / d('expert_asked_total');
  if (Math.min(...own) < mean(own) / 2) bad = 1;
  console.log(`| ${n} | ${rate.toFixed(2)} | ${Math.min(...own).toFixed(2)} to ${Math.max(...own).toFixed(2)} | ${(quantile(all.map((c) => c.times[0]), 0.5) / 1000).toFixed(2)}, ` +
    `${(Math.max(...all.map((c) => c.times[0])) / 1000).toFixed(2)} s | ${quantile(between, 0.5).toFixed(0)}, ${quantile(between, 0.99).toFixed(0)} ms | ` +
    `${(d('expert_read_bytes_total') / d('generation_tokens_total') / 1e6).toFixed(1)} MB | ${(100 * hit).toFixed(0)} % |`);
}

/** A long prompt, alone and then beside n answers. */
async function longPrompt(n) {
  let started = 0, go, arrived;
  const all = new Promise((done) => { go = done; });
  if (!n) go();
  const beside = Array.from({ length: n }, () => client(prompt, number('beside', 150), () => { if (++started === n) go(); }));
  await Promise.race([all, Promise.all(beside)]);
  const before = await figures(server);
  arrived = performance.now();
  const reader = await client(long, 4);
  const first = reader.times[0], after = await figures(server);
  const others = await Promise.all(beside);
  const meanwhile = others.map((c) => c.times.filter((t) => c.began + t > arrived && c.began + t <= arrived + first).length);
  const waits = others.flatMap((c) => c.times.slice(1).map((t, i) => ({ at: c.began + t, gap: t - c.times[i] }))).filter((g) => g.at > arrived && g.at <= arrived + first).map((g) => g.gap);
  const steps = after.steps_total - before.steps_total;
  console.log(`a prompt of ${reader.usage.prompt_tokens} tokens beside ${n} answers: first token after ${(first / 1000).toFixed(2)} s (${(reader.usage.prompt_tokens / first * 1000).toFixed(0)} tok/s), ` +
    `some ${steps} steps, ${((after.expert_read_bytes_total - before.expert_read_bytes_total) / 1e9).toFixed(2)} GB read` +
    (n ? `; meanwhile the answers got ${Math.min(...meanwhile)} to ${Math.max(...meanwhile)} tokens each, longest wait ${(Math.max(...waits) / 1000).toFixed(2)} s` : '') + `, ${load()}`);
  if (n && (!Math.min(...meanwhile) || others.every((c) => c.began + c.times.at(-1) < arrived + first))) bad = 1;
}
await longPrompt(0);
await longPrompt(most);
const end = await figures(server);
if (end.expert_cache_bytes > end.expert_cache_budget_bytes || sum([end.expert_failures_total, end.worker_crashes_total ?? 0])) bad = 1;
await server.stop();
m.remove();
process.exit(bad);
