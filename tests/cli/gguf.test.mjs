// A tokenizer and a chat template read from GGUF metadata say what the Hugging Face files say.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { gguf, tokenizerKeys } from "./gguf.mjs";
import { demo, folder, lines, sluice, top, unpacked } from "./sluice.mjs";

const data = join(top, "tests/data");
const tokenizer = (name) => JSON.parse(unpacked(`tokenizers/${name}/tokenizer.json`));
const demoTokenizer = () => JSON.parse(readFileSync(join(demo, "tokenizer.json"), "utf8"));
function place(t, bytes, name = "model.gguf") {
  const path = join(folder(t), name);
  writeFileSync(path, bytes);
  return path;
}
async function jsonl(command, model, cases) {
  const r = await sluice([command, "--model", model, "--jsonl"], { input: cases.map((c) => JSON.stringify(c)).join("\n") + "\n" });
  assert.equal(r.code, 0, r.err);
  return lines(r.out);
}

for (const [name, pre] of [["qwen3", "qwen2"], ["gpt_oss", "gpt-4o"]]) {
  test(`${name}: every case has its ids, in both modes, and reads back`, async (t) => {
    const model = place(t, gguf(tokenizerKeys(tokenizer(name), pre)));
    const cases = lines(unpacked(`tokenizers/${name}/cases.jsonl`));
    const pick = (c) => (c.bytes_hex !== undefined ? { bytes_hex: c.bytes_hex } : { text: c.text });
    const special = await jsonl("tokenize", model, cases.map((c) => ({ ...pick(c), special: true })));
    const plain = await jsonl("tokenize", model, cases.map((c) => ({ ...pick(c), special: false })));
    assert.ok(cases.length > 20);
    cases.forEach((c, i) => {
      assert.deepEqual(special[i].ids, c.ids, c.id);
      assert.deepEqual(plain[i].ids, c.ids_plain ?? c.ids, `${c.id}, plain`);
    });
    const streams = lines(unpacked(`tokenizers/${name}/streaming.jsonl`));
    const read = await jsonl("detokenize", model, streams.map((c) => ({ ids: c.ids })));
    streams.forEach((c, i) => assert.deepEqual(read[i].emit, c.emit, c.id));
  });
}

test("the demo model's tokenizer and template give the same from GGUF, split files too", async (t) => {
  const template = readFileSync(join(demo, "chat_template.jinja"), "utf8");
  const bytes = gguf(tokenizerKeys(demoTokenizer(), "qwen2", { eos: 8185, template }));
  const cases = JSON.parse(readFileSync(join(data, "demo-golden/tokenizer_cases.json"), "utf8"));
  const chat = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], add_generation_prompt: true });
  const wanted = await sluice(["template", "--model", demo, "--json"], { input: chat });
  assert.equal(wanted.code, 0, wanted.err);
  for (const name of ["model.gguf", "model-00001-of-00002.gguf"]) {
    const model = place(t, bytes, name);
    const got = await jsonl("tokenize", model, cases.map((c) => ({ text: c.text, special: true })));
    cases.forEach((c, i) => assert.deepEqual(got[i].ids, c.ids, c.text));
    const r = await sluice(["template", "--model", model, "--json"], { input: chat });
    assert.equal(r.out, wanted.out, r.err);
  }
});

test("hostile metadata is refused with the key that is at fault", async (t) => {
  const keys = () => tokenizerKeys(demoTokenizer(), "qwen2");
  const bad = {
    "no merges": [(k) => delete k["tokenizer.ggml.merges"], /merges/],
    "merges of numbers": [(k) => (k["tokenizer.ggml.merges"] = ["array", "i32", [1, 2]]), /merges/],
    "a merge of one part": [(k) => (k["tokenizer.ggml.merges"][2] = ["ab"]), /merges/],
    "tokens as a string": [(k) => (k["tokenizer.ggml.tokens"] = ["string", "x"]), /tokens/],
    "fewer types than tokens": [(k) => k["tokenizer.ggml.token_type"][2].pop(), /token_type/],
    "an unknown pre-tokenizer": [(k) => (k["tokenizer.ggml.pre"] = ["string", "nobody-knows"]), /nobody-knows/],
    "another kind of tokenizer": [(k) => (k["tokenizer.ggml.model"] = ["string", "llama"]), /llama/],
    "no tokenizer": [(k) => delete k["tokenizer.ggml.model"], /no tokenizer/],
    "a list longer than the file": [(k) => (k["tokenizer.ggml.merges"][3] = { n: 2 ** 40 }), /./],
    "more strings than there are": [(k) => (k["tokenizer.ggml.tokens"][3] = { n: 9000 }), /./],
  };
  for (const [what, [damage, reason]] of Object.entries(bad)) {
    const k = keys();
    damage(k);
    const r = await sluice(["tokenize", "--model", place(t, gguf(k))], { input: "Hello" });
    assert.equal(r.code, 1, what);
    assert.match(r.err, reason, what);
  }
  const whole = gguf(keys());
  for (const part of [3, 20, 100, 5000, whole.length >> 1])
    assert.equal((await sluice(["tokenize", "--model", place(t, whole.subarray(0, part))], { input: "Hello" })).code, 1, `${part} bytes`);
  assert.equal((await sluice(["tokenize", "--model", place(t, gguf(keys(), { count: 2 ** 50 }))], { input: "x" })).code, 1);
});

test("the cached vocabulary depends on the metadata", async (t) => {
  const cache = folder(t), k = tokenizerKeys(demoTokenizer(), "qwen2");
  const ids = async (bytes) => (await sluice(["tokenize", "--model", place(t, bytes), "--cache", cache], { input: "Hello 123456" })).out;
  const first = await ids(gguf(k)), again = await ids(Buffer.concat([gguf(k), Buffer.alloc(4096, 7)]));
  assert.match(first, /^\d+/);
  assert.equal(again, first);
  k["tokenizer.ggml.merges"][2] = k["tokenizer.ggml.merges"][2].slice(0, 10);
  assert.notEqual(await ids(gguf(k)), first);
});
