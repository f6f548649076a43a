// Embeddings and rerank over real engines of tiny models, whose vectors and scores sentence-transformers and transformers gave.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { load, modelReady, sideModels, sidesReady, start, top } from './harness.mjs';

const data = path.join(top, 'tests/data/embedding');
const bert = JSON.parse(readFileSync(path.join(data, 'bert/golden.json')));
const xlmr = JSON.parse(readFileSync(path.join(data, 'xlmr/golden.json')));
const qwen3 = JSON.parse(readFileSync(path.join(data, 'qwen3/golden.json')));
const n = bert.vectors[0].length;
let s;

const cosine = (a, b) => {
  const dot = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};
const embed = (body) => s.json('POST', '/v1/embeddings', body);
const rerank = (body) => s.json('POST', '/v1/rerank', body);
const near = (got, want, what) => assert.ok(cosine(got, want) > 0.99999, `${what}: ${cosine(got, want)}`);

before(async () => {
  s = await start({ args: sideModels });
  await sidesReady(s);
});
after(() => s?.stop());

test('texts become the vectors of sentence-transformers', async () => {
  const r = await embed({ model: 'bert', input: bert.texts });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual([r.body.object, r.body.model, r.body.data.length], ['list', 'bert', bert.texts.length]);
  r.body.data.forEach((d, i) => {
    assert.deepEqual([d.object, d.index, d.embedding.length], ['embedding', i, n]);
    near(d.embedding, bert.vectors[i], bert.texts[i]);
  });
  const tokens = bert.ids.reduce((sum, ids) => sum + ids.length + 2, 0); // [CLS] and [SEP]
  assert.deepEqual(r.body.usage, { prompt_tokens: tokens, total_tokens: tokens });
});

test('one text, tokens, lists of tokens and base64 give the same vector', async () => {
  const one = (await embed({ input: bert.texts[1] })).body.data[0].embedding;
  near(one, bert.vectors[1], 'a text alone');
  const whole = [2, ...bert.ids[1], 3];
  for (const input of [whole, [whole]]) {
    const r = await embed({ input });
    assert.equal(r.status, 200, r.text);
    assert.deepEqual(r.body.data[0].embedding, one);
    assert.equal(r.body.usage.prompt_tokens, whole.length);
  }
  const packed = Buffer.from((await embed({ input: bert.texts[1], encoding_format: 'base64' })).body.data[0].embedding, 'base64');
  assert.deepEqual([...new Float32Array(packed.buffer.slice(packed.byteOffset, packed.byteOffset + packed.length))].map(Math.fround), one.map(Math.fround));
});

test('fewer dimensions are the first ones, at length 1', async () => {
  const few = (await embed({ input: bert.texts[0], dimensions: 8 })).body.data[0].embedding;
  assert.equal(few.length, 8);
  near(few, bert.vectors[0].slice(0, 8), '8 dimensions');
  assert.ok(Math.abs(few.reduce((sum, v) => sum + v * v, 0) - 1) < 1e-5);
});

test('what is wrong is named', async () => {
  for (const [body, status, param] of [
    [{}, 400, 'input'], [{ input: [] }, 400, 'input'], [{ input: 5 }, 400, 'input'], [{ input: {} }, 400, 'input'],
    [{ input: ['a', 5] }, 400, 'input[1]'], [{ input: [1, 99999] }, 400, 'input'], [{ input: [[1.5]] }, 400, 'input[0]'],
    [{ input: 'x', dimensions: n + 1 }, 400, 'dimensions'], [{ input: 'x', dimensions: 0 }, 400, 'dimensions'],
    [{ input: 'x', encoding_format: 'int8' }, 400, 'encoding_format'], [{ input: 'the '.repeat(200) }, 400, 'input'],
    [{ input: Array(2049).fill('x') }, 400, 'input[2048]'],
    [{ input: 'x', model: 'demo-model' }, 400, 'model'], [{ input: 'x', model: 'xlmr' }, 400, 'model'], [{ input: 'x', model: 'nothing' }, 404, 'model']]) {
    const r = await embed(body);
    assert.deepEqual([r.status, r.body.error?.param], [status, param], `${JSON.stringify(body).slice(0, 80)}: ${r.text.slice(0, 300)}`);
    assert.equal(r.headers.get('x-should-retry'), 'false');
  }
  assert.equal((await embed({ input: 'the '.repeat(200), truncate: true })).body.usage.prompt_tokens, 64);
  assert.equal((await s.json('GET', '/v1/embeddings')).status, 405);
  assert.equal((await s.json('POST', '/v1/embeddings', { input: 'x' }, { authorization: 'Bearer no' })).status, 401);
});

test('documents are ranked by the scores of transformers', async () => {
  const [query] = xlmr.pairs[0], documents = xlmr.pairs.map((p) => p[1]);
  const r = await rerank({ model: 'xlmr', query, documents });
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.results.length, documents.length);
  for (const { index, relevance_score: score } of r.body.results) assert.ok(Math.abs(score - xlmr.scores[index]) < 2e-3, `${index}: ${score}, want ${xlmr.scores[index]}`);
  const scores = r.body.results.map((x) => x.relevance_score);
  assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
  assert.equal(r.body.usage.prompt_tokens, xlmr.pair_ids.reduce((sum, ids) => sum + ids.length, 0));
  const top2 = await rerank({ query, documents: documents.map((text) => ({ text })), top_n: 2, return_documents: true });
  assert.deepEqual(top2.body.results.map((x) => x.index), r.body.results.slice(0, 2).map((x) => x.index));
  assert.equal(top2.body.results[0].document.text, documents[top2.body.results[0].index]);
  for (const where of ['/rerank', '/v2/rerank']) assert.equal((await s.json('POST', where, { query, documents })).status, 200);
});

test('a decoder judges documents as it was trained to', async () => {
  const judge = await start({ args: ['--rerank-model', path.join(data, 'qwen3')] });
  try {
    await modelReady(judge, 'qwen3');
    const [query] = qwen3.pairs[0], documents = qwen3.pairs.map((p) => p[1]);
    const r = await judge.json('POST', '/v1/rerank', { query, documents });
    assert.equal(r.status, 200, r.text);
    for (const { index, relevance_score: score } of r.body.results) assert.ok(Math.abs(score - qwen3.scores[index]) < 2e-3, `${index}: ${score}, want ${qwen3.scores[index]}`);
    assert.equal(r.body.usage.prompt_tokens, qwen3.pair_ids.reduce((sum, ids) => sum + ids.length, 0));
    const asked = await judge.json('POST', '/v1/rerank', { query, documents, instruction: 'Answer '.repeat(600) });
    assert.deepEqual([asked.status, asked.body.error?.param, asked.body.error?.code], [400, 'query', 'context_length_exceeded'], asked.text);
  } finally {
    await judge.stop();
  }
});

test('bad rerank requests are named', async () => {
  for (const [body, status, param] of [[{ documents: ['a'] }, 400, 'query'], [{ query: 'a' }, 400, 'documents'], [{ query: 'a', documents: [] }, 400, 'documents'],
    [{ query: 'a', documents: [5] }, 400, 'documents[0]'], [{ query: 'a', documents: ['b', {}] }, 400, 'documents[1]'],
    [{ query: 'the '.repeat(200), documents: ['b'] }, 400, 'query'],
    [{ query: 'a', documents: ['b'], top_n: 0 }, 400, 'top_n'], [{ query: 'a', documents: ['the '.repeat(200)], truncate: false }, 400, 'documents[0]'],
    [{ query: 'a', documents: ['b'], model: 'bert' }, 400, 'model'], [{ query: 'a', documents: ['b'], model: 'nothing' }, 404, 'model']]) {
    const r = await rerank(body);
    assert.deepEqual([r.status, r.body.error?.param], [status, param], `${JSON.stringify(body).slice(0, 80)}: ${r.text.slice(0, 300)}`);
  }
});

test("Ollama's clients get the same vectors", async () => {
  const r = await s.json('POST', '/api/embed', { model: 'bert:latest', input: bert.texts.slice(0, 2) });
  assert.equal(r.status, 200, r.text);
  r.body.embeddings.forEach((v, i) => near(v, bert.vectors[i], `text ${i}`));
  assert.equal(r.body.prompt_eval_count, bert.ids[0].length + bert.ids[1].length + 4);
  const old = await s.json('POST', '/api/embeddings', { model: 'bert', prompt: bert.texts[0] });
  near(old.body.embedding, bert.vectors[0], 'the older form');
  const long = await s.json('POST', '/api/embed', { model: 'bert', input: ['a', 'the '.repeat(200)], truncate: false });
  assert.deepEqual([long.status, /^input: text 1 has \d+ tokens, the model takes 64/.test(long.body.error)], [400, true], long.text);
  const none = await s.json('POST', '/api/embed', { model: 'nothing', input: 'x' });
  assert.equal(none.status, 404);
  assert.equal(typeof none.body.error, 'string');
});

test("OpenAI's client library unpacks what it asks for", async () => {
  const { default: OpenAI } = await load('openai');
  const client = new OpenAI({ baseURL: `${s.url}/v1`, apiKey: s.key });
  const r = await client.embeddings.create({ model: 'bert', input: bert.texts.slice(0, 3) }); // base64, unless it is asked otherwise
  r.data.forEach((d, i) => near([...d.embedding], bert.vectors[i], bert.texts[i]));
});

test('models say what they are for', async () => {
  const { data: list } = (await s.json('GET', '/v1/models')).body;
  assert.equal(list[0].id, 'demo-model');
  const of = Object.fromEntries(list.map((m) => [m.id, m.sluice]));
  assert.deepEqual([of.bert.task, of.bert.dimensions, of.bert.pooling, of.bert.context, of.bert.state], ['embed', n, 'mean', 64, 'ready']);
  assert.deepEqual([of.xlmr.task, of.xlmr.dimensions, of.xlmr.state], ['score', undefined, 'ready']);
});

test('tokens count for the user, and a limit of tokens holds', async () => {
  const before = (await s.json('GET', '/api/usage')).body;
  const { usage } = (await embed({ input: bert.texts })).body;
  const now = (await s.json('GET', '/api/usage')).body;
  assert.equal(JSON.stringify(before) === JSON.stringify(now), false);
  assert.ok(usage.prompt_tokens > 0);
});

const limited = async (server, limits) => {
  const { key } = (await server.json('POST', '/api/keys', { name: 'of a test', limits })).body;
  return { authorization: `Bearer ${key}` };
};

test('what may be asked again later is not said to be in vain', async () => {
  const as = await limited(s, { tokens_per_minute: 5 });
  for (const [where, body] of [['/v1/embeddings', { input: bert.texts[0] }], ['/v1/rerank', { query: 'a', documents: ['b'] }]]) {
    for (let status = 0; status !== 429;) {
      const r = await s.json('POST', where, body, as);
      status = r.status;
      assert.ok([200, 429].includes(status), r.text);
      assert.equal(r.headers.get('x-should-retry'), null);
    }
  }
});

/** A copy of a model whose last layer overflows: one of its norms has the largest 32-bit weights. */
function overflowing(name, tensor, into) {
  const folder = path.join(into, name), file = path.join(folder, 'model.safetensors');
  cpSync(path.join(data, name), folder, { recursive: true });
  const bytes = readFileSync(file), start = 8 + Number(bytes.readBigUInt64LE()), header = JSON.parse(bytes.subarray(8, start)), parts = [];
  let at = 0;
  for (const [key, t] of Object.entries(header)) {
    if (key === '__metadata__') continue;
    let part = bytes.subarray(start + t.data_offsets[0], start + t.data_offsets[1]);
    if (key === tensor) {
      t.dtype = 'F32';
      part = Buffer.from(new Float32Array(t.shape[0]).fill(3e38).buffer);
    }
    t.data_offsets = [at, at += part.length];
    parts.push(part);
  }
  const text = Buffer.from(JSON.stringify(header).padEnd(8192)), length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([length, text, ...parts]));
  return folder;
}

test('a model that gives no number is a 500, and its texts are not charged', async () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'sluice-overflow-'));
  const models = [overflowing('bert', 'encoder.layer.1.output.LayerNorm.weight', dir), overflowing('xlmr', 'roberta.encoder.layer.1.output.LayerNorm.weight', dir)];
  const bad = await start({ args: ['--embedding-model', models[0], '--rerank-model', models[1]] });
  try {
    await sidesReady(bad);
    const as = await limited(bad, { tokens_per_minute: 5 });
    for (let i = 0; i < 2; i++) { // the first one's tokens were given back
      for (const [where, body] of [['/v1/embeddings', { input: bert.texts }], ['/v1/rerank', { query: 'a', documents: ['b'] }], ['/api/embed', { model: 'bert', input: 'a' }]]) {
        const r = await bad.json('POST', where, body, as);
        assert.equal(r.status, 500, r.text);
        assert.match(r.body.error.message ?? r.body.error, /the model gave no number for text 0/);
      }
    }
    const counted = [...(await bad.json('GET', '/api/usage')).text.matchAll(/"prompt_tokens":(\d+)/g)].map((m) => Number(m[1]));
    assert.ok(counted.length && counted.every((tokens) => tokens === 0), counted.join(' '));
  } finally {
    await bad.stop();
    rmSync(dir, { recursive: true });
  }
});

test('many texts and many clients at once', async () => {
  const input = Array.from({ length: 2048 }, (_, i) => bert.texts[i % bert.texts.length]);
  const all = await Promise.all(Array.from({ length: 4 }, () => embed({ input })));
  for (const r of all) {
    assert.equal(r.status, 200, r.text.slice(0, 300));
    assert.equal(r.body.data.length, 2048);
    near(r.body.data[2047].embedding, bert.vectors[2047 % bert.texts.length], 'the last one');
  }
});

test('without such models both endpoints say what is missing', async () => {
  const bare = await start({ fake: true });
  try {
    for (const [where, body, option] of [['/v1/embeddings', { input: 'x' }, '--embedding-model'], ['/v1/rerank', { query: 'a', documents: ['b'] }, '--rerank-model']]) {
      const r = await bare.json('POST', where, body);
      assert.deepEqual([r.status, r.body.error.code, r.body.error.param], [404, 'model_not_found', 'model'], r.text);
      assert.ok(r.body.error.message.includes(option), r.text);
    }
    const own = await bare.json('POST', '/v1/embeddings', { input: 'x', model: 'demo-model' });
    assert.deepEqual([own.status, own.body.error.param], [400, 'model'], own.text);
  } finally {
    await bare.stop();
  }
});

test('a name on a hub is loaded once, its pooling with it', async () => {
  const folder = path.join(data, 'bert');
  const hub = await startHub({ ...modelFiles(folder), '1_Pooling/config.json': { data: readFileSync(path.join(folder, '1_Pooling/config.json')) } }, { blobs: true });
  try {
    const from = await start({ args: ['--hub', hub.url, '--embedding-model', 'hf.co/lab/tiny'] });
    try {
      await modelReady(from, 'tiny');
      near((await from.json('POST', '/v1/embeddings', { model: 'tiny', input: bert.texts[0] })).body.data[0].embedding, bert.vectors[0], 'from the hub');
    } finally {
      await from.stop();
    }
  } finally {
    hub.stop();
  }
});

test('a model that cannot embed is refused at the start', async () => {
  await assert.rejects(start({ args: ['--embedding-model', path.join(top, 'engine/demo-model')] }), /embed/);
});
