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

test('aliases are other names of the model, for every endpoint', async () => {
  const set = (v) => s.json('PATCH', '/api/admin/settings', { model_aliases: v });
  const real = (await s.json('GET', '/v1/models')).body.data[0].id;
  const status = async (model) => (await s.chat({ model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 2 })).status;
  assert.deepEqual([await status('sonnet'), await status('claude-x')], [404, 404]);
  assert.equal((await set('sonnet  gpt-4o claude-*')).status, 200);
  assert.deepEqual(await Promise.all(['sonnet', 'gpt-4o', 'claude-x', 'claude', 'gpt-4', 'sonnet2'].map(status)), [200, 200, 200, 404, 404, 404]);
  const answer = await s.chat({ model: 'sonnet', messages: [{ role: 'user', content: 'hi' }], max_tokens: 2 });
  assert.equal(answer.body.model, real); // who answered, not who was asked for
  const { body } = await s.json('GET', '/v1/models');
  assert.deepEqual(body.data.map((m) => [m.id, m.sluice.alias_of]), [[real, undefined], ['sonnet', real], ['gpt-4o', real]]);
  assert.deepEqual([body.has_more, body.first_id, body.last_id], [false, real, 'gpt-4o']);
  const page = async (query) => { const r = await s.json('GET', `/v1/models?${query}`); return [r.body.data.map((m) => m.id), r.body.has_more]; };
  assert.deepEqual(await page('limit=1'), [[real], true]);
  assert.deepEqual(await page(`limit=1&after_id=${real}`), [['sonnet'], true]);
  assert.deepEqual(await page('after_id=gpt-4o'), [[], false]);
  assert.deepEqual(await page('before_id=gpt-4o'), [[real, 'sonnet'], false]);
  assert.equal((await s.json('GET', '/v1/models/claude-haiku')).body.id, real);
  assert.equal((await set('*')).status, 200);
  assert.equal(await status('anything'), 200);
  await set(null);
  assert.equal(await status('sonnet'), 404);
});

test('a prompt that is too long is refused in the words by which each client compacts', async () => {
  const context = (await s.json('GET', '/v1/models')).body.data[0].max_model_len;
  const messages = [{ role: 'user', content: 'word '.repeat(3 * context) }];
  const m = await s.json('POST', '/v1/messages', { max_tokens: 5, messages });
  const found = /^prompt is too long: (\d+) tokens > (\d+) maximum$/.exec(m.body.error.message);
  assert.ok(found, m.text);
  assert.deepEqual([m.status, m.body.error.type, Number(found[2])], [400, 'invalid_request_error', context]);
  const counted = await s.json('POST', '/v1/messages/count_tokens', { messages });
  assert.equal(counted.body.input_tokens, Number(found[1]));
  const words = new RegExp(`^This model's maximum context length is ${context} tokens\\. However, your messages resulted in \\d+ tokens\\. Please reduce the length of the messages\\.$`);
  for (const [path, body, param] of [['/v1/chat/completions', { messages }, 'messages'], ['/v1/responses', { input: messages[0].content }, 'input']]) {
    const r = await s.json('POST', path, body);
    assert.match(r.body.error.message, words);
    assert.deepEqual([r.status, r.body.error.param, r.body.error.code], [400, param, 'context_length_exceeded'], r.text);
  }
  const text = await s.json('POST', '/v1/completions', { prompt: messages[0].content });
  assert.match(text.body.error.message, words);
});

test('truncation: auto drops the oldest turns until the conversation fits', async () => {
  const turn = (i) => [{ role: 'user', content: `TURN-${i} ${'word '.repeat(400)}` }, { role: 'assistant', content: 'yes' }];
  const input = [{ role: 'developer', content: 'Be brief.' }, ...Array.from({ length: 20 }, (_, i) => turn(i)).flat(), { role: 'user', content: 'The last question?' }];
  const refused = await s.json('POST', '/v1/responses', { input, max_output_tokens: 4 });
  assert.equal(refused.body.error.code, 'context_length_exceeded');
  const r = await s.json('POST', '/v1/responses', { input, max_output_tokens: 4, truncation: 'auto' });
  assert.equal(r.status, 200, r.text);
  const context = (await s.json('GET', '/v1/models')).body.data[0].max_model_len;
  assert.ok(r.body.usage.input_tokens > context * 0.6 && r.body.usage.input_tokens <= context - 4, `${r.body.usage.input_tokens} of ${context}`);
  const [warning] = r.body.warnings;
  assert.equal(warning.field, 'truncation');
  assert.match(warning.message, /^\d+ of the oldest messages were dropped/);
  const short = await s.json('POST', '/v1/responses', { input: 'hi', max_output_tokens: 4, truncation: 'auto' });
  assert.equal(short.body.warnings, undefined);
  const alone = await s.json('POST', '/v1/responses', { input: 'word '.repeat(3 * context), truncation: 'auto' });
  assert.equal(alone.body.error.code, 'context_length_exceeded'); // the last turn stays
});
