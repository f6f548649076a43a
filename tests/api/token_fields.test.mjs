// What ends an answer and which tokens may come in it, by the real engine, under the names of vLLM, llama.cpp and Ollama, on every endpoint.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ args: ['--ctx', '512'] }); }); // one test writes until it is full
after(() => s?.stop());

const question = 'What is a garden?';
const FORMS = {
  chat: ['/v1/chat/completions', { messages: [{ role: 'user', content: question }], max_tokens: 24 }, (b) => [b.choices[0].message.content, b.usage.completion_tokens, b.choices[0].finish_reason]],
  completions: ['/v1/completions', { prompt: 'A garden is', max_tokens: 24 }, (b) => [b.choices[0].text, b.usage.completion_tokens, b.choices[0].finish_reason]],
  responses: ['/v1/responses', { input: question, max_output_tokens: 24 }, (b) => [b.output.find((i) => i.type === 'message')?.content[0].text ?? '', b.usage.output_tokens, b.status]],
  messages: ['/v1/messages', { messages: [{ role: 'user', content: question }], max_tokens: 24 }, (b) => [b.content.find((c) => c.type === 'text')?.text ?? '', b.usage.output_tokens, b.stop_reason]],
};
const ask = async (form, extra) => {
  const [path, body] = FORMS[form];
  return s.json('POST', path, { temperature: 0, ...body, ...extra }, { 'anthropic-version': '2023-06-01' });
};
const say = async (form, extra) => {
  const r = await ask(form, extra);
  assert.equal(r.status, 200, `${form} ${JSON.stringify(extra)}: ${r.text}`);
  assert.equal(r.headers.get('x-sluice-ignored'), null, `${form} ${JSON.stringify(extra)}`);
  const [text, tokens, reason] = FORMS[form][2](r.body);
  return { text, tokens, reason };
};
const idOf = async (text) => (await s.json('POST', '/tokenize', { content: text })).body.tokens[0];
const refused = async (form, extra, ...names) => {
  const r = await ask(form, extra);
  assert.equal(r.status, 400, r.text);
  for (const name of names) assert.ok(r.text.includes(name), `${name}: ${r.text}`);
};

for (const form of Object.keys(FORMS)) {
  test(`${form}: stop tokens, words that may not come, and tokens that alone may`, async () => {
    const greedy = await say(form, {});
    const ids = (await s.json('POST', '/tokenize', { content: greedy.text })).body.tokens;
    const at = ids.findIndex((id, i) => i > 3 && ids.indexOf(id) === i);
    const cut = await say(form, { stop_token_ids: [ids[at]] });
    assert.ok(greedy.text.startsWith(cut.text) && cut.text.length < greedy.text.length);
    const kept = await say(form, { stop_token_ids: [ids[at]], include_stop_str_in_output: true });
    assert.ok(greedy.text.startsWith(kept.text) && kept.text.length > cut.text.length);
    assert.equal(kept.tokens, cut.tokens); // counted in any case
    const word = greedy.text.split(/\W+/).find((w, i) => i > 1 && w.length > 3);
    const without = await say(form, { bad_words: [word] });
    assert.ok(!without.text.includes(` ${word}`) && without.text !== greedy.text, `${word}: ${without.text}`);
    const stone = await idOf(' stone');
    assert.equal((await say(form, { allowed_token_ids: [stone], ignore_eos: true })).text.replaceAll(' stone', ''), '');
  });

  test(`${form}: min_tokens passes ends over, of every kind`, async () => {
    const greedy = await say(form, {});
    const [, body] = FORMS[form], limit = 'max_output_tokens' in body ? 'max_output_tokens' : 'max_tokens';
    const early = await say(form, { [limit]: 200 });
    const late = await say(form, { [limit]: 200, min_tokens: Math.min(early.tokens + 20, 200) });
    if (early.tokens < 200) assert.ok(late.tokens > early.tokens, `${early.tokens}, then ${late.tokens}`);
    const letter = greedy.text.trim()[2], stop = form === 'messages' ? 'stop_sequences' : 'stop';
    const cut = await say(form, { [stop]: [letter] });
    assert.ok(cut.tokens < greedy.tokens);
    assert.ok((await say(form, { [stop]: [letter], min_tokens: 24 })).text.startsWith(greedy.text));
    const kept = await say(form, { [stop]: [letter], include_stop_str_in_output: true });
    assert.equal(kept.text, cut.text + letter);
    await refused(form, { min_tokens: 25 }, 'min_tokens');
  });

  test(`${form}: other servers' names`, async () => {
    const warm = { temperature: 1.5, top_k: 0, top_p: 1, min_p: 0 };
    const seeded = await say(form, { ...warm, seed: 5 });
    assert.deepEqual(await say(form, { ...warm, random_seed: 5 }), seeded);
    assert.deepEqual(await say(form, { ...warm, random_seed: 5, seed: 5, typical_p: 1, repeat_last_n: -1 }), seeded);
    assert.notDeepEqual(await say(form, { ...warm, seed: 5, typical_p: 0.05 }), seeded);
    const penalised = await say(form, { repetition_penalty: 3, ignore_eos: true });
    assert.deepEqual(await say(form, { repeat_penalty: 3, ignore_eos: true }), penalised);
    assert.deepEqual(await say(form, { repeat_penalty: 3, repeat_last_n: 100000, ignore_eos: true }), penalised);
    assert.notDeepEqual(await say(form, { repeat_penalty: 3, repeat_last_n: 0, ignore_eos: true }), penalised);
    await refused(form, { repeat_penalty: 3, repetition_penalty: 2 }, 'repeat_penalty', 'repetition_penalty');
    await refused(form, { random_seed: 3, seed: 2 }, 'random_seed', 'seed');
  });
}

test('as much as the context leaves is -1, in every name', async () => {
  const one = { logit_bias: {}, stop: ['e'] };
  for (const name of ['max_tokens', 'max_completion_tokens', 'n_predict', 'num_predict']) {
    const r = await s.json('POST', '/v1/chat/completions', { messages: FORMS.chat[1].messages, temperature: 0, [name]: -1, ...one });
    assert.equal(r.status, 200, r.text);
    assert.equal(r.body.choices[0].finish_reason, 'stop');
  }
  const r = await s.json('POST', '/v1/completions', { prompt: 'A garden is', temperature: 0, max_tokens: -1, ignore_eos: true, allowed_token_ids: [await idOf(' stone')] });
  const context = (await s.json('GET', '/v1/models')).body.data[0].max_model_len;
  assert.equal(r.body.usage.total_tokens, context, r.text.slice(0, 300));
  await refused('chat', { max_tokens: 5, n_predict: 6 }, 'max_tokens', 'n_predict');
  await refused('chat', { max_tokens: -2 }, 'max_tokens');
});

test('special tokens are shown where they are asked for', async () => {
  const special = (await s.json('POST', '/tokenize', { content: '<|im_start|>', parse_special: true })).body.tokens;
  assert.equal(special.length, 1);
  const forced = { logit_bias: { [special[0]]: 100 }, max_tokens: 3 };
  assert.equal((await say('completions', forced)).text, '');
  assert.equal((await say('completions', { ...forced, skip_special_tokens: true })).text, '');
  assert.equal((await say('completions', { ...forced, skip_special_tokens: false })).text, '<|im_start|>'.repeat(3));
});

test('a form is stronger than what tokens are forbidden', async () => {
  const r = await say('chat', { grammar: 'root ::= "yes"', min_tokens: 20, bad_words: ['yes'] });
  assert.equal(r.text, 'yes');
});
