// llama.cpp's and vLLM's side doors: /completion and /infill in llama.cpp's own form, /props, /slots, paths without /v1.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually, order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const fake = (o) => `fake:${JSON.stringify(o)}`;
const complete = (body, where = '/completion') => s.json('POST', where, body);

/** The events of a stream in llama.cpp's form. */
async function events(body, where = '/completion') {
  const got = await s.stream(body, { where });
  assert.equal(got.status, 200, JSON.stringify(got.error));
  assert.equal(got.done, false, 'llama.cpp sends no [DONE] here');
  return got.chunks;
}

test('a text goes on, with the members that llama.cpp has', async () => {
  for (const where of ['/completion', '/completions']) {
    const r = await complete({ prompt: fake({ text: 'abc\ndef' }), n_predict: 20, temperature: 0.3, stop: [] }, where);
    assert.equal(r.status, 200, r.text);
    const b = r.body;
    assert.deepEqual([b.content, b.index, b.stop, b.stop_type, b.stopping_word, b.truncated, b.has_new_line, b.model],
      ['abc\ndef', 0, true, 'eos', '', false, true, 'demo-model']);
    assert.deepEqual(b.tokens, [], 'only where return_tokens asks');
    assert.equal(b.prompt, fake({ text: 'abc\ndef' }));
    assert.ok(b.tokens_predicted > 0 && b.tokens_evaluated > 0, r.text);
    assert.equal(b.timings.prompt_n + b.timings.cache_n, b.tokens_evaluated);
    assert.equal(b.timings.predicted_n, b.tokens_predicted);
    for (const name of ['prompt_ms', 'prompt_per_second', 'prompt_per_token_ms', 'predicted_ms', 'predicted_per_second', 'predicted_per_token_ms'])
      assert.equal(typeof b.timings[name], 'number', name);
    const g = b.generation_settings;
    assert.deepEqual([g.n_predict, g.temperature, g.seed, g.stream, g.n_probs, g.grammar], [20, 0.3, 4294967295, false, 0, '']);
    assert.equal('completion_probabilities' in b, false);
    assert.equal('warnings' in b, false, r.text);
  }
});

test('why it stopped: a limit, a stop string', async () => {
  const limit = (await complete({ prompt: fake({ text: 'abc', finish: 'length' }) })).body;
  assert.deepEqual([limit.stop_type, limit.truncated], ['limit', false]);
  const word = await complete({ prompt: [{ prompt_string: fake({ text: 'one STOP two' }) }], stop: ['STOP'] });
  assert.equal(word.status, 200, word.text);
  if (word.body.stop_type === 'word') assert.equal(word.body.stopping_word, 'STOP'); // the fake engine does not look for them
});

test('prompts: text, ids, mixed, objects, several; several answers', async () => {
  const ids = (await s.json('POST', '/tokenize', { content: fake({ text: 'from ids' }) })).body.tokens;
  assert.equal((await complete({ prompt: ids })).body.content, 'from ids');
  const mixed = (await s.json('POST', '/tokenize', { content: 'x ' })).body.tokens;
  assert.equal((await complete({ prompt: [...mixed, fake({ text: 'mixed' })] })).body.content, 'mixed');
  assert.equal((await complete({ prompt: { prompt_string: fake({ text: 'object' }) } })).body.content, 'object');
  assert.equal((await complete({ prompt: [fake({ text: 'one of a list' })] })).body.content, 'one of a list');
  const several = await complete({ prompt: [fake({ text: 'a' }), ids, [...mixed, fake({ text: 'c' })]], n_cmpl: 2 });
  assert.deepEqual(several.body.map((x) => [x.index, x.content]), ['a', 'a', 'from ids', 'from ids', 'c', 'c'].map((t, i) => [i, t]), several.text);
});

test('tokens and probabilities', async () => {
  const r = await complete({ prompt: fake({ text: 'abc def' }), return_tokens: true, n_probs: 3 });
  const back = await s.json('POST', '/detokenize', { tokens: r.body.tokens });
  assert.equal(back.body.content.replace(/<\|im_end\|>$/, ''), 'abc def', r.text);
  const p = r.body.completion_probabilities;
  assert.equal(p.length, r.body.tokens.length);
  assert.deepEqual(p.map((t) => t.id), r.body.tokens);
  for (const t of p) {
    assert.ok(t.logprob <= 0 && Array.isArray(t.bytes) && typeof t.token === 'string', JSON.stringify(t));
    assert.ok(t.top_logprobs.length <= 3);
    for (const alternative of t.top_logprobs) assert.deepEqual(Object.keys(alternative).sort(), ['bytes', 'id', 'logprob', 'token']);
  }
});

test('response_fields: those members only, under their paths', async () => {
  const r = await complete({ prompt: fake({ text: 'abc' }), n_predict: 9, response_fields: ['content', 'generation_settings/n_predict', 'nothing', 'a/b'] });
  assert.deepEqual(r.body, { content: 'abc', 'generation_settings/n_predict': 9 });
  const warned = await complete({ prompt: fake({ text: 'abc' }), mirostat: 2, response_fields: ['nothing'] });
  assert.deepEqual(Object.keys(warned.body), ['warnings'], warned.text);
});

test('a stream: what is new, then all about it', async () => {
  const list = await events({ prompt: fake({ text: 'abc def ghi' }), return_progress: true, mirostat: 2, n_probs: 1 });
  const last = list.at(-1);
  assert.equal(list.filter((x) => x.stop).length, 1);
  assert.deepEqual([last.stop, last.content, last.stop_type, last.tokens], [true, '', 'eos', []]);
  const parts = list.slice(0, -1);
  assert.equal(parts.map((x) => x.content).join(''), 'abc def ghi');
  assert.equal(parts.flatMap((x) => x.tokens).length, last.tokens_predicted);
  assert.equal(parts.flatMap((x) => x.completion_probabilities ?? []).length, last.tokens_predicted);
  assert.deepEqual(list[0].warnings.map((w) => w.field), ['mirostat']);
  assert.equal(list.slice(1).some((x) => 'warnings' in x), false);
  const several = await events({ prompt: [fake({ text: 'a' }), fake({ text: 'b' })] });
  for (const [i, text] of ['a', 'b'].entries())
    assert.equal(several.filter((x) => x.index === i).map((x) => x.content).join(''), text);
});

test('a stream that breaks ends with the error', async () => {
  const list = await events({ prompt: fake({ text: 'abc def ghi', fail_after: 1 }) });
  assert.ok(list.at(-1).error?.message, JSON.stringify(list));
});

test('values of llama.cpp: random seeds, greedy below 0, an empty grammar, biases as pairs and texts', async () => {
  const r = await complete({ prompt: fake({ text: 'x' }), seed: -1, temperature: -1, grammar: '', repeat_penalty: 1.3, top_k: 0,
    n_predict: -1, logit_bias: [[5, 1.5], ['Hello', -2], [7, false]] });
  assert.equal(r.status, 200, r.text);
  const g = r.body.generation_settings;
  assert.deepEqual([g.seed, g.temperature, g.repeat_penalty, g.n_predict], [4294967295, 0, 1.3, -1]);
  assert.equal((await complete({ prompt: fake({ text: 'x' }), seed: 7 })).body.generation_settings.seed, 7);
  assert.equal((await complete({ prompt: fake({ text: 'x' }), logit_bias: { Hello: 1, 5: false } })).status, 200);
});

test('what is wrong is refused by the name that was sent', async () => {
  const prompt = fake({ text: 'x' });
  for (const [body, param] of [[{}, 'prompt'], [{ prompt: '' }, 'prompt'], [{ prompt: [] }, 'prompt'], [{ prompt: [[]] }, 'prompt'], [{ prompt: 5 }, 'prompt'],
    [{ prompt: [1, null] }, 'prompt'], [{ prompt: [1e9] }, 'prompt'], [{ prompt: [-1] }, 'prompt'], [{ prompt: {} }, 'prompt.prompt_string'],
    [{ prompt: { prompt_string: 'x', multimodal_data: ['AA=='] } }, 'prompt.multimodal_data'], [{ prompt: Array(17).fill('x') }, 'prompt'],
    [{ prompt, n_predict: -2 }, 'n_predict'], [{ prompt, n_predict: 'x' }, 'n_predict'], [{ prompt, n_predict: 5, max_tokens: 6 }, 'max_tokens'],
    [{ prompt, repeat_penalty: 0 }, 'repeat_penalty'], [{ prompt, repeat_penalty: 2, repetition_penalty: 3 }, 'repeat_penalty'],
    [{ prompt, n_cmpl: 0 }, 'n_cmpl'], [{ prompt: ['a', 'b'], n_cmpl: 9 }, 'n_cmpl'], [{ prompt, n_probs: 21 }, 'n_probs'],
    [{ prompt, logit_bias: [5] }, 'logit_bias'], [{ prompt, logit_bias: [[1e9, 1]] }, 'logit_bias'], [{ prompt, logit_bias: [[5, true]] }, 'logit_bias'],
    [{ prompt, logit_bias: 5 }, 'logit_bias'], [{ prompt, logit_bias: [[5, 101]] }, 'logit_bias'], [{ prompt, logit_bias: [['a'.repeat(257), 1]] }, 'logit_bias'], [{ prompt, logit_bias: { x: 'y' } }, 'logit_bias'], [{ prompt, grammar: 5 }, 'grammar'],
    [{ prompt, grammar: 'root := x' }, 'grammar'], [{ prompt, json_schema: 5 }, 'json_schema'], [{ prompt, return_progress: true }, 'return_progress'],
    [{ prompt, response_fields: [5] }, 'response_fields'], [{ prompt, response_fields: Array(65).fill('x') }, 'response_fields'], [{ prompt, stream: 'yes' }, 'stream']]) {
    const r = await complete(body);
    assert.deepEqual([r.status, r.body.error?.param], [400, param], `${JSON.stringify(body)}: ${r.text}`);
  }
  assert.equal((await complete({ prompt, model: 'nothing' })).status, 404);
});

test('what has no effect is named', async () => {
  const r = await complete({ prompt: fake({ text: 'x' }), cache_prompt: true, id_slot: 3, samplers: ['top_k'], nonsense: 1 });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.body.warnings.map((w) => w.field), ['cache_prompt', 'id_slot', 'samplers', 'nonsense']);
});

test('/infill is refused with 501 where the model has no tokens for it', async () => {
  const r = await s.json('POST', '/infill', { input_prefix: 'a', input_suffix: 'b' });
  assert.deepEqual([r.status, r.body.error.code], [501, 'not_implemented'], r.text);
  assert.match(r.body.error.message, /prefix suffix middle/);
});

test('/props and /slots tell the truth, and no path of the machine', async () => {
  const p = await s.json('GET', '/props');
  assert.equal(p.status, 200, p.text);
  assert.equal(p.body.model_path, 'demo-model');
  assert.equal(p.text.includes(path.dirname(demo)), false, 'a path of the machine');
  assert.match(p.body.build_info, /^sluice-\d/);
  assert.deepEqual(p.body.modalities, { vision: false, audio: false });
  assert.ok(p.body.chat_template.includes('im_start'));
  const model = (await s.json('GET', '/v1/models')).body.data[0];
  assert.equal(p.body.total_slots, model.sluice.slots ?? p.body.total_slots);
  assert.equal(p.body.default_generation_settings.n_ctx, model.max_model_len);
  assert.equal(p.body.default_generation_settings.params.temperature, model.sluice.defaults.temperature);
  const slots = await s.json('GET', '/slots');
  assert.equal(slots.status, 200, slots.text);
  assert.equal(slots.body.length, p.body.total_slots);
  slots.body.forEach((x, i) => assert.deepEqual(x, { id: i, n_ctx: model.max_model_len, speculative: false, is_processing: x.is_processing }));
  assert.equal((await s.json('GET', '/slots?fail_on_no_slot=x')).body.error.param, 'fail_on_no_slot');
});

/** Waits until the status page, which is written now and then, says so. */
const until = (what) => eventually(async () => assert.ok(await what(), `never: ${what}`));

test('a job that runs is a busy slot and load', async () => {
  const busy = async () => (await s.json('GET', '/slots')).body.filter((x) => x.is_processing).map((x) => x.id);
  const load = async () => (await s.json('GET', '/load')).body.server_load;
  await until(async () => (await busy()).length === 0 && await load() === 0);
  const stop = new AbortController();
  const running = s.stream({ messages: order({ text: 'a b c d e f', token_ms: 60000 }) }, { signal: stop.signal }).catch(() => {});
  await until(async () => (await busy()).join() === '0' && await load() === 1);
  stop.abort();
  await running;
  await until(async () => (await busy()).length === 0 && await load() === 0);
});

test('paths without /v1', async () => {
  const chat = await s.json('POST', '/chat/completions', { messages: order({ text: 'hi' }) });
  assert.equal(chat.body.choices?.[0].message.content, 'hi', chat.text);
  const streamed = await s.stream({ messages: order({ text: 'hi there' }) }, { where: '/chat/completions' });
  assert.ok(streamed.done);
  assert.deepEqual((await s.json('GET', '/models')).body, (await s.json('GET', '/v1/models')).body);
  const response = await s.json('POST', '/responses', { input: order({ text: 'hi' }), store: false });
  assert.equal(response.body.output?.at(-1).content[0].text, 'hi', response.text);
  for (const where of ['/embeddings', '/embedding'])
    assert.equal((await s.json('POST', where, { input: 'x' })).body.error.code, 'model_not_found'); // tests/api/embeddings.test.mjs has one
});

test('vLLM: /ping, /version, without a key; /load with an admin\'s', async () => {
  const none = { authorization: null };
  assert.equal((await s.json('GET', '/ping', undefined, none)).status, 200);
  assert.equal((await s.json('POST', '/ping', undefined, none)).status, 200);
  assert.deepEqual(Object.keys((await s.json('GET', '/load')).body), ['server_load']);
  assert.equal(typeof (await s.json('GET', '/version', undefined, none)).body.version, 'string');
});

test('a path beside the API is a 404 that says where the API is', async () => {
  for (const [method, where, meant] of [['POST', '/foo/chat/completions', '/v1/chat/completions'], ['POST', '/v1/v1/chat/completions', '/v1/chat/completions'],
    ['GET', '/v1/v1/models', '/v1/models'], ['GET', '/openai/v1/models', '/v1/models'], ['POST', '/messages', '/v1/messages'],
    ['POST', '/messages/count_tokens', '/v1/messages/count_tokens'], ['POST', '/v1/chat/completions/', '/v1/chat/completions'],
    ['GET', '/v1/models/', '/v1/models'], ['POST', '/v1/tokenize', '/tokenize'], ['POST', '//v1/chat/completions', '/v1/chat/completions']]) {
    const r = await s.json(method, where, method === 'POST' ? { messages: [] } : undefined);
    assert.equal(r.status, 404, `${where}: ${r.text}`);
    assert.equal(r.body.error.code, 'not_found');
    assert.ok(r.body.error.message.endsWith(`the API is under /v1: did you mean ${meant}?`), `${where}: ${r.text}`);
  }
  for (const where of ['/v1', '/v1/', '/v1/nothing']) {
    const r = await s.json('GET', where);
    assert.equal(r.status, 404, where);
    assert.match(r.body.error.message, /the API is under \/v1, and \/openapi\.json lists its paths$/);
  }
});

test('/infill puts the marks of the model around prefix, suffix and other files', async () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-fim-'));
  let filling;
  try {
    const model = path.join(dir, 'filler');
    cpSync(demo, model, { recursive: true });
    const marks = { '<tool_call>': '<|fim_prefix|>', '</tool_call>': '<|fim_suffix|>', '<tool_response>': '<|fim_middle|>', '</tool_response>': '<|file_sep|>' };
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
      let text = readFileSync(path.join(demo, name), 'utf8');
      for (const [from, to] of Object.entries(marks)) text = text.replaceAll(JSON.stringify(from), JSON.stringify(to));
      writeFileSync(path.join(model, name), text);
    }
    filling = await start({ fake: true, model });
    const ask = (body) => filling.json('POST', '/infill', body);
    const say = 'fake:{"text":"middle"}';
    const plain = await ask({ input_prefix: `${say} a<|fim_suffix|>`, input_suffix: 'z', prompt: 'b', n_predict: 5 });
    assert.equal(plain.status, 200, plain.text);
    assert.equal(plain.body.content, 'middle');
    assert.equal(plain.body.prompt, `<|fim_prefix|>${say} a<|fim_suffix|>b<|fim_suffix|>z<|fim_middle|>`);
    const count = async (text) => (await filling.json('POST', '/tokenize', { content: text, parse_special: false })).body.count;
    assert.equal(plain.body.tokens_evaluated, 3 + await count(`${say} a<|fim_suffix|>`) + await count('b') + await count('z'), 'what a file spells is no mark');
    const extra = await ask({ input_prefix: say, input_suffix: '', input_extra: [{ filename: 'a.c', text: 'int a;' }, { text: 'int b;' }] });
    assert.equal(extra.body.prompt, `<|file_sep|>a.c\nint a;<|file_sep|>file\nint b;<|file_sep|>filename\n<|fim_prefix|>${say}<|fim_suffix|><|fim_middle|>`, extra.text);
    for (const [body, param] of [[{ input_suffix: '' }, 'input_prefix'], [{ input_prefix: '' }, 'input_suffix'], [{ input_prefix: 5, input_suffix: '' }, 'input_prefix'],
      [{ input_prefix: '', input_suffix: '', prompt: 5 }, 'prompt'], [{ input_prefix: '', input_suffix: '', input_extra: [5] }, 'input_extra'],
      [{ input_prefix: '', input_suffix: '', input_extra: [{ filename: 'x' }] }, 'input_extra'], [{ input_prefix: '', input_suffix: '', input_extra: {} }, 'input_extra']]) {
      const r = await ask(body);
      assert.deepEqual([r.status, r.body.error?.param], [400, param], `${JSON.stringify(body)}: ${r.text}`);
    }
  } finally {
    await filling?.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
