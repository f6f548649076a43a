// Tool servers where each user signs in (OAuth): with the protocol's own SDK as the other side, and with one that lies.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { start } from './harness.mjs';
import { FakePeer, Person, realPeer } from './oauth_rig.mjs';
import { holding } from './state_folder.mjs';

let s, real, fake, ann, bo;
before(async () => {
  s = await start({ fake: true });
  await s.json('PATCH', '/api/admin/settings', { tool_servers: 'users', tool_servers_private: true });
  [real, fake, ann, bo] = await Promise.all([realPeer(), FakePeer.open(), Person.of(s, 'ann', 'admin'), Person.of(s, 'bo')]);
});
after(async () => { await s?.stop(); await real?.stop(); await fake?.stop(); });

const call = (name) => `fake:${JSON.stringify({ steps: [`<tool_call>\n${JSON.stringify({ name, arguments: {} })}\n</tool_call>`, 'Done.'] })}`;
/** A chat of the person in which the model calls the tool; gives the call, to be run. */
async function asked(person, server, tool) {
  const c = (await person.json('POST', '/api/conversations', { settings: { tool_servers: [server], thinking: false } })).body;
  const r = await fetch(`${s.url}/api/conversations/${c.id}/messages`, { method: 'POST', body: JSON.stringify({ content: call(`${server}_${tool}`) }),
    headers: { 'content-type': 'application/json', 'x-csrf-token': person.csrf, cookie: [...person.b.jar(s.url)].map(([k, v]) => `${k}=${v}`).join('; ') } });
  const { message } = (await follow(r)).last;
  const { definition } = (await person.server(server)).tools.find((t) => t.name === tool);
  return { c, message, run: () => person.json('POST', `/api/messages/${message.id}/calls/${encodeURIComponent(message.tool_calls[0].id)}/run`, { allow: 'once', definition }) };
}

test('a server that wants a sign-in is added without its tools, which come with the admin\'s account', async () => {
  const made = await ann.json('POST', '/api/tool-servers', { name: 'real', url: real.url, everyone: true });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual([made.body.sign_in.state, made.body.tools, made.body.listed_at], ['needed', [], null]);
  const again = await ann.json('POST', `/api/tool-servers/${made.body.id}/refresh`);
  assert.deepEqual([again.status, again.body.error.reason], [403, 'tool_sign_in'], again.text);
  const begun = await ann.depart(made.body);
  const sent = new URL(begun.body.url).searchParams;
  assert.deepEqual(['response_type', 'code_challenge_method', 'resource', 'redirect_uri', 'scope'].map((k) => sent.get(k)),
    ['code', 'S256', real.url, `${s.url}/api/tool-sign-in/callback`, 'read write']);
  assert.equal(real.clients.size, 1, 'registered');
  assert.equal(await ann.signIn(made.body), 'done', s.log.slice(-1500));
  assert.equal(real.clients.size, 1, 'once');
  const now = await ann.server('real');
  assert.deepEqual([now.sign_in.state, now.sign_in.issuer, now.tools.map((t) => t.call)], ['done', `${real.base}/`, ['real_whoami']]);
});

test('each user signs in with an account of their own, when a call needs it, and the call runs then', async () => {
  const x = await asked(bo, 'real', 'whoami');
  const no = await x.run();
  assert.deepEqual([no.status, no.body.error.reason], [403, 'tool_sign_in'], no.text);
  assert.ok(!(await bo.json('GET', `/api/conversations/${x.c.id}`)).body.messages[1].runs?.length, 'it did not run');
  assert.equal((await bo.server('real')).sign_in.state, 'needed', 'the admin\'s account is not theirs');
  assert.equal(await bo.signIn(await bo.server('real')), 'done');
  const yes = await x.run();
  assert.deepEqual([yes.status, yes.body.state], [200, 'done'], yes.text);
  assert.match(yes.body.result, /token of .* with read write/);
  assert.equal(new Set(real.seen.filter((t) => real.tokens.has(t))).size, 2, 'two accounts, two tokens');
});

test('tokens are sealed, in no log, and in no answer', async () => {
  const secrets = [...real.tokens.keys(), ...real.refreshes.keys()];
  assert.deepEqual(holding(s, secrets), []);
  for (const t of secrets) assert.ok(!s.log.includes(t));
  const shown = (await bo.json('GET', '/api/tool-servers')).text;
  assert.ok(secrets.every((t) => !shown.includes(t)));
});

test('an old token is refreshed by one of two calls at once, and the refresh token is used once', async () => {
  real.lives = 1;
  assert.equal(await bo.signIn(await bo.server('real')), 'done');
  real.lives = 3600;
  const before = real.refreshed, calls = [];
  for (let i = 0; i < 2; i++) calls.push(await asked(bo, 'real', 'whoami'));
  const done = await Promise.all(calls.map((x) => x.run()));
  assert.deepEqual(done.map((r) => r.body.state), ['done', 'done'], done.map((r) => r.text).join());
  assert.equal(real.refreshed, before + 1);
  for (const [t, { client }] of real.tokens) if (client !== 0) real.tokens.delete(t); // the server forgets all: one more refresh mends it
  assert.equal((await (await asked(bo, 'real', 'whoami')).run()).body.state, 'done');
  assert.equal(real.refreshed, before + 2);
});

test('a call that wants more rights says so, and the next sign-in asks for them too', async () => {
  real.needs = ['read', 'admin'];
  const x = await asked(bo, 'real', 'whoami');
  const no = await x.run();
  assert.deepEqual([no.status, no.body.error.reason], [403, 'tool_scope'], no.text);
  assert.equal((await bo.server('real')).sign_in.state, 'more');
  const begun = await bo.depart(await bo.server('real'));
  assert.deepEqual(new URL(begun.body.url).searchParams.get('scope').split(' ').sort(), ['admin', 'read', 'write']);
  assert.equal(await bo.signIn(await bo.server('real')), 'done');
  assert.match((await x.run()).body.result, /admin/);
  real.needs = [];
});

test('who is not signed in renames a server, and its tools and everyone\'s permissions stay', async () => {
  const x = await asked(bo, 'real', 'whoami');
  const { id, tools: [tool] } = await bo.server('real');
  assert.equal((await bo.json('POST', `/api/messages/${x.message.id}/calls/${encodeURIComponent(x.message.tool_calls[0].id)}/run`, { allow: 'always', definition: tool.definition })).status, 200);
  const cy = await Person.of(s, 'cy', 'admin');
  const done = await cy.json('PATCH', `/api/tool-servers/${id}`, { name: 'other' });
  assert.deepEqual([done.status, done.body.tools?.map((t) => t.call)], [200, ['other_whoami']], done.text);
  assert.deepEqual((await bo.server('other')).tools.map((t) => t.always), [true]);
  await bo.json('DELETE', `/api/tool-servers/${id}/permissions`, {});
  assert.equal((await ann.json('PATCH', `/api/tool-servers/${id}`, { name: 'real' })).status, 200);
});

test('signing out forgets the tokens and revokes them', async () => {
  const { id } = await bo.server('real');
  assert.equal((await bo.json('DELETE', `/api/tool-servers/${id}/sign-in`)).status, 204);
  assert.match(real.revoked.at(-1), /^rt-/);
  assert.equal((await bo.server('real')).sign_in.state, 'needed');
  assert.equal((await bo.json('DELETE', `/api/tool-servers/${id}/sign-in`)).status, 404);
  assert.equal((await ann.server('real')).sign_in.state, 'done', 'others stay');
  assert.equal((await (await asked(ann, 'real', 'whoami')).run()).body.state, 'done');
});

// --- the one that lies ---------------------------------------------------------------------------------------------------------

const add = (name, more = {}) => ann.json('POST', '/api/tool-servers', { name, url: fake.url, ...more });
async function added(name, how = {}, more = {}) {
  fake.how = how;
  const r = await add(name, more);
  assert.equal(r.status, 201, r.text);
  return r.body;
}
const gone = (server) => ann.json('DELETE', `/api/tool-servers/${server.id}`);

test('a state, a code and an issuer are good for one browser, one session, one time', async () => {
  const server = await added('liar');
  const begun = await ann.depart(server);
  const there = await ann.b.go(begun.body.url);
  assert.equal((await bo.back(there.location)).code, 'tool_state', 'another browser');
  const wrong = new URL(there.location);
  wrong.searchParams.set('state', 'x'.repeat(43));
  assert.equal((await ann.back(wrong.href)).code, 'tool_state', 'another state');
  assert.equal((await ann.back(there.location)).code, 'done');
  const tokens = fake.forms.length;
  assert.equal((await ann.back(there.location)).code, 'tool_state', 'a second time');
  assert.equal(fake.forms.length, tokens, 'nothing was redeemed');
  const replayed = new URL((await ann.b.go((await ann.depart(server)).body.url)).location);
  replayed.searchParams.set('code', new URL(there.location).searchParams.get('code'));
  assert.equal((await ann.back(replayed.href)).code, 'tool_grant', 'a code that was used');
  for (const [what, answer, want] of [['another issuer', { iss: 'https://evil.example.org' }, 'tool_state'], ['a refusal', { code: null, error: 'access_denied' }, 'tool_denied'],
    ['an error', { code: null, error: '"><script>' }, 'tool_grant'], ['no code', { code: null }, 'tool_grant'], ['a long code', { code: 'x'.repeat(5000) }, 'tool_grant']]) {
    fake.how = { answer };
    assert.equal(await ann.signIn(server), want, what);
  }
  fake.how = { issuer: fake.metadata({ authorization_response_iss_parameter_supported: true }) };
  assert.equal(await ann.signIn(server), 'tool_state', 'it says that it would name itself');
  fake.how = {};
  const once = await ann.depart(server);
  const late = (await ann.b.go(once.body.url)).location;
  assert.equal((await ann.json('POST', '/api/logout')).status, 204);
  assert.equal((await ann.back(late)).code, 'tool_state', 'the session has ended');
  ann = await Person.of(s, 'ann', 'admin');
  await gone(server);
});

test('a session has twenty sign-ins under way: another takes the place of the oldest', async () => {
  const server = await added('many'), begun = [];
  for (let i = 0; i < 21; i++) begun.push((await ann.depart(server)).body.url);
  const end = async (url) => (await ann.back((await ann.b.go(url)).location)).code;
  assert.deepEqual([await end(begun[0]), await end(begun[1]), await end(begun[20])], ['tool_state', 'done', 'done']);
  await gone(server);
});

test('what the documents say is believed only of this server and of addresses that may be asked', async () => {
  const server = await added('liar');
  const issuer = (more) => ({ issuer: fake.metadata(more) });
  const huge = { ...fake.metadata(), padding: 'x'.repeat(300000) };
  const cases = [
    ['metadata of another resource', { resource: { resource: 'http://127.0.0.1:1/mcp', authorization_servers: [fake.base] } }, 'tool_issuer_odd'],
    ['of a path beside it', { resource: { resource: `${fake.base}/mc`, authorization_servers: [fake.base] } }, 'tool_issuer_odd'],
    ['of the whole host', { resource: { resource: fake.base, authorization_servers: [fake.base] } }, 'tool_issuer_odd'],
    ['no issuer', { resource: { resource: fake.url } }, 'tool_issuer_odd'],
    ['an issuer that is no address', { resource: { resource: fake.url, authorization_servers: ['file:///etc'] } }, 'tool_issuer_odd'],
    ['an issuer by plain http elsewhere', { resource: { resource: fake.url, authorization_servers: ['http://example.org'] } }, 'tool_issuer_odd'],
    ['metadata elsewhere by plain http', { challenge: 'Bearer resource_metadata="http://example.org/x"' }, 'tool_issuer_odd'],
    ['metadata that are not there', { challenge: `Bearer resource_metadata="${fake.base}/nothing"` }, 'tool_issuer_odd'],
    ['no JSON', { resource: '<html>' }, 'tool_issuer_odd'],
    ['a list', { resource: '[1]' }, 'tool_issuer_odd'],
    ['depth', { resource: `{"a":${'['.repeat(500)}${']'.repeat(500)}}` }, 'tool_issuer_odd'],
    ['a document without end', { issuer: huge }, 'tool_issuer_down'],
    ['many values', { issuer: `{"a":[${'0,'.repeat(60000)}0]}` }, 'tool_issuer_odd'],
    ['an error of the issuer\'s', { issuer: { status: 500 } }, 'tool_issuer_down'],
    ['a redirect', { issuer: { status: 302, head: { location: `${s.url}/health` } } }, 'tool_issuer_odd'],
    ['another issuer', issuer({ issuer: 'https://evil.example.org' }), 'tool_issuer_odd'],
    ['no PKCE', issuer({ code_challenge_methods_supported: ['plain'] }), 'tool_issuer_odd'],
    ['nothing about PKCE', issuer({ code_challenge_methods_supported: undefined }), 'tool_issuer_odd'],
    ['a script', issuer({ authorization_endpoint: 'javascript:alert(1)' }), 'tool_issuer_odd'],
    ['no token endpoint', issuer({ token_endpoint: undefined }), 'tool_issuer_odd'],
    ['a token endpoint by plain http elsewhere', issuer({ token_endpoint: 'http://example.org/token' }), 'tool_issuer_odd'],
    ['codes of another\'s page', issuer({ authorization_endpoint: 'https://honest.example.org/authorize' }), 'tool_issuer_odd'],
    ['no registration', issuer({ registration_endpoint: undefined }), 'tool_client'],
    ['a registration that is refused', { register: { status: 403, body: { error: 'no' } } }, 'tool_client'],
    ['a client that can\'t be one', { register: { client_id: 'a\nb' } }, 'tool_client'],
  ];
  for (const [what, how, want] of cases) {
    fake.how = how;
    const r = await ann.depart(server);
    assert.deepEqual([r.status === 200, r.body.error?.reason], [false, want], `${what}: ${r.text}`);
  }
  await gone(server);
});

test('an issuer whose answers name it may have its page elsewhere', async () => {
  const server = await added('named', { issuer: fake.metadata({ authorization_endpoint: 'https://page.example.org/authorize', authorization_response_iss_parameter_supported: true }) });
  assert.match((await ann.depart(server)).body.url, /^https:\/\/page\.example\.org\//);
  await gone(server);
});

test('metadata may be of the whole host where an admin gives the server to everyone', async () => {
  const server = await added('host', { resource: { resource: `${fake.base}/`, authorization_servers: [fake.base] } }, { everyone: true });
  assert.equal(new URL((await ann.depart(server)).body.url).searchParams.get('resource'), `${fake.base}/`);
  await gone(server);
});

test('OpenID\'s document is read where the other is missing; a server that says nothing is its own issuer', async () => {
  const server = await added('liar');
  fake.how = { issuer: { status: 404 }, openid: fake.metadata() };
  assert.equal(await ann.signIn(server), 'done');
  fake.how = { challenge: null, resource: { status: 404 } };
  const begun = await ann.depart(server);
  assert.equal(new URL(begun.body.url).searchParams.get('resource'), fake.url);
  await gone(server);
});

test('tokens that can\'t be are not kept; one that is refused again ends the sign-in', async () => {
  const server = await added('liar');
  for (const [what, token, want] of [['another type', { access_token: 'good', token_type: 'mac' }, 'tool_issuer_odd'], ['a line end', { access_token: 'a\r\nx: y', token_type: 'Bearer' }, 'tool_issuer_odd'],
    ['none', { token_type: 'Bearer' }, 'tool_issuer_odd'], ['one without end', { access_token: 'x'.repeat(9000), token_type: 'Bearer' }, 'tool_issuer_odd'], ['no JSON', 'access_token=good', 'tool_issuer_odd'], ['an error', { status: 503 }, 'tool_issuer_down']]) {
    fake.how = { token };
    assert.equal(await ann.signIn(server), want, what);
  }
  assert.equal((await ann.server('liar')).sign_in.state, 'needed');
  fake.how = {};
  assert.equal(await ann.signIn(server), 'done');
  const x = await asked(ann, 'liar', 'look');
  fake.how = { mcp: (q, a, body, reply) => reply({}, 401, { 'www-authenticate': 'Bearer' }) };
  const no = await x.run();
  assert.equal(no.body.error?.reason, 'tool_sign_in', no.text);
  assert.equal(fake.forms.at(-1).grant_type, 'refresh_token');
  assert.equal((await ann.server('liar')).sign_in.state, 'needed');
  await gone(server);
});

test('only a refresh token that is of no use any more ends a sign-in, and a refresh shows the secret as it is now', async () => {
  const server = await added('renewed', { more: { expires_in: 1 }, refresh: { access_token: 'good-again', token_type: 'Bearer', expires_in: 1 } }, { client_id: 'me', client_secret: 'first-secret' });
  assert.equal(await ann.signIn(server), 'done');
  const calls = [];
  for (let i = 0; i < 5; i++) calls.push(await asked(ann, 'renewed', 'look'));
  const began = Date.now();
  for (const [status, error, want] of [[400, 'invalid_request', /HTTP 400 invalid_request/], [403, undefined, /HTTP 403/], [401, 'invalid_client', /HTTP 401 invalid_client/], [503, undefined, /503/]]) {
    fake.how = { refresh: { status, body: { error } } };
    const no = await calls.pop().run();
    assert.deepEqual([no.status, no.body.state], [200, 'failed'], no.text);
    assert.match(no.body.result, want);
    assert.equal((await ann.server('renewed')).sign_in.state, 'done', no.text);
  }
  assert.ok(Date.now() - began < 60000, 'nobody waits for the end of a claim of which nothing came: three of them are 75 s');
  assert.equal((await ann.json('PATCH', `/api/tool-servers/${server.id}`, { client_secret: 'second-secret' })).status, 200);
  fake.how = { refresh: { status: 400, body: { error: 'invalid_grant' } } };
  assert.equal((await calls.pop().run()).body.error?.reason, 'tool_sign_in');
  assert.equal(fake.forms.at(-1).authorization, `Basic ${Buffer.from('me:second-secret').toString('base64')}`);
  assert.equal((await ann.server('renewed')).sign_in.state, 'needed');
  fake.how = {};
  await gone(server);
});

test('a token goes to its server alone: not along a redirect, and not to another address', async () => {
  const server = await added('liar');
  assert.equal(await ann.signIn(server), 'done');
  const other = await FakePeer.open();
  const x = await asked(ann, 'liar', 'look');
  fake.how = { mcp: (q, a, body, reply) => reply({}, 307, { location: other.url }) };
  assert.match((await x.run()).body.result, /HTTP 307/);
  assert.deepEqual(other.asked, []);
  fake.how = {};
  const moved = await ann.json('PATCH', `/api/tool-servers/${server.id}`, { url: other.url });
  assert.deepEqual([moved.status, moved.body.sign_in?.state], [200, 'needed'], moved.text);
  assert.equal(other.authorization, undefined, 'asked without');
  await other.stop();
  await gone(server);
});

test('a client that somebody entered is shown to one issuer, by the way that it wants', async () => {
  const secret = 'client-secret-4711';
  const server = await added('typed', {}, { client_id: 'me & you', client_secret: secret });
  assert.deepEqual([server.client_id, server.has_client_secret, server.sign_in.state], ['me & you', true, 'needed']);
  assert.equal(await ann.signIn(server), 'done');
  assert.equal(fake.forms.at(-1).authorization, `Basic ${Buffer.from(`me%20%26%20you:${secret}`).toString('base64')}`);
  assert.deepEqual(holding(s, [secret]), []);
  fake.how = { issuer: fake.metadata({ token_endpoint_auth_methods_supported: ['client_secret_post'] }) };
  assert.equal(await ann.signIn(server), 'done');
  assert.equal(fake.forms.at(-1).client_secret, secret);
  const evil = await FakePeer.open();
  fake.how = { resource: { resource: fake.url, authorization_servers: [evil.base] } };
  assert.equal((await ann.depart(server)).body.error.reason, 'tool_issuer', 'another issuer');
  assert.ok(!evil.asked.includes('POST /token'));
  await evil.stop();
  for (const [body, param] of [[{ client_id: 'x', secret: 'y' }, 'client_id'], [{ client_secret: 'y', client_id: '' }, 'client_secret'], [{ client_id: 'x'.repeat(501) }, 'client_id'], [{ client_id: 7 }, 'client_id'], [{ client_secret: 'a\n' }, 'client_secret']]) {
    const r = await ann.json('PATCH', `/api/tool-servers/${server.id}`, body);
    assert.deepEqual([r.status, r.body.error?.param], [400, param], JSON.stringify(body) + r.text);
  }
  fake.how = {};
  const own = await ann.json('PATCH', `/api/tool-servers/${server.id}`, { client_id: '' });
  assert.deepEqual([own.status, own.body.client_id, own.body.sign_in.state], [200, '', 'done'], own.text);
  await gone(server);
});

test('a client that somebody enters while a sign-in registers another one stays', async () => {
  const server = await added('slow');
  fake.how = { meanwhile: async () => assert.equal((await ann.json('PATCH', `/api/tool-servers/${server.id}`, { client_id: 'entered' })).status, 200) };
  const begun = await ann.depart(server);
  assert.deepEqual([begun.status, begun.body.error?.reason], [409, 'tool_server_changed'], begun.text);
  fake.how = {};
  assert.equal(new URL((await ann.depart(server)).body.url).searchParams.get('client_id'), 'entered');
  await gone(server);
});

test('a registered client that its issuer forgot is registered anew, and so is one that was reset', async () => {
  const server = await added('forgets');
  const client = async () => new URL((await ann.depart(server)).body.url).searchParams.get('client_id');
  const first = await client();
  assert.equal(await client(), first);
  fake.how = { token: { status: 401, body: { error: 'invalid_client' } } };
  assert.equal(await ann.signIn(server), 'tool_sign_in_failed');
  fake.how = { more: { expires_in: 1 }, refresh: { access_token: 'good-again', token_type: 'Bearer', expires_in: 1 } };
  const second = await client();
  assert.notEqual(second, first);
  assert.equal(await ann.signIn(server), 'done');
  const x = await asked(ann, 'forgets', 'look');
  fake.how = { refresh: { status: 401, body: { error: 'invalid_client' } } };
  assert.equal((await x.run()).body.error?.reason, 'tool_sign_in');
  const third = await client();
  assert.notEqual(third, second);
  assert.equal((await ann.json('PATCH', `/api/tool-servers/${server.id}`, { client_id: '' })).status, 200);
  assert.notEqual(await client(), third);
  fake.how = {};
  await gone(server);
});

/** The issuer registers a client whose secret ends then, in seconds; 0: never. */
const given = (seconds) => { fake.how = { issuer: fake.metadata({ token_endpoint_auth_methods_supported: ['client_secret_basic'] }), register: { client_id: `e${seconds}`, client_secret: 'hush', token_endpoint_auth_method: 'client_secret_basic', client_secret_expires_at: seconds } }; };

test('a registered client whose secret ends is registered anew before a sign-in that would need it, and one without an end stays', async () => {
  const server = await added('ends');
  const client = async () => new URL((await ann.depart(server)).body.url).searchParams.get('client_id');
  const now = Math.floor(Date.now() / 1000);
  given(now + 20); // shorter than a sign-in takes
  assert.equal(await client(), `e${now + 20}`);
  given(now + 240);
  assert.equal(await client(), `e${now + 240}`);
  given(0);
  assert.equal(await client(), `e${now + 240}`, 'good for sign-ins that are under way');
  assert.equal((await ann.json('PATCH', `/api/tool-servers/${server.id}`, { client_id: '' })).status, 200);
  assert.equal(await client(), 'e0');
  given(1);
  assert.equal(await client(), 'e0', '0: it does not end');
  fake.how = {};
  await gone(server);
});

test('the Host of one user does not replace the client of all', async () => {
  const server = await added('shared', {}, { everyone: true });
  const first = new URL((await ann.depart(server)).body.url).searchParams.get('client_id');
  const cy = await Person.of(Object.assign(Object.create(s), { url: s.url.replace('127.0.0.1', 'localhost') }), 'cy');
  const no = await cy.depart(server);
  assert.deepEqual([no.status, no.body.error?.reason], [403, 'tool_public_url'], no.text);
  assert.equal(new URL((await ann.depart(server)).body.url).searchParams.get('client_id'), first);
  await gone(server);
  given(Math.floor(Date.now() / 1000) + 20);
  const ends = await added('ends', {}, { everyone: true });
  assert.equal((await ann.depart(ends)).status, 200);
  const still = await cy.depart(ends);
  assert.deepEqual([still.status, still.body.error?.reason], [403, 'tool_public_url'], still.text);
  fake.how = {};
  await gone(ends);
});

test('this server describes itself to issuers that read such descriptions', async () => {
  const r = await s.json('GET', '/api/tool-sign-in/client.json', undefined, { authorization: null });
  assert.deepEqual([r.status, r.body.client_id, r.body.redirect_uris], [200, `${s.url}/api/tool-sign-in/client.json`, [`${s.url}/api/tool-sign-in/callback`]]);
  const server = await added('doc');
  fake.how = { issuer: fake.metadata({ client_id_metadata_document_supported: true }) };
  await s.json('PATCH', '/api/admin/settings', { oidc_public_url: 'https://sluice.example.org' });
  const sent = new URL((await ann.depart(server)).body.url).searchParams;
  assert.deepEqual([sent.get('client_id'), sent.get('redirect_uri')], ['https://sluice.example.org/api/tool-sign-in/client.json', 'https://sluice.example.org/api/tool-sign-in/callback']);
  await s.json('PATCH', '/api/admin/settings', { oidc_public_url: null });
  await gone(server);
});

test('who is not asked in is not let in: other users\' servers, keys, servers without sign-in', async () => {
  const server = await added('mine');
  assert.equal((await bo.depart(server)).status, 404);
  assert.equal((await bo.json('DELETE', `/api/tool-servers/${server.id}/sign-in`)).status, 404);
  const key = await s.json('POST', `/api/tool-servers/${(await ann.server('real')).id}/sign-in`);
  assert.equal(key.status, 403, key.text);
  await s.json('PATCH', '/api/admin/settings', { tool_servers: 'off' });
  assert.equal((await ann.depart(server)).status, 403);
  await s.json('PATCH', '/api/admin/settings', { tool_servers: 'users' });
  const plain = await added('plain', { mcp: (q, a, body, reply) => { const m = JSON.parse(body || '{}'); return m.id === undefined ? reply('', 202) : reply({ jsonrpc: '2.0', id: m.id, result: { protocolVersion: '2025-06-18', tools: [] } }); } });
  assert.equal(plain.sign_in, null);
  assert.equal((await ann.depart(plain)).body.error.reason, 'tool_no_sign_in');
  await gone(server);
  await gone(plain);
});

test('where private networks are closed, no document leads there; and tokens go with their user', async () => {
  await s.json('PATCH', '/api/admin/settings', { tool_servers_private: false });
  fake.how = {};
  const before = fake.asked.length;
  const r = await bo.json('POST', '/api/tool-servers', { name: 'inside', url: fake.url });
  assert.equal(r.body.error.reason, 'tool_address', r.text);
  assert.equal(fake.asked.length, before);
  await s.json('PATCH', '/api/admin/settings', { tool_servers_private: true });
  const eve = await Person.of(s, 'eve');
  const own = (await eve.json('POST', '/api/tool-servers', { name: 'eves', url: fake.url })).body;
  assert.equal(await eve.signIn(own), 'done');
  await s.json('PATCH', '/api/admin/settings', { tool_servers_private: false });
  const sent = fake.asked.length;
  assert.equal((await eve.depart(own)).body.error.reason, 'tool_address');
  assert.equal((await eve.json('DELETE', `/api/tool-servers/${own.id}/sign-in`)).status, 204);
  assert.equal(fake.asked.length, sent, 'not even to revoke');
});

test('who comes back too often is sent to the page, as by nginx itself', async () => { // last: logins wait for the same bucket
  const ends = await Promise.all(Array.from({ length: 100 }, () => bo.back(`${s.url}/api/tool-sign-in/callback?state=x&code=y`)));
  assert.deepEqual([...new Set(ends.map((r) => r.code))].sort(), ['tool_sign_in_failed', 'tool_state']);
});
