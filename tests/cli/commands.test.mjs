// The operator's other commands, against the goldens of tests/data and the demo model.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { sha256 } from "./hub.mjs";
import { demo, folder, lines, sluice, top, unpacked } from "./sluice.mjs";

const data = join(top, "tests/data");
const read = (...path) => readFileSync(join(data, ...path), "utf8");
const cpu = ["--backend", "cpu"];
const jsonLines = (cases) => cases.map((c) => JSON.stringify(c)).join("\n") + "\n";
async function ok(args, options) {
  const r = await sluice(args, options);
  assert.equal(r.code, 0, `${args.join(" ")}: ${r.err}`);
  return r.out;
}

test("tokenize and detokenize agree with the golden ids", async () => {
  const cases = JSON.parse(read("demo-golden/tokenizer_cases.json"));
  const got = lines(await ok(["tokenize", "--model", demo, "--jsonl"], { input: jsonLines(cases.map((c) => ({ text: c.text, special: true }))) }));
  cases.forEach((c, i) => assert.deepEqual(got[i].ids, c.ids, c.text));
  const back = lines(await ok(["detokenize", "--model", demo, "--jsonl"], { input: jsonLines(cases.map((c) => ({ ids: c.ids }))) }));
  cases.forEach((c, i) => assert.equal(back[i].text, c.text.normalize("NFC"))); // the tokenizer composes
  assert.deepEqual(JSON.parse(await ok(["tokenize", "--model", demo, "--json"], { input: cases[0].text })), { ids: cases[0].ids });
  assert.deepEqual(JSON.parse(await ok(["detokenize", "--model", demo, "--json"], { input: cases[0].ids.join(" ") })), { text: cases[0].text.normalize("NFC") });
});

test("template renders the published templates' cases byte for byte", async () => {
  for (const name of ["qwen3", "gpt-oss", "ling-flash-2.0"]) {
    const text = unpacked(`templates/${name}.cases.jsonl`), cases = lines(text); // text as it is: numbers keep their literals
    const got = lines(await ok(["template", "--template", join(data, `templates/${name}.jinja`), "--jsonl"], { input: text }));
    assert.equal(got.length, cases.length);
    cases.forEach((c, i) => (c.rendered === undefined ? assert.ok(got[i].error, c.id) : assert.equal(got[i].rendered, c.rendered, c.id)));
  }
});

test("parse gives the cases' content, reasoning and calls", async () => {
  const cases = lines(unpacked("parsing/cases.jsonl"));
  const got = lines(await ok(["parse", "--jsonl"], { input: jsonLines(cases) }));
  assert.equal(got.length, cases.length);
  cases.forEach((c, i) => {
    assert.equal(got[i].content ?? "", c.expect.content ?? "", c.id);
    assert.equal(got[i].reasoning_content ?? "", c.expect.reasoning_content ?? "", c.id);
    assert.equal(got[i].tool_calls?.length ?? 0, c.expect.tool_calls?.length ?? 0, c.id);
  });
});

test("synth says what it wrote", async (t) => {
  const out = join(folder(t), "model");
  const said = JSON.parse(await ok(["synth", "--out", out, "--layers", "1", "--hidden", "64", "--experts", "4", "--top-k", "2", "--inter", "32", "--heads", "2", "--kv-heads", "1", "--head-dim", "32", "--vocab", "512", "--json"]));
  assert.equal(said.path, out);
  const info = JSON.parse(await ok(["info", out, "--json", ...cpu]));
  assert.deepEqual([said.tensors, said.bytes > 0.9 * info.file_bytes, said.tokenizer], [info.tensors, true, false]);
});

test("info tells the demo model's facts", async () => {
  const i = JSON.parse(await ok(["info", demo, "--json", ...cpu]));
  assert.equal(i.family, "qwen3_moe");
  assert.equal(i.layers, 8);
  assert.equal(i.vocabulary, 8192);
  assert.equal(i.tokenizer.tokens, 8192);
  assert.ok(i.active_parameters < i.parameters);
  const parts = Object.values(i.parts).reduce((sum, p) => sum + p.bytes, 0);
  assert.equal(parts, i.weight_bytes);
  assert.match(await ok(["info", demo, ...cpu]), /qwen3_moe/);
  assert.equal(i.plan.fast_prefill, true);
});

test("generate follows a grammar and a schema, whatever is drawn", async (t) => {
  const dir = folder(t);
  const gbnf = join(dir, "g.gbnf"), schema = join(dir, "s.json");
  writeFileSync(gbnf, 'root ::= "- " [a-z]{3,9} "\\n"');
  writeFileSync(schema, JSON.stringify({ type: "object", properties: { n: { type: "integer", minimum: 3, maximum: 20 } }, required: ["n"] }));
  const run = (...args) => ok(["generate", "--model", demo, "--ids", "1,2,3", "--temperature", "1.5", "--json", ...args, ...cpu]);
  for (const seed of ["1", "2", "3"]) {
    assert.match(JSON.parse(await run("--grammar", gbnf, "--seed", seed)).text, /^- [a-z]{3,9}\n$/);
    const { n } = JSON.parse(JSON.parse(await run("--json-schema", schema, "--seed", seed)).text);
    assert.ok(n >= 3 && n <= 20);
  }
  writeFileSync(gbnf, "root ::= x");
  await assert.rejects(run("--grammar", gbnf));
});

test("bench --grammar measures without weights", async () => {
  const r = JSON.parse(await ok(["bench", "--grammar", "--model", join(demo, "tokenizer.json"), "--json"]));
  assert.ok(r.vocabulary > 1000 && r.grammars.length >= 4);
  for (const g of r.grammars) assert.ok(g.warm.tokens > 0 && g.warm.median_us > 0 && g.warm.median_us <= g.warm.max_us);
});

test("generate answers as the reference does", async () => {
  for (const c of JSON.parse(read("demo-golden/greedy.json")).slice(0, 3)) {
    const r = JSON.parse(await ok(["generate", "--model", demo, "--ids", c.input_ids.join(","), "--max-tokens", String(c.greedy_ids.length), "--exact", "--json", ...cpu]));
    assert.deepEqual(r.ids, c.greedy_ids, c.prompt);
    assert.equal(r.prompt_tokens, c.input_ids.length);
    assert.equal(r.text, c.greedy_text);
  }
});

test("logits are those of the greedy answer, in chunks or whole", async (t) => {
  const dir = folder(t), [c] = JSON.parse(read("demo-golden/greedy.json"));
  writeFileSync(join(dir, "ids.json"), JSON.stringify(c.input_ids));
  const rows = [];
  for (const chunk of ["0", "3"]) {
    const out = join(dir, `logits-${chunk}.safetensors`);
    await ok(["logits", "--model", demo, "--ids-file", join(dir, "ids.json"), "--out", out, "--exact", "--chunk", chunk, ...cpu]);
    const file = readFileSync(out), head = Number(file.readBigUInt64LE());
    const table = JSON.parse(file.subarray(8, 8 + head).toString());
    assert.deepEqual(table.logits.shape, [1, 8192]);
    const [from, to] = table.logits.data_offsets;
    const bytes = file.subarray(8 + head + from, 8 + head + to);
    rows.push(Array.from({ length: 8192 }, (_, i) => bytes.readFloatLE(i * 4)));
  }
  assert.equal(rows[0].indexOf(rows[0].reduce((a, b) => Math.max(a, b))), c.greedy_ids[0]);
  assert.deepEqual(rows[0], rows[1]);
});

test("perplexity is finite, the same in any chunks, and lower for words than for noise", async (t) => {
  const dir = folder(t), cases = JSON.parse(read("demo-golden/greedy.json"));
  const words = cases.slice(0, 3).flatMap((c) => [...c.input_ids, ...c.greedy_ids]);
  writeFileSync(join(dir, "words.json"), JSON.stringify(words));
  writeFileSync(join(dir, "noise.json"), JSON.stringify(words.map((_, i) => (i * 2654435761) % 8000)));
  const measure = async (name, ...more) => JSON.parse(await ok(["perplexity", "--model", demo, "--ids-file", join(dir, name), "--json", "--exact", ...cpu, ...more]));
  const whole = await measure("words.json"), cut = await measure("words.json", "--chunk", "7"), noise = await measure("noise.json");
  assert.ok(whole.perplexity > 1 && whole.perplexity < noise.perplexity, `${whole.perplexity} ${noise.perplexity}`);
  assert.equal(cut.perplexity, whole.perplexity);
});

test("synth makes a model that loads and runs; the same seed makes the same", async (t) => {
  const dir = folder(t);
  const make = (name, seed) => ok(["synth", "--out", join(dir, name), "--shape", "demo", "--format", "q4", "--layers", "2", "--seed", seed]);
  await make("a", "5"); await make("b", "5"); await make("c", "6");
  const facts = async (name) => JSON.parse(await ok(["info", join(dir, name), "--json", ...cpu]));
  const a = await facts("a");
  assert.equal(a.layers, 2);
  assert.ok(a.parameters > 0);
  const r = JSON.parse(await ok(["generate", "--model", join(dir, "a"), "--ids", "1,2,3", "--max-tokens", "8", "--ignore-eos", "--json", ...cpu]));
  assert.equal(r.ids.length, 8);
  const weights = (name) => readdirSync(join(dir, name)).filter((f) => f.endsWith(".safetensors")).sort().map((f) => sha256(readFileSync(join(dir, name, f))));
  assert.ok(weights("a").length > 0);
  assert.deepEqual(weights("a"), weights("b"));
  assert.notDeepEqual(weights("a"), weights("c"));
});

test("synth makes GGUF files of every family that load and run", async (t) => {
  const dir = folder(t), small = ["--layers", "4", "--hidden", "512", "--vocab", "500", "--experts", "16", "--inter", "256", "--seed", "3"];
  const shapes = [["demo", "qwen3_moe"], ["qwen3.6-35b-a3b", "qwen3_5_moe"], ["ling-mini-2.0", "bailing_moe"], ["gpt-oss-20b", "gpt_oss"]];
  for (const [i, [shape, family]] of shapes.entries()) {
    const out = join(dir, shape), format = ["gguf-q4_k_m", "gguf-iq4_xs", "gguf-q3_k", "gguf-mxfp4"][i];
    await ok(["synth", "--out", out, "--shape", shape, "--format", format, ...small]);
    assert.deepEqual(readdirSync(out), ["model.gguf"]);
    const facts = JSON.parse(await ok(["info", join(out, "model.gguf"), "--json", ...cpu]));
    assert.equal(facts.family, family);
    assert.equal(facts.unused_tensors, 0);
    const types = Object.keys(facts.parts.experts.formats);
    assert.ok(types.includes(format === "gguf-q4_k_m" ? "q4_k" : format.slice(5)), `${format}: ${types}`);
    const r = JSON.parse(await ok(["generate", "--model", join(out, "model.gguf"), "--ids", "1,2,3", "--max-tokens", "4", "--ignore-eos", "--json", ...cpu]));
    assert.equal(r.ids.length, 4);
  }
});

test("bench --json has a row for each measure, with plausible figures", async () => {
  const r = JSON.parse(await ok(["bench", "--model", demo, "--prompts", "16", "--batches", "1", "--tokens", "4", "--repeats", "1", "--json", ...cpu]));
  const numbers = [];
  JSON.stringify(r, (k, v) => (/per_s/.test(k) && typeof v === "number" ? (numbers.push(v), v) : v));
  assert.ok(numbers.length >= 2, JSON.stringify(r));
  assert.ok(numbers.every((n) => n > 0 && Number.isFinite(n)));
});

test("doctor --json lists checks with a verdict", async () => {
  const r = await sluice(["doctor", "--json"]);
  assert.ok(r.code === 0 || r.code === 1, r.err);
  const { checks } = JSON.parse(r.out);
  assert.ok(checks.length > 3);
  assert.ok(checks.every((c) => c.check && ["ok", "warning", "error"].includes(c.verdict)), JSON.stringify(checks));
});

const COMMANDS = ["up", "doctor", "user", "key", "export", "backup", "restore", "cache", "tokenize", "detokenize", "template", "parse", "pull", "pack", "info", "generate", "logits", "perplexity", "bench", "synth"];
test("help exits with 0, wrong use with 2", async () => {
  const help = await ok(["help"]);
  for (const c of COMMANDS) {
    assert.match(help, new RegExp(`^ {2}${c} `, "m"));
    assert.match(await ok([c, "--help"]), /usage/i);
    assert.equal((await sluice([c, "--no-such-option"])).code, 2, c);
  }
  assert.match(await ok(["--version"]), /^sluice \d/);
  assert.equal((await sluice(["nosuch"])).code, 2);
  assert.equal((await sluice([])).code, 2);
});

test("an unknown model is said clearly, with 1", async (t) => {
  const none = join(folder(t), "none"), ids = join(folder(t), "ids.json");
  writeFileSync(ids, "[1,2,3]");
  for (const args of [["info", none], ["tokenize", "--model", none], ["detokenize", "--model", none], ["template", "--model", none],
    ["generate", "--model", none, "--ids", "1"], ["logits", "--model", none, "--ids-file", ids, "--out", `${ids}.out`],
    ["perplexity", "--model", none, "--ids-file", ids], ["bench", "--model", none]]) {
    const r = await sluice(args, { input: "" });
    assert.equal(r.code, 1, args.join(" "));
    assert.match(r.err, new RegExp(`^sluice ${args[0]}: .*(no such|not found|nothing|none)`, "im"), args.join(" "));
  }
});
