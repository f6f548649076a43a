// The plan in sluice info and sluice bench.
import assert from "node:assert/strict";
import test from "node:test";
import { demo, sluice } from "./sluice.mjs";

const bench = ["bench", "--model", demo, "--backend", "cpu", "--prompts", "", "--batches", "1", "--tokens", "16", "--repeats", "1", "--json"];

test("bench runs under the plan that it shows, and holds its estimate against the rate", async () => {
  const whole = await sluice(bench);
  assert.equal(whole.code, 0, whole.err);
  const a = JSON.parse(whole.out);
  assert.equal(a.plan.strategy, "cpu_only");
  assert.deepEqual([a.plan.weight_bytes, a.plan.kv_bytes, a.plan.work_bytes], [a.memory.weights, a.memory.kv, a.memory.work]);
  assert.ok(a.cases[0].estimated_tokens_per_s > 0);
  assert.ok(!("planned_tokens_per_s" in a.cases[0]));
  const streamed = await sluice([...bench, "--expert-cache", "4M"]);
  assert.equal(streamed.code, 0, streamed.err);
  const b = JSON.parse(streamed.out);
  assert.equal(b.plan.strategy, "ssd_streaming");
  assert.equal(b.plan.expert_cache_bytes, 4 << 20);
  assert.deepEqual([b.plan.weight_bytes, b.plan.kv_bytes, b.plan.work_bytes], [b.memory.weights, b.memory.kv, b.memory.work]);
  assert.ok(b.cases[0].estimated_tokens_per_s > 0 && b.cases[0].planned_tokens_per_s > 0);
});

test("info shows the plan to people", async () => {
  const r = await sluice(["info", demo, "--backend", "cpu", "--ctx", "1024", "--slots", "2"]);
  assert.equal(r.code, 0, r.err);
  for (const says of [/strategy +cpu_only on cpu/, /1024 tokens, 2 at a time/, /KV cache/, /decode, estimated +[\d.]+ tokens\/s/]) assert.match(r.out, says);
  const refused = await sluice(["info", demo, "--backend", "cpu", "--strategy", "full_gpu"]);
  assert.equal(refused.code, 0, refused.err);
  assert.match(refused.out, /can't run +strategy|can't run +full_gpu/);
});

test("keys and values are stored as asked: planned, taken and said", async () => {
  const plans = {};
  for (const type of ["f16", "q8", "k8v4"]) {
    const { plan } = JSON.parse((await sluice(["info", demo, "--backend", "cpu", "--json", "--kv-type", type])).out);
    const r = JSON.parse((await sluice([...bench, "--kv-type", type])).out);
    assert.equal(r.plan.kv_bytes, r.memory.kv);
    assert.equal(plan.kv_bytes, plan.n_blocks * 32 * plan.kv_stored_bytes_per_token);
    plans[type] = plan;
    if (type !== "f16") assert.deepEqual([plan.kv_type, r.plan.kv_type], [type, type]);
  }
  const tokens = (type) => plans.f16.kv_stored_bytes_per_token / plans[type].kv_stored_bytes_per_token;
  assert.ok(tokens("q8") >= 1.9 && tokens("k8v4") >= 2.5, JSON.stringify(plans));
  const auto = JSON.parse((await sluice(["info", demo, "--backend", "cpu", "--json"])).out).plan;
  assert.equal(auto.kv_type, plans.f16.kv_type);
  assert.match((await sluice([...bench.slice(0, -1), "--kv-type", "k8v4"])).out, /plan: cpu_only, KV k8v4, /);
  const shown = await sluice(["info", demo, "--backend", "cpu", "--kv-type", "q8"]);
  assert.match(shown.out, /KV cache .* q8, \d+ B a token/);
});

test("a KV type that does not exist is refused by name", async () => {
  for (const command of [["info", demo], ["bench", "--model", demo], ["generate", "--model", demo, "--ids", "1"], ["perplexity", "--model", demo]]) {
    const r = await sluice([...command, "--kv-type", "q4"]);
    assert.equal(r.code, 2, r.out);
    assert.match(r.err, /kv-type/);
  }
});

test("a strategy that does not exist is refused by name", async () => {
  const r = await sluice(["info", demo, "--strategy", "swap_assisted"]);
  assert.equal(r.code, 2);
  assert.match(r.err, /strategy/);
});
