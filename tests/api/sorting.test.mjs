// Many conversations at once, tags, the trash, pages upwards, and long conversations in pieces.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { order, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const make = async (title, headers) => (await s.json('POST', '/api/conversations', { title }, headers)).body.id;
const list = async (query = '') => (await s.json('GET', `/api/conversations?${query}`)).body;
const ids = (page) => page.items.map((c) => c.id);
const bulk = (body, headers) => s.json('POST', '/api/conversations/bulk', body, headers);

test('pages go down and up again over the same rows', async () => {
  const made = [];
  for (let i = 0; i < 12; i++) made.unshift(await make(`number ${i}`));
  const first = await list('limit=5');
  const second = await list(`limit=5&before=${first.next}`);
  const third = await list(`limit=5&before=${second.next}`);
  assert.deepEqual([...ids(first), ...ids(second), ...ids(third)], made);
  assert.equal(third.next, null);
  const cursor = `${third.items[0].updated_at}-${third.items[0].id}`;
  const up = await list(`limit=5&after=${cursor}`);
  assert.deepEqual(up.items, second.items);
  assert.equal(up.next, second.next);
  const top = await list(`limit=6&after=${up.prev}`);
  assert.deepEqual(top.items, first.items);
  assert.equal(top.prev, null);
  assert.deepEqual((await list(`limit=5&after=${first.items[0].updated_at}-${first.items[0].id}`)).items, []);
  for (const [query, field] of [['after=x', 'after'], [`after=${cursor}&q=a`, 'after'], [`after=${cursor}&before=${cursor}`, 'after']]) {
    const r = await s.json('GET', `/api/conversations?${query}`);
    assert.equal(r.status, 400, query);
    assert.equal(r.body.error.param, field);
  }
});

test('many are pinned, archived, tagged, trashed, restored and deleted by one request', async () => {
  const some = [await make('a'), await make('b'), await make('c')];
  assert.deepEqual((await bulk({ ids: some, archived: true, add_tags: ['Work', 'later'] })).body, { changed: 3 });
  assert.deepEqual(ids(await list('archived=1')).sort(), some.sort());
  assert.deepEqual((await s.json('GET', '/api/conversation-tags')).body.items, [{ tag: 'later', conversations: 3 }, { tag: 'Work', conversations: 3 }]);
  await bulk({ ids: some.slice(0, 2), archived: false, pinned: true, remove_tags: ['work'] });
  assert.deepEqual((await list('tag=work&archived=any')).items.map((c) => c.id), [some[2]]);
  assert.equal((await list('pinned=1')).items.length, 2);
  await bulk({ ids: some, trashed: true });
  assert.deepEqual((await s.json('GET', '/api/conversation-tags')).body.items, [], 'what is in the trash has no say');
  assert.equal((await list('trash=1')).items.length, 3);
  await bulk({ ids: [some[0]], trashed: false });
  assert.deepEqual((await s.json('DELETE', '/api/trash')).body, { removed: 2 });
  assert.deepEqual((await s.json('DELETE', '/api/trash')).body, { removed: 0 });
  assert.equal((await s.json('GET', `/api/conversations/${some[1]}`)).status, 404);
  assert.deepEqual((await bulk({ ids: [some[0], some[1], '999999'], deleted: true })).body, { changed: 1 });
  assert.equal((await s.json('GET', `/api/conversations/${some[0]}`)).status, 404);
});

test('tags are the same in any letter case, and several narrow the list together', async () => {
  const [a, b] = [await make('a'), await make('b')];
  await bulk({ ids: [a], add_tags: ['Übung', 'Straße'] });
  await bulk({ ids: [b], add_tags: ['übung', 'ÜBUNG', 'strasse'] });
  assert.deepEqual((await s.json('GET', `/api/conversations/${b}`)).body.tags, ['strasse', 'übung']);
  const tagged = async (...tags) => ids(await list(new URLSearchParams(tags.map((tag) => ['tag', tag])))).sort();
  assert.deepEqual(await tagged('ÜBUNG', 'STRASSE'), [a, b].sort());
  await bulk({ ids: [a], remove_tags: ['STRASSE'] });
  assert.deepEqual(await tagged('übung', 'straße'), [b]);
  assert.deepEqual(await tagged('übung', 'nowhere'), []);
  const counted = (await s.json('GET', '/api/conversation-tags')).body.items.filter((x) => /bung/i.test(x.tag));
  assert.deepEqual(counted.map((x) => x.conversations), [2]);
  for (const query of ['tag=%zz', `tag=a&${Array(16).fill('tag=b').join('&')}`]) {
    const r = await s.json('GET', `/api/conversations?${query}`);
    assert.deepEqual([r.status, r.body.error?.param], [400, 'tag'], query);
  }
  await bulk({ ids: [a, b], deleted: true });
});

test('what is wrong is named, and then nothing is changed', async () => {
  const id = await make('kept');
  const bad = { ids: [[], ['x'], [7], 'x', Array(1001).fill('1')], pinned: ['yes'], add_tags: [[''], [' a'], 'a', Array(33).fill('a'), ['a\nb']], remove_tags: [[1]], deleted: [1], title: ['t'] };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const r = await bulk({ ids: [id], ...{ [name]: value } });
      assert.equal(r.status, 400, `${name}: ${r.text}`);
      assert.equal(r.body.error.param, name, r.text);
    }
  }
  await bulk({ ids: [id], add_tags: Array.from({ length: 30 }, (_, i) => `t${i}`) });
  const other = await make('other');
  const over = await bulk({ ids: [other, id], pinned: true, add_tags: ['x', 'y', 'z'] });
  assert.equal(over.status, 400);
  assert.equal(over.body.error.param, 'add_tags');
  assert.equal((await s.json('GET', `/api/conversations/${other}`)).body.pinned, false, 'all or none');
});

test('another user\'s conversations are passed over', async () => {
  const mine = await make('mine');
  await bulk({ ids: [mine], add_tags: ['own'], trashed: true });
  await s.json('POST', '/api/users', { name: 'bob', password: 'bobs password', role: 'user' });
  const login = await s.request('POST', '/api/login', { name: 'bob', password: 'bobs password' }, { authorization: null });
  const bob = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': (await login.json()).csrf };
  assert.deepEqual((await bulk({ ids: [mine], deleted: true, add_tags: ['stolen'] }, bob)).body, { changed: 0 });
  assert.deepEqual((await s.json('DELETE', '/api/trash', undefined, bob)).body, { removed: 0 });
  assert.deepEqual((await s.json('GET', '/api/conversation-tags', undefined, bob)).body.items, []);
  assert.equal((await s.json('GET', `/api/conversations/${mine}/texts`, undefined, bob)).status, 404);
  await bulk({ ids: [mine], trashed: false });
  assert.deepEqual((await s.json('GET', `/api/conversations/${mine}`)).body.tags, ['own']);
});

test('a long conversation opens with its last texts, the others come in pieces', async () => {
  const id = await make('long');
  let last = null;
  for (let i = 0; i < 6; i++) {
    const out = await follow(await s.request('POST', `/api/conversations/${id}/messages`, { content: order({ text: `answer ${i}` })[0].content }));
    last = out.last.message;
  }
  await follow(await s.request('POST', `/api/conversations/${id}/messages`, { regenerate: last.id }));
  const whole = (await s.json('GET', `/api/conversations/${id}`)).body;
  const opened = (await s.json('GET', `/api/conversations/${id}?texts=3`)).body;
  assert.equal(whole.messages.length, 13);
  const { messages: _, ...head } = whole;
  const { messages, ...same } = opened;
  assert.deepEqual(same, head);
  const byId = (a, b) => Number(a.id) - Number(b.id);
  const full = messages.filter((m) => !m.partial);
  const path = [];
  for (let m = whole.messages.find((x) => x.id === whole.leaf_id); m; m = whole.messages.find((x) => x.id === m.parent_id)) path.push(m);
  assert.deepEqual([...full].sort(byId), path.slice(0, 3).sort(byId));
  const brief = ({ id: i, conversation_id: c, parent_id: p, role, status }) => ({ id: i, conversation_id: c, parent_id: p, role, status });
  assert.deepEqual(messages.map(brief).sort(byId), whole.messages.map(brief));
  const pieces = [];
  for (let after = '0'; after;) {
    const r = (await s.json('GET', `/api/conversations/${id}/texts?limit=5&after=${after}`)).body;
    pieces.push(r.items.length);
    assert.deepEqual(r.items, whole.messages.filter((m) => Number(m.id) > Number(after)).slice(0, 5));
    after = r.next;
  }
  assert.deepEqual(pieces, [5, 5, 3]);
  for (const where of ['?texts=0', '?texts=1001', '/texts?limit=0', '/texts?after=-1']) assert.equal((await s.json('GET', `/api/conversations/${id}${where}`)).status, 400, where);
});
