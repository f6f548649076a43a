// Texts through /v1/embeddings, beside sentence-transformers on the same model and as many threads: node tests/bench/embeddings.mjs --model DIR
// [--texts 100000] [--words 24] [--batch 256] [--clients 4] [--threads N] [--peer PYTHON] [--chats 2]. By hand; environment as in tests/api/harness.mjs.
// --peer is a Python that has sentence-transformers: it embeds the first --peer-texts (2,000) of the same texts, and vectors are compared.
// --chats keeps so many answers of the demo model running and says how their time per token changes while texts are embedded.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const N = Number(option('texts', 100000)), WORDS = Number(option('words', 24)), BATCH = Number(option('batch', 256)), CLIENTS = Number(option('clients', 4)), CHATS = Number(option('chats', 0));
const model = path.resolve(option('model')), threads = option('threads', String(os.cpus().length)), peer = option('peer'), peerTexts = Math.min(N, Number(option('peer-texts', 2000)));
const VOCABULARY = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning people living city water question answer number science music language history'.split(' ');

// Lengths between half and one and a half of WORDS; the same texts each time.
let seed = 1;
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
const texts = Array.from({ length: N }, () => Array.from({ length: Math.round(WORDS * (0.5 + random())) }, () => VOCABULARY[Math.floor(random() * VOCABULARY.length)]).join(' '));

const server = await start({ args: ['--embedding-model', model, '--embedding-threads', threads] });
leaveCleanly(() => server.stop());
const id = path.basename(model);
while ((await server.json('GET', `/v1/models/${id}`)).body.sluice?.state !== 'ready') await sleep(100);

async function embed(input) {
  const r = await server.json('POST', '/v1/embeddings', { input, encoding_format: 'base64' });
  if (r.status !== 200) throw new Error(r.text);
  return r.body;
}

/** Milliseconds per token of an answer, by the engine. */
async function pace() {
  const r = await server.chat({ messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 200, ignore_eos: true });
  return 1000 / r.body.timings.decode_tokens_per_s;
}
const paces = async () => { const all = await Promise.all(Array.from({ length: CHATS }, pace)); return all.reduce((sum, p) => sum + p, 0) / CHATS; };

const quiet = CHATS ? await paces() : 0;
let next = 0, tokens = 0, busy = 0;
const first = [];
const began = performance.now();
const chatting = CHATS ? (async () => { const seen = []; while (next < N) seen.push(await paces()); busy = seen.reduce((sum, p) => sum + p, 0) / seen.length; })() : null;
await Promise.all(Array.from({ length: CLIENTS }, async () => {
  while (next < N) {
    const at = next;
    next += BATCH;
    const { data, usage } = await embed(texts.slice(at, at + BATCH));
    tokens += usage.prompt_tokens;
    if (at < peerTexts) data.forEach((d, i) => { first[at + i] = Buffer.from(d.embedding, 'base64'); });
  }
}));
const seconds = (performance.now() - began) / 1000;
await chatting;
/** Processor seconds of the engine so far: what other work on the machine does not change. */
const used = readFileSync(`/proc/${server.pid('engine-embed')}/stat`, 'utf8').split(') ')[1].split(' ');
const cpu = (Number(used[11]) + Number(used[12])) / 100;
console.log(JSON.stringify({ texts: N, tokens, threads: Number(threads), seconds: +seconds.toFixed(1), texts_per_s: Math.round(N / seconds), tokens_per_s: Math.round(tokens / seconds), engine_cpu_s: +cpu.toFixed(1), texts_per_cpu_s: Math.round(N / cpu),
  ...(CHATS ? { chats: CHATS, ms_per_token_alone: +quiet.toFixed(2), ms_per_token_beside: +busy.toFixed(2) } : {}) }));

if (peer) {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'embeddings-'));
  writeFileSync(path.join(dir, 'texts.json'), JSON.stringify(texts.slice(0, peerTexts)));
  const program = `
import json, sys, time, torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(${threads})
texts = json.load(open(sys.argv[1]))
m = SentenceTransformer(${JSON.stringify(model)}, device="cpu")
m.encode(texts[:64])
began, used = time.time(), time.process_time()
v = m.encode(texts, batch_size=64, normalize_embeddings=True)
print(json.dumps({"texts_per_s": round(len(texts) / (time.time() - began)), "texts_per_cpu_s": round(len(texts) / (time.process_time() - used))}))
v.astype("<f4").tofile(sys.argv[2])`;
  const r = spawnSync(peer, ['-c', program, path.join(dir, 'texts.json'), path.join(dir, 'vectors')], { encoding: 'utf8', env: { ...process.env, OPENBLAS_CORETYPE: undefined } });
  if (r.status !== 0) throw new Error(r.stderr);
  const theirs = readFileSync(path.join(dir, 'vectors')), bytes = theirs.length / peerTexts;
  const floats = (b) => new Float32Array(b.buffer.slice(b.byteOffset, b.byteOffset + bytes));
  let least = 1;
  for (let i = 0; i < peerTexts; i++) least = Math.min(least, floats(first[i]).reduce((sum, v, k, a) => sum + v * floats(theirs.subarray(i * bytes, (i + 1) * bytes))[k], 0));
  console.log(JSON.stringify({ peer: 'sentence-transformers', ...JSON.parse(r.stdout), least_cosine: least }));
}
process.exit(0);
