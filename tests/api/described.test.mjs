// /openapi.json says of request bodies what the server does: every field that is done is in it, and what may be null may be null.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fieldTable } from './field_table.mjs';
import { start } from './harness.mjs';
import { GOOD } from './mutate.mjs';

let s, doc;
before(async () => {
  s = await start({ fake: true });
  doc = (await s.json('GET', '/openapi.json', undefined, { authorization: null })).body;
});
after(() => s?.stop());

const follow = (schema) => (schema?.$ref ? doc.components.schemas[schema.$ref.split('/').at(-1)] : schema);
const parts = (schema) => { // a schema, and all that it is put together from
  const own = follow(schema) ?? {};
  return [own, ...[...(own.allOf ?? []), ...(own.anyOf ?? [])].flatMap(parts)];
};
const bodyOf = (path) => doc.paths[path].post.requestBody.content['application/json'].schema;
const properties = (schema) => parts(schema).flatMap((p) => Object.entries(p.properties ?? {}));
const allowsNull = (schema) => {
  const all = parts(schema);
  return all.some((p) => [p.type].flat().includes('null') || p.enum?.includes(null)) || all.every((p) => !p.type && !p.enum && !('const' in p) && !p.anyOf && !p.$ref);
};

test('each field that an endpoint knows is described', () => {
  const paths = { chat: '/v1/chat/completions', completions: '/v1/completions', responses: '/v1/responses', messages: '/v1/messages' };
  for (const [endpoint, path] of Object.entries(paths)) {
    const described = new Set(properties(bodyOf(path)).map(([name]) => name));
    const done = fieldTable().filter((f) => f[endpoint] === 'done').map((f) => f.name);
    assert.deepEqual(done.filter((name) => !described.has(name)), [], endpoint);
    const without = properties(bodyOf(path)).filter(([name]) => !done.includes(name));
    assert.deepEqual(without.filter(([, p]) => !/without effect/.test(p.description)).map(([name]) => name), [], endpoint);
  }
});

/** Every object of the body with a member that its schema has: [object, name, is it required, may it be null]. */
function* members(schema, value) {
  const all = parts(schema);
  if (Array.isArray(value)) {
    const items = all.find((p) => p.items)?.items;
    if (items) for (const v of value) yield* members(items, v);
  } else if (value && typeof value === 'object') {
    const required = new Set(all.flatMap((p) => p.required ?? []));
    const names = new Set(properties(schema).map(([name]) => name));
    for (const name of names) {
      const own = properties(schema).filter(([n]) => n === name).map(([, p]) => p);
      yield [value, name, required.has(name), own.some(allowsNull)];
      if (name in value) for (const p of own.slice(0, 1)) yield* members(p, value[name]);
    }
  }
}

test('a null for what need not be there is described, and taken as if it were not there', async () => {
  const bodies = { ...GOOD, '/v1/responses/input_tokens': GOOD['/v1/responses'] };
  let tried = 0;
  for (const [path, good] of Object.entries(bodies)) {
    const text = JSON.stringify(good), pick = (body, i) => [...members(bodyOf(path), body)][i];
    await s.json('POST', path, good); // what is kept under a name is there already in each of the comparisons
    const count = [...members(bodyOf(path), JSON.parse(text))].length;
    for (let i = 0; i < count; i++) {
      const none = JSON.parse(text), absent = JSON.parse(text);
      const [holder, name, required, nullable] = pick(none, i);
      if (required) continue;
      assert.ok(nullable, `${path}: ${name} is described as never null`);
      holder[name] = null;
      delete pick(absent, i)[0][name];
      const [a, b] = [await s.json('POST', path, none), await s.json('POST', path, absent)];
      assert.equal(a.status, b.status, `${path}: null for ${name} gives ${a.text.slice(0, 300)}`);
      tried++;
    }
  }
  assert.ok(tried > 250, `${tried}`);
});

test('what is needed is described as needed', () => {
  const chat = follow({ $ref: '#/components/schemas/ChatMessage' });
  assert.ok(chat.anyOf.some((p) => p.required.includes('content') && p.properties.role.enum?.includes('tool')));
  const response = follow({ $ref: '#/components/schemas/ResponseRequest' });
  assert.deepEqual(response.anyOf.map((p) => p.required), [['input'], ['previous_response_id']]);
});
