// What a conversation's prompt gives a model that another server answers: its pictures, and its project's files.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { follow } from './answers.mjs';
import { png } from './files.mjs';
import { atRest, eventually, lasting, program, start } from './harness.mjs';
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
    await eventually(async () => assert.equal((await asked(server.key)).headers.authorization, `Bearer ${key}`));
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
  old.unref();
  await addUpstream(server, 'old', `http://127.0.0.1:${old.address().port}/v1`, ['tired']);
  for (let i = 0; i < 5; i++) {
    const r = await server.chat({ model: 'tired', messages: [{ role: 'user', content: 'Hi' }] });
    assert.deepEqual([r.status, r.body.choices?.[0].message.content], [200, 'yes'], r.text);
  }
  assert.deepEqual([chats, connections, cut >= 3], [5, 5, true], `${chats} ${connections} ${cut}`);
  old.close();
});

/** Waits until another relay than this one listens. */
async function renewed(before) {
  const now = await eventually(() => {
    const [pid] = server.childrenOf(server.pid('relay'));
    assert.ok(![undefined, before].includes(pid));
    return pid;
  });
  await atRest([now]);
}

test('after a restart of the relay the workers\u2019 kept connections are replaced', async () => {
  const ask = () => server.chat({ model: 'far', messages: [{ role: 'user', content: 'Hi' }] });
  for (const signal of ['SIGTERM', 'SIGKILL']) {
    for (let i = 0; i < 3; i++) assert.equal((await ask()).status, 200);
    const [before] = server.childrenOf(server.pid('relay'));
    process.kill(before, signal);
    await renewed(before);
    for (let i = 0; i < 6; i++) { const r = await ask(); assert.equal(r.status, 200, `${signal} ${i}: ${r.text}`); }
  }
});

test('a relay that dies once an upstream has the question does not ask it again', async () => {
  const ask = () => server.chat({ model: 'far', messages: [{ role: 'user', content: 'Hi' }] });
  assert.equal((await ask()).status, 200); // its connection is kept
  up.knobs = { hang: 600000 };
  up.seen = [];
  const asked = ask(), [before] = server.childrenOf(server.pid('relay'));
  await eventually(() => assert.ok(up.seen.length));
  process.kill(before, 'SIGKILL');
  const r = await asked;
  up.knobs = {};
  await renewed(before);
  assert.equal((await ask()).status, 200);
  assert.equal(r.status, 503, r.text);
  assert.equal(up.seen.filter((s) => s.body.messages[0].content === 'Hi').length, 2, 'the one that died, and the one after');
});

test('while the relay is renewed, with an answer under way, what is asked meets the new one', async () => {
  const ask = (content) => server.chat({ model: 'far', messages: [{ role: 'user', content }] });
  const [before] = server.childrenOf(server.pid('relay'));
  await Promise.all([1, 2, 3, 4].map(() => ask('Hi'))); // connections that are kept
  up.knobs = { hang: 1500 };
  up.seen = [];
  const slow = ask('Slowly');
  await eventually(() => assert.ok(up.seen.length));
  up.knobs = {};
  process.kill(server.pid('relay'), 'SIGHUP');
  for (const end = Date.now() + 500; Date.now() < end;) { const r = await ask('Hi'); assert.equal(r.status, 200, r.text); }
  assert.equal((await slow).status, 200);
  assert.ok(server.childrenOf(server.pid('relay')).some((pid) => pid !== before), 'there is a new one');
});

/** Asks, and gives the question's id as soon as it has one; `end` resolves to the whole stream. */
async function begin(post, content) {
  let end;
  const question = await new Promise((known, fail) => {
    end = post({ content }).then((r) => follow(r, ({ event, data }) => { if (event === 'start') known(data.user_message.id); }));
    end.catch(fail);
  });
  return { question, end };
}

test('several models answer one question at once, each beside the other, and the conversation keeps its own', async () => {
  const own = (await server.json('GET', '/v1/models')).body.data.find((m) => m.id !== 'far').id;
  const { id } = (await server.json('POST', '/api/conversations', { settings: { compare: ['far'], reasoning_effort: null } })).body;
  const read = async () => (await server.json('GET', `/api/conversations/${id}`)).body;
  const post = (body) => server.request('POST', `/api/conversations/${id}/messages`, body);
  up.knobs = { words: ['far ', 'away'], delay: lasting(700) }; // all three still run when they are looked at
  const { question, end } = await begin(post, `fake:{"text": "near by and slow", "token_ms": ${lasting(400)}}`);
  const others = await Promise.all(['far', own].map((model) => post({ regenerate: question, model })));
  assert.deepEqual(others.map((r) => r.status), [200, 200]);
  const running = await read();
  const answers = running.messages.filter((m) => m.role === 'assistant');
  assert.deepEqual(answers.map((m) => [m.parent_id, m.status]), Array(3).fill([question, 'running']));
  assert.equal(running.leaf_id, answers[0].id, 'the conversation goes on from the first');
  const all = await Promise.all([end, ...others.map((r) => follow(r))]);
  assert.deepEqual(all.map((r) => [r.last.message.model, r.last.message.content.trim(), r.last.message.status]),
    [[own, 'near by and slow', 'done'], ['far', 'far away', 'done'], [own, 'near by and slow', 'done']]);
  assert.deepEqual((await read()).settings, { compare: ['far'] });
  const next = (await follow(await post({ content: 'fake:{"text": "on"}' }))).last.message;
  const late = (await follow(await post({ regenerate: question, model: 'far' }))).last.message;
  assert.equal((await read()).leaf_id, next.id, 'nor does one that is asked late take it elsewhere');
  const anew = (await follow(await post({ regenerate: late.id, model: 'far' }))).last.message;
  assert.equal((await read()).leaf_id, anew.id, 'an answer that is made anew is shown');

  for (const [body, status, param] of [
    [{ regenerate: question, model: 'gone' }, 404, 'model'], [{ regenerate: question, model: 7 }, 400, 'model'],
    [{ regenerate: question, model: 'far', settings: {} }, 400, 'model'], [{ regenerate: question, settings: { compare: 'far' } }, 400, 'compare'],
    [{ regenerate: question, settings: { compare: ['a', 'b', 'c', 'd'] } }, 400, 'compare'], [{ regenerate: question, settings: { compare: ['a', 'a'] } }, 400, 'compare'],
    [{ regenerate: question, settings: { compare: [''] } }, 400, 'compare'],
  ]) {
    const r = await post(body);
    const { error } = await r.json();
    assert.deepEqual([r.status, error.param], [status, param], JSON.stringify(body));
  }
  assert.equal((await read()).messages.length, 8);
});

test('how a chat thinks is not asked of another model; a chat whose own model is gone can ask another', async () => {
  const gone = await addUpstream(server, 'soon', up.url, ['soon-gone']);
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'soon-gone', reasoning_effort: 'high' } });
  const said = async (body) => { up.seen = []; return follow(await server.request('POST', `/api/conversations/${made.body.id}/messages`, body)); };
  up.knobs = {};
  assert.equal((await said({ content: 'Hello', parent_id: null })).last.message.status, 'done');
  assert.equal(up.seen[0].body.reasoning_effort, 'high');
  assert.equal((await said({ content: 'Hello', parent_id: null, model: 'far' })).last.message.model, 'far');
  assert.equal(up.seen[0].body.reasoning_effort, undefined);
  assert.ok((await server.request('DELETE', `/api/admin/upstreams/${gone.id}`)).ok);
  const model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'soon-gone');
  if (model) await server.request('DELETE', `/api/admin/registry/${model.id}`);
  assert.equal((await said({ content: 'Hello', parent_id: null })).status, 404);
  assert.equal((await said({ content: 'Hello', parent_id: null, model: 'far' })).last.message.status, 'done');
});

test('of more answers at once than a user may have, the last is refused with the limit, and the others go on', async () => {
  assert.equal((await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 2 })).status, 200);
  const { id } = (await server.json('POST', '/api/conversations', {})).body;
  const post = (body) => server.request('POST', `/api/conversations/${id}/messages`, body);
  up.knobs = { delay: 200 };
  const { question, end } = await begin(post, 'fake:{"text": "one two three four five", "token_ms": 200}');
  const second = await post({ regenerate: question, model: 'far' });
  const third = await post({ regenerate: question, model: 'far' });
  assert.equal(third.status, 429);
  const { error } = await third.json();
  assert.match(error.message, /2 jobs at one time/);
  assert.deepEqual([error.reason, error.params.limit], ['answers_at_once', 2]);
  assert.deepEqual((await Promise.all([end, follow(second)])).map((r) => r.last.message.status), ['done', 'done']);
  await server.json('PATCH', '/api/admin/settings', { user_max_jobs: null });
  up.knobs = {};
});
