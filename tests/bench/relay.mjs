// What the way through Sluice adds to an upstream's answer: node tests/bench/relay.mjs [--streams N] [--requests N] [--tokens N] [--pause MS].
// By hand; environment as in tests/api/harness.mjs. The upstream is a process of its own (relay_upstream.mjs) that writes the time into
// each piece; the same client asks it directly and through nginx, worker and relay, in turns. A request's cost is the difference
// of the medians of whole answers of one piece (own_engine: of a scripted engine here, which costs what every request costs); a token's that of the delays of its pieces, at one stream and at many.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { start, top } from '../api/harness.mjs';
import { addUpstream } from '../api/upstream_rig.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return Number(i < 0 ? otherwise : process.argv[i + 1]); };
const STREAMS = option('streams', 200), REQUESTS = option('requests', 400), TOKENS = option('tokens', 100), PAUSE = option('pause', 100);
const upstream = spawn(process.execPath, [path.join(top, 'tests/bench/relay_upstream.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
const port = await new Promise((done) => { upstream.stdout.once('data', (d) => done(Number(String(d)))); });
const server = await start({ fake: true });
const leave = async () => { upstream.kill(); await server.stop(); };
leaveCleanly(leave);
await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 });
await addUpstream(server, 'bench', `http://127.0.0.1:${port}/v1`, ['far']);

const agents = new Map();
const key = { authorization: `Bearer ${server.key}` };
const places = { direct: { port, headers: {} }, relayed: { port: server.port, headers: key }, own: { port: server.port, headers: key, model: 'demo-model' } };
const now = () => performance.timeOrigin + performance.now();

/** One stream; gives its whole time and the delay of each piece. */
function stream(place, tokens, pause) {
  const { port: to, headers, model = 'far' } = places[place];
  if (!agents.has(place)) agents.set(place, new http.Agent({ keepAlive: true, maxSockets: 1000 }));
  const content = place === 'own' ? 'fake:{"text":"x"}' : `${tokens} ${pause}`;
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content }] });
  return new Promise((done, fail) => {
    const began = now(), delays = [];
    const req = http.request({ host: '127.0.0.1', port: to, path: '/v1/chat/completions', method: 'POST', agent: agents.get(place), headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers } }, (res) => {
      if (res.statusCode !== 200) { fail(new Error(`${place}: ${res.statusCode}`)); return; }
      res.on('data', (d) => { const at = now(); for (const [, t] of String(d).matchAll(/@(\d+\.\d+) /g)) delays.push(at - Number(t)); });
      res.on('end', () => done({ ms: now() - began, delays }));
    });
    req.on('error', fail);
    req.end(body);
  });
}

const at = (list, q) => { const s = [...list].sort((a, b) => a - b); return s[Math.min(s.length - 1, Math.floor(q * s.length))]; };
const print = (name, values) => console.log(`${name.padEnd(34)} ${Object.entries(values).map(([k, v]) => `${k}=${v.toFixed(3)}`).join('  ')}`);

const whole = { direct: [], relayed: [], own: [] };
for (let i = 0; i < REQUESTS; i++) for (const place of Object.keys(whole)) whole[place].push((await stream(place, 1, 0)).ms);
for (const list of Object.values(whole)) list.splice(0, 20); // connections and caches warm up
print('request, ms', { direct: at(whole.direct, 0.5), relayed: at(whole.relayed, 0.5), own_engine: at(whole.own, 0.5), added: at(whole.relayed, 0.5) - at(whole.direct, 0.5), added_p99: at(whole.relayed, 0.99) - at(whole.direct, 0.99) });

const cpu = (pid) => { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' '); return (Number(f[11]) + Number(f[12])) * 10; };
const rss = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const relay = server.childrenOf(server.pid('relay'))[0];
for (const n of [1, STREAMS]) {
  const delays = { direct: [], relayed: [] };
  const before = { cpu: cpu(relay), rss: rss(relay) };
  for (let round = 0; round < 2; round++) for (const place of ['direct', 'relayed']) {
    const all = await Promise.all(Array.from({ length: n }, () => stream(place, TOKENS, n === 1 ? 20 : PAUSE)));
    delays[place].push(...all.flatMap((s) => s.delays));
    if (all.some((s) => s.delays.length !== TOKENS)) throw new Error(`${place}: pieces are missing`);
  }
  print(`token of ${n} streams, ms`, { direct: at(delays.direct, 0.5), relayed: at(delays.relayed, 0.5), added: at(delays.relayed, 0.5) - at(delays.direct, 0.5), relayed_p99: at(delays.relayed, 0.99), direct_p99: at(delays.direct, 0.99) });
  print('  relay', { cpu_us_per_token: ((cpu(relay) - before.cpu) * 1000) / (2 * n * TOKENS), rss_kib_before: before.rss, rss_kib_after: rss(relay) });
}
await leave();
process.exit(0);
