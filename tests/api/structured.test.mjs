// Answers in a wished form, through the whole way with the demo model: JSON, schemas, grammars, forced and strict calls.
// Hot sampling, so that the form is the grammar's work and not the model's.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { joined, load, start } from './harness.mjs';

let s;
before(async () => { s = await start({}); });
after(() => s?.stop());

const Ajv = (await load('ajv/dist/2020.js')).default.default;
const formats = (await load('ajv-formats')).default;
const ajv = new Ajv({ strict: false, allErrors: true });
(formats.default ?? formats)(ajv);

const hot = { temperature: 1.5, max_tokens: 400 };
const say = (text) => [{ role: 'user', content: text }];
const person = { type: 'object', properties: { name: { type: 'string', maxLength: 20 }, age: { type: 'integer', minimum: 0, maximum: 120 },
  tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 3 } }, required: ['name', 'age', 'tags'], additionalProperties: false };
const format = (schema, strict = true) => ({ type: 'json_schema', json_schema: { name: 'x', schema, strict } });
const ask = (body) => s.chat({ messages: say('Tell me of Ada.'), ...hot, ...body });
const content = (r) => r.body.choices[0].message.content;

function assertValid(schema, value) {
  const check = ajv.compile(schema);
  assert.ok(check(value), `${JSON.stringify(value)}: ${ajv.errorsText(check.errors)}`);
}

test('a strict schema is kept, whatever is drawn', async () => {
  for (let seed = 0; seed < 12; seed++) {
    const r = await ask({ response_format: format(person), seed });
    assert.equal(r.status, 200, r.text);
    assert.equal(r.body.choices[0].finish_reason, 'stop', r.text);
    assertValid(person, JSON.parse(content(r)));
  }
});

test('streamed, with logprobs, penalties and several choices', async () => {
  const r = await s.stream({ messages: say('Tell me of Ada.'), ...hot, response_format: format(person), logprobs: true, top_logprobs: 2,
    frequency_penalty: 0.5, seed: 5 });
  assertValid(person, JSON.parse(joined(r.chunks).content));
  const many = await ask({ response_format: format(person), n: 4, seed: 9 });
  assert.equal(many.body.choices.length, 4, many.text);
  for (const c of many.body.choices) assertValid(person, JSON.parse(c.message.content));
});

test('greedy and top_k answers keep it too', async () => {
  for (const sampling of [{ temperature: 0 }, { temperature: 1, top_k: 5 }, { temperature: 1, top_p: 0.5 }, { temperature: 1, min_p: 0.1 }]) {
    const r = await ask({ response_format: format(person), ...sampling });
    assertValid(person, JSON.parse(content(r)));
  }
});

test('json_object is any object; a cut answer says so', async () => {
  for (let seed = 0; seed < 4; seed++) {
    const r = await ask({ response_format: { type: 'json_object' }, seed, temperature: 1 });
    if (r.body.choices[0].finish_reason === 'length') assert.equal(content(r)[0], '{');
    else assert.equal(typeof JSON.parse(content(r)), 'object');
  }
  const cut = await ask({ response_format: format(person), max_tokens: 3 });
  assert.equal(cut.body.choices[0].finish_reason, 'length');
});

test('a stop string ends a constrained answer', async () => {
  const r = await ask({ response_format: format(person), stop: '"age"' });
  assert.equal(r.body.choices[0].finish_reason, 'stop');
  assert.ok(!content(r).includes('"age"') && content(r).includes('"name"'), content(r));
});

test('GBNF, for chat and for raw completions', async () => {
  const grammar = 'root ::= "yes" | "no" | "maybe " [a-z]{3,5}';
  const form = /^(yes|no|maybe [a-z]{3,5})$/;
  for (let seed = 0; seed < 6; seed++) assert.match(content(await ask({ grammar, seed })), form);
  const r = await s.json('POST', '/v1/completions', { prompt: 'Is it so?', grammar, ...hot });
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.choices[0].text, form);
});

test('constrained and free answers in one batch', async () => {
  const all = await Promise.all([0, 1, 2, 3, 4, 5].map((seed) => ask(seed % 2 ? { response_format: format(person), seed } : { seed, max_tokens: 30 })));
  all.forEach((r, i) => { if (i % 2) assertValid(person, JSON.parse(content(r))); else assert.equal(r.status, 200); });
  const free = await ask({ seed: 2, max_tokens: 30 });
  assert.equal(content(free), content(all[2]), 'what runs beside it changes nothing');
});

const tool = (name, parameters, strict) => ({ type: 'function', function: { name, parameters, ...(strict === undefined ? {} : { strict }) } });
const weather = { type: 'object', properties: { town: { type: 'string', maxLength: 12 }, unit: { enum: ['C', 'F'] } }, required: ['town', 'unit'], additionalProperties: false };
const tools = [tool('get_weather', weather, true), tool('set_timer', { type: 'object', properties: { minutes: { type: 'integer', minimum: 1, maximum: 60 } }, required: ['minutes'] })];
const schemas = { get_weather: weather, set_timer: tools[1].function.parameters };

function assertCalls(r, names) {
  assert.equal(r.status, 200, r.text);
  const m = r.body.choices[0].message;
  assert.equal(r.body.choices[0].finish_reason, 'tool_calls', r.text);
  assert.ok(m.tool_calls?.length >= 1, r.text);
  for (const c of m.tool_calls) {
    assert.ok(names.includes(c.function.name), c.function.name);
    assertValid(schemas[c.function.name], JSON.parse(c.function.arguments));
  }
  return m.tool_calls;
}

test('required, named and allowed calls come, with valid arguments', async () => {
  const one = { parallel_tool_calls: false };
  for (let seed = 0; seed < 6; seed++) {
    assertCalls(await ask({ tools, tool_choice: 'required', seed, ...one }), ['get_weather', 'set_timer']);
    const named = await ask({ tools, tool_choice: { type: 'function', function: { name: 'set_timer' } }, seed, ...one });
    assert.equal(assertCalls(named, ['set_timer']).length, 1);
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'get_weather' } }] } };
    assertCalls(await ask({ tools, tool_choice: allowed, seed, ...one }), ['get_weather']);
  }
});

test('auto with a strict tool: text, or a valid call', async () => {
  for (let seed = 0; seed < 6; seed++) {
    const r = await ask({ tools, seed, messages: say('What is the weather in Bonn? Use the tool.') });
    assert.equal(r.status, 200, r.text);
    for (const c of r.body.choices[0].message.tool_calls ?? []) assertValid(schemas[c.function.name], JSON.parse(c.function.arguments));
  }
});

for (const [field, what, body] of [
  ['response_format.json_schema.schema', /#\/properties\/a/, { response_format: format({ type: 'object', properties: { a: { not: {} } }, required: ['a'], additionalProperties: false }) }],
  ['response_format.json_schema.schema', /additionalProperties/, { response_format: format({ type: 'object', properties: {} }) }],
  ['response_format.json_schema.schema', /required/, { response_format: format({ type: 'object', properties: { a: {} }, additionalProperties: false }) }],
  ['response_format.json_schema.schema', /no integer lies/, { response_format: format({ type: 'object', properties: { a: { type: 'integer', minimum: 5, maximum: 4 } }, required: ['a'], additionalProperties: false }) }],
  ['response_format.json_schema.schema', /match/, { response_format: format({ $ref: '#/$defs/a', $defs: { a: { type: 'array', items: { $ref: '#/$defs/a' }, minItems: 1 } } }, false) }],
  ['response_format.json_schema.name', /1 to 64/, { response_format: { type: 'json_schema', json_schema: { schema: {} } } }],
  ['response_format.json_schema', /object/, { response_format: { type: 'json_schema' } }],
  ['response_format.type', /json_schema/, { response_format: { type: 'xml' } }],
  ['grammar', /line 1, column 10/, { grammar: 'root ::= )' }],
  ['grammar', /left recursion/, { grammar: 'root ::= root "a" | "b"' }],
  ['grammar', /one form/, { grammar: 'root ::= "a"', response_format: { type: 'json_object' } }],
  ['tools[0].function.parameters', /'not'/, { tools: [tool('f', { type: 'object', properties: { a: { not: {} } }, required: ['a'], additionalProperties: false }, true)], tool_choice: 'required' }],
  ['tool_choice', /not among/, { tools, tool_choice: { type: 'function', function: { name: 'nope' } } }],
  ['tool_choice', /tools/, { tool_choice: 'required' }],
]) {
  test(`refused: ${field} ${what}`, async () => {
    const r = await ask(body);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, field, r.text);
    assert.match(r.body.error.message, what);
  });
}

/** What workers and engine have had of the processor, in seconds, with what has ended since: a worker that ends while it is asked has left its
 * time to its parent, so all are asked again. */
function worked() {
  try {
    return ['workers-stream', 'engine'].map((name) => s.pid(name)).flatMap((pid) => [pid, ...s.childrenOf(pid)]).reduce((sum, pid) => {
      const ticks = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ').slice(11, 15).map(Number);
      return ticks.reduce((a, b) => a + b, sum);
    }, 0) / 100;
  } catch (e) {
    if (e.code !== 'ENOENT') throw e;
    return worked();
  }
}

test('hostile schemas cost little', async () => {
  const deep = (n) => { let x = { type: 'string' }; for (let i = 0; i < n; i++) x = { anyOf: [x, x] }; return x; };
  const wide = { type: 'object', properties: Object.fromEntries(Array.from({ length: 1500 }, (_, i) => [`p${i}`, { type: 'string', pattern: '^(a|b|c){1,50}$' }])) };
  const long = { type: 'string', pattern: '^((((a{1,999}){1,999}){1,999}){1,999})$' };
  for (const schema of [deep(14), wide, long]) {
    const before = worked(), r = await ask({ response_format: format(schema, false), max_tokens: 5 });
    assert.ok([200, 400].includes(r.status), r.text);
    assert.ok(worked() - before < 20 * (process.env.SLUICE_TEST_SANITIZED ? 4 : 1), 'seconds of the processor');
  }
});
