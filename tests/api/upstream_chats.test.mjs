// What a conversation's prompt gives a model that another server answers: its pictures, and its project's files.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { png } from './files.mjs';
import { program, sleep, start } from './harness.mjs';
import { addUpstream, FakeUpstream } from './upstream_rig.mjs';

let server, up, model;
before(async () => {
  server = await start({ fake: true });
  up = await FakeUpstream.open();
  await addUpstream(server, 'near', up.url, [{ model: 'far', remote: 'far-away/model' }]);
  model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far');
});
after(async () => { await server?.stop(); await up?.stop(); });

test('a question that is answered again has its pictures, whatever stands before it', async () => {
  const put = async (fill) => (await (await fetch(`${server.url}/api/attachments?name=${fill}.png`, { method: 'POST', body: Buffer.concat([png, Buffer.alloc(9 << 20, fill)]), headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/octet-stream' } })).json()).id;
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: true })).status, 200);
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far' } });
  const post = async (body) => {
    up.seen = [];
    await (await server.request('POST', `/api/conversations/${made.body.id}/messages`, body)).text();
    return up.seen[0]?.body.messages.filter((m) => m.role === 'user').map((m) => m.content[0].type);
  };
  const leaf = async () => (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1).id;
  await post({ content: 'One?', attachments: [await put('a')] });
  assert.deepEqual(await post({ content: 'Two?', attachments: [await put('b')], parent_id: await leaf() }), ['image_url', 'image_url']);
  assert.deepEqual(await post({ regenerate: await leaf() }), ['image_url', 'image_url']);
  assert.equal((await post({ content: 'And?', parent_id: await leaf() }))[1], 'text', 'of those before a question 16 MB go along');
});

test('a project\'s files go on whole where the model\'s context is known and the chat leaves them room', async () => {
  const project = (await server.json('POST', '/api/projects', { name: 'Far' })).body;
  const file = await server.json('POST', '/api/attachments?name=log.txt', 'It says WALNUT here.\n'.repeat(450), { 'content-type': 'application/octet-stream' });
  assert.equal((await server.json('POST', `/api/projects/${project.id}/files`, { attachment_id: file.body.id })).status, 201);
  const [{ tokens }] = (await server.json('GET', `/api/projects/${project.id}`)).body.files;
  assert.ok(tokens > 2048 && tokens < 8000, `${tokens}`);
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far' }, project_id: project.id });
  const system = async (content, context) => {
    assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { context })).status, 200);
    up.seen = [];
    await (await server.request('POST', `/api/conversations/${made.body.id}/messages`, { content, parent_id: null })).text();
    return up.seen[0].body.messages[0].content;
  };
  const whole = /\[1\] log\.txt\n```\nIt says WALNUT/, names = /too long to be given whole/;
  assert.match(await system('What?', 16384), whole);
  assert.match(await system(`What? ${'a long story '.repeat(4500)}`, 16384), names, 'a long chat has passages');
  assert.match(await system('What?', 0), names, 'an unknown context may be small');
});

test('prompt_cache_key goes on under a name that tells neither the key nor the user, and with a new key of ours', async () => {
  assert.equal((await server.json('POST', '/api/users', { name: 'cacher', password: 'a long password' })).status, 201);
  const other = JSON.parse(execFileSync(program('sluice'), ['key', 'add', 'cacher', '--state', path.join(server.dir, 'state'), '--name', 'k', '--json'], { encoding: 'utf8' }));
  const asked = async (key, prompt_cache_key, more = {}) => {
    up.seen = [];
    const r = await server.chat({ model: 'far', messages: [{ role: 'user', content: 'Hi' }], prompt_cache_key, ...more }, { authorization: `Bearer ${key}` });
    assert.equal(r.status, 200, r.text);
    return up.seen[0];
  };
  const name = async (key, of) => (await asked(key, of)).body.prompt_cache_key;
  const first = await name(server.key, 'team-a');
  assert.match(first, /^[\w-]{43}$/);
  assert.equal(await name(server.key, 'team-a'), first);
  assert.notEqual(await name(server.key, 'team-b'), first);
  assert.notEqual(await name(other.key, 'team-a'), first);
  assert.equal(await name(server.key), undefined);
  const { items } = (await server.json('GET', '/api/admin/upstreams')).body;
  for (const key of ['sk-one', 'sk-two']) { // on a connection that is kept
    assert.equal((await server.json('PATCH', `/api/admin/upstreams/${items[0].id}`, { key })).status, 200);
    let seen;
    for (let i = 0; i < 40 && seen !== `Bearer ${key}`; i++, await sleep(50)) seen = (await asked(server.key)).headers.authorization;
    assert.equal(seen, `Bearer ${key}`);
  }
});

test('a connection that the upstream closes when it is used again is replaced: nobody meets an error', async () => {
  const chunk = (o) => { const t = `data: ${typeof o === 'string' ? o : JSON.stringify(o)}\n\n`; return `${t.length.toString(16)}\r\n${t}\r\n`; };
  const answer = `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n${chunk({ choices: [{ index: 0, delta: { content: 'yes' }, finish_reason: 'stop' }] })}${chunk('[DONE]')}0\r\n\r\n`;
  let connections = 0, chats = 0, cut = 0;
  const old = net.createServer((socket) => {
    let used = 0, text = '';
    socket.on('error', () => {});
    socket.on('data', (d) => {
      text += d;
      const head = text.indexOf('\r\n\r\n');
      const want = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (head < 0 || text.length < head + 4 + want) return;
      const probe = text.startsWith('GET ');
      text = '';
      if (probe) { socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'); return; }
      if (used++) { cut++; socket.destroy(); return; } // a server that had just given it up
      if (used === 1) connections++;
      chats++;
      socket.write(answer);
    });
  });
  await new Promise((done) => { old.listen(0, '127.0.0.1', done); });
  await addUpstream(server, 'old', `http://127.0.0.1:${old.address().port}/v1`, ['tired']);
  for (let i = 0; i < 5; i++) {
    const r = await server.chat({ model: 'tired', messages: [{ role: 'user', content: 'Hi' }] });
    assert.deepEqual([r.status, r.body.choices?.[0].message.content], [200, 'yes'], r.text);
  }
  assert.deepEqual([chats, connections, cut >= 3], [5, 5, true], `${chats} ${connections} ${cut}`);
  old.close();
});

test('after a restart of the relay the workers\u2019 kept connections are replaced', async () => {
  const ask = () => server.chat({ model: 'far', messages: [{ role: 'user', content: 'Hi' }] });
  for (const signal of ['SIGTERM', 'SIGKILL']) {
    for (let i = 0; i < 3; i++) assert.equal((await ask()).status, 200);
    const [before] = server.childrenOf(server.pid('relay'));
    process.kill(before, signal);
    for (let i = 0; i < 200 && [undefined, before].includes(server.childrenOf(server.pid('relay'))[0]); i++) await sleep(20);
    await sleep(300); // it listens
    for (let i = 0; i < 6; i++) { const r = await ask(); assert.equal(r.status, 200, `${signal} ${i}: ${r.text}`); }
  }
});
