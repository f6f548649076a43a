// Conversations out of files: of this program and of others, good, broken and hostile.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { chatgpt, claude, librechat, librechatTree, llamacpp, openai, openwebui, own, ownFile, zip } from './exports.mjs';
import { follow } from './answers.mjs';
import { eventually, program, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const bytes = (v) => (Buffer.isBuffer(v) ? v : Buffer.from(typeof v === 'string' ? v : JSON.stringify(v)));
const send = (file, { query = '', type = 'application/octet-stream', ...headers } = {}) => s.json('POST', `/api/import${query}`, bytes(file), { 'content-type': type, ...headers });
async function take(file, options) {
  const r = await send(file, options);
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.conversations, r.body.imported + r.body.duplicates + r.body.failed, 'the sum');
  return r.body;
}
const all = async (query = '') => (await s.json('GET', `/api/conversations?limit=199${query}`)).body.items;
async function find(title, query) {
  const c = (await all(query)).find((x) => x.title === title);
  assert.ok(c, `${title} is in the list`);
  return (await s.json('GET', `/api/conversations/${c.id}`)).body;
}

test('ChatGPT: files beside the parts are counted and named, marks of citations are left out', async () => {
  const chat = chatgpt({ id: 'gpt-files', conversation_id: 'gpt-files', title: 'Forecast', is_archived: false });
  chat.mapping.n1.message.metadata = { attachments: [{ id: 'f1', name: 'Prognose für März.pdf', mime_type: 'application/pdf' }, { id: 'f2', name: 'sky.png', mime_type: 'image/png' }] };
  chat.mapping.n6.message.content.parts[0] = 'Sunny【4†source】, says the file【12:3†Prognose.pdf】. 【a note】 stays.';
  const r = await take([chat]);
  assert.equal(r.attachments_missing, 2, 'the picture once, the file once');
  const c = await find('Forecast');
  assert.equal(c.messages[0].content, '[image]\n\nHow is the weather?\n\n[Prognose für März.pdf]');
  assert.equal(c.messages.find((m) => m.model === 'gpt-5').content, 'Sunny, says the file. 【a note】 stays.');
});

test('a dry run says what would be, writes nothing, and sees what is twice', async () => {
  const file = [chatgpt(), chatgpt(), claude({ chat_messages: [{ uuid: 'x', sender: 'robot' }] })];
  const before_ = (await all('&archived=any')).length;
  const r = await take(file, { query: '?dry_run=1' });
  assert.deepEqual([r.dry_run, r.conversations, r.imported, r.duplicates, r.failed, r.messages], [true, 3, 1, 1, 1, 5]);
  assert.deepEqual(r.problems, [{ item: '[2]', path: 'sender', reason: "'robot' is neither human nor assistant" }]);
  assert.equal((await all('&archived=any')).length, before_);
});

test('ChatGPT: the tree, its calls and thoughts, hidden nodes left out', async () => {
  const r = await take([chatgpt()]);
  assert.deepEqual([r.format, r.imported, r.messages, r.attachments_missing], ['chatgpt', 1, 5, 1]);
  const c = await find('Weather', '&archived=1');
  assert.equal(c.created_at, 1700000000500);
  const [q, call, result, answer, other] = c.messages;
  assert.equal(q.content, '[image]\n\nHow is the weather?');
  assert.equal(q.parent_id, null);
  assert.deepEqual([call.role, call.reasoning, call.tool_calls[0].function], ['assistant', 'Looking\nI look it up.', { name: 'web', arguments: '{"q":"weather"}' }]);
  assert.deepEqual([result.role, result.content, result.parent_id], ['tool', 'sunny', call.id]);
  assert.deepEqual([answer.content, answer.model, answer.parent_id], ['It is sunny.', 'gpt-5', result.id]);
  assert.deepEqual([other.status, other.parent_id], ['stopped', q.id]);
  assert.equal(c.leaf_id, answer.id, 'the branch that was shown');
  const again = await take([chatgpt()]);
  assert.deepEqual([again.imported, again.duplicates], [0, 1]);
  const grown = chatgpt();
  grown.mapping.n6.message.content.parts[0] = 'It rains.';
  assert.equal((await take([grown])).imported, 1, 'one that has changed since is another one');
});

test('Claude: blocks become messages, files their text', async () => {
  const r = await take([claude()]);
  assert.deepEqual([r.format, r.imported, r.messages], ['claude', 1, 5]);
  const c = await find('Files');
  assert.equal(c.created_at, 1767323045678);
  const [q, call, result, done, thanks] = c.messages;
  assert.match(q.content, /^Read it\n\na\.txt:\n```\ninside\n```$/);
  assert.equal(q.created_at, 1767323046000);
  assert.deepEqual([call.reasoning, call.content, call.tool_calls[0].id], ['Hm.', 'I search.', 'tu1']);
  assert.deepEqual([result.role, result.content, done.content, done.parent_id], ['tool', 'found', 'Done.', result.id]);
  assert.deepEqual([thanks.content, thanks.parent_id, c.leaf_id], ['Thanks', done.id, thanks.id]);
});

test('Open WebUI: tree, tags, system prompt, reasoning out of its HTML', async () => {
  assert.equal((await take([openwebui()])).format, 'openwebui');
  const c = await find('Zahlen');
  assert.deepEqual([c.pinned, c.tags, c.settings], [true, ['home', 'maths'], { system: 'Be short.' }]);
  assert.deepEqual([c.messages[2].reasoning, c.messages[2].content, c.leaf_id], ['one & one\nis two', '2', c.messages[2].id]);
  assert.equal(c.messages[1].parent_id, c.messages[0].id);
});

test('LibreChat: branches, parts and files, as a list and as a tree, the same chat once', async () => {
  const r = await take(librechat());
  assert.deepEqual([r.format, r.imported, r.messages, r.attachments_missing], ['librechat', 1, 7, 2], JSON.stringify(r.problems));
  const c = await find('Sun');
  assert.deepEqual([c.settings, c.created_at], [{ system: 'Be brief.' }, 1772600761000]);
  const of = (text) => c.messages.find((m) => m.content.includes(text));
  const [question, dry, call, end] = [of('How is the weather?'), of('Drier'), of('One moment.'), of('It will')];
  assert.equal(question.content, 'How is the weather?\n\n[file: sky.jpg]');
  assert.deepEqual([dry.parent_id, dry.model, call.parent_id, call.model, call.reasoning], [question.id, 'gpt-4', question.id, 'Forecaster', 'I look it up.']);
  assert.deepEqual([call.tool_calls[0].id, call.tool_calls[0].function], ['call_1', { name: 'weather', arguments: '{"at":"sea"}' }]);
  const result = c.messages.find((m) => m.role === 'tool');
  assert.deepEqual([result.parent_id, result.tool_call_id, result.content], [call.id, 'call_1', 'sunny']);
  const done = of('It is sunny.');
  assert.deepEqual([done.parent_id, done.content], [result.id, 'It is sunny.\n\n[file: map.png]']);
  assert.deepEqual([of('And tomorrow?').parent_id, end.status, c.leaf_id], [done.id, 'stopped', end.id]);
  assert.deepEqual([(await take(librechat())).duplicates, (await take(librechatTree())).duplicates], [1, 1]);
  // what has been said since comes in beside it; a branch that was exported alone begins where it begins
  const later = librechat({ title: 'Sun since' });
  later.messages = [...later.messages.slice(2), { ...later.messages[0], messageId: 'm6', parentMessageId: 'm5' }];
  assert.deepEqual([(await take(later)).imported, (await find('Sun since')).messages[0].content], [1, 'One moment.']);
});

test('LibreChat: a long chat as a tree is nested deeply, which no other file may be; wrong ones are named', async () => {
  const [message] = librechat().messages;
  const nest = (n) => { let m = []; for (let i = n; i > 0; i--) m = [{ ...message, messageId: `d${i}`, isCreatedByUser: i % 2 === 1, text: `text ${i}`, children: m }]; return m; };
  const r = await take([librechatTree({ conversationId: 'lc-deep', title: 'Deep', messagesTree: nest(400) }), librechatTree({ conversationId: 'lc-deeper', messagesTree: nest(500) }),
    librechat({ conversationId: 'lc-bad', messages: [{ ...message, messageId: '' }] }), librechat({ conversationId: 'lc-two', messages: [message, message] }), claude({ uuid: 'deep-claude', extra: nest(40) })]);
  assert.deepEqual([r.imported, r.messages], [1, 400], JSON.stringify(r.problems));
  assert.deepEqual(r.problems.map((p) => p.item), ['[1]', '[2]', '[3]', '[4]']);
  for (const [i, want] of [/deeper than 900 levels/, /is missing/, /two messages/, /deeper than 64 levels/].entries()) assert.match(r.problems[i].reason, want);
  assert.equal((await find('Deep')).messages.at(-1).content, 'text 400\n\n[file: sky.jpg]');
});

test("llama.cpp's page, and a chat as the API has it, as JSONL", async () => {
  const r = await take(`${JSON.stringify(llamacpp())}\n${JSON.stringify(openai)}\n\n`);
  assert.deepEqual([r.format, r.imported, r.messages], ['mixed', 2, 4]);
  const c = await find('Local');
  assert.deepEqual(c.settings, { system: 'You are kind.' });
  assert.deepEqual([c.messages.length, c.messages[1].reasoning], [2, 'greet']);
  assert.match(c.messages[0].content, /^Hi\n\nn\.md:\n````\n```\nx\n```\n````$/, 'a longer fence than the one inside');
  const chat = await find('ask');
  assert.deepEqual(chat.messages.map((m) => m.content), ['ask', 'answer']);
});

test('own exports come back as they were, forks and trash with them', async () => {
  const file = ownFile(own(), own({ key: 'own.2', title: 'Fork', fork_of: 'own.1', trashed_at: Date.now() }));
  const r = await take(file);
  assert.deepEqual([r.format, r.imported, r.messages], ['sluice', 2, 4]);
  const c = await find('Mine');
  assert.deepEqual([c.settings, c.tags, c.pinned, c.messages[1].usage.prompt_tokens, c.leaf_id], [{ temperature: 0.5 }, ['x'], true, 3, c.messages[1].id]);
  assert.equal((await find('Fork', '&trash=1')).fork_of, c.id);
  assert.deepEqual([(await take(file)).duplicates, (await take(file, { query: '?dry_run=1' })).duplicates], [2, 2]);
  const hit = (await s.json('GET', '/api/conversations?q=Done.')).body.items;
  assert.deepEqual(hit.map((x) => x.title), ['Files'], 'what came in is found');
});

test('ZIP archives: what is inside decides, other files are passed over', async () => {
  const r = await take(zip([{ name: 'chat.html', data: '<html>' }, { name: 'user.json', data: '{"id":1}' }, { name: 'picture.png', data: '\x89PNG' },
    { name: 'whatever.bin', data: JSON.stringify([claude({ name: 'Zipped', uuid: 'z' })]) }, { name: 'inner.zip', data: zip([{ name: 'a' }]) }, { name: 'stored.json', stored: true, data: JSON.stringify(ownFile(own({ key: 'z.2' }))) }]));
  assert.deepEqual([r.imported, r.skipped_files, r.format], [2, 4, 'mixed']);
  await find('Zipped');
});

test('multipart and a progress of events', async () => {
  const form = new FormData();
  form.append('note', 'x');
  form.append('file', new Blob([JSON.stringify([claude({ uuid: 'form', name: 'By form' })])]), 'conversations.json');
  const r = await fetch(`${s.url}/api/import?events=1`, { method: 'POST', body: form, headers: { authorization: `Bearer ${s.key}` } });
  const text = await r.text();
  assert.match(r.headers.get('content-type'), /^text\/event-stream/);
  const done = JSON.parse(text.match(/event: done\ndata: (.*)\n/)[1]);
  assert.deepEqual([done.imported, done.complete], [1, true]);
  await find('By form');
  const bad = await send('--b\r\ncontent-disposition: form-data; name=x\r\n\r\nhi\r\n--b--\r\n', { type: 'multipart/form-data; boundary=b' });
  assert.deepEqual([bad.status, bad.body.error.message], [400, 'the multipart body holds no file']);
  for (const body of ['--b\r\nContent-Disposition: form-data; filename=a\r\n\r\n[]', 'nothing', '--b', '--b\r\n\r\n']) {
    assert.equal((await send(body, { type: 'multipart/form-data; boundary=b' })).status, 400, body);
  }
  assert.equal((await send('x', { type: 'multipart/form-data' })).status, 400);
});

test('a wrong conversation is named and left out whole, the others come in', async () => {
  const node = (over) => chatgpt({ id: 'bad', conversation_id: 'bad', ...over });
  const mapping = (m) => node({ mapping: m, current_node: null });
  const user = (parent) => ({ parent, message: { author: { role: 'user' }, content: { content_type: 'text', parts: ['x'] } } });
  const cases = [
    [mapping({ a: user('b'), b: user('a') }), /circle/],
    [mapping({ r: user(null), a: user('b'), b: user('a') }), /circle/],
    [mapping({ a: user(null), b: user('nowhere') }), /parent does not exist/],
    [mapping({ a: user(null), b: user(null) }), /second root/],
    [mapping({}), /no message/],
    [node({ title: 't'.repeat(10 << 20) }), /longer than 65536/],
    [node({ current_node: 'nowhere' }), /shown last does not exist/],
    [llamacpp({ messages: [llamacpp().messages[0], llamacpp().messages[0]] }), /two messages/],
    [openwebui({ chat: { history: { messages: { a: { role: 'wizard', content: '' } } } } }), /role 'wizard'/],
    [{ hello: 1 }, /not a conversation/],
    ['text', /not a conversation/],
    [17, /not a conversation/],
  ];
  const title = `good ${Date.now()}`;
  const r = await take([...cases.map(([c]) => c), claude({ uuid: title, name: title })]);
  assert.deepEqual([r.failed, r.imported], [cases.length, 1]);
  cases.forEach(([, want], i) => { assert.equal(r.problems[i].item, `[${i}]`); assert.match(r.problems[i].reason, want); });
  await find(title);
});

test('own exports are read strictly', async () => {
  const message = own().messages[0];
  const cases = [
    [own({ key: 'a b' }), 'key'], [own({ key: '' }), 'key'], [own({ key: 'x'.repeat(65) }), 'key'], [own({ title: 'x'.repeat(513) }), 'title'],
    [own({ pinned: 1 }), 'pinned'], [own({ leaf: 3 }), 'leaf'], [own({ leaf: 0 }), 'leaf'], [own({ tags: [''] }), 'tags'], [own({ tags: 'x' }), 'tags'], [own({ settings: [] }), 'settings'],
    [own({ settings: { system: 'x'.repeat(70000) } }), 'settings'], [own({ settings: { temperature: 'hot' } }), 'settings.temperature'],
    [own({ settings: { system: 7 } }), 'settings.system'], [own({ settings: { top_p: 7 } }), 'settings.top_p'], [own({ settings: { stop: [1] } }), 'settings.stop'],
    [own({ settings: { thinking: 'yes' } }), 'settings.thinking'], [own({ settings: { tools: 'all' } }), 'settings.tools'], [own({ settings: { json_schema: [] } }), 'settings.json_schema'],
    [own({ settings: { wheels: 4 } }), 'settings.wheels'], [own({ created_at: -1 }), 'created_at'], [own({ created_at: 1.5 }), 'created_at'], [own({ extra: 1 }), 'extra'],
    [own({ updated_at: undefined }), 'updated_at'], [own({ messages: [{ ...message, id: 2 }] }), 'messages[0].id'], [own({ messages: [{ ...message, parent: 1 }] }), 'messages[0].parent'],
    [own({ messages: [{ ...message, role: 'god' }] }), 'messages[0].role'], [own({ messages: [{ ...message, status: 'running' }] }), 'messages[0].status'],
    [own({ messages: [{ ...message, tool_calls: {} }] }), 'messages[0].tool_calls'], [own({ messages: [{ ...message, usage: { prompt_tokens: 1 } }] }), 'messages[0].cached_tokens'],
    [own({ messages: [{ ...message, finished_at: null }] }), 'messages[0].finished_at'], [own({ messages: [7] }), 'messages[0]'],
  ];
  const r = await take(ownFile(...cases.map(([c], i) => ({ ...c, ...(c.key === 'own.1' ? { key: `strict.${i}` } : {}) }))));
  assert.deepEqual(r.problems.map((p) => p.path), cases.map(([, p]) => p));
  assert.equal(r.imported, 0);
  for (const head of [{ version: 2 }, { schema: 'other' }, { version: '1' }]) {
    const bad = await send({ ...ownFile(own({ key: 'never' })), ...head });
    assert.equal(bad.status, 400, JSON.stringify(head));
    assert.equal(bad.body.error.param, Object.keys(head)[0]);
  }
});

test('what is no export at all is refused in words', async () => {
  const deep = (n) => `[${'{"a":'.repeat(n)}1${'}'.repeat(n)}]`;
  for (const [file, want] of [
    ['hello', /neither JSON nor a ZIP/], ['\xff\xfe[\0]\0', /neither JSON/], ['[1,,2]', /comma too many/], ['[1 2]', /comma is missing/], ['[{"a":1]', /brackets that do not match/],
    ['[{"chat_messages":[', /ends inside a value/], ['[1', /ends inside a list/], ['{"conversations":[{}', /ends inside a list/],
    [zip([]).subarray(0, 10), /neither JSON|damaged/], [zip([{ name: 'a', data: 'b' }]).subarray(0, 40), /damaged/], [zip([{ name: 'a.txt', data: 'b' }]), /no conversations/],
  ]) {
    const r = await send(typeof file === 'string' ? Buffer.from(file, 'latin1') : file);
    const said = r.body.error?.message ?? r.body.stopped;
    assert.match(said, want, String(file).slice(0, 40));
    assert.ok(r.status === 400 || r.body.complete === false, `${r.status} ${said}`);
  }
  for (const [item, want] of [[deep(70), /nested deeper/], ['[{"a":1,"a":2}]', /duplicate/i], [Buffer.from('[{"a":"\xff"}]', 'latin1'), /UTF-8/], ['[{"a":tru}]', /JSON line/],
    [`[{"a":[${'0,'.repeat(1600000)}0]}]`, /1500000 JSON values/], [`[{"mapping":"${'x'.repeat(65 << 20)}"}]`, /has more/]]) {
    const r = await take(item);
    assert.equal(r.failed, 1);
    assert.match(r.problems[0].reason, want);
  }
  assert.equal((await take('[{"mapping":{"a":{"parent":null,"message":{"author":{"role":"user"},"content":{"parts":["a\\u0000b\\ud800c\\ud83d\\ude00"]}}}},"title":"odd"}]')).replaced_characters, 2);
  assert.equal((await find('odd')).messages[0].content, 'a\ufffdb\ufffdc\u{1f600}');
});

test('hostile archives are refused by name', async () => {
  const good = { name: 'c.json', data: JSON.stringify([claude({ uuid: 'hostile' })]) };
  for (const [entries, want, o] of [
    [[good, { name: '../../etc/x', data: 'x' }], /'\.\.\/\.\.\/etc\/x' has a name that points outside/], [[{ name: '/etc/passwd', data: 'x' }], /points outside/], [[{ name: 'C:\\x', data: 'x' }], /points outside/],
    [[{ name: 'a\\..\\b', data: 'x' }], /points outside/], [[{ name: 'l', data: '/etc/passwd', mode: 0o120777 }], /'l' is a link/], [[{ ...good, flags: 1 }], /is encrypted/], [[{ name: 'a\0b' }], /no proper name/],
    [[good], /damaged/, { count: 3 }], [[{ name: 'a' }], /more than 250000 entries/, { repeat: 1000000 }],
  ]) {
    const r = await send(zip(entries, o));
    assert.equal(r.status, 400, r.text);
    assert.match(r.body.error.message, want);
  }
  const bomb = await send(zip([{ name: 'c.json', data: Buffer.concat([Buffer.from('['), Buffer.alloc(66 << 20, 0x20), Buffer.from(']')]) }]));
  assert.deepEqual([bomb.status, bomb.body.error.message], [400, 'the archive is refused: it unpacks to more than 100 times its size']);
  const lying = await take(zip([{ ...good, claim: 10 }, { name: 'd.json', data: JSON.stringify([claude({ uuid: 'after', name: 'after' })]) }]));
  assert.match(lying.problems[0].reason, /larger than the archive says/);
  assert.equal((await all()).filter((c) => c.title === 'Files').length, 1, 'nothing of a refused archive came in');
});

test('limits, rights, and one import at a time', async () => {
  assert.equal((await send([], { authorization: null })).status, 401);
  assert.equal((await send([], { authorization: 'Bearer sk-wrong' })).status, 401);
  assert.equal((await send([], { query: '?dry_run=2' })).status, 400);
  assert.equal((await send(Buffer.alloc(0))).status, 400);
  const set = (v) => s.json('PATCH', '/api/admin/settings', { import_bytes: v });
  assert.equal((await set(2 ** 30)).status, 200);
  assert.equal((await set(2 ** 30 + 1)).status, 400, 'more than nginx takes would be a promise that nobody keeps');
  await set(100);
  assert.equal((await send(' '.repeat(101))).status, 413);
  await set(0);
  assert.equal((await send('[]')).status, 403);
  await set(null);
  const empty = await take('[]');
  assert.deepEqual([empty.conversations, empty.complete], [0, true]);
  const two = await Promise.all([1, 2].map(() => send(Array.from({ length: 220 }, (_, i) => claude({ uuid: `p${i}`, name: 'parallel' })))));
  assert.ok(two.some((r) => r.status === 200));
  for (const r of two) assert.ok(r.status === 200 || (r.status === 409 && /another import/.test(r.body.error.message)), r.text);
  assert.equal((await s.json('GET', '/api/conversations?q=parallel&limit=199')).body.items.length, 199);
});

test('who may not import is refused before the body is taken', async () => {
  const key = async (scopes) => (await s.json('POST', '/api/keys', { name: 'k', scopes })).body.key;
  const offer = (authorization) => new Promise((done, failed) => {
    const r = http.request(`${s.url}/api/import`, { method: 'POST', headers: { authorization, 'content-type': 'application/octet-stream', 'content-length': 500e6 } }, (response) => {
      let text = '';
      response.on('data', (piece) => { text += piece; }).on('end', () => { done({ status: response.statusCode, error: JSON.parse(text).error }); r.destroy(); });
    }).on('error', failed);
    r.write('[');
  });
  const inference = await offer(`Bearer ${await key(['inference'])}`);
  assert.deepEqual([inference.status, inference.error.code], [403, 'insufficient_scope']);
  assert.match(inference.error.message, /needed: history/);
  assert.equal((await offer('Bearer sk-wrong')).status, 401);
  assert.ok((await s.json('GET', '/api/import')).body.max_bytes > 1e6);
  assert.equal((await s.json('GET', '/.may_import')).status, 404, 'nginx alone asks there');
  assert.equal((await s.json('GET', '/.import_other')).status, 404);
});

test('sluice import: the same by the command, beside the running server', () => {
  const run = (args, input) => execFileSync(program('sluice'), ['import', '--state', path.join(s.dir, 'state'), '--user', s.admin.name, ...args], { encoding: 'utf8', input });
  const file = path.join(s.dir, 'c.json');
  execFileSync('tee', [file], { input: JSON.stringify([claude({ uuid: 'cli', name: 'By command' })]) });
  assert.match(run(['--dry-run', file]), /claude: 1 conversations, 1 would be imported \(5 messages\), 0 there already, 0 failed/);
  const report = JSON.parse(run(['--json', file]));
  assert.deepEqual([report.imported, report.dry_run], [1, false]);
  assert.equal(JSON.parse(run(['--json', file])).duplicates, 1);
});

test('out and in again: the bytes are the same, as JSON and as ZIP', async () => {
  const sluice = (...args) => execFileSync(program('sluice'), [...args, '--state', path.join(s.dir, 'state')], { maxBuffer: 1 << 28 });
  const say = (text) => `fake:${JSON.stringify({ text })}`;
  const c = (await s.json('POST', '/api/conversations', { title: 'round', settings: { system: 'S "\u2028<\u0001', stop: ['\n'], temperature: 1e-3 } })).body;
  const first = await s.request('POST', `/api/conversations/${c.id}/messages`, { content: say('# a\n\ttext \u{1f600}') }).then(follow);
  await s.request('POST', `/api/conversations/${c.id}/messages`, { regenerate: first.last.message.id }).then(follow);
  await s.request('POST', `/api/conversations/${c.id}/fork`, { from_message_id: first.last.message.id });
  const plain = (file) => file.toString().replace(/"exported_at":\d+/, '');
  const whole = sluice('export', s.admin.name, '--trash');
  assert.ok(JSON.parse(whole).conversations.length > 200, 'all that the tests above brought');
  for (const [user, format] of [['second', 'json'], ['third', 'zip']]) {
    sluice('user', 'add', user);
    const file = path.join(s.dir, `round.${format}`);
    sluice('export', s.admin.name, '--trash', '--format', format, '--output', file);
    const report = JSON.parse(sluice('import', file, '--user', user, '--json'));
    assert.deepEqual([report.failed, report.duplicates, report.format], [0, 0, 'sluice'], JSON.stringify(report.problems));
    assert.equal(plain(sluice('export', user, '--trash')), plain(whole), format);
    assert.equal(JSON.parse(sluice('import', file, '--user', user, '--json')).duplicates, report.imported);
  }
});

test('attachments: out of the archive, under their own names, once; without it they are counted', async () => {
  const sluice = (...args) => execFileSync(program('sluice'), [...args, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
  const up = async (text, name) => (await s.json('POST', `/api/attachments?name=${name}`, Buffer.from(text), { 'content-type': 'application/octet-stream' })).body;
  const files = [await up('first words', 'a.txt'), await up('second words', 'b.md')];
  const c = (await s.json('POST', '/api/conversations', { title: 'with files' })).body;
  await s.request('POST', `/api/conversations/${c.id}/messages`, { content: 'fake:{"text":"read"}', attachments: files.map((f) => f.id) }).then(follow);
  const get = async (format, key) => Buffer.from(await (await fetch(`${s.url}/api/export?format=${format}&conversation=all`, { headers: { authorization: `Bearer ${key}` } })).arrayBuffer());
  const only = async (key) => JSON.parse(await get('json', key)).conversations.filter((x) => x.title === 'with files');
  sluice('user', 'add', 'fourth');
  const key = sluice('key', 'add', 'fourth').match(/sk-\S+/)[0];
  const as = { authorization: `Bearer ${key}` };
  const archive = await get('zip', s.key);
  const bare = await take(JSON.stringify(ownFile(...(await only(s.key)))), { query: '?dry_run=1', ...as });
  assert.deepEqual([bare.imported, bare.attachments, bare.attachments_missing], [1, 0, 2], 'JSON alone has no bytes');
  const looked = await take(archive, { query: '?dry_run=1', ...as });
  const r = await take(archive, as);
  assert.deepEqual([r.failed, r.attachments, r.problems], [0, 2, []]);
  assert.deepEqual([looked.imported, looked.attachments, looked.attachments_missing], [r.imported, r.attachments, r.attachments_missing], 'the dry run said so');
  assert.deepEqual(await only(key), await only(s.key));
  const again = (await s.json('GET', '/api/conversations?q=fake', undefined, as)).body.items[0];
  const [m] = (await s.json('GET', `/api/conversations/${again.id}`, undefined, as)).body.messages;
  const bytes = await s.request('GET', `/api/attachments/${m.attachments[0].id}/content`, undefined, as);
  assert.equal(await bytes.text(), 'first words');
  assert.equal((await s.json('GET', `/api/attachments/${m.attachments[0].id}`)).status, 404, 'nobody else reaches it');
  // the same by the command
  sluice('user', 'add', 'fifth');
  const file = path.join(s.dir, 'with-files.zip');
  execFileSync('tee', [file], { input: archive, stdio: ['pipe', 'ignore', 'inherit'] });
  const byCommand = JSON.parse(sluice('import', file, '--user', 'fifth', '--json'));
  for (const k of ['imported', 'failed', 'attachments', 'attachments_missing', 'problems']) assert.deepEqual(byCommand[k], r[k], k);
  const other = sluice('key', 'add', 'fifth').match(/sk-\S+/)[0];
  const theirs = { authorization: `Bearer ${other}` };
  assert.deepEqual(await only(other), await only(s.key));
  const copy = (await s.json('GET', '/api/conversations?q=fake', undefined, theirs)).body.items[0];
  const shown = (await s.json('GET', `/api/conversations/${copy.id}`, undefined, theirs)).body.messages[0].attachments;
  const same = ({ id, created_at, ...rest }) => rest;
  assert.deepEqual(shown.map(same), m.attachments.map(same), 'counted by the model that the server runs');
  assert.equal(await (await s.request('GET', `/api/attachments/${shown[1].id}/content`, undefined, theirs)).text(), 'second words');
  const forged = await take(zip([{ name: `attachments/${'0'.repeat(64)}`, data: 'x' }, { name: 'c.json', data: JSON.stringify(ownFile(own({ key: 'forged' }))) }]), as);
  assert.deepEqual([forged.imported, forged.problems[0].reason], [1, "this file's content is not what its name says"]);
  const novel = 'word '.repeat(900000), hash = createHash('sha256').update(novel).digest('hex');
  const long = await take(zip([{ name: `attachments/${hash}`, data: novel }, { name: 'c.json', data: JSON.stringify(ownFile(own({ key: 'long' }))) }]), as);
  assert.deepEqual([long.imported, long.problems.map((p) => p.item)], [1, [`attachments/${hash}`]], JSON.stringify(long));
  assert.match(long.problems[0].reason, /bytes of text/);
});

test('names out of a file are cleaned as those of uploads are', async () => {
  const data = 'a text of its own';
  const hash = createHash('sha256').update(data).digest('hex');
  const c = own({ key: 'odd.1', title: 'Odd name' });
  c.messages[0].attachments = [{ sha256: hash, name: '../up/a\u202egpj.txt', mime: 'text/plain', size: data.length }];
  const r = await take(zip([{ name: `attachments/${hash}`, data }, { name: 'c.json', data: JSON.stringify(ownFile(c)) }]));
  assert.deepEqual([r.imported, r.attachments], [1, 1], JSON.stringify(r));
  assert.equal((await find('Odd name', '&pinned=1')).messages[0].attachments[0].name, 'agpj.txt');
  const calls = own({ key: 'odd.2' });
  calls.messages[1].tool_calls = [null];
  const bad = await take(ownFile(calls));
  assert.deepEqual([bad.failed, bad.problems[0].path], [1, 'messages[1].tool_calls'], JSON.stringify(bad));
});

test('a long text is indexed afterwards, and a search says so until then', async () => {
  const c = own({ key: 'long.1', title: 'Long' });
  c.messages[0].content = `${Array.from({ length: 60000 }, (_, i) => (i * 7919 % 100003).toString(36)).join(' ')} the white heron`;
  const recorders = s.childrenOf(s.pid('recorder')), search = async (q) => (await s.json('GET', `/api/conversations?archived=any&q=${q}`)).body;
  for (const pid of recorders) process.kill(pid, 'SIGSTOP'); // which would have indexed it by the time of the first look, or not
  try {
    await take(ownFile(c));
    assert.equal((await search('no%20such%20bird')).indexing, true);
  } finally { for (const pid of recorders) process.kill(pid, 'SIGCONT'); }
  assert.equal((await s.json('GET', '/api/conversations')).body.indexing, false, 'a list searches nothing');
  const found = await eventually(async () => {
    const now = await search('white%20HERON');
    assert.equal(now.indexing, false);
    return now;
  }, 200);
  assert.equal(found.items[0].match.text, 'white heron');
});
