// GET /v1/models and /v1/models/{id}: the `sluice` object has the facts that `sluice info` prints.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { demo, program, start } from './harness.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

test('the model is listed and found by its id; another is 404', async () => {
  const list = await s.json('GET', '/v1/models');
  assert.equal(list.status, 200);
  assert.equal(list.body.object, 'list');
  const [model] = list.body.data;
  const one = await s.json('GET', `/v1/models/${model.id}`);
  assert.equal(one.status, 200);
  assert.deepEqual(one.body, model);
  const none = await s.json('GET', '/v1/models/gpt-9');
  assert.equal(none.status, 404);
  assert.equal(none.body.error.code, 'model_not_found');
});

test('its facts are those of sluice info', async () => {
  const { sluice } = (await s.json('GET', '/v1/models')).body.data[0];
  const info = JSON.parse(execFileSync(program('sluice'), ['info', demo, '--json', '--backend', 'cpu']));
  for (const k of ['family', 'layers', 'attention_layers', 'recurrent_layers', 'vocabulary', 'fingerprint', 'parameters', 'active_parameters',
    'file_bytes', 'weight_bytes', 'expert_bytes', 'active_bytes', 'parts', 'unused_tensors', 'kv_bytes_per_token', 'state_bytes'])
    assert.deepEqual(sluice[k], info[k], k);
  assert.equal(sluice.context_trained, info.context);
  assert.deepEqual(Object.keys(sluice.parts.experts.formats).length > 0, true);
  assert.equal(Object.values(sluice.parts).reduce((a, p) => a + p.bytes, 0), info.weight_bytes);
});
