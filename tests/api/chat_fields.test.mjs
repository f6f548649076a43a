// Each field of a chat request is obeyed; a wrong type or value is 400 with its name, never 500 (what is ignored: ignored.test.mjs).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const user = { role: 'user', content: 'hi' };
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };
const cases = [
  ['messages', { messages: undefined }],
  ['messages', { messages: [] }],
  ['messages', { messages: 'hi' }],
  ['messages[0]', { messages: ['hi'] }],
  ['messages[0].role', { messages: [{ content: 'x' }] }],
  ['messages[0].role', { messages: [{ role: 'robot', content: 'x' }] }],
  ['messages[1].content', { messages: [user, { role: 'user' }] }],
  ['messages[0].content', { messages: [{ role: 'user', content: 5 }] }],
  ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }],
  ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text' }] }] }],
  ['messages[1].tool_calls[0]', { messages: [user, { role: 'assistant', tool_calls: [{ id: 'x' }] }] }],
  ['messages[0].tool_calls', { messages: [{ role: 'user', content: 'x', tool_calls: [{ type: 'function', function: { name: 'f', arguments: '{}' } }] }] }],
  ['temperature', { temperature: 'warm' }],
  ['temperature', { temperature: 2.1 }],
  ['temperature', { temperature: -0.1 }],
  ['top_p', { top_p: 1.5 }],
  ['top_k', { top_k: 1.5 }],
  ['min_p', { min_p: -1 }],
  ['presence_penalty', { presence_penalty: 3 }],
  ['frequency_penalty', { frequency_penalty: -3 }],
  ['repetition_penalty', { repetition_penalty: 0 }],
  ['seed', { seed: 1.5 }],
  ['stop', { stop: 5 }],
  ['stop', { stop: [''] }],
  ['stop', { stop: [1] }],
  ['stop', { stop: Array(17).fill('x') }],
  ['stop', { stop: 'x'.repeat(513) }],
  ['max_tokens', { max_tokens: 0 }],
  ['max_tokens', { max_tokens: 5, max_completion_tokens: 6 }],
  ['max_completion_tokens', { max_completion_tokens: -2 }],
  ['logit_bias', { logit_bias: { hello: 1 } }],
  ['logit_bias', { logit_bias: { 99999999: 1 } }],
  ['logit_bias', { logit_bias: { 5: 101 } }],
  ['logit_bias', { logit_bias: [1] }],
  ['logprobs', { logprobs: 3 }],
  ['top_logprobs', { top_logprobs: 2 }],
  ['top_logprobs', { logprobs: true, top_logprobs: 21 }],
  ['n', { n: 0 }],
  ['n', { n: 1000 }],
  ['stream', { stream: 'yes' }],
  ['stream_options', { stream_options: { include_usage: true } }],
  ['tools', { tools: {} }],
  ['tools[0].type', { tools: [{ type: 'web_search' }] }],
  ['tools[0].function.name', { tools: [{ type: 'function', function: { name: 'a b' } }] }],
  ['tools[0].function.strict', { tools: [{ type: 'function', function: { name: 'f', strict: 'yes' } }] }],
  ['tool_choice', { tools: [tool], tool_choice: { type: 'function', function: { name: 'g' } } }],
  ['tool_choice', { tools: [tool], tool_choice: 'always' }],
  ['parallel_tool_calls', { tools: [tool], parallel_tool_calls: 1 }],
  ['response_format.json_schema.name', { response_format: { type: 'json_schema', json_schema: { schema: {} } } }],
  ['response_format.type', { response_format: { type: 'xml' } }],
  ['grammar', { grammar: 'root ::= x' }],
  ['grammar', { grammar: 5 }],
  ['response_format.type', { response_format: {} }],
  ['reasoning_effort', { reasoning_effort: 'huge' }],
  ['chat_template_kwargs', { chat_template_kwargs: { messages: [] } }],
  ['chat_template_kwargs', { chat_template_kwargs: 'x' }],
];

for (const [param, change] of cases) {
  test(`${param}: ${JSON.stringify(change).slice(0, 70)}`, async () => {
    const r = await s.chat({ messages: [user], ...change });
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, param, r.text);
    assert.equal(r.body.error.type, 'invalid_request_error');
    assert.equal(typeof r.body.error.code, 'string');
    assert.ok(r.body.error.message.length > 5);
    assert.equal(r.body.error.request_id, r.headers.get('x-request-id'));
  });
}

test('an unknown model is 404 model_not_found', async () => {
  const r = await s.chat({ model: 'gpt-9', messages: [user] });
  assert.equal(r.status, 404);
  assert.equal(r.body.error.code, 'model_not_found');
  assert.equal(r.body.error.param, 'model');
});

test('what the engine refuses has the right status', async () => {
  const refuse = async (code) => s.chat({ messages: order({ refuse: code }) });
  const busy = await refuse('busy');
  assert.equal(busy.status, 503, busy.text);
  assert.equal(busy.body.error.code, 'queue_full');
  assert.ok(Number(busy.headers.get('retry-after')) >= 1);
  const limit = await refuse('limit');
  assert.equal(limit.status, 400, limit.text);
  assert.equal(limit.body.error.code, 'context_length_exceeded');
  assert.equal(limit.body.error.param, 'messages');
});
