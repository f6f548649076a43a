// From one model to another while the server runs: running answers end, those who come meanwhile are told when to come back,
// what can't be loaded changes nothing, and memory can be given back.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { demo, eventually, joined, lasting, order, PATIENCE, sleep, start } from './harness.mjs';

const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
function copy(name) { // the demo model's files under another name
  mkdirSync(path.join(models, name));
  for (const f of readdirSync(demo)) symlinkSync(path.join(demo, f), path.join(models, name, f));
  return path.join(models, name);
}
const other = copy('other'), refusing = copy('refusing');
writeFileSync(path.join(refusing, 'fake-refuses'), '');
const broken = path.join(models, 'broken');
mkdirSync(broken);
writeFileSync(path.join(broken, 'config.json'), '{"model_type": "qwen3_moe"}');
writeFileSync(path.join(broken, 'model.safetensors'), 'no tensors');

let s, hub;
before(async () => {
  hub = await startHub({});
  s = await start({ fake: true, args: ['--models', models, '--hub', hub.url] });
});
after(async () => { await s?.stop(); hub?.stop(); rmSync(models, { recursive: true, force: true }); });

const state = async () => (await s.json('GET', '/api/admin/models')).body;
const load = (where, grace_s = PATIENCE / 1000) => s.json('POST', '/api/admin/models/load', { path: where, grace_s });
const ask = () => s.chat({ messages: order({ text: 'yes' }) });

const phase = (wanted) => eventually(async () => {
  const now = await state();
  assert.equal(now.phase, wanted, JSON.stringify(now));
  return now;
});
const jobRuns = () => eventually(async () => assert.ok((await s.json('GET', '/api/admin/status')).body.load.jobs_running > 0));

/** Writes into the page of an engine that is stopped when it was heard of last. */
function heardOf(engine, at) {
  const file = path.join(s.dir, 'state/status'), page = readFileSync(file);
  assert.equal(page.readBigInt64LE(80), BigInt(engine)); // engine/wire/status.h, behind 64 bytes of the sequence
  page.writeDoubleLE(at, 88);
  writeFileSync(file, page);
}

/** Workers take the new text over in a moment; until then they say so and nothing else. */
async function answers(model) {
  for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
    const r = await ask();
    if (r.status === 200 && r.body.model === model) return;
    assert.ok(r.status === 503 || r.status === 200, r.text);
    if (r.status === 503) assert.ok(Number(r.headers.get('retry-after')) > 0);
    assert.ok(Date.now() < end, r.text);
  }
}

test('the list has what lies there', async () => {
  const now = await state();
  assert.equal(now.can_switch, true);
  assert.equal(now.phase, 'ready');
  assert.equal(now.current, demo);
  for (const p of [demo, other, refusing, broken]) {
    const m = now.items.find((x) => x.path === p);
    assert.equal(m?.name, path.basename(p));
    assert.equal(m.format, 'safetensors');
  }
  assert.equal(new Set(now.items.map((m) => m.path)).size, now.items.length);
});

test('running answers end, new ones are told to wait, then the other model answers', async () => {
  const text = 'one two three four five six seven eight nine ten';
  const running = s.stream({ messages: order({ text, token_ms: lasting(200) }) });
  await jobRuns();
  const asked = await load(other);
  assert.equal(asked.status, 202, asked.text);
  await phase('draining');
  assert.equal((await load(other)).status, 409);
  const r = await ask();
  assert.equal(r.status, 503);
  assert.ok(Number(r.headers.get('retry-after')) > 0);
  assert.match(r.body.error.message, /switched/);
  const got = joined((await running).chunks);
  assert.deepEqual([got.content, got.finish], [text, ['stop']]);
  const now = await phase('ready');
  assert.deepEqual([now.current, now.wanted, now.error], [other, null, null]);
  await answers('other');
  const listed = async () => (await s.json('GET', '/v1/models')).body.data[0].id; // the short pool is renewed beside the stream pool
  await eventually(async () => assert.equal(await listed(), 'other'));
  for (let i = 0; i < 12; i++) assert.equal((await s.json('GET', '/v1/models')).body.data[0].id, 'other'); // in every worker
});

test('an engine that is not heard of for some seconds keeps its time to answer', async () => {
  const text = 'one two three four five six seven eight nine ten';
  const running = s.stream({ messages: order({ text, token_ms: lasting(200) }) });
  await jobRuns();
  const engine = s.pid('engine');
  process.kill(engine, 'SIGSTOP');
  try {
    await eventually(() => assert.match(readFileSync(`/proc/${engine}/stat`, 'utf8'), /\) T /));
    heardOf(engine, Date.now() / 1000 - 60);
    assert.equal((await load(other)).status, 202);
    await phase('draining');
    await sleep(500); // in which it is looked at some times
    await phase('draining');
  } finally {
    process.kill(engine, 'SIGCONT');
  }
  const got = joined((await running).chunks);
  assert.deepEqual([got.content, got.finish], [text, ['stop']]);
  await phase('ready');
  await answers('other');
});

test('an answer over the time is cut, not the switch', async () => {
  const long = s.stream({ messages: order({ text: 'word '.repeat(400), token_ms: 500 }) }).catch(() => ({ chunks: [] }));
  await jobRuns();
  assert.equal((await load(demo, 0)).status, 202);
  await phase('ready');
  assert.ok(joined((await long).chunks.filter((c) => c.choices)).content.length < 1000, 'half of it, at most');
  await answers('demo-model');
});

test('a model whose files are wrong stops nothing', async () => {
  const engine = s.pid('engine');
  assert.equal((await load(broken)).status, 202);
  const now = await phase('failed');
  assert.equal(now.current, demo);
  assert.ok(now.error.length > 10, now.error);
  assert.equal(s.pid('engine'), engine);
  assert.equal((await ask()).status, 200);
});

test('a model that can\'t be loaded gives way to the one before', async () => {
  assert.equal((await load(refusing)).status, 202);
  const now = await phase('failed');
  assert.deepEqual([now.current, now.error], [demo, 'it does not fit, as ordered']);
  await answers('demo-model');
});

test('unloaded: told so, and loaded again when asked', async () => {
  assert.equal((await s.json('POST', '/api/admin/models/unload', {})).status, 202);
  await phase('unloaded');
  const r = await ask();
  assert.equal(r.status, 503);
  assert.ok(Number(r.headers.get('retry-after')) > 0);
  assert.match(r.body.error.message, /no model is loaded/);
  assert.equal((await fetch(`${s.url}/health`)).status, 503);
  assert.deepEqual((await s.json('GET', '/api/ps')).body, { models: [] });
  const asked = await s.json('POST', '/api/generate', {}); // Ollama's clients ask so for the model to be loaded
  assert.deepEqual([asked.status, /not loaded/.test(asked.body.error)], [503, true], asked.text);
  assert.equal((await load(refusing)).status, 202);
  assert.equal((await phase('unloaded')).error, 'it does not fit, as ordered');
  assert.equal((await load(other)).status, 202);
  await phase('ready');
  await answers('other');
});

test('a model is loaded from the hub, with its progress, and can then be used', async () => {
  const now = (await state()).pull;
  assert.equal(now, null);
  const files = modelFiles(demo);
  hub.files = files;
  for (const repo of ['', 'name', '../x', '-x/y', 'a/b c', 7]) assert.equal((await s.json('POST', '/api/admin/models/pull', { repo })).status, 400, String(repo));
  assert.equal((await s.json('POST', '/api/admin/models/pull', { repo: 'lab/tiny' })).status, 202);
  let seen = 0;
  for (const end = Date.now() + PATIENCE; ; await sleep(50)) {
    const { pull } = await state();
    seen = Math.max(seen, pull?.got ?? 0);
    if (pull?.phase === 'done') { assert.equal(pull.got, pull.total); break; }
    assert.ok(pull === null || pull.phase === 'running', JSON.stringify(pull));
    assert.ok(Date.now() < end, JSON.stringify(pull));
  }
  assert.ok(seen > 20e6);
  const there = (await state()).items.find((m) => m.name === 'tiny');
  assert.equal((await load(there.path)).status, 202);
  await phase('ready');
  await answers('tiny');
  assert.equal((await s.json('POST', '/api/admin/models/pull', { repo: 'lab/nothing' })).status, 202);
  const pull = await eventually(async () => {
    const { pull: now } = await state();
    assert.ok(now.repo === 'lab/nothing' && now.phase !== 'running', JSON.stringify(now));
    return now;
  });
  assert.equal(pull.phase, 'failed');
  assert.ok(pull.error.length > 10, pull.error);
  assert.equal((await load(other)).status, 202);
  await phase('ready');
});

test('a download that cannot begin is told as one that failed', async () => {
  renameSync(models, `${models}-aside`);
  try {
    writeFileSync(models, 'no folder');
    assert.equal((await s.json('POST', '/api/admin/models/pull', { repo: 'lab/late' })).status, 202);
    const pull = await eventually(async () => {
      const { pull: now } = await state();
      assert.ok(now?.repo === 'lab/late' && now.phase !== 'running', JSON.stringify(now));
      return now;
    });
    assert.equal(pull.phase, 'failed');
    assert.match(pull.error, /not a folder/);
  } finally {
    rmSync(models);
    renameSync(`${models}-aside`, models);
  }
});

test('Ollama\'s clients follow a pull to its end, and hear why one fails', async () => {
  for (const model of ['lab/tiny', 'hf.co/lab/tiny:latest']) {
    const r = await s.request('POST', '/api/pull', { model });
    assert.equal(r.headers.get('content-type'), 'application/x-ndjson');
    const list = (await r.text()).trim().split('\n').map((l) => JSON.parse(l));
    assert.deepEqual(list.at(-1), { status: 'success' }, JSON.stringify(list));
    const told = list.filter((l) => l.total);
    assert.ok(told.every((l) => l.completed <= l.total && l.digest === 'lab/tiny'), JSON.stringify(told));
  }
  assert.deepEqual((await s.json('POST', '/api/pull', { model: 'lab/tiny', stream: false })).body, { status: 'success' });
  const gone = await s.json('POST', '/api/pull', { model: 'lab/nothing', stream: false });
  assert.deepEqual([gone.status, /^lab\/nothing was not loaded: /.test(gone.body.error)], [404, true], gone.text);
  const last = (await (await s.request('POST', '/api/pull', { model: 'lab/nothing' })).text()).trim().split('\n').at(-1);
  assert.match(JSON.parse(last).error, /^lab\/nothing was not loaded: /);
  const log = await s.json('GET', '/api/admin/audit');
  assert.ok(JSON.stringify(log.body).includes('model.pull'));
});

test('only what is listed, in time that makes sense', async () => {
  assert.equal((await load('/etc')).status, 404);
  assert.equal((await load(path.join(models, '..'))).status, 404);
  assert.equal((await load(other, -1)).status, 400);
  assert.equal((await s.json('POST', '/api/admin/models/load', {})).body.error.param, 'path');
  assert.equal((await s.json('POST', '/api/admin/models/load', { path: 7 })).status, 400);
  assert.equal((await state()).phase, 'ready');
});

test('the choice is written down: for the next start, and for the audit log', async () => {
  assert.equal(readFileSync(path.join(s.dir, 'state/model'), 'utf8'), other);
  const log = await s.json('GET', '/api/admin/audit');
  assert.equal(log.status, 200);
  for (const what of ['model.load', 'model.unload']) assert.ok(log.text.includes(what), what);
});
