// Providers of sign-ins for the tests: a real one (oidc-provider, certified by the OpenID Foundation) and a small one of our
// own that does whatever a test wants, also what no honest provider does. And a browser that keeps cookies and follows one
// redirect at a time.
import assert from 'node:assert/strict';
import { constants, createHash, createHmac, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import http from 'node:http';
import { load, sleep, start } from './harness.mjs';

const b64 = (v) => Buffer.from(typeof v === 'string' || Buffer.isBuffer(v) ? v : JSON.stringify(v)).toString('base64url');
const listen = (server) => new Promise((done) => { server.listen(0, '127.0.0.1', () => done(server.unref().address().port)); }); // a test that fails may leave it open

/** RFC 6238: what the app of a second factor shows. */
export function appCode(base32, ahead = 0) {
  const bits = [...base32].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + ahead));
  const mac = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)))).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1e6).padStart(6, '0');
}

/** nginx lets an address in 60 times at once and ten times a second; browsers here leave half of it to other requests. */
const paces = new Map();
async function pace(url) {
  const { origin, pathname } = new URL(url);
  if (!/^\/api\/oidc\/(sign-in|callback)$/.test(pathname)) return;
  const p = paces.get(origin) ?? { left: 25, at: Date.now() };
  paces.set(origin, p);
  for (;;) {
    p.left = Math.min(25, p.left + (Date.now() - p.at) / 150);
    p.at = Date.now();
    if (p.left >= 1) break;
    await sleep(50);
  }
  p.left--;
}

/** Cookies by origin (a real browser's know no port); no request is followed by itself. */
export class Browser {
  jars = new Map();

  jar(url) {
    const { origin } = new URL(url);
    if (!this.jars.has(origin)) this.jars.set(origin, new Map());
    return this.jars.get(origin);
  }

  async go(url, options = {}) {
    const jar = this.jar(url);
    await pace(url);
    const r = await fetch(url, { redirect: 'manual', ...options, headers: { cookie: [...jar].map(([k, v]) => `${k}=${v}`).join('; '), ...options.headers } });
    for (const line of r.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      if (value && !/max-age=0(;|$)/i.test(line)) jar.set(name, value);
      else jar.delete(name);
    }
    const location = r.headers.get('location');
    return { status: r.status, location: location && new URL(location, url).href, headers: r.headers, text: await r.text() };
  }
}

/** oidc-provider with its own pages for login and consent; accounts: {name: claims}. */
export async function realProvider(clients, accounts, { host = '127.0.0.1', ...more } = {}) {
  const { default: Provider } = await load('oidc-provider');
  const server = http.createServer();
  const issuer = `http://${host}:${await listen(server)}`;
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
    cookies: { keys: ['a key of the tests'] },
    ...more,
  });
  server.on('request', provider.callback());
  return { issuer, stop: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }) };
}

/** Signs in at its pages; gives the address at which the browser is sent back. */
export async function signInThere(browser, url, login) {
  for (let i = 0; i < 12; i++) {
    const r = await browser.go(url);
    if (r.status >= 300 && r.status < 400) {
      if (r.location.includes('/api/oidc/callback')) return r.location;
      url = r.location;
      continue;
    }
    const action = /<form[^>]*action="([^"]+)"/.exec(r.text)[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(r.text)[1];
    const sent = await browser.go(new URL(action, url).href, {
      method: 'POST', body: new URLSearchParams({ prompt, login, password: 'any' }), headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    if (sent.location.includes('/api/oidc/callback')) return sent.location;
    url = sent.location;
  }
  throw new Error('the provider does not come to an end');
}

const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 });
const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ED = generateKeyPairSync('ed25519');
const SHORT = generateKeyPairSync('rsa', { modulusLength: 1024 });
const KEYS = { RS256: RSA, PS256: RSA, ES256: EC, EdDSA: ED };
const jwk = (pair, kid) => ({ ...createPublicKey(pair.privateKey).export({ format: 'jwk' }), kid, use: 'sig' });

function signed(alg, pair, text) {
  if (alg === 'none') return '';
  if (alg === 'HS256') return b64(createHmac('sha256', pair.publicKey.export({ type: 'spki', format: 'pem' })).update(text).digest());
  const key = { key: pair.privateKey };
  if (alg === 'PS256') Object.assign(key, { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 });
  if (alg === 'ES256') key.dsaEncoding = 'ieee-p1363';
  return b64(sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), key));
}

/** A provider whose every answer can be bent: see the fields of `knobs`. */
export class FakeProvider {
  knobs = {};
  asked = { discovery: 0, jwks: 0, token: 0, userinfo: 0 };
  codes = new Map();

  static async open() {
    const p = new FakeProvider();
    p.server = http.createServer((q, a) => p.answer(q, a).catch((e) => { a.statusCode = 500; a.end(e.stack); }));
    p.issuer = `http://127.0.0.1:${await listen(p.server)}`;
    return p;
  }

  stop() { return new Promise((done) => { this.server.close(done); this.server.closeAllConnections(); }); }

  /** What a browser that was sent to `url` brings back: the address of the callback. */
  consent(url, { sub = `p${randomBytes(6).toString('hex')}`, more = {} } = {}) {
    const q = new URL(url).searchParams;
    const code = randomBytes(16).toString('hex');
    this.codes.set(code, { sub, nonce: q.get('nonce'), challenge: q.get('code_challenge'), client: q.get('client_id') });
    const back = new URL(q.get('redirect_uri'));
    for (const [k, v] of Object.entries({ code, state: q.get('state'), ...more })) if (v !== null) back.searchParams.set(k, v);
    return back.href;
  }

  token({ sub, nonce, client }) {
    const { alg = 'RS256', kid = alg, header = {}, claims = {}, pair = KEYS[alg] ?? RSA, spoil = (t) => t } = this.knobs;
    const now = Math.floor(Date.now() / 1000);
    const body = { iss: this.issuer, sub, aud: client, exp: now + 300, iat: now, nonce, preferred_username: sub, ...claims };
    for (const k of Object.keys(body)) if (body[k] === undefined) delete body[k];
    const text = `${b64({ alg, kid, ...header })}.${b64(body)}`;
    return spoil(`${text}.${signed(alg, pair, text)}`);
  }

  async answer(q, a) {
    const { pathname } = new URL(q.url, this.issuer);
    let body = '';
    for await (const part of q) body += part;
    const reply = (v, status = 200) => { a.writeHead(status, { 'content-type': 'application/json' }); a.end(typeof v === 'string' ? v : JSON.stringify(v)); };
    if (pathname === '/.well-known/openid-configuration') {
      this.asked.discovery++;
      if (this.knobs.slow) await new Promise((done) => { setTimeout(done, this.knobs.slow).unref(); });
      return reply({
        issuer: this.issuer, authorization_endpoint: `${this.issuer}/auth`, token_endpoint: `${this.issuer}/token`,
        jwks_uri: `${this.issuer}/jwks`, userinfo_endpoint: `${this.issuer}/userinfo`, ...this.knobs.discovery,
      });
    }
    if (pathname === '/jwks') {
      this.asked.jwks++;
      if (this.knobs.redirect) { a.writeHead(302, { location: this.knobs.redirect }); return a.end(); }
      return reply(this.knobs.jwks ?? { keys: [...Object.entries(KEYS).map(([kid, pair]) => jwk(pair, kid)), jwk(SHORT, 'short')] });
    }
    if (pathname === '/token') {
      this.asked.token++;
      this.last = { form: Object.fromEntries(new URLSearchParams(body)), authorization: q.headers.authorization };
      const code = this.codes.get(this.last.form.code);
      const right = code && createHash('sha256').update(this.last.form.code_verifier ?? '').digest('base64url') === code.challenge;
      this.codes.delete(this.last.form.code);
      return right ? reply({ access_token: `access-${code.sub}`, token_type: 'Bearer', id_token: this.token(code) }) : reply({ error: 'invalid_grant' }, 400);
    }
    if (pathname === '/userinfo') {
      this.asked.userinfo++;
      return reply({ sub: q.headers.authorization.replace('Bearer access-', ''), ...this.knobs.userinfo });
    }
    return reply({ error: 'not_found' }, 404);
  }
}

export const pairs = { RSA, EC, SHORT };

/** A server with a provider that lies on demand: what most tests begin with. */
export class House {
  static async open() {
    const h = new House();
    h.s = await start({ fake: true });
    h.fake = await FakeProvider.open();
    return h;
  }

  async close() { await this.s.stop(); await this.fake.stop(); }

  async set(change) {
    const r = await this.s.json('PATCH', '/api/admin/settings', change);
    assert.equal(r.status, 200, r.text);
    return r;
  }

  /** Each call is another provider for the server: nothing that was kept of the last one counts. */
  async useFake(more = {}, knobs = {}) {
    await this.fake.stop();
    this.fake = await FakeProvider.open();
    this.fake.knobs = knobs;
    await this.set({ oidc_policy: 'create', oidc_issuer: this.fake.issuer, oidc_client_id: 'sluice', oidc_client_secret: null, oidc_email_domains: null, ...more });
    return this.fake;
  }

  session(b) {
    return this.s.json('GET', '/api/session', undefined, { authorization: null, cookie: [...b.jar(this.s.url)].map(([k, v]) => `${k}=${v}`).join('; ') });
  }

  async depart(b = new Browser()) { return { b, url: (await b.go(`${this.s.url}/api/oidc/sign-in`)).location }; }

  /** Departure, consent, return; gives the browser and the answer of the callback. */
  async signIn(options) {
    const { b, url } = await this.depart(options?.b);
    assert.ok(url.startsWith(this.fake.issuer), url);
    return { b, r: await b.go(this.fake.consent(url, options)) };
  }

  /** The code with which a sign-in is refused. */
  async refusal(options) {
    const { b, r } = await this.signIn(options);
    assert.equal(r.status, 303);
    assert.equal((await this.session(b)).status, 401, 'nobody is signed in');
    return code(r);
  }
}

/** What the page is told: "" when somebody is signed in. */
export const code = (r) => new URL(r.location).hash.replace('#/sign-in/', '');
