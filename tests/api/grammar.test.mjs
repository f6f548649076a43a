// Properties of grammars, without a model: random schemas, random walks through their masks over the demo vocabulary, and
// an independent validator. What is written must be valid; what is valid and written in a usual way must be taken.
// By hand, more of it: GRAMMAR_SCHEMAS=2000 GRAMMAR_TOKENIZER=FOLDER node --test tests/api/grammar.test.mjs
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openWalker } from './grammar_walker.mjs';
import { load } from './harness.mjs';

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

// ---- random schemas and values that are valid by them

function rng(seed) {
  let s = seed >>> 0;
  const next = () => { s = (s + 0x6D2B79F5) >>> 0; let t = Math.imul(s ^ (s >>> 15), 1 | s); t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t; return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
  const below = (n) => Math.floor(next() * n);
  return { below, chance: (p) => next() < p, pick: (list) => list[below(list.length)] };
}

const names = ['a', 'ab', 'name', 'näme', 'quote"d', 'x y', 'id', 'idx', 'back\\slash', '日本', 'a.b'];
const patterns = [['^[a-z]{2,5}$', ['abc', 'zz']], ['^\\d{3}-\\d{4}$', ['555-0199']], ['b+', ['abc', 'b']], ['^(foo|ba[rz])?$', ['', 'foo', 'baz']],
  ['^[^a-c"]{1,3}$', ['xyz', 'é']], ['^\\w+@\\w+\\.com$', ['me@x.com']], ['^"\\\\+$', ['"\\']], ['^.{2}$|^x$', ['ab', 'x']], ['^\\S(.*\\S)?$', ['a b']]];
const formats = [['date', '2024-02-10'], ['time', '10:20:30Z'], ['date-time', '2024-12-31T23:59:59.5+02:00'], ['uuid', '123e4567-e89b-12d3-a456-426614174000'],
  ['email', 'a.b@c.org'], ['hostname', 'a-b.example'], ['ipv4', '10.0.255.1'], ['ipv6', '1:2:3:4:5:6:7:8'], ['uri', 'https://a.org/x?y=1#z'], ['duration', 'P1DT2H']];

/** [schema, function that makes a valid value in the order in which it is written] */
function make(r, depth) {
  const kinds = ['string', 'string', 'integer', 'number', 'boolean', 'null', 'enum', 'const', 'pattern', 'format'];
  if (depth > 0) kinds.push('object', 'object', 'object', 'array', 'array', 'tuple', 'anyOf', 'oneOf', 'allOf', 'map', 'open', 'nullable');
  const kind = r.pick(kinds);
  switch (kind) {
    case 'string': {
      const min = r.chance(0.3) ? r.below(4) : 0, max = r.chance(0.5) ? min + r.below(20) : undefined;
      return [{ type: 'string', ...(min ? { minLength: min } : {}), ...(max === undefined ? {} : { maxLength: max }) },
        (q) => Array.from({ length: min + q.below((max ?? min + 6) - min + 1) }, () => q.pick([...'abcé日"\\/\n\t 😀{}'])).join('')];
    }
    case 'integer': {
      const lo = r.below(2000) - 1000, hi = lo + r.below(3000), open = r.below(3);
      return [{ type: 'integer', ...(open === 1 ? {} : { minimum: lo }), ...(open === 2 ? {} : { maximum: hi }) }, (q) => lo + q.below(hi - lo + 1)];
    }
    case 'number': {
      const lo = (r.below(2000) - 1000) / 8, hi = lo + (1 + r.below(3000)) / 16;
      const excl = r.chance(0.5);
      return r.chance(0.3) ? [{ type: 'number' }, (q) => (q.below(20000) - 10000) / 16]
        : [excl ? { type: 'number', exclusiveMinimum: lo, exclusiveMaximum: hi } : { type: 'number', minimum: lo, maximum: hi },
          (q) => (excl ? (lo + hi) / 2 : q.pick([lo, hi, (lo + hi) / 2]))];
    }
    case 'boolean': return [{ type: 'boolean' }, (q) => q.chance(0.5)];
    case 'null': return [{ type: 'null' }, () => null];
    case 'enum': { const list = ['x', 'x y', 3, null, true, 'é"', 2.5].filter(() => r.chance(0.6)); list.push('end'); return [{ enum: list }, (q) => q.pick(list)]; }
    case 'const': { const v = r.pick(['c', 7, false, 'q"']); return [{ const: v }, () => v]; }
    case 'pattern': { const [pattern, good] = r.pick(patterns); return [{ type: 'string', pattern }, (q) => q.pick(good)]; }
    case 'format': { const [format, good] = r.pick(formats); return [{ type: 'string', format }, () => good]; }
    case 'nullable': { const [s, v] = make(r, 0); return [{ anyOf: [s, { type: 'null' }] }, (q) => (q.chance(0.3) ? null : v(q))]; }
    case 'array': {
      const [items, v] = make(r, depth - 1), min = r.below(3), max = r.chance(0.6) ? min + r.below(4) : undefined;
      return [{ type: 'array', items, minItems: min, ...(max === undefined ? {} : { maxItems: max }) },
        (q) => Array.from({ length: min + q.below((max ?? min + 3) - min + 1) }, () => v(q))];
    }
    case 'tuple': {
      const all = [make(r, depth - 1), make(r, depth - 1)], n = r.below(3);
      return [{ type: 'array', prefixItems: all.map((x) => x[0]), items: false, minItems: n }, (q) => all.slice(0, n + q.below(3 - n)).map((x) => x[1](q))];
    }
    case 'anyOf': { const all = [make(r, depth - 1), make(r, depth - 1)]; return [{ anyOf: all.map((x) => x[0]) }, (q) => q.pick(all)[1](q)]; }
    case 'oneOf': {
      const all = ['cat', 'dog'].map((k) => { const [s, v] = make(r, 0); return [{ type: 'object', properties: { kind: { const: k }, v: s }, required: ['kind', 'v'] }, (q) => ({ kind: k, v: v(q) })]; });
      return [{ oneOf: all.map((x) => x[0]) }, (q) => q.pick(all)[1](q)];
    }
    case 'allOf': {
      const [a, va] = make(r, 0), [b, vb] = make(r, 0);
      return [{ allOf: [{ type: 'object', properties: { p: a }, required: ['p'] }, { properties: { q: b } }] }, (q) => ({ p: va(q), ...(q.chance(0.5) ? { q: vb(q) } : {}) })];
    }
    case 'map': { const [s, v] = make(r, depth - 1); return [{ type: 'object', additionalProperties: s }, (q) => Object.fromEntries(Array.from({ length: q.below(3) }, (_, i) => [`k${i}"`, v(q)]))]; }
    default: { // object, open
      const own = names.filter(() => r.chance(0.3)).map((n) => [n, ...make(r, depth - 1), r.chance(0.6)]);
      const more = kind === 'open' ? make(r, 0) : null;
      return [{ type: 'object', properties: Object.fromEntries(own.map((x) => [x[0], x[1]])), required: own.filter((x) => x[3]).map((x) => x[0]),
        ...(more ? { additionalProperties: more[0] } : r.chance(0.5) ? { additionalProperties: false } : {}) },
      (q) => Object.assign(Object.fromEntries(own.filter((x) => x[3] || q.chance(0.5)).map((x) => [x[0], x[2](q)])), more && q.chance(0.5) ? { other: more[1](q), nam: more[1](q) } : {})];
    }
  }
}

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
