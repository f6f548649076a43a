// nginx with TLS before a running server: the configuration of `sluice up`, listening with a certificate made on the spot.
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { PATIENCE, sleep } from './harness.mjs';

/** {ask(method, path, {headers, body}) -> {status, headers, body}, stop()} */
export async function startTls(s) {
  const run = path.join(s.dir, 'state/nginx'), at = (name) => path.join(run, name);
  const port = await new Promise((done) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => { const p = probe.address().port; probe.close(() => done(p)); });
  });
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-keyout', at('tls.key'), '-out', at('tls.pem')], { stdio: 'ignore' });
  const conf = readFileSync(at('nginx.conf'), 'utf8');
  writeFileSync(at('tls.conf'), conf.replace(/listen [^;]+;/, `listen 127.0.0.1:${port} ssl; ssl_certificate ${at('tls.pem')}; ssl_certificate_key ${at('tls.key')};`)
    .replace('nginx.pid', 'tls.pid'));
  const child = spawn(readlinkSync(`/proc/${s.pid('nginx')}/exe`), ['-p', run, '-c', at('tls.conf'), '-e', 'stderr'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '', ended = false;
  child.stderr.on('data', (d) => { log += d; });
  const exited = new Promise((done) => child.on('exit', () => { ended = true; done(); }));
  const ask = (method, where, { headers = {}, body } = {}) => new Promise((done, fail) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const r = https.request({ host: '127.0.0.1', port, method, path: where, agent: false, rejectUnauthorized: false,
      headers: { ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } }, (answer) => {
      let got = '';
      answer.setEncoding('utf8').on('data', (d) => { got += d; }).on('end', () => {
        let parsed = null;
        try { parsed = JSON.parse(got); } catch { /* no JSON */ }
        done({ status: answer.statusCode, headers: answer.headers, cookies: answer.headers['set-cookie'] ?? [], body: parsed, text: got });
      });
    });
    r.on('error', fail);
    r.end(text);
  });
  for (const end = Date.now() + PATIENCE; ;) {
    if (ended || Date.now() > end) throw new Error(`nginx with TLS does not come up: ${log}`);
    if (await ask('GET', '/health').catch(() => null)) break;
    await sleep(50);
  }
  return { ask, stop: async () => { child.kill('SIGQUIT'); await exited; } };
}
