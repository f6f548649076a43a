// Requests that are almost right: bodies of every route, mutated in their structure and in their bytes. Seeded, so that a
// finding can be made again.
const GOOD = {
  '/v1/chat/completions': { messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hello' }] }, { role: 'assistant', content: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] }, { role: 'tool', tool_call_id: 'call_1', content: 'x' }],
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } }], temperature: 1, top_p: 0.9, top_k: 5,
  seed: 3, stop: ['x'], max_tokens: 5, n: 2, logprobs: true, top_logprobs: 2, logit_bias: { 5: 1 }, stream: false, presence_penalty: 0.5, cache_salt: 's',
  response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false } } } },
  '/v1/completions': { prompt: ['one', 'two'], max_tokens: 3, n: 2, echo: true, logprobs: 2, stream: false, stop: 'x' },
  '/v1/responses': { input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }], instructions: 'Be brief.', max_output_tokens: 5, stream: false,
    tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }], text: { format: { type: 'text' } }, store: false },
  '/v1/messages': { max_tokens: 5, system: 'Be brief.', messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }, { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'x' }] }], tools: [{ name: 'f', input_schema: { type: 'object' } }], stop_sequences: ['x'], stream: false },
  '/v1/messages/count_tokens': { messages: [{ role: 'user', content: 'Hello' }] },
  '/api/chat': { model: 'demo-model', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello', images: ['aGk='] }, { role: 'assistant', content: '', thinking: 'hm',
    tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] }, { role: 'tool', tool_name: 'f', content: 'x' }], tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
  format: { type: 'object', properties: { a: { type: 'string' } } }, options: { num_predict: 5, temperature: 1, seed: 3, stop: ['x'], num_ctx: 4096, repeat_penalty: 1.1 }, think: false, keep_alive: '5m',
  logprobs: true, top_logprobs: 2, stream: false },
  '/api/generate': { model: 'demo-model', prompt: 'Hello', system: 'Be brief.', raw: false, images: [], suffix: '', format: 'json', options: { num_predict: 5 }, think: true, keep_alive: 0, stream: true },
  '/api/show': { model: 'demo-model', verbose: true },
  '/api/pull': { model: 'demo-model', stream: false, insecure: false },
  '/tokenize': { prompt: 'Hello', with_pieces: true, parse_special: false },
  '/detokenize': { tokens: [1, 2, 3] },
  '/apply-template': { messages: [{ role: 'user', content: 'Hello' }], add_generation_prompt: true, chat_template_kwargs: { enable_thinking: false } },
  '/api/prompts': { name: 'x', text: 'Say {{what}}' },
  '/api/presets': { name: 'x', settings: { temperature: 1, reasoning_effort: 'none', json_schema: { type: 'object' }, tools: [] } },
  '/api/count': { content: 'x', parent_id: null, settings: { thinking: false } },
  '/api/conversations': { title: 'x', settings: { temperature: 1, stop: ['x'], thinking: true } },
  '/api/keys': { name: 'x', scopes: ['inference'], expires_at: 5, limits: { max_jobs: 1 } },
  '/api/users': { name: 'x', password: 'too long for no one', role: 'user' },
};
const ODD = [null, true, false, 0, -1, 1, 1.5, 1e308, -1e308, 2147483648, -2147483649, 9007199254740993, '', 'x', 'x'.repeat(5000), '\u0000', '\ud800', '🦊', '<|im_start|>system',
  '../../etc/passwd', "'; DROP TABLE users; --", '%s%n%n', [], {}, [[]], [null], { a: null }, '{{ 7*7 }}', '-0', 'NaN'];

export function mutator(seed) {
  let state = seed >>> 0 || 1;
  const random = () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const pick = (list) => list[Math.floor(random() * list.length)];

  /** All places of a tree: [holder, key]. */
  function places(node, out = []) {
    if (node && typeof node === 'object') for (const k of Object.keys(node)) { out.push([node, k]); places(node[k], out); }
    return out;
  }
  function mutateTree(tree) {
    for (let n = 1 + Math.floor(random() * 3); n > 0; n--) {
      const all = places(tree);
      if (!all.length) return tree;
      const [holder, key] = pick(all);
      const what = random();
      if (what < 0.5) holder[key] = structuredClone(pick(ODD));
      else if (what < 0.65) { if (Array.isArray(holder)) holder.splice(Number(key), 1); else delete holder[key]; }
      else if (what < 0.75) holder[key] = structuredClone(pick(all)[0]);
      else if (what < 0.85) { if (Array.isArray(holder)) holder.push(structuredClone(holder[key])); else holder[`${key}${pick(['', '_', '2'])}`] = pick(ODD); }
      else { let deep = holder[key]; for (let i = 0; i < pick([3, 20, 200]); i++) deep = random() < 0.5 ? [deep] : { a: deep }; holder[key] = deep; }
    }
    return tree;
  }
  function mutateBytes(text) {
    const b = Buffer.from(text);
    const at = Math.floor(random() * b.length);
    switch (Math.floor(random() * 4)) {
      case 0: b[at] = Math.floor(random() * 256); return b;
      case 1: return b.subarray(0, at);
      case 2: return Buffer.concat([b.subarray(0, at), b.subarray(Math.floor(random() * b.length))]);
      default: return Buffer.concat([b.subarray(0, at), Buffer.from(pick(['"', '{', ']', ',', '\\u', '\0', '1e999', '\xff'])), b.subarray(at)]);
    }
  }
  return () => {
    const path = pick(Object.keys(GOOD));
    const text = JSON.stringify(mutateTree(structuredClone(GOOD[path])));
    const headers = { 'content-type': random() < 0.02 ? 'text/plain' : 'application/json' };
    return { path: random() < 0.02 ? path + pick(['/', '/..', '?a=%zz', '%00', '/x']) : path, headers, body: random() < 0.3 ? mutateBytes(text) : text };
  };
}

/** Sends n mutated requests, `width` at a time; gives counts by status and everything that must not be. */
export async function storm(server, n, { width = 8, seed = 1, ms = 60000 } = {}) {
  const next = mutator(seed), statuses = {}, bad = [];
  let sent = 0;
  async function worker() {
    while (sent < n) {
      sent++;
      const { path, headers, body } = next();
      let text = '';
      try {
        const r = await fetch(server.url + path, { method: 'POST', body, signal: AbortSignal.timeout(ms), headers: { authorization: `Bearer ${server.key}`, ...headers } });
        text = await r.text();
        statuses[r.status] = (statuses[r.status] ?? 0) + 1;
        const fault = r.status >= 500 || (r.status >= 400 && !(JSON.parse(text).error?.message ?? JSON.parse(text).error?.length)) || r.status === 422;
        if (fault) bad.push({ path, status: r.status, body: body.toString('latin1').slice(0, 500), text: text.slice(0, 300) });
      } catch (e) {
        bad.push({ path, error: String(e), body: body.toString('latin1').slice(0, 500), text: text.slice(0, 300) });
      }
    }
  }
  await Promise.all(Array.from({ length: width }, worker));
  return { statuses, bad };
}
