// Requests that are almost right: bodies of every route, mutated in their structure and in their bytes, and what stands in paths and
// queries. Seeded, so that a finding can be made again. Every route of /openapi.json is among them: with the bodies below where it
// has one here, else with what its schema takes. Left out is what would end the storm itself: see SPARED.
import { reach } from './harness.mjs';
import { routesOf, samplesOf } from './openapi_samples.mjs';

/** Routes that nothing is sent to, and why. */
const SPARED = {
  'PATCH /api/admin/settings': 'limits of the server would refuse what comes after',
  'POST /api/admin/models/unload': 'there would be no model for what comes after',
  'DELETE /api/users/{id}': 'the user of the storm',
  'GET /api/messages/{id}/stream': 'READ has it',
};
export const GOOD = {
  '/v1/chat/completions': { messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hello' }] }, { role: 'assistant', content: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] }, { role: 'tool', tool_call_id: 'call_1', content: 'x' }],
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } }], temperature: 1, top_p: 0.9, top_k: 5,
  seed: 3, stop: ['x'], max_tokens: 5, n: 2, logprobs: true, top_logprobs: 2, logit_bias: { 5: 1 }, stream: false, presence_penalty: 0.5, cache_salt: 's',
  response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false } } } },
  '/v1/completions': { prompt: ['one', 'two'], max_tokens: 3, n: 2, echo: true, logprobs: 2, stream: false, stop: 'x' },
  '/completion': { prompt: ['one', [5, 'two'], { prompt_string: 'three' }], n_predict: 3, n_cmpl: 2, n_probs: 2, stream: false, stop: ['x'], seed: -1, temperature: -1, repeat_penalty: 1.1,
    logit_bias: [[5, 1], ['a', false]], return_tokens: true, response_fields: ['content', 'generation_settings/stop'], grammar: 'root ::= [a-z]+', ignore_eos: false },
  '/chat/completions': { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3, stream: false },
  '/v1/responses': { input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }], instructions: 'Be brief.', max_output_tokens: 5, stream: false,
    tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }], text: { format: { type: 'text' } }, store: false },
  '/v1/responses/compact': { model: 'demo-model', instructions: 'Be brief.', input: [{ role: 'user', content: 'Hello' }, { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: 'x' }, { type: 'compaction', encrypted_content: 'sluice-summary-1.2d711642b726b044.eA==' }] },
  '/v1/conversations': { metadata: { a: 'b' }, items: [{ role: 'user', content: 'Hello' }, { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] }] },
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
  '/api/projects': { name: 'x', colour: 3, instructions: 'Be brief.' },
  '/api/count': { content: 'x', parent_id: null, settings: { thinking: false } },
  '/api/conversations': { title: 'x', settings: { temperature: 1, stop: ['x'], thinking: true } },
  '/api/keys': { name: 'x', scopes: ['inference'], expires_at: 5, limits: { max_jobs: 1 } },
  '/api/users': { name: 'x', password: 'too long for no one', role: 'user' },
};
// Beside those: [method, path, body]; {id} is a conversation.
const OTHERS = [
  ['PATCH', '/api/conversations/{id}', { title: 'x', pinned: true, tags: ['a', 'b'], settings: { temperature: 1, stop: ['x'], tools: [] }, leaf_id: null }],
  ['POST', '/api/conversations/{id}/messages', { content: 'Hello', parent_id: null, attachments: [], settings: { max_tokens: 5, thinking: true } }],
  ['POST', '/api/conversations/{id}/messages', { parent_id: '1', tool_results: [{ tool_call_id: 'call_1', content: 'x' }] }],
  ['POST', '/api/messages/1/calls/call_1/run', { allow: 'once', definition: 'x' }],
  ['POST', '/api/messages/1/calls/call_1/stop', {}],
  ['POST', '/api/tool-servers', { name: 'x', url: 'http://127.0.0.1:1/mcp', header: 'X-Key', secret: 's', everyone: true }],
  ['PATCH', '/api/tool-servers/1', { name: 'y', url: 'http://127.0.0.1:1/mcp', header: 'X-Key', secret: '', enabled: false }],
  ['POST', '/api/tool-servers/1/ask-again', { tool: 'x' }],
  ['POST', '/api/conversations/{id}/fork', { from_message_id: '1', title: 'x' }],
  ['POST', '/api/conversations/{id}/shares', { leaf_id: '1', expires_at: 5 }],
  ['POST', '/api/conversations/{id}/title', {}],
  ['POST', '/api/conversations/bulk', { ids: ['999999'], pinned: true, add_tags: ['a'], remove_tags: ['b'] }],
  ['PATCH', '/api/defaults', { temperature: 1, top_k: 5, json_schema: { type: 'object' }, system: 'Be brief.' }],
  ['PATCH', '/api/presets/1', { name: 'y', settings: { seed: 3 } }],
  ['PATCH', '/api/projects/1', { name: 'y', colour: 0, instructions: 'x' }],
  ['POST', '/api/projects/1/files', { attachment_id: '1' }],
  ['PATCH', '/api/prompts/1', { name: 'y', text: 'Say it' }],
  ['PATCH', '/api/keys/999999', { name: 'x', limits: { max_jobs: 1 }, strict_parameters: true }],
  ['PATCH', '/api/users/999999', { role: 'user', disabled: true, limits: { tokens_per_day: 5 } }],
  ['POST', '/api/invites', { role: 'user', note: 'x', days: 3 }],
  ['POST', '/api/sign-up', { name: 'y', password: 'x', invite: 'x' }],
  ['POST', '/api/sign-up/invite', { invite: 'x' }],
  ['POST', '/api/second-factor', { password: 'x' }],
  ['POST', '/api/second-factor/confirm', { code: '123456' }],
  ['POST', '/api/admin/models/load', { path: 'nothing-here', grace_s: 5 }],
  ['POST', '/api/import', { format: 'sluice', version: 1, conversations: [{ id: 'c', title: 'x', messages: [{ id: 'm', role: 'user', content: 'x', parent_id: null }] }] }],
  ['POST', '/v1/embeddings', { input: ['x', [1, 2]], dimensions: 8, encoding_format: 'base64', truncate: true }],
  ['POST', '/v1/rerank', { query: 'a', documents: ['b', { text: 'c' }], top_n: 1, return_documents: true, instruction: 'd' }],
  ['POST', '/api/embed', { model: 'bert', input: ['x'], dimensions: 8, truncate: false }],
  ['POST', '/v1/responses/input_tokens', { input: 'Hello', tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }] }],
  ['POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5, typical_p: 0.9, repeat_penalty: 1.1, repeat_last_n: 64, random_seed: 3, min_tokens: 2,
    stop_token_ids: [5], allowed_token_ids: [1, 2, 3], bad_words: ['x', ' y z'], include_stop_str_in_output: true, skip_special_tokens: false, ignore_eos: true, verbosity: 'low',
    reasoning: { effort: 'low' }, thinking: { type: 'enabled', budget_tokens: 5 }, think: true, prompt_logprobs: 1, guided_choice: ['a', 'b'], stream_options: { include_usage: true } }],
];
const READ = ['/api/tool-servers', '/v1/responses/{id}', '/v1/responses/{id}/input_items', '/v1/models', '/v1/models/{id}', '/api/keys', '/api/users', '/api/users/{id}/sessions', '/api/users/{id}/keys', '/api/invites',
  '/api/admin/audit', '/api/usage', '/api/admin/usage', '/api/admin/usage/daily', '/api/admin/log', '/api/admin/history', '/api/changes', '/api/conversations', '/api/conversations/{id}', '/api/conversations/{id}/texts',
  '/api/tags', '/api/messages/{id}/stream', '/api/attachments/{id}', '/api/attachments/{id}/content', '/api/attachments/{id}/text', '/api/shares', '/api/projects', '/api/projects/{id}', '/api/conversations/{id}/shares',
  '/api/shared/{id}', '/api/shared/{id}/attachments/{id}', '/metrics', '/health', '/tokenizer_info', '/openapi.json'];
const DELETED = ['/api/tool-servers/{id}', '/api/attachments/{id}', '/api/conversations/{id}', '/api/invites/{id}', '/api/messages/{id}', '/api/presets/{id}', '/api/prompts/{id}', '/api/projects/{id}', '/api/projects/{id}/files/{id}', '/api/shares/{id}', '/v1/responses/{id}', '/api/admin/jobs/{id}'];
const QUERY = ['limit', 'before', 'after', 'q', 'tag', 'pinned', 'archived', 'trash', 'project', 'chats', 'from', 'to', 'texts', 'days', 'seconds', 'level', 'since', 'until', 'user', 'action', 'order', 'stream', 'conversation',
  'after_id', 'before_id', 'x'];
const ID = ['0', '-1', '999999', '99999999999999999999', 'x', '%00', '..%2f', '%f0%9f%a6%8a', '1.5', '1e3', '%27%20or%201', 'a'.repeat(300), ''];
const VALUE = ['', '0', '1', '-1', '5', '500', '99999999999999999999', 'x', '%', '%zz', '%00', '%22', '%F0%9F%A6%8A', '%ff', 'any', 'true', 'desc', '1-2', '1&limit=2', 'y'.repeat(2000), '[1]', '%25_%25'];
const ODD = [null, true, false, 0, -1, 1, 1.5, 1e308, -1e308, 2147483648, -2147483649, 9007199254740993, '', 'x', 'x'.repeat(5000), '\u0000', '\ud800', '🦊', '<|im_start|>system',
  '../../etc/passwd', "'; DROP TABLE users; --", '%s%n%n', [], {}, [[]], [null], { a: null }, '{{ 7*7 }}', '-0', 'NaN'];

/** What READ, DELETED, GOOD and OTHERS do not name of a description: [method, path, body]. */
export function described(doc) {
  const key = (method, path) => `${method} ${path.replace(/\{\w+\}|(?<=\/)(1|999999|call_1)(?=\/|$)/g, '{}')}`;
  const here = new Set([...READ.map((p) => key('GET', p)), ...DELETED.map((p) => key('DELETE', p)), ...Object.keys(GOOD).map((p) => key('POST', p)),
    ...OTHERS.map(([m, p]) => key(m, p)), ...Object.keys(SPARED).map((k) => key(...k.split(' ')))]);
  const { sample } = samplesOf(doc);
  return routesOf(doc).filter((r) => !here.has(key(r.method, r.path)) && !r.op.responses['501']) // 501: refused, whatever comes
    .map((r) => [r.method, r.path.replace(/\{\w+\}/g, '{id}'), r.method === 'GET' || r.method === 'DELETE' || !r.schema ? undefined : sample(r.schema, '1')]);
}

/** routes: further ones, as of described(). */
export function mutator(seed, routes = []) {
  let state = seed >>> 0 || 1;
  const random = () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const pick = (list) => list[Math.floor(random() * list.length)];
  const CHANGING = [...OTHERS, ...routes.filter(([, , body]) => body !== undefined)];
  const BARE = [...READ.map((p) => ['GET', p]), ...routes.filter(([method, , body]) => body === undefined && method !== 'DELETE')];
  const GONE = [...DELETED.map((p) => ['DELETE', p]), ...routes.filter(([method]) => method === 'DELETE')];

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
      else if (what < 0.85) { if (Array.isArray(holder)) holder.push(structuredClone(holder[key])); else holder[`${key}${pick(['', '_', '2'])}`] = structuredClone(pick(ODD)); }
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
  const withId = (path, id) => path.replaceAll('{id}', () => (id && random() < 0.9 ? id : pick(ID)));
  function read(id) {
    const [method, where] = pick(BARE);
    let path = withId(where, random() < 0.5 ? id : '');
    for (let n = Math.floor(random() * 4); n > 0; n--) path += `${path.includes('?') ? '&' : '?'}${pick(QUERY)}=${pick(VALUE)}`;
    return { method, path, headers: random() < 0.1 ? { range: 'bytes=5-1', 'if-none-match': '"x"', accept: 'x/y' } : {} };
  }
  function sent(id) {
    const [method, where, good] = random() < 0.5 ? pick(CHANGING) : ['POST', pick(Object.keys(GOOD))];
    const path = withId(where, id), text = JSON.stringify(mutateTree(structuredClone(good ?? GOOD[where])));
    const headers = { 'content-type': random() < 0.02 ? 'text/plain' : 'application/json' };
    return { method, path: random() < 0.02 ? path + pick(['/', '/..', '?a=%zz', '%00', '/x']) : path, headers, body: random() < 0.3 ? mutateBytes(text) : text };
  }
  function upload() {
    const data = mutateBytes(pick(['%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<</Root 1 0 R>>', 'plain text', '{"a":[1,2]}', '\x89PNG\r\n\x1a\n', 'PK\x03\x04\x14\0\0\0', '<html><p>x</p></html>']));
    return { method: 'POST', path: `/api/attachments?name=${pick(VALUE)}`, headers: { 'content-type': pick(['application/octet-stream', 'multipart/form-data; boundary=x', 'text/plain']) }, body: data };
  }
  /** The next request; id: of a conversation that there is. */
  return (id) => {
    const what = random();
    return what < 0.15 ? read(id) : what < 0.17 ? { method: 'DELETE', path: withId(pick(GONE)[1], ''), headers: {} } : what < 0.175 ? upload() : sent(id);
  };
}

async function newConversation(server) {
  const r = await fetch(`${server.url}/api/conversations`, { method: 'POST', body: '{}', headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' } });
  return (await r.json()).id;
}

/** Sends n mutated requests, `width` at a time; gives counts by status and everything that must not be. */
export async function storm(server, n, { width = 8, seed = 1, ms = 120_000 } = {}) {
  const doc = await (await fetch(`${server.url}/openapi.json`)).json();
  const next = mutator(seed, described(doc)), statuses = {}, bad = [];
  let sent = 0, conversation = '';
  async function worker() {
    while (sent < n) {
      if (sent++ % 500 === 0) conversation = await newConversation(server);
      const { method, path, headers, body } = next(conversation);
      const say = { method, path, body: (body ?? '').toString('latin1').slice(0, 500) };
      let text = '';
      try {
        const r = await reach(server.url + path, { method, body, redirect: 'manual', signal: AbortSignal.timeout(ms), headers: { authorization: `Bearer ${server.key}`, ...headers } });
        text = await r.text();
        statuses[r.status] = (statuses[r.status] ?? 0) + 1;
        // Too much at once is a true answer where it names what is busy and when to come again.
        const busy = r.status === 503 && r.headers.get('retry-after') > 0 && JSON.parse(text).error?.code === 'overloaded';
        const fault = (r.status >= 500 && !busy) || (r.status >= 400 && !(JSON.parse(text).error?.message ?? JSON.parse(text).error?.length)) || r.status === 422;
        if (fault) bad.push({ ...say, status: r.status, text: text.slice(0, 300) });
      } catch (e) {
        bad.push({ ...say, error: String(e), text: text.slice(0, 300) });
      }
    }
  }
  await Promise.all(Array.from({ length: width }, worker));
  return { statuses, bad };
}
