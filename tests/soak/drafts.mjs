// By hand: greedy answers with drafts are, token for token, those without: node tests/soak/drafts.mjs [--answers 10000] [--clients 4]
// [--kills 6] [--model DIR] [--draft auto|off|PATH of a DFlash drafter]. Environment as in tests/api/harness.mjs. Each question is asked plainly once and then with
// each drafter, while other clients ask theirs, so that steps have several answers; some requests are cancelled in between, memory for KV is so
// small that jobs are preempted, and the engine is killed in the middle of drafts and goes on with what the prompt cache has on the disk.
// Compares texts, token ids' log probabilities and finish reasons. Prints JSON; status 1 when any differed or failed.
import { sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from './leave.mjs';

const text = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const option = (name, otherwise) => Number(text(name, otherwise));
const [ANSWERS, CLIENTS, KILLS] = [option('answers', 10000), option('clients', 4), option('kills', 6)];
const DRAFT = text('draft', 'auto'), ways = { off: ['ngram', 'mtp', 'auto'], auto: ['ngram', 'draft', 'auto'] }[DRAFT] ?? ['dflash', 'auto'];
const words = 'river stone lamp winter garden number letter bridge story apple engine window paper quiet morning'.split(' ');
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const server = await start({ model: text('model'), args: ['--threads', '2', '--slots', '4', '--ctx', '640', '--kv-memory', '1700000', '--draft-model', DRAFT] });
leaveCleanly(() => server.stop());

const count = { blocks: await server.metric('kv_cache_blocks'), preempted: 0, questions: 0, answers: 0, cancelled: 0, kills: 0, differed: 0, failed: 0, broken: 0, drafted: 0, accepted: 0, from_disk: 0, by: {} };
let away = 0;

/** Texts that repeat, lists, code and prose: where drafts come true, and where they do not. */
function question() {
  const w = pick(words), many = Array.from({ length: 4 + Math.floor(Math.random() * 40) }, () => pick(words)).join(' ');
  return pick([`The ${w} and the ${w}. The ${w} and the ${w}. The`, `def ${w}(x):\n    return x + 1\n\ndef ${w}2(x):\n    return`, `Once upon a time there was a ${w} in the ${pick(words)}.`,
    `1. ${w}\n2. ${w}\n3. ${w}\n4.`, many, `${many}\n\nAgain: ${many.slice(0, 20)}`,
    `The quick brown ${w} jumps over the lazy dog. `.repeat(6), `${many}. ${many}. ${many.slice(0, 30)}`]);
}

async function ask(body) {
  for (let tries = 0; ;) {
    let r;
    try { r = await server.json('POST', '/v1/completions', body); } catch (e) { r = { status: 0, text: e.message }; }
    if (r.status === 200) {
      count.answers++;
      const x = r.body.timings.speculation;
      count.drafted += x.drafted;
      count.accepted += x.accepted;
      count.from_disk += r.body.timings.cache.from.disk;
      if (x.drafted) count.by[body.speculate] = (count.by[body.speculate] ?? 0) + 1;
      return JSON.stringify(r.body.choices);
    }
    if (r.status === 0 && tries++ < 3) count.broken++; // a connection that was idle for too long: asked again
    else if (Date.now() > away) {
      count.failed++;
      console.log(`failed: ${r.status} ${r.text.slice(0, 300)}`);
      return null;
    }
    await sleep(200);
  }
}

async function cancel(body) {
  const control = new AbortController();
  setTimeout(() => control.abort(), 5 + Math.random() * 60);
  count.cancelled++;
  await fetch(`${server.url}/v1/completions`, { method: 'POST', signal: control.signal, body: JSON.stringify({ ...body, stream: true, max_tokens: 400 }),
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' } }).then((r) => r.text(), () => '').catch(() => '');
}

async function client() {
  while (count.answers < ANSWERS) {
    const body = { prompt: question(), max_tokens: Math.random() < 0.2 ? 240 : 12 + Math.floor(Math.random() * 36), temperature: 0, logprobs: 2, ...(Math.random() < 0.2 ? { stop: ['.'] } : {}) };
    count.questions++;
    const plain = await ask({ ...body, speculate: 'off' });
    for (const speculate of ways) {
      if (Math.random() < 0.1) await cancel({ ...body, speculate });
      const drafted = await ask({ ...body, speculate });
      if (plain === null || drafted === null || drafted === plain) continue;
      count.differed++;
      console.log(`differed: ${speculate} ${JSON.stringify(body)}\n${plain}\n${drafted}`);
    }
  }
}

async function kill() {
  for (let i = 1; i <= KILLS; i++) {
    while (count.answers < ANSWERS * i / (KILLS + 1)) await sleep(50);
    for (let n = count.answers; count.answers < n + 2;) await sleep(5); // in the middle of something
    count.kills++;
    count.preempted += await server.metric('preemptions_total'); // it counts anew
    away = Date.now() + 60000;
    process.kill(server.pid('engine'), 'SIGKILL');
  }
}

const began = Date.now();
await Promise.all([kill(), ...Array.from({ length: CLIENTS }, client)]);
count.preempted += await server.metric('preemptions_total');
console.log(JSON.stringify({ ...count, minutes: Math.round((Date.now() - began) / 6000) / 10 }, null, 1));
await server.stop();
process.exit(count.differed || count.failed ? 1 : 0);
