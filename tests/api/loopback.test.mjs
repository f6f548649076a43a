// The setting keys_optional_on_loopback: who is answered without a key, and above all who is not.
import assert from 'node:assert/strict';
import http from 'node:http';
import os from 'node:os';
import { after, before, test } from 'node:test';
import { eventually, order, sleep, start } from './harness.mjs';

const NAME = 'keys_optional_on_loopback';
let s, guest;

before(async () => {
  s = await start({ fake: true, args: ['--name', 'evil.example *.evil.example'] }); // so that nginx lets them through
  guest = (await s.json('POST', '/api/users', { name: 'guest', password: 'long enough for all', role: 'user' })).body;
});
after(() => s?.stop());

const set = (value) => s.json('PATCH', '/api/admin/settings', { [NAME]: value });
const CHAT = { messages: order({ text: 'hi' }) };

/** A request with exactly these headers, to this address of the machine. fetch would not let us choose Host and Origin. */
function ask(method, where, { body, headers = {}, address = '127.0.0.1' } = {}) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((done, fail) => {
    const r = http.request({ host: address, port: s.port, method, path: where, agent: false,
      headers: { ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } }, (got) => {
      let all = '';
      got.setEncoding('utf8').on('data', (d) => { all += d; }).on('end', () => done({ status: got.statusCode, text: all, body: JSON.parse(all) }));
    });
    r.on('error', fail);
    r.end(text);
  });
}
const chat = (headers, address) => ask('POST', '/v1/chat/completions', { body: CHAT, headers, address });

async function isRefused(answer, why, what) {
  const r = await answer;
  assert.deepEqual([r.status, r.body.error?.code], [401, 'missing_api_key'], `${what}: ${r.text}`);
  if (why) assert.match(r.body.error.message, why, what);
}

test('off by default', async () => {
  await isRefused(chat({}), /^log in, or send an API key/, 'off');
});

test('its value must be a user who may log in', async () => {
  for (const bad of ['nobody-here', 5, true, 'x'.repeat(300)]) {
    const r = await set(bad);
    assert.deepEqual([r.status, r.body.error?.param], [400, NAME], `${bad}: ${r.text}`);
  }
  await isRefused(chat({}), null, 'a refused change changes nothing');
  assert.equal((await set('guest')).status, 200);
});

test('a program on this machine needs no key', async () => {
  for (const [headers, what] of [[{}, 'nothing'], [{ host: `localhost:${s.port}` }, 'localhost'], [{ host: 'LOCALHOST' }, 'in capitals'], [{ host: '[::1]:8080' }, '::1'],
    [{ host: '127.9.9.9' }, '127/8'], [{ origin: 'http://localhost:3000' }, 'a page of this machine'], [{ origin: 'http://[::1]:3000', 'sec-fetch-site': 'cross-site' }, 'another'],
    [{ authorization: 'Bearer none' }, 'a word in place of a key'], [{ 'x-api-key': 'lm-studio' }, 'x-api-key'], [{ authorization: 'Bearer ' }, 'an empty key']]) {
    const r = await chat(headers);
    assert.equal(r.body.choices?.[0].message.content, 'hi', `${what}: ${r.text}`);
  }
  for (const [method, where, body] of [['GET', '/v1/models'], ['GET', '/models'], ['GET', '/props'], ['POST', '/completion', { prompt: 'x' }], ['POST', '/tokenize', { content: 'x' }],
    ['POST', '/v1/messages', { max_tokens: 5, messages: CHAT.messages }], ['POST', '/v1/responses', { input: 'x', store: false }], ['POST', '/v1/completions', { prompt: 'x' }]])
    assert.equal((await ask(method, where, { body })).status, 200, where);
});

test('a key that was sent still counts, and a wrong one is wrong', async () => {
  assert.equal((await chat({ authorization: `Bearer ${s.key}` })).status, 200);
  const wrong = await chat({ authorization: `Bearer sk-sluice-${'x'.repeat(43)}` });
  assert.deepEqual([wrong.status, wrong.body.error.code], [401, 'invalid_api_key'], wrong.text);
  const far = await chat({ authorization: 'Bearer none', 'x-forwarded-for': '1.2.3.4' });
  assert.deepEqual([far.status, far.body.error.code], [401, 'invalid_api_key'], far.text);
});

test('no page of another origin', async () => {
  for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example', 'http://127.0.0.1.evil.example', 'http://evil.example:80', 'http://localhost@evil.example',
    'http://localhost:80.evil.example', 'file://', 'http://', 'http://127.0.0.1:', 'chrome-extension://abc', 'http://192.168.0.2', 'http://[::2]', 'http://::1', 'http://[127.0.0.1]'])
    await isRefused(chat({ origin }), /another origin/, origin);
  for (const site of ['cross-site', 'same-site', 'x'])
    await isRefused(ask('GET', '/v1/models', { headers: { 'sec-fetch-site': site } }), /another origin/, site);
  assert.equal((await ask('GET', '/v1/models', { headers: { 'sec-fetch-site': 'none' } })).status, 200, 'typed into the address bar');
  const cookie = await chat({ cookie: 'sluice_session=0123456789' });
  assert.deepEqual([cookie.status, cookie.body.error.code], [401, 'invalid_session'], cookie.text);
});

test('no name that a DNS server could point here', async () => {
  for (const host of ['evil.example', `evil.example:${s.port}`, 'localhost.evil.example', '127.0.0.1.evil.example', '0.0.0.0', '192.168.0.2', '[::2]', '128.0.0.1', 'localhost.'])
    await isRefused(chat({ host }), /Host header/, host);
});

test('nobody behind a proxy, whatever the headers say', async () => {
  for (const [name, value] of [['x-forwarded-for', '127.0.0.1'], ['x-forwarded-for', '::1'], ['x-forwarded-for', '1.2.3.4'], ['forwarded', 'for=127.0.0.1'], ['x-real-ip', '127.0.0.1'],
    ['via', '1.1 caddy'], ['x-forwarded-host', 'localhost'], ['x-forwarded-proto', 'http'], ['cf-connecting-ip', '127.0.0.1'], ['true-client-ip', '127.0.0.1'], ['x-client-ip', '127.0.0.1']])
    await isRefused(chat({ [name]: value }), /proxy/, `${name}: ${value}`);
});

test('nobody from another machine, whatever the headers say', async (t) => {
  const address = Object.values(os.networkInterfaces()).flat().find((a) => a.family === 'IPv4' && !a.internal)?.address;
  if (!address) return t.skip('this machine has no address but loopback');
  const all = await start({ fake: true, args: ['--host', '0.0.0.0'] });
  const own = s;
  try {
    s = all;
    await set(all.admin.name);
    assert.equal((await chat({})).status, 200, 'from loopback');
    for (const headers of [{}, { host: 'localhost' }, { host: '127.0.0.1', origin: 'http://localhost' }, { host: 'localhost', remote_addr: '127.0.0.1', 'remote-addr': '127.0.0.1' }])
      await isRefused(chat(headers, address), /own machine/, JSON.stringify(headers));
    await isRefused(chat({ host: 'localhost', 'x-forwarded-for': '127.0.0.1' }, address), /own machine/, 'a lie');
  } finally {
    s = own;
    await all.stop();
  }
});

test('the model and nothing else: not the page, histories, keys, what was kept, nor the admin', async () => {
  const doc = (await ask('GET', '/openapi.json')).body;
  const ollama = ['chat', 'generate', 'tags', 'show', 'ps', 'pull', 'embed', 'embeddings', 'create', 'copy', 'delete', 'push', 'blobs/{digest}'].map((x) => `/api/${x}`);
  let refused = 0;
  for (const [path, item] of Object.entries(doc.paths))
    for (const [method, op] of Object.entries(item)) {
      if (op.security.length === 0 || !/^\/(api\/|v1\/responses\/\{|v1\/conversations)/.test(path) || ollama.includes(path)) continue;
      const r = await ask(method.toUpperCase(), path.replace(/\{\w+\}/g, '999999'), { body: op.requestBody ? {} : undefined });
      assert.equal(r.status, 401, `${method} ${path}: ${r.text}`);
      if (path !== '/api/import') assert.match(r.body.error.message, /not answered without a key/, `${method} ${path}`); // nginx has its own words there
      refused++;
    }
  assert.ok(refused > 50, `${refused} tried`);
});

test("Ollama's clients need no key either, and pull nothing without an admin's", async () => {
  assert.equal((await ask('POST', '/api/chat', { body: { messages: [{ role: 'user', content: 'x' }], stream: false } })).status, 200);
  assert.equal((await ask('GET', '/api/tags')).body.models[0].name, 'demo-model:latest');
  assert.equal((await ask('POST', '/api/pull', { body: { model: 'some/model' } })).status, 403);
});

test('an admin who is named gives nothing of an admin', async () => {
  await set(s.admin.name);
  assert.equal((await chat({})).status, 200);
  await isRefused(ask('GET', '/api/admin/settings'), /not answered without a key/, 'settings');
  await set('guest');
});

test('tokens and limits are those of the user', async () => {
  const used = async () => (await s.json('GET', '/api/admin/usage')).body.items.filter((x) => x.user_id === guest.id && x.key_id === null)
    .reduce((sum, x) => [sum[0] + x.requests, sum[1] + x.prompt_tokens, sum[2] + x.completion_tokens], [0, 0, 0]);
  let before = await used();
  for (let same = 0, last; same < 10; await sleep(100)) { last = before; before = await used(); same = last.join() === before.join() ? same + 1 : 0; } // rows come after their replies
  const { usage } = (await chat({})).body;
  const want = [before[0] + 1, before[1] + usage.prompt_tokens, before[2] + usage.completion_tokens];
  await eventually(async () => assert.deepEqual(await used(), want));
  const limits = await s.json('PATCH', `/api/users/${guest.id}`, { limits: { requests_per_minute: 1 } });
  assert.equal(limits.status, 200, limits.text);
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await chat({})).status);
  assert.ok(statuses.includes(429), statuses.join());
  assert.equal((await s.json('PATCH', `/api/users/${guest.id}`, { limits: null })).status, 200);
});

test('a user who may no longer log in ends it, and so does an empty value', async () => {
  await s.json('PATCH', `/api/users/${guest.id}`, { disabled: true });
  await isRefused(chat({}), /names no user/, 'disabled');
  await s.json('PATCH', `/api/users/${guest.id}`, { disabled: false });
  await set('');
  await isRefused(chat({}), /^log in, or send an API key/, 'off');
});
