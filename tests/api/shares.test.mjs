// Read-only links: off until an admin allows them, one branch as it was, revoked at once, nothing of the owner in them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { order, sleep, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const nobody = { authorization: null };
const GONE = /revoked, has expired or never was/;
const allow = async (yes) => assert.equal((await s.json('PATCH', '/api/admin/settings', { share_links: yes })).status, 200);
const open = (token) => s.json('GET', `/api/shared/${token}`, undefined, nobody);
const share = (id, body = {}, headers) => s.json('POST', `/api/conversations/${id}/shares`, body, headers);
const make = async () => (await s.json('POST', '/api/conversations', { title: 'About rivers', settings: { system: 'a secret system prompt' } })).body.id;

/** Says something; gives the answer's row. */
async function say(id, answer, body = {}) {
  const out = await follow(await s.request('POST', `/api/conversations/${id}/messages`, { content: order({ text: answer })[0].content, ...body }));
  assert.equal(out.names.at(-1), 'done', JSON.stringify(out));
  return out.last.message;
}

async function gone(token, what) {
  const r = await open(token);
  assert.equal(r.status, 404, what);
  assert.match(r.body.error.message, GONE, what);
}

test('off by default; links that were made rest while they are off', async () => {
  const id = await make();
  await say(id, 'Water flows.');
  const refused = await share(id);
  assert.equal(refused.status, 403);
  assert.match(refused.body.error.message, /turned off/);
  assert.equal((await s.json('GET', `/api/conversations/${id}/shares`)).body.allowed, false);
  await allow(true);
  const made = await share(id);
  assert.equal(made.status, 201, made.text);
  assert.match(made.body.token, /^[\w-]{43}$/);
  assert.equal(made.body.path, `/s/${made.body.token}`);
  assert.equal((await open(made.body.token)).status, 200);
  await allow(false);
  await gone(made.body.token, 'turned off');
  await allow(true);
  assert.equal((await open(made.body.token)).status, 200);
});

test('a link shows the branch as it was, without a word of who said it', async () => {
  const id = await make();
  const first = await say(id, 'The first answer.');
  const { body: link } = await share(id);
  await say(id, 'A later answer.', { parent_id: first.id });
  await say(id, 'Another version.', { content: undefined, regenerate: first.id });
  await s.json('PATCH', `/api/conversations/${id}`, { title: 'Renamed since' });
  const r = await open(link.token);
  assert.equal(r.body.title, 'About rivers');
  assert.deepEqual(r.body.messages.map((m) => m.role), ['user', 'assistant']);
  assert.equal(r.body.messages[1].content, 'The first answer.');
  assert.doesNotMatch(r.text, /secret system prompt|later answer|Another version|Renamed|user_id|"id"|admin/);
  assert.equal(r.headers.get('x-robots-tag'), 'noindex, nofollow, noarchive');
  assert.equal(r.headers.get('referrer-policy'), 'no-referrer');
  assert.match(r.headers.get('cache-control'), /no-store/);
  assert.equal(r.headers.get('set-cookie'), null);
  // another branch, by its last message
  const { body: other } = await share(id, { leaf_id: first.id, expires_in_days: 2 });
  assert.ok(Math.abs(other.expires_at - Date.now() - 2 * 86400e3) < 60e3);
  assert.equal((await open(other.token)).body.expires_at, other.expires_at);
});

test('an answer that a link ends with is not continued: the link would show more than was shared', async () => {
  const id = await make();
  const out = await follow(await s.request('POST', `/api/conversations/${id}/messages`, { content: order({ text: 'Cut off here', finish: 'length' })[0].content }));
  const { message } = out.last;
  assert.equal(message.status, 'length');
  const { body: link } = await share(id);
  const go = () => s.request('POST', `/api/conversations/${id}/messages`, { continue: message.id });
  const refused = await go();
  assert.equal(refused.status, 409);
  assert.match((await refused.json()).error.message, /a link shows it/);
  assert.equal((await open(link.token)).body.messages[1].content, 'Cut off here');
  assert.equal((await s.json('DELETE', `/api/shares/${link.id}`)).status, 204);
  assert.equal((await follow(await go())).names.at(-1), 'done');
});

test('files are behind a link that says so, and only those of what it shows', async () => {
  const upload = async (text, name) => (await s.json('POST', `/api/attachments?name=${name}`, text, { 'content-type': 'application/octet-stream' })).body;
  const [shown, later, elsewhere] = [await upload('<b>shown</b>', 'a.html'), await upload('later', 'b.txt'), await upload('elsewhere', 'c.txt')];
  const id = await make();
  const first = await say(id, 'Read.', { attachments: [shown.id] });
  const { body: without } = await share(id);
  const { body: link } = await share(id, { attachments: true });
  assert.deepEqual([without.attachments, link.attachments], [false, true]);
  await say(id, 'Also read.', { parent_id: first.id, attachments: [later.id] });
  await say(await make(), 'In another chat.', { attachments: [elsewhere.id] });
  const file = (token, { sha256 }) => s.request('GET', `/api/shared/${token}/attachments/${sha256}`, undefined, nobody);
  assert.ok((await open(without.token)).body.messages.every((m) => !('attachments' in m)));
  assert.equal((await file(without.token, shown)).status, 404);
  const { body, text } = await open(link.token);
  assert.deepEqual(body.messages.map((m) => m.attachments), [[{ bytes: 12, name: 'a.html', type: shown.type, sha256: shown.sha256 }], []]);
  assert.doesNotMatch(text, /"id"/);
  const r = await file(link.token, shown);
  assert.equal(await r.text(), '<b>shown</b>');
  assert.deepEqual([r.headers.get('content-type'), r.headers.get('x-robots-tag')], ['application/octet-stream', 'noindex, nofollow, noarchive']);
  assert.match(r.headers.get('content-disposition'), /^attachment; filename="a.html"/);
  assert.match(r.headers.get('content-security-policy'), /default-src 'none'; sandbox/);
  for (const what of [later, elsewhere, { sha256: 'A'.repeat(64) }, { sha256: '..%2f..' }]) assert.equal((await file(link.token, what)).status, 404, JSON.stringify(what));
  assert.equal((await file(`${link.token}x`, shown)).status, 404);
  await allow(false);
  assert.equal((await file(link.token, shown)).status, 404);
  await allow(true);
  await s.json('DELETE', `/api/shares/${link.id}`);
  assert.equal((await file(link.token, shown)).status, 404);
});

test('revoked, trashed, cut or deleted: nothing is behind it any more', async () => {
  const id = await make();
  const answer = await say(id, 'Gone soon.');
  const links = [];
  for (let i = 0; i < 3; i++) links.push((await share(id)).body);
  const listed = (await s.json('GET', `/api/conversations/${id}/shares`)).body;
  assert.deepEqual(listed.items.map((x) => x.id), links.map((x) => x.id).reverse());
  assert.doesNotMatch(JSON.stringify(listed), /token/);
  assert.ok((await s.json('GET', '/api/shares')).body.items.length >= 3);
  assert.equal((await s.json('DELETE', `/api/shares/${links[0].id}`)).status, 204);
  assert.equal((await s.json('DELETE', `/api/shares/${links[0].id}`)).status, 404);
  await gone(links[0].token, 'revoked');
  assert.equal((await open(links[1].token)).status, 200);
  await s.json('PATCH', `/api/conversations/${id}`, { trashed: true });
  await gone(links[1].token, 'in the trash');
  assert.equal((await share(id)).status, 404);
  await s.json('PATCH', `/api/conversations/${id}`, { trashed: false });
  assert.equal((await open(links[1].token)).status, 200);
  assert.equal((await s.json('DELETE', `/api/messages/${answer.id}`)).status, 204);
  await gone(links[1].token, 'its last message was deleted');
  const second = await make();
  await say(second, 'Once more.');
  const { body: last } = await share(second);
  await s.json('DELETE', `/api/conversations/${second}`);
  await gone(last.token, 'deleted');
});

test('what is wrong is said, and another user can do nothing', async () => {
  const id = await make();
  const empty = await share(id);
  assert.equal(empty.status, 400);
  assert.match(empty.body.error.message, /nothing to share/);
  const answer = await say(id, 'Mine.');
  const bad = { attachments: ['yes', 1], leaf_id: ['0', 'x', '999999', 7], expires_in_days: [0, 3651, 1.5, '2'], more: [1] };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const r = await share(id, { [name]: value });
      assert.equal(r.status, 400, `${name}=${value}: ${r.text}`);
      assert.equal(r.body.error.param, name);
    }
  }
  const { body: link } = await share(id);
  await s.json('POST', '/api/users', { name: 'bob', password: 'bobs password', role: 'user' });
  const login = await s.request('POST', '/api/login', { name: 'bob', password: 'bobs password' }, nobody);
  const bob = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': (await login.json()).csrf };
  assert.equal((await share(id, {}, bob)).status, 404);
  assert.equal((await s.json('GET', `/api/conversations/${id}/shares`, undefined, bob)).status, 404);
  assert.deepEqual((await s.json('GET', '/api/shares', undefined, bob)).body.items, []);
  assert.equal((await s.json('DELETE', `/api/shares/${link.id}`, undefined, bob)).status, 404);
  const own = (await s.json('POST', '/api/conversations', {}, bob)).body.id;
  assert.equal((await share(own, { leaf_id: answer.id }, bob)).status, 400);
  assert.equal((await open(link.token)).status, 200);
  for (const token of ['x', 'A'.repeat(43), `${link.token}x`, link.token.slice(1), '%00', 'ä']) {
    const r = await open(encodeURI(token));
    assert.ok([400, 404].includes(r.status), `${token}: ${r.status}`);
  }
});

test('the page behind a link is not indexed, and one address cannot ask without end', async () => {
  const page = await fetch(`${s.url}/s/${'A'.repeat(43)}`);
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('x-robots-tag'), 'noindex, nofollow, noarchive');
  assert.equal(page.headers.get('referrer-policy'), 'no-referrer');
  assert.match(page.headers.get('content-security-policy'), /default-src 'self'/);
  assert.match(await page.text(), /<meta name="robots" content="noindex/);
  const all = await Promise.all(Array.from({ length: 200 }, () => open('A'.repeat(43))));
  const refused = all.filter((r) => r.status === 429);
  assert.ok(refused.length > 20 && refused.length < 200, `${refused.length} refused`);
  assert.equal(refused[0].body.error.code, 'rate_limit_exceeded');
  assert.ok(refused[0].headers.get('retry-after'));
});

/** The most memory that a process ever had, in KB. */
const peak = (pid) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

test('a long conversation is sent as it is read, however many strangers open it', async () => {
  await allow(true);
  const MESSAGES = 350, text = `"Über\n${'water flows to the sea. '.repeat(2000)}`; // 48 KB each, 17 MB in all
  const messages = Array.from({ length: MESSAGES }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${text}` }));
  messages.push({ role: 'user', content: 'one more' }, { role: 'assistant', content: '€'.repeat(100000) }); // one text, several pieces
  const imported = await s.json('POST', '/api/import', JSON.stringify({ messages }), { 'content-type': 'application/json' });
  assert.equal(imported.body.imported, 1, imported.text);
  const id = (await s.json('GET', '/api/conversations?limit=50')).body.items.find((c) => c.title.startsWith('0 '))?.id;
  const made = await share(id);
  assert.equal(made.status, 201, made.text);
  const shorts = () => [s.pid('workers-short'), ...s.childrenOf(s.pid('workers-short'))].map(peak);
  const before = shorts();
  const stranger = async () => {
    for (;;) {
      const r = await s.request('GET', `/api/shared/${made.body.token}`, undefined, nobody), text = await r.text();
      if (r.status === 200) return JSON.parse(text).messages.map((m) => m.content);
      assert.ok(r.status === 429 || r.status === 503, text); // this address has enough of them open
      await sleep(200);
    }
  };
  const seen = await Promise.all(Array.from({ length: 8 }, stranger));
  const grown = shorts().map((kb, i) => kb - before[i]);
  for (const texts of seen) assert.deepEqual(texts, messages.map((m) => m.content));
  assert.ok(Math.max(...grown) < 25 << 10, `a worker grew by ${grown} KB`); // each reply held all of it twice before
});
