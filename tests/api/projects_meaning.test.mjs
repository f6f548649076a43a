// The search by meaning in projects' files: over a real engine of a tiny model whose vectors are those of letters, so that words of the
// same letters are near each other without having a word in common. Deletion, another model, other users, no model.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, start, top } from './harness.mjs';
import { cleared, holding } from './state_folder.mjs';

const python = process.env.SLUICE_PYTHON ?? 'python3';
const model = (name) => ['--embedding-model', path.join(top, 'tests/data/embedding', name)];
let s, project, eve;
before(async () => { s = await start({ args: model('bert') }); });
after(() => s?.stop());

/** Words of two letters that begin with the first of them; a question's begin with the second. */
const words = (a, b, n) => Array.from({ length: n }, (_, i) => a + [...(i * 7 % 16).toString(2).padStart(4, '0')].map((bit) => (bit === '1' ? b : a)).join(''));
const passage = (a, b) => `${words(a, b, 280).join(' ').slice(0, 1500)}\n\n`; // one passage: chunking.h
const question = (a, b) => words(b, a, 12).join(' ');
const PAIRS = ['ab', 'cd', 'ef', 'gh', 'ij', 'kl', 'mn', 'op', 'qr', 'st', 'uv', 'wx'];
const text = (pairs) => pairs.map(([a, b]) => passage(a, b)).join('');
const addFile = async (p, name, content, headers = {}) => {
  const file = (await s.json('POST', `/api/attachments?name=${name}`, content, { 'content-type': 'application/octet-stream', ...headers })).body;
  const r = await s.json('POST', `/api/projects/${p.id}/files`, { attachment_id: file.id }, headers);
  assert.equal(r.status, 201, r.text);
  return file;
};
const read = async (p, headers) => (await s.json('GET', `/api/projects/${p.id}`, undefined, headers)).body;
const vectors = (p, headers) => eventually(async () => {
  const now = await read(p, headers);
  assert.ok(!now.indexing && !now.meaning_waiting, `${JSON.stringify(now)}\n${s.log.slice(-2000)}`);
  return now;
}, 100);
/** In a chat of its own: later prompts keep what earlier answers were given. */
async function ask(content, p = project, headers = {}) {
  const c = (await s.json('POST', '/api/conversations', { settings: { max_tokens: 2, thinking: false }, project_id: p.id }, headers)).body;
  const out = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { content }, headers));
  assert.ok(out.last, JSON.stringify(out.body));
  return out.last.message.sources;
}
const rows = (sql) => JSON.parse(execFileSync(python, ['-c', `import sqlite3, sys, json
db = sqlite3.connect(sys.argv[1], timeout=20)
print(json.dumps([[v.hex() if isinstance(v, bytes) else v for v in r] for r in db.execute(sys.argv[2])]))`, path.join(s.dir, 'state/sluice.db'), sql], { encoding: 'utf8' }));
async function again(args) {
  s.child.kill('SIGTERM');
  await s.exited;
  s.options.args = args;
  await s.again();
}

test('a question that shares no word with a passage finds it, and the answer says how', async () => {
  project = (await s.json('POST', '/api/projects', { name: 'p' })).body;
  assert.equal(project.search, 'meaning');
  await addFile(project, 'letters.txt', text(PAIRS));
  await vectors(project);
  for (const pair of ['ef', 'st']) {
    const sources = await ask(question(...pair));
    assert.equal(sources.search, 'meaning', s.log.slice(-1500));
    assert.ok(sources.passages.some((p) => p.text.includes(words(...pair, 1)[0])), `${pair}: ${JSON.stringify(sources.passages.map((p) => p.text.slice(0, 20)))}`);
    assert.ok(sources.passages.length < PAIRS.length / 2, 'and not all that there is');
  }
  const both = await ask(`${question('k', 'l')} ${words('a', 'b', 1)[0]}`);
  assert.ok(both.passages.some((p) => p.text.includes(words('a', 'b', 1)[0])), 'a word is found whatever the rest means');
});

test('nothing of another user\'s is found', async () => {
  await s.json('POST', '/api/users', { name: 'eve', password: 'a long password' });
  const login = await s.json('POST', '/api/login', { name: 'eve', password: 'a long password' }, { authorization: null });
  eve = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf };
  const hers = (await s.json('POST', '/api/projects', { name: 'hers' }, eve)).body;
  await addFile(hers, 'hers.txt', text(['yz', ...PAIRS.map(([a, b]) => b + a)]), eve);
  await vectors(hers, eve);
  const sees = await ask(question('y', 'z'), hers, eve);
  assert.ok(sees.passages.some((p) => p.text.startsWith('y')) && sees.passages.every((p) => p.name === 'hers.txt'));
  const mine = await ask(question('y', 'z'));
  assert.ok(mine.passages.every((p) => p.name === 'letters.txt' && !p.text.startsWith('y')));
});

test('another model makes all vectors anew, and is searched by them', async () => {
  const old = rows('SELECT model, hex(vector) FROM chunk_vectors WHERE chunk_id = (SELECT min(chunk_id) FROM chunk_vectors)')[0];
  await again(model('qwen3'));
  await vectors(project);
  await vectors(await read(project), undefined);
  const models = rows('SELECT DISTINCT model, length(vector) FROM chunk_vectors');
  assert.ok(models.length <= 2 && models.some(([name]) => name !== old[0]), JSON.stringify(models));
  assert.equal((await ask(question('e', 'f'))).search, 'meaning');
});

test('a passage that the model can\'t read keeps no other from its vector', async () => {
  const write = (sql) => execFileSync(python, ['-c', `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
for x in sys.argv[2].split(';'): db.execute(x)
db.commit()`, path.join(s.dir, 'state/sluice.db'), sql]);
  const [[id, bytes]] = rows('SELECT id, bytes FROM file_chunks ORDER BY id LIMIT 1 OFFSET 2');
  write(`DELETE FROM chunk_vectors; UPDATE file_chunks SET bytes = 1000000000 WHERE id = ${id}`);
  await again(model('qwen3'));
  await vectors(project);
  assert.deepEqual(rows('SELECT chunk_id FROM chunk_vectors WHERE length(vector) = 1'), [[id]], s.log.slice(-2000));
  write(`UPDATE file_chunks SET bytes = ${bytes} WHERE id = ${id}`);
});

test('without a model questions are searched by their words, as ever', async () => {
  await again([]);
  assert.deepEqual((({ search, meaning_waiting: n }) => [search, n])(await read(project)), ['words', 0]);
  const none = await ask(question('e', 'f'));
  assert.deepEqual([none.search, none.passages], ['words', []]);
  assert.equal((await ask(words('c', 'd', 3).join(' '))).passages.length, 1);
});

test('vectors go with their file', async () => {
  const kept = rows(`SELECT vector FROM chunk_vectors v JOIN file_chunks k ON k.id = v.chunk_id JOIN project_files f ON f.attachment_id = k.attachment_id WHERE f.project_id = ${project.id}`).map(([v]) => Buffer.from(v, 'hex'));
  assert.ok(kept.length >= PAIRS.length);
  assert.equal((await s.request('DELETE', `/api/projects/${project.id}?chats=trash`)).status, 204);
  const long = kept.filter((v) => v.length > 1); // the byte of one that can't be read stands in every file
  assert.ok(long.length >= PAIRS.length - 1);
  await cleared(s, long);
  assert.deepEqual(holding(s, long), []);
});
