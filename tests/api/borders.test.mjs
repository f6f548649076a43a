// Between users nothing passes. Everything here is made from /openapi.json, so a new route is held to it by itself: Bob sends
// Ann's ids to every route, in paths, queries and bodies; nothing of hers comes back, and nothing of hers changes. A route
// over a new kind of thing fails the first test until Ann has one.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Authenticator } from './authenticator.mjs';
import { start, top } from './harness.mjs';
import { startMcp } from './mcp_server.mjs';
import { routesOf, samplesOf } from './openapi_samples.mjs';

const MARK = 'anns-own-words';
const none = { authorization: null };
let s, mcp, doc, routes, ann, bob, owned, resolve, namesId, sample;

const each = async (list, fn, width = 8) => {
  const queue = [...list];
  await Promise.all(Array.from({ length: width }, async () => { while (queue.length) await fn(queue.shift()); }));
};

async function person(name) {
  const password = `${name}s password`;
  const { body } = await s.json('POST', '/api/users', { name, password, role: 'user' });
  const login = await s.json('POST', '/api/login', { name, password }, none);
  const session = { ...none, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': login.body.csrf };
  const key = (await s.json('POST', '/api/keys', { name: `${name === 'ann' ? MARK : name} key` }, session)).body;
  return { id: body.id, session, keyId: key.id, key: { authorization: `Bearer ${key.key}` } };
}

/** One of each kind of thing, by the first part of the path under which it lies. */
async function things(who, word) {
  const make = async (where, body, type = {}) => {
    const r = await s.json('POST', where, body, { ...who.key, ...type }); // a session in `type` takes the key's place
    assert.ok(r.status < 300, `${where}: ${r.text}`);
    return r.body;
  };
  const out = { '/api/keys': who.keyId };
  out['/api/conversations'] = (await make('/api/conversations', { title: word, settings: { system: word } })).id;
  const stream = await (await s.request('POST', `/api/conversations/${out['/api/conversations']}/messages`, { content: word }, who.key)).text();
  const done = JSON.parse(/event: done\ndata: (.*)/.exec(stream)[1]).message;
  out['/api/messages'] = done.parent_id;
  out.answer = done.id;
  out['/v1/responses'] = (await make('/v1/responses', { input: word, store: true })).id;
  out['/v1/conversations'] = (await make('/v1/conversations', { metadata: { word }, items: [{ role: 'user', content: word }] })).id;
  out.item = (await (await s.request('GET', `/v1/conversations/${out['/v1/conversations']}/items`, undefined, who.key)).json()).data[0].id;
  out['/api/sessions'] = (await s.json('GET', '/api/sessions', undefined, who.session)).body.items[0].id;
  out['/api/presets'] = (await make('/api/presets', { name: word, settings: { system: word } })).id;
  out['/api/prompts'] = (await make('/api/prompts', { name: word, text: word })).id;
  out['/api/attachments'] = (await make(`/api/attachments?name=${word}.txt`, word, { 'content-type': 'application/octet-stream' })).id;
  out['/api/projects'] = (await make('/api/projects', { name: word, instructions: word })).id;
  const file = await make(`/api/attachments?name=p${word}.txt`, word, { 'content-type': 'application/octet-stream' });
  await make(`/api/projects/${out['/api/projects']}/files`, { attachment_id: file.id });
  out['/api/shares'] = (await make(`/api/conversations/${out['/api/conversations']}/shares`, {})).id;
  out['/api/tool-servers'] = (await make('/api/tool-servers', { name: word.slice(0, 20), url: mcp.url })).id;
  const passkey = new Authenticator(s.url).create(await make('/api/passkeys/options', undefined, who.session));
  out['/api/passkeys'] = (await make('/api/passkeys', { name: word, passkey }, who.session)).id;
  return out;
}

/** /api/conversations/{id}/fork lies under /api/conversations. */
const kindOf = (p) => p.slice(0, p.indexOf('/{'));
const ADMINS = /^\/api\/(admin|users|invites|groups)\b/;
const FREE = { '/v1/models': 'everyone sees the models', '/api/blobs': 'always refused', '/api/shared': 'whoever has the link may read', '/s': 'the same, as a page' };

before(async () => {
  s = await start({ fake: true });
  s.url = `http://localhost:${s.port}`; // no passkeys at an address
  mcp = await startMcp();
  await s.json('PATCH', '/api/admin/settings', { share_links: true, sign_up: 'open', passkeys: true, tool_servers: 'users', tool_servers_private: true });
  doc = (await s.json('GET', '/openapi.json')).body;
  routes = routesOf(doc);
  ({ resolve, namesId, sample } = samplesOf(doc));
  ann = await person('ann');
  bob = await person('bob');
  ann.things = await things(ann, MARK);
  bob.things = await things(bob, 'bobs');
  owned = [...new Set([...Object.values(ann.things), ann.id])];
});
after(async () => { await s?.stop(); await mcp?.stop(); });

test('each kind of thing that a path names is one that Ann has', () => {
  const kinds = new Set(routes.filter((r) => r.path.includes('{') && !ADMINS.test(r.path)).map((r) => kindOf(r.path)));
  assert.deepEqual([...kinds].filter((k) => !(k in ann.things) && !(k in FREE)), [], 'make one of these for Ann in things()');
});

/** Bodies for a route: empty, all members, those that must be with one that names a thing. */
function bodies(route, id) {
  if (!route.schema) return [undefined];
  if (route.type !== 'application/json') return [Buffer.from('words')];
  const real = resolve(route.schema);
  const all = { ...(real.allOf ?? []).reduce((o, x) => ({ ...o, ...resolve(x).properties }), {}), ...real.properties };
  const must = Object.fromEntries((real.required ?? []).map((k) => [k, sample(all[k], id, k)]));
  const naming = Object.entries(all).filter(([k, v]) => namesId(k, v));
  return [{}, sample(route.schema, id), ...naming.map(([k, v]) => ({ ...must, [k]: sample(v, id, k), ...('content' in all && k !== 'regenerate' && k !== 'continue' ? { content: 'words' } : {}) }))];
}

/** All that Ann can read, as text; what changes by itself is left out. */
async function portrait() {
  const out = {};
  for (const r of routes) {
    if (r.method !== 'GET' || r.open || ADMINS.test(r.path) || /export|changes|usage|limits|status|slots|stream$/.test(r.path)) continue;
    const where = r.path.replace(/\{\w+\}/, ann.things[kindOf(r.path)] ?? 'none');
    const got = await s.json('GET', where, undefined, ann.session);
    out[where] = `${got.status} ${got.text.replace(/"(last_used_at|used_at)":(\d+|null)|req_\w+/g, '')}`;
  }
  return out;
}

/** What one caller sends: every route with every id of Ann's, in the path, in the query, in the body. */
function attempts(mine) {
  const list = [];
  for (const r of routes) {
    const inPath = r.path.includes('{');
    const hasIds = bodies(r, 'x').length > 2 || r.params.length;
    for (const id of inPath || hasIds ? owned : ['none']) {
      const query = r.params.length ? `?${r.params.filter((p) => namesId(p) || p === 'conversation').map((p) => `${p}=${id}`).join('&')}` : '';
      const paths = new Set([r.path.replace(/\{\w+\}/g, id)]);
      if (inPath && (r.schema || r.params.length) && kindOf(r.path) !== '/api/keys') paths.add(r.path.replace(/\{\w+\}/g, mine[kindOf(r.path)] ?? id)); // their own thing, Ann's in the rest; not the key they come with
      for (const p of paths) for (const body of bodies(r, id)) list.push({ ...r, where: p + query, body });
    }
  }
  // Not what ends the caller itself or runs long: these are the caller's own things only.
  return list.filter((x) => !(x.path === '/api/import' || x.path === '/api/logout' || (x.path === '/api/sessions' && x.method === 'DELETE')
    || (/DELETE|PATCH/.test(x.method) && (x.method === 'DELETE' || kindOf(x.path) === '/api/keys') && Object.values(mine).some((id) => x.where.split('?')[0].endsWith(`/${id}`)))));
}

async function hammer(who, mine) {
  const list = attempts(mine);
  const bad = [];
  await each(list, async (x) => {
    const r = await s.request(x.method, x.where, x.body, x.type && x.type !== 'application/json' ? { ...who, 'content-type': x.type } : who);
    const text = await r.text();
    const what = `${x.method} ${x.where} ${JSON.stringify(x.body) ?? ''} -> ${r.status}`.slice(0, 300);
    if (text.includes(MARK) || JSON.stringify([...r.headers]).includes(MARK)) bad.push(`shows Ann's: ${what}`);
    if (r.status >= 500 && r.status !== 501 && r.status !== 503) bad.push(`fails: ${what} ${text.slice(0, 200)}`);
    if (ADMINS.test(x.path) && who !== admin && r.status !== 403) bad.push(`is for admins: ${what}`);
  });
  return { n: list.length, bad };
}
const admin = {};

test('another user finds nothing of Ann\'s by any route, and changes nothing', async () => {
  const first = await portrait();
  assert.ok(Object.values(first).filter((t) => t.includes(MARK)).length >= 8, 'the portrait shows her things');
  const { n, bad } = await hammer(bob.key, bob.things);
  assert.deepEqual([...new Set(bad)].slice(0, 20), []);
  assert.ok(n > 400, `${n} requests`);
  assert.deepEqual(await portrait(), first);
});

test('neither does an admin, by the routes of users', async () => {
  const first = await portrait();
  const mine = { '/api/keys': (await s.json('GET', '/api/keys')).body.items[0].id };
  const list = attempts(mine).filter((x) => !x.open && !ADMINS.test(x.path) && x.path.includes('{'));
  const bad = [];
  await each(list, async (x) => {
    const r = await s.request(x.method, x.where, x.body, x.type && x.type !== 'application/json' ? { 'content-type': x.type } : {});
    if ((await r.text()).includes(MARK)) bad.push(`${x.method} ${x.where}`);
  });
  assert.deepEqual([...new Set(bad)], []);
  assert.deepEqual(await portrait(), first);
});

test('a changing request with the cookie needs the token of that very session, on every route', async () => {
  const other = bob.session['x-csrf-token'];
  let n = 0;
  for (const r of routes.filter((x) => x.method !== 'GET' && !x.open)) {
    const where = r.path.replace(/\{\w+\}/g, '999999');
    for (const token of [null, '', 'x', other]) {
      const got = await s.json(r.method, where, r.schema ? {} : undefined, { ...none, cookie: ann.session.cookie, 'x-csrf-token': token });
      assert.equal(got.status, 403, `${r.method} ${r.path} with token ${token}: ${got.text}`);
      if (typeof got.body.error === 'string') assert.match(got.body.error, /X-CSRF-Token/); // Ollama's form
      else assert.equal(got.body.error.code ?? got.body.error.type, r.path.startsWith('/v1/messages') ? 'permission_error' : 'csrf_token_missing');
      n++;
    }
  }
  assert.ok(n > 100);
});

test('every page and every answer forbids frames, sniffing and referrers; what is private is not kept', async () => {
  const pages = readdirSync(path.join(top, 'web')).filter((f) => f.endsWith('.html')).map((f) => `/${f}`);
  const answers = routes.filter((r) => r.method === 'GET' && !r.path.includes('{')).map((r) => r.path);
  for (const where of ['/', '/admin', '/s/none', '/nowhere', '/js/main.js', '/%zz', ...pages, ...answers]) {
    const r = await fetch(s.url + where, { headers: bob.key, redirect: 'manual' }); // what sends a browser on is an answer too
    await r.body?.cancel();
    assert.equal(r.headers.get('x-frame-options'), 'DENY', where);
    assert.match(r.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/, where);
    assert.equal(r.headers.get('x-content-type-options'), 'nosniff', where);
    assert.equal(r.headers.get('referrer-policy'), 'no-referrer', where);
    if (where.startsWith('/api/') || where.startsWith('/v1/')) assert.match(r.headers.get('cache-control') ?? '', /no-store/, where);
  }
  for (const r of routes.filter((x) => x.method === 'GET' && x.path.includes('{') && !x.open)) {
    const got = await s.request('GET', r.path.replace(/\{\w+\}/, bob.things[kindOf(r.path)] ?? 'none'), undefined, bob.key);
    await got.body?.cancel();
    assert.match(got.headers.get('cache-control') ?? '', /no-store|private|no-cache/, r.path);
  }
});

test('no path, query or text of anyone makes a header', async () => {
  const evil = '%0d%0aX-Injected:%20yes%0d%0a%0d%0a<script>';
  const injected = async (r, what) => {
    await r.body?.cancel();
    assert.equal(r.headers.get('x-injected'), null, what);
    assert.ok(!JSON.stringify([...r.headers]).includes('<script>'), what);
  };
  await each(routes.filter((r) => r.method === 'GET' || r.method === 'DELETE'), async (r) => {
    const where = r.path.replace(/\{\w+\}/g, evil);
    if (r.path.includes('{')) await injected(await s.request(r.method, where, undefined, bob.key), `${r.method} ${where}`);
    if (r.method !== 'GET') return;
    const own = r.path.replace(/\{\w+\}/, bob.things[kindOf(r.path)] ?? 'none');
    for (const p of r.params) await injected(await s.request('GET', `${own}?${p}=${evil}`, undefined, bob.key), `${own} ${p}`);
  });
  const text = 'a\r\nX-Injected: yes\r\n\r\n<script>';
  for (const title of [text, `${text}.md`, 'x"; filename="y.html', '\u202egnp.exe']) {
    const made = await s.json('POST', '/api/conversations', { title }, bob.key);
    if (made.status !== 201) { assert.equal(made.status, 400, made.text); continue; }
    for (const format of ['json', 'markdown', 'html', 'text']) {
      const r = await s.request('GET', `/api/export?format=${format}&conversation=${made.body.id}`, undefined, bob.key);
      await injected(r, `${format} of ${JSON.stringify(title)}`);
      assert.match(r.headers.get('content-disposition') ?? '', /^attachment; filename="[^"\r\n]*"(; filename\*=UTF-8''[\w%.!~*'()-]+)?$/, format);
    }
  }
  for (const name of [text, 'a\nb', 'a\u0000b', 'a\x7fb']) {
    assert.equal((await s.json('POST', '/api/users', { name, password: 'long enough' })).status, 400);
    assert.equal((await s.json('POST', '/api/keys', { name }, bob.key)).status, 400);
    assert.equal((await s.json('POST', '/api/sign-up', { name, password: 'long enough' }, none)).status, 400);
  }
});

test('a login starts a session of its own: one that was planted in the browser is worth nothing', async () => {
  const enter = (cookie) => s.json('POST', '/api/login', { name: 'bob', password: 'bobs password' }, { ...none, ...(cookie ? { cookie } : {}) });
  const planted = (await enter()).headers.get('set-cookie').split(';')[0];
  const fresh = (await enter(planted)).headers.get('set-cookie').split(';')[0];
  assert.notEqual(fresh, planted);
  const status = async (cookie) => (await s.json('GET', '/api/session', undefined, { ...none, cookie })).status;
  assert.equal(await status(planted), 401);
  assert.equal(await status(fresh), 200);
  const chosen = `sluice_session=${'A'.repeat(43)}`;
  assert.notEqual((await enter(chosen)).headers.get('set-cookie').split(';')[0], chosen);
  assert.equal(await status(chosen), 401);
});
