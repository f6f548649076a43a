// Groups of users: what they carry holds from the next request on, for keys, too, and no longer than one is a member; limits with where
// they come from; invitations and the audit log. And projects that are shared: what a reader and an editor may, what nobody sees, and
// what is left when it ends.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { patiently, start } from './harness.mjs';
import { startMcp } from './mcp_server.mjs';

const none = { authorization: null };
let s, mcp, bob, cleo;

/** A user with a session (headers) and a key. */
async function person(name) {
  const password = `${name}s long password`;
  const { body } = await s.json('POST', '/api/users', { name, password, role: 'user' });
  const login = await patiently(() => s.request('POST', '/api/login', { name, password }, none));
  const { csrf } = await login.json();
  const session = { ...none, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': csrf };
  const { key } = (await s.json('POST', '/api/keys', { name: 'k' }, session)).body;
  return { id: body.id, name, session, key: { authorization: `Bearer ${key}` } };
}
before(async () => {
  s = await start({ fake: true });
  mcp = await startMcp();
  await s.json('PATCH', '/api/admin/settings', { share_links: true, sign_up: 'invite', tool_servers: 'users', tool_servers_private: true });
  bob = await person('bob');
  cleo = await person('cleo');
});
after(async () => { await s?.stop(); await mcp?.stop(); });

const made = async (where, body, headers = {}) => {
  const r = await s.json('POST', where, body, headers);
  assert.ok([200, 201].includes(r.status), `${where}: ${r.text}`);
  return r.body;
};
const group = (name, more = {}) => made('/api/groups', { name, ...more });
const members = (g, add, remove = []) => made(`/api/groups/${g.id}/members`, { add: add.map((p) => p.id), remove: remove.map((p) => p.id) });
const audit = async (action) => (await s.json('GET', `/api/admin/audit?action=${action}`)).body.items;

test('groups are made, changed, listed, removed by admins alone; bad input names its field', async () => {
  const g = await group('Research', { description: 'who tries things', limits: { tokens_per_day: 5000 } });
  assert.deepEqual([g.members, g.models, g.tool_servers, g.limits.tokens_per_day, g.limits.max_jobs, g.claim], [0, [], [], 5000, null, '']);
  for (const [body, param, status = 400] of [[{}, 'name'], [{ name: '' }, 'name'], [{ name: 'x'.repeat(65) }, 'name'], [{ name: 'RESEARCH' }, 'name', 409], [{ name: 'x', models: ['a'] }, 'models'], [{ name: 'x', models: [99] }, 'models'],
    [{ name: 'x', limits: { tokens_per_day: -1 } }, 'tokens_per_day'], [{ name: 'x', limits: { cats: 1 } }, 'limits'], [{ name: 'x', more: 1 }, 'more'], [{ name: 'x', description: 'x'.repeat(201) }, 'description']]) {
    const r = await s.json('POST', '/api/groups', body);
    assert.deepEqual([r.status, r.body.error.param], [status, param], r.text);
  }
  const path = `/api/groups/${g.id}`;
  assert.equal((await s.json('POST', `${path}/members`, {})).body.error.param, 'add');
  assert.equal((await s.json('POST', `${path}/members`, { add: ['99'] })).body.error.param, 'add');
  const changed = await s.json('PATCH', path, { name: 'Lab', limits: { tokens_per_day: null, max_jobs: 0 } });
  assert.deepEqual([changed.body.name, changed.body.limits.tokens_per_day, changed.body.limits.max_jobs], ['Lab', null, 0]);
  for (const [method, where, body] of [['GET', '/api/groups'], ['POST', '/api/groups', { name: 'mine' }], ['GET', path], ['PATCH', path, { name: 'mine' }], ['DELETE', path], ['GET', `${path}/members`], ['POST', `${path}/members`, { add: [bob.id] }]]) {
    assert.equal((await s.json(method, where, body, bob.session)).status, 403, `${method} ${where}`);
    assert.equal((await s.json(method, where, body, bob.key)).status, 403, `${method} ${where}`);
    assert.equal((await s.json(method, where, body, none)).status, 401, `${method} ${where}`);
  }
  assert.deepEqual((await s.json('GET', '/api/groups')).body.items.map((x) => x.name), ['Lab']);
  assert.equal((await s.request('DELETE', path)).status, 204);
  for (const method of ['GET', 'DELETE']) assert.equal((await s.request(method, path)).status, 404);
});

test('a model of a group is a member\'s from the next request on, for a key too, and no longer', async () => {
  await made('/api/admin/upstreams', { name: 'there', url: 'http://127.0.0.1:9', models: ['big'] });
  const models = (await s.json('GET', '/api/admin/registry')).body.items;
  const model = models.find((m) => m.name === 'big');
  assert.equal((await s.json('PATCH', `/api/admin/registry/${model.id}`, { everyone: false })).status, 200);
  const sees = async (who) => (await s.json('GET', '/v1/models', undefined, who.key)).body.data.some((m) => m.id === 'big');
  const g = await group('big models', { models: [model.id] });
  assert.deepEqual((await s.json('GET', '/api/admin/registry')).body.items.find((m) => m.id === model.id).groups, [g.id]);
  assert.deepEqual([await sees(bob), await sees(cleo)], [false, false]);
  assert.equal((await members(g, [bob])).members, 1);
  assert.deepEqual([await sees(bob), await sees(cleo)], [true, false]);
  assert.deepEqual((await s.json('GET', `/api/groups/${g.id}/members`)).body.items, [{ id: bob.id, name: 'bob', by_provider: false }]);
  assert.deepEqual((await s.json('GET', '/api/account/limits', undefined, bob.session)).body.groups, [{ id: g.id, name: 'big models', description: '' }]);
  const ask = () => s.json('POST', '/v1/chat/completions', { model: 'big', messages: [{ role: 'user', content: 'x' }] }, bob.key);
  assert.notEqual((await ask()).status, 404);
  await members(g, [], [bob]);
  assert.equal((await ask()).status, 404);
  assert.equal(await sees(bob), false);
  assert.equal((await s.json('PATCH', `/api/admin/registry/${model.id}`, { groups: ['99'] })).body.error.param, 'groups');
  assert.deepEqual((await s.json('PATCH', `/api/admin/registry/${model.id}`, { groups: [] })).body.groups, []);
  const rows = (await audit('group.member')).map((x) => [x.action, x.target]);
  assert.deepEqual(rows.slice(0, 2), [['group.member.remove', `group:${g.id} user:${bob.id}`], ['group.member.add', `group:${g.id} user:${bob.id}`]]);
  const path = (await s.json('GET', '/api/admin/models')).body.items[0].path;
  const own = (await made('/api/admin/registry', { name: 'own', path, everyone: false, groups: [g.id] }));
  assert.deepEqual(own.groups, [g.id]);
  await s.request('DELETE', `/api/admin/registry/${own.id}`);
  await s.request('DELETE', `/api/groups/${g.id}`);
});

test('a tool server is for everyone, or for the members of groups and admins', async () => {
  const server = await made('/api/tool-servers', { name: 'search', url: mcp.url, everyone: true });
  assert.equal(server.groups, null);
  const sees = async (who) => (await s.json('GET', '/api/tool-servers', undefined, who.session)).body.items.map((x) => x.name);
  assert.deepEqual(await sees(bob), ['search']);
  assert.equal('groups' in (await s.json('GET', '/api/tool-servers', undefined, bob.session)).body.items[0], false);
  const g = await group('searchers', { tool_servers: [server.id] });
  assert.deepEqual(await sees(bob), ['search'], 'it is for everyone still');
  assert.equal((await s.request('PUT', `/api/tool-servers/${server.id}/groups`, { groups: [g.id] })).status, 204);
  assert.deepEqual([await sees(bob), (await s.json('GET', '/api/tool-servers')).body.items[0].groups], [[], [g.id]]);
  const chat = await s.json('POST', '/api/conversations', { settings: { tool_servers: ['search'] } }, bob.session);
  assert.equal(chat.body.error.param, 'tool_servers', chat.text);
  await members(g, [bob]);
  assert.deepEqual([await sees(bob), await sees(cleo)], [['search'], []]);
  assert.equal((await s.json('PUT', `/api/tool-servers/${server.id}/groups`, {})).body.error.param, 'groups');
  assert.equal((await s.request('PUT', `/api/tool-servers/${server.id}/groups`, { groups: null }, bob.session)).status, 403);
  const add = (more, who) => s.json('POST', '/api/tool-servers', { name: 'close', url: mcp.url, ...more }, who?.session);
  assert.deepEqual((await add({ everyone: true, groups: ['99'] })).body.error.param, 'groups');
  assert.deepEqual((await add({ groups: [g.id] })).body.error.param, 'groups', 'an own one is nobody else\'s');
  const close = await add({ everyone: true, groups: [g.id] });
  assert.deepEqual([close.status, close.body.groups], [201, [g.id]], close.text);
  assert.deepEqual([await sees(bob), await sees(cleo)], [['close', 'search'], []]);
  assert.equal((await s.request('DELETE', `/api/tool-servers/${close.body.id}`)).status, 204);
  await s.request('DELETE', `/api/groups/${g.id}`);
  assert.deepEqual(await sees(bob), [], 'for nobody then, not for everyone');
  await s.request('DELETE', `/api/tool-servers/${server.id}`);
});

test('limits: the user\'s own, else the most generous group\'s, else the settings\', each with its source', async () => {
  await s.json('PATCH', '/api/admin/settings', { user_tokens_per_day: 900000 });
  const few = await group('few', { limits: { tokens_per_day: 40, max_jobs: 3 } }), more = await group('more', { limits: { tokens_per_day: 70 } });
  await members(few, [bob]);
  await members(more, [bob]);
  const person_ = async () => (await s.json('GET', '/api/users')).body.items.find((u) => u.id === bob.id);
  let p = await person_();
  assert.deepEqual([p.limits, p.groups.map((g) => g.name), p.effective.tokens_per_day, p.effective.max_jobs], [null, ['few', 'more'], 70, 3]);
  assert.deepEqual([p.limit_sources.tokens_per_day, p.limit_sources.max_jobs, p.limit_sources.storage_bytes], [{ from: 'group', group: 'more' }, { from: 'group', group: 'few' }, { from: 'server' }]);
  const own = (await s.json('GET', '/api/account/limits', undefined, bob.session)).body;
  assert.deepEqual([own.limits.tokens_per_day, own.limit_sources.tokens_per_day], [70, { from: 'group', group: 'more' }]);
  const ask = (n) => s.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(n) }] }, bob.key);
  const refused = await ask(300);
  assert.deepEqual([refused.status, refused.body.error.code], [429, 'insufficient_quota'], refused.text);
  await members(more, [], [bob]);
  assert.equal((await person_()).effective.tokens_per_day, 40);
  await members(few, [], [bob]);
  p = await person_();
  assert.deepEqual([p.effective.tokens_per_day, p.limit_sources.tokens_per_day], [900000, { from: 'server' }]);
  assert.equal((await ask(300)).status, 200);
  await members(more, [bob]);
  await s.json('PATCH', `/api/users/${bob.id}`, { limits: { tokens_per_day: 12345 } });
  p = await person_();
  assert.deepEqual([p.effective.tokens_per_day, p.limit_sources.tokens_per_day], [12345, { from: 'own' }]);
  await s.json('PATCH', `/api/users/${bob.id}`, { limits: null });
  for (const g of [few, more]) await s.request('DELETE', `/api/groups/${g.id}`);
  await s.json('PATCH', '/api/admin/settings', { user_tokens_per_day: null });
});

test('an invitation names the groups of its account', async () => {
  const g = await group('new ones');
  const { invite, id } = await made('/api/invites', { groups: [g.id] });
  assert.equal((await s.json('POST', '/api/invites', { groups: ['99'] })).body.error.param, 'groups');
  assert.deepEqual((await s.json('GET', '/api/invites')).body.items.find((x) => x.id === id).groups, ['new ones']);
  const r = await s.json('POST', '/api/sign-up', { name: 'dora', password: 'a long password', invite }, none);
  assert.equal(r.status, 201, r.text);
  assert.deepEqual((await s.json('GET', `/api/groups/${g.id}/members`)).body.items.map((m) => m.name), ['dora']);
  await s.request('DELETE', `/api/groups/${g.id}`);
});

// --- shared projects ------------------------------------------------------------------------------------------------

const ECHO = `fake:${JSON.stringify({ say_prompt: true })}`;
const uploaded = async (who, name, text) => (await made(`/api/attachments?name=${name}`, text, { 'content-type': 'application/octet-stream', ...who.session })).id;
const as = (who) => (method, where, body) => s.json(method, where, body, who.session);
const post = (who, id, body) => s.request('POST', `/api/conversations/${id}/messages`, body, who.session).then(follow);

async function project(owner, name, text) {
  const p = await made('/api/projects', { name, instructions: `Instructions of ${name}.` }, owner.session);
  await made(`/api/projects/${p.id}/files`, { attachment_id: await uploaded(owner, `${name}.txt`, text) }, owner.session);
  return (await as(owner)('GET', `/api/projects/${p.id}`)).body;
}

test('a reader chats with a project\'s files and instructions, opens them, and changes nothing', async () => {
  const p = await project(bob, 'trees', 'The willow grows by the river.');
  const path = `/api/projects/${p.id}`, file = p.files[0], ask = as(cleo);
  assert.equal((await ask('GET', `/api/attachments/${file.id}/text`)).status, 404);
  const shares = (await made(`${path}/shares`, { user: 'cleo' }, bob.session)).items;
  assert.deepEqual([shares.length, shares[0].kind, shares[0].name, shares[0].access], [1, 'user', 'cleo', 'reader']);
  const seen = (await ask('GET', path)).body;
  assert.deepEqual([seen.access, seen.owner, seen.files.map((f) => f.name), 'shares' in seen], ['reader', 'bob', ['trees.txt'], false]);
  assert.deepEqual((await ask('GET', '/api/projects')).body.items.map((x) => [x.name, x.access]), [['trees', 'reader']]);
  for (const end of ['', '/text', '/content']) assert.equal((await ask('GET', `/api/attachments/${file.id}${end}`)).status, 200, end);
  const chat = (await ask('POST', '/api/conversations', { project_id: p.id })).body;
  assert.equal(chat.project_id, p.id);
  const said = await post(cleo, chat.id, { content: ECHO });
  assert.ok(said.content.includes('Instructions of trees.') && said.content.includes('The willow grows'), said.content);
  assert.deepEqual(said.last.message.sources.files.map((f) => f.name), ['trees.txt']);
  // Not what changes it, not who else has it, and nothing of anybody's chats.
  for (const [method, where, body] of [['PATCH', path, { name: 'x' }], ['DELETE', `${path}?chats=keep`], ['POST', `${path}/files`, { attachment_id: await uploaded(cleo, 'c.txt', 'c') }], ['DELETE', `${path}/files/${file.id}`], ['POST', `${path}/shares`, { user: 'bob' }], ['DELETE', `${path}/shares/${shares[0].id}`]]) {
    const r = await ask(method, where, body);
    assert.equal(r.status, 403, `${method} ${where} ${r.text}`);
  }
  assert.deepEqual((await ask('GET', `${path}/shares`)).body.items, []);
  assert.equal((await as(bob)('GET', `/api/conversations/${chat.id}`)).status, 404);
  assert.deepEqual((await as(bob)('GET', `/api/conversations?project=${p.id}`)).body.items, []);
  assert.equal((await as(bob)('GET', path)).body.chats, 0);
  // A file of a project is no attachment of the reader's own.
  assert.equal((await s.json('POST', `/api/conversations/${chat.id}/messages`, { content: 'x', attachments: [file.id] }, cleo.session)).status, 400);
  assert.equal((await ask('DELETE', `/api/attachments/${file.id}`)).status, 404);
  // Nor does it leave by what the reader may give away.
  const out = (await ask('GET', '/api/export?format=json')).text;
  assert.ok(out.includes('trees.txt') && !out.includes('"key":"trees"') && !/"project":\s*\{/.test(out), 'the answer says what it was given; the project is not the reader\'s to export');
  const link = await made(`/api/conversations/${chat.id}/shares`, { attachments: true }, cleo.session);
  const shown = await s.json('GET', `/api/shared/${link.token}`, undefined, none);
  assert.ok(!JSON.stringify(shown.body).includes('sources'), shown.text);
  await s.request('DELETE', `${path}?chats=keep`, undefined, bob.session);
  const left = (await ask('GET', `/api/conversations/${chat.id}`)).body;
  assert.deepEqual([left.project_id, left.trashed_at], [null, null]);
});

test('an editor changes instructions and files, which are the owner\'s and count as theirs', async () => {
  const p = await project(bob, 'notes', 'One.');
  const path = `/api/projects/${p.id}`, ask = as(cleo);
  await made(`${path}/shares`, { user: 'cleo', access: 'editor' }, bob.session);
  assert.equal((await ask('PATCH', path, { instructions: 'Changed by cleo.' })).body.instructions, 'Changed by cleo.');
  const used = async (who) => (await as(who)('GET', '/api/account/limits')).body.used.storage_bytes;
  const before_ = await used(bob), id = await uploaded(cleo, 'two.txt', 'Two willows.');
  const added = (await ask('POST', `${path}/files`, { attachment_id: id })).body;
  assert.deepEqual(added.files.map((f) => f.name), ['notes.txt', 'two.txt']);
  assert.ok(await used(bob) >= before_ + 12, 'it counts as the owner\'s');
  assert.equal((await ask('POST', `${path}/files`, { attachment_id: id })).body.files.length, 2);
  await s.request('DELETE', `/api/attachments/${id}`, undefined, cleo.session); // the editor's own row may go
  const two = added.files[1];
  assert.equal((await s.request('GET', `/api/attachments/${two.id}/text`, undefined, bob.session)).status, 200);
  // The owner's room is what counts.
  await s.json('PATCH', `/api/users/${bob.id}`, { limits: { storage_bytes: 1 } });
  const full = await ask('POST', `${path}/files`, { attachment_id: await uploaded(cleo, 'three.txt', 'Three.') });
  assert.deepEqual([full.status, full.body.error.reason], [413, 'project_owner_full'], full.text);
  await s.json('PATCH', `/api/users/${bob.id}`, { limits: null });
  assert.equal((await s.request('DELETE', `${path}/files/${two.id}`, undefined, cleo.session)).status, 204);
  assert.equal((await ask('DELETE', `${path}?chats=keep`)).body.error.reason, 'project_not_yours');
  await s.request('DELETE', `${path}?chats=keep`, undefined, bob.session);
});

test('shared with a group it is its members\'; who leaves is out until they are named', async () => {
  const g = await group('gardeners'), other = await group('others');
  await members(g, [bob, cleo]);
  const p = await project(bob, 'garden', 'Roses.');
  const path = `/api/projects/${p.id}`, ask = as(cleo);
  for (const [body, param, reason] of [[{}, 'user'], [{ user: 'bob' }, 'user', 'share_with_self'], [{ user: 'nobody here' }, 'user', 'share_nobody'], [{ group_id: other.id }, 'group_id', 'share_nobody'], [{ user: 'cleo', group_id: g.id }, 'user'],
    [{ user: 'cleo', access: 'owner' }, 'access'], [{ user: 'cleo', more: 1 }, 'more']]) {
    const r = await as(bob)('POST', `${path}/shares`, body);
    assert.deepEqual([r.status, r.body.error.param, r.body.error.reason], [400, param, reason], r.text);
  }
  assert.equal((await ask('POST', `${path}/shares`, { user: 'bob' })).status, 404);
  const [share] = (await made(`${path}/shares`, { group_id: g.id }, bob.session)).items;
  assert.deepEqual([share.kind, share.name, share.members], ['group', 'gardeners', 2]);
  const chat = (await ask('POST', '/api/conversations', { project_id: p.id })).body;
  await members(g, [], [cleo]);
  assert.equal((await ask('GET', path)).status, 404);
  assert.equal((await ask('GET', `/api/conversations/${chat.id}`)).body.project_id, null);
  assert.ok((await ask('GET', '/api/conversations?project=none')).body.items.some((c) => c.id === chat.id));
  const said = await post(cleo, chat.id, { content: ECHO });
  assert.ok(said.content.includes('fake:') && !said.content.includes('Roses') && !said.content.includes('Instructions of'), said.content);
  await members(g, [cleo]);
  assert.equal((await ask('GET', `/api/conversations/${chat.id}`)).body.project_id, p.id);
  assert.equal((await as(bob)('POST', `${path}/leave`)).status, 409);
  assert.equal((await ask('POST', `${path}/leave`)).status, 204);
  assert.equal((await ask('GET', path)).status, 404);
  await made(`${path}/shares`, { user: 'cleo' }, bob.session);
  assert.equal((await ask('GET', path)).status, 200);
  // No more with anybody: the chats are theirs, without it.
  for (const x of (await as(bob)('GET', `${path}/shares`)).body.items) assert.equal((await s.request('DELETE', `${path}/shares/${x.id}`, undefined, bob.session)).status, 204);
  assert.equal((await ask('GET', path)).status, 404);
  assert.equal((await ask('GET', `/api/attachments/${p.files[0].id}/text`)).status, 404);
  const rows = (await audit('project')).map((x) => x.action);
  assert.ok(['project.share', 'project.unshare', 'project.leave'].every((a) => rows.includes(a)), rows.join());
  for (const x of [g, other]) await s.request('DELETE', `/api/groups/${x.id}`);
});

test('a removed owner takes the project along, and no chat of anybody else', async () => {
  const dan = await person('dan');
  const p = await project(dan, 'dans', 'Dan was here.');
  await made(`/api/projects/${p.id}/shares`, { user: 'cleo' }, dan.session);
  const chat = (await as(cleo)('POST', '/api/conversations', { project_id: p.id })).body;
  assert.equal((await s.request('DELETE', `/api/users/${dan.id}`)).status, 204);
  assert.equal((await as(cleo)('GET', `/api/projects/${p.id}`)).status, 404);
  assert.equal((await as(cleo)('GET', `/api/conversations/${chat.id}`)).body.project_id, null);
});
