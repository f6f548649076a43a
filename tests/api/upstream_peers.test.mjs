// Real servers of others as upstreams: a second Sluice with the demo model, and llama.cpp's own server.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { demo, joined, program, start, top } from './harness.mjs';
import { addUpstream } from './upstream_rig.mjs';

const python = process.env.SLUICE_PYTHON ?? path.join(top, 'build/python/bin/python');
const has = (name) => spawnSync(python, ['-c', `import ${name}`]).status === 0;
let front, back;
const messages = [{ role: 'user', content: 'Write one sentence about a river.' }];

before(async () => {
  // with keys of their own: what is handed on by mistake would be taken else
  [front, back] = await Promise.all([start({ fake: true }), start({ first: true })]);
  await addUpstream(front, 'back', `${back.url}/v1`, [{ model: 'theirs', remote: 'demo-model' }], { key: back.key });
});
after(async () => { await front?.stop(); await back?.stop(); });

test('another Sluice answers through this one as it answers itself', async () => {
  const ask = { messages, temperature: 0, seed: 1, max_tokens: 40 };
  const own = await back.chat({ model: 'demo-model', ...ask });
  const relayed = await front.chat({ model: 'theirs', ...ask });
  assert.equal(relayed.status, 200, relayed.text);
  assert.deepEqual(relayed.body.choices[0].message, own.body.choices[0].message);
  assert.equal(relayed.body.choices[0].finish_reason, own.body.choices[0].finish_reason);
  for (const name of ['prompt_tokens', 'completion_tokens', 'total_tokens']) assert.equal(relayed.body.usage[name], own.body.usage[name], name);
  const stream = await front.stream({ model: 'theirs', ...ask });
  assert.equal(joined(stream.chunks).content, own.body.choices[0].message.content);
});

test('a text goes on there, with a conversation\'s log probabilities, and servers in a circle are found out', async () => {
  const text = { prompt: 'The river', max_tokens: 12, temperature: 0, seed: 1 };
  const own = await back.json('POST', '/v1/completions', { model: 'demo-model', ...text });
  const relayed = await front.json('POST', '/v1/completions', { model: 'theirs', ...text });
  assert.equal(relayed.status, 200, relayed.text);
  assert.equal(relayed.body.choices[0].text, own.body.choices[0].text);
  const ask = { messages, temperature: 0, seed: 1, max_tokens: 6, logprobs: true, top_logprobs: 2 };
  const scored = await front.chat({ model: 'theirs', ...ask });
  assert.equal(scored.status, 200, scored.text);
  assert.deepEqual(scored.body.choices[0].logprobs, (await back.chat({ model: 'demo-model', ...ask })).body.choices[0].logprobs);
  await addUpstream(back, 'front', `${front.url}/v1`, ['circle'], { key: front.key });
  await addUpstream(front, 'again', `${back.url}/v1`, ['circle'], { key: back.key });
  const circle = await front.chat({ model: 'circle', messages, max_tokens: 4 });
  assert.equal(circle.status, 508, circle.text);
  assert.equal(circle.body.error.reason, 'upstream_loop');
});

test('what the other Sluice had in its cache is told, and a turn later it has the conversation', async () => {
  const ask = { model: 'theirs', temperature: 0, max_tokens: 8, messages: [{ role: 'system', content: 'You write about rivers and mills. '.repeat(40) }, ...messages] };
  const first = await front.chat(ask);
  const answer = first.body.choices[0].message.content;
  const second = await front.chat({ ...ask, messages: [...ask.messages, { role: 'assistant', content: answer }, { role: 'user', content: 'And a mill?' }] });
  assert.ok(second.body.usage.prompt_tokens_details.cached_tokens > 0.8 * first.body.usage.prompt_tokens, JSON.stringify(second.body.usage));
});

test('a JSON schema holds the other Sluice\'s answer, and its refusals come with its words', async () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
  const r = await front.chat({ model: 'theirs', messages, max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
  assert.equal(r.status, 200, r.text);
  assert.ok(Number.isInteger(JSON.parse(r.body.choices[0].message.content).n));
  const long = await front.chat({ model: 'theirs', messages: [{ role: 'user', content: 'word '.repeat(20000) }] });
  assert.equal(long.status, 400, long.text);
  assert.equal(long.body.error.code, 'context_length_exceeded');
});

test('llama.cpp\'s server is an upstream', { skip: !(has('xllamacpp') && has('gguf')) && 'no xllamacpp' }, async () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'peer-'));
  const plain = path.join(dir, 'plain'), model = path.join(dir, 'model.gguf');
  execFileSync(program('sluice'), ['synth', '--out', plain, '--shape', 'demo', '--format', 'gguf-q8_0', '--layers', '2']);
  const [file] = readdirSync(plain).filter((f) => f.endsWith('.gguf'));
  execFileSync(python, [path.join(top, 'tests/bench/gguf_with_words.py'), path.join(plain, file), demo, model]);
  const peer = spawn(python, [path.join(top, 'tests/sdk/llamacpp_server.py'), model], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    const url = await new Promise((done, fail) => {
      let text = '';
      peer.stdout.on('data', (d) => { text += d; const m = /https?:\/\/\S+/.exec(text); if (m) done(m[0]); });
      peer.on('exit', () => fail(new Error(`llama.cpp ended: ${text}`)));
    });
    await addUpstream(front, 'llamacpp', `${url}/v1`, [{ model: 'cpp', remote: 'any' }], { key: 'sk-of-the-peer' });
    // Its weights are noise that writes blank lines; a schema makes it say something.
    const schema = { type: 'object', properties: { town: { enum: ['Ulm by the river'] } }, required: ['town'], additionalProperties: false };
    const ask = { messages, max_tokens: 60, temperature: 0, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } };
    const direct = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { authorization: 'Bearer sk-of-the-peer', 'content-type': 'application/json' },
      body: JSON.stringify({ ...ask, stream: true, stream_options: { include_usage: true } }) });
    const own = (await direct.text()).split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
    const words = joined(own).content;
    assert.match(words, /Ulm by the river/);
    const whole = await front.chat({ model: 'cpp', ...ask });
    assert.equal(whole.status, 200, whole.text);
    assert.equal(whole.body.choices[0].message.content, words);
    for (const name of ['prompt_tokens', 'completion_tokens']) assert.equal(whole.body.usage[name], own.at(-1).usage[name], name);
    assert.equal((await front.chat({ ...ask, model: 'cpp', max_tokens: 5 })).body.choices[0].finish_reason, 'length');
    const stream = await front.stream({ model: 'cpp', ...ask });
    assert.equal(joined(stream.chunks).content, words);
    await addUpstream(front, 'wrong', `${url}/v1`, ['locked'], { key: 'sk-wrong' });
    const locked = await front.chat({ model: 'locked', messages, max_tokens: 4 });
    assert.equal(locked.body.error.reason, 'upstream_key');
  } finally {
    peer.kill();
    rmSync(dir, { recursive: true, force: true });
  }
});
