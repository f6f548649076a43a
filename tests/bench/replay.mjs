// An agent's session again, turn by turn: node tests/bench/replay.mjs --model FILE [--turns 30] [--tokens 60000] [--threads 2]
// [--peer 'COMMAND'] [--seed N] [--pause MS] [--verbose]. By hand; environment as in tests/api/harness.mjs. A system prompt, tools,
// then calls of tools and their results, which are the session's own and not what the model says; each turn asks for a short answer. In
// the middle the server is killed with all that belongs to it and started anew. --pause waits between turns, as an agent does for its
// tools. For each server: how many prompt tokens were cached, and the wall time. A peer is any server with OpenAI's endpoint: its
// command is started in a shell with MODEL, PORT, CONTEXT and THREADS set, and is killed and started anew as ours is.
// sluice synth and tests/bench/gguf_with_words.py make a file that both can chat with.
import { spawn } from 'node:child_process';
import net from 'node:net';
import { lives, sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';
import { family } from '../soak/processes.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const [TURNS, TOKENS, THREADS, MODEL, PEER] = [Number(option('turns', 30)), Number(option('tokens', 60000)), option('threads', '2'), option('model'), option('peer')];
const CONTEXT = String(Math.ceil(TOKENS * 1.15 / 1024) * 1024);
if (!MODEL) throw new Error('--model FILE is wanted');

let state = Number(option('seed', 1)) >>> 0;
const random = () => { // mulberry32: the same session for every server
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const WORDS = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning'.split(' ');
const say = (n) => Array.from({ length: Math.round(n) }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
const tool = (name, argument) => ({ type: 'function', function: { name, description: say(40), parameters: { type: 'object', properties: { [argument]: { type: 'string', description: say(20) } }, required: [argument] } } });
const tools = [tool('read_file', 'path'), tool('run', 'command'), tool('search', 'query'), tool('write_file', 'path')];

/** What each turn adds to the messages; words are about as many tokens as `perWord` says. */
function session(perWord) {
  const each = (TOKENS / perWord - 1500) / TURNS, turns = [];
  for (let i = 0; i < TURNS; i++) {
    const call = { id: `call_${i}`, type: 'function', function: { name: tools[i % 3].function.name, arguments: JSON.stringify({ [['path', 'command', 'query'][i % 3]]: say(4) }) } };
    turns.push(i === 0 ? [{ role: 'system', content: say(600) }, { role: 'user', content: say(300) }]
      : [{ role: 'assistant', content: say(12), tool_calls: [call] }, { role: 'tool', tool_call_id: call.id, content: say(each * (0.2 + 1.6 * random())) }]);
  }
  return turns;
}

async function ask(url, key, messages) {
  const began = performance.now();
  const r = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ messages, tools, max_tokens: 8, temperature: 0, cache_prompt: true }),
    headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) } });
  const body = await r.json();
  if (r.status !== 200) throw new Error(`${r.status} ${JSON.stringify(body).slice(0, 500)}`);
  const prompt = body.usage.prompt_tokens, cached = body.usage.prompt_tokens_details?.cached_tokens ?? body.timings?.cache_n ?? 0;
  return { ms: performance.now() - began, prompt, cached };
}

/** One server's session; start() gives {url, key}, again() kills and starts it. */
async function replay(name, server, turns) {
  const messages = [], times = [];
  let prompt = 0, cached = 0, restarted;
  for (let i = 0; i < turns.length; i++) {
    if (i === turns.length >> 1) restarted = await server.again();
    messages.push(...turns[i]);
    await sleep(Number(option('pause', 0)));
    const a = await ask(server.url(), server.key?.(), messages);
    times.push(a.ms);
    prompt += a.prompt;
    cached += a.cached;
    if (process.argv.includes('--verbose')) console.error(name, i, JSON.stringify(a));
  }
  const middle = turns.length >> 1, round = (ms) => Math.round(ms / 10) / 100;
  return { server: name, turns: turns.length, 'prompt tokens': prompt, 'cached %': Math.round(cached / prompt * 1000) / 10, 'wall s': round(times.reduce((a, b) => a + b, 0)),
    'first after restart s': round(times[middle]), 'median turn s': round([...times].sort((a, b) => a - b)[middle]), 'start s': round(restarted) };
}

// ---- ours ----

const server = await start({ model: MODEL, args: ['--threads', THREADS, '--ctx', CONTEXT, '--slots', '1'] });
let peer;
leaveCleanly(async () => { peer?.kill(); await server.stop(); });

async function settled() {
  for (let same = 0, last = -1; same < 3; await sleep(200)) {
    const [rows, records] = [await server.metric('prompt_cache_rows'), await server.metric('prompt_cache_records')];
    same = rows === records && rows === last ? same + 1 : 0;
    last = rows;
  }
}

const ours = {
  url: () => server.url,
  key: () => server.key,
  async again() {
    await settled(); // an agent's tools take as long
    const all = [server.child.pid, ...family(server)];
    for (const pid of all) { try { process.kill(pid, 'SIGKILL'); } catch { /* it went with another */ } }
    await server.exited;
    while (all.some(lives)) await sleep(5);
    const began = performance.now();
    await server.again();
    return performance.now() - began;
  },
};

const sample = say(1000), counted = (await server.json('POST', '/tokenize', { content: sample })).body.tokens.length;
const turns = session(counted / 1000), rows = [];
rows.push(await replay('sluice', ours, turns));
await server.stop();

// ---- a peer ----

const freePort = () => new Promise((done) => {
  const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); });
});

if (PEER) {
  const port = await freePort();
  const theirs = {
    url: () => `http://127.0.0.1:${port}`,
    async launch() {
      peer = spawn('sh', ['-c', `exec ${PEER}`], { env: { ...process.env, MODEL, PORT: String(port), CONTEXT, THREADS }, stdio: ['ignore', 'ignore', 'inherit'] });
      const began = performance.now();
      for (let up = false; !up; await sleep(50)) {
        up = await fetch(`${theirs.url()}/health`).then((r) => r.status === 200, () => false);
        if (performance.now() - began > 60000) throw new Error('the peer does not come up');
      }
      return performance.now() - began;
    },
    async again() {
      const gone = new Promise((done) => { peer.once('exit', done); });
      peer.kill('SIGKILL');
      await gone;
      return theirs.launch();
    },
  };
  await theirs.launch();
  rows.push(await replay('peer', theirs, turns));
  peer.kill('SIGKILL');
}
console.table(rows);
process.exit(0);
