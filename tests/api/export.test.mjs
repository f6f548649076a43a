// History out of the house: every format, what is in it, what is refused, and that an export is of one moment.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, load, start, top } from './harness.mjs';
import { unzip } from './unzip.mjs';

let s, check, tree, plain;
const say = (text) => `fake:${JSON.stringify({ text })}`;
const evil = '</code></pre><script>alert(1)</script>"\'&\u0001\u2028<img src=x onerror=alert(1)>';

const post = (id, body) => s.request('POST', `/api/conversations/${id}/messages`, body).then(follow);
const get = (query, options = {}) => fetch(`${s.url}/api/export${query}`, { headers: { authorization: `Bearer ${s.key}` }, ...options });
// 429: the export before, whose length a HEAD asked for, may still be written
async function text(query) {
  const r = await eventually(async () => {
    const again = await get(query);
    if (again.status === 429) throw new Error(await again.text());
    return again;
  });
  return r.text();
}

before(async () => {
  s = await start({ fake: true });
  const [{ default: Ajv }] = [await load('ajv/dist/2020.js')];
  check = new (Ajv.default ?? Ajv)().compile(JSON.parse(readFileSync(path.join(top, 'docs/export.schema.json'), 'utf8')));
  tree = (await s.json('POST', '/api/conversations', { title: 'Größe "x"/..; ñ', settings: { system: `Be <b>${evil}` } })).body;
  const first = await post(tree.id, { content: `one ${say(`# Hello\n\n\`\`\`js\n${evil}\n\`\`\`\nafter`)}` });
  await post(tree.id, { regenerate: first.last.message.id });
  await post(tree.id, { content: `two ${evil} ${say('second')}`, parent_id: first.last.message.id });
  await s.json('PATCH', `/api/conversations/${tree.id}`, { tags: ['b', 'A'], pinned: true });
  plain = (await s.json('POST', '/api/conversations', { title: 'plain' })).body;
  await post(plain.id, { content: say('yes') });
  const empty = (await s.json('POST', '/api/conversations', { title: 'empty' })).body;
  await s.json('PATCH', `/api/conversations/${empty.id}`, { archived: true });
  const trash = (await s.json('POST', '/api/conversations', { title: 'thrown away' })).body;
  await s.json('PATCH', `/api/conversations/${trash.id}`, { trashed: true });
});
after(() => s?.stop());

test('JSON holds what the API shows, to the schema, and tells its length before', async () => {
  const r = await get('');
  assert.equal(r.status, 200);
  assert.equal(r.headers.get('content-type'), 'application/json');
  assert.equal(r.headers.get('x-export-conversations'), '3');
  assert.equal(r.headers.get('x-export-messages'), '7');
  const bytes = Buffer.from(await r.arrayBuffer());
  assert.equal(Number(r.headers.get('content-length')), bytes.length);
  const value = JSON.parse(bytes);
  assert.ok(check(value), JSON.stringify(check.errors));
  assert.deepEqual(value.conversations.map((c) => c.title), [tree.title, 'plain', 'empty']);
  const [c] = value.conversations;
  const shown = (await s.json('GET', `/api/conversations/${tree.id}`)).body;
  assert.deepEqual(c.tags, ['A', 'b']);
  assert.deepEqual([c.pinned, c.archived, c.trashed_at, c.fork_of], [true, false, null, null]);
  assert.deepEqual(c.settings, shown.settings);
  assert.deepEqual([c.created_at, c.updated_at], [shown.created_at, shown.updated_at]);
  const ids = shown.messages.map((m) => m.id);
  assert.equal(c.leaf, ids.indexOf(shown.leaf_id) + 1);
  c.messages.forEach((m, i) => {
    const want = shown.messages[i];
    assert.equal(m.id, i + 1);
    assert.equal(m.parent, want.parent_id === null ? null : ids.indexOf(want.parent_id) + 1);
    for (const k of ['role', 'status', 'content', 'reasoning', 'tool_calls', 'error', 'model', 'usage', 'timings', 'created_at', 'finished_at']) {
      assert.deepEqual(m[k], want[k], k);
    }
  });
  assert.equal(c.messages.filter((m) => m.parent === 1).length, 2, 'both branches');
});

test('a choice of conversations: by id, archived, from the trash', async () => {
  const titles = async (query) => JSON.parse(await text(query)).conversations.map((c) => c.title);
  assert.deepEqual(await titles(`?conversation=${plain.id},${tree.id},${plain.id}`), [tree.title, 'plain']);
  assert.deepEqual(await titles('?archived=1'), ['empty']);
  assert.deepEqual(await titles('?archived=0'), [tree.title, 'plain']);
  assert.deepEqual(await titles('?trash=1&conversation=all'), ['thrown away']);
  assert.equal((await titles('?trash=any')).length, 4);
});

test('a fork names its original only when that comes along', async () => {
  const messages = (await s.json('GET', `/api/conversations/${plain.id}`)).body.messages;
  const fork = (await s.json('POST', `/api/conversations/${plain.id}/fork`, { from_message_id: messages[1].id })).body;
  const both = JSON.parse(await text(`?conversation=${fork.id},${plain.id}`)).conversations;
  assert.equal(both[1].fork_of, both[0].key);
  assert.notEqual(both[1].key, both[0].key);
  assert.equal(JSON.parse(await text(`?conversation=${fork.id}`)).conversations[0].fork_of, null);
  await s.json('DELETE', `/api/conversations/${fork.id}`);
});

test('HTML: everything is escaped, and its policy allows its own style alone', async () => {
  const r = await get(`?format=html&conversation=${tree.id}`);
  assert.equal(r.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.match(r.headers.get('content-security-policy'), /sandbox/);
  assert.match(r.headers.get('content-disposition'), /^attachment; filename="Gr__e -x--\.\.; _\.html"; filename\*=UTF-8''Gr%C3%B6%C3%9Fe%20-x--..%3B%20%C3%B1\.html$/);
  const html = await r.text();
  const style = html.match(/<style>([^]*?)<\/style>/)[1];
  const hash = createHash('sha256').update(style).digest('base64');
  assert.ok(html.includes(`style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'"`));
  assert.match(html, /default-src 'none'/);
  const tags = new Set([...html.matchAll(/<\/?([a-z0-9!]+)/gi)].map((m) => m[1].toLowerCase()));
  for (const t of tags) assert.ok(['!doctype', 'html', 'meta', 'title', 'style', 'article', 'section', 'h1', 'h2', 'time', 'span', 'details', 'summary', 'div', 'pre', 'code', 'p', 'h3'].includes(t), t);
  assert.ok(html.includes('<pre><code>&lt;/code&gt;&lt;/pre&gt;&lt;script&gt;'), 'the fence');
  assert.ok(html.includes('<h3>Hello</h3>') && html.includes('<p>after</p>'));
  assert.ok(!/[\u0001]/.test(html));
});

test('Markdown, text: the branch that is shown, as it was written', async () => {
  const md = await text(`?format=markdown&conversation=${tree.id}`);
  assert.ok(md.startsWith(`# ${tree.title}\n`));
  assert.ok(md.includes(`> Be <b>${evil}`), 'the system prompt is quoted');
  assert.equal(md.match(/^## (User|Assistant)$/gm).length, 4, 'without the other branch');
  assert.ok(md.includes(`\`\`\`js\n${evil}\n\`\`\`\nafter\n`));
  const txt = await text('?format=text&archived=0');
  assert.equal(txt.match(/^\[(User|Assistant), /gm).length, 6);
});

test('JSONL is what fine-tuning takes: the system prompt, then turns up to an answer', async () => {
  const lines = (await text('?format=jsonl')).trimEnd().split('\n').map((l) => JSON.parse(l));
  assert.equal(lines.length, 2, 'the empty one gives none');
  assert.deepEqual(lines[0].messages.map((m) => m.role), ['system', 'user', 'assistant', 'user', 'assistant']);
  assert.equal(lines[0].messages[0].content, `Be <b>${evil}`);
  assert.deepEqual(lines[1].messages.map((m) => m.role), ['user', 'assistant']);
  assert.equal(lines[1].messages[1].content, 'yes');
});

test('ZIP: one JSON file for each conversation, each to the schema, and an index', async () => {
  const r = await get('?format=zip');
  assert.equal(r.headers.get('content-type'), 'application/zip');
  assert.equal(r.headers.get('x-export-files'), '4');
  const files = unzip(Buffer.from(await r.arrayBuffer()));
  assert.deepEqual(Object.keys(files), ['conversations/000001-gr-e-x.json', 'conversations/000002-plain.json', 'conversations/000003-empty.json', 'index.json']);
  const all = JSON.parse(await text(''));
  const index = JSON.parse(files['index.json']);
  index.conversations.forEach((row, i) => {
    const value = JSON.parse(files[row.file]);
    assert.ok(check(value), JSON.stringify(check.errors));
    assert.deepEqual(value.conversations, [all.conversations[i]]);
    assert.equal(row.key, all.conversations[i].key);
  });
});

test('what cannot be is refused by name', async () => {
  for (const [query, param, status] of [['?format=docx', 'format', 400], ['?format=', 'format', 400], ['?archived=2', 'archived', 400], ['?trash=yes', 'trash', 400],
    ['?conversation=', 'conversation', 400], ['?conversation=1,,2', 'conversation', 400], ['?conversation=1;2', 'conversation', 400], ['?conversation=-1', 'conversation', 400],
    [`?conversation=${tree.id}&trash=1`, 'trash', 400], [`?conversation=${Array(2001).fill(1)}`, 'conversation', 400], ['?conversation=999999', 'conversation', 404]]) {
    const r = await get(query);
    assert.equal(r.status, status, query);
    assert.equal((await r.json()).error.param, param, query);
  }
  assert.equal((await get('', { headers: {} })).status, 401);
  assert.equal((await get('', { method: 'POST' , headers: { authorization: `Bearer ${s.key}` } })).status, 405);
  const head = await get('?format=markdown', { method: 'HEAD' });
  assert.equal(Number(head.headers.get('content-length')), Buffer.byteLength(await text('?format=markdown')));
});

test("another user's conversations are not there, alone or in a list", async () => {
  await s.json('POST', '/api/users', { name: 'bob', password: 'correct horse battery', role: 'user' });
  const login = await s.request('POST', '/api/login', { name: 'bob', password: 'correct horse battery' }, { authorization: null });
  const cookie = login.headers.get('set-cookie').split(';')[0];
  const as = (query) => fetch(`${s.url}/api/export${query}`, { headers: { cookie } });
  assert.equal((await as(`?conversation=${tree.id}`)).status, 404);
  assert.deepEqual((await (await as('')).json()).conversations, []);
});

test('attachments: named in their message, their bytes once in the archive', async () => {
  const bytes = 'a line\n'.repeat(20);
  const ids = [];
  for (const name of ['one.txt', 'two.txt']) {
    const r = await s.json('POST', `/api/attachments?name=${name}`, bytes, { 'content-type': 'application/octet-stream' });
    assert.equal(r.status, 201, r.text);
    ids.push(r.body.id);
  }
  const c = (await s.json('POST', '/api/conversations', { title: 'with files' })).body;
  await post(c.id, { content: say('read'), attachments: ids });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const r = await get(`?format=zip&conversation=${c.id}`);
  assert.equal(r.headers.get('x-export-files'), '3');
  const files = unzip(Buffer.from(await r.arrayBuffer()));
  assert.deepEqual(Object.keys(files), ['conversations/000001-with-files.json', `attachments/${sha256}`, 'index.json']);
  assert.equal(files[`attachments/${sha256}`].toString(), bytes);
  const value = JSON.parse(files['conversations/000001-with-files.json']);
  assert.ok(check(value), JSON.stringify(check.errors));
  const file = { sha256, mime: 'text/plain', size: bytes.length };
  assert.deepEqual(value.conversations[0].messages[0].attachments, [{ ...file, name: 'one.txt' }, { ...file, name: 'two.txt' }]);
  assert.deepEqual(JSON.parse(files['index.json']).attachments, [{ ...file, file: `attachments/${sha256}` }]);
  assert.ok((await text(`?format=markdown&conversation=${c.id}`)).includes('*Attached: one.txt, two.txt*'));
  await s.json('DELETE', `/api/conversations/${c.id}`);
});

test('an account goes out whole: conversations with the trash, defaults, presets, prompts, keys without their secret, usage, kept responses', async () => {
  const kept = (await s.json('POST', '/v1/responses', { input: 'line\nbreak', max_output_tokens: 3, store: true })).body;
  await s.json('POST', '/v1/responses', { input: 'not kept', max_output_tokens: 3, store: false });
  const listed = (await s.json('POST', '/v1/conversations', { metadata: { a: 'b' }, items: [{ role: 'user', content: 'one\nline' }, { role: 'user', content: 'two' }] })).body;
  await s.json('POST', '/v1/conversations', {});
  await s.json('PATCH', '/api/defaults', { temperature: 0.25 });
  await s.json('POST', '/api/prompts', { name: 'sum', text: 'Sum up {{text}}' });
  assert.equal((await s.json('POST', '/v1/responses', { input: 'a moment ago', max_output_tokens: 3, store: false })).status, 200);
  const r = await fetch(`${s.url}/api/account/export`, { headers: { authorization: `Bearer ${s.key}` } });
  assert.equal(r.headers.get('content-type'), 'application/zip');
  const files = unzip(Buffer.from(await r.arrayBuffer()));
  assert.equal(Object.keys(files).filter((f) => f.startsWith('conversations/')).length, 4);
  const account = JSON.parse(files['account.json']);
  assert.deepEqual([account.user.name, account.user.role], ['admin', 'admin']);
  assert.deepEqual(account.defaults, { temperature: 0.25 });
  assert.ok(account.keys.length && !files['account.json'].includes(s.key));
  const used = (await s.json('GET', '/api/usage')).body.total;
  assert.equal(account.usage.reduce((n, u) => n + u.completion_tokens, 0), used.completion_tokens);
  assert.ok(used.completion_tokens > 0);
  const responses = files['responses.jsonl'].toString().trimEnd().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(responses.map((x) => [x.id, x.previous_id, x.response.output]), [[kept.id, null, kept.output]]);
  assert.ok(JSON.stringify(responses[0].input).includes('line\\nbreak') && responses[0].expires_at > responses[0].created_at);
  const lists = files['api-conversations.jsonl'].toString().trimEnd().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(lists.map((x) => [x.items.map((i) => i.content[0].text), x.metadata]), [[['one\nline', 'two'], { a: 'b' }], [[], {}]]);
  assert.equal(lists[0].id, listed.id);
  assert.equal(r.headers.get('x-export-files'), String(Object.keys(files).length));
});
