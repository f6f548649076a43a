// A provider that lies: every ID token, key set, document and answer that is not exactly right is refused with a code, and
// nobody is signed in by it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { code, House, pairs } from './oidc_rig.mjs';

let h;
before(async () => { h = await House.open(); });
after(() => h?.close());

for (const alg of ['RS256', 'PS256', 'ES256', 'EdDSA']) {
  test(`an ID token signed with ${alg} is taken, one with a spoilt signature is not`, async () => {
    await h.useFake({}, { alg });
    const { b, r } = await h.signIn({ sub: `alg-${alg}` });
    assert.equal(r.location, `${h.s.url}/`, h.s.log.slice(-600));
    assert.equal((await h.session(b)).body.user.name, `alg-${alg}`);
    h.fake.knobs.spoil = (t) => t.slice(0, -8) + (t.at(-8) === 'A' ? 'B' : 'A') + t.slice(-7);
    assert.equal(await h.refusal({ sub: `alg-${alg}` }), 'oidc_token');
  });
}

const now = () => Math.floor(Date.now() / 1000);
const LIES = {
  'alg none': { alg: 'none' },
  'alg none, no key named': { alg: 'none', kid: undefined },
  'HS256 with the public key': { alg: 'HS256', kid: 'RS256' },
  'another key under the right name': { alg: 'RS256', pair: pairs.SHORT },
  'an RSA key of 1024 bits': { alg: 'RS256', kid: 'short', pair: pairs.SHORT },
  'an unknown key': { kid: 'gone' },
  'a critical extension': { header: { crit: ['exp'] } },
  'a key that it brings itself': { kid: 'own', header: { jwk: { kty: 'RSA' }, jku: 'http://127.0.0.1:9/' } },
  'another nonce': { claims: { nonce: 'A'.repeat(43) } },
  'no nonce': { claims: { nonce: undefined } },
  'another issuer': { claims: { iss: 'https://evil.example.org' } },
  'no issuer': { claims: { iss: undefined } },
  'another audience': { claims: { aud: 'other' } },
  'no audience': { claims: { aud: [] } },
  'two audiences and no azp': { claims: { aud: ['sluice', 'other'] } },
  'another azp': { claims: { aud: ['sluice', 'other'], azp: 'other' } },
  'an end in the past': { claims: { exp: now() - 600 } },
  'no end': { claims: { exp: undefined } },
  'an end that is no number': { claims: { exp: '9999999999' } },
  'a birth in the future': { claims: { iat: now() + 3600 } },
  'a birth long ago': { claims: { iat: now() - 7200 } },
  'no subject': { claims: { sub: '' } },
  'a subject without end': { claims: { sub: 'x'.repeat(256) } },
  'a subject that is no text': { claims: { sub: 5 } },
  'two parts': { spoil: (t) => t.slice(0, t.lastIndexOf('.')) },
  'five parts': { spoil: (t) => `${t}.a.b` },
  'a token that is no text': { spoil: () => ({}) },
  'padding in the signature': { spoil: (t) => `${t}=` },
  'a header that is no JSON': { spoil: (t) => `AAAA${t.slice(t.indexOf('.'))}` },
  'another payload': { spoil: (t) => { const p = t.split('.'); return `${p[0]}.${Buffer.from('{}').toString('base64url')}.${p[2]}`; } },
};
test('every lie in an ID token is refused, and names no account', async () => {
  await h.useFake();
  assert.equal((await h.signIn({ sub: 'honest' })).r.location, `${h.s.url}/`);
  for (const [what, knobs] of Object.entries(LIES)) {
    h.fake.knobs = knobs;
    assert.equal(await h.refusal({ sub: 'honest' }), 'oidc_token', what);
  }
  h.fake.knobs = { claims: { aud: ['sluice', 'other'], azp: 'sluice' } };
  assert.equal((await h.signIn({ sub: 'honest' })).r.location, `${h.s.url}/`, 'with azp it is right');
});

test('an unknown key makes the keys be fetched again, but not each time', async () => {
  await h.useFake({}, { jwks: { keys: [] } });
  const before = h.fake.asked.jwks;
  for (let i = 0; i < 6; i++) assert.equal(await h.refusal(), 'oidc_token');
  assert.ok(h.fake.asked.jwks - before <= 4, `${h.fake.asked.jwks - before} times: once for each process and moment`);
});

test('documents that can\'t be: too large, of another issuer, without addresses, elsewhere', async () => {
  const big = { keys: [], padding: 'x'.repeat(300000) };
  for (const [what, knobs, want] of [
    ['keys without end', { jwks: big }, 'oidc_unreachable'],
    ['keys that are no JSON', { jwks: '<html>' }, 'oidc_provider'],
    ['keys elsewhere', { redirect: `${h.s.url}/health` }, 'oidc_unreachable'],
    ['keys of another kind', { jwks: { keys: [5, null, { kty: 'RSA', kid: 'RS256', n: 'AQAB', e: 'AQAB' }] } }, 'oidc_token'],
  ]) {
    await h.useFake({}, knobs);
    assert.equal(await h.refusal(), want, what);
  }
  for (const [what, discovery] of [
    ['another issuer', { issuer: 'https://evil.example.org' }],
    ['no token endpoint', { token_endpoint: undefined }],
    ['plain http elsewhere', { token_endpoint: 'http://example.org/token' }],
    ['a file', { jwks_uri: 'file:///etc/passwd' }],
    ['a script', { authorization_endpoint: 'javascript:alert(1)' }],
  ]) {
    await h.useFake({}, { discovery });
    assert.equal(new URL((await h.depart()).url).hash, '#/sign-in/oidc_provider', what);
  }
  await h.set({ oidc_issuer: 'http://127.0.0.1:9' });
  assert.equal(new URL((await h.depart()).url).hash, '#/sign-in/oidc_unreachable');
});

test('what the provider says instead of a code comes back as a code of ours, never as its words', async () => {
  await h.useFake();
  const go = async (more) => code((await h.signIn({ more })).r);
  assert.equal(await go({ code: null, error: 'access_denied', error_description: '<b>no</b>' }), 'oidc_denied');
  assert.equal(await go({ code: null, error: 'server_error' }), 'oidc_provider');
  assert.equal(await go({ code: null, error: '"><script>' }), 'oidc_provider');
  assert.equal(await go({ code: null }), 'oidc_provider');
  assert.equal(await go({ code: 'x'.repeat(5000) }), 'oidc_provider');
  assert.equal(await go({ iss: 'https://evil.example.org' }), 'oidc_token', 'RFC 9207');
  assert.equal((await h.signIn({ more: { iss: h.fake.issuer } })).r.location, `${h.s.url}/`);
  await h.useFake({}, { discovery: { authorization_response_iss_parameter_supported: true } });
  assert.equal(await go({}), 'oidc_token', 'it says that it would name itself');
});

