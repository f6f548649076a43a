// The first token after kill -9 of everything and a new start, by stages: node tests/bench/restart.mjs [--tokens 8192,32768] [--rounds N]
// [--threads N] [--model DIR] [--drop-caches] [--realtime] [--exact]. By hand; environment as in tests/api/harness.mjs. Without --model it is the demo model with
// a raised context, whose answers beyond 4,096 tokens are nonsense and take the time that real ones take. A conversation of so many
// tokens is asked one thing more, through nginx and over a stream, before and after. --drop-caches empties the kernel's page cache
// before each start, as a reboot does; --realtime gives what is measured the processor over all others, on a machine that has other
// work (both need root). `total` is from the request's first byte to the first token's arrival; `load` what
// the engine took for the records; `queue` and `prefill` the engine's other stages; `rest` is nginx, parsing, template, tokenizing, look-up
// and the way back. --exact also asks one question before and after a restart, and compares tokens and log probabilities bit for bit. The bound is the disk's own: the same records' files read by dd, 4 MiB at a time past the page cache, before the start and after the answer;
// `share` is of both together, since a disk that others use changes by the second. --least SHARE: status 1 when the median share of a length is below it.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { demo, lives, sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';
import { family } from '../soak/processes.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const LENGTHS = option('tokens', '8192,32768').split(',').map(Number), ROUNDS = Number(option('rounds', 3)), THREADS = option('threads', '2'), LEAST = Number(option('least', 0));
const WORDS = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning'.split(' ');

/** The demo model, able to take more tokens than it was trained with. */
function raised(context) {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'restart-model-'));
  cpSync(demo, dir, { recursive: true });
  const file = path.join(dir, 'config.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), max_position_embeddings: context }));
  return dir;
}

const context = Math.ceil(Math.max(...LENGTHS) * 1.1) + 512, made = process.argv.includes('--model') ? null : raised(context);
const server = await start({ model: made ?? option('model'), args: ['--threads', THREADS, '--ctx', String(context), '--slots', '1'] });
leaveCleanly(async () => {
  await server.stop();
  if (made) rmSync(made, { recursive: true, force: true });
});

const tokens = async (text) => (await server.json('POST', '/tokenize', { content: text })).body.tokens.length;

/** About so many tokens, other ones each time. */
async function text(n) {
  const say = (words) => Array.from({ length: words }, () => WORDS[Math.floor(Math.random() * WORDS.length)]).join(' ');
  const sample = say(1000);
  return say(Math.floor(n / await tokens(sample) * 1000));
}

const [visible] = (await server.json('POST', '/tokenize', { content: ' river', add_special: false })).body.tokens;

/** Tokens and log probabilities of an answer to what was said. */
async function answer(messages) {
  const r = await server.chat({ messages, max_tokens: 16, temperature: 0, logprobs: true, top_logprobs: 5 });
  if (r.status !== 200) throw new Error(r.text);
  return { said: JSON.stringify(r.body.choices[0]), from_disk: r.body.timings.cache.from.disk };
}

/** An answer of few tokens, each of which can be seen, and when the first came. */
async function ask(messages) {
  let first;
  const began = performance.now();
  const out = await server.stream({ messages, max_tokens: 4, temperature: 0, logit_bias: { [visible]: 100 }, stream_options: { include_usage: true } }, { onChunk: (c) => {
    const delta = c.choices?.[0]?.delta;
    if (first === undefined && (delta?.content || delta?.reasoning_content)) first = performance.now() - began;
  } });
  const last = out.chunks.at(-1), said = out.chunks.map((c) => c.choices?.[0]?.delta?.content ?? '').join('');
  if (out.error || first === undefined) throw new Error(JSON.stringify(out.error ?? out.raw.slice(-2000)));
  return { first, said, usage: last.usage, timings: last.timings };
}

/** All that was said, so many tokens, is on the disk and listed. */
async function settled(n) {
  for (let same = 0, last = -1; same < 5; await sleep(200)) {
    const [rows, records] = [await server.metric('prompt_cache_rows'), await server.metric('prompt_cache_records')];
    same = rows === records && rows === last && rows >= Math.floor(n / 32) ? same + 1 : 0;
    last = rows;
  }
}

/** Ourselves, and so what we start, before all others; or as usual. */
function realtime(on) {
  if (process.argv.includes('--realtime')) execFileSync('chrt', ['-a', ...(on ? ['-r', '-p', '5'] : ['-o', '-p', '0']), String(process.pid)]);
}

/** -> what the start took, and what the disk gave before it. */
async function again() {
  const all = [server.child.pid, ...family(server)];
  for (const pid of all) { try { process.kill(pid, 'SIGKILL'); } catch { /* it went with another */ } }
  await server.exited;
  while (all.some(lives)) await sleep(5);
  execFileSync('sync');
  if (process.argv.includes('--drop-caches')) writeFileSync('/proc/sys/vm/drop_caches', '3');
  realtime(true);
  const rate = diskRate(), began = performance.now();
  await server.again();
  return { start_ms: performance.now() - began, rate };
}

const folder = () => path.join(server.dir, 'state/cache/prompt-cache');
/** Bytes per second that the disk gives of the same files. */
function diskRate() {
  const files = readdirSync(folder()).filter((f) => f.endsWith('.kv')).map((f) => path.join(folder(), f));
  const bytes = files.reduce((n, f) => n + statSync(f).blocks * 512, 0), began = performance.now();
  for (const f of files) execFileSync('dd', [`if=${f}`, 'of=/dev/null', 'bs=4M', 'iflag=direct', 'status=none']);
  return bytes / (performance.now() - began) * 1000;
}

const round = (n) => Math.round(n * 10) / 10, hundredths = (n) => Math.round(n * 100) / 100;
const rows = [];
for (const n of LENGTHS) {
  const said = [{ role: 'user', content: await text(n) }], cold = await ask(said);
  said.push({ role: 'assistant', content: cold.said });
  await settled(cold.usage.prompt_tokens);
  for (let i = 0; i < ROUNDS; i++) {
    const { start_ms, rate: first } = await again(), warm = await ask([...said, { role: 'user', content: `And then, ${i}?` }]), t = warm.timings;
    const second = diskRate(), rate = 2 / (1 / first + 1 / second);
    realtime(false);
    const load = t.cache.ms, bytes = t.cache.read_bytes;
    rows.push({ tokens: warm.usage.prompt_tokens, from_disk: t.cache.from.disk, cold: round(cold.first), start: round(start_ms), total: round(warm.first), load: round(load),
      queue: round(t.queue_ms - load), prefill: round(t.prefill_ms), rest: round(warm.first - t.queue_ms - t.prefill_ms), MB: round(bytes / 1e6),
      'GB/s': hundredths(bytes / load / 1e6), 'disk GB/s': [first, second].map((r) => hundredths(r / 1e9)).join(' '), share: hundredths(bytes / load * 1e3 / rate) });
    console.log(JSON.stringify(rows.at(-1)));
  }
  const shares = rows.slice(-ROUNDS).map((r) => r.share).sort((a, b) => a - b);
  if (shares[ROUNDS >> 1] < LEAST) process.exitCode = 1;
  if (process.argv.includes('--exact')) {
    const messages = [...said, { role: 'user', content: 'And in the end?' }], before = await answer(messages);
    await settled(cold.usage.prompt_tokens);
    await again();
    realtime(false);
    const after = await answer(messages), same = before.said === after.said;
    console.log(JSON.stringify({ tokens: n, exact: same, from_disk: after.from_disk }));
    if (!same || !after.from_disk) process.exitCode = 1;
  }
  await server.json('DELETE', '/api/prompt-cache');
}
console.table(rows);
await server.stop();
if (made) rmSync(made, { recursive: true, force: true });
process.exit();
