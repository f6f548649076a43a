// LiteLLM's proxy as an upstream: chats, streams, calls, counts, cancelling and refusals pass through it between two Sluices. Starting it takes
// some eight seconds of processor time, so there is one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { serve } from '../clients/lib/serving.mjs';
import { eventually, joined, start, top } from './harness.mjs';
import { addUpstream } from './upstream_rig.mjs';

const python = process.env.SLUICE_PYTHON ?? path.join(top, 'build/python/bin/python');
const skip = spawnSync(python, ['-c', 'import litellm, fastapi_sso, uvicorn, apscheduler']).status !== 0 && 'no LiteLLM proxy';
const dir = mkdtempSync(path.join(os.tmpdir(), 'litellm-')), key = `sk-${randomBytes(16).toString('hex')}`;
let front, back, proxy;
const order = (o) => `fake:${JSON.stringify(o)}`;
const ask = (content, more) => ({ model: 'far', messages: [{ role: 'user', content }], ...more });
const said = order({ text: '<think>\nA port.\n</think>\n\nKiel lies by the sea.' });
const tools = [{ type: 'function', function: { name: 'weather', description: 'The weather of a town', parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } } }];

const until = (what) => eventually(async () => assert.ok(await what(), `never: ${what}`), 50);

before(async () => {
  if (skip) return;
  [front, back] = await Promise.all([start({ fake: true }), start({ fake: true })]);
  const model = (name, base) => ({ model_name: name, litellm_params: { model: 'openai/demo-model', api_base: base, api_key: back.key } });
  writeFileSync(path.join(dir, 'config.yaml'), JSON.stringify({ // which is YAML too
    model_list: [model('demo', `${back.url}/v1`), model('nowhere', 'http://127.0.0.1:1/v1')],
    litellm_settings: { num_retries: 0, request_timeout: 60 }, router_settings: { num_retries: 0, disable_cooldowns: true },
  }));
  proxy = await serve(python, (port) => [path.join(top, 'tests/sdk/litellm_proxy.py'), '--config', path.join(dir, 'config.yaml'), '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False'],
    { cwd: dir, probe: '/health/liveliness', env: { LITELLM_MASTER_KEY: key, LITELLM_LOCAL_MODEL_COST_MAP: 'True', HOME: dir } });
  await addUpstream(front, 'litellm', `${proxy.url}/v1`, [{ model: 'far', remote: 'demo' }, { model: 'broken', remote: 'nowhere' }], { key });
  await addUpstream(front, 'locked', `${proxy.url}/v1`, [{ model: 'locked', remote: 'demo' }], { key: 'sk-wrong' });
});
after(async () => {
  await proxy?.stop();
  await front?.stop();
  await back?.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('a chat through LiteLLM is what its own server says, with the same counts', { skip }, async () => {
  const own = await back.chat(ask(said, { model: 'demo-model' })), whole = await front.chat(ask(said));
  assert.equal(whole.status, 200, whole.text);
  const told = (r) => [r.body.choices[0].message.content, r.body.choices[0].message.reasoning_content, r.body.choices[0].finish_reason, r.body.usage.prompt_tokens, r.body.usage.completion_tokens];
  assert.deepEqual(told(whole), told(own));
});

test('a stream through LiteLLM comes in pieces, with its usage', { skip }, async () => {
  const { chunks } = await front.stream(ask(order({ text: '<think>\nA port.\n</think>\n\nKiel lies by the sea.', token_ms: 20 }), { stream_options: { include_usage: true } }));
  const got = joined(chunks);
  assert.deepEqual([got.content, got.reasoning, got.finish], ['Kiel lies by the sea.', 'A port.', ['stop']]);
  assert.ok(chunks.filter((c) => c.choices[0]?.delta?.content).length > 2, JSON.stringify(chunks));
  assert.ok(chunks.at(-1).usage.completion_tokens > 0);
});

test('a call and its result go through LiteLLM', { skip }, async () => {
  const call = order({ steps: ['<tool_call>\n{"name": "weather", "arguments": {"town": "Kiel"}}\n</tool_call>', 'It rains.'] });
  const whole = await front.chat(ask(call, { tools })), [first] = whole.body.choices;
  assert.deepEqual([first.finish_reason, first.message.tool_calls.map((t) => [t.function.name, JSON.parse(t.function.arguments)])], ['tool_calls', [['weather', { town: 'Kiel' }]]]);
  const streamed = joined((await front.stream(ask(call, { tools }))).chunks);
  assert.deepEqual(streamed.calls.map((t) => [t.name, JSON.parse(t.arguments)]), [['weather', { town: 'Kiel' }]]);
  const second = await front.chat({ model: 'far', tools, messages: [...ask(call).messages, first.message, { role: 'tool', tool_call_id: first.message.tool_calls[0].id, content: 'rain' }] });
  assert.equal(second.body.choices?.[0].message.content, 'It rains.', second.text);
});

test('what LiteLLM counts is what the user has used', { skip }, async () => {
  const used = async () => ((await front.json('GET', '/api/usage')).body.items ?? []).reduce((n, d) => n + d.prompt_tokens + d.completion_tokens, 0);
  const before = await used(), { usage } = (await front.chat(ask(said))).body;
  assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  await until(async () => (await used()) === before + usage.prompt_tokens + usage.completion_tokens);
});

test('a client that leaves ends the answer on the other side of LiteLLM', { skip }, async () => {
  const stop = new AbortController();
  const r = await fetch(`${front.url}/v1/chat/completions`, { method: 'POST', signal: stop.signal, headers: { authorization: `Bearer ${front.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...ask(order({ text: 'word '.repeat(400), token_ms: 50 })), stream: true }) });
  const reader = r.body.getReader();
  let text = '';
  while (!text.includes('word')) {
    const { value, done } = await reader.read();
    assert.ok(!done, text);
    text += new TextDecoder().decode(value);
  }
  await until(async () => (await back.metric('num_requests_running')) === 1);
  stop.abort();
  await until(async () => (await back.metric('num_requests_running')) === 0);
});

test('LiteLLM\'s refusals are told apart', { skip }, async () => {
  const broken = await front.chat(ask('Hi.', { model: 'broken' }));
  assert.ok([502, 503].includes(broken.status), broken.text);
  assert.match(broken.body.error.reason, /^upstream_/, broken.text);
  const locked = await front.chat(ask('Hi.', { model: 'locked' }));
  assert.match(locked.text, /No connected db/, 'of a key that is not its own it says that it has no list of others, with 400');
  assert.equal(locked.body.error.reason, 'upstream_refused', locked.text);
  assert.ok(!locked.text.includes(key));
});
