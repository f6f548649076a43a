// Open WebUI in front of /v1/chat/completions, with the settings of docs/clients/open-webui.md: by the API that its page uses. It is
// installed as its slim image is: without torch and the local models for search and speech.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sleep, slow, top } from '../api/harness.mjs';
import { once, serve } from './lib/serving.mjs';

const lib = path.join(path.dirname(fileURLToPath(import.meta.url)), 'lib');

/** Each advanced parameter with a value as its page sends it. */
const PARAMETERS = {
  temperature: 0.7, top_p: 0.9, top_k: 40, min_p: 0.05, max_tokens: 20, seed: 7, stop: ['NEVER', '\\n\\n\\n'], logit_bias: '5:10,413:-10',
  frequency_penalty: 0.1, presence_penalty: 0.1, repeat_penalty: 1.1, repeat_last_n: 64, mirostat: 1, mirostat_eta: 0.1, mirostat_tau: 5, tfs_z: 1,
  num_ctx: 2048, num_keep: 24, num_batch: 512, num_gpu: 1, num_thread: 2, use_mmap: true, use_mlock: true, think: true, keep_alive: '5m', format: 'json',
  reasoning_effort: 'high', reasoning_tags: ['<think>', '</think>'], function_calling: 'native', stream_delta_chunk_size: 4, system: 'Be brief.',
  custom_params: { typical_p: '0.9', verbosity: '"low"' },
};

const start = once(async (c, kind) => {
  const s = await c.server(kind), cwd = c.folder();
  const web = await serve(c.venv('open-webui'), (port) => ['serve', '--host', '127.0.0.1', '--port', String(port)], { cwd, probe: '/health',
    env: { ...c.exportsOf('open-webui.md', s), DATA_DIR: cwd, USE_SLIM_DOCKER: 'true', OFFLINE_MODE: 'true', WEBUI_SECRET_KEY: 'a-secret-of-this-run', ENABLE_VERSION_UPDATE_CHECK: 'false' } });
  const call = async (method, where, body) => {
    const r = await fetch(web.url + where, { method, headers: { 'content-type': 'application/json', ...(web.token && { authorization: `Bearer ${web.token}` }) }, body: body && JSON.stringify(body) });
    const text = await r.text();
    return { status: r.status, text, body: /^[[{]/.test(text) ? JSON.parse(text) : null };
  };
  const user = await call('POST', '/api/v1/auths/signup', { name: 'First', email: 'first@example.org', password: 'Long-enough-1' });
  assert.equal(user.status, 200, user.text);
  web.token = user.body.token;
  const models = await call('GET', '/api/models');
  assert.equal(models.body.data.length, 1, models.text);
  return { ...web, call, model: models.body.data[0].id };
});

const ask = (web, content, more) => web.call('POST', '/api/chat/completions', { model: web.model, stream: false, messages: [{ role: 'user', content }], ...more });

/** A saved chat, as the page makes one: the answer is read from the chat when it is done. */
async function saved(web, content, more = {}, ms = 120000) {
  const question = randomUUID(), answer = randomUUID();
  const begun = await web.call('POST', '/api/chat/completions', { model: web.model, stream: true, params: {}, messages: [{ role: 'user', content }], session_id: randomUUID(), id: answer,
    parent_id: null, user_message: { id: question, parentId: null, childrenIds: [], role: 'user', content, timestamp: 1, models: [web.model] },
    background_tasks: { title_generation: true, tags_generation: true, follow_up_generation: true }, ...more });
  assert.equal(begun.status, 200, begun.text);
  for (const until = Date.now() + ms * slow; ; await sleep(300)) {
    const { body } = await web.call('GET', `/api/v1/chats/${begun.body.chat_id}`), message = body.chat.history.messages[answer];
    if ((message?.done || message?.error) && (!more.wait || more.wait(body, message))) return { chat: body, message };
    assert.ok(Date.now() < until, `not done: ${JSON.stringify(body)}`);
  }
}

const fieldsDone = () => new Set(readFileSync(path.join(top, 'docs/API-fields.md'), 'utf8').split('\n').filter((l) => /^\| \w+ \| done/.test(l)).map((l) => l.split(' ')[1]));

export default [{
  name: 'open_webui', title: 'Open WebUI (slim)', version: '0.12.4', pip: ['--no-deps', '-r', path.join(lib, 'open_webui.txt')],
  tasks: {
    'each advanced parameter in a chat (scripted)': async (c) => {
      const web = await start(c, 'scripted'), done = fieldsDone(), ignored = [], broken = [];
      const own = ['reasoning_tags', 'function_calling', 'stream_delta_chunk_size', 'system']; // of Open WebUI, not of the request
      for (const [name, value] of Object.entries(PARAMETERS)) {
        const sent = name === 'custom_params' ? Object.keys(value) : [name];
        const r = await ask(web, 'fake:{"text": "Kiel."}', { params: { [name]: value } });
        const warned = r.body?.warnings?.map((w) => w.field.replace(/^requested_/, '')) ?? [];
        if (r.status !== 200 || r.body?.choices?.[0].message.content !== 'Kiel.') broken.push(`${name}: ${r.status} ${r.text.slice(0, 200)}`);
        else for (const field of sent) {
          if (warned.includes(field)) ignored.push(field);
          else if (!own.includes(field) && !done.has(field)) broken.push(`${field}: neither done nor named`);
        }
      }
      assert.deepEqual(broken, []);
      return `works (${Object.keys(PARAMETERS).length} of ${Object.keys(PARAMETERS).length} sets; ignored by name: ${ignored.join(', ')})`;
    },
    'all of them at once, streamed (scripted)': async (c) => {
      const web = await start(c, 'scripted');
      const r = await ask(web, 'fake:{"text": "One two three."}', { stream: true, params: { ...PARAMETERS, logit_bias: undefined } });
      const pieces = r.text.split('\n\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
      assert.equal(pieces.map((p) => p.choices?.[0]?.delta?.content ?? '').join(''), 'One two three.', r.text);
      assert.match(r.text, /data: \[DONE\]/);
    },
    'a saved chat with its title, tags and follow-ups (scripted)': async (c) => {
      const web = await start(c, 'scripted'), text = JSON.stringify({ title: 'A town', tags: ['geography'], follow_ups: ['Which sea?'] });
      const { chat, message } = await saved(web, `fake:${JSON.stringify({ text: `<think>\nI think.\n</think>\n\n${text}` })}`, { wait: (all, m) => all.title === 'A town' && m.followUps && all.meta?.tags?.length });
      assert.ok(message.content.includes('A town'), JSON.stringify(message));
      assert.deepEqual(message.followUps, ['Which sea?'], JSON.stringify(message));
      assert.deepEqual(chat.meta.tags, ['geography'], JSON.stringify(chat.meta));
    },
    'a prompt that is too long is shown as such (scripted)': async (c) => {
      const web = await start(c, 'limited');
      const { message } = await saved(web, 'some words of a long question '.repeat(9000), { background_tasks: {} });
      assert.match(JSON.stringify(message.error), /maximum context length/, JSON.stringify(message).slice(-2000));
    },
    'a saved chat of the real engine': async (c) => {
      const web = await start(c, 'real');
      const { message } = await saved(web, `${'The town lies by the sea. '.repeat(800)}\nWhat lies by the sea?`, { params: { max_tokens: 40, temperature: 0 }, background_tasks: {} }, 400000);
      assert.ok(!message.error && (message.content || message.output), JSON.stringify(message).slice(-1000));
    },
  },
}];
