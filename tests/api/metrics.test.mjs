// /metrics: well-formed, truthful about what was just done, all of it documented; the dashboard asks for nothing else.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, start, top } from './harness.mjs';

const doc = (name) => readFileSync(path.join(top, 'docs', name), 'utf8');
let s, text, types;
const read = async () => { text = await s.metrics(); };
before(async () => {
  s = await start();
  await read();
  types = Object.fromEntries([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]));
});
after(() => s?.stop());

/** The metric that a sample belongs to. */
const family = (sample) => [sample, sample.replace(/_(bucket|sum|count)$/, '')].find((n) => types[n]);

test('each sample has a type and a help, each name once', () => {
  const names = [...text.matchAll(/^# TYPE (\w+)/gm)].map((m) => m[1]);
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual([...text.matchAll(/^# HELP (\w+) .+$/gm)].map((m) => m[1]), names);
  for (const line of text.split('\n').filter((l) => l && !l.startsWith('#'))) {
    const m = /^(sluice_\w+)(\{(\w+="([^"\\]|\\.)*",?)*\})? (-?[\d.e+-]+)$/.exec(line);
    assert.ok(m, line);
    assert.ok(family(m[1]), line);
    if (types[family(m[1])] === 'counter') assert.match(m[1], /_total$/, 'a counter says so');
  }
});

test('buckets rise, end at +Inf and agree with the count', () => {
  for (const name of Object.keys(types).filter((n) => types[n] === 'histogram')) {
    const lines = text.split('\n').filter((l) => l.startsWith(`${name}_bucket{`));
    const series = {};
    for (const l of lines) (series[l.replace(/,?le="[^"]*"/, '').replace(/ \S+$/, '')] ??= []).push(l);
    for (const [key, mine] of Object.entries(series)) {
      const bounds = mine.map((l) => /le="([^"]*)"/.exec(l)[1]), counts = mine.map((l) => Number(l.split(' ').at(-1)));
      assert.equal(bounds.at(-1), '+Inf', key);
      bounds.slice(0, -1).map(Number).reduce((a, b) => { assert.ok(b > a, `${key}: ${b} after ${a}`); return b; }, -1);
      counts.reduce((a, b) => { assert.ok(b >= a, key); return b; }, 0);
      const labels = /\{(.*)\}/.exec(key)[1];
      const count = text.split('\n').find((l) => l.startsWith(labels ? `${name}_count{${labels}}` : `${name}_count `));
      assert.equal(Number(count.split(' ').at(-1)), counts.at(-1), key);
    }
  }
});

test('docs/operations/failures.md names each metric, and none that is not there', () => {
  const section = doc('operations/failures.md').split('## Numbers')[1];
  const named = section.split('\n').filter((l) => /^\| [a-z_]+/.test(l)).flatMap((l) => l.split('|')[1].split(',').map((n) => `sluice_${n.trim()}`))
    .filter((n) => n !== 'sluice_metric' && !n.includes(' '));
  assert.deepEqual(Object.keys(types).filter((n) => !named.includes(n)), [], 'not in the docs');
  assert.deepEqual(named.filter((n) => !types[n]), [], 'not in /metrics');
});

test('the dashboard asks only for what there is', () => {
  const d = JSON.parse(doc('grafana-dashboard.json'));
  const asked = d.panels.flatMap((p) => p.targets).map((t) => t.expr);
  assert.ok(asked.length > 20);
  for (const expr of asked) {
    const names = expr.match(/sluice_\w+/g);
    assert.ok(names?.length, expr);
    for (const n of names) {
      assert.ok(family(n), `${n} in ${expr}`);
      if (/_bucket$/.test(n)) assert.equal(types[family(n)], 'histogram', expr);
      if (/\b(rate|increase)\(/.test(expr) && !/ \/ /.test(expr)) assert.notEqual(types[family(n)], 'gauge', expr);
    }
    for (const [, label] of expr.matchAll(/by \((\w+)/g)) assert.ok(label === 'le' || text.includes(`${label}="`) , expr);
  }
  assert.equal(new Set(d.panels.map((p) => p.id)).size, d.panels.length);
});

test('what was just done is counted', async () => {
  const names = ['prompt_tokens_total', 'generation_tokens_total', 'requests_accepted_total', 'time_to_first_token_seconds_count',
    'e2e_request_latency_seconds_count', 'time_per_output_token_seconds_count'];
  const all = async () => Object.fromEntries(await Promise.all(names.map(async (n) => [n, await s.metric(n)])));
  const before = await all();
  const r = await s.chat({ messages: [{ role: 'user', content: 'What is a river?' }], max_tokens: 7, ignore_eos: true });
  const { prompt_tokens: prompt, completion_tokens: made } = r.body.usage;
  assert.equal(made, 7);
  const now = await eventually(async () => { // the page is written between steps
    const figures = await all();
    assert.ok(figures.e2e_request_latency_seconds_count > before.e2e_request_latency_seconds_count);
    return figures;
  });
  const grown = Object.fromEntries(names.map((n) => [n, now[n] - before[n]]));
  assert.deepEqual(grown, { prompt_tokens_total: prompt, generation_tokens_total: made, requests_accepted_total: 1, time_to_first_token_seconds_count: 1,
    e2e_request_latency_seconds_count: 1, time_per_output_token_seconds_count: made - 1 });
});
