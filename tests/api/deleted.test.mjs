// Deleting is deleting: once the recorder has cleared away, the text stands nowhere in the state folder: not in the rows, not
// in their free pages (secure_delete), the WAL, the search index, the files of attachments.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { start } from './harness.mjs';
import { cleared, holding } from './state_folder.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const mark = (name) => `zq${name}${Math.random().toString(36).slice(2)}qz`;
const marks = Object.fromEntries(['system', 'title', 'tag', 'question', 'answer', 'file', 'filename', 'stored', 'listed1', 'listed2', 'kept'].map((n) => [n, mark(n)]));

test('a conversation, its attachment and a stored response leave nothing behind', async () => {
  const c = (await s.json('POST', '/api/conversations', { title: marks.title, settings: { system: marks.system } })).body;
  const upload = await s.json('POST', `/api/attachments?name=${marks.filename}.txt`, `a line with ${marks.file}\n`, { 'content-type': 'application/octet-stream' });
  assert.equal(upload.status, 201, upload.text);
  const order = `${marks.question} fake:${JSON.stringify({ text: `${marks.answer} `.repeat(150) })}`;
  const said = await s.request('POST', `/api/conversations/${c.id}/messages`, { content: order, attachments: [upload.body.id] }).then(follow);
  assert.equal(said.last?.message?.status, 'done', JSON.stringify(said.body ?? said.last));
  await s.json('PATCH', `/api/conversations/${c.id}`, { tags: [marks.tag] });
  const kept = (await s.json('POST', '/api/conversations', { title: marks.kept })).body;
  const response = await s.json('POST', '/v1/responses', { model: 'demo-model', input: `${marks.stored} fake:{"text":"yes"}` });
  assert.equal(response.status, 200, response.text);
  const [listed, emptied] = await Promise.all([1, 2].map((n) => s.json('POST', '/v1/conversations', { items: [{ id: 'msg_1', role: 'user', content: marks[`listed${n}`] }] })));
  assert.equal(listed.status, 200, listed.text);
  const { kept: stays, ...gone } = marks;
  const written = holding(s, Object.values(gone)).join();
  for (const [n, text] of Object.entries(gone)) assert.ok(written.includes(text), `${n} was written down`);
  const found = async (text) => (await s.json('GET', `/api/conversations?q=${text}`)).body.items;
  assert.equal((await found(marks.question)).length, 1);
  for (const [text, before] of [[marks.file, 'a line with '], [marks.filename, '']]) {
    const [{ match }] = await found(text);
    assert.deepEqual([match.attachment, match.before, match.text], [{ id: upload.body.id, name: `${marks.filename}.txt` }, before, text]);
  }

  assert.equal((await s.request('DELETE', `/api/conversations/${c.id}`)).status, 204);
  assert.equal((await s.json('DELETE', `/v1/responses/${response.body.id}`)).status, 200);
  assert.equal((await s.json('DELETE', `/v1/conversations/${listed.body.id}`)).status, 200);
  assert.equal((await s.json('DELETE', `/v1/conversations/${emptied.body.id}/items/msg_1`)).status, 200);
  for (const n of ['question', 'file', 'filename']) assert.deepEqual(await found(marks[n]), []);
  await cleared(s, Object.values(gone));
  assert.ok(holding(s, [stays]).length, 'what was not deleted is there');
  assert.equal((await s.json('GET', `/api/conversations/${kept.id}`)).body.title, marks.kept);
});
