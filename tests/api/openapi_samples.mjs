// Bodies made from /openapi.json: what its schemas take. Every route of the description gets one, so a new one is tried by itself.
const named = (schema) => schema?.$ref?.split('/').at(-1);

/** Of a description: resolve(schema), namesId(name, schema), sample(schema, id): a value that the schema takes; ids become `id`. */
export function samplesOf(doc) {
  const resolve = (schema) => (schema?.$ref ? resolve(doc.components.schemas[named(schema)]) : schema ?? {});
  const namesId = (name, schema) => /(^|_)ids?$|^regenerate$|^continue$|^attachments$|^after$|^before$|^leaf/.test(name) || named(schema) === 'Id';
  function sample(schema, id, name = '', depth = 0) {
    if (namesId(name, schema)) return resolve(schema).type === 'array' ? [id] : id;
    const real = resolve(schema);
    const one = real.oneOf?.[0] ?? real.anyOf?.[0] ?? real.allOf?.[0];
    if (one) return sample(one, id, name, depth + 1);
    if ('const' in real) return real.const;
    if (real.enum) return real.enum[0];
    const type = [real.type].flat()[0];
    if (type === 'array') return depth > 4 ? [] : [sample(real.items, id, '', depth + 1)];
    if (type === 'object') return depth > 4 ? {} : Object.fromEntries(Object.entries(real.properties ?? {}).map(([k, v]) => [k, sample(v, id, k, depth + 1)]));
    return { string: 'words', integer: real.minimum ?? 1, number: real.minimum ?? 1, boolean: false }[type] ?? 'words';
  }
  return { resolve, namesId, sample };
}

/** [{ path, method, op, open, params, type, schema }] of every route: its operation, whether it needs no account, its query's
    names, and its body's media type and schema. */
export function routesOf(doc) {
  return Object.entries(doc.paths).flatMap(([path, item]) => Object.entries(item).map(([method, op]) => ({ path, method: method.toUpperCase(), op,
    open: op.security.length === 0, params: (op.parameters ?? []).filter((x) => x.in === 'query').map((x) => x.name),
    type: Object.keys(op.requestBody?.content ?? {})[0], schema: Object.values(op.requestBody?.content ?? {})[0]?.schema })));
}
