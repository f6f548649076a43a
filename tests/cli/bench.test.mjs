// sluice bench: the instruction set, the peers' command lines, and models whose routing is spread.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { demo, folder, sluice, tiny } from "./sluice.mjs";

const small = ["--layers", "2", "--hidden", "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--vocab", "512", "--experts", "32", "--top-k", "4", "--inter", "256"];
const quick = ["--backend", "cpu", "--repeats", "1", "--tokens", "4"];

async function model(t, format) {
  const out = join(folder(t), "m");
  const r = await sluice(["synth", "--out", out, "--shape", "qwen3-30b-a3b", "--format", format, ...small]);
  assert.equal(r.code, 0, r.err);
  return join(out, "model.gguf");
}

test("--isa takes a lower instruction set and shows it, and refuses what the processor lacks", async () => {
  const args = ["bench", "--model", demo, "--prompts", "16", "--batches", "", "--json", ...quick];
  assert.match(JSON.parse((await sluice([...args, "--isa", "generic"])).out).device, /generic kernels/);
  const flags = readFileSync("/proc/cpuinfo", "utf8").match(/^flags\s*:(.*)$/m)?.[1].split(" ") ?? [];
  for (const [isa, flag] of [["avx2", "avx2"], ["avx512", "avx512bw"], ["avx512vnni", "avx512_vnni"]]) {
    const r = await sluice([...args, "--isa", isa]);
    if (flags.includes(flag)) assert.match(JSON.parse(r.out).device, new RegExp(`${isa} kernels`));
    else assert.match(r.err, new RegExp(`can't run the ${isa} kernels; it has .*generic`));
    assert.equal(r.code === 0, flags.includes(flag), isa);
  }
  assert.match((await sluice(["bench", "--model", demo, "--isa", "generic"])).err, /isa.*--backend cpu/);
  assert.match((await sluice(["bench", "--model", demo, "--backend", "cpu", "--isa", "generic", "--grammar"])).err, /isa.*no effect with --grammar/);
  assert.equal((await sluice([...args, "--isa", "sse"])).code, 2);
});

test("--compare prints lines for llama.cpp's tools with the same lengths", async (t) => {
  const file = await model(t, "gguf-q4_0");
  const args = ["bench", "--model", file, "--prompts", "16,32", "--depths", "0,64", "--batches", "1,2,3", "--threads", "2", ...quick];
  const r = await sluice([...args, "--compare"]);
  assert.equal(r.code, 0, r.err);
  const lines = r.out.split("\n").filter((line) => line.startsWith("llama-"));
  assert.deepEqual(lines, [
    `llama-bench -m '${file}' -fa 1 -t 2 -ngl 0 -p 16,32 -d 0,64 -n 0 -r 1`,
    `llama-bench -m '${file}' -fa 1 -t 2 -ngl 0 -n 4 -d 16,80 -p 0 -r 1`, // each sequence reads 16 tokens of its own first
    `llama-batched-bench -m '${file}' -fa 1 -t 2 -ngl 0 -npp 16,80 -ntg 4 -npl 2,3 -c 252`,
  ]);
  assert.ok(!(await sluice(args)).out.includes("llama-bench"));
  assert.match((await sluice(["bench", "--model", demo, "--compare"])).err, /compare.*\.gguf/);
  assert.match((await sluice([...args, "--compare", "--json"])).err, /compare/);
});

test("--rows measures steps of several rows of one sequence beside steps of one", async () => {
  const args = ["bench", "--model", demo, "--prompts", "", "--batches", "", "--rows", "1,4", ...quick];
  const [one, four] = JSON.parse((await sluice([...args, "--json"])).out).cases;
  assert.deepEqual([one.kind, one.rows, one.steps, four.rows, four.steps], ["rows", 1, 4, 4, 4]);
  assert.ok(four.weight_bytes_per_step > one.weight_bytes_per_step && four.step_ms > 0);
  const table = (await sluice(args)).out.match(/^ +4 +0 +[\d.]+ +[\d.]+ +([\d.]+)$/m);
  assert.ok(Number(table[1]) > 1, table[0]); // more experts than one row has
  assert.match((await sluice([...args, "--rows", "x"])).err, /rows.*list of at most/);
});

test("--probe measures the bandwidth around each repeat of a case, and says when one begins", async () => {
  const args = ["bench", "--model", demo, "--prompts", "", "--batches", "1,2", "--json", ...quick, "--repeats", "2"];
  const r = await sluice([...args, "--probe"]), cases = JSON.parse(r.out).cases;
  assert.deepEqual(r.err.match(/repeat \d+, case \d+$/gm), ["repeat 1, case 1", "repeat 1, case 2", "repeat 2, case 1", "repeat 2, case 2"]);
  assert.ok(cases.every((c) => c.each.length === 2 && c.each.every((e) => e.tokens_per_s > 0 && e.read_bandwidth_bytes_per_s > 0) && c.share_of_bound > 0), r.out);
  const table = await sluice([...args.filter((a) => a !== "--json"), "--probe"]);
  assert.match(table.out, /bound  probe GB\/s\ndecode .*% +\d+\.\d\n/);
  const without = await sluice(args);
  assert.ok(!without.err.includes("repeat") && JSON.parse(without.out).cases.every((c) => !("read_bandwidth_bytes_per_s" in c)));
  assert.match((await sluice(["bench", "--model", demo, "--probe", "--grammar"])).err, /probe.*no effect with --grammar/);
});

test("tokens of a synthetic model choose experts of their own in every format", async (t) => {
  for (const format of ["gguf-q4_0", "gguf-q4_k", "gguf-iq4_nl", "gguf-q6_k"]) {
    const file = await model(t, format);
    const r = await sluice(["bench", "--model", file, "--prompts", "", "--batches", "8", "--json", ...quick]);
    assert.equal(r.code, 0, r.err);
    const [c] = JSON.parse(r.out).cases;
    const share = c.weight_bytes_per_step / c.planned_weight_bytes_per_step;
    assert.ok(share > 0.8, `${format}: ${share}`); // planned for routing that is uniform
  }
});

test("--profile times the operations of a step, and is refused where nothing can time them", async () => {
  const args = ["bench", "--model", tiny, "--prompts", "16", "--batches", "2", "--tokens", "2", "--repeats", "1", "--profile"];
  const vulkan = JSON.parse((await sluice(["info", tiny, "--backend", "vulkan", "--json"])).out).plan?.strategy;
  if (vulkan) {
    const r = await sluice([...args, "--backend", "vulkan", "--json"]);
    assert.equal(r.code, 0, r.err);
    const layers = JSON.parse(readFileSync(join(tiny, "config.json"), "utf8")).num_hidden_layers;
    for (const c of JSON.parse(r.out).cases) {
      const of = new Map(c.profile.operations.map((o) => [o.name, o]));
      for (const name of ["qkv", "wo"]) assert.equal(of.get(name).count, layers, `${c.kind}: ${name}`);
      assert.equal(of.get("head").count, 1);
      assert.ok(c.profile.operations.every((o) => o.us > 0), r.out);
      const sum = c.profile.operations.reduce((us, o) => us + o.us, 0);
      assert.ok(Math.abs(sum / c.profile.us - 1) < 0.01, `${sum} of ${c.profile.us} us`);
    }
  }
  assert.match((await sluice([...args, "--backend", "cpu"])).err, /profile.*--backend vulkan/);
  assert.match((await sluice([...args, "--grammar"])).err, /profile.*no effect/);
});
