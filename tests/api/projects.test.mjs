// Projects: rows and chats in them, what goes into prompts of them (instructions, whole files, passages with their places), what is
// kept with an answer, export and import, and that nothing of another user's or of what was deleted is there.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { own, ownFile } from './exports.mjs';
import { eventually, load, patiently, sleep, start, top } from './harness.mjs';
import { cleared, holding } from './state_folder.mjs';

let s, other;
const signIn = async (name) => {
  await s.json('POST', '/api/users', { name, password: 'a long password' });
  const login = await patiently(() => s.request('POST', '/api/login', { name, password: 'a long password' }, { authorization: null }));
  const { csrf } = await login.json();
  return { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': csrf };
};
before(async () => {
  s = await start({ fake: true });
  other = await signIn('eve');
});
after(() => s?.stop());

const ECHO = `fake:${JSON.stringify({ say_prompt: true })}`;
const post = (id, body) => s.request('POST', `/api/conversations/${id}/messages`, body).then(follow);
const make = async (body) => {
  const r = await s.json('POST', '/api/projects', body);
  assert.equal(r.status, 201, r.text);
  return r.body;
};
const chat = async (project_id, settings = {}) => (await s.json('POST', '/api/conversations', { settings, project_id })).body;
const uploaded = async (name, text, headers = {}) => (await s.json('POST', `/api/attachments?name=${encodeURIComponent(name)}`, text, { 'content-type': 'application/octet-stream', ...headers })).body;
const addFile = async (project, name, text) => {
  const r = await s.json('POST', `/api/projects/${project.id}/files`, { attachment_id: (await uploaded(name, text)).id });
  assert.equal(r.status, 201, r.text);
  return r.body;
};
/** Until the recorder has put all passages into the index. */
const indexed = (id, headers) => eventually(async () => {
  const { body } = await s.json('GET', `/api/projects/${id}`, undefined, headers);
  assert.ok(!body.indexing, 'still indexing');
  return body;
});
/** Some 30,000 letters of nothing much, with one line of interest; too long for half of 4096 tokens. */
const long = (line, n = 400) => Array.from({ length: n }, (_, i) => (i === Math.floor(n / 2) ? line : `Entry ${i} of the log has nothing to report on this day.`)).join('\n');
const message = async (conversation, id) => (await s.json('GET', `/api/conversations/${conversation}`)).body.messages.find((m) => m.id === id);

test('projects are made, changed, listed by name, deleted; bad input names its field', async () => {
  const b = await make({ name: 'beta' });
  const a = await make({ name: 'Alpha', colour: 5, instructions: 'Answer briefly.' });
  assert.deepEqual([a.name, a.colour, a.instructions, a.chats, a.n_files, a.indexing, a.files], ['Alpha', 5, 'Answer briefly.', 0, 0, false, []]);
  assert.deepEqual((await s.json('GET', '/api/projects')).body.items.map((p) => p.name), ['Alpha', 'beta']);
  const changed = await s.json('PATCH', `/api/projects/${b.id}`, { name: 'Beta', colour: 7, instructions: 'x' });
  assert.deepEqual([changed.status, changed.body.name, changed.body.colour, changed.body.instructions], [200, 'Beta', 7, 'x']);
  for (const [body, param] of [[{}, 'name'], [{ name: '' }, 'name'], [{ name: 'x'.repeat(65) }, 'name'], [{ name: 'a\nb' }, 'name'], [{ name: 1 }, 'name'], [{ name: 'x', colour: 8 }, 'colour'],
    [{ name: 'x', colour: 'red' }, 'colour'], [{ name: 'x', instructions: 'x'.repeat(16385) }, 'instructions'], [{ name: 'x', more: 1 }, 'more']]) {
    const r = await s.json('POST', '/api/projects', body);
    assert.ok([400, 413].includes(r.status), r.text);
    assert.equal(r.body.error.param, param, r.text);
    assert.equal(r.body.error.reason, param === 'instructions' ? 'project_instructions' : undefined, r.text);
  }
  for (const query of ['', '?chats=burn']) assert.equal((await s.json('DELETE', `/api/projects/${b.id}${query}`)).body.error.param, 'chats');
  assert.equal((await s.request('DELETE', `/api/projects/${b.id}?chats=keep`)).status, 204);
  assert.equal((await s.json('GET', `/api/projects/${b.id}`)).status, 404);
  assert.equal((await s.request('PUT', `/api/projects/${a.id}`)).status, 405);
  assert.equal((await s.request('GET', '/api/projects', undefined, { authorization: null })).status, 401);
  await s.request('DELETE', `/api/projects/${a.id}?chats=keep`);
});

test('chats begin in a project, are moved alone and together, are listed by it', async () => {
  const p = await make({ name: 'p' }), q = await make({ name: 'q' });
  const [one, two, loose] = [await chat(p.id), await chat(p.id), await chat()];
  assert.equal(one.project_id, p.id);
  assert.equal(loose.project_id, null);
  const listed = async (project) => (await s.json('GET', `/api/conversations?project=${project}`)).body.items.map((c) => c.id).sort();
  assert.deepEqual(await listed(p.id), [one.id, two.id].sort());
  assert.ok((await listed('none')).includes(loose.id) && !(await listed('none')).includes(one.id));
  assert.equal((await s.json('PATCH', `/api/conversations/${one.id}`, { project_id: q.id })).body.project_id, q.id);
  assert.equal((await s.json('PATCH', `/api/conversations/${one.id}`, { title: 'kept' })).body.project_id, q.id, 'what is not named stays');
  assert.equal((await s.json('PATCH', `/api/conversations/${one.id}`, { project_id: null })).body.project_id, null);
  assert.equal((await s.json('POST', '/api/conversations/bulk', { ids: [one.id, two.id, loose.id], project_id: q.id })).body.changed, 3);
  assert.equal((await s.json('GET', `/api/projects/${q.id}`)).body.chats, 3);
  for (const bad of ['0', 'x', '999999', 5]) {
    assert.equal((await s.json('PATCH', `/api/conversations/${one.id}`, { project_id: bad })).body.error.param, 'project_id', String(bad));
    assert.equal((await s.json('POST', '/api/conversations/bulk', { ids: [one.id], project_id: bad })).body.error.param, 'project_id');
    assert.equal((await s.json('POST', '/api/conversations', { project_id: bad })).body.error.param, 'project_id');
  }
  assert.equal((await s.json('GET', '/api/conversations?project=x')).body.error.param, 'project');
  const said = await post(loose.id, { content: 'hello' });
  const fork = await s.json('POST', `/api/conversations/${loose.id}/fork`, { from_message_id: said.last.message.id });
  assert.equal(fork.body.project_id, q.id, 'a fork stays beside its original');
  await s.request('DELETE', `/api/conversations/${fork.body.id}`);
  assert.equal((await s.request('DELETE', `/api/projects/${q.id}?chats=trash`)).status, 204);
  const gone = (await s.json('GET', `/api/conversations/${one.id}`)).body;
  assert.ok(gone.trashed_at > 0 && gone.project_id === null);
  await s.request('DELETE', `/api/projects/${p.id}?chats=keep`);
});

test('another user finds nothing of a project', async () => {
  const p = await make({ name: 'mine' });
  await addFile(p, 'mine.txt', 'words of mine');
  const theirs = await uploaded('theirs.txt', 'words of theirs', other);
  const file = (await s.json('GET', `/api/projects/${p.id}`)).body.files[0];
  const ask = (method, where, body) => s.json(method, where, body, other);
  assert.equal((await ask('GET', '/api/projects')).body.items.length, 0);
  for (const [method, where, body] of [['GET', ''], ['PATCH', '', { name: 'x' }], ['DELETE', '?chats=trash'], ['POST', '/files', { attachment_id: theirs.id }], ['DELETE', `/files/${file.id}`]]) {
    assert.equal((await ask(method, `/api/projects/${p.id}${where}`, body)).status, 404, `${method} ${where}`);
  }
  assert.equal((await ask('POST', '/api/conversations', { project_id: p.id })).body.error.param, 'project_id');
  assert.deepEqual((await ask('GET', `/api/conversations?project=${p.id}`)).body.items, []);
  assert.equal((await s.json('POST', `/api/projects/${p.id}/files`, { attachment_id: theirs.id })).body.error.param, 'attachment_id');
  assert.equal((await s.json('GET', `/api/projects/${p.id}`)).body.n_files, 1);
  await s.request('DELETE', `/api/projects/${p.id}?chats=keep`);
});

test('instructions stand before the user\'s own prompt, and the answer keeps what it was given', async () => {
  const p = await make({ name: 'Order', instructions: 'SPEAK-LATIN' });
  const c = await chat(p.id, { system: 'OWN-PROMPT' });
  const said = await post(c.id, { content: `hi ${ECHO}` });
  assert.match(said.content, /project "Order"[^]*SPEAK-LATIN\n\nOWN-PROMPT[^]*hi fake:/);
  const m = await message(c.id, said.last.message.id);
  assert.deepEqual(m.sources, { project: 'Order', instructions: 'SPEAK-LATIN', files: [], passages: [], indexing: false });
  assert.deepEqual(said.last.message.sources, m.sources, 'the stream tells it too');
  for (const query of ['?texts=9', '/texts']) { // which the page reads: short of what each answer would repeat
    const { body } = await s.json('GET', `/api/conversations/${c.id}${query}`);
    assert.deepEqual((body.messages ?? body.items).find((x) => x.id === m.id).sources, { project: 'Order', files: [], passages: [], indexing: false });
  }
  await s.json('PATCH', `/api/projects/${p.id}`, { instructions: 'SPEAK-GREEK' });
  assert.match((await post(c.id, { content: `again ${ECHO}` })).content, /SPEAK-GREEK/);
  assert.equal((await message(c.id, said.last.message.id)).sources.instructions, 'SPEAK-LATIN', 'an older answer had others');
  const count = await s.json('POST', '/api/count', { conversation_id: c.id, content: 'x' });
  const fresh = (body) => s.json('POST', '/api/count', { content: 'x', ...body });
  assert.ok((await fresh({ project_id: p.id })).body.prompt_tokens > (await fresh({})).body.prompt_tokens + 5, 'also of a chat that would begin in it');
  assert.equal((await s.json('POST', '/api/count', { content: 'x', project_id: p.id }, other)).status, 404);
  await s.json('PATCH', `/api/conversations/${c.id}`, { project_id: null });
  assert.ok((await s.json('POST', '/api/count', { conversation_id: c.id, content: 'x' })).body.prompt_tokens < count.body.prompt_tokens, 'the count knows them');
  const out = await post(c.id, { content: `out ${ECHO}`, parent_id: null });
  assert.doesNotMatch(out.content, /SPEAK-GREEK/);
  assert.equal(out.last.message.sources, undefined);
  await s.request('DELETE', `/api/projects/${p.id}?chats=trash`);
});

test('files that fit are given whole, in the part that all chats of the project begin with', async () => {
  const p = await make({ name: 'Whole', instructions: 'Cite.' });
  await addFile(p, 'one.txt', 'The first file says WALNUT.');
  await addFile(p, 'two.md', 'The second file says ```PLUM```.');
  const [a, b] = [await chat(p.id), await chat(p.id)];
  const said = [await post(a.id, { content: `same ${ECHO}` }), await post(b.id, { content: `same ${ECHO}` })];
  assert.equal(said[0].content, said[1].content);
  assert.match(said[0].content, /Cite\.[^]*\[1\] one\.txt\n```\nThe first file says WALNUT\.\n```[^]*\[2\] two\.md\n````\n[^]*PLUM[^]*same/);
  assert.deepEqual(said[0].last.message.sources.files.map((f) => [f.n, f.name]), [[1, 'one.txt'], [2, 'two.md']]);
  assert.deepEqual(said[0].last.message.sources.passages, []);
  const picture = await uploaded('p.png', Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'));
  const r = await s.json('POST', `/api/projects/${p.id}/files`, { attachment_id: picture.id });
  assert.deepEqual([r.status, r.body.error.param], [400, 'attachment_id']);
  for (const bad of [undefined, 'x', 5]) assert.equal((await s.json('POST', `/api/projects/${p.id}/files`, { attachment_id: bad })).body.error.param, 'attachment_id');
  const { files } = (await s.json('GET', `/api/projects/${p.id}`)).body;
  const held = await s.json('DELETE', `/api/attachments/${files[0].id}`);
  assert.deepEqual([held.status, /project/.test(held.text)], [409, true], 'the project has it');
  assert.equal((await s.request('DELETE', `/api/projects/${p.id}/files/${files[0].id}`)).status, 204);
  assert.equal((await s.json('DELETE', `/api/projects/${p.id}/files/${files[0].id}`)).status, 404);
  assert.doesNotMatch((await post(a.id, { content: `later ${ECHO}`, parent_id: null })).content, /WALNUT/);
  await s.request('DELETE', `/api/projects/${p.id}?chats=trash`);
});

test('of files that do not fit, passages that match stand before the question, with their places', async () => {
  const p = await make({ name: 'Search', instructions: 'STABLE' });
  const line = 'On the ninth the Heron landed beside the öld lighthouse.';
  const text = long(line);
  await addFile(p, 'log.txt', text);
  await addFile(p, 'other.txt', long('Nobody saw a kingfisher.'));
  await indexed(p.id);
  const c = await chat(p.id, { system: 'OWN' });
  const said = await post(c.id, { content: `Where did the herons land? ${ECHO}` });
  const { sources } = said.last.message;
  assert.deepEqual(sources.files, []);
  assert.equal(sources.indexing, false);
  const hit = sources.passages.find((x) => x.text.includes('Heron'));
  assert.ok(hit && hit.name === 'log.txt', JSON.stringify(sources));
  assert.equal(Buffer.from(text).subarray(hit.start, hit.end).toString(), hit.text, 'it is where it says');
  assert.match(said.content, new RegExp(`STABLE[^]*- log\\.txt\n- other\\.txt[^]*OWN[^]*\\[${hit.n}\\] log\\.txt[^]*Heron[^]*Where did the herons land`));
  const { body: { prompt_tokens } } = await s.json('POST', '/api/count', { conversation_id: c.id, parent_id: null, content: 'Where did the herons land?' });
  assert.ok(prompt_tokens < 4096 / 4 + 700, `${prompt_tokens} tokens: the budget is kept`);
  // the next turn has the same beginning, the earlier question with its passages, and numbers that go on
  const next = await post(c.id, { content: `And the kingfisher? ${ECHO}` });
  const upTo = (x) => x.slice(0, x.indexOf('Where did'));
  assert.equal(upTo(next.content), upTo(said.content));
  const last = Math.max(...sources.passages.map((x) => x.n));
  assert.ok(next.last.message.sources.passages.every((x) => x.n > last));
  assert.ok(next.last.message.sources.passages.some((x) => x.text.includes('kingfisher')));
  // another answer to the first question is given the same; a follow-up without words of its own uses the question before
  const again = await post(c.id, { regenerate: said.last.message.id });
  assert.deepEqual(again.last.message.sources, sources);
  const short = await post(c.id, { content: `Why? ${ECHO}`, parent_id: again.last.message.id });
  assert.ok(short.last.message.sources.passages.some((x) => x.text.includes('Heron')));
  const none = await post(c.id, { content: `zzzz qqqq xxxx jjjj zzzz qqqq xxxx jjjj zzzz qqqq xxxx jjjj zzzz ${ECHO}`, parent_id: null });
  assert.ok(none.last.message.sources.passages.every((x) => !x.text.includes('Heron')));
  // another user's texts do not change what is found
  const theirs = (await s.json('POST', '/api/projects', { name: 'noise' }, other)).body;
  const noise = await uploaded('noise.txt', long('Heron heron heron'), other);
  assert.equal((await s.json('POST', `/api/projects/${theirs.id}/files`, { attachment_id: noise.id }, other)).status, 201);
  await indexed(theirs.id, other);
  const beside = await post(c.id, { content: `Where did the herons land? ${ECHO}`, parent_id: null });
  assert.deepEqual(beside.last.message.sources, sources);
  await s.request('DELETE', `/api/projects/${p.id}?chats=trash`);
});

test('an answer that is continued has the passages it began with', async () => {
  const p = await make({ name: 'Again' });
  await addFile(p, 'log.txt', long('The badger sleeps under the mill.'));
  await indexed(p.id);
  const c = await chat(p.id);
  const said = await post(c.id, { content: `badger? fake:${JSON.stringify({ text: 'It sleeps', finish: 'length' })}` });
  assert.equal(said.last.message.status, 'length');
  const before = said.last.message.sources;
  assert.ok(before.passages.length);
  const file = (await s.json('GET', `/api/projects/${p.id}`)).body.files[0];
  await s.request('DELETE', `/api/projects/${p.id}/files/${file.id}`);
  const more = await post(c.id, { continue: said.last.message.id });
  assert.ok(more.last.message, JSON.stringify(more.body));
  assert.deepEqual(more.last.message.sources, before);
  await s.request('DELETE', `/api/projects/${p.id}?chats=trash`);
});

test('an export has projects, to its schema, and comes back whole on another account', async () => {
  const p = await make({ name: 'Büro', colour: 2, instructions: 'Sei kurz.' });
  await addFile(p, 'handbuch.txt', long('Der Kaffee steht im dritten Schrank.'));
  await indexed(p.id);
  const c = await chat(p.id);
  await post(c.id, { content: `Wo steht der Kaffee? fake:${JSON.stringify({ text: 'Im dritten Schrank [1].' })}` });
  await s.request('DELETE', '/api/trash');
  const get = (query, headers) => patiently(() => s.request('GET', `/api/export${query}`, undefined, headers));
  const [{ default: Ajv }] = [await load('ajv/dist/2020.js')];
  const check = new (Ajv.default ?? Ajv)().compile(JSON.parse(readFileSync(path.join(top, 'docs/export.schema.json'), 'utf8')));
  const query = `&conversation=${c.id}`;
  const json = await (await get(`?format=json${query}`)).json();
  assert.ok(check(json), JSON.stringify(check.errors));
  assert.equal(json.conversations[0].project.name, 'Büro');
  assert.equal(json.conversations[0].project.files[0].name, 'handbuch.txt');
  assert.ok(json.conversations[0].messages[1].sources.passages.length);
  const zip = Buffer.from(await (await get(`?format=zip${query}`)).arrayBuffer());
  const as = await signIn('frida');
  for (const fresh of [true, false]) {
    const r = await s.json('POST', '/api/import', zip, { 'content-type': 'application/zip', ...as });
    assert.deepEqual([r.status, r.body.imported, r.body.duplicates, r.body.failed, r.body.attachments_missing], fresh ? [200, 1, 0, 0, 0] : [200, 0, 1, 0, 0], r.text);
  }
  const [q] = (await s.json('GET', '/api/projects', undefined, as)).body.items;
  assert.deepEqual([q.name, q.colour, q.instructions, q.chats, q.n_files], ['Büro', 2, 'Sei kurz.', 1, 1]);
  const back = await (await get('?format=json', as)).json();
  assert.deepEqual(back.conversations, json.conversations, 'the same again');
  const [, answer] = (await s.json('GET', `/api/conversations/${(await s.json('GET', '/api/conversations', undefined, as)).body.items[0].id}`, undefined, as)).body.messages;
  assert.deepEqual(answer.sources, json.conversations[0].messages[1].sources);
  for (const [change, field] of [[(x) => { x.project.colour = 9; }, 'colour'], [(x) => { x.project = { ...x.project, key: 'other', name: 'n'.repeat(65) }; }, 'name'],
    [(x) => { x.project = { ...x.project, key: 'other', instructions: 'ä'.repeat(8193) }; }, 'instructions'], [(x) => { delete x.project.files; }, 'files'], [(x) => { x.messages[1].sources = { project: 1 }; }, 'sources'], [(x) => { x.project = 'x'; }, 'project']]) {
    const bad = structuredClone(json);
    bad.conversations[0].key = `bad.${field}`;
    change(bad.conversations[0]);
    const r = await s.json('POST', '/api/import', bad, as);
    assert.deepEqual([r.body.failed, r.body.problems[0].path.endsWith(field)], [1, true], r.text);
    const dry = await s.json('POST', '/api/import?dry_run=1', bad, as);
    assert.deepEqual(dry.body.problems, r.body.problems, 'a dry run says the same');
  }
  await s.request('DELETE', `/api/projects/${p.id}?chats=trash`);
});

test('chats of a project for which there is no place any more come in without it, and that is said once', async () => {
  const as = await signIn('gus');
  for (let i = 0; i < 200; i += 25) await Promise.all(Array.from({ length: 25 }, (_, k) => s.json('POST', '/api/projects', { name: `p${i + k}` }, as)));
  assert.equal((await s.json('POST', '/api/projects', { name: 'one more' }, as)).status, 400, 'there are as many as one may have');
  const project = { key: 'no.place', name: 'No place', colour: 0, instructions: '', files: [] };
  const of = (key, more) => { const { messages, ...head } = own({ key, title: key }); return { ...head, ...more, messages }; };
  const r = await s.json('POST', '/api/import', ownFile(of('np.1', { project }), of('np.2', { project }), of('np.3')), as);
  assert.deepEqual([r.body.imported, r.body.failed, r.body.without_project, r.body.problems], [3, 0, 2, []], r.text);
  const { items } = (await s.json('GET', '/api/conversations', undefined, as)).body;
  assert.deepEqual(items.map((c) => c.project_id), [null, null, null]);
});

test('a deleted project leaves nothing behind, and its bytes are the user\'s again', async () => {
  const used = async () => (await s.json('GET', '/api/account/limits')).body.used.storage_bytes;
  await s.request('DELETE', '/api/trash');
  let before = -1; // what the tests above deleted is being cleared away
  for (let same = 0; same < 5; await sleep(250)) { const now = await used(); same = now === before ? same + 1 : 0; before = now; }
  const marks = Object.fromEntries(['name', 'rules', 'file', 'text'].map((n) => [n, `zq${n}${Math.random().toString(36).slice(2)}qz`]));
  const p = await make({ name: marks.name, instructions: marks.rules });
  await addFile(p, `${marks.file}.txt`, long(`Here is ${marks.text} in the middle.`));
  await indexed(p.id);
  assert.ok(await used() > before + 20000, 'its files count');
  const c = await chat(p.id);
  assert.ok((await post(c.id, { content: `find ${marks.text}` })).last.message.sources.passages.length);
  for (const [name, mark] of Object.entries(marks)) assert.ok(holding(s, [mark]).length, `${name} was written down`);
  assert.equal((await s.request('DELETE', `/api/projects/${p.id}?chats=trash`)).status, 204);
  await s.request('DELETE', '/api/trash');
  await cleared(s, Object.values(marks));
  await eventually(async () => assert.ok(await used() <= before), 100);
});
