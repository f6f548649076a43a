// Names of models on a hub: which files they mean, what is shown before anything is loaded, and that it is what runs afterwards.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { bytes, modelFiles, sha256, startHub } from "./hub.mjs";
import { demo, folder, sluice, top } from "./sluice.mjs";

const gguf = readFileSync(join(top, "tests/data/golden/qwen3moe-k/gguf/q4_k_m.gguf"));
const other = readFileSync(join(top, "tests/data/golden/qwen2moe/gguf/q8_0.gguf"));
const repository = () => ({
  "README.md": { data: Buffer.from("# tiny\n") },
  "tiny-Q4_K_M.gguf": { data: gguf, lfs: true },
  "tiny-UD-Q4_K_M.gguf": { data: other, lfs: true },
  "tiny-Q4_K.gguf": { data: other, lfs: true },
  "tiny-Q8_0.gguf": { data: other, lfs: true },
  "tiny-BF16-00001-of-00002.gguf": { data: bytes(5000, 4), lfs: true },
  "tiny-BF16-00002-of-00002.gguf": { data: bytes(5000, 5), lfs: true },
  "mmproj-tiny-Q8_0.gguf": { data: bytes(5000, 6), lfs: true },
});
const model = () => modelFiles(demo);
const loaded = (hub) => [...new Set(hub.loads().map((r) => r.path.split("/").at(-1)))].sort();

async function setup(t, files = repository(), options = { blobs: true }) {
  const hub = await startHub(files, options);
  t.after(() => hub.stop());
  const out = join(folder(t), "out");
  return { hub, out, pull: (name, ...more) => sluice(["pull", name, "--endpoint", hub.url, "--out", out, ...more]) };
}

test("a quantization means its own files, whichever way the hub is written", async (t) => {
  for (const [name, files] of [["hf.co/lab/tiny:Q4_K_M", ["tiny-Q4_K_M.gguf"]], ["hf:lab/tiny:q8_0", ["tiny-Q8_0.gguf"]],
    ["https://huggingface.co/lab/tiny:Q4_K", ["tiny-Q4_K.gguf"]], ["hf.co/lab/tiny@v1:UD-Q4_K_M", ["tiny-UD-Q4_K_M.gguf"]],
    ["hf.co/lab/tiny", ["tiny-Q4_K_M.gguf"]], ["hf.co/lab/tiny:BF16", ["tiny-BF16-00001-of-00002.gguf", "tiny-BF16-00002-of-00002.gguf"]]]) {
    const { hub, out, pull } = await setup(t);
    const r = await pull(name);
    assert.equal(r.code, 0, `${name}: ${r.err}`);
    assert.deepEqual(readdirSync(out).filter((f) => !f.startsWith(".")).sort(), files, name);
    assert.deepEqual(loaded(hub), files, name);
  }
});

test("what there is not is said with what there is, and nothing is loaded", async (t) => {
  const { hub, out, pull } = await setup(t);
  const says = async (name, re, ...more) => {
    const r = await pull(name, ...more);
    assert.notEqual(r.code, 0, name);
    assert.match(r.err, re, name);
    assert.ok(!existsSync(out) && !existsSync(`${out}.part`));
    assert.deepEqual(hub.loads(), []);
  };
  await says("hf.co/lab/tiny:Q5_K_M", /has no Q5_K_M; it has (BF16|Q4_K|Q4_K_M|Q8_0|, )+/);
  await says("hf.co/lab/none:Q8_0", /lab\/none/);
  await says("hf.co/tiny", /lacks the user/);
  await says("hf.co/lab/tiny:", /quantization such as Q4_K_M/);
  await says("hf.co/lab/tiny:Q4/..", /is no quantization/);
  await says("hf.co/lab/tiny:Q8_0", /include: does not go with/, "--include", "*");
  hub.files = { "a-x.gguf": { data: gguf }, "b-x.gguf": { data: gguf } };
  await says("hf.co/lab/tiny:x", /more than one model of x/);
  await says("hf.co/lab/tiny", /which one\?/);
  hub.files = model();
  await says("hf.co/lab/tiny:Q8_0", /no GGUF files.*without ':'/);
});

for (const [kind, files, name] of [["GGUF", repository, "hf.co/lab/tiny:Q4_K_M"], ["safetensors", model, "hf.co/lab/tiny"]]) {
  test(`the plan before the pull is that of the model after it (${kind})`, async (t) => {
    const { hub, out, pull } = await setup(t, files());
    const r = await pull(name, "--plan", "--json");
    assert.equal(r.code, 0, r.err);
    const said = JSON.parse(r.out), sizes = Object.fromEntries(Object.entries(hub.files).map(([f, v]) => [f, v.data.length]));
    assert.equal(said.bytes, said.files.reduce((sum, f) => sum + sizes[f], 0));
    assert.ok(!existsSync(out) && !existsSync(`${out}.part`) && !existsSync(`${out}.heads`), "no trace of it");
    const weights = said.files.find((f) => /gguf|safetensors/.test(f));
    for (const q of hub.loads().filter((l) => l.path.endsWith(weights))) assert.ok(Number(/-(\d+)$/.exec(q.range)[1]) < 1 << 20, "only its head was asked for");
    const plain = await pull(name, "--plan");
    assert.match(plain.out, /were read to plan/);
    assert.match(plain.out, /cpu/);
    assert.equal((await pull(name)).code, 0);
    const info = JSON.parse((await sluice(["info", out, "--json"])).out);
    const steady = ({ strategy, backend, model_weight_gb, kv_cache_gb, ...rest }) => ({ strategy, backend, model_weight_gb, kv_cache_gb, keys: Object.keys(rest).filter((k) => k !== "fast_prefill") });
    assert.deepEqual(steady(said.plan), steady(info.plan));
    for (const f of said.files) assert.equal(sha256(readFileSync(join(out, f))), sha256(hub.files[f].data), f);
  });
}

test("a model that Sluice can't run is refused before its weights are loaded", async (t) => {
  const files = model();
  files["config.json"] = { data: Buffer.from(JSON.stringify({ architectures: ["OtherForCausalLM"], model_type: "other" })) };
  const { hub, out, pull } = await setup(t, files);
  const r = await pull("hf.co/lab/tiny", "--plan");
  assert.equal(r.code, 1);
  assert.match(r.err, /not for Sluice, and nothing was loaded/);
  assert.ok(!existsSync(`${out}.heads`));
  assert.ok(hub.loads().length > 0);
});

test("heads are asked for again when the connection breaks, and a hub without parts is told as such", async (t) => {
  const { hub, out, pull } = await setup(t);
  let broken = 0;
  hub.fault = (req) => (req.method === "GET" && req.headers.range && broken++ < 2 ? { cut: 1000 } : null);
  const r = await pull("hf.co/lab/tiny:Q4_K_M", "--plan");
  assert.equal(r.code, 0, r.err);
  assert.ok(broken > 2);
  hub.fault = (req) => (req.method === "GET" && req.headers.range ? { plain: true, data: Buffer.concat([gguf, gguf]) } : null);
  const other = await pull("hf.co/lab/tiny:Q4_K_M", "--plan");
  assert.notEqual(other.code, 0);
  assert.ok(!existsSync(`${out}.heads`));
});
