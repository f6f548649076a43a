// sluice perplexity --kld: a KV type, and activations in 8 bits, against 16 bits.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { demo, sluice } from "./sluice.mjs";

test("perplexity tells how far a KV type moves the distributions", async () => {
  const ids = Array.from({ length: 200 }, (_, i) => 300 + i * 37 % 4000), dir = mkdtempSync(join(tmpdir(), "sluice-kv-"));
  writeFileSync(join(dir, "ids"), ids.join(" "));
  const kld = async (type, ...more) => {
    const r = await sluice(["perplexity", "--model", demo, "--ids-file", join(dir, "ids"), "--backend", "cpu", "--kld", "--kv-type", type, "--json", ...more]);
    assert.equal(r.code, 0, r.err);
    const v = JSON.parse(r.out);
    assert.equal(v.tokens, 199);
    return v;
  };
  const same = await kld("f16"), near = await kld("q8"), far = await kld("k8v4"), bytes = await kld("f16", "--activations", "8");
  rmSync(dir, { recursive: true });
  assert.deepEqual([same.kld, same.kld_most, same.same_choice], [0, 0, 1]);
  assert.equal(near.perplexity_16_bits, same.perplexity);
  assert.equal(bytes.perplexity_16_bits, same.perplexity);
  assert.ok(bytes.kld > 0 && bytes.kld < 0.02, JSON.stringify(bytes));
  assert.ok(near.kld > 0 && near.kld < far.kld && near.kld < 0.02, JSON.stringify([near, far]));
});
