// Slow work never holds the threads that serve what is quick: passwords, long texts, files, shared conversations.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { pdfOf } from './files.mjs';
import { eventually, sleep, start } from './harness.mjs';

const none = { authorization: null };
const python = process.env.SLUICE_PYTHON ?? 'python3';
const PASSWORD = 'a long password';
let s, bob;
before(async () => {
  s = await start({ fake: true });
  assert.equal((await s.json('POST', '/api/users', { name: 'bob', password: PASSWORD, role: 'user' })).status, 201);
  const r = await s.json('POST', '/api/login', { name: 'bob', password: PASSWORD }, none);
  const session = { ...none, cookie: r.headers.get('set-cookie').split(';')[0], 'x-csrf-token': r.body.csrf };
  bob = { session, key: { authorization: `Bearer ${(await s.json('POST', '/api/keys', { name: 'k' }, session)).body.key}` } };
});
after(() => s?.stop());

/** A request from an address of this machine, each on a connection of its own. */
function from(localAddress, method, where, body, headers = {}) {
  return new Promise((done) => {
    const data = body === undefined ? undefined : JSON.stringify(body);
    const request = http.request({ host: '127.0.0.1', port: s.port, localAddress, method, path: where, agent: false,
      headers: { ...(data && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data) }), ...headers } }, (r) => {
      const got = [];
      r.on('data', (d) => got.push(d)).on('end', () => done({ status: r.statusCode, headers: r.headers, body: JSON.parse(Buffer.concat(got).toString() || 'null') }));
    });
    request.on('error', (error) => done({ status: 0, error }));
    request.end(data);
  });
}

/** How many of bob's looks at his own things are answered while `crowd` goes on. */
async function besides(crowd, ...paths) {
  let over = false, looks = 0, n = 0;
  crowd = Promise.all(crowd).finally(() => { over = true; });
  crowd.catch(() => {}); // told below, when the look under way has ended
  await sleep(20);
  while (!over || n < paths.length) {
    const r = await s.json('GET', paths[n++ % paths.length], undefined, bob.session);
    assert.equal(r.status, 200, r.text);
    looks += !over;
  }
  return { looks, replies: await crowd };
}

function refusals(replies, words) {
  const refused = replies.filter((r) => r.status === 429 || r.status === 503);
  for (const r of refused) {
    assert.ok(Number(r.headers['retry-after']) > 0, JSON.stringify(r.body));
    assert.match(r.body.error.message, words);
  }
  return refused.length;
}

test('a crowd that logs in, from many addresses, stops nobody who is logged in', async () => {
  const crowd = [];
  for (let i = 0; i < 60; i++)
    crowd.push(from(`127.0.1.${1 + i % 20}`, 'POST', '/api/login', { name: `stranger${i}`, password: PASSWORD }));
  const { looks, replies } = await besides(crowd, '/api/session', '/health');
  assert.ok(looks >= 4, `${looks} looks`);
  const refused = refusals(replies, /passwords? .*being checked; try again in \d+ s|too many attempts/);
  assert.ok(refused >= 30 && refused + replies.filter((r) => r.status === 401).length === 60, `${refused} refused`);
  assert.ok(await s.metric('work_refused_total', 'password') >= 30);
  assert.equal((await s.json('POST', '/api/login', { name: 'bob', password: PASSWORD }, none)).status, 200);
});

test('megabytes to tokenize by one user stop nobody; the user is told what is busy', async () => {
  const prompt = 'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. '.repeat(15000);
  const alice = { authorization: `Bearer ${s.key}` };
  const crowd = [];
  for (let i = 0; i < 20; i++)
    crowd.push(i % 2 ? from('127.0.2.1', 'POST', '/tokenize', { prompt }, alice)
      : from('127.0.2.1', 'POST', '/v1/messages/count_tokens', { messages: [{ role: 'user', content: prompt }] }, alice));
  const { looks, replies } = await besides(crowd, '/api/conversations', '/api/session');
  const ok = replies.filter((r) => r.status === 200).length;
  assert.ok(ok >= 2, `${ok} tokenized`);
  assert.equal(ok + refusals(replies, /long texts of yours are being tokenized; try again in \d+ s/), 20);
  assert.ok(ok <= 12, `${ok} at once`);
  assert.ok(looks >= 4, `${looks} looks`);
  assert.equal((await s.json('POST', '/tokenize', { prompt }, bob.key)).status, 200);
});

test('short texts are tokenized however many come', async () => {
  const all = await Promise.all(Array.from({ length: 60 }, () => s.json('POST', '/tokenize', { prompt: 'Hello' })));
  assert.deepEqual([...new Set(all.map((r) => r.status))], [200]);
});

/** A page that draws nothing for hundreds of megabytes: pdftotext is killed over it after its time. */
function slowPdf() {
  const page = deflateSync(Buffer.alloc(400 << 20, 'q Q '), { level: 1 });
  return pdfOf(['<</Type/Catalog/Pages 2 0 R>>', '<</Type/Pages/Kids[3 0 R]/Count 1>>', '<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>',
    `<</Length ${page.length}/Filter/FlateDecode>>\nstream\n${page.toString('latin1')}\nendstream`]);
}

test('files that take long to read stop nobody, and are left when their client leaves', async () => {
  const data = slowPdf();
  const put = (body, headers, signal) => fetch(`${s.url}/api/attachments?name=a.pdf`, {
    method: 'POST', body, signal, headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/octet-stream', ...headers } });
  await eventually(async () => { // a bomb ends after its time, in which a busy machine may not come to the note
    const gone = new AbortController(), replies = [];
    const crowd = Array.from({ length: 18 }, async () => {
      try {
        const r = await put(data, {}, gone.signal);
        replies.push({ status: r.status, headers: Object.fromEntries(r.headers), body: await r.json() });
      } catch { /* has left */ }
    });
    const note = async () => { // of somebody else, whom no bomb may keep waiting
      await sleep(500);
      const r = await put('A note.', bob.key);
      assert.equal(r.status, 201, await r.text());
      assert.ok(replies.every((b) => b.status !== 413), 'the note waited for a bomb to end');
    };
    try {
      await besides([sleep(1500), note()], '/api/session', '/health');
      assert.ok(replies.every((b) => b.status !== 413), 'a look waited for a bomb to end');
      assert.ok(refusals(replies, /files of yours are being read; try again in \d+ s/) >= 10, JSON.stringify(replies.map((r) => r.status)));
    } finally {
      gone.abort();
      await Promise.all(crowd);
    }
  });
  const r = await put('Some words.', bob.key);
  assert.equal(r.status, 201, await r.text());
});

test('health and figures are told while all other threads wait', () => eventually(async () => { // they give up after 5 s, in which a busy machine may be too slow
  const locker = spawn(python, ['-c', `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()`, path.join(s.dir, 'state/sluice.db')], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(locker.stdout, 'data');
  let answered = 0;
  const crowd = Array.from({ length: 80 }, () => s.json('POST', '/api/conversations', { title: 'x' }).finally(() => { answered++; })); // each waits for the lock
  try {
    await sleep(300);
    const told = ['/health', '/v1/health', '/ready', '/ping', '/load', '/version', '/metrics'];
    assert.deepEqual(await Promise.all(told.map(async (where) => (await s.json('GET', where)).status)), told.map(() => 200));
    assert.equal(answered, 0, 'they waited no less than the others');
  } finally {
    locker.stdin.end();
    await Promise.all(crowd);
    locker.kill();
  }
}));
