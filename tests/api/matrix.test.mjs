// Every route of /openapi.json x {unauthorised, wrong method, oversized, wrong media type, not JSON, wrong type}: so that a
// route which is added is held to the same rules without a test of its own.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { patiently, start } from './harness.mjs';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
let s, routes;

before(async () => {
  s = await start({ fake: true });
  const doc = (await ask('GET', '/openapi.json', undefined, { authorization: null })).body;
  routes = Object.entries(doc.paths).flatMap(([path, item]) => Object.entries(item).map(([method, op]) => ({ path, method: method.toUpperCase(), op,
    url: path.replace(/\{\w+\}/g, '999999'), open: op.security.length === 0, reads: op.requestBody?.content['application/json'] && Object.keys(op.responses).some((x) => /^2/.test(x)) })));
});
after(() => s?.stop());

const none = { authorization: null };
const json = { 'content-type': 'application/json' };

/** OpenAI's or Anthropic's object, or Ollama's text, with everything in it, whatever the route. */
function checkError(r, status, what) {
  assert.equal(r.status, status, `${what}: ${r.text}`);
  const e = r.body.error;
  if (typeof e === 'string') return assert.ok(e.length > 5 && r.headers.get('x-request-id') && Object.keys(r.body).length === 1, `${what}: ${r.text}`);
  assert.ok(e.message.length > 5 && e.type.length > 3, `${what}: ${r.text}`);
  if (r.body.type === 'error') return; // Anthropic's
  assert.deepEqual(Object.keys(e).sort(), ['code', 'message', 'param', 'request_id', 'type'], what);
  return assert.equal(e.request_id, r.headers.get('x-request-id'), what);
}

const ask = (...what) => patiently(() => s.json(...what));

test('there are routes', () => assert.ok(routes.length >= 37));

test('without a key: 401 with WWW-Authenticate, unless it is open', async () => {
  for (const { path, url, method, open, op } of routes) {
    const what = `${method} ${path}`;
    const r = await ask(method, url, op.requestBody ? {} : undefined, none);
    if (open) {
      assert.notEqual(r.headers.has('www-authenticate') && r.body?.error?.code === 'missing_api_key', true, what);
      continue;
    }
    checkError(r, 401, what);
    assert.match(r.headers.get('www-authenticate'), /^Bearer/, what);
    const wrong = await ask(method, url, op.requestBody ? {} : undefined, { authorization: 'Bearer sk-wrong' });
    checkError(wrong, 401, what);
  }
});

test('a method that a path does not have: 405 with Allow', async () => {
  for (const path of new Set(routes.map((r) => r.path))) {
    const { url } = routes.find((r) => r.path === path);
    const own = routes.filter((r) => r.path === path).map((r) => r.method); // not those of /v1/responses/{id} at .../input_tokens
    for (const method of METHODS.filter((m) => !own.includes(m))) {
      const r = await ask(method, url, method === 'GET' ? undefined : {});
      checkError(r, 405, `${method} ${path}`);
      assert.deepEqual(r.headers.get('allow').split(', ').filter((m) => m !== 'HEAD').sort(), own.sort(), path);
    }
    const options = await patiently(() => s.request('OPTIONS', url, undefined, none));
    assert.equal(options.status, 204, path);
  }
});

test('a body over the limit: 413, and never read', async () => {
  const big = Buffer.alloc(33 << 20, ' ');
  for (const { path, url, method } of routes.filter((r) => r.op.requestBody && r.path !== '/api/import')) // its limit is a setting: import.test.mjs
    checkError(await ask(method, url, big, json), 413, `${method} ${path}`);
});

test('a body that is not said to be JSON: 415', async () => {
  for (const { path, url, method } of routes.filter((r) => r.reads && '415' in r.op.responses)) // Ollama's API asks for no type
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])
      checkError(await ask(method, url, '{}', { 'content-type': type }), 415, `${method} ${path} as ${type}`);
});

test('a body that is no JSON object: 400', async () => {
  for (const { path, url, method } of routes.filter((r) => r.reads))
    for (const body of ['', '{', '[]', '"x"', 'null', '{"a":1}}', '\u0000', '[[[['])
      checkError(await ask(method, url, body, json), 400, `${method} ${path} with ${JSON.stringify(body)}`);
});

/** Values that the schema of a member does not allow, by its type. */
function wrongFor(schema) {
  const types = [schema.type].flat();
  if (!schema.type || types.includes('object')) return [];
  return [types.includes('string') ? 5 : 'text', types.includes('array') ? { a: 1 } : [[]]];
}

test('a member of the wrong type: 400 that names it', async () => {
  const doc = (await ask('GET', '/openapi.json', undefined, none)).body;
  const members = (ref) => {
    const schema = doc.components.schemas[ref.split('/').at(-1)];
    return { ...(schema.allOf ?? []).reduce((all, x) => ({ ...all, ...members(x.$ref) }), {}), ...schema.properties };
  };
  let n = 0;
  const good = { messages: [{ role: 'user', content: 'x' }], prompt: 'x', input: 'x', max_tokens: 5, content: 'x', tokens: [1], name: 'x', password: 'long enough' };
  for (const { path, url, method, op } of routes.filter((r) => r.reads)) {
    if (path.includes('{')) continue; // there is nothing at 999999: 404 may come first
    const all = members(op.requestBody.content['application/json'].schema.$ref);
    const base = Object.fromEntries(Object.entries(good).filter(([k]) => k in all));
    if (path === '/tokenize') delete base.content;
    for (const [name, schema] of Object.entries(all))
      for (const wrong of wrongFor(schema)) {
        const r = await ask(method, url, { ...base, [name]: wrong });
        checkError(r, r.body?.error?.code === 'model_not_found' ? 404 : 400, `${method} ${path} ${name}=${JSON.stringify(wrong)}`);
        assert.ok(r.text.includes(name), `${path}: ${name} is not named in ${r.text}`);
        n++;
      }
  }
  assert.ok(n > 60, `${n} tried`);
});

test('the server is as well as before', async () => {
  assert.equal((await ask('GET', '/health')).status, 200);
  assert.equal((await s.chat({ messages: [{ role: 'user', content: 'x' }] })).status, 200);
  assert.equal(await s.metric('worker_crashes_total'), 0);
});
