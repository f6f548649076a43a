// sluice search: what a hub has, and beside each model whether it fits, streams or does not fit, before its weights are loaded.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { modelFiles, startHub } from "./hub.mjs";
import { demo, folder, sluice, top } from "./sluice.mjs";

const gguf = readFileSync(join(top, "tests/data/golden/qwen3moe-k/gguf/q4_k_m.gguf"));
const large = () => modelFiles(demo);
const others = () => ({
  "lab/tiny-large": large(),
  "lab/tiny-other": { "config.json": { data: Buffer.from('{"model_type": "other", "architectures": ["OtherForCausalLM"]}') }, "model.safetensors": { data: Buffer.alloc(4096), lfs: true } },
});

async function setup(t, options = {}) {
  const hub = await startHub({ "tiny-Q4_K_M.gguf": { data: gguf, lfs: true }, "tiny-Q8_0.gguf": { data: gguf, lfs: true } }, { blobs: true, others: others(), ...options });
  t.after(() => hub.stop());
  const dir = folder(t);
  const search = (...args) => sluice(["search", "--endpoint", hub.url, "--folder", dir, "--backend", "cpu", "--timeout", "30", ...args]);
  return { hub, dir, search, found: async (...args) => { const r = await search("--json", ...args); assert.equal(r.code, 0, r.err); return JSON.parse(r.out).items; } };
}

test("each model has its verdict, from the heads of its files alone, and nothing is left behind", async (t) => {
  const { hub, dir, found, search } = await setup(t);
  const items = await found("tiny"), by = Object.fromEntries(items.map((i) => [i.repo, i]));
  assert.deepEqual(items.map((i) => [i.name, i.fit.verdict]), [["hf.co/lab/tiny:Q4_K_M", "fits"], ["hf.co/lab/tiny-large", "fits"], ["hf.co/lab/tiny-other", "unsupported"]]);
  assert.equal(by["lab/tiny"].pull, `hf.co/lab/tiny@${hub.commit}:Q4_K_M`);
  assert.equal(by["lab/tiny"].downloads, 1000);
  assert.equal(by["lab/tiny"].fit.bytes, gguf.length);
  const { fit } = by["lab/tiny-large"];
  assert.equal(fit.plan.strategy, "cpu_only");
  assert.ok(fit.tokens_per_s > 0 && fit.tokens_per_s_low < fit.tokens_per_s && fit.tokens_per_s < fit.tokens_per_s_high);
  assert.match(by["lab/tiny-other"].fit.reason, /not for Sluice/);
  const weights = hub.loads().filter((q) => q.path.endsWith(".safetensors") && q.host === "other" && q.range);
  assert.ok(weights.length > 0);
  for (const q of weights) assert.ok(Number(/-(\d+)$/.exec(q.range)[1]) < 1 << 20, q.range);
  assert.deepEqual(readdirSync(dir), []);
  const plain = await search("tiny");
  assert.match(plain.out, /^fits .* hf\.co\/lab\/tiny:Q4_K_M$/m);
  assert.match(plain.out, /^fits .*MB +[\d.]+ to [\d.]+ tokens\/s +hf\.co\/lab\/tiny-large$/m);
  assert.match(plain.out, /^not for Sluice .*hf\.co\/lab\/tiny-other\n.*not for Sluice/m);
});

test("one that is larger than the memory streams, and says how fast; one that not even streams does not fit", async (t) => {
  const { found, search } = await setup(t);
  const of = async (...args) => (await found("tiny-large", ...args))[0].fit;
  const plain = await of(), small = await of("--expert-cache", "8M");
  assert.equal(small.verdict, "streams");
  assert.equal(small.plan.strategy, "ssd_streaming");
  assert.ok(small.tokens_per_s > 0 && small.tokens_per_s < plain.tokens_per_s * 2, "by a disk that was measured, not by holes");
  const none = await of("--ram-budget", "100M");
  assert.equal(none.verdict, "too_large");
  assert.match(none.reason, /nothing was loaded/);
  assert.equal(none.plan, null);
  assert.match((await search("tiny-large", "--ram-budget", "100M")).out, /^too large .*tiny-large\n +it can't run here/m);
});

test("the plan that is shown is the one of the model when it is there", async (t) => {
  const { dir, hub, found } = await setup(t);
  for (const item of (await found("tiny")).filter((i) => i.fit.plan)) {
    const out = join(dir, item.repo.replace("/", "-"));
    const r = await sluice(["pull", item.pull, "--endpoint", hub.url, "--out", out]);
    assert.equal(r.code, 0, r.err);
    const { plan } = JSON.parse((await sluice(["info", out, "--json", "--backend", "cpu"])).out);
    const steady = (p) => ["strategy", "backend", "weight_bytes", "dense_bytes", "expert_bytes", "kv_bytes", "kv_type", "state_bytes", "work_bytes", "host_bytes", "n_ctx", "n_slots", "n_blocks", "max_rows"].map((k) => [k, p[k]]);
    assert.deepEqual(steady(item.fit.plan), steady(plan), item.name);
  }
});

test("pull says what it loaded as one JSON object, with its progress elsewhere", async (t) => {
  const { dir, hub } = await setup(t);
  const out = join(dir, "tiny");
  for (let i = 0; i < 2; i++) { // the second time all of it is there
    const r = await sluice(["pull", "hf.co/lab/tiny:Q8_0", "--endpoint", hub.url, "--out", out, "--json"]);
    assert.equal(r.code, 0, r.err);
    assert.deepEqual(JSON.parse(r.out), { repo: "lab/tiny", commit: hub.commit, path: out, files: 1, bytes: gguf.length });
  }
});

test("without a word: those of the file, as far as this machine may hold them", async (t) => {
  const { dir, found, search } = await setup(t);
  const known = join(dir, "known.json");
  const write = (models) => writeFileSync(known, JSON.stringify({ models }));
  write([{ memory_gb: 1, repo: "lab/tiny", quant: "Q8_0", about: "the smallest" }, { memory_gb: 1, repo: "lab/none" }, { memory_gb: 1e6, repo: "lab/tiny-large" }]);
  const items = await found("--known", known);
  assert.deepEqual(items.map((i) => [i.name, i.fit.verdict, i.about]), [["hf.co/lab/tiny:Q8_0", "fits", "the smallest"], ["hf.co/lab/none", "unknown", undefined]]);
  assert.match(items[1].fit.reason, /no such repository/);
  write([{ memory_gb: 1, repo: "lab/none" }, { memory_gb: 2, repo: "lab/tiny", quant: "Q8_0" }]);
  assert.deepEqual((await found("--known", known, "--limit", "1")).map((i) => i.repo), ["lab/tiny"], "the largest");
  writeFileSync(known, "{}");
  assert.match((await search("--known", known)).err, /known\.json/);
});

test("the file of known models names what a pull takes, in the order of its sizes", () => {
  const { models } = JSON.parse(readFileSync(join(top, "fcgi/cli/pull/known-models.json"), "utf8"));
  for (const m of models) {
    assert.match(m.repo, /^[\w.-]+\/[\w.-]+$/);
    assert.match(m.quant, /^[\w.-]*$/);
    assert.ok(m.memory_gb > 0 && m.about.length > 3, m.repo);
  }
  assert.deepEqual(models.map((m) => m.memory_gb), models.map((m) => m.memory_gb).toSorted((a, b) => a - b));
  assert.ok(models[0].memory_gb <= 4 && models.at(-1).memory_gb >= 128);
});

test("a hub's faults: asked again where that may help, else said, and never a wrong verdict", async (t) => {
  const { hub, found, search } = await setup(t);
  const answer = (status, headers = {}) => (req, res) => { res.writeHead(status, headers).end("no"); return true; };
  const says = async (re) => { const r = await search("tiny"); assert.equal(r.code, 1, r.out); assert.match(r.err, re); };
  let n = 0;
  hub.fault = (req, res) => (req.url.startsWith("/api/models?") && n++ < 2 ? answer(429, { "retry-after": "0" })(req, res) : null);
  assert.equal((await found("tiny")).length, 3);
  assert.equal(n, 3, "and not once more");
  hub.fault = answer(404);
  await says(/HTTP 404/);
  hub.fault = answer(403);
  await says(/refuses/);
  hub.fault = (req, res) => { res.writeHead(200, { "content-length": 100 }); res.write("[{"); setTimeout(() => req.socket.destroy(), 5); return true; };
  await says(/127\.0\.0\.1/);
  hub.fault = () => null;
  hub.search = () => '[{"id": "lab/ti';
  await says(/answer to the search/);
  hub.search = () => ({ models: [] });
  await says(/no list of models/);
  hub.search = () => [{ id: "../etc/passwd" }, { id: "lab/tiny@v1" }, { id: 7 }, null, { id: "lab/tiny\u001b[31m" }, { id: "gpt2", tags: ["gguf"] }, { id: "lab/a", tags: ["onnx"] }, { id: "lab/b", tags: ["gguf"], disabled: true }];
  assert.deepEqual(await found("tiny"), [], "what is no repository, or can't be read, is passed over");
  assert.match((await search("tiny")).out, /no model of this name/);
  // of one model: the others keep their verdicts
  hub.search = () => [{ id: "lab/tiny-large", tags: ["safetensors"], gated: "manual" }, { id: "lab/tiny", tags: ["gguf"] }];
  const first = async (fault) => { hub.fault = fault; const items = await found("tiny"); assert.equal(items[1].fit.verdict, "fits"); return items[0].fit; };
  const on = (re, then) => (req, res) => (re.test(req.url) && !req.url.includes("tiny/") ? then(req, res) : null);
  assert.equal((await first(on(/config\.json/, answer(404)))).verdict, "unknown");
  const gone = await first(on(/\/api\/models\/lab\/tiny-large/, answer(401)));
  assert.deepEqual([gone.verdict, /refuses/.test(gone.reason)], ["unknown", true]);
  let cut = 0;
  assert.equal((await first(on(/safetensors\?of/, (req) => (req.method === "GET" && cut++ < 9 ? { cut: 50000 } : null)))).verdict, "fits", "the rest is asked for again, as long as some comes");
  assert.ok(cut > 9);
  let busy = 0;
  assert.equal((await first(on(/config\.json/, (req, res) => (busy++ < 2 ? answer(429, { "retry-after": "0" })(req, res) : null)))).verdict, "fits", "a hub that is busy is asked again");
  assert.ok(busy > 2);
  const short = await first(on(/safetensors\?of/, () => ({ data: Buffer.from("short"), plain: true })));
  assert.ok(["unknown", "unsupported"].includes(short.verdict), JSON.stringify(short));
  const swapped = await first(on(/safetensors\?of/, (req) => (req.method === "GET" ? { data: Buffer.alloc(30 << 20, 7) } : null)));
  assert.deepEqual([swapped.verdict, /bytes now/.test(swapped.reason)], ["unknown", true], "another file than the one that was named");
  const same = await first(on(/safetensors\?of/, (req) => (req.method === "GET" ? { data: Buffer.alloc(others()["lab/tiny-large"]["model.safetensors"].data.length, 7) } : null)));
  assert.deepEqual([same.verdict, /head of/.test(same.reason)], ["unknown", true], "of the same size");
  const slow = await first(on(/config\.json/, () => ({ slow: 200 })));
  assert.equal(slow.verdict, "fits");
  const plain = await search("tiny");
  hub.fault = on(/config\.json/, answer(401));
  assert.match((await search("tiny")).out, /terms have to be accepted/);
  assert.doesNotMatch(plain.out, /terms/);
});

test("bad words are refused with what is right", async (t) => {
  const { search } = await setup(t);
  for (const [args, re] of [[["a", "b"], /in quotes/], [["x".repeat(201)], /200 bytes/], [["tiny", "--limit", "0"], /limit/], [["tiny", "--endpoint", "ftp://x"], /address such as/]]) {
    const r = await search(...args);
    assert.notEqual(r.code, 0);
    assert.match(r.err, re);
  }
});
