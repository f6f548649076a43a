// sluice up --model hf.co/USER/REPO: what would run is shown, the model is loaded once, cut off it resumes, and it serves.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { demo, program, start } from './harness.mjs';

const files = () => modelFiles(demo);

test('a name on a hub is shown, loaded and served; the next start asks nobody', async () => {
  const hub = await startHub(files(), { blobs: true });
  try {
    const s = await start({ model: 'hf.co/lab/tiny', args: ['--hub', hub.url] });
    try {
      assert.match(s.log, /lab\/tiny at c0ffee\w*: \d+ files, 2\d\.\d MB \(.* were read to plan\)[^]*here\n[^]*is whole/);
      const answer = await s.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Who are you?' }], max_tokens: 8 });
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await s.json('GET', '/v1/models')).body.data[0].id, 'tiny');
      const { plan } = (await s.json('GET', '/api/admin/status')).body;
      assert.ok(s.log.includes(plan.strategy), 'what was shown is what runs');
      assert.ok(existsSync(path.join(s.dir, 'state/models/tiny/config.json')));
      s.child.kill('SIGTERM');
      await s.exited;
      const asked = hub.log.length;
      await s.again();
      assert.equal(hub.log.length, asked);
    } finally {
      await s.stop();
    }
  } finally {
    hub.stop();
  }
});

test('what a hub has not, or Sluice can\'t run, ends the start with its reason and leaves nothing', async () => {
  const hub = await startHub(files(), { blobs: true }), dir = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
  const up = (model) => new Promise((done) => {
    execFile(program('sluice'), ['up', '--state', dir, '--hub', hub.url, '--port', '9', '--model', model], (error, out, err) => done({ code: error ? error.code : 0, out, err }));
  });
  try {
    const unknown = await up('hf.co/lab/nothing');
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /lab\/nothing/);
    assert.match((await up('hf.co/lab/tiny:Q8_0')).err, /no GGUF files/);
    hub.files['config.json'] = { data: Buffer.from('{"model_type": "other", "architectures": ["OtherForCausalLM"]}') };
    assert.match((await up('hf:lab/tiny')).err, /not for Sluice, and nothing was loaded/);
    assert.deepEqual(readdirSync(path.join(dir, 'models')), []);
  } finally {
    hub.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});

test('cut off, the same command resumes', async () => {
  const hub = await startHub(files(), { blobs: true }), dir = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
  const pull = () => new Promise((done) => {
    execFile(program('sluice'), ['pull', 'hf.co/lab/tiny', '--endpoint', hub.url, '--out', path.join(dir, 'tiny'), '--segment', '4MiB', '--jobs', '1'], (error, out, err) => done({ code: error ? error.code : 0, out, err }));
  });
  try {
    let n = 0;
    hub.fault = (req, res) => (req.method === 'GET' && req.headers.range && ++n > 3 ? (res.writeHead(404).end(), true) : null);
    const cut = await pull();
    assert.equal(cut.code, 1);
    assert.match(cut.err, /the same command resumes it/);
    hub.fault = () => null;
    hub.log.length = 0;
    assert.equal((await pull()).code, 0);
    const weights = hub.loads().filter((q) => q.host === 'other');
    assert.ok(weights.length > 0 && weights.every((q) => !q.range.startsWith('bytes=0-')), 'not from its first byte');
  } finally {
    hub.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
