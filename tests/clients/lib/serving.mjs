// Clients that are servers themselves (Open WebUI, a proxy): started on a free port of this machine, stopped when run.mjs ends.
import { spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { sleep, slow } from '../../api/harness.mjs';

const running = new Set();
process.on('exit', () => { for (const child of running) child.kill('SIGKILL'); });

function freePort() {
  return new Promise((done) => {
    const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); });
  });
}

/** Starts `command` with args(port), waits until `probe` answers with 200; {url, log(), stop()}. Its output goes to cwd/serving.log. */
export async function serve(command, args, { cwd, env, probe, ms = 180000 * slow }) {
  const port = await freePort(), url = `http://127.0.0.1:${port}`, file = path.join(cwd, 'serving.log'), out = openSync(file, 'w');
  const child = spawn(command, args(port), { cwd, env: { ...process.env, ...env }, stdio: ['ignore', out, out] });
  const log = () => readFileSync(file, 'utf8');
  let ended;
  running.add(child);
  child.on('error', (e) => { ended = e.message; });
  child.on('exit', (code, signal) => { ended ??= code ?? signal; running.delete(child); });
  child.unref(); // who runs us may end: the handler above takes this one along
  for (const until = Date.now() + ms; ;) {
    if (ended !== undefined) throw new Error(`${path.basename(command)} ended (${ended}): ${log().slice(-2000)}`);
    if (Date.now() > until) throw new Error(`${path.basename(command)} does not answer: ${log().slice(-2000)}`);
    try { if ((await fetch(url + probe)).ok) return { url, log, stop: () => child.kill() }; } catch { /* not listening yet */ }
    await sleep(200);
  }
}

/** One of its kind a run: the first call starts it. */
export const once = (make) => { const made = new Map(); return (c, kind) => { if (!made.has(kind)) made.set(kind, make(c, kind)); return made.get(kind); }; };
