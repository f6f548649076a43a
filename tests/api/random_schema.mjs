// Random JSON schemas within the subset that is taken, and values that are valid by them.

/** {below(n), chance(p), pick(list)}, the same for the same seed */
export function rng(seed) {
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
export function make(r, depth) {
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
