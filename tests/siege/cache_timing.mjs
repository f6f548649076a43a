// Can a user tell by time what another has asked? node tests/siege/cache_timing.mjs [--prompts N] [--words N] [--disk]. By hand;
// environment as in tests/api/harness.mjs. First two users hammer the server with equal prompts at once: neither may hit what the other
// has stored. Then ada has N prompts in the cache, and bob asks, in random order, those and N that nobody has ever asked. His
// times to the first token of the two kinds are compared: medians, and Mann and Whitney's U as the chance that a time of the one kind
// is below one of the other (0.5: nothing can be told), with its z; |z| below 2.6 is noise (1 %). To see that the test can tell, ada
// asks hers again. --disk: everything is killed before, so that hers are on the disk alone. Status 1: a hit across, or a
// difference that is no noise.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { lives, program, sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';
import { family } from '../soak/processes.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [N, LENGTH] = [option('prompts', 100), option('words', 250)];
const WORDS = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning'.split(' ');
const text = () => Array.from({ length: LENGTH }, () => WORDS[Math.floor(Math.random() * WORDS.length)]).join(' ');

const server = await start({ args: ['--threads', '1', '--slots', '4'] });
leaveCleanly(() => server.stop());
for (const name of ['ada', 'bob']) await server.json('POST', '/api/users', { name, password: 'correct horse battery' });
const key = (name) => /sk-[\w-]+/.exec(spawnSync(program('sluice'), ['key', 'add', name, '--state', path.join(server.dir, 'state')], { encoding: 'utf8' }).stdout)[0];
const [ada, bob] = [key('ada'), key('bob')];

async function ask(who, content) {
  const began = performance.now();
  const r = await server.chat({ messages: [{ role: 'user', content }], max_tokens: 1, temperature: 0 }, { authorization: `Bearer ${who}` });
  if (r.status !== 200) throw new Error(`${r.status} ${r.text}`);
  return { ms: performance.now() - began, cached: r.body.usage.prompt_tokens_details.cached_tokens };
}

let across = 0;
for (let i = 0; i < 20; i++) { // each of these prompts for the first time, by both at once
  const content = text(), answers = await Promise.all([ask(ada, content), ask(bob, content)]);
  across += answers.filter((a) => a.cached).length;
}

const theirs = Array.from({ length: N }, text), nobodys = Array.from({ length: N }, text);
for (const content of theirs) await ask(ada, content);
for (let same = 0, last = -1; same < 4; await sleep(250)) {
  const rows = await server.metric('prompt_cache_rows');
  same = rows === last ? same + 1 : 0;
  last = rows;
}
if (process.argv.includes('--disk')) {
  const all = [server.child.pid, ...family(server)];
  for (const pid of all) { try { process.kill(pid, 'SIGKILL'); } catch { /* it went with another */ } }
  await server.exited;
  while (all.some(lives)) await sleep(5);
  await server.again();
  for (let i = 0; i < 10; i++) await ask(bob, text());
}

/** How likely a is below b, and how far from chance that is. */
function compare(a, b) {
  const all = [...a.map((ms) => ({ ms, a: true })), ...b.map((ms) => ({ ms }))].sort((x, y) => x.ms - y.ms);
  const ranks = all.reduce((sum, x, i) => sum + (x.a ? i + 1 : 0), 0), u = ranks - a.length * (a.length + 1) / 2, pairs = a.length * b.length;
  const round = (n) => Math.round(n * 1000) / 1000;
  return { below: round(1 - u / pairs), z: round((u - pairs / 2) / Math.sqrt(pairs * (a.length + b.length + 1) / 12)) };
}
const median = (list) => Math.round([...list].sort((a, b) => a - b)[list.length >> 1] * 100) / 100;

const order = [...theirs.map((content) => ({ content, kind: 'theirs' })), ...nobodys.map((content) => ({ content, kind: 'nobodys' }))].sort(() => Math.random() - 0.5);
const times = { theirs: [], nobodys: [], own: [] };
for (const { content, kind } of order) {
  const a = await ask(bob, content);
  across += a.cached > 0;
  times[kind].push(a.ms);
}
for (const content of theirs.slice(0, 20)) times.own.push((await ask(ada, content)).ms);
const verdict = compare(times.theirs, times.nobodys), sees = compare(times.own, times.nobodys);
console.log(JSON.stringify({ prompts: N, words: LENGTH, from: process.argv.includes('--disk') ? 'disk' : 'device', hits_across: across, median_ms: { what_ada_asked: median(times.theirs), what_nobody_asked: median(times.nobodys), adas_own: median(times.own) },
  bob: verdict, ada: sees }, null, 1));
await server.stop();
process.exit(across || Math.abs(verdict.z) > 2.6 ? 1 : 0);
