// Conversations over HTTP, on the real engine with the demo model: the tree, streams that are taken up again, stop,
// and what remains when a process dies in the middle of an answer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ args: ['--threads', '1'] }); });
after(() => s?.stop());

const short = { temperature: 0, max_tokens: 40 };
// greedily answered, this one never ends by itself: the demo model counts in circles
const endless = '1 2 3 4 5 6 7 8 9 10 11 12';
const long = { temperature: 0, max_tokens: 3000 };

const make = async (body = {}) => (await s.json('POST', '/api/conversations', body)).body;
const post = (id, body, onEvent) => s.request('POST', `/api/conversations/${id}/messages`, body).then((r) => follow(r, onEvent));
const resume = (id, onEvent) => s.request('GET', `/api/messages/${id}/stream`).then((r) => follow(r, onEvent));
const read = async (id) => (await s.json('GET', `/api/conversations/${id}`)).body;

async function message(conversation, id) {
  return (await read(conversation)).messages.find((m) => m.id === id);
}

const ended = (conversation, id) => eventually(async () => {
  const m = await message(conversation, id);
  assert.notEqual(m.status, 'running');
  return m;
});

/** Posts and leaves the stream once some text came; gives the answer's id and the text so far. */
async function begin(id, settings = long, enough = ({ out }) => out.n >= 20) {
  let seen;
  const left = new AbortController();
  const r = await fetch(`${s.url}/api/conversations/${id}/messages`, {
    method: 'POST', signal: left.signal, body: JSON.stringify({ content: endless, settings }),
    headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' },
  });
  await follow(r, (event) => { seen = event.out; return enough(event); });
  left.abort();
  return { id: seen.start.message.id, text: seen.reasoning + seen.content };
}

/** After everything was told to stop. */
async function startAgain() {
  await s.exited;
  await s.again();
}

test('a message is answered, and what was streamed is what is kept', async () => {
  const c = await make({});
  assert.equal(c.title, '');
  assert.equal(c.leaf_id, null);
  const out = await post(c.id, { content: '## What is two plus two?\nSay it.', settings: short }, async ({ event, data }) => {
    if (event !== 'start') return;
    const onDisk = await read(c.id); // committed before it was sent
    assert.equal(onDisk.messages.length, 2);
    assert.equal(onDisk.messages[0].content, '## What is two plus two?\nSay it.');
    assert.equal(data.message.content, '');
  });
  assert.equal(out.names[0], 'start');
  assert.equal(out.names.at(-1), 'done');
  assert.ok(out.deltas > 3);
  const m = out.last.message;
  assert.equal(m.content, out.content);
  assert.equal(m.reasoning, out.reasoning);
  assert.equal(m.usage.completion_tokens >= out.n, true);
  assert.ok(m.timings.ttft_ms > 0 && m.timings.decode_tokens_per_s > 0);
  const now = await read(c.id);
  assert.deepEqual(now.messages[1], m, 'the row is final when `done` comes');
  assert.equal(now.title, 'What is two plus two?');
  assert.equal(now.leaf_id, m.id);
  assert.equal(now.running, false);
  assert.deepEqual(now.settings, short);
  assert.ok(now.messages.every((x) => typeof x.id === 'string'));
});

test('regenerate gives a sibling; an edit gives a branch', async () => {
  const c = await make({ settings: short });
  const first = await post(c.id, { content: 'Hello' });
  const again = await post(c.id, { regenerate: first.last.message.id });
  assert.equal(again.start.user_message, null);
  assert.notEqual(again.last.message.id, first.last.message.id);
  assert.equal(again.last.message.parent_id, first.last.message.parent_id);
  assert.equal(again.last.message.content, first.last.message.content, 'temperature 0 says the same');
  const edited = await post(c.id, { content: 'Hello, edited', parent_id: null });
  assert.equal(edited.start.user_message.parent_id, null);
  const next = await post(c.id, { content: 'And now?' }); // after the leaf
  assert.equal(next.start.user_message.parent_id, edited.last.message.id);
  const back = await s.json('PATCH', `/api/conversations/${c.id}`, { leaf_id: first.last.message.id });
  assert.equal(back.body.leaf_id, first.last.message.id);
  assert.equal(back.body.messages, undefined);
  const now = await read(c.id);
  assert.equal(now.messages.length, 7);
  assert.equal((await s.json('PATCH', `/api/conversations/${c.id}`, { leaf_id: '999999' })).status, 400);
});

test('a stream taken up again begins at the beginning and misses nothing', async () => {
  const c = await make({});
  const { id, text } = await begin(c.id, { ...long, max_tokens: 600 });
  const two = await Promise.all([resume(id), resume(id)]);
  for (const r of two) {
    assert.equal(r.start.message.content, '');
    assert.equal(r.names.at(-1), 'done');
    assert.equal(r.content, r.last.message.content);
    assert.equal(r.reasoning, r.last.message.reasoning);
    assert.ok((r.reasoning + r.content).startsWith(text));
    assert.equal(r.last.message.status, 'length');
    const told = r.rates.filter((x) => x !== null);
    assert.ok(told.every((x) => x < 5000), `a replay is no rate: ${Math.max(...told)}`);
  }
  const done = await resume(id);
  assert.deepEqual(done.names, ['start', 'done']);
  assert.deepEqual(done.last.message, two[0].last.message);
});

test('the client leaves, the answer goes on', async () => {
  const c = await make({});
  const { id, text } = await begin(c.id, { ...long, max_tokens: 400 });
  const m = await ended(c.id, id);
  assert.equal(m.status, 'length');
  assert.equal(m.usage.completion_tokens, 400);
  assert.ok((m.reasoning + m.content).startsWith(text));
});

test('stop keeps what was generated', async () => {
  const c = await make({});
  const { id, text } = await begin(c.id);
  const busy = await s.json('POST', `/api/conversations/${c.id}/messages`, { content: 'too early' });
  assert.equal(busy.status, 409);
  assert.equal((await s.json('GET', '/api/conversations')).body.items[0].running, true);
  const following = resume(id);
  const stop = await s.request('POST', `/api/messages/${id}/stop`);
  assert.equal(stop.status, 202);
  const r = await following;
  assert.equal(r.names.at(-1), 'done');
  assert.equal(r.last.message.status, 'stopped');
  assert.ok((r.last.message.reasoning + r.last.message.content).startsWith(text));
  assert.ok(r.last.message.usage.completion_tokens < 3000);
  assert.equal((await s.request('POST', `/api/messages/${id}/stop`)).status, 202, 'again: no harm');
});

test('a killed recorder is made up for', async () => {
  const c = await make({});
  const { id, text } = await begin(c.id, { ...long, max_tokens: 1500 });
  const following = resume(id);
  for (let i = 0; i < 3; i++) {
    for (const pid of s.childrenOf(s.pid('recorder'))) process.kill(pid, 'SIGKILL');
    await sleep(400);
  }
  const r = await following;
  assert.equal(r.names.at(-1), 'done');
  const m = await ended(c.id, id);
  assert.equal(m.status, 'length');
  assert.equal(m.usage.completion_tokens, 1500);
  assert.equal(m.content, r.content);
  assert.equal(m.reasoning, r.reasoning);
  assert.ok((m.reasoning + m.content).startsWith(text));
});

test('an answer that is said to be done is on the disk, also while nobody records', async () => {
  const c = await make({}), recorders = s.childrenOf(s.pid('recorder'));
  const { id } = await begin(c.id, { ...long, max_tokens: 60 }, () => {
    for (const pid of recorders) process.kill(pid, 'SIGSTOP');
    return true;
  });
  try {
    const r = await resume(id);
    assert.equal(r.names.at(-1), 'done');
    const row = await message(c.id, id);
    assert.equal(row.status, 'length');
    assert.equal(row.content + row.reasoning, r.content + r.reasoning);
    assert.deepEqual(row.usage, r.last.message.usage);
  } finally {
    for (const pid of recorders) process.kill(pid, 'SIGCONT');
  }
  await sleep(500); // the recorder comes second
  const row = await message(c.id, id);
  assert.deepEqual([row.status, row.usage.completion_tokens], ['length', 60]);
});

test('a killed stream worker takes the stream, not the answer', async () => {
  const c = await make({});
  let id;
  const broken = await post(c.id, { content: endless, settings: { ...long, max_tokens: 1500 } }, ({ out }) => {
    if (out.n >= 20 && !id) {
      id = out.start.message.id;
      for (const pid of s.childrenOf(s.pid('workers-stream'))) process.kill(pid, 'SIGKILL');
    }
  });
  assert.equal(broken.last, undefined);
  const r = await eventually(async () => { // as the page does: 502 until the workers are back
    const again = await resume(id);
    assert.ok(again.last, JSON.stringify(again.body));
    return again;
  }, 100);
  assert.equal(r.last.message.status, 'length');
  assert.ok((r.reasoning + r.content).startsWith(broken.reasoning + broken.content));
});

test('a killed engine ends the answer with an error, and what was shown stays', async () => {
  const c = await make({});
  let text;
  const out = await post(c.id, { content: endless, settings: long }, ({ out: o }) => {
    if (o.n >= 40 && text === undefined) {
      text = o.reasoning + o.content;
      process.kill(s.pid('engine'), 'SIGKILL');
    }
  });
  assert.equal(out.names.at(-1), 'error');
  assert.ok(out.last.error.message);
  assert.equal(out.last.message.status, 'error');
  const m = await ended(c.id, out.last.message.id);
  assert.equal(m.status, 'error');
  assert.ok(m.error);
  // the row may have a little more: the stream ends where the parser held text back
  assert.ok((m.reasoning + m.content).startsWith(out.reasoning + out.content), 'nothing that was shown is lost');
  await s.ready();
  const again = await post(c.id, { regenerate: m.id, settings: short });
  assert.equal(again.names.at(-1), 'done');
});

test('deleting a conversation stops its answer', async () => {
  const c = await make({}), before = await s.metric('generation_tokens_total');
  await begin(c.id);
  assert.equal((await s.request('DELETE', `/api/conversations/${c.id}`)).status, 204);
  assert.equal((await s.request('GET', `/api/conversations/${c.id}`)).status, 404);
  assert.equal((await s.request('DELETE', `/api/conversations/${c.id}`)).status, 404);
  await eventually(async () => assert.equal((await s.json('GET', '/api/status')).body.load.running, 0));
  const grown = await s.metric('generation_tokens_total') - before;
  assert.ok(grown < long.max_tokens, `the engine went on to the end: ${grown}`);
});

test('pages hold every conversation once; search finds by title and text', async () => {
  for (let i = 0; i < 12; i++) await make({ title: `page ${i}` });
  await make({ title: '100% _sure_' });
  const seen = new Set();
  let next = null;
  do {
    const r = (await s.json('GET', `/api/conversations?limit=5${next ? `&before=${next}` : ''}`)).body;
    assert.ok(r.items.length <= 5);
    for (const c of r.items) {
      assert.ok(!seen.has(c.id));
      seen.add(c.id);
    }
    next = r.next;
  } while (next);
  assert.equal(seen.size, (await s.json('GET', '/api/conversations?limit=199')).body.items.length);
  const find = async (q) => (await s.json('GET', `/api/conversations?q=${encodeURIComponent(q)}`)).body.items.length;
  assert.equal(await find('PAGE 11'), 1);
  assert.equal(await find('%'), 1);
  assert.equal(await find('two plus two'), 1);
  assert.equal(await find('no such text anywhere'), 0);
  for (const bad of ['limit=0', 'limit=200', 'limit=x', 'before=x', 'before=1-', 'before=-1', 'pinned=2', 'archived=yes', 'trash=2', 'from=x', 'to=-1'])
    assert.equal((await s.request('GET', `/api/conversations?${bad}`)).status, 400, bad);
});

test('what a search shows begins with a sentence or a word, and says where it was cut', async () => {
  const c = await make({ title: 'snippets' });
  const content = 'Let us look at first things first, as ever, e.g. here. The engine reads all of its weights once, and then the rare heron stands in the midst of a sentence that goes on and on, for more than one hundred and twenty bytes of text, before it ends. Überall 日本.';
  await post(c.id, { content, settings: short });
  const match = async (q) => (await s.json('GET', `/api/conversations?q=${encodeURIComponent(q)}`)).body.items[0].match;
  const amid = await match('rare heron');
  assert.deepEqual([amid.cut_before, amid.cut_after], [true, true]);
  assert.ok(amid.before.length > 30 && content.includes(` ${amid.before}rare heron${amid.after} `), JSON.stringify(amid));
  const sentence = await match('engine reads');
  assert.deepEqual([sentence.before, sentence.cut_before], ['The ', false]);
  const start = await match('as ever, e.g.');
  assert.deepEqual([start.before, start.cut_before], ['Let us look at first things first, ', false]);
  const end = await match('Überall');
  assert.deepEqual([end.before, end.after, end.cut_before, end.cut_after], ['', ' 日本.', false, false]);
});

test('pins, archive, trash and tags sort the list; a search shows where', async () => {
  const c = await make({ title: 'sorted' });
  const said = await post(c.id, { content: '<b>日本語のテキスト</b> & some "quoted" words', settings: short });
  const at = `/api/conversations/${c.id}`;
  const list = async (q) => (await s.json('GET', `/api/conversations?${q}`)).body.items;
  const has = async (q) => (await list(q)).some((x) => x.id === c.id);
  const now = (await s.json('PATCH', at, { pinned: true, tags: ['Arbeit', 'x y'] })).body;
  assert.deepEqual([now.pinned, now.archived, now.tags, now.trashed_at, now.fork_of], [true, false, ['Arbeit', 'x y'], null, null]);
  assert.deepEqual((await list('pinned=1')).map((x) => x.id), [c.id]);
  assert.ok(await has('tag=arbeit') && !await has('tag=arb') && !await has('pinned=0'));
  const [hit] = await list(`q=${encodeURIComponent('語のテキ')}`);
  assert.deepEqual(hit.match, { message_id: said.start.user_message.id, before: '<b>日本', text: '語のテキ', after: 'スト</b> & some "quoted" words', cut_before: false, cut_after: false, attachment: null });
  assert.equal((await list('q=SORTED'))[0].match, null);
  assert.ok(!('match' in (await list('pinned=1'))[0]));
  await s.json('PATCH', at, { archived: true });
  assert.ok(!await has('') && !await has('q=sorted') && await has('archived=1') && await has('archived=any&q=sorted'));
  const gone = (await s.json('PATCH', at, { trashed: true })).body;
  assert.ok(gone.trashed_at > 0);
  assert.ok(!await has('archived=any') && await has('trash=1') && await has('trash=1&q=sorted'));
  await s.json('PATCH', at, { trashed: false, archived: false, pinned: null });
  assert.ok(await has('pinned=1'));
  const t = (await read(c.id)).updated_at;
  assert.ok(await has(`from=${t}&to=${t + 1}`) && !await has(`to=${t}`) && !await has(`from=${t + 1}`));
  for (const bad of [{ pinned: 1 }, { archived: 'x' }, { trashed: [] }, { tags: 'x' }, { tags: [''] }, { tags: ['x'.repeat(65)] }, { tags: [1] }])
    assert.equal((await s.json('PATCH', at, bad)).status, 400, JSON.stringify(bad));
  assert.equal((await s.request('DELETE', at)).status, 204);
  assert.ok(!await has('archived=any') && !await has('trash=1'));
});

test('a fork goes its own way; a branch is deleted alone', async () => {
  const c = await make({ title: 'trunk', settings: short });
  const first = `first ${'1 2 3 4 5 6 7 8 '.repeat(12)}`; // several blocks of the prompt cache
  const one = (await post(c.id, { content: first })).last.message;
  const two = (await post(c.id, { content: 'second' })).last.message;
  const fork = await s.json('POST', `/api/conversations/${c.id}/fork`, { from_message_id: one.id, title: 'limb' });
  assert.equal(fork.status, 201);
  assert.deepEqual([fork.body.title, fork.body.fork_of, fork.body.settings], ['limb', c.id, short]);
  const copy = await read(fork.body.id);
  assert.deepEqual(copy.messages.map((m) => m.content), [first, one.content]);
  const same = ({ id, parent_id, conversation_id, ...rest }) => rest;
  assert.deepEqual(same(copy.messages[1]), same(one));
  assert.deepEqual((await resume(copy.leaf_id)).names, ['start', 'done']);
  const on = await post(copy.id, { content: 'elsewhere' });
  assert.equal(on.start.user_message.parent_id, copy.leaf_id);
  assert.ok(on.last.message.usage.cached_tokens > 0, 'the copied prefix is in the cache');
  assert.equal((await read(c.id)).messages.length, 4);

  const again = (await post(c.id, { regenerate: two.id })).last.message;
  assert.equal((await s.request('DELETE', `/api/messages/${again.id}`)).status, 204);
  assert.equal((await read(c.id)).leaf_id, two.id);
  assert.equal((await s.request('DELETE', `/api/messages/${two.parent_id}`)).status, 204);
  const now = await read(c.id);
  assert.deepEqual([now.leaf_id, now.messages.length], [one.id, 2]);
  assert.equal((await s.request('DELETE', `/api/messages/${two.id}`)).status, 404);
  const running = await begin(c.id);
  assert.equal((await s.request('DELETE', `/api/messages/${one.id}`)).status, 409);
  assert.equal((await s.json('POST', `/api/conversations/${c.id}/fork`, { from_message_id: running.id })).status, 409);
  await s.request('POST', `/api/messages/${running.id}/stop`);
  await ended(c.id, running.id);
  for (const bad of [{}, { from_message_id: '999999' }, { from_message_id: 'x' }, { from_message_id: 5 }, { from_message_id: copy.leaf_id },
    { from_message_id: one.id, bogus: 1 }, { from_message_id: one.id, title: 'x'.repeat(600) }])
    assert.equal((await s.json('POST', `/api/conversations/${c.id}/fork`, bad)).status, 400, JSON.stringify(bad).slice(0, 60));
});

test('settings are checked, kept, and obeyed', async () => {
  const c = await make({ title: 'settings', settings: { ...short, system: 'You are terse.', seed: null } });
  assert.deepEqual(c.settings, { ...short, system: 'You are terse.' });
  const whole = await s.json('PATCH', `/api/conversations/${c.id}`, { settings: { max_tokens: 5, thinking: false } });
  assert.deepEqual(whole.body.settings, { max_tokens: 5, thinking: false });
  const r = await post(c.id, { content: 'Count to a hundred.', settings: { temperature: 0 } });
  assert.equal(r.last.message.reasoning, '', 'thinking is off');
  assert.ok(r.last.message.usage.completion_tokens <= 5);
  assert.deepEqual((await read(c.id)).settings, { max_tokens: 5, thinking: false, temperature: 0 });
  for (const bad of [{ temperature: 3 }, { temperature: 'x' }, { max_tokens: 0 }, { unknown: 1 }, { system: 5 }, { stop: [''] },
    { thinking: 'yes' }, { top_k: 1.5 }, { system: 'x'.repeat(40000) }]) {
    assert.equal((await s.json('PATCH', `/api/conversations/${c.id}`, { settings: bad })).status, 400, JSON.stringify(bad).slice(0, 60));
    assert.equal((await s.json('POST', '/api/conversations', { settings: bad })).status, 400);
  }
});

test('a new conversation begins with the user\'s defaults', async () => {
  const change = (body) => s.json('PATCH', '/api/defaults', body);
  assert.deepEqual((await s.json('GET', '/api/defaults')).body, {});
  assert.deepEqual((await change({ temperature: 0.3, system: 'Be kind.' })).body, { temperature: 0.3, system: 'Be kind.' });
  assert.deepEqual((await s.json('GET', '/api/defaults')).body, { temperature: 0.3, system: 'Be kind.' });
  const c = await make({});
  assert.deepEqual(c.settings, { temperature: 0.3, system: 'Be kind.' });
  assert.deepEqual((await make({ settings: { system: null, top_k: 5 } })).settings, { temperature: 0.3, top_k: 5 });
  for (const bad of [{ temperature: 3 }, { unknown: 1 }, { system: 5 }, { system: '\u0001'.repeat(32000) }, []])
    assert.equal((await change(bad)).status, 400);
  assert.deepEqual((await change({ temperature: null, system: null })).body, {});
  assert.deepEqual((await read(c.id)).settings, { temperature: 0.3, system: 'Be kind.' }, 'what has begun stays');
});

test('what can not be answered is refused before anything is kept', async () => {
  const c = await make({ title: 'refusals' });
  const at = `/api/conversations/${c.id}/messages`;
  const cases = [{}, { content: '' }, { content: ' \n ' }, { content: 5 }, { content: 'x', regenerate: '1' }, { regenerate: '999999' },
    { content: 'x', parent_id: '999999' }, { content: 'x', parent_id: 'abc' }, { content: 'x', parent_id: 5 }, { content: 'x', bogus: 1 },
    { content: 'x', settings: 'y' }, []];
  for (const body of cases) assert.equal((await s.json('POST', at, body)).status, 400, JSON.stringify(body));
  const huge = await s.json('POST', at, { content: 'word '.repeat(20000) });
  assert.equal(huge.status, 400);
  assert.equal(huge.body.error.code, 'context_length_exceeded');
  assert.equal((await read(c.id)).messages.length, 0);
  for (const id of ['0', '-1', 'x', '99999999999999999999', '999999'])
    assert.equal((await s.json('GET', `/api/conversations/${id}`)).status, 404, id);
});

test('another user finds nothing, on any route', async () => {
  const c = await make({ title: 'mine' });
  const mine = await post(c.id, { content: 'secret', settings: short });
  const name = `bob${Date.now()}`;
  assert.equal((await s.json('POST', '/api/users', { name, password: 'a long password', role: 'user' })).status, 201);
  const login = await s.request('POST', '/api/login', { name, password: 'a long password' }, { authorization: null });
  const cookie = login.headers.get('set-cookie').split(';')[0];
  const { csrf } = await login.json();
  const as = { authorization: null, cookie, 'x-csrf-token': csrf };
  const m = mine.last.message.id;
  const tries = [['GET', `/api/conversations/${c.id}`], ['PATCH', `/api/conversations/${c.id}`, { title: 'stolen' }],
    ['PATCH', `/api/conversations/${c.id}`, { trashed: true }], ['PATCH', `/api/conversations/${c.id}`, { tags: ['x'] }],
    ['DELETE', `/api/conversations/${c.id}`], ['POST', `/api/conversations/${c.id}/messages`, { content: 'x' }],
    ['POST', `/api/conversations/${c.id}/messages`, { regenerate: m }], ['GET', `/api/messages/${m}/stream`],
    ['POST', `/api/messages/${m}/stop`], ['DELETE', `/api/messages/${m}`], ['DELETE', `/api/messages/${m}?below=keep`],
    ['POST', `/api/messages/${m}/versions`, { content: 'x' }],
    ['POST', `/api/conversations/${c.id}/fork`, { from_message_id: m }]];
  for (const [method, where, body] of tries)
    assert.equal((await s.json(method, where, body, as)).status, 404, `${method} ${where}`);
  assert.deepEqual((await s.json('GET', '/api/conversations?q=secret', undefined, as)).body.items, []);
  const own = (await s.json('POST', '/api/conversations', {}, as)).body;
  assert.equal((await s.json('POST', `/api/conversations/${own.id}/messages`, { content: 'x', parent_id: m }, as)).status, 400);
  assert.equal((await s.json('PATCH', `/api/conversations/${own.id}`, { leaf_id: m }, as)).status, 400);
  assert.equal((await s.json('POST', `/api/conversations/${own.id}/fork`, { from_message_id: m }, as)).status, 400);
  assert.equal((await s.json('DELETE', `/api/conversations/${own.id}`, undefined, { authorization: null, cookie })).status, 403, 'no CSRF token');
  assert.equal((await s.json('GET', '/api/conversations', undefined, { authorization: null })).status, 401);
  assert.equal((await read(c.id)).title, 'mine');
});

test('many answers at once are each kept as they were streamed', async () => {
  const outs = await Promise.all(Array.from({ length: 24 }, async (_, i) => {
    const c = await make({ title: `at once ${i}` });
    return { c, out: await post(c.id, { content: `What is ${i} plus ${i}?`, settings: { temperature: 0, max_tokens: 60 } }) };
  }));
  for (const { c, out } of outs) {
    assert.equal(out.names.at(-1), 'done', JSON.stringify(out.last ?? out.body));
    const m = (await read(c.id)).messages[1];
    assert.equal(m.content, out.content);
    assert.equal(m.reasoning, out.reasoning);
    assert.deepEqual(m, out.last.message);
  }
});

test('what a client saw before everything stopped is kept, however far behind the recorder was', async () => {
  const c = await make({ title: 'behind' });
  const recorders = s.childrenOf(s.pid('recorder'));
  let from = 0;
  const { id, text } = await begin(c.id, long, async ({ out }) => {
    if (!from && out.n >= 5 && (await message(c.id, out.start.message.id)).content) { // it follows the answer
      for (const pid of recorders) process.kill(pid, 'SIGSTOP');
      from = out.n;
    }
    return from && out.n >= from + 60;
  });
  s.child.kill('SIGTERM');
  await sleep(50);
  for (const pid of recorders) process.kill(pid, 'SIGCONT');
  await startAgain();
  const m = await ended(c.id, id);
  assert.ok((m.reasoning + m.content).startsWith(text), `${m.reasoning.length + m.content.length} of ${text.length} characters`);
});

test('after a restart of everything an answer that was cut off is there with what it had', async () => {
  const c = await make({ title: 'restart' });
  const { id, text } = await begin(c.id);
  s.child.kill('SIGTERM');
  await startAgain();
  const m = await ended(c.id, id);
  assert.ok(['error', 'stopped', 'length'].includes(m.status), m.status);
  assert.ok((m.reasoning + m.content).startsWith(text));
  if (m.status === 'error') assert.ok(m.error);
  const next = await post(c.id, { regenerate: id, settings: short });
  assert.equal(next.names.at(-1), 'done');
});
