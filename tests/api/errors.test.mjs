// Every failure is OpenAI's error object with the right status and headers, and a request id that the log has too.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true, first: true }); });
after(() => s?.stop());

async function check(r, status, code) {
  assert.equal(r.status, status, r.text);
  const e = r.body.error;
  assert.deepEqual(Object.keys(e).sort(), ['code', 'message', 'param', 'request_id', 'type']);
  assert.equal(e.code, code, r.text);
  assert.equal(e.request_id, r.headers.get('x-request-id'));
  await s.logs(e.request_id);
}

test('401 without a key, with a wrong one, with nonsense', async () => {
  for (const [authorization, code] of [[null, 'missing_api_key'], ['Bearer sk-wrong', 'invalid_api_key'],
    ['Basic abc', 'invalid_api_key'], ['Bearer ', 'invalid_api_key'], [`Bearer ${'x'.repeat(5000)}`, 'invalid_api_key']]) {
    const r = await s.json('GET', '/v1/models', undefined, { authorization });
    await check(r, 401, code);
    assert.match(r.headers.get('www-authenticate'), /^Bearer/);
  }
});

test('X-API-Key works too', async () => {
  const r = await s.json('GET', '/v1/models', undefined, { authorization: null, 'x-api-key': s.key });
  assert.equal(r.status, 200);
});

test('404 for an unknown path, 405 with Allow for a wrong method', async () => {
  await check(await s.json('GET', '/v1/nothing'), 404, 'not_found');
  await check(await s.json('GET', '/v1/models/'), 404, 'not_found');
  const r = await s.json('DELETE', '/v1/chat/completions');
  await check(r, 405, 'method_not_allowed');
  assert.equal(r.headers.get('allow'), 'POST');
  const m = await s.json('POST', '/v1/models', {});
  await check(m, 405, 'method_not_allowed');
  assert.equal(m.headers.get('allow'), 'GET, HEAD');
  const o = await s.request('OPTIONS', '/v1/models');
  assert.equal(o.status, 204);
  assert.equal(o.headers.get('allow'), 'GET, HEAD');
});

test('what nginx answers itself has the same form', async () => {
  for (const [method, path, status, code] of [['GET', '/nothing.here', 404, 'not_found'], ['POST', '/nothing', 404, 'not_found'],
    ['POST', '/tokenize/', 404, 'not_found'], ['DELETE', '/', 405, 'method_not_allowed']]) {
    const r = await s.json(method, path);
    assert.equal(r.status, status, `${method} ${path}: ${r.text}`);
    assert.deepEqual(Object.keys(r.body.error).sort(), ['code', 'message', 'param', 'request_id', 'type']);
    assert.equal(r.body.error.code, code);
    assert.equal(r.headers.get('x-request-id'), r.body.error.request_id);
    if (status === 405) assert.equal(r.headers.get('allow'), 'GET, HEAD');
  }
});

test('HEAD is GET without a body', async () => {
  const r = await s.request('HEAD', '/v1/models');
  assert.equal(r.status, 200);
  assert.equal(await r.text(), '');
});

test('415 without JSON, 400 for no body and for bad JSON', async () => {
  const send = (body, type = 'application/json') => s.json('POST', '/v1/chat/completions', body, { 'content-type': type });
  await check(await send('{}', 'text/plain'), 415, 'unsupported_media_type');
  await check(await send(''), 400, 'invalid_value');
  for (const bad of ['{', '[]', '"x"', 'null', '{"a":1,}', '{"a":1}x', '{"messages":NaN}', '{"a":1,"a":2}', '\u0000',
    `${'['.repeat(5000)}`, '{"a":1e999}']) {
    const r = await send(bad);
    assert.equal(r.status, 400, `${bad.slice(0, 40)}: ${r.text}`);
  }
  const utf8 = await send(Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]));
  await check(utf8, 400, 'invalid_json');
  await check(await send('{}', 'application/json; charset=utf-8'), 400, 'invalid_value');
});

test('413 past the limits', async () => {
  const big = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(17 << 20) }] });
  await check(await s.json('POST', '/v1/chat/completions', big, { 'content-type': 'application/json' }), 413, 'request_too_large');
  const many = `{"messages":[${'1,'.repeat(2 << 20)}1]}`;
  await check(await s.json('POST', '/v1/chat/completions', many, { 'content-type': 'application/json' }), 413, 'request_too_large');
  const huge = Buffer.alloc(33 << 20, 'x');
  const r = await s.json('POST', '/v1/chat/completions', huge, { 'content-type': 'application/json' });
  assert.equal(r.status, 413);
  assert.equal(r.body.error.code, 'request_too_large');
});

test('the log never holds prompts or keys', async () => {
  await s.chat({ messages: [{ role: 'user', content: 'zebra-secret-prompt' }] });
  assert.ok(!s.log.includes('zebra-secret-prompt'));
  assert.equal(s.log.split(s.key).length, 3, 'only where the first start shows it');
});
