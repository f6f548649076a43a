// What users notice when one of four upstreams is killed, and when one is drained, under load; and how much of the prompts' prefixes the four
// still find in their caches beside what one server would: node tests/bench/failover.mjs [--clients N] [--seconds S]. By hand; environment as in tests/api/harness.mjs.
// Upstreams are processes of their own (failover_upstream.mjs) and are killed with SIGKILL. Half of the clients stream by the API, half write in conversations of the page.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { joined, sleep, start, top } from '../api/harness.mjs';
import { addUpstream } from '../api/upstream_rig.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return Number(i < 0 ? otherwise : process.argv[i + 1]); };
const CLIENTS = option('clients', 32), SECONDS = option('seconds', 6), CONVERSATIONS = 48, TURNS = 6;

const spawned = new Set();
process.on('exit', () => { for (const c of spawned) c.kill('SIGKILL'); });
async function upstream(port = 0) {
  const child = spawn(process.execPath, [path.join(top, 'tests/bench/failover_upstream.mjs'), String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  spawned.add(child);
  return { child, port: await new Promise((done) => { child.stdout.once('data', (d) => done(Number(String(d)))); }) };
}
const server = await start({ fake: true });
leaveCleanly(async () => { for (const c of spawned) c.kill('SIGKILL'); await server.stop(); });
await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 });
const url = (u) => `http://127.0.0.1:${u.port}/v1`;

// ---- how much of the prompts is found in caches

const system = 'You are the assistant of a small harbour office and answer in few words. '.repeat(20);
async function cachedShare(model) {
  let prompt = 0, cached = 0, next = 0;
  const talk = async () => {
    while (next < CONVERSATIONS) {
      const c = next++, messages = [{ role: 'system', content: system }, { role: 'user', content: `Conversation ${c} of ${model}: ${'tell me of the tides and ships '.repeat(10)}` }];
      for (let turn = 0; turn < TURNS; turn++) {
        const r = await server.chat({ model, messages });
        if (r.status !== 200) throw new Error(r.text);
        prompt += r.body.usage.prompt_tokens;
        cached += r.body.usage.prompt_tokens_details.cached_tokens;
        messages.push({ role: 'assistant', content: r.body.choices[0].message.content }, { role: 'user', content: `And turn ${turn}? ${'more of it please '.repeat(8)}` });
      }
    }
  };
  await Promise.all(Array.from({ length: 16 }, talk));
  return cached / prompt;
}
const alone = await upstream();
await addUpstream(server, 'alone', url(alone), ['one']);
const four = await Promise.all([0, 1, 2, 3].map(() => upstream()));
const ids = [];
for (const [i, u] of four.entries()) ids.push((await addUpstream(server, `four${i}`, url(u), ['four'])).id);
const [one, spread] = [await cachedShare('one'), await cachedShare('four')];
console.log(`cached share of the prompts: one server ${(100 * one).toFixed(1)} %, four ${(100 * spread).toFixed(1)} %: ${(100 * spread / one).toFixed(1)} % of it`);

// ---- load

const WHOLE = Array.from({ length: 12 }, (_, i) => `w${i} `).join('');
const stateOf = (name) => JSON.parse(readFileSync(path.join(server.dir, 'state', 'upstreams.json'), 'utf8')).upstreams.find((u) => u.name === name);
let over, answers, rows;

/** By the API: an error counts as before the first byte when no piece had come. */
async function streamer(n) {
  for (let i = 0; !over; i++) {
    const a = { began: performance.now(), pieces: 0, how: 'api' };
    try {
      const r = await server.stream({ model: 'four', messages: [{ role: 'user', content: `stream ${n} ${i}` }] }, { onChunk: (c) => { if (c.choices?.[0]?.delta?.content) a.pieces++; } });
      a.ok = r.status === 200 && joined(r.chunks.filter((c) => c.choices)).content === WHOLE;
      a.why = a.ok ? '' : (r.raw ?? JSON.stringify(r.error)).slice(-300);
    } catch (e) { a.why = String(e); }
    answers.push(a);
  }
}
/** In a conversation: what is acknowledged must be a row afterwards, and over. */
async function writer(n) {
  const c = (await server.json('POST', '/api/conversations', { settings: { model: 'four' } })).body;
  const known = { id: c.id, questions: [], answers: [] };
  rows.push(known);
  let parent = null;
  for (let i = 0; !over; i++) {
    const a = { began: performance.now(), pieces: 0, how: 'page' };
    const text = await (await server.request('POST', `/api/conversations/${c.id}/messages`, { content: `page ${n} ${i}`, ...(parent && { parent_id: parent }) })).text();
    a.pieces = (text.match(/event: delta/g) ?? []).length;
    a.ok = /event: done/.test(text);
    a.why = a.ok ? '' : text.slice(-300);
    answers.push(a);
    const whole = (await server.json('GET', `/api/conversations/${c.id}`)).body.messages;
    parent = whole.at(-1).id;
    known.questions.push(`page ${n} ${i}`);
  }
}
async function load(during) {
  [over, answers, rows] = [false, [], []];
  const all = Array.from({ length: CLIENTS }, (_, n) => (n % 2 ? writer(n) : streamer(n)));
  await sleep(1500);
  const told = await during();
  await sleep(SECONDS * 1000);
  over = true;
  await Promise.all(all);
  let lost = 0, open = 0, kept = 0;
  for (const known of rows) {
    const messages = (await server.json('GET', `/api/conversations/${known.id}`)).body.messages;
    for (const q of known.questions) if (!messages.some((m) => m.content === q)) lost++;
    const given = messages.filter((m) => m.role === 'assistant');
    kept += given.length;
    if (given.length < known.questions.length) lost += known.questions.length - given.length;
    open += given.filter((m) => m.status === 'running' || (m.status === 'done' && m.content !== WHOLE)).length;
  }
  const bad = answers.filter((a) => !a.ok), early = bad.filter((a) => !a.pieces);
  console.log(`${told}: ${answers.length} answers, ${bad.length} cut in the middle, ${early.length} errors before the first piece; ${kept} rows of answers, ${lost} lost, ${open} neither whole nor ended`);
  for (const a of early.slice(0, 3)) console.log(`  ${a.how}: ${a.why}`);
}
const waitFor = async (what, ms) => { const began = performance.now(); while (!what()) { if (performance.now() - began > ms) throw new Error(`never: ${what}`); await sleep(5); } return performance.now() - began; };

await load(async () => {
  await waitFor(() => stateOf('four1').in_flight > 2, 5000);
  const flying = stateOf('four1').in_flight;
  four[1].child.kill('SIGKILL');
  const ms = await waitFor(() => stateOf('four1').state !== 'ok', 5000);
  return `one of four killed with about ${flying} answers on it, its breaker was seen open after ${ms.toFixed(0)} ms`;
});
await upstream(four[1].port);
await load(async () => {
  console.log(`started again, under load it was well 1500 ms and ${(await waitFor(() => stateOf('four1').state === 'ok', 40000)).toFixed(0)} ms later`); // an answer closes what answers opened
  await waitFor(() => stateOf('four2').in_flight > 2, 5000);
  const began = performance.now();
  await server.json('PATCH', `/api/admin/upstreams/${ids[2]}`, { drained: true });
  await waitFor(() => stateOf('four2').state === 'drained' && stateOf('four2').in_flight === 0, 10000);
  return `one of four drained, empty after ${(performance.now() - began).toFixed(0)} ms`;
});
for (const c of spawned) c.kill('SIGKILL');
await server.stop();
process.exit(0);
