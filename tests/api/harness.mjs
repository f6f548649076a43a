// Starts a whole server (nginx, workers, engine or fake engine) in a temporary folder and talks to it.
// SLUICE_PREFIX: where `make install` put it (default build/root). SLUICE_NODE_MODULES: where npm put the clients.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, existsSync, linkSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const prefix = process.env.SLUICE_PREFIX ?? path.join(top, 'build/root');
const bin = process.env.SLUICE_BIN; // a build folder that holds the programs side by side
// What deadlines are multiplied by: sanitized programs take longer, and so does all on a machine that has much else to do.
export const slow = (process.env.SLUICE_TEST_SANITIZED ? 4 : 1) * Math.max(1, Math.ceil(os.loadavg()[0] / os.cpus().length / 4));
// How long a first start may take. Nobody waits for an engine that has ended, so only one that hangs takes all of it. A GPU that is a program
// (lavapipe) compiles a hundred shaders for the processor first, on a machine whose cores may all be busy.
const START_MS = 60_000 * slow, GPU_START_MS = 300_000 * slow;
// The build folder beside it: build/release of build/root, build/asan of build/asan-root.
const built = path.join(prefix, '..', /^(\w+)-root$/.exec(path.basename(prefix))?.[1] ?? 'release');
export const demo = path.join(top, 'engine/demo-model');

/** Models of engines beside the one that answers: tiny, random, and right by their golden.json. */
const side = (name) => path.join(top, 'tests/data/embedding', name);
export const sideModels = ['--embedding-model', side('bert'), '--rerank-model', side('xlmr')];
/** Waits for the engine of a model. */
export const modelReady = (server, id) => eventually(async () => {
  assert.equal((await server.json('GET', `/v1/models/${id}`)).body.sluice?.state, 'ready', `${id}:\n${server.log.slice(-3000)}`);
});
/** Waits for the engines of both. */
export async function sidesReady(server) {
  for (const id of ['bert', 'xlmr']) await modelReady(server, id);
}

export const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** How long a test waits, in ms, for what happens at once where nothing else has the processor. Who waits goes on when it has happened, so only a
 * test that fails takes this long. How fast a thing is, tests/bench says; a test that compares times fails with its machine. */
export const PATIENCE = 120_000;

/** Tries again until check throws nothing, and gives what it gave; after PATIENCE its error is the test's. What does not come at once is looked for
 * less and less often, since who looks takes the processor from what is waited for. */
export async function eventually(check, every = 30) {
  for (let end = Date.now() + PATIENCE, pause = every; ; await sleep(pause), pause = Math.min(1.2 * pause, 5 * every)) {
    try { return await check(); } catch (error) { if (Date.now() > end) throw error; }
  }
}

/** A request again while it gets 429: nginx lets sixty logins and the like through at once and ten a second after that. */
export async function patiently(run) {
  for (let n = 0; ; n++) {
    const r = await run();
    if (r.status !== 429 || n === 400) return r;
    await sleep(300);
  }
}

/** How long, in ms, something must last that a test looks at meanwhile: longer where the machine has much to do. */
export const lasting = (ms) => ms * Math.min(10, Math.max(1, Math.ceil(os.loadavg()[0] / os.cpus().length)));

/** Is there such a process? One that has ended and that nobody has asked for yet is none. */
export const lives = (pid) => { try { return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')); } catch { return false; } };

/** Does a process stand still in all its threads? */
const stands = (pid) => readdirSync(`/proc/${pid}/task`).every((task) => /\) [TtZX] /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')));
const signal = (pid, name) => { try { process.kill(pid, name); } catch { /* it has gone */ } };

/** Waits until none of the processes has had anything to do for a while: what was asked of them has got as far as it can. One that only lacks
 * the processor is not asleep. */
export async function atRest(pids) {
  const asleep = (pid) => { try { return /\) [SZT] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')); } catch { return true; } };
  for (let quiet = 0, end = Date.now() + PATIENCE; quiet < 12; await sleep(25)) {
    quiet = pids.every(asleep) ? quiet + 1 : 0;
    assert.ok(Date.now() < end, `processes ${pids} never rest`);
  }
}

/** fetch whose error says what broke the connection: reporters of tests leave its cause out. */
export async function reach(...request) {
  try { return await fetch(...request); } catch (error) {
    if (error.cause) error.message += ` (${error.cause.code ?? error.cause.name}: ${error.cause.message})`;
    throw error;
  }
}

/** Imports a package of tests/package.json. */
export async function load(name) {
  const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
  const require = createRequire(path.join(modules, 'x.js'));
  return import(pathToFileURL(require.resolve(name)).href);
}

export function program(name) {
  const places = bin
    ? [path.join(bin, name)]
    : [path.join(prefix, 'bin', name), path.join(prefix, 'libexec/sluice', name),
       path.join(built, 'tests/api', name), path.join(built, 'tests/unit', name)];
  const found = places.find((p) => existsSync(p));
  if (!found) throw new Error(`${name} is not in ${places.join(', ')}`);
  return found;
}

export async function freePort() {
  return new Promise((done) => {
    const s = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });
}

function layOut(dir, fake) {
  const binDir = path.join(dir, 'bin');
  mkdirSync(binDir);
  symlinkSync(program('sluice-worker'), path.join(binDir, 'sluice-worker'));
  symlinkSync(program('sluice-toolhost'), path.join(binDir, 'sluice-toolhost'));
  symlinkSync(program(fake ? 'scripted_engine' : 'sluice-engine'), path.join(binDir, 'sluice-engine'));
  const share = path.join(dir, 'share');
  mkdirSync(share);
  symlinkSync(path.join(top, 'nginx'), path.join(share, 'nginx'));
  symlinkSync(path.join(top, 'fcgi/cli/pull/known-models.json'), path.join(share, 'known-models.json'));
  const built = path.join(prefix, 'share/sluice/web'); // with the libraries that npm fetched
  symlinkSync(existsSync(built) ? built : path.join(top, 'web'), path.join(share, 'web'));
  return { binDir, share };
}

const running = new Set();
// Whatever a test that failed did not stop ends with the process, which a server does not keep alive.
process.on('exit', () => { for (const server of running) server.abandon(); });
process.once('SIGTERM', () => process.exit(143)); // a file that takes too long is ended so

// What a first start leaves. To make its admin takes longer than all else of a start, since a password is made slow to try: the first
// server that any test starts makes one, and the others begin with a copy, as a second start would.
const KEPT = ['state/sluice.db', 'state/sluice.db-wal', 'env'];
async function firstStart(fake) {
  const { mtimeMs, ino } = statSync(program('sluice'));
  const kept = path.join(os.tmpdir(), `slt-first-${process.getuid()}-${ino}-${Math.round(mtimeMs)}`);
  if (existsSync(kept)) return kept;
  const made = await start({ fake, first: true });
  made.child.kill('SIGTERM');
  await made.exited;
  const copy = mkdtempSync(`${kept}-`);
  mkdirSync(path.join(copy, 'state'));
  for (const f of KEPT) if (existsSync(path.join(made.dir, f))) copyFileSync(path.join(made.dir, f), path.join(copy, f));
  await made.stop();
  try { renameSync(copy, kept); } catch { rmSync(copy, { recursive: true }); } // another process was faster
  return kept;
}
const ownFirst = ({ first, owner, args = [] }) => first || owner || args.includes('--without-first-admin');

// Lavapipe compiles a shader in half a second and keeps it in the home folder, which an engine behind its walls can't reach: it would compile
// all of them again. It gets a cache of its own that begins with those, and what it adds is there for the next.
const SHADERS = path.join(process.env.MESA_SHADER_CACHE_DIR ?? process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'mesa_shader_cache');
function lendShaders(from, to) {
  for (const part of existsSync(from) ? readdirSync(from).filter((name) => /^[0-9a-f]{2}$/.test(name)) : []) {
    mkdirSync(path.join(to, part), { recursive: true });
    for (const name of readdirSync(path.join(from, part)).filter((n) => /^[0-9a-f]+$/.test(n))) {
      const paths = [from, to].map((folder) => path.join(folder, part, name));
      try { linkSync(...paths); } catch (e) { if (e.code === 'EXDEV') copyFileSync(...paths); } // or another test was faster
    }
  }
}

/** One running server. options: fake (engine), args (of `sluice up`), model, under (a command that runs it: ['nice', '-n', '5']),
 * owner (uid of the folder, for --user), first (its own first start), allThreads (as many as there are cores: beside other tests they wait for each
 * other by turning, which takes a third of the engine's time; the few tests that are about them say so). */
export async function start(options = {}) {
  const kept = ownFirst(options) ? null : await firstStart(options.fake);
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-'));
  if (kept) {
    mkdirSync(path.join(dir, 'state'), 0o700);
    for (const f of KEPT) if (existsSync(path.join(kept, f))) copyFileSync(path.join(kept, f), path.join(dir, f));
  }
  if (options.owner) {
    chownSync(dir, options.owner, options.owner);
    chmodSync(dir, 0o711); // others may pass through
  }
  const server = new Server(dir, await freePort(), options);
  running.add(server);
  server.spawn();
  try {
    return await server.ready(options.args?.includes('vulkan') ? GPU_START_MS : START_MS, / engine pid=\d+ (?:ended with|was killed by) /);
  } catch (e) {
    await server.stop().catch(() => {});
    throw e;
  }
}

class Server {
  constructor(dir, port, options) {
    this.dir = dir;
    this.port = port;
    this.options = options;
    this.url = `http://127.0.0.1:${port}`;
    this.log = '';
    this.places = layOut(dir, options.fake);
  }

  /** Starts it, or starts it again after it has ended. */
  spawn() {
    this.ended = undefined;
    const envFile = path.join(this.dir, 'env');
    const args = ['up', '--state', path.join(this.dir, 'state'), '--port', String(this.port), '--env-file', envFile,
      '--bin-dir', this.places.binDir, '--share-dir', this.places.share, '--model', this.options.model ?? demo,
      '--backend', 'cpu', ...(this.options.allThreads ? [] : ['--threads', '1']), ...(this.options.args ?? [])];
    const [command, ...words] = [...(this.options.under ?? []), program('sluice')];
    const env = { ...process.env };
    if (args.includes('vulkan')) {
      env.MESA_SHADER_CACHE_DIR = path.join(this.dir, 'state/cache/mesa');
      this.shaders = path.join(env.MESA_SHADER_CACHE_DIR, 'mesa_shader_cache');
      lendShaders(SHADERS, this.shaders);
    }
    this.child = spawn(command, [...words, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
    const keep = (data) => { this.log += data; };
    this.child.stdout.on('data', keep);
    this.child.stderr.on('data', keep);
    this.exit = new Promise((done) => this.child.on('exit', (code, signal) => {
      this.ended = { code, signal };
      done(this.ended);
    }));
    for (const handle of [this.child, this.child.stdout, this.child.stderr]) handle.unref();
  }

  /** Who waits for the end keeps the process alive until then. */
  get exited() {
    this.child.ref();
    return this.exit;
  }

  /** Waits until all of it answers. broken: what the log says when that will not be. */
  async ready(ms = START_MS, broken = null) {
    const until = Date.now() + ms;
    for (let last = 'nothing listens'; ;) {
      if (this.ended) throw new Error(`sluice up ended: ${JSON.stringify(this.ended)}\n${this.log}`);
      if (broken?.test(this.log)) throw new Error(`the engine ended: ${last}\n${this.log}`);
      try {
        const r = await fetch(`${this.url}/health`);
        last = `${r.status} ${await r.text()}`;
        if (r.status === 200) break;
      } catch { /* not listening yet */ }
      if (Date.now() > until) throw new Error(`not healthy after ${ms} ms: ${last}\n${this.log}`);
      await sleep(30);
    }
    const env = Object.fromEntries(readFileSync(path.join(this.dir, 'env'), 'utf8').split('\n')
      .filter((l) => l.includes('=')).map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)]));
    this.key = env.SLUICE_API_KEY;
    this.admin = { name: env.SLUICE_ADMIN_USER, password: env.SLUICE_ADMIN_PASSWORD };
    return this;
  }

  /** Ends it. One that does not end by itself fails its test: nobody would see it hang. */
  async stop(within = PATIENCE) {
    let hung = false;
    if (!this.ended) {
      this.child.kill('SIGTERM');
      await Promise.race([this.exited, new Promise((done) => { setTimeout(done, within).unref(); })]);
      hung = !this.ended;
      if (hung) this.child.kill('SIGKILL');
      await this.exited;
    }
    running.delete(this);
    if (this.shaders) lendShaders(this.shaders, SHADERS);
    if (process.env.SLUICE_TEST_KEEP) console.error(this.dir);
    else rmSync(this.dir, { recursive: true, force: true });
    const cry = this.log.match(/(ERROR: AddressSanitizer|runtime error:|LeakSanitizer|WARNING: ThreadSanitizer)[^]*/);
    if (cry) throw new Error(cry[0].slice(0, 4000));
    if (hung) throw new Error(`the server did not end within ${within} ms:\n${this.log.slice(-3000)}`);
  }

  /** When nothing can be awaited any more. */
  abandon() {
    const state = () => { try { return readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1][0]; } catch { return 'Z'; } };
    const pause = new Int32Array(new SharedArrayBuffer(4));
    this.child.kill('SIGTERM');
    for (let i = 0; i < 200 && state() !== 'Z'; i++) Atomics.wait(pause, 0, 0, 50);
    this.child.kill('SIGKILL');
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Ends all of it at once, as when the power fails: nothing of it is left to answer for it. All stand still before the first is killed, and the
   * lowest is killed first, lest one hear that its parent has gone and still put in order what it keeps. */
  async powerFails() {
    const all = [this.child.pid];
    for (let i = 0; i < all.length; i++) {
      signal(all[i], 'SIGSTOP');
      await eventually(() => assert.ok(!lives(all[i]) || stands(all[i]), 'a stopped process goes on'));
      all.push(...this.childrenOf(all[i]));
    }
    for (const pid of all.toReversed()) signal(pid, 'SIGKILL');
    await this.exited;
    await eventually(() => assert.ok(!all.some(lives), 'a killed process lives on'));
  }

  /** Starts it again after it has ended. */
  async again() {
    this.spawn();
    return this.ready();
  }

  /** Process ids of a supervised child: engine, recorder, workers-short, workers-stream, nginx. */
  pid(name) {
    const list = JSON.parse(readFileSync(path.join(this.dir, 'state/processes.json'), 'utf8'));
    return list.find((p) => p.name === name)?.pid;
  }

  /** Direct children of a process. */
  childrenOf(pid) {
    return readdirSync('/proc').filter((p) => /^\d+$/.test(p)).map(Number).filter((p) => {
      try { return Number(readFileSync(`/proc/${p}/stat`, 'utf8').split(') ')[1].split(' ')[1]) === pid; } catch { return false; }
    });
  }

  /** Waits until the log, which comes through a pipe and so after what it tells of, has these words or this pattern. */
  async logs(what) {
    const has = () => (typeof what === 'string' ? this.log.includes(what) : what.test(this.log));
    await eventually(() => { if (!has()) throw new Error(`not in the log: ${what}\n${this.log.slice(-3000)}`); });
  }

  /** fetch with the key; body: an object becomes JSON. */
  async request(method, where, body, headers = {}) {
    const h = { authorization: `Bearer ${this.key}`, ...headers };
    if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
      body = JSON.stringify(body);
      h['content-type'] ??= 'application/json';
    }
    for (const k of Object.keys(h)) if (h[k] === null) delete h[k];
    return reach(this.url + where, { method, body, headers: h });
  }

  async json(method, where, body, headers) {
    const r = await this.request(method, where, body, headers);
    const text = await r.text();
    let value = null;
    try { value = text ? JSON.parse(text) : null; } catch { value = { unparsed: text }; }
    return { status: r.status, headers: r.headers, body: value, text };
  }

  chat(body, headers) {
    return this.json('POST', '/v1/chat/completions', body, headers);
  }

  /** Chunks of a streamed chat, comments and raw text beside them. */
  async stream(body, { onChunk, signal, where = '/v1/chat/completions' } = {}) {
    const r = await reach(this.url + where, {
      method: 'POST', signal, body: JSON.stringify({ ...body, stream: true }),
      headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
    });
    const out = { status: r.status, headers: r.headers, chunks: [], comments: [], done: false, raw: '' };
    if (!r.headers.get('content-type')?.startsWith('text/event-stream')) {
      out.error = JSON.parse(await r.text());
      return out;
    }
    const decoder = new TextDecoder('utf-8', { fatal: true });
    let rest = '';
    for await (const bytes of r.body) {
      const text = decoder.decode(bytes, { stream: true });
      out.raw += text;
      rest += text;
      for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) takeEvent(rest.slice(0, end), out, onChunk);
    }
    out.rest = rest;
    return out;
  }

  /** A raw connection: sends the pieces as they are, gives what came back until the server closed or ms passed. */
  raw(pieces, { ms = PATIENCE, pause = 0 } = {}) {
    return new Promise((done) => {
      const socket = net.connect(this.port, '127.0.0.1');
      const got = [];
      const finish = () => { socket.destroy(); done(Buffer.concat(got).toString('latin1')); };
      const timer = setTimeout(finish, ms);
      socket.on('data', (d) => got.push(d));
      socket.on('error', () => {});
      socket.on('close', () => { clearTimeout(timer); finish(); });
      socket.on('connect', async () => {
        for (const p of [pieces].flat()) {
          socket.write(p);
          if (pause) await sleep(pause);
        }
      });
    });
  }

  /** The text of /metrics, asked for with the admin's key. */
  async metrics() {
    const r = await this.request('GET', '/metrics');
    if (r.status !== 200) throw new Error(`/metrics: ${r.status} ${await r.text()}`);
    return r.text();
  }

  /** A figure of /metrics; labels as they stand in the text: 'route="/health"'. Sums what matches. */
  async metric(name, labels = '') {
    return (await this.metrics()).split('\n').filter((l) => (l.startsWith(`sluice_${name} `) || l.startsWith(`sluice_${name}{`)) && l.includes(labels))
      .reduce((sum, l) => sum + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);
  }
}

function takeEvent(event, out, onChunk) {
  if (event.startsWith(':')) return out.comments.push(event);
  if (!event.startsWith('data: ')) throw new Error(`not an event: ${JSON.stringify(event)}`);
  const data = event.slice(6);
  if (data === '[DONE]') {
    if (out.done) throw new Error('a second [DONE]');
    out.done = true;
    return undefined;
  }
  if (out.done) throw new Error('an event after [DONE]');
  const chunk = JSON.parse(data);
  out.chunks.push(chunk);
  return onChunk?.(chunk);
}

/** What a client makes of the chunks of choice i. */
export function joined(chunks, i = 0) {
  const out = { content: '', reasoning: '', calls: [], finish: [] };
  for (const chunk of chunks) {
    for (const choice of chunk.choices ?? []) {
      if (choice.index !== i) continue;
      out.content += choice.delta.content ?? '';
      out.reasoning += choice.delta.reasoning_content ?? '';
      for (const c of choice.delta.tool_calls ?? []) {
        const call = (out.calls[c.index] ??= { arguments: '' });
        if (c.id) call.id = c.id;
        if (c.function.name) call.name = c.function.name;
        call.arguments += c.function.arguments ?? '';
      }
      if (choice.finish_reason) out.finish.push(choice.finish_reason);
    }
  }
  return out;
}

/** A message that orders the fake engine's answer. */
export const order = (o) => [{ role: 'user', content: `fake:${JSON.stringify(o)}` }];
