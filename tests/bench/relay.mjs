// What the way through Sluice adds to an upstream's answer: node tests/bench/relay.mjs [--rounds N] [--streams N] [--only request,slow,piece,many,burst] [--computes US].
// By hand, after `make -C build/release tests/bench/relay_peer install`; environment as in tests/api/harness.mjs. Upstream and client are
// processes of their own (relay_peer.c) that cost some microseconds a piece; the same client asks the upstream directly, through nginx alone (what
// one hop costs on this machine), and through nginx, worker and relay, in turns; `own` is a scripted engine of our own behind the same door.
// Each line has the medians of the rounds' percentiles, in microseconds.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { addUpstream } from '../api/upstream_rig.mjs';
import { freePort, start, top } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const ROUNDS = Number(option('rounds', 5)), STREAMS = Number(option('streams', 200)), ONLY = option('only', 'request,slow,piece,many,burst').split(',');
const COMPUTES = Number(option('computes', 5000)); // the upstream of `slow`, before its first word: there nobody should wait awake
const peer = path.join(top, option('build', 'build/release'), 'tests/bench/relay_peer');
const run = promisify(execFile);

const children = [];
const child = (command, args) => { const c = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] }); children.push(c); return c; };
const upstream = child(peer, ['serve']);
const port = await new Promise((done) => { upstream.stdout.once('data', (d) => done(Number(String(d)))); });

// nginx alone in front of the upstream, as it stands in front of Sluice: nothing buffered, connections kept.
const dir = mkdtempSync(path.join(os.tmpdir(), 'relay-'));
const plain = await freePort();
writeFileSync(path.join(dir, 'nginx.conf'), `daemon off; worker_processes auto; pid ${dir}/pid; error_log stderr crit;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000; upstream up { server 127.0.0.1:${port}; keepalive 512; keepalive_requests 1000000; }
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((n) => `${n}_temp_path ${dir}/${n};`).join(' ')}
  server { listen 127.0.0.1:${plain}; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }`);
child('nginx', ['-c', path.join(dir, 'nginx.conf'), '-p', dir, '-e', 'stderr']);

const server = await start({ fake: true });
leaveCleanly(async () => { for (const c of children) c.kill(); await server.stop(); });
await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 });
await addUpstream(server, 'bench', `http://127.0.0.1:${port}/v1`, ['far']);

const places = { direct: [port, 'far'], nginx: [plain, 'far'], relayed: [server.port, 'far'] };
const ask = async (place, streams, requests, tokens, pause, first = 0) => {
  const [to, model] = places[place];
  const { stdout } = await run(peer, ['ask', to, streams, requests, tokens, `${pause} ${first}`, model, server.key].map(String));
  const r = JSON.parse(stdout);
  if (r.missing) throw new Error(`${place}: ${r.missing} pieces are missing`);
  return r;
};
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const spent = (pid) => { try { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' '); return (Number(f[11]) + Number(f[12])) * 10; } catch { return 0; } }; // 0: it has ended
const cpu = (pids) => pids.reduce((n, pid) => n + spent(pid), 0);
const rss = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const relay = server.childrenOf(server.pid('relay'))[0];
const processes = { relay: () => [relay], workers: () => server.childrenOf(server.pid('workers-stream')), nginx: () => server.childrenOf(server.pid('nginx')) };

/** One case at all places in turns; `of` says which times are looked at. */
async function measure(name, of, args, per = 1) {
  const got = Object.fromEntries(Object.keys(places).map((p) => [p, []]));
  const used = Object.fromEntries(Object.keys(processes).map((k) => [k, 0]));
  for (const place of Object.keys(places)) await ask(place, args[0], Math.min(args[1], 20), Math.min(args[2], 10), Math.min(args[3], 2000), args[4]); // connections and caches warm up
  for (let i = 0; i < ROUNDS; i++) for (const place of Object.keys(places)) {
    const before = Object.fromEntries(Object.entries(processes).map(([k, pids]) => [k, cpu(pids())]));
    got[place].push((await ask(place, ...args))[of]);
    if (place === 'relayed') for (const k of Object.keys(used)) used[k] += cpu(processes[k]()) - before[k];
  }
  const at = (place, q) => median(got[place].map((r) => r[q])) / per;
  for (const place of Object.keys(places)) {
    console.log(`${name.padEnd(28)} ${place.padEnd(8)} p50=${at(place, 'p50').toFixed(1)} p90=${at(place, 'p90').toFixed(1)} p99=${at(place, 'p99').toFixed(1)} max=${at(place, 'max').toFixed(0)}`);
  }
  const pieces = ROUNDS * args[0] * args[1] * args[2];
  console.log(`${''.padEnd(28)} added    p50=${(at('relayed', 'p50') - at('direct', 'p50')).toFixed(1)} p99=${(at('relayed', 'p99') - at('direct', 'p99')).toFixed(1)}; processor us a piece: ${Object.entries(used).map(([k, v]) => `${k}=${((v * 1000) / pieces).toFixed(1)}`).join(' ')}; relay's memory ${rss(relay)} KiB`);
}

if (ONLY.includes('request')) {
  await measure('a request, to its last event', 'done_us', [1, 400, 1, 0]);
  await measure('the same, to the end of HTTP', 'request_us', [1, 400, 1, 0]);
}
if (ONLY.includes('slow')) await measure(`an upstream computes ${COMPUTES} us`, 'done_us', [1, 100, 1, 0, COMPUTES]);
if (ONLY.includes('piece')) await measure('delay of a piece, 1 stream', 'piece_us', [1, 1, 200, 5000]);
if (ONLY.includes('many')) await measure(`delay of a piece, ${STREAMS} streams`, 'piece_us', [STREAMS, 1, 40, 100000]);
if (ONLY.includes('burst')) await measure('a piece of 1,000 at once', 'request_us', [1, 10, 1000, 0], 1000);
for (const c of children) c.kill();
await server.stop();
process.exit(0);
