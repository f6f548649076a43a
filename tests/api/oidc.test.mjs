// Sign-in by an OpenID provider: through a real one, and by one that does as it is told. Who an account is, is decided by
// issuer and subject alone, and nobody else waits for a slow provider. oidc_hostile.test.mjs has the lies.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { patiently, sleep } from './harness.mjs';
import { appCode, Browser, code, House, realProvider, signInThere } from './oidc_rig.mjs';
import { unzip } from './unzip.mjs';

const none = { authorization: null };
const PASSWORD = 'a long password';
const SECRET = 'a secret: of & the client+%';
let h;
before(async () => { h = await House.open(); });
after(() => h?.close());

const audit = async (action) => (await h.s.json('GET', `/api/admin/audit?limit=500&action=${action}`)).body.items;
const user = async (name) => (await h.s.json('POST', '/api/users', { name, password: PASSWORD })).body.id;
async function page(name) {
  const r = await patiently(() => h.s.json('POST', '/api/login', { name, password: PASSWORD }, none));
  assert.equal(r.status, 200, r.text);
  return { ...none, cookie: r.headers.get('set-cookie').split(';')[0], 'x-csrf-token': r.body.csrf };
}

test('off by default: no button, no way', async () => {
  assert.deepEqual((await h.s.json('GET', '/api/oidc', undefined, none)).body, { policy: 'off', name: null });
  const { url } = await h.depart();
  assert.equal(url, `${h.s.url}/#/sign-in/oidc_off`);
  assert.equal(code(await new Browser().go(`${h.s.url}/api/oidc/callback?code=x&state=y`)), 'oidc_off');
});

test('the client secret goes in, lies sealed, and never comes out', async () => {
  const row = (r) => r.body.items.find((x) => x.name === 'oidc_client_secret');
  assert.equal(row(await h.s.json('GET', '/api/admin/settings')).value, false);
  const r = await h.set({ oidc_client_secret: SECRET });
  assert.deepEqual([row(r).type, row(r).value], ['secret', true]);
  assert.ok(!r.text.includes('client+%'));
  assert.equal((await h.s.json('PATCH', '/api/admin/settings', { oidc_client_secret: 'x'.repeat(501) })).status, 400);
  assert.equal((await h.s.json('PATCH', '/api/admin/settings', { oidc_client_secret: 5 })).body.error.param, 'oidc_client_secret');
  const found = execFileSync('sh', ['-c', `cat "$1"/state/sluice.db* | grep -ac 'of & the client' || true`, 'sh', h.s.dir]).toString().trim();
  assert.equal(found, '0', 'the database holds no such text');
  assert.equal(row(await h.set({ oidc_client_secret: '' })).value, false);
  for (const issuer of ['http://example.org', 'ftp://example.org', 'https://a@example.org', 'https://example.org/?x', 'https://', 'https://ex ample.org', 'http://localhost.example.org', 'http://127.0.0.1:80x/']) {
    const refused = await h.s.json('PATCH', '/api/admin/settings', { oidc_issuer: issuer });
    assert.equal(refused.body.error?.param, 'oidc_issuer', issuer);
  }
  for (const scopes of ['', 'profile email', 'openidx', 'xopenid profile'])
    assert.equal((await h.s.json('PATCH', '/api/admin/settings', { oidc_scopes: scopes })).body.error?.param, 'oidc_scopes', scopes);
  await h.set({ oidc_issuer: 'https://id.example.org/realms/x/' });
});

for (const method of ['client_secret_basic', 'client_secret_post', 'none']) {
  test(`a real provider, ${method}: an account is made, and found the second time`, async () => {
    const client = { client_id: 'sluice', token_endpoint_auth_method: method, redirect_uris: [`${h.s.url}/api/oidc/callback`], ...(method !== 'none' && { client_secret: SECRET }) };
    const name = `real-${method}`;
    const provider = await realProvider([client], { 'subject-1': { email: 'x@example.org', email_verified: true, name: 'X Y', preferred_username: name } },
      { clientAuthMethods: [method] });
    try {
      await h.set({ oidc_policy: 'create', oidc_issuer: provider.issuer, oidc_client_id: 'sluice', oidc_client_secret: method === 'none' ? null : SECRET, oidc_name: 'House ID' });
      assert.deepEqual((await h.s.json('GET', '/api/oidc', undefined, none)).body, { policy: 'create', name: 'House ID' });
      const ids = [];
      for (let i = 0; i < 2; i++) {
        const { b, url } = await h.depart();
        assert.ok(url.startsWith(`${provider.issuer}/auth?`), url);
        const r = await b.go(await signInThere(b, url, 'subject-1'));
        assert.equal(r.location, `${h.s.url}/`, `${r.location}\n${h.s.log.slice(-800)}`);
        const line = r.headers.getSetCookie().find((c) => c.startsWith('sluice_session='));
        assert.match(line, /HttpOnly; SameSite=Strict/);
        const { body } = await h.session(b);
        assert.deepEqual([body.user.name, body.user.role], [name, 'user']);
        ids.push(body.user.id);
      }
      assert.equal(ids[0], ids[1]);
      const made = (await audit('user.oidc')).filter((x) => x.user === name);
      assert.equal(made.length, 1);
      assert.ok((await audit('login')).some((x) => x.user === name && x.target === 'oidc'));
      const known = await h.s.json('POST', '/api/login', { name, password: 'x' }, none);
      assert.equal(known.status, 401, 'there is no password');
    } finally { await provider.stop(); await h.set({ oidc_name: null }); }
  });
}

test('the way there: PKCE, state and nonce, all fresh each time; the verifier fits', async () => {
  await h.useFake();
  const { b, url } = await h.depart();
  const q = new URL(url).searchParams, again = new URL((await h.depart()).url).searchParams;
  assert.equal(q.get('response_type'), 'code');
  assert.equal(q.get('code_challenge_method'), 'S256');
  assert.equal(q.get('scope'), 'openid profile email');
  assert.equal(q.get('redirect_uri'), `${h.s.url}/api/oidc/callback`);
  for (const k of ['state', 'nonce', 'code_challenge']) {
    assert.match(q.get(k), /^[\w-]{43}$/);
    assert.notEqual(q.get(k), again.get(k));
  }
  const cookie = b.jar(h.s.url).get('sluice_oidc');
  assert.match(cookie, /^[\w-]{43}$/);
  for (const k of ['state', 'nonce', 'code_challenge']) assert.notEqual(q.get(k), cookie);
  assert.equal((await b.go(h.fake.consent(url))).location, `${h.s.url}/`);
  assert.equal(b.jar(h.s.url).get('sluice_oidc'), undefined, 'the cookie goes');
  assert.equal(h.fake.last.form.client_secret, undefined);
  assert.equal(h.fake.last.form.client_id, 'sluice');
  assert.match((await h.depart()).b.jars.size.toString(), /1/);
  await h.set({ oidc_public_url: 'https://chat.example.org/' });
  assert.equal(new URL((await h.depart()).url).searchParams.get('redirect_uri'), 'https://chat.example.org/api/oidc/callback');
  await h.set({ oidc_public_url: null });
});

test('a state is good once, in its own browser only, and not without one', async () => {
  await h.useFake();
  const first = await h.depart(), back = h.fake.consent(first.url, { sub: 'stateful' });
  assert.equal(code(await new Browser().go(back)), 'oidc_state', 'a browser without a cookie');
  const other = await h.depart();
  assert.equal(code(await other.b.go(back)), 'oidc_state', 'another browser, under way itself');
  assert.equal(h.fake.asked.token, 0, 'the code was not even redeemed');
  assert.equal(code(await first.b.go(back.replace(/state=[\w-]+/, 'state=x'))), 'oidc_state');
  assert.equal(code(await first.b.go(back.replace(/state=[\w-]+/, ''))), 'oidc_state');
  const cookie = first.b.jar(h.s.url).get('sluice_oidc');
  assert.equal((await first.b.go(back)).location, `${h.s.url}/`, 'its own');
  first.b.jar(h.s.url).set('sluice_oidc', cookie);
  first.b.jar(h.s.url).delete('sluice_session');
  assert.equal(code(await first.b.go(back)), 'oidc_state', 'a second time');
  const swapped = await h.depart();
  const stolen = new URL(h.fake.consent((await h.depart()).url)).searchParams.get('code'); // a code that was made for another
  assert.equal(code(await swapped.b.go(h.fake.consent(swapped.url, { more: { code: stolen } }))), 'oidc_unreachable', 'PKCE: the verifier does not fit');
});

test('whoever returns, goes to the page and nowhere else', async () => {
  await h.useFake();
  const { b, url } = await h.depart();
  const back = `${h.fake.consent(url)}&next=https://evil.example.org&return_to=//evil.example.org`;
  assert.equal((await b.go(back)).location, `${h.s.url}/`);
});

test('policies: link makes no account; domains need a verified address; names are never matched', async () => {
  await h.useFake({ oidc_policy: 'link' });
  assert.equal(await h.refusal({ sub: 'nobody-yet' }), 'oidc_no_account');
  await h.useFake({ oidc_email_domains: 'example.org  example.net' });
  const from = async (sub, userinfo) => { h.fake.knobs.userinfo = userinfo; return code((await h.signIn({ sub })).r); };
  assert.equal(await from('dom1', {}), 'oidc_domain');
  assert.equal(await from('dom1', { email: 'a@example.org' }), 'oidc_domain', 'not verified');
  assert.equal(await from('dom1', { email: 'a@example.org', email_verified: 'yes' }), 'oidc_domain');
  assert.equal(await from('dom1', { email: 'a@evil.org', email_verified: true }), 'oidc_domain');
  assert.equal(await from('dom1', { email: 'a@example.org@evil.org', email_verified: true }), 'oidc_domain');
  assert.equal(await from('dom1', { email: 'a@xexample.org', email_verified: true }), 'oidc_domain');
  assert.equal(await from('dom1', { sub: 'another', email: 'a@example.org', email_verified: true }), 'oidc_unreachable', 'of another subject');
  assert.equal(await from('dom1', { email: 'a@Example.NET', email_verified: true }), '', 'in');
  await h.useFake();
  assert.equal(await h.refusal({ sub: 'admin' }), 'oidc_name_taken', 'not the admin\'s account');
  h.fake.knobs.claims = { preferred_username: 'ADMIN', email: 'admin@example.org', email_verified: true };
  assert.equal(await h.refusal({ sub: 'x-1' }), 'oidc_name_taken');
  h.fake.knobs.claims = { preferred_username: undefined };
  assert.equal(await h.refusal({ sub: 'x-2' }), 'oidc_name');
  h.fake.knobs.claims = { preferred_username: 'a\u0007b' };
  assert.equal(await h.refusal({ sub: 'x-3' }), 'oidc_name');
  h.fake.knobs.claims = { preferred_username: '##hash' };
  assert.equal((await h.session((await h.signIn({ sub: 'x-4' })).b)).body.user.name, 'hash');
  h.fake.knobs.claims = { preferred_username: undefined, email: 'local.part@example.org' };
  assert.equal((await h.session((await h.signIn({ sub: 'x-5' })).b)).body.user.name, 'local.part');
});

test('the groups that the provider names are the user\'s at each sign-in; those made by hand stay', async () => {
  const make = async (body) => (await h.s.json('POST', '/api/groups', body)).body.id;
  const [staff, lab, hand] = [await make({ name: 'staff' }), await make({ name: 'Lab', claim: '0a1b-guid' }), await make({ name: 'by hand' })];
  await h.useFake({ oidc_groups_claim: 'groups' });
  const groups = async (claims, userinfo) => {
    Object.assign(h.fake.knobs, { claims, userinfo });
    const { b, r } = await h.signIn({ sub: 'grace' });
    assert.equal(code(r), '');
    const cookie = { authorization: null, cookie: [...b.jar(h.s.url)].map(([k, v]) => `${k}=${v}`).join('; ') };
    return (await h.s.json('GET', '/api/account/limits', undefined, cookie)).body.groups.map((g) => g.id);
  };
  assert.deepEqual(await groups({ groups: ['staff', '0a1b-guid', 'unknown', 7] }), [lab, staff]);
  const { id } = (await h.s.json('GET', '/api/users')).body.items.find((u) => u.name === 'grace');
  await h.s.json('POST', `/api/groups/${hand}/members`, { add: [id] });
  assert.deepEqual(await groups({ groups: 'staff' }), [hand, staff], 'one name, without a list');
  assert.deepEqual(await groups({}, { groups: ['Lab', '0a1b-guid'] }), [hand, lab], 'told at the userinfo endpoint alone');
  assert.deepEqual(await groups({ groups: [] }), [hand]);
  assert.deepEqual(await groups({}, {}), [hand], 'nothing is said: none');
  const rows = (await h.s.json('GET', '/api/admin/audit?action=group.member')).body.items.filter((x) => x.user === 'grace');
  assert.ok(rows.length >= 5 && rows.every((x) => x.target.endsWith(' oidc')), JSON.stringify(rows));
  assert.deepEqual(await groups({ groups: 'staff' }), [hand, staff]);
  await h.useFake({ oidc_groups_claim: null });
  const left = (await h.s.json('GET', `/api/groups/${staff}/members`)).body.items.map((u) => u.name);
  assert.deepEqual(left, [], 'another provider, and no claim: what the former one said ends');
  const [last] = (await h.s.json('GET', '/api/admin/audit?action=group.member.remove')).body.items;
  assert.deepEqual([last.user, last.target], ['admin', 'all oidc']);
});

test('an account without a password cannot unlink itself from its only way in', async () => {
  await h.useFake();
  const { b } = await h.signIn({ sub: 'only-way' });
  const head = { ...none, cookie: `sluice_session=${b.jar(h.s.url).get('sluice_session')}`, 'x-csrf-token': (await h.session(b)).body.csrf };
  const un = (password) => h.s.json('POST', '/api/oidc/unlink', { issuer: h.fake.issuer, password }, head);
  const refused = await un(undefined);
  assert.equal(refused.status, 409, refused.text);
  assert.equal((await h.s.json('PATCH', `/api/users/${(await h.session(b)).body.user.id}`, { password: PASSWORD })).status, 200);
  const again = await page('only-way');
  assert.equal((await h.s.json('POST', '/api/oidc/unlink', { issuer: h.fake.issuer, password: PASSWORD }, again)).status, 204);
});

test('a disabled user stays out, a removed one is nobody', async () => {
  await h.useFake();
  const { b } = await h.signIn({ sub: 'leaver' });
  const { id } = (await h.session(b)).body.user;
  await h.s.json('PATCH', `/api/users/${id}`, { disabled: true });
  assert.equal((await h.session(b)).status, 401);
  assert.equal(await h.refusal({ sub: 'leaver' }), 'oidc_disabled');
  assert.ok((await audit('login.fail')).some((x) => x.user === 'leaver' && x.target === 'oidc'));
  assert.equal((await h.s.json('DELETE', `/api/users/${id}`)).status, 204);
  const again = await h.session((await h.signIn({ sub: 'leaver' })).b);
  assert.notEqual(again.body.user.id, id, 'a new account');
});

test('a user links an account with the password, signs in by it, and unlinks it', async () => {
  await h.useFake({ oidc_policy: 'link' });
  await user('linker');
  const head = await page('linker');
  const post = (what, body) => h.s.json('POST', `/api/oidc/${what}`, body, head);
  assert.equal((await post('link', {})).body.error.param, 'password');
  assert.equal((await post('link', { password: 'wrong password' })).status, 403);
  assert.equal((await h.s.json('POST', '/api/oidc/link', { password: PASSWORD })).status, 403, 'not by a key');
  assert.equal((await h.s.json('POST', '/api/oidc/link', { password: PASSWORD }, { ...head, 'x-csrf-token': null })).body.error.code, 'csrf_token_missing');
  const b = new Browser();
  const link = async () => {
    const r = await post('link', { password: PASSWORD });
    assert.equal(r.status, 200, r.text);
    b.jar(h.s.url).set('sluice_oidc', /sluice_oidc=([^;]+)/.exec(r.headers.get('set-cookie'))[1]);
    return r.body.url;
  };
  h.fake.knobs.userinfo = { email: 'linker@example.org' };
  const r = await b.go(h.fake.consent(await link(), { sub: 'other-name' }));
  assert.equal(code(r), 'oidc_done');
  assert.equal(b.jar(h.s.url).get('sluice_session'), undefined, 'linking is no login');
  const { items, has_password } = (await h.s.json('GET', '/api/oidc/identities', undefined, head)).body;
  assert.deepEqual([items.length, items[0].issuer, items[0].label, has_password], [1, h.fake.issuer, 'linker@example.org', true]);
  const files = unzip(Buffer.from(await (await h.s.request('GET', '/api/account/export', undefined, head)).arrayBuffer()));
  assert.deepEqual(JSON.parse(files['account.json']).oidc_identities.map((i) => [i.issuer, i.label]), [[h.fake.issuer, 'linker@example.org']]);
  assert.equal((await h.session((await h.signIn({ sub: 'other-name' })).b)).body.user.name, 'linker');
  assert.equal(code(await b.go(h.fake.consent(await link(), { sub: 'other-name' }))), 'oidc_done', 'again: it is linked already');
  assert.equal(code(await b.go(h.fake.consent(await link(), { sub: 'a-second' }))), 'oidc_linked', 'one of each issuer');
  await user('thief');
  const thief = await page('thief');
  const asked = await h.s.json('POST', '/api/oidc/link', { password: PASSWORD }, thief);
  b.jar(h.s.url).set('sluice_oidc', /sluice_oidc=([^;]+)/.exec(asked.headers.get('set-cookie'))[1]);
  assert.equal(code(await b.go(h.fake.consent(asked.body.url, { sub: 'other-name' }))), 'oidc_linked', 'it is another user\'s');
  const gone = await link();
  await h.s.json('POST', '/api/logout', undefined, head);
  assert.equal(code(await b.go(h.fake.consent(gone, { sub: 'other-name' }))), 'oidc_session', 'the session that asked has ended');
  const fresh = await page('linker');
  const un = (body) => h.s.json('POST', '/api/oidc/unlink', body, fresh);
  assert.equal((await un({ password: PASSWORD })).body.error.param, 'issuer');
  assert.equal((await un({ issuer: h.fake.issuer, password: 'wrong password' })).status, 403);
  assert.equal((await un({ issuer: 'https://x.example.org', password: PASSWORD })).status, 404);
  assert.equal((await un({ issuer: h.fake.issuer, password: PASSWORD })).status, 204);
  assert.equal(await h.refusal({ sub: 'other-name' }), 'oidc_no_account');
  for (const what of ['oidc.link', 'oidc.unlink']) assert.ok((await audit(what)).some((x) => x.user === 'linker' && x.target === h.fake.issuer), what);
});

test('a second factor here: enough that the provider vouches, or asked for as well, once each', async () => {
  await h.useFake({ oidc_policy: 'link' });
  const id = await user('twofold');
  const head = await page('twofold');
  const { secret } = (await h.s.json('POST', '/api/second-factor', { password: PASSWORD }, head)).body;
  const recovery = (await h.s.json('POST', '/api/second-factor/confirm', { code: appCode(secret) }, head)).body.recovery_codes;
  const linked = await h.s.json('POST', '/api/oidc/link', { password: PASSWORD }, head);
  const b = new Browser();
  const cookie = (r) => /sluice_oidc=([^;]+)/.exec(r.headers.get('set-cookie'))[1];
  b.jar(h.s.url).set('sluice_oidc', cookie(linked));
  assert.equal(code(await b.go(h.fake.consent(linked.body.url, { sub: 'two' }))), 'oidc_done');
  assert.equal((await h.signIn({ sub: 'two' })).r.location, `${h.s.url}/`, 'off by default');
  await h.set({ oidc_second_factor: true });
  try {
    const asked = await h.signIn({ sub: 'two' });
    assert.equal(code(asked.r), 'oidc_code');
    assert.equal((await h.session(asked.b)).status, 401, 'not signed in yet');
    const post = (body, value) => patiently(() => h.s.json('POST', '/api/oidc/code', body, { ...none, cookie: `sluice_oidc=${value}` }));
    const [token, owner] = asked.b.jar(h.s.url).get('sluice_oidc').split('.');
    assert.equal(owner, id);
    const me = `${token}.${id}`, right = recovery[0];
    assert.equal((await post({}, me)).body.error.param, 'code');
    for (const other of [`${token}.1`, `${token}.`, `${token}.${id}x`, `${token}.-1`, `${token}.9${'9'.repeat(30)}`, token, '', `${'A'.repeat(43)}.${id}`])
      assert.equal((await post({ code: right }, other)).body.error.code, 'oidc_state', other);
    assert.equal((await post({ code: '000000' }, me)).body.error.code, 'invalid_code');
    const all = await Promise.all([1, 2, 3].map((i) => post({ code: recovery[i] }, me)));
    assert.equal(all.filter((r) => r.status === 200).length, 1, 'one cookie, one session');
    const winner = all.find((r) => r.status === 200);
    assert.equal(winner.body.user.name, 'twofold');
    assert.equal((await post({ code: right }, me)).body.error.code, 'oidc_state', 'used up');
    const plain = await h.depart(); // the cookie of a sign-in that was only begun is good for nothing here
    assert.equal((await post({ code: right }, `${plain.b.jar(h.s.url).get('sluice_oidc')}.${id}`)).body.error.code, 'oidc_state');
    const late = await h.signIn({ sub: 'two' });
    await h.s.json('PATCH', `/api/users/${id}`, { disabled: true });
    assert.equal((await post({ code: right }, late.b.jar(h.s.url).get('sluice_oidc'))).body.error.code, 'oidc_disabled');
  } finally { await h.set({ oidc_second_factor: null }); }
});

test('while the provider is slow, everyone else notices nothing, and its own end is a clear code', async () => {
  await h.useFake({}, { slow: 60000 });
  await user('busy');
  const head = await page('busy');
  let givenUp = 0;
  const end = async (w) => {
    const code = new URL((await w).url).hash.replace('#/sign-in/', '');
    givenUp += code === 'oidc_unreachable';
    return code;
  };
  const waiting = Array.from({ length: 12 }, () => end(h.depart()));
  await sleep(300);
  let looks = 0; // while nobody who waits for the provider has given up
  for (let i = 0; i < 20 && !givenUp; i++, looks += !givenUp) {
    assert.equal((await h.s.json('GET', '/api/conversations', undefined, head)).status, 200);
    assert.equal((await h.s.json('GET', '/v1/models')).status, 200);
  }
  assert.ok(looks >= 3, `${looks}`);
  assert.equal((await h.s.json('POST', '/api/login', { name: 'busy', password: PASSWORD }, none)).status, 200, 'passwords go on');
  const ends = await Promise.all(waiting);
  assert.ok(ends.every((c) => c === 'oidc_busy' || c === 'oidc_unreachable'), `${ends}`);
  assert.ok(ends.includes('oidc_unreachable') && ends.includes('oidc_busy'), `${ends}`);
});
