// POST /v1/responses/compact: the user's messages and a summary, which a later request takes in place of what came before.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

let s, real;
before(async () => { s = await start({ fake: true }); });
after(async () => { await s?.stop(); await real?.stop(); });

const say = (o) => order(o)[0].content;
const user = (text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const compact = (body, headers, on = s) => on.json('POST', '/v1/responses/compact', body, headers);
const counted = async (input, on = s) => (await on.json('POST', '/v1/responses/input_tokens', { input })).body.input_tokens;
const steps = [{ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Look it up.' }] },
  { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"town":"Bonn"}' },
  { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'It rains.' }] }];
// the engine obeys the last order of the prompt
const talk = (summary) => [user('Is there rain in Bonn?'), ...steps, user(say({ text: summary }))];

test('the user\'s messages stay, the rest becomes one item', async () => {
  const r = await compact({ model: 'demo-model', input: talk('They spoke of rain.'), instructions: 'Be brief.' });
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.id, /^resp_/);
  assert.equal(r.body.object, 'response.compaction');
  assert.deepEqual(r.body.output.map((i) => i.type), ['message', 'message', 'compaction']);
  assert.deepEqual(r.body.output[0], { ...user('Is there rain in Bonn?'), id: r.body.output[0].id, status: 'completed' });
  const item = r.body.output[2];
  assert.match(item.id, /^cmp_/);
  assert.equal(Buffer.from(item.encrypted_content.split('.').at(-1), 'base64').toString(), 'They spoke of rain.');
  const u = r.body.usage;
  assert.ok(u.input_tokens > 50 && u.output_tokens > 0 && u.total_tokens === u.input_tokens + u.output_tokens, r.text);
  assert.equal((await s.json('GET', `/v1/responses/${r.body.id}`)).status, 404, 'it is not kept');
});

test('what came of it goes in again, and the model reads the summary', async () => {
  const { output } = (await compact({ input: talk('A summary of some words.') })).body;
  const summary = 'Summary of the conversation before this point, in place of its turns:\n\nA summary of some words.';
  const plain = [...output.slice(0, 2), user(summary), user('And now?')];
  for (const type of ['compaction', 'compaction_summary'])
    assert.equal(await counted([...output.slice(0, 2), { ...output[2], type }, user('And now?')]), await counted(plain), type);
  const r = await s.json('POST', '/v1/responses', { input: [...output, user(say({ text: 'On we go.' }))] });
  assert.deepEqual([r.status, r.body.output?.[0].content[0].text, r.body.warnings], [200, 'On we go.', undefined], r.text);
  const again = await compact({ input: [...output, user(say({ text: 'A second one.' }))] });
  assert.deepEqual(again.body.output.map((i) => i.type), ['message', 'message', 'message', 'compaction'], 'one summary takes the place of the other');
});

test('a compaction that is damaged or another server\'s is ignored by name', async () => {
  const { output } = (await compact({ input: talk('Good.') })).body;
  const [head, digest, text] = output[2].encrypted_content.split('.');
  const of = (bytes) => `${head}.${digest}.${Buffer.from(bytes).toString('base64')}`;
  for (const bad of ['gAAAAABforeign', '', `${head}.`, `${head}.${digest}.`, `${head}.${digest}.!!!`, `${head}.${digest.slice(1)}.${text}`, of('Bad.'), of([0xff, 0]), `${output[2].encrypted_content}AAAA`]) {
    const r = await s.json('POST', '/v1/responses', { input: [{ type: 'compaction', encrypted_content: bad }, user(say({ text: 'fine' }))] });
    assert.equal(r.status, 200, `${bad}: ${r.text}`);
    assert.equal(r.headers.get('x-sluice-ignored'), 'input[0].encrypted_content', bad);
  }
  const wrong = await s.json('POST', '/v1/responses', { input: [{ type: 'compaction', encrypted_content: 5 }, user('x')] });
  assert.deepEqual([wrong.status, wrong.body.error.param], [400, 'input[0].encrypted_content']);
});

test('a response or a conversation that is kept can be compacted', async () => {
  const first = (await s.json('POST', '/v1/responses', { input: say({ text: 'yes' }) })).body;
  const r = await compact({ previous_response_id: first.id });
  assert.deepEqual(r.body.output.map((i) => i.type), ['message', 'compaction'], r.text);
  const c = (await s.json('POST', '/v1/conversations', { items: talk('Of a conversation.') })).body;
  const made = await compact({ conversation: c.id });
  assert.equal(made.body.output.length, 3, made.text);
  assert.equal((await s.json('GET', `/v1/conversations/${c.id}/items`)).body.data.length, 6, 'it stays as it is');
  const back = await s.json('POST', '/v1/conversations', { items: made.body.output });
  assert.equal(back.status, 200, back.text);
});

test('fields: what agents send along is ignored by name, what is wrong is refused', async () => {
  const r = await compact({ input: talk('x'), tools: [{ type: 'function', name: 'f' }], parallel_tool_calls: true, reasoning: { effort: 'high' }, text: {}, service_tier: 'auto', prompt_cache_key: 'k', image: {} });
  assert.equal(r.status, 200, r.text);
  assert.deepEqual(r.headers.get('x-sluice-ignored').split(', ').sort(), ['image', 'parallel_tool_calls', 'reasoning', 'service_tier', 'text', 'tools']);
  for (const [body, param, status = 400] of [[{}, 'input'], [{ input: [] }, 'input'], [{ input: 5 }, 'input'], [{ input: [{ role: 'x', content: '' }] }, 'input[0].role'], [{ instructions: 5, input: 'x' }, 'instructions'],
    [{ previous_response_id: 'resp_none' }, 'previous_response_id'], [{ model: 'other', input: 'x' }, 'model', 404]]) {
    const bad = await compact(body);
    assert.deepEqual([bad.status, bad.body.error.param], [status, param], bad.text);
  }
  const empty = await compact({ input: talk('') });
  assert.deepEqual([empty.status, empty.body.warnings?.[0].message], [200, 'the model wrote no summary'], empty.text);
});

test('compact is no response\'s id', async () => {
  for (const method of ['GET', 'DELETE']) {
    const r = await s.json(method, '/v1/responses/compact');
    assert.deepEqual([r.status, r.headers.get('allow')], [405, 'POST']);
  }
});

test('a conversation that is longer than the context loses its oldest steps, and says so', async () => {
  real = await start();
  const context = (await real.json('GET', '/v1/models')).body.data[0].max_model_len;
  const long = 'word '.repeat(Math.ceil(context / 3));
  const many = Array.from({ length: 6 }, (_, i) => [{ type: 'function_call', call_id: `c${i}`, name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: `c${i}`, output: long }]).flat();
  const r = await compact({ input: [user('Look into it.'), ...many] }, undefined, real);
  assert.equal(r.status, 200, r.text);
  assert.ok(r.body.warnings.some((w) => w.field === 'truncation' && /dropped/.test(w.message)), JSON.stringify(r.body.warnings));
  assert.deepEqual(r.body.output.map((i) => i.type), ['message', 'compaction']);
  assert.ok(r.body.usage.input_tokens <= context);
  assert.ok(r.body.usage.input_tokens > context / 4, 'what fits is summarised');
  const next = await real.json('POST', '/v1/responses', { input: [...r.body.output, user('Go on.')], max_output_tokens: 4 });
  assert.equal(next.status, 200, next.text);
  const chatty = await compact({ input: [user(`old ${long}`), user(`middle ${long}`), user('new')] }, undefined, real);
  assert.equal(chatty.status, 200, chatty.text);
  assert.ok(chatty.body.warnings.some((w) => w.field === 'output' && /left out/.test(w.message)), JSON.stringify(chatty.body.warnings));
  assert.equal(chatty.body.output.at(-2).content[0].text, 'new');
});
