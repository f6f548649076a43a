// The search on the hub for the admin's page: found and planned by `sluice up`, pulled as it was planned, and run as it was shown.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { demo, eventually, start } from './harness.mjs';

const files = () => modelFiles(demo);
const other = () => ({ 'config.json': { data: Buffer.from('{"model_type": "other", "architectures": ["OtherForCausalLM"]}') } });
let s, hub;
before(async () => {
  hub = await startHub(files(), { blobs: true, others: { 'lab/tiny-other': other() } });
  s = await start({ args: ['--hub', hub.url, '--slots', '3', '--ctx', '4096'] });
});
after(async () => {
  await s?.stop();
  hub?.stop();
});

const PATH = '/api/admin/models/search';
const found = async () => (await s.json('GET', PATH)).body;
async function search(body) {
  const r = await s.json('POST', PATH, body);
  assert.equal(r.status, 202, r.text);
  let now;
  await eventually(async () => {
    now = await found();
    assert.ok(now.query !== (body.query ?? '') || ['done', 'failed'].includes(now.phase), JSON.stringify(now));
  });
  assert.equal(now.query, body.query ?? '', 'another question\'s answer is never shown');
  return now;
}
const models = (phase, pull) => eventually(async () => {
  const { body } = await s.json('GET', '/api/admin/models');
  assert.ok(phase ? body.phase === phase : body.pull && body.pull.phase !== 'running', JSON.stringify(body));
  return pull ? body.pull : body;
});

test('what is found is planned, pulled as it was planned, and runs as it was shown', async () => {
  assert.deepEqual(await found(), { query: null, phase: 'none', error: null, items: [] });
  const { phase, error, items } = await search({ query: 'tiny' });
  assert.deepEqual([phase, error, items.map((i) => [i.name, i.fit.verdict])], ['done', null, [['hf.co/lab/tiny', 'fits'], ['hf.co/lab/tiny-other', 'unsupported']]]);
  const [tiny] = items;
  assert.ok(tiny.fit.tokens_per_s_low > 0 && tiny.fit.tokens_per_s_low < tiny.fit.tokens_per_s_high);
  assert.ok(hub.loads().filter((q) => q.host === 'other').every((q) => Number(/-(\d+)$/.exec(q.range)?.[1] ?? 0) < 1 << 20), 'no weights were loaded to plan');
  assert.deepEqual(readdirSync(path.join(s.dir, 'state/models')), [], 'and nothing lies in the folder of models');
  hub.log.length = 0;
  assert.equal((await s.json('POST', '/api/admin/models/pull', { repo: tiny.pull })).status, 202);
  const pull = await models(null, true);
  assert.deepEqual([pull.phase, pull.repo, pull.got], ['done', tiny.pull, tiny.fit.bytes]);
  assert.ok(hub.log.some((q) => q.path.endsWith(`/revision/${hub.commit}`)), 'of the commit that was planned');
  const there = path.join(s.dir, 'state/models/tiny');
  assert.equal((await s.json('POST', '/api/admin/models/load', { path: there, grace_s: 0 })).status, 202);
  await models('ready');
  const { plan } = (await s.json('GET', '/api/admin/status')).body;
  const steady = (p) => ['strategy', 'weight_bytes', 'dense_bytes', 'expert_bytes', 'expert_cache_bytes', 'kv_bytes', 'kv_type', 'state_bytes', 'work_bytes', 'device_bytes', 'host_bytes',
    'n_ctx', 'n_slots', 'n_blocks', 'max_rows', 'gpu_layers', 'cpu_layers'].map((k) => [k, p[k]]);
  assert.deepEqual(steady(tiny.fit.plan), steady(plan));
  assert.deepEqual([plan.n_slots, plan.n_ctx], [3, 4096], 'with the server\'s own options');
});

test('without a word: known models, of which this hub has none', async () => {
  const { phase, items } = await search({ limit: 3 });
  assert.equal(phase, 'done');
  assert.ok(items.length > 0 && items.length <= 3);
  for (const i of items) assert.deepEqual([i.fit.verdict, i.memory_gb > 0, i.downloads], ['unknown', true, null], i.name);
});

test('a new question ends the one before, and what fails is said', async () => {
  hub.fault = (req) => (/config\.json/.test(req.url) ? { slow: 2 } : null);
  assert.equal((await s.json('POST', PATH, { query: 'tiny-other' })).status, 202);
  await eventually(async () => assert.equal((await found()).phase, 'planning'));
  hub.fault = () => null;
  hub.search = () => [];
  assert.deepEqual(await search({ query: 'none' }), { query: 'none', phase: 'done', error: null, items: [] });
  hub.search = () => '{';
  const failed = await search({ query: 'broken' });
  assert.deepEqual([failed.phase, /answer to the search/.test(failed.error), failed.items], ['failed', true, []]);
  hub.search = undefined;
  assert.deepEqual(readdirSync(path.join(s.dir, 'state/models')), ['tiny'], 'heads of the search that was ended are gone');
});

test('only admins, and words that can be a question', async () => {
  for (const [body, field] of [[{ query: 7 }, 'query'], [{ query: 'x'.repeat(201) }, 'query'], [{ limit: 0 }, 'limit'], [{ limit: 31 }, 'limit']]) {
    const r = await s.json('POST', PATH, body);
    assert.deepEqual([r.status, r.body.error.param], [400, field], r.text);
  }
  const { key } = (await s.json('POST', '/api/keys', { name: 'inference only', scopes: ['inference'] })).body;
  for (const method of ['GET', 'POST']) assert.equal((await s.json(method, PATH, method === 'POST' ? { query: 'x' } : undefined, { authorization: `Bearer ${key}` })).status, 403);
  assert.equal((await s.json('POST', '/api/admin/models/pull', { repo: 'hf.co/lab/tiny:Q8_0', include: '*.gguf' })).body.error.param, 'include');
  assert.ok(!existsSync(path.join(s.dir, 'state/search.request')));
});
