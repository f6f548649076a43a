// Properties of grammars, without a model: random schemas, random walks through their masks over the demo vocabulary, and
// an independent validator. What is written must be valid; what is valid and written in a usual way must be taken.
// By hand, more of it: GRAMMAR_SCHEMAS=2000 GRAMMAR_TOKENIZER=FOLDER node --test tests/api/grammar.test.mjs
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openWalker } from './grammar_walker.mjs';
import { load } from './harness.mjs';
import { make, rng } from './random_schema.mjs';

const Ajv = (await load('ajv/dist/2020.js')).default.default;
const addFormats = (await load('ajv-formats')).default;
const schemas = Number(process.env.GRAMMAR_SCHEMAS ?? 60);

function validator(schema) {
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true });
  (addFormats.default ?? addFormats)(ajv);
  return ajv.compile(schema);
}

let w;
before(() => { w = openWalker(); });
after(() => w?.close());

test(`${schemas} random schemas: what is written is valid`, async () => {
  let answers = 0, cut = 0;
  for (let seed = 0; seed < schemas; seed++) {
    const [schema] = make(rng(seed + 1), 3);
    const out = await w.ask({ schema, n: 8, seed, max_tokens: 1500 });
    assert.equal(out.error, undefined, `${seed}: ${out.error}\n${JSON.stringify(schema)}`);
    const check = validator(schema);
    for (const text of out.texts) {
      assert.ok(check(JSON.parse(text)), `${seed}: ${text}\n${JSON.stringify(schema)}\n${JSON.stringify(check.errors)}`);
      answers++;
    }
    cut += out.cut;
  }
  console.log(`# ${answers} answers, 0 invalid, ${cut} not ended in time`);
  assert.ok(answers > schemas * 6, `${cut} of ${schemas * 8} did not end`);
});

test(`${schemas} random schemas: valid values are taken, in any cut into tokens`, async () => {
  for (let seed = 0; seed < schemas; seed++) {
    const [schema, value] = make(rng(seed + 1), 3);
    const q = rng(seed + 999), values = Array.from({ length: 6 }, () => value(q)), check = validator(schema);
    for (const v of values) assert.ok(check(v), `the test itself: ${JSON.stringify(v)} by ${JSON.stringify(schema)}`);
    const texts = values.flatMap((v) => [JSON.stringify(v), JSON.stringify(v, null, 2)]);
    const out = await w.ask({ schema, accept: texts, seed });
    assert.equal(out.error, undefined, out.error);
    out.accepted.forEach((ok, i) => assert.ok(ok, `${seed}: refused ${texts[i]}\n${JSON.stringify(schema)}`));
  }
});

test('what is invalid is not taken', async () => {
  const object = { type: 'object', properties: { a: { type: 'integer', minimum: -3, maximum: 12 }, b: { type: 'string', maxLength: 3 } }, required: ['a'], additionalProperties: false };
  const cases = [[object, ['{}', '{"b":"x"}', '{"a":13}', '{"a":-4}', '{"a":1.5}', '{"a":01}', '{"a":1,"b":"xxxx"}', '{"a":1,"c":1}', '{"a":1}}', '{"a":1,}', '{"b":"x","a":1']],
    [{ type: 'number', exclusiveMinimum: 0, maximum: 1.25 }, ['0', '0.0', '-1', '1.26', '1.250001', '2', '1e5', '.5']],
    [{ type: 'object', properties: { name: {} }, additionalProperties: { type: 'integer' } }, ['{"x":"y"}', '{"x":1.5}', '{"nam\\u0065":"y"}']],
    [{ type: 'string' }, ['"\n"', '"\\x"', '"\\ud800"', 'abc', '"a', '"\\u0000"']],
    [{ type: 'array', items: { type: 'null' }, minItems: 1, maxItems: 2 }, ['[]', '[null,null,null]', '[1]', '[null,]', '[,null]']],
    [{ type: 'string', format: 'date' }, ['"2024-13-01"', '"2024-02-30"', '"24-02-01"', '"2024-1-1"']]];
  for (const [schema, accept] of cases) {
    const out = await w.ask({ schema, accept });
    out.accepted.forEach((ok, i) => assert.ok(!ok, `taken: ${accept[i]} by ${JSON.stringify(schema)}`));
  }
});

test('recursive schemas', async () => {
  const schema = { $ref: '#/$defs/node', $defs: { node: { type: 'object', properties: { v: { type: 'integer', minimum: 0, maximum: 9 }, kids: { type: 'array', items: { $ref: '#/$defs/node' }, maxItems: 2 } }, required: ['v', 'kids'], additionalProperties: false } } };
  const out = await w.ask({ schema, strict: true, n: 20, seed: 3, max_tokens: 3000 });
  const check = validator(schema);
  for (const t of out.texts) assert.ok(check(JSON.parse(t)), t);
  assert.ok(out.texts.length > 3, JSON.stringify(out).slice(0, 300));
  const deep = { v: 1, kids: [{ v: 2, kids: [{ v: 3, kids: [] }, { v: 4, kids: [] }] }] };
  assert.deepEqual((await w.ask({ schema, accept: [JSON.stringify(deep)] })).accepted, [true]);
});

test('what lies outside is refused with its place', async () => {
  const o = (a) => ({ type: 'object', properties: { a }, required: ['a'] });
  for (const [schema, where] of [[o({ not: {} }), /#\/properties\/a: 'not'/], [o({ type: 'string', format: 'regex' }), /'regex'/], [o({ type: 'string', pattern: '(?=x)y' }), /looks ahead/],
    [o({ type: 'array', uniqueItems: true }), /uniqueItems/], [o({ $ref: 'http://x' }), /\$ref/], [o({ $ref: '#/$defs/gone' }), /nowhere/], [o({ type: 'strin' }), /JSON types/],
    [o({ multipleOf: 3, type: 'integer' }), /multipleOf/], [o({ oneOf: [{ type: 'integer' }, { type: 'number' }] }), /may both match/], [{ enum: [] }, /no value/], [false, /nothing can ever match/],
    [o(false), /'a' is required/], [{ $ref: '#' }, /never|refers|match/], [o({ patternProperties: {} }), /patternProperties/], [o({ if: {}, then: {} }), /'if'/], [o({ tpye: 'string' }), /'tpye'/]]) {
    const out = await w.ask({ schema });
    assert.match(out.error ?? JSON.stringify(out), where);
  }
});

test('GBNF', async () => {
  const json = String.raw`root ::= value
value ::= object | array | string | number | ("true" | "false" | "null")
object ::= "{" ws ( string ":" ws value ws ("," ws string ":" ws value ws)* )? "}"
array ::= "[" ws ( value ws ("," ws value ws)* )? "]"
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" # text
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,1})?
ws ::= | " " | "\n" [ \t]{0,20}`;
  const out = await w.ask({ gbnf: json, n: 20, seed: 4, max_tokens: 2000 });
  assert.equal(out.error, undefined);
  for (const t of out.texts) JSON.parse(t);
  for (const [gbnf, yes, no] of [['root ::= "a"* "b"', ['b', 'aaab'], ['a', 'ba']], ['root ::= (a | "c")+\na ::= [^c]{2}', ['c', 'xy', 'xyc'], ['x', '']],
    ['root ::= x{2,3} y?\nx ::= "é" | [一-龥]\ny ::= "."', ['é中', '中中中.'], ['é', 'éééé']], ['root ::=\n  "a" |\n  "b" # c\n', ['a', 'b'], ['ab']], ['root ::= .{3,}', ['a😀b'], ['ab']],
    ['root ::= "\\x41\\u00e9\\n" ', ['Aé\n'], ['A']], ['root ::= ("a"?){3} "b"', ['b', 'aab', 'aaab'], ['aaaab']]]) {
    const taken = await w.ask({ gbnf, accept: [...yes, ...no] });
    assert.deepEqual(taken.accepted, [...yes.map(() => true), ...no.map(() => false)], `${gbnf}: ${JSON.stringify(taken)}`);
  }
  for (const [gbnf, why] of [['root ::= (', /line 1/], ['a ::= "x"', /no rule 'root'/], ['root ::= "a\nroot2 ::= "b"', /line/], ['root ::= "a"\nroot ::= "b"', /already/], ['root ::= [z-a]', /range/],
    ['root ::= x\nx ::= y\ny ::= x? "a"', /left recursion/], ['root ::= "a"{3,2}', /repeat/]]) assert.match((await w.ask({ gbnf })).error ?? 'taken', why);
});
