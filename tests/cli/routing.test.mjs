// sluice bench --routing: traces in place of the model's router.
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";
import { demo, folder, sluice } from "./sluice.mjs";

async function bench(...more) {
  const r = await sluice(["bench", "--model", demo, "--backend", "cpu", "--prompts", "", "--batches", "1,12", "--tokens", "24", "--repeats", "1", "--json", ...more]);
  assert.equal(r.code, 0, r.err);
  return JSON.parse(r.out);
}
const bytes = (r) => r.cases.map((c) => c.weight_bytes_per_step);

test("a trace decides how many experts a batch reads", async () => {
  const [iid, calibrated, again, other] = [await bench("--routing", "iid"), await bench("--routing", "calibrated"),
    await bench("--routing", "calibrated"), await bench("--routing", "calibrated", "--seed", "2")];
  assert.equal(iid.routing, "iid");
  assert.equal(bytes(iid)[0], iid.planned_bytes_per_token); // one token: always n_used
  assert.equal(bytes(calibrated)[0], bytes(iid)[0]);
  assert.ok(bytes(calibrated)[1] < bytes(iid)[1], `${bytes(calibrated)} ${bytes(iid)}`); // shared favourites
  // independent and uniform: what the plan's own arithmetic expects
  assert.ok(Math.abs(bytes(iid)[1] / iid.cases[1].planned_weight_bytes_per_step - 1) < 0.02);
  assert.deepEqual(bytes(again), bytes(calibrated));
  assert.notDeepEqual(bytes(other), bytes(calibrated));
});

test("experts from disk: what was wanted, found and read adds up", async () => {
  const r = await bench("--routing", "calibrated", "--expert-cache", "6MB", "--guess", "0");
  assert.ok(r.experts.disk_bytes_per_s > 0);
  assert.ok(r.experts.cache_bytes <= 6 << 20 && r.experts.bytes > 3 * r.experts.cache_bytes);
  for (const c of r.cases) {
    const d = c.disk;
    assert.equal(d.hits + d.late + d.misses, d.asked);
    assert.ok(d.hit_rate > 0 && d.hit_rate < 1, JSON.stringify(d));
    assert.equal(d.late, 0); // nothing was read ahead
    assert.equal(d.read_bytes_per_token, d.needed_bytes_per_token);
  }
  const one = r.cases[0];
  assert.equal(one.disk.asked % one.tokens, 0);
  assert.ok(one.disk.compute_ms > 0 && one.disk.share_of_bound > 0, "the experts of one token fit in the cache");
  assert.equal(bytes(r)[0], bytes(await bench("--routing", "calibrated"))[0]); // the steps read the same weights
});

test("a model without experts has no routing to replace", async (t) => {
  const dense = join(folder(t), "dense");
  const made = await sluice(["synth", "--out", dense, "--shape", "qwen3-0.6b", "--layers", "1", "--hidden", "64", "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--vocab", "200", "--inter", "64"]);
  assert.equal(made.code, 0, made.err);
  const r = await sluice(["bench", "--model", dense, "--backend", "cpu", "--routing", "iid"]);
  assert.equal(r.code, 1);
  assert.match(r.err, /no routed experts/);
  assert.equal((await sluice(["bench", "--model", demo, "--routing", "zipf"])).code, 2);
});
