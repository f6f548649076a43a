// Calls in every format: what the grammar lets through is read back by the answer parser as calls of the wished tools, with
// valid arguments, behind free reasoning. Random walks over the demo vocabulary, without a model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { load } from './harness.mjs';
import { openWalker } from './grammar_walker.mjs';

const Ajv = (await load('ajv/dist/2020.js')).default.default;
const addFormats = (await load('ajv-formats')).default;
const ajv = new Ajv({ strict: false, allErrors: true });
(addFormats.default ?? addFormats)(ajv);

const rounds = Number(process.env.GRAMMAR_ROUNDS ?? 14);
const most = 900; // tokens: what has not ended by then seldom does, and says nothing
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required, additionalProperties: false });
const tool = (name, parameters, strict = true) => ({ type: 'function', function: { name, parameters, strict } });
const tools = [
  tool('get_weather', object({ town: { type: 'string' }, unit: { type: 'string', enum: ['C', 'F', 'true'] }, days: { type: 'integer', minimum: 1, maximum: 14 } })),
  tool('note-it', object({ text: { type: ['string', 'null'] }, tags: { type: 'array', items: { type: 'string', maxLength: 5 }, maxItems: 2 },
    when: { anyOf: [{ type: 'string', format: 'date' }, { type: 'integer' }] }, place: object({ x: { type: 'number' }, y: { type: 'boolean' } }) })),
  tool('short', object({ code: { type: 'string', pattern: '^[A-Z]{2}\\d{2}$' }, name: { type: 'string', minLength: 2, maxLength: 6 },
    kind: { enum: ['1', 'a'] }, maybe: { type: ['string', 'integer'], maxLength: 4 } }, ['code', 'name', 'kind']), false),
  tool('nothing', object({})),
];
const checks = Object.fromEntries(tools.map((t) => [t.function.name, ajv.compile(t.function.parameters)]));
const all = ['hermes', 'qwen3_coder', 'harmony', 'bailing', 'deepseek_v3.1', 'deepseek_v3', 'glm', 'kimi_k2', 'minimax_m2', 'llama3', 'mistral'];

let w;
before(() => { w = openWalker(); });
after(() => w?.close());

function assertCalls(format, text, parsed, most = 64) {
  assert.ok(parsed.calls.length >= 1 && parsed.calls.length <= most, `${format}: ${parsed.calls.length} calls in ${JSON.stringify(text)}`);
  for (const c of parsed.calls) {
    const check = checks[c.name];
    assert.ok(check, `${format}: '${c.name}' in ${JSON.stringify(text)}`);
    const value = JSON.parse(c.arguments);
    assert.ok(check(value), `${format}: ${c.arguments}\nof ${JSON.stringify(text)}\n${JSON.stringify(check.errors)}`);
  }
}

for (const format of all) {
  test(`${format}: forced calls are read back`, async () => {
    let seen = 0;
    for (const more of [{}, { may_reason: true }, { opens_reasoning: format !== 'harmony' }, { one_call: true }]) {
      const out = await w.ask({ format, tools, calls: 'must', n: rounds, seed: 11, max_tokens: most, ...more });
      assert.equal(out.error, undefined, out.error);
      out.parsed.forEach((p, i) => {
        assertCalls(format, out.texts[i], p, more.one_call ? 1 : 64);
        assert.equal((p.content ?? '').trim(), '', `${format}: ${JSON.stringify(out.texts[i])}`);
      });
      seen += out.parsed.length;
    }
    assert.ok(seen >= rounds / 2, `only ${seen} answers ended`);
  });

  test(`${format}: where the model may choose, a call is whole and a wished content valid`, async () => {
    const schema = object({ a: { type: 'integer' } });
    const check = ajv.compile(schema);
    const out = await w.ask({ format, tools, calls: 'may', schema, n: rounds, seed: 5, max_tokens: most });
    assert.equal(out.error, undefined, out.error);
    out.parsed.forEach((p, i) => {
      if (p.calls.length) assertCalls(format, out.texts[i], p);
      else assert.ok(check(JSON.parse(p.content)), out.texts[i]);
    });
    const free = await w.ask({ format, tools, calls: 'may', n: rounds, seed: 6, max_tokens: 600 });
    assert.equal(free.error, undefined, free.error);
    free.parsed.forEach((p, i) => { if (p.calls.length) assertCalls(format, free.texts[i], p); });
  });
}

test('plain has no form for calls; a tool that can not be enforced is named', async () => {
  assert.match((await w.ask({ format: 'plain', tools, calls: 'must' })).error, /no form for calls/);
  const bad = [tool('f', object({ a: { not: {} } }))];
  for (const format of all) assert.match((await w.ask({ format, tools: bad, calls: 'must' })).error, /'not'/, format);
  for (const format of all) {
    const loose = [tool('f', object({ a: { not: {} } }), false)];
    assert.equal((await w.ask({ format, tools: loose, calls: 'must', n: 1 })).error, undefined, format);
    const referring = [tool('f', { ...object({ a: { $ref: '#/$defs/x' } }), $defs: { x: object({ y: { not: {} } }) } }, false)];
    assert.equal((await w.ask({ format, tools: referring, calls: 'must', n: 1 })).error, undefined, format);
  }
});
