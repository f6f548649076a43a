// Writes small GGUF v3 files: metadata alone, no tensors. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
const TYPE = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9, u64: 10 };

const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
const string = (s) => { const b = Buffer.from(s); return Buffer.concat([u64(b.length), b]); };

function scalar(type, v) {
  if (type === "string") return string(v);
  if (type === "bool") return Buffer.from([v ? 1 : 0]);
  if (type === "u64") return u64(v);
  const b = Buffer.alloc(4);
  if (type === "f32") b.writeFloatLE(v); else if (type === "i32") b.writeInt32LE(v); else b.writeUInt32LE(v);
  return b;
}

// values: {key: ["string", "x"]} or {key: ["array", "i32", [..]]}; a third member of a list may lie: {n: count}
export function gguf(values, { version = 3, count } = {}) {
  const parts = [Buffer.from("GGUF"), u32(version), u64(0), u64(count ?? Object.keys(values).length)];
  for (const [key, [type, a, b, lie]] of Object.entries(values)) {
    parts.push(string(key), u32(TYPE[type]));
    if (type === "array") parts.push(u32(TYPE[a]), u64(lie?.n ?? b.length), Buffer.concat(b.map((v) => scalar(a, v))));
    else parts.push(scalar(type, a));
  }
  const whole = Buffer.concat(parts);
  return Buffer.concat([whole, Buffer.alloc((32 - (whole.length % 32)) % 32)]);
}

// The keys that converters write for a tokenizer.json with byte-level BPE.
export function tokenizerKeys(json, pre, { eos, template, context = 4096 } = {}) {
  const { vocab, merges } = json.model;
  const ids = [...Object.values(vocab), ...json.added_tokens.map((t) => t.id)];
  const size = ids.reduce((a, b) => Math.max(a, b), 0) + 1; // too many for Math.max(...)
  const tokens = Array.from({ length: size }, (_, i) => `[PAD${i}]`), types = Array(size).fill(5);
  for (const [text, id] of Object.entries(vocab)) { tokens[id] = text; types[id] = 1; }
  for (const t of json.added_tokens) { tokens[t.id] = t.content; types[t.id] = t.special ? 3 : 4; }
  const keys = {
    "general.architecture": ["string", "qwen3moe"],
    "qwen3moe.context_length": ["u32", context],
    "tokenizer.ggml.model": ["string", "gpt2"],
    "tokenizer.ggml.pre": ["string", pre],
    "tokenizer.ggml.tokens": ["array", "string", tokens],
    "tokenizer.ggml.token_type": ["array", "i32", types],
    "tokenizer.ggml.merges": ["array", "string", merges.map((m) => (Array.isArray(m) ? m.join(" ") : m))],
  };
  if (eos !== undefined) keys["tokenizer.ggml.eos_token_id"] = ["u32", eos];
  if (template) keys["tokenizer.chat_template"] = ["string", template];
  return keys;
}
