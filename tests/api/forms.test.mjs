// The content's form under the names of other servers: vLLM's structured_outputs and guided_*, SGLang's regex, ebnf and
// json_schema, llama.cpp's grammar and json_schema. With the real engine, which can't help but keep to the form.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { joined, start } from './harness.mjs';

let s;
before(async () => { s = await start(); });
after(() => s?.stop());

const ask = { messages: [{ role: 'user', content: 'Name a town and how many people live there.' }], max_tokens: 300, seed: 3, temperature: 1.2 };
const schema = { type: 'object', properties: { town: { type: 'string', maxLength: 12 }, people: { type: 'integer', minimum: 1, maximum: 999 } },
  required: ['town', 'people'], additionalProperties: false };
const valid = (text) => {
  const v = JSON.parse(text);
  assert.deepEqual(Object.keys(v), ['town', 'people'], text);
  assert.ok(v.town.length <= 12 && v.people >= 1 && v.people <= 999, text);
};
const pattern = '[A-Z]{2}\\d{3}|none';
const matches = (text) => assert.match(text, /^(?:[A-Z]{2}\d{3}|none)$/);
const towns = ['Bonn', 'São Paulo', 'a "quoted" place'];
const one = (text) => assert.ok(towns.includes(text), text);
const grammar = 'root ::= "[" [a-z]{3,9} "]"';
const bracketed = (text) => assert.match(text, /^\[[a-z]{3,9}\]$/);

const forms = [
  ['guided_json, an object', { guided_json: schema }, valid],
  ['guided_json, a string', { guided_json: JSON.stringify(schema) }, valid],
  ['guided_regex', { guided_regex: pattern }, matches],
  ['guided_choice', { guided_choice: towns }, one],
  ['guided_grammar', { guided_grammar: grammar }, bracketed],
  ['structured_outputs.json', { structured_outputs: { json: schema } }, valid],
  ['structured_outputs.json, a string', { structured_outputs: { json: JSON.stringify(schema) } }, valid],
  ['structured_outputs.regex', { structured_outputs: { regex: pattern, json: null } }, matches],
  ['structured_outputs.choice', { structured_outputs: { choice: towns } }, one],
  ['structured_outputs.grammar', { structured_outputs: { grammar } }, bracketed],
  ['regex', { regex: pattern }, matches],
  ['regex with anchors', { regex: `^(${pattern})$` }, matches],
  ['ebnf', { ebnf: grammar }, bracketed],
  ['json_schema, a string', { json_schema: JSON.stringify(schema) }, valid],
  ['json_schema, an object', { json_schema: schema }, valid],
  ['response_format.schema', { response_format: { type: 'json_object', schema } }, valid],
  ['response_format.schema of type json_schema', { response_format: { type: 'json_schema', schema } }, valid],
];

for (const [name, form, check] of forms)
  test(`${name}: chat, whole and streamed, completions, responses`, async () => {
    const chat = await s.chat({ ...ask, ...form });
    assert.equal(chat.body.choices?.[0].finish_reason, 'stop', chat.text);
    check(chat.body.choices[0].message.content);
    assert.equal(chat.body.warnings, undefined);
    const streamed = joined((await s.stream({ ...ask, ...form, enable_thinking: false, seed: 4 })).chunks);
    check(streamed.content);
    const raw = await s.json('POST', '/v1/completions', { prompt: 'A town: ', max_tokens: 200, seed: 5, ...form });
    assert.equal(raw.body.choices?.[0].finish_reason, 'stop', raw.text);
    check(raw.body.choices[0].text);
    if (form.response_format) return; // text.format has its place
    const r = await s.json('POST', '/v1/responses', { input: 'A town?', max_output_tokens: 300, store: false, ...form });
    check(r.body.output?.find((o) => o.type === 'message')?.content[0].text ?? assert.fail(r.text));
  });

test('logprobs go with a form', async () => {
  const r = await s.chat({ ...ask, json_schema: schema, logprobs: true, top_logprobs: 2, enable_thinking: false });
  const { message, logprobs } = r.body.choices[0];
  valid(message.content);
  assert.ok(logprobs.content.length > 3 && logprobs.content.every((t) => t.logprob <= 0 && t.top_logprobs.length === 2));
  assert.equal(Buffer.concat(logprobs.content.map((t) => Buffer.from(t.bytes))).toString(), message.content);
});

const wrong = [
  ['guided_regex', /response_format/, { guided_regex: 'a', response_format: { type: 'json_object' } }],
  ['guided_json', /regex/, { guided_json: schema, regex: 'a+' }],
  ['structured_outputs.choice', /structured_outputs\.regex/, { structured_outputs: { regex: 'a', choice: ['a'] } }],
  ['grammar', /structured_outputs\.json_object/, { structured_outputs: { json_object: true }, grammar: 'root ::= "a"' }],
  ['guided_choice', /list/, { guided_choice: 'a' }],
  ['guided_choice', /list/, { guided_choice: [] }],
  ['guided_choice', /empty/, { guided_choice: ['a', ''] }],
  ['guided_choice', /strings/, { guided_choice: [1] }],
  ['guided_json', /no JSON/, { guided_json: '{"type":' }],
  ['json_schema', /schema/, { json_schema: 5 }],
  ['json_schema', /schema/, { json_schema: '"text"' }],
  ['regex', /string/, { regex: 5 }],
  ['regex', /pattern/, { regex: '(' }],
  ['regex', /pattern/, { regex: 'a(?=b)' }],
  ['ebnf', /root/, { ebnf: 'a ::= "b"' }],
  ['structured_outputs', /object/, { structured_outputs: 'json' }],
  ['structured_outputs.json_object', /true or false/, { structured_outputs: { json_object: 'yes' } }],
  ['response_format.json_schema.schema', /needed/, { response_format: { type: 'json_schema', json_schema: { name: 'a' } } }],
  ['response_format.schema', /json_object/, { response_format: { type: 'text', schema } }],
];
for (const [field, message, form] of wrong)
  test(`${JSON.stringify(form).slice(0, 80)} is refused and names ${field}`, async () => {
    for (const r of [await s.chat({ ...ask, ...form }), await s.json('POST', '/v1/completions', { prompt: 'a', ...form })]) {
      assert.deepEqual([r.status, r.body.error?.param], [400, field], r.text);
      assert.match(r.body.error.message, message);
    }
  });

test('what has no effect beside a form is named', async () => {
  const r = await s.chat({ ...ask, structured_outputs: { choice: ['a'], structural_tag: '{}', backend: 'xgrammar', whitespace_pattern: null }, guided_decoding_backend: 'outlines' });
  assert.equal(r.body.choices?.[0].message.content, 'a', r.text);
  assert.deepEqual(r.body.warnings.map((w) => w.field).sort(), ['guided_decoding_backend', 'structured_outputs.backend', 'structured_outputs.structural_tag']);
});
