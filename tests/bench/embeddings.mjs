// Texts through /v1/embeddings, beside sentence-transformers on the same model and as many threads: node tests/bench/embeddings.mjs --model DIR
// [--texts 100000] [--corpus FILE] [--from 0] [--seconds 0] [--turn 2500] [--batch 256] [--clients 4] [--threads N] [--peer PYTHON] [--peer-batch 32]
// [--chats 2]. By hand; environment as in tests/api/harness.mjs.
// --corpus: a JSONL file of chats ({"messages": [{"content"}]}) whose words the texts are cut from; else words of a short list.
// --peer is a Python that has sentence-transformers. The two embed the same texts by turns, --turn at a time, and all vectors are compared.
// --from and --seconds: begins there and ends in time, for a machine that one has in pieces; the last line says where to go on.
// --chats keeps so many answers of the demo model running and says how their time per token changes while texts are embedded.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const number = (name, otherwise) => Number(option(name, otherwise));
const N = number('texts', 100000), FROM = number('from', 0), SECONDS = number('seconds', 0), TURN = number('turn', 2500), BATCH = number('batch', 256), CLIENTS = number('clients', 4), CHATS = number('chats', 0);
const model = path.resolve(option('model')), threads = option('threads', String(os.cpus().length)), peer = option('peer'), corpus = option('corpus');
const began = performance.now();

// The same texts each time. Lengths are log-normal: 13 words in the middle, one in fifty above 55, none above 95.
let seed = 1;
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return (seed + 0.5) / 2147483648; };
const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
const words = corpus ? readFileSync(corpus, 'utf8').split('\n').filter(Boolean).flatMap((l) => JSON.parse(l).messages.flatMap((m) => m.content.split(/\s+/).filter(Boolean)))
  : 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning people living city water question answer number science music language history'.split(' ');
function text() {
  const n = Math.max(1, Math.min(95, Math.round(13 * Math.exp(0.7 * normal()))));
  const at = Math.floor(random() * (words.length - n));
  return corpus ? words.slice(at, at + n).join(' ') : Array.from({ length: n }, () => words[Math.floor(random() * words.length)]).join(' ');
}
const texts = Array.from({ length: N }, text);

const server = await start({ args: ['--embedding-model', model, '--embedding-threads', threads] });
let other;
leaveCleanly(async () => { other?.kill(); await server.stop(); });
const id = path.basename(model);
while ((await server.json('GET', `/v1/models/${id}`)).body.sluice?.state !== 'ready') await sleep(100);

/** Processor seconds so far of a process and all below it: what other work on the machine does not change. */
function used(pid) {
  const all = readdirSync('/proc').filter((p) => /^\d+$/.test(p)).flatMap((p) => {
    try { const f = readFileSync(`/proc/${p}/stat`, 'utf8').split(') ')[1].split(' '); return [{ pid: Number(p), parent: Number(f[1]), ticks: Number(f[11]) + Number(f[12]) }]; } catch { return []; }
  });
  const below = (parent) => all.filter((p) => p.parent === parent).reduce((sum, p) => sum + p.ticks + below(p.pid), 0);
  return (all.find((p) => p.pid === pid).ticks + below(pid)) / 100;
}

async function ours(list) {
  const vectors = [], cpu = used(server.child.pid), from = performance.now();
  let next = 0, tokens = 0;
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    while (next < list.length) {
      const at = next;
      next += BATCH;
      const r = await server.json('POST', '/v1/embeddings', { input: list.slice(at, at + BATCH), encoding_format: 'base64' });
      if (r.status !== 200) throw new Error(r.text);
      tokens += r.body.usage.prompt_tokens;
      r.body.data.forEach((d, i) => { vectors[at + i] = Buffer.from(d.embedding, 'base64'); });
    }
  }));
  return { vectors, tokens, seconds: (performance.now() - from) / 1000, cpu: used(server.child.pid) - cpu };
}

const program = `
import base64, json, sys, time, torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(${threads})
m = SentenceTransformer(${JSON.stringify(model)}, device="cpu")
m.encode(["a river"] * 64)
print("{}", flush=True)
for line in sys.stdin:
    texts = json.loads(line)
    began, used = time.time(), time.process_time()
    v = m.encode(texts, batch_size=${number('peer-batch', 32)}, normalize_embeddings=True, show_progress_bar=False)
    r = {"seconds": time.time() - began, "cpu": time.process_time() - used}
    r["vectors"] = base64.b64encode(v.astype("<f4").tobytes()).decode()
    print(json.dumps(r), flush=True)`;

let answers;
async function theirs(list) {
  other.stdin.write(`${JSON.stringify(list)}\n`);
  const { value, done } = await answers.next();
  if (done) throw new Error('sentence-transformers ended');
  return JSON.parse(value);
}

/** Milliseconds per token of an answer, by the engine. */
async function pace() {
  const r = await server.chat({ messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 200, ignore_eos: true });
  return 1000 / r.body.timings.decode_tokens_per_s;
}
const paces = async () => { const all = await Promise.all(Array.from({ length: CHATS }, pace)); return all.reduce((sum, p) => sum + p, 0) / CHATS; };

if (peer) {
  other = spawn(peer, ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, OPENBLAS_CORETYPE: undefined } });
  answers = createInterface({ input: other.stdout })[Symbol.asyncIterator]();
  await answers.next();
}
await ours(texts.slice(0, 256));
const floats = (b) => { const own = Buffer.from(b); return new Float32Array(own.buffer, own.byteOffset, own.length / 4); };
function cosines(mine, all) { // the least of the turn's, in double precision
  const bytes = mine[0].length;
  return mine.reduce((least, b, i) => {
    const x = floats(b), y = floats(all.subarray(i * bytes, (i + 1) * bytes));
    let dot = 0, xx = 0, yy = 0;
    for (let k = 0; k < x.length; k++) { dot += x[k] * y[k]; xx += x[k] * x[k]; yy += y[k] * y[k]; }
    return Math.min(least, dot / Math.sqrt(xx * yy));
  }, 1);
}

const quiet = CHATS ? await paces() : 0;
const sum = { texts: 0, tokens: 0, seconds: 0, cpu: 0, peerSeconds: 0, peerCpu: 0, least: 1 };
let at = FROM, busy = 0;
const chatting = CHATS ? (async () => { const seen = []; while (at < N) seen.push(await paces()); busy = seen.reduce((s, p) => s + p, 0) / seen.length; })() : null;
for (let turn = 0, longest = 0; at < N && (!SECONDS || (performance.now() - began) / 1000 + longest < SECONDS); turn++) {
  const list = texts.slice(at, at + TURN), from = performance.now();
  const first = turn % 2 && peer ? await theirs(list) : await ours(list);
  const second = !peer ? null : turn % 2 ? await ours(list) : await theirs(list);
  const [mine, its] = turn % 2 && peer ? [second, first] : [first, second];
  sum.texts += list.length;
  sum.tokens += mine.tokens;
  sum.seconds += mine.seconds;
  sum.cpu += mine.cpu;
  if (its) {
    sum.peerSeconds += its.seconds;
    sum.peerCpu += its.cpu;
    sum.least = Math.min(sum.least, cosines(mine.vectors, Buffer.from(its.vectors, 'base64')));
  }
  at += list.length;
  longest = Math.max(longest, (performance.now() - from) / 1000);
}
at = Math.min(at, N);
await chatting;
other?.kill();
await server.stop();
const rate = (n, s) => +(n / s).toFixed(1);
console.log(JSON.stringify({ from: FROM, texts: sum.texts, tokens: sum.tokens, threads: Number(threads), seconds: +sum.seconds.toFixed(1), cpu_s: +sum.cpu.toFixed(1), texts_per_s: rate(sum.texts, sum.seconds), texts_per_cpu_s: rate(sum.texts, sum.cpu),
  ...(CHATS && { chats: CHATS, ms_per_token_alone: +quiet.toFixed(2), ms_per_token_beside: +busy.toFixed(2) }),
  ...(peer && { peer: { seconds: +sum.peerSeconds.toFixed(1), cpu_s: +sum.peerCpu.toFixed(1), texts_per_s: rate(sum.texts, sum.peerSeconds), texts_per_cpu_s: rate(sum.texts, sum.peerCpu) }, least_cosine: sum.least }),
  go_on: at < N ? at : null }));
process.exit(0);
