// Attachments on a whole server with the real engine: what is taken and what is refused, whose they are, what the model gets to
// read, that the count of tokens is the engine's, and what is left after deletions and kills.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { follow } from './answers.mjs';
import { docx, hostilePdfs, odt, pdf, png, zip } from './files.mjs';
import { eventually, sleep, start } from './harness.mjs';

let s, other;
before(async () => {
  s = await start({ args: ['--threads', '1'] });
  const password = 'quite long enough';
  await s.json('POST', '/api/users', { name: 'other', password, role: 'user' });
  const r = await s.json('POST', '/api/login', { name: 'other', password }, { authorization: null });
  other = { authorization: null, cookie: r.headers.get('set-cookie').split(';')[0], 'x-csrf-token': r.body.csrf };
});
after(() => s?.stop());

const upload = (data, name = 'file.txt', headers = {}) =>
  s.json('POST', `/api/attachments?name=${encodeURIComponent(name)}`, Buffer.from(data), { 'content-type': 'application/octet-stream', ...headers });
const take = async (data, name) => {
  const r = await upload(data, name);
  assert.equal(r.status, 201, r.text);
  return r.body;
};
const textOf = async (a) => (await s.request('GET', `/api/attachments/${a.id}/text`)).text();
const settings = { temperature: 0, max_tokens: 3 };
const make = async () => (await s.json('POST', '/api/conversations', { settings })).body.id;
const post = (id, body) => s.request('POST', `/api/conversations/${id}/messages`, body).then((r) => follow(r));
const read = async (id) => (await s.json('GET', `/api/conversations/${id}`)).body;
const folder = () => path.join(s.dir, 'state/attachments');
const place = (sha256) => path.join(folder(), sha256.slice(0, 2), sha256);

test('a text is taken as it is', async () => {
  const text = 'one\r\ntwo — drei\n\n';
  const a = await take(text, 'notes.md');
  assert.equal(a.name, 'notes.md');
  assert.equal(a.type, 'text/plain');
  assert.equal(a.bytes, Buffer.byteLength(text));
  assert.equal(a.sha256, createHash('sha256').update(text).digest('hex'));
  assert.ok(a.tokens > 5);
  assert.equal(a.note, null);
  assert.equal(await textOf(a), 'one\ntwo — drei');
  assert.deepEqual((await s.json('GET', `/api/attachments/${a.id}`)).body, a);
  const r = await s.request('GET', `/api/attachments/${a.id}/content`);
  assert.equal(await r.text(), text);
  assert.equal(statSync(place(a.sha256)).mode & 0o777, 0o600);
});

test('the text of documents', async () => {
  const cases = [['a.docx', docx(['First &amp; foremost', 'Second']), 'First & foremost\nSecond', /wordprocessingml/],
    ['b.odt', odt(['Alpha', 'Beta']), 'Alpha\nBeta', /opendocument\.text/],
    ['c.pdf', pdf(['Page one here', 'Page two there']), 'Page one here\n\nPage two there', /^application\/pdf$/],
    ['d.txt', Buffer.from('caf\xe9', 'latin1'), 'café', /^text\/plain$/, 'read as Windows-1252, a guess'],
    ['e.txt', Buffer.from('\ufeffwide', 'utf16le'), 'wide', /^text\/plain$/, 'read as UTF-16LE'],
    ['f.html', '<html><body onload="alert(1)">words</body></html>', '<html><body onload="alert(1)">words</body></html>', /^text\/html$/],
    ['g', '{"a": 1}', '{"a": 1}', /^application\/json$/]];
  for (const [name, data, text, type, note = null] of cases) {
    const a = await take(data, name);
    assert.match(a.type, type, name);
    assert.equal(a.note, note, name);
    assert.equal((await textOf(a)).replace(/\n{3,}/g, '\n\n'), text, name);
    assert.ok(a.tokens > 0, name);
  }
});

test('what is not taken is refused in words that name the field', async () => {
  const cases = [[415, 'unsupported_file_type', Buffer.from('7f454c4602010100000000000000000003003e0001000000', 'hex'), /x-/],
    [415, 'unsupported_file_type', zip([['x.txt', 'x']]), /ZIP archive; unpack it/],
    [415, 'unsupported_file_type', zip([['../../etc/cron.d/x', '* * * * * root x']]), /ZIP archive/],
    [415, 'unsupported_file_type', '{\\rtf1 x}', /save it as/],
    [415, 'unsupported_file_type', 'a\0b', /binary data/],
    [400, 'unreadable_file', `${'a'.repeat(100000)}\0`, /NUL/],
    [400, 'unreadable_file', ' \n\t\n', /no text/],
    [400, 'unreadable_file', docx('<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]><w:document/>'), /document type declaration/],
    [400, 'unreadable_file', docx('<a>'.repeat(9000)), /nested more than/],
    [400, 'unreadable_file', docx([]), /no text/],
    [413, 'file_too_large', docx(['A'.repeat(6 << 20)]), /bytes of text/],
    [413, 'file_too_large', docx(`<a>${' '.repeat(70 << 20)}</a>`), /unpacks to more/],
    [413, 'file_too_large', 'a'.repeat(5 << 20), /bytes of text/]];
  for (const [status, code, data, words] of cases) {
    const r = await upload(data, 'x');
    assert.equal(r.status, status, r.text);
    assert.equal(r.body.error.code, code, r.text);
    assert.equal(r.body.error.param, 'file');
    assert.match(r.body.error.message, words);
  }
  assert.equal((await upload(Buffer.alloc(0))).status, 400);
  const big = await upload(Buffer.alloc(11 << 20, 'a'));
  assert.equal(big.status, 413, big.text);
});

test('PDFs that lead in circles end, and the server is as well as before', async () => {
  await Promise.all(Object.entries(hostilePdfs).map(async ([what, data]) => {
    let r = await upload(data, 'x.pdf');
    for (; r.status === 429; r = await upload(data, 'x.pdf')) await sleep(300); // a few of a user at a time
    assert.ok([400, 413].includes(r.status), `${what}: ${r.text}`);
    assert.equal(r.body.error.param, 'file');
  }));
  assert.equal(await s.metric('worker_crashes_total'), 0);
  assert.deepEqual(readdirSync(path.join(folder(), 'new')), [], 'nothing half uploaded is left');
});

test('a file that takes long to read gives way to everybody else', async () => {
  const page = deflateSync(Buffer.alloc(200 << 20, 'q Q '), { level: 1 });
  const bomb = Buffer.concat([Buffer.from(`%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n`
    + `3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>endobj\n4 0 obj<</Length ${page.length}/Filter/FlateDecode>>stream\n`),
  page, Buffer.from('\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF')]);
  const reading = upload(bomb, 'x.pdf');
  const workers = () => s.childrenOf(s.pid('workers-short'));
  const nices = () => workers().flatMap((p) => s.childrenOf(p)).map((p) => {
    try { return Number(readFileSync(`/proc/${p}/stat`, 'utf8').replace(/.*\) /, '').split(' ')[16]); } catch { return 0; }
  });
  for (let over = false; !nices().includes(5); await sleep(20)) {
    assert.ok(!over, 'it was read without giving way');
    reading.then(() => { over = true; });
  }
  assert.equal((await reading).status, 413);
});

test('names keep what can be shown', async () => {
  const cases = [['../../etc/passwd', 'passwd'], ['C:\\dir\\x.txt', 'x.txt'], ['a\u202egpj.exe', 'agpj.exe'], ['tab\tnew\nline\u0007.txt', 'tab newline.txt'],
    ['\u2066hidden\u2069.md', 'hidden.md'], ['', 'file'], ['...', 'file'], ['été 日本 👩‍👩‍👧.txt', 'été 日本 👩‍👩‍👧.txt'],
    ['"; filename="x\r\nSet-Cookie: a=b', '"; filename="xSet-Cookie: a=b']];
  for (const [given, kept] of cases) {
    const a = await take('x', given);
    assert.equal(a.name, kept);
    const r = await s.request('GET', `/api/attachments/${a.id}/content`);
    assert.equal(r.headers.get('set-cookie'), null);
    const disposition = r.headers.get('content-disposition');
    assert.match(disposition, /^attachment; filename="[ -!#-~]*"; filename\*=UTF-8''[\w!#$&+.^`|~%-]+$/, disposition);
    assert.equal(decodeURIComponent(disposition.split("UTF-8''")[1]), kept);
  }
  const long = await take('x', `${'é'.repeat(400)}.tar.gz`);
  assert.ok(Buffer.byteLength(long.name) <= 255 && long.name.endsWith('.tar.gz') && !long.name.includes('\ufffd'), long.name);
});

test('a form with one file, as browsers send it', async () => {
  const form = (...files) => {
    const f = new FormData();
    f.append('note', 'x');
    for (const [name, data] of files) f.append('file', new Blob([data]), name);
    return fetch(`${s.url}/api/attachments`, { method: 'POST', body: f, headers: { authorization: `Bearer ${s.key}` } });
  };
  const data = Buffer.from('--x\r\n\r\n--\r\nContent-Disposition: form-data; name="file"; filename="y"\r\n\r\nz\r\n');
  const r = await form(['we"ird ü.txt', data]);
  assert.equal(r.status, 201);
  const a = await r.json();
  assert.equal(a.name, 'we"ird ü.txt');
  assert.equal(a.sha256, createHash('sha256').update(data).digest('hex'));
  assert.equal((await form()).status, 400);
  assert.equal((await form(['a', 'a'], ['b', 'b'])).status, 400);
  for (const [type, body] of [['multipart/form-data', 'x'], ['multipart/form-data; boundary=', 'x'], ['multipart/form-data; boundary=q', '--q'],
    ['multipart/form-data; boundary=q', '--q\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nno end'],
    ['multipart/form-data; boundary=q', '--q\r\n\r\n\r\n--q--'], [`multipart/form-data; boundary=${'q'.repeat(100)}`, 'x']]) {
    const bad = await s.json('POST', '/api/attachments', body, { 'content-type': type });
    assert.equal(bad.status, 400, `${type} ${body}: ${bad.text}`);
  }
});

test('the bytes come back as what cannot run', async () => {
  const gif = Buffer.concat([Buffer.from('GIF89a/*'), Buffer.from([1, 0, 0, 0]), Buffer.from('*/=1;alert(1)')]);
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
  const both = Buffer.concat([pdf(['Words']), Buffer.from('<html><script>alert(1)</script></html>')]);
  for (const [data, type, how] of [[gif, 'image/gif', 'inline'], [png, 'image/png', 'inline'], [svg, 'application/octet-stream', 'attachment'],
    [both, 'application/octet-stream', 'attachment'], ['<html><script>alert(1)</script>', 'application/octet-stream', 'attachment']]) {
    const a = await take(data, 'x.html');
    const r = await s.request('GET', `/api/attachments/${a.id}/content`);
    assert.equal(r.headers.get('content-type'), type);
    assert.match(r.headers.get('content-disposition'), new RegExp(`^${how};`));
    assert.match(r.headers.get('x-content-type-options'), /^nosniff/);
    assert.match(r.headers.get('content-security-policy'), /default-src 'none'; sandbox/);
    assert.equal(r.headers.get('cross-origin-resource-policy'), 'same-origin');
    assert.match(r.headers.get('cache-control'), /private/);
    assert.deepEqual(Buffer.from(await r.arrayBuffer()), Buffer.from(data));
    const again = await s.request('GET', `/api/attachments/${a.id}/content`, undefined, { 'if-none-match': r.headers.get('etag') });
    assert.equal(again.status, 304);
    if (how === 'attachment') {
      const t = await s.request('GET', `/api/attachments/${a.id}/text`);
      assert.equal(t.headers.get('content-type'), 'text/plain; charset=utf-8');
      assert.match(t.headers.get('content-security-policy'), /default-src 'none'; sandbox/);
    }
  }
});

test('another user reaches nothing of it', async () => {
  const a = await take('mine alone', 'mine.txt');
  for (const [method, where] of [['GET', ''], ['GET', '/content'], ['GET', '/text'], ['DELETE', '']])
    assert.equal((await s.json(method, `/api/attachments/${a.id}${where}`, undefined, other)).status, 404);
  const c = (await s.json('POST', '/api/conversations', {}, other)).body;
  const r = await s.json('POST', `/api/conversations/${c.id}/messages`, { content: 'x', attachments: [a.id] }, other);
  assert.equal(r.status, 400);
  assert.equal(r.body.error.param, 'attachments');
  assert.deepEqual((await s.json('GET', `/api/conversations/${c.id}`, undefined, other)).body.messages, []);
  assert.equal((await s.json('GET', `/api/attachments/${a.id}`)).status, 200);
});

test('the count of tokens is what the engine then counts', async () => {
  const words = Array.from({ length: 60 }, (_, i) => `line ${i}: the quick brown fox, ${i * i}`).join('\n');
  const files = [await take(words, 'a.txt'), await take('# Head\n\n```js\nlet x = `y`;\n```\n', 'b.md'), await take(pdf(['Words of a page']), 'c.pdf')];
  const ask = async (attachments) => (await post(await make(), { content: 'What is in it?', attachments })).last.message.usage.prompt_tokens;
  const bare = await ask([]);
  for (const f of files) assert.equal(await ask([f.id]), bare + f.tokens, f.name);
  assert.equal(await ask(files.map((f) => f.id)), bare + files.reduce((n, f) => n + f.tokens, 0));
});

test('what was typed stays as it was, every turn sends the same bytes, and the cache keeps matching', async () => {
  const long = Array.from({ length: 80 }, (_, i) => `fact number ${i} is ${i * 7}`).join('\n');
  const a = await take(long, 'facts.txt');
  const c = await make();
  const first = await post(c, { content: 'Tell.', attachments: [a.id] });
  const question = first.start.user_message;
  assert.equal(question.content, 'Tell.');
  assert.deepEqual(question.attachments, [{ id: a.id, name: a.name, type: a.type, bytes: a.bytes, sha256: a.sha256, tokens: a.tokens, model: a.model, note: null }]);
  assert.deepEqual(first.last.message.attachments, []);
  const again = await post(c, { regenerate: first.last.message.id });
  assert.equal(again.last.message.usage.prompt_tokens, first.last.message.usage.prompt_tokens);
  assert.ok(again.last.message.usage.cached_tokens > a.tokens / 2, JSON.stringify(again.last.message.usage));
  const next = await post(c, { content: 'And more?' });
  assert.ok(next.last.message.usage.cached_tokens > a.tokens / 2);
  const edited = await post(c, { content: 'Tell me.', parent_id: null, attachments: [a.id] });
  assert.deepEqual(edited.start.user_message.attachments, question.attachments);
  assert.ok(edited.last.message.usage.cached_tokens > a.tokens / 2);
  const fork = await s.json('POST', `/api/conversations/${c}/fork`, { from_message_id: first.last.message.id });
  assert.deepEqual((await read(fork.body.id)).messages[0].attachments, question.attachments);
  assert.equal((await s.json('DELETE', `/api/attachments/${a.id}`)).status, 409);
});

test('attachments of a message: bad lists, images, no words', async () => {
  const c = await make();
  const a = await take('some text', 'a.txt'), image = await take(png, 'i.png');
  assert.equal(image.tokens, null);
  const bad = [['x', /array/], [[a.id, a.id], /twice/], [['999999999'], /no attachment/], [[5], /ids/], [[a.id, null], /ids/],
    [Array.from({ length: 21 }, (_, i) => String(i + 1)), /at most 20/], [[image.id], /image: this model reads text only/]];
  for (const [attachments, words] of bad) {
    const r = await s.json('POST', `/api/conversations/${c}/messages`, { content: 'x', attachments });
    assert.equal(r.status, 400, r.text);
    assert.match(r.body.error.param, /^attachments/);
    assert.match(r.body.error.message, words);
  }
  assert.equal((await s.json('POST', `/api/conversations/${c}/messages`, { content: ' ', attachments: [] })).status, 400);
  assert.deepEqual((await read(c)).messages, []);
  const wordless = await post(c, { content: '', attachments: [a.id] });
  assert.equal(wordless.start.user_message.content, '');
  assert.equal((await read(c)).title, 'a.txt');
});

test('OpenAI’s file parts are read the same way, and nothing of them is kept', async () => {
  const before = await s.json('GET', '/api/account/limits');
  const part = (data, filename = 'x', form = (b) => `data:application/octet-stream;base64,${b}`) => ({ type: 'file', file: { filename, file_data: form(Buffer.from(data).toString('base64')) } });
  const prompt = async (content) => s.json('POST', '/apply-template', { messages: [{ role: 'user', content }] });
  const r = await prompt([part(pdf(['Words of a page']), '../a.pdf'), part('bare', 'b.txt', (b) => b), { type: 'text', text: 'What is it?' }]);
  assert.equal(r.status, 200, r.text);
  assert.match(r.body.prompt, /Attached file: a\.pdf\n```\nWords of a page\n```\n\n\nAttached file: b\.txt\n```\nbare\n```\n\n\nWhat is it\?/);
  const chat = await s.chat({ messages: [{ role: 'user', content: [part('words', 'w.txt')] }], max_tokens: 2 });
  assert.equal(chat.status, 200, chat.text);
  for (const [file, words] of [[part('\0\u0001').file, /binary data/], [part(png).file, /image: this model reads text only/], [{ file_data: '!!' }, /not base64/],
    [{ file_id: 'file-1' }, /file_id/], [{}, /file_data/], [{ file_data: 'eA==', filename: 5 }, /filename/], [part('').file, /empty/]]) {
    const bad = await s.chat({ messages: [{ role: 'user', content: [{ type: 'file', file }] }] });
    assert.equal(bad.status, 400, bad.text);
    assert.equal(bad.body.error.param, 'messages[0].content[0].file');
    assert.match(bad.body.error.message, words);
  }
  assert.deepEqual((await s.json('GET', '/api/account/limits')).body.used.storage_bytes, before.body.used.storage_bytes);
});

const gone = (file) => eventually(() => assert.ok(!existsSync(file), `${file} is still there`));

test('deleting takes the file along, unless another conversation has it', async () => {
  const shared = await take('in two conversations', 's'), lone = await take('in one conversation', 'l'), unsent = await take('in none', 'u');
  const one = await make(), two = await make();
  await post(one, { content: 'x', attachments: [shared.id, lone.id] });
  await post(two, { content: 'x', attachments: [shared.id] });
  assert.equal((await s.request('DELETE', `/api/attachments/${unsent.id}`)).status, 204);
  assert.ok(!existsSync(place(unsent.sha256)));
  await s.request('DELETE', `/api/conversations/${one}`);
  await gone(place(lone.sha256));
  assert.equal((await s.json('GET', `/api/attachments/${lone.id}`)).status, 404);
  assert.ok(existsSync(place(shared.sha256)));
  await s.request('DELETE', `/api/messages/${(await read(two)).messages[0].id}`);
  await gone(place(shared.sha256));
});

test('kill -9 of the workers: what was acknowledged is whole, and nothing half is kept', async () => {
  const kept = [];
  let n = 0;
  const one = async () => {
    const data = `upload ${n++} ${'x'.repeat(2000)}`;
    try {
      const r = await upload(data, 'x.txt');
      if (r.status === 201) kept.push([r.body, data]);
    } catch { /* the connection to a killed worker */ }
  };
  for (let round = 1; round <= 4; round++) {
    const going = Array.from({ length: 6 }, one);
    await sleep(12 * round); // in the middle of one or the other
    for (const pid of s.childrenOf(s.pid('workers-short'))) process.kill(pid, 'SIGKILL');
    await Promise.all(going);
    const before = kept.length;
    await eventually(async () => {
      await one();
      assert.ok(kept.length > before, 'the workers come back');
    });
  }
  for (const [a, data] of kept) {
    assert.equal(readFileSync(place(a.sha256), 'utf8'), data);
    assert.equal((await s.json('GET', `/api/attachments/${a.id}`)).status, 200);
  }
});
