// LiteLLM's proxy in front of /v1/chat/completions and /v1/responses, with the settings of docs/clients/litellm.md.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { joined, start as server } from '../api/harness.mjs';
import { addUpstream } from '../api/upstream_rig.mjs';
import { once, serve } from './lib/serving.mjs';

const start = once(async (c, kind) => {
  const s = await c.server(kind), cwd = c.folder(), key = `sk-${randomBytes(32).toString('hex')}`, config = path.join(cwd, 'config.yaml');
  writeFileSync(config, c.settingsOf('litellm.md', 'yaml', s));
  const proxy = await serve(c.venv('litellm'), (port) => ['--config', config, '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False'],
    { cwd, probe: '/health/liveliness', env: { LITELLM_MASTER_KEY: key, LITELLM_LOCAL_MODEL_COST_MAP: 'True', HOME: cwd, PATH: `${path.dirname(c.python)}:${process.env.PATH}` } });
  const post = async (where, body) => {
    const r = await fetch(proxy.url + where, { method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` }, body: JSON.stringify({ model: 'demo-model', ...body }) });
    const text = await r.text();
    return { status: r.status, text, body: text.startsWith('{') ? JSON.parse(text) : null, events: text.split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6))) };
  };
  return { ...proxy, key, post, chat: (content, more) => post('/v1/chat/completions', { messages: [{ role: 'user', content }], ...more }) };
});

const order = (text) => `fake:${JSON.stringify({ text })}`;
const tools = [{ type: 'function', function: { name: 'weather', description: 'The weather of a town', parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } } }];

export default [{
  name: 'litellm', title: 'LiteLLM proxy', version: '1.106.2', pip: ['litellm[proxy]==1.106.2'],
  tasks: {
    'chat with reasoning, whole and streamed (scripted)': async (c) => {
      const proxy = await start(c, 'scripted'), said = order('<think>\nA port.\n</think>\n\nKiel lies by the sea.');
      const whole = await proxy.chat(said);
      assert.equal(whole.status, 200, whole.text);
      assert.deepEqual([whole.body.choices[0].message.content, whole.body.choices[0].message.reasoning_content, whole.body.choices[0].finish_reason], ['Kiel lies by the sea.', 'A port.', 'stop'], whole.text);
      const { events, text } = await proxy.chat(said, { stream: true, stream_options: { include_usage: true } });
      const joined = (member) => events.map((e) => e.choices[0]?.delta?.[member] ?? '').join('');
      assert.deepEqual([joined('content'), joined('reasoning_content')], ['Kiel lies by the sea.', 'A port.'], text);
      assert.deepEqual(events.at(-1).usage.completion_tokens, whole.body.usage.completion_tokens, text);
    },
    'a tool call and its result, whole and streamed (scripted)': async (c) => {
      const proxy = await start(c, 'scripted'), ask = c.steps(c.call('weather', { town: 'Kiel' }), 'It rains.');
      const first = await proxy.chat(ask, { tools });
      const [called] = first.body.choices[0].message.tool_calls;
      assert.deepEqual([called.function.name, JSON.parse(called.function.arguments), first.body.choices[0].finish_reason], ['weather', { town: 'Kiel' }, 'tool_calls'], first.text);
      const { events, text } = await proxy.chat(ask, { tools, stream: true });
      const deltas = events.flatMap((e) => e.choices[0]?.delta?.tool_calls ?? []);
      assert.deepEqual([deltas[0].function.name, JSON.parse(deltas.map((d) => d.function.arguments ?? '').join(''))], ['weather', { town: 'Kiel' }], text);
      const second = await proxy.post('/v1/chat/completions', { tools, messages: [{ role: 'user', content: ask }, first.body.choices[0].message, { role: 'tool', tool_call_id: called.id, content: 'rain' }] });
      assert.equal(second.body.choices[0].message.content, 'It rains.', second.text);
    },
    "OpenAI's responses and Anthropic's messages (scripted)": async (c) => {
      const proxy = await start(c, 'scripted');
      const response = await proxy.post('/v1/responses', { input: order('Kiel.') });
      assert.equal(response.body.output.at(-1).content[0].text, 'Kiel.', response.text);
      const message = await proxy.post('/v1/messages', { max_tokens: 50, messages: [{ role: 'user', content: order('Kiel.') }] });
      assert.equal(message.body.content.at(-1).text, 'Kiel.', message.text);
      const streamed = await proxy.post('/v1/messages', { max_tokens: 50, stream: true, messages: [{ role: 'user', content: order('Kiel lies by the sea.') }] });
      assert.equal(streamed.events.map((e) => e.delta?.text ?? '').join(''), 'Kiel lies by the sea.', streamed.text);
    },
    'an overflow is its ContextWindowExceededError (scripted)': async (c) => {
      const proxy = await start(c, 'limited');
      for (const stream of [false, true]) {
        const r = await proxy.chat('some words of a long question '.repeat(9000), { stream });
        assert.equal(r.status, 400, r.text);
        assert.match(r.text, /ContextWindowExceededError/, r.text);
      }
    },
    'as an upstream of Sluice: answers, calls, counts and refusals (scripted)': async (c) => {
      const proxy = await start(c, 'scripted'), limited = await start(c, 'limited'), front = await server({ fake: true });
      try {
        await addUpstream(front, 'litellm', `${proxy.url}/v1`, [{ model: 'far', remote: 'demo-model' }], { key: proxy.key });
        await addUpstream(front, 'narrow', `${limited.url}/v1`, [{ model: 'short', remote: 'demo-model' }], { key: limited.key });
        await addUpstream(front, 'locked', `${proxy.url}/v1`, [{ model: 'locked', remote: 'demo-model' }], { key: 'sk-wrong' });
        const ask = (content, more) => ({ model: 'far', messages: [{ role: 'user', content }], ...more }), said = order('<think>\nA port.\n</think>\n\nKiel lies by the sea.');
        const whole = await front.chat(ask(said)), own = await proxy.chat(said);
        assert.deepEqual([whole.body.choices[0].message.content, whole.body.choices[0].message.reasoning_content, whole.body.choices[0].finish_reason], ['Kiel lies by the sea.', 'A port.', 'stop'], whole.text);
        for (const name of ['prompt_tokens', 'completion_tokens']) assert.equal(whole.body.usage[name], own.body.usage[name], name);
        const stream = joined((await front.stream(ask(said))).chunks);
        assert.deepEqual([stream.content, stream.reasoning, stream.finish], ['Kiel lies by the sea.', 'A port.', ['stop']]);
        const called = (await front.chat(ask(c.call('weather', { town: 'Kiel' }), { tools }))).body.choices[0];
        assert.deepEqual([called.finish_reason, called.message.tool_calls.map((t) => [t.function.name, JSON.parse(t.function.arguments)])], ['tool_calls', [['weather', { town: 'Kiel' }]]]);
        const long = await front.chat({ ...ask('some words of a long question '.repeat(9000)), model: 'short' });
        assert.equal(long.status, 400, long.text);
        const locked = await front.chat({ ...ask('Hi.'), model: 'locked' });
        assert.equal(locked.body.error.reason, 'upstream_key', locked.text);
      } finally { await front.stop(); }
    },
    'an answer of the real engine': async (c) => {
      const proxy = await start(c, 'real');
      const r = await proxy.chat(`${'The town lies by the sea, and people live there. '.repeat(400)} What lies by the sea?`, { max_tokens: 30 });
      assert.equal(r.status, 200, r.text);
      assert.ok(r.body.usage.prompt_tokens > 4096, r.text);
      return `works (${r.body.usage.prompt_tokens} tokens read)`;
    },
  },
}];
