// Escapes that stand for no character, as agents send them when a program's output is cut or holds NUL: they become U+FFFD in the
// forms of other servers, by name; where a text must be exact, or parameters are strict, they are refused by name.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const post = (where, text, headers) => s.json('POST', where, text, { 'content-type': 'application/json', ...headers });
const say = JSON.stringify(order({ say_prompt: true })[0].content);

test('a NUL and half a surrogate pair in a message: U+FFFD, and a warning that names the place', async () => {
  const r = await post('/v1/chat/completions', `{"messages":[{"role":"system","content":"a\\u0000b"},{"role":"user","content":"c\\ud83d d\\ud83d\\ude00"},{"role":"user","content":${say}}]}`);
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.choices[0].message.content, /a\ufffdb[^]*c\ufffd d\u{1f600}/u);
  assert.deepEqual(r.body.warnings.map((w) => w.field), ['messages[0].content']);
  assert.match(r.body.warnings[0].message, /2 escapes of no character .* U\+FFFD/);
  assert.equal(r.headers.get('x-sluice-ignored'), null, 'nothing was ignored');
});

test('the same in responses, messages and completions', async () => {
  const all = [['/v1/responses', '{"input":"a\\u0000b"}', 'input'],
    ['/v1/messages', '{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a\\udc00"}]}]}', 'messages[0].content[0].text'],
    ['/v1/completions', '{"prompt":["x","a\\u0000b"]}', 'prompt[1]']];
  for (const [where, body, field] of all) {
    const r = await post(where, body, { 'anthropic-version': '2023-06-01' });
    assert.equal(r.status, 200, r.text);
    assert.deepEqual(r.body.warnings.map((w) => w.field), [field], where);
  }
});

test('a text that is to be tokenized must be exact: 400 with its field', async () => {
  for (const bad of ['\\u0000', '\\ud800', '\\udc00']) {
    const r = await post('/tokenize', `{"content":"a${bad}b"}`);
    assert.deepEqual([r.status, r.body.error?.param], [400, 'content'], r.text);
  }
});

test('strict parameters: 400 with the field', async () => {
  const key = (await s.json('POST', '/api/keys', { name: 'strict', strict_parameters: true })).body.key;
  const r = await post('/v1/chat/completions', '{"messages":[{"role":"user","content":"a\\u0000b"}]}', { authorization: `Bearer ${key}` });
  assert.deepEqual([r.status, r.body.error?.param], [400, 'messages[0].content'], r.text);
});

test('half a surrogate pair in the arguments of a call leaves it a call', async () => {
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } } }];
  const r = await s.chat({ messages: order({ text: '<tool_call>\n{"name": "f", "arguments": {"a": "x\\ud83d y\\ud83d\\ude00"}}\n</tool_call>' }), tools });
  assert.equal(JSON.parse(r.body.choices[0].message.tool_calls?.[0].function.arguments ?? 'null')?.a, 'x\ufffd y\u{1f600}', r.text);
});
