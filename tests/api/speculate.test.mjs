// Drafts (docs/speculation.md): asked for by the server and by a request, shown as applied, counted; no answer changes.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, PATIENCE, start } from './harness.mjs';

let s, off, plain; // `plain` has nothing but what the demo model's own files have: a next-token layer
before(async () => { [s, off, plain] = await Promise.all([start({ args: ['--draft-model', 'auto'] }), start({ args: ['--speculate', 'off'] }), start({ args: [] })]); });
after(() => Promise.all([s?.stop(), off?.stop(), plain?.stop()]));

const line = 'The quick brown fox jumps over the lazy dog. ';
const repeated = { prompt: line.repeat(12), max_tokens: 120, ignore_eos: true, seed: 3 };
const complete = async (server, more) => {
  const { status, body } = await server.json('POST', '/v1/completions', { ...repeated, ...more });
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};

/** Which drafts are tried follows from how long steps took; where others have the processor meanwhile, now and then only. */
const patience = (end = Date.now() + PATIENCE) => () => Date.now() < end;

for (const temperature of [0, 0.8]) test(`answers are those without drafts at temperature ${temperature}, log probabilities too`, async () => {
  const without = await complete(s, { temperature, speculate: 'off', logprobs: 3 });
  assert.deepEqual([without.timings.speculation.applied, without.timings.speculation.drafted], ['off', 0]);
  for (const [server, speculate] of [[s, 'auto'], [s, 'ngram'], [s, 'draft'], [s, undefined], [plain, 'mtp'], [plain, 'auto']]) {
    const drafted = await complete(server, { temperature, speculate, logprobs: 3 });
    assert.deepEqual(drafted.choices, without.choices);
    assert.equal(drafted.usage.completion_tokens, without.usage.completion_tokens);
    if (speculate) assert.equal(drafted.timings.speculation.applied, speculate);
  }
  assert.deepEqual((await complete(off, { temperature, logprobs: 3 })).choices, without.choices);
});

test('what drafts did is counted: in timings, and over all answers in the metrics', async () => {
  const names = ['spec_decode_num_draft_tokens_total', 'spec_decode_num_accepted_tokens_total', 'spec_decode_num_drafts_total'];
  const figures = () => Promise.all(names.map((n) => s.metric(n)));
  let first = await figures(), sum = [0, 0, 0], seen;
  for (const patient = patience(); !sum[1] && patient();) { // an engine that was just started times plain steps first
    const { timings: { speculation: x } } = await complete(s, { temperature: 0 });
    sum = [sum[0] + x.drafted, sum[1] + x.accepted, sum[2] + x.steps];
    seen = x;
    assert.equal(x.drafted_at.reduce((a, b) => a + b, 0), x.drafted);
    assert.equal(x.accepted_at.reduce((a, b) => a + b, 0), x.accepted);
    assert.ok(x.accepted <= x.drafted && x.draft_ms >= 0 && x.verify_ms >= 0);
    assert.equal(x.applied, 'auto');
  }
  assert.ok(sum[1] > 0, JSON.stringify(seen));
  assert.deepEqual((await figures()).map((v, i) => v - first[i]), sum);
});

test('a prediction is where drafts come from, and its tokens are counted apart', async () => {
  const question = { messages: [{ role: 'user', content: 'Tell me a story' }], max_tokens: 60, temperature: 0, ignore_eos: true };
  const ask = async (more) => {
    const { status, body } = await s.json('POST', '/v1/chat/completions', { ...question, ...more });
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const plain = await ask({ speculate: 'off' }), text = plain.choices[0].message.content;
  assert.deepEqual([plain.usage.completion_tokens_details.accepted_prediction_tokens, plain.usage.completion_tokens_details.rejected_prediction_tokens], [0, 0]);
  const patient = patience();
  let accepted = 0;
  for (const content of [text, [{ type: 'text', text: text.slice(0, 40) }, { type: 'text', text: text.slice(40) }]])
    for (let i = 0; i < 4 || (!accepted && patient()); i++) {
      const body = await ask({ prediction: { type: 'content', content } });
      assert.equal(body.choices[0].message.content, text);
      assert.equal(body.ignored, undefined);
      accepted += body.usage.completion_tokens_details.accepted_prediction_tokens;
      assert.ok(body.usage.completion_tokens_details.rejected_prediction_tokens >= 0);
    }
  assert.ok(accepted > 0);
});

test('wrong words are refused by name', async () => {
  const ask = (more) => s.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1, ...more });
  for (const [more, field, words] of [
    [{ speculate: 'fast' }, 'speculate', /unknown, want auto, off, ngram, draft, mtp or dflash/],
    [{ speculate: 3 }, 'speculate', /string/],
    [{ speculate: 'mtp' }, 'speculate', /without the model's next-token layer/],
    [{ speculate: 'dflash' }, 'speculate', /without a DFlash drafter/],
    [{ prediction: 'x' }, 'prediction', /object/],
    [{ prediction: { type: 'tokens', content: 'x' } }, 'prediction.type', /content/],
    [{ prediction: { type: 'content' } }, 'prediction.content', /string or a list/],
    [{ prediction: { type: 'content', content: [{ type: 'image' }] } }, 'prediction.content[0]', /text/],
    [{ prediction: { type: 'content', content: 'ab '.repeat(90000) } }, 'prediction.content', /at most 65536/],
  ]) {
    const { status, body } = await ask(more);
    assert.equal(status, 400, JSON.stringify([more, body]).slice(0, 300));
    assert.equal(body.error.param, field);
    assert.match(body.error.message, words);
  }
});

test('what runs is shown, and a server without drafts says so', async () => {
  for (const [server, applied] of [[s, 'auto'], [off, 'off']]) {
    assert.equal((await server.json('GET', '/api/admin/status')).body.speculation.applied, applied);
    assert.equal((await server.json('GET', '/v1/models')).body.data[0].sluice.speculate, applied);
  }
  assert.equal((await complete(off, { speculate: 'auto' })).timings.speculation.applied, 'off');
  const { status, body } = await off.json('POST', '/v1/completions', { ...repeated, speculate: 'ngram' });
  assert.deepEqual([status, body.error.param], [400, 'speculate']);
  assert.match(body.error.message, /--speculate off/);
});

test('the demo model has a draft model beside it, which takes what it says', async () => {
  const { speculation } = (await s.json('GET', '/api/admin/status')).body;
  assert.equal(speculation.draft_model, 'draft');
  assert.ok(speculation.draft_host_bytes > 1e6 && speculation.draft_host_bytes < 1e8, JSON.stringify(speculation));
  assert.equal((await s.json('GET', '/v1/models')).body.data[0].sluice.draft_model, 'draft');
  const { timings: { speculation: x } } = await complete(s, { temperature: 0, speculate: 'draft' });
  assert.equal(x.applied, 'draft');
});

test('a draft model is read behind links as well: a folder that points elsewhere, whose files point on', async (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'linked-model-')), model = path.join(dir, 'model'), elsewhere = path.join(dir, 'elsewhere');
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  for (const [to, from] of [[model, demo], [elsewhere, path.join(demo, 'draft')]]) {
    mkdirSync(to);
    for (const f of readdirSync(from)) if (f !== 'draft') symlinkSync(path.join(from, f), path.join(to, f));
  }
  symlinkSync(elsewhere, path.join(model, 'draft'));
  const linked = await start({ model, args: ['--draft-model', 'auto'] });
  t.after(() => linked.stop());
  const { speculation } = (await linked.json('GET', '/api/admin/status')).body;
  assert.deepEqual([speculation.draft_model, speculation.note], ['draft', ''], linked.log);
});

test('the demo model has a next-token layer, which is used and shown where there is no draft model', async () => {
  const { speculation } = (await plain.json('GET', '/api/admin/status')).body;
  assert.ok(speculation.mtp_host_bytes > 7e5 && speculation.mtp_host_bytes < 1e8, JSON.stringify(speculation));
  assert.deepEqual([speculation.applied, speculation.note, speculation.draft_model, speculation.draft_host_bytes], ['auto', '', '', 0]);
  assert.equal((await plain.json('GET', '/v1/models')).body.data[0].sluice.mtp, true);
  assert.match(plain.log, /"mtp_bytes":\d+/);
  assert.equal((await s.json('GET', '/api/admin/status')).body.speculation.mtp_host_bytes, 0); // the draft model is asked
  assert.equal((await s.json('GET', '/v1/models')).body.data[0].sluice.mtp, undefined);
});

/** A DFlash drafter of random values for the demo model, as files of z-lab's are named. */
function randomDflash(dir) {
  const d = 512, shapes = { 'fc': [d, 2 * d], 'hidden_norm': [d], 'norm': [d], 'layers.0.input_layernorm': [d], 'layers.0.post_attention_layernorm': [d], 'layers.0.self_attn.q_norm': [32], 'layers.0.self_attn.k_norm': [32],
    'layers.0.self_attn.q_proj': [64, d], 'layers.0.self_attn.k_proj': [32, d], 'layers.0.self_attn.v_proj': [32, d], 'layers.0.self_attn.o_proj': [d, 64], 'layers.0.mlp.gate_proj': [64, d], 'layers.0.mlp.up_proj': [64, d], 'layers.0.mlp.down_proj': [d, 64] };
  const header = {}, data = [];
  let at = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => (shape.length === 1 ? 1 : (Math.random() - 0.5) / 8));
    header[`${name}.weight`] = { dtype: 'F32', shape, data_offsets: [at, at += values.byteLength] };
    data.push(Buffer.from(values.buffer));
  }
  const text = JSON.stringify(header).padEnd(4096), length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path.join(dir, 'model.safetensors'), Buffer.concat([length, Buffer.from(text), ...data]));
  writeFileSync(path.join(dir, 'config.json'), JSON.stringify({ architectures: ['DFlashDraftModel'], model_type: 'qwen3', hidden_size: d, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, head_dim: 32,
    intermediate_size: 64, vocab_size: 8192, max_position_embeddings: 4096, rms_norm_eps: 1e-6, rope_theta: 10000, block_size: 8, num_target_layers: 8, dflash_config: { mask_token_id: 8183, target_layer_ids: [1, 6] } }));
}

test('a DFlash drafter is named as a draft model is, shown, and changes no answer; a prompt may be longer than its window', async (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'dflash-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  randomDflash(dir);
  const server = await start({ args: ['--draft-model', dir, '--speculate', 'dflash'] });
  t.after(() => server.stop());
  const { speculation } = (await server.json('GET', '/api/admin/status')).body;
  assert.deepEqual([speculation.applied, speculation.note, speculation.draft_model, speculation.mtp_host_bytes], ['dflash', '', path.basename(dir), 0], server.log);
  for (const temperature of [0, 0.8]) {
    const more = { temperature, logprobs: 2, prompt: line.repeat(70) }, without = await complete(server, { ...more, speculate: 'off' });
    for (const speculate of ['dflash', 'auto']) assert.deepEqual((await complete(server, { ...more, speculate })).choices, without.choices);
  }
  const { status, body } = await server.json('POST', '/v1/completions', { ...repeated, speculate: 'mtp' });
  assert.deepEqual([status, body.error.param], [400, 'speculate']);
});

test('a server without a draft model refuses requests that ask for it', async () => {
  assert.equal((await plain.json('GET', '/v1/models')).body.data[0].sluice.draft_model, undefined);
  const { status, body } = await plain.json('POST', '/v1/completions', { ...repeated, speculate: 'draft' });
  assert.deepEqual([status, body.error.param], [400, 'speculate']);
  assert.match(body.error.message, /without a draft model/);
});

test('a draft model and a next-token layer keep to the grammar, and the answer is the one without it', async () => {
  const schema = { type: 'array', minItems: 3, items: { type: 'object', properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 1, maximum: 99 } }, required: ['name', 'age'], additionalProperties: false } };
  for (const temperature of [0, 0.8]) {
    const ask = async (server, speculate) => {
      const { status, body } = await server.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Name three people.' }], max_tokens: 150, temperature, seed: 5, speculate, response_format: { type: 'json_schema', json_schema: { name: 'people', schema } } });
      assert.equal(status, 200, JSON.stringify(body));
      return body.choices;
    };
    const without = await ask(s, 'off');
    for (let i = 0; i < 3; i++) for (const [server, speculate] of [[s, 'draft'], [plain, 'mtp']]) assert.deepEqual(await ask(server, speculate), without);
  }
});
