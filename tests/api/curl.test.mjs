// Every example of docs/API.md is run as it stands, by a shell: each block with a curl succeeds as a whole, and each
// endpoint has one.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { sideModels, sidesReady, start, top } from './harness.mjs';

const text = readFileSync(path.join(top, 'docs/API.md'), 'utf8');
const blocks = [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].map((m) => m[1]);
const examples = blocks.filter((b) => /\bcurl /.test(b));
const variables = blocks.find((b) => !/\bcurl /.test(b)).split('\n').filter((l) => /^[A-Z]+=/.test(l)).join('\n');
// what the reader's shell does, but for: silence, and failure when the status is 400 or more
const CURL = 'curl() { command curl -sS --fail-with-body --max-time 60 "$@" && echo; }';

function shell(command) {
  return new Promise((done) => {
    const child = spawn('bash', ['-c', command], { env: { ...process.env, SLUICE_URL: s.url, SLUICE_KEY: s.key, SLUICE_API_KEY: s.key } });
    let out = '', err = '';
    child.stdout.on('data', (d) => { out += d; });
    child.stderr.on('data', (d) => { err += d; });
    child.on('exit', (code) => done({ code, out, err }));
  });
}

let s;
before(async () => { s = await start({ args: sideModels }); await sidesReady(s); });
after(() => s?.stop());

test('each endpoint has an example', async () => {
  const doc = (await s.json('GET', '/openapi.json')).body;
  const without = ['/ready', '/v1/health', '/ping', '/chat/completions', '/completions', '/responses', '/models', // other names of what has one
    '/embeddings', '/embedding', '/rerank', '/v2/rerank',
    '/v1/responses/{id}/cancel', // never a good answer
    '/infill']; // none with the demo model, which has no tokens for it
  const missing = Object.keys(doc.paths).filter((p) => !p.startsWith('/api/') && !without.includes(p))
    .filter((p) => !new RegExp(`\\$SLUICE_URL${p.replace(/\{\w+\}/g, '[^/ ]+').replaceAll('.', '\\.')}[" \\n?]`).test(examples.join('\n')));
  assert.deepEqual(missing, []);
});

for (const block of examples)
  test(block.replace(/\s+/g, ' ').slice(0, 90), async () => {
    const r = await shell(`set -e -o pipefail\n${variables}\n${CURL}\n${block}`);
    assert.equal(r.code, 0, (r.out + r.err).slice(-2000));
    assert.ok(r.out.trim().length > 8, 'it says something');
    assert.doesNotMatch(r.out, /^data: \{"error"/m, 'a stream ends without an error');
  });
