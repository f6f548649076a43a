// Tool servers where people sign in: a real one of the protocol's own SDK, which is its own issuer, and one whose every answer can be
// bent, also to what no honest server says. And people with a browser each, who sign in there.
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';
import { load } from './harness.mjs';
import { Browser } from './oidc_rig.mjs';

const listen = (server) => new Promise((done) => { server.listen(0, '127.0.0.1', () => done(server.unref().address().port)); });
const stopped = (server) => new Promise((done) => { server.close(done); server.closeAllConnections(); });
const sdk = (name) => load(`@modelcontextprotocol/sdk/${name}.js`);

/** A user of the server with a browser; go: as in the page, json: with what it says. */
export class Person {
  static async of(s, name, role = 'user') {
    const p = new Person();
    const password = 'a long password';
    await s.json('POST', '/api/users', { name, password, role });
    Object.assign(p, { s, name, b: new Browser() });
    const r = await p.json('POST', '/api/login', { name, password });
    p.csrf = r.body.csrf;
    return p;
  }

  async json(method, where, body) {
    const r = await this.b.go(this.s.url + where, { method, body: body && JSON.stringify(body), headers: { ...(body && { 'content-type': 'application/json' }), ...(this.csrf && { 'x-csrf-token': this.csrf }) } });
    return { ...r, body: r.text ? JSON.parse(r.text) : null };
  }

  server(name) { return this.json('GET', '/api/tool-servers').then((r) => r.body.items.find((x) => x.name === name)); }

  depart(server) { return this.json('POST', `/api/tool-servers/${server.id}/sign-in`); }

  /** Comes from another site: a browser leaves the strict cookie of the session out. */
  async back(url) {
    const cookie = [...this.b.jar(url)].filter(([name]) => name.endsWith('sluice_tool')).map(([k, v]) => `${k}=${v}`).join('; ');
    const r = await this.b.go(url, { headers: { cookie } });
    return { ...r, code: r.location ? new URL(r.location).hash.replace('#/tool-sign-in/', '') : r.text };
  }

  /** All of it; gives what the page is told. */
  async signIn(server, bend = (url) => url) {
    const begun = await this.depart(server);
    if (begun.status !== 200) return begun.body.error.reason;
    const there = await this.b.go(begun.body.url);
    return (await this.back(bend(there.location))).code;
  }
}

/** The SDK's own server and issuer. tokens: Map of access tokens; refreshed, revoked: what came; needs: scopes that each request wants. */
export async function realPeer() {
  const [{ default: express }, { mcpAuthRouter }, { requireBearerAuth }, { McpServer }, { StreamableHTTPServerTransport }, errors] = await Promise.all([
    load('express'), sdk('server/auth/router'), sdk('server/auth/middleware/bearerAuth'), sdk('server/mcp'), sdk('server/streamableHttp'), sdk('server/auth/errors')]);
  const app = express(), server = http.createServer(app);
  const base = `http://127.0.0.1:${await listen(server)}`;
  const peer = { base, url: `${base}/mcp`, clients: new Map(), codes: new Map(), tokens: new Map(), refreshes: new Map(), used: new Set(), refreshed: 0, revoked: [], seen: [], needs: [], lives: 3600, stop: () => stopped(server) };
  const issue = (client, scopes, resource) => {
    const access = `at-${randomBytes(12).toString('hex')}`, refresh = `rt-${randomBytes(12).toString('hex')}`;
    peer.tokens.set(access, { token: access, clientId: client.client_id, scopes, resource, expiresAt: Math.floor(Date.now() / 1000) + 3600 });
    peer.refreshes.set(refresh, { client: client.client_id, scopes, resource, access });
    return { access_token: access, token_type: 'bearer', expires_in: peer.lives, refresh_token: refresh, scope: scopes.join(' ') };
  };
  const provider = {
    clientsStore: { getClient: (id) => peer.clients.get(id), registerClient: (c) => { peer.clients.set(c.client_id, c); return c; } },
    authorize: (client, params, response) => {
      const code = randomBytes(12).toString('hex'), back = new URL(params.redirectUri);
      peer.codes.set(code, { client, params });
      back.searchParams.set('code', code);
      back.searchParams.set('state', params.state);
      response.redirect(back.href);
    },
    challengeForAuthorizationCode: (client, code) => peer.codes.get(code)?.params.codeChallenge,
    exchangeAuthorizationCode: (client, code, verifier, redirect, resource) => {
      const { params } = peer.codes.get(code) ?? {};
      peer.codes.delete(code);
      if (!params || String(resource) !== peer.url) throw new errors.InvalidGrantError('no such code');
      return issue(client, params.scopes ?? [], resource);
    },
    exchangeRefreshToken: (client, refresh, scopes, resource) => {
      const old = peer.refreshes.get(refresh);
      if (!old || peer.used.has(refresh)) throw new errors.InvalidGrantError('used');
      peer.used.add(refresh);
      peer.tokens.delete(old.access);
      peer.refreshed++;
      return issue(client, old.scopes, resource);
    },
    verifyAccessToken: (token) => {
      peer.seen.push(token);
      if (!peer.tokens.has(token)) throw new errors.InvalidTokenError('unknown');
      return peer.tokens.get(token);
    },
    revokeToken: (client, { token }) => { peer.revoked.push(token); },
  };
  app.use(mcpAuthRouter({ provider, issuerUrl: new URL(base), resourceServerUrl: new URL(peer.url), scopesSupported: ['read', 'write'] }));
  const guard = (request, response, next) => requireBearerAuth({ verifier: provider, requiredScopes: peer.needs, resourceMetadataUrl: `${base}/.well-known/oauth-protected-resource/mcp`, expectedResource: peer.url })(request, response, next);
  app.post('/mcp', express.json(), guard, async (request, response) => {
    const mcp = new McpServer({ name: 'real', version: '1' });
    mcp.registerTool('whoami', { description: 'Says whose token it sees.' }, () => ({ content: [{ type: 'text', text: `token of ${request.auth.clientId} with ${request.auth.scopes.join(' ')}` }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await mcp.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  return peer;
}

/** One that lies on demand: `how` bends challenge (header), status, resource, issuer (documents), token (answers), delay and so on. */
export class FakePeer {
  how = {};
  good = 'Bearer good'; // what tokens that are taken begin with
  asked = []; // "POST /token" and so on
  forms = [];
  codes = new Map();
  registered = [];

  static async open() {
    const p = new FakePeer();
    p.server = http.createServer((q, a) => p.answer(q, a).catch((e) => { a.statusCode = 500; a.end(e.stack); }));
    p.base = `http://127.0.0.1:${await listen(p.server)}`;
    p.url = `${p.base}/mcp`;
    return p;
  }

  stop() { return stopped(this.server); }

  async answer(q, a) {
    const { pathname, searchParams } = new URL(q.url, this.base), { how } = this;
    let body = '';
    for await (const part of q) body += part;
    this.asked.push(`${q.method} ${pathname}`);
    const reply = (v, status = 200, head = {}) => { a.writeHead(status, { 'content-type': 'application/json', ...head }); a.end(typeof v === 'string' ? v : JSON.stringify(v)); };
    const send = (v, fallback) => (v === undefined ? reply(fallback) : v?.status ? reply(v.body ?? {}, v.status, v.head) : reply(v));
    if (pathname === '/mcp') {
      this.authorization = q.headers.authorization;
      if (how.mcp) return how.mcp(q, a, body, reply);
      if (!q.headers.authorization?.startsWith(this.good)) return reply({}, how.status ?? 401, how.challenge === null ? {} : { 'www-authenticate': how.challenge ?? `Bearer resource_metadata="${this.base}/.well-known/oauth-protected-resource/mcp", scope="read"` });
      const m = body ? JSON.parse(body) : {};
      if (m.id === undefined) return reply('', 202);
      const result = m.method === 'initialize' ? { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'f', version: '1' } }
        : m.method === 'tools/list' ? { tools: [{ name: 'look', inputSchema: { type: 'object' } }] } : { content: [{ type: 'text', text: 'seen' }] };
      return reply({ jsonrpc: '2.0', id: m.id, result });
    }
    if (pathname === '/.well-known/oauth-protected-resource/mcp') return send(how.resource, { resource: this.url, authorization_servers: [this.base], scopes_supported: ['read'] });
    if (pathname === '/.well-known/oauth-authorization-server') return send(how.issuer, this.metadata());
    if (pathname === '/.well-known/openid-configuration') return send(how.openid ?? { status: 404 });
    if (pathname === '/register') { this.registered.push(JSON.parse(body)); await how.meanwhile?.(); return send(how.register, { client_id: `c${this.registered.length}`, token_endpoint_auth_method: 'none' }); }
    if (pathname === '/authorize') {
      const code = randomBytes(8).toString('hex'), back = new URL(searchParams.get('redirect_uri'));
      this.codes.set(code, Object.fromEntries(searchParams));
      for (const [k, v] of Object.entries({ code, state: searchParams.get('state'), ...how.answer })) if (v !== null) back.searchParams.set(k, v);
      a.writeHead(302, { location: back.href });
      return a.end();
    }
    if (pathname === '/token') {
      const form = Object.fromEntries(new URLSearchParams(body));
      this.forms.push({ ...form, authorization: q.headers.authorization });
      if (how.token) return send(how.token);
      if (form.grant_type === 'refresh_token') return send(how.refresh, { access_token: 'good-again', token_type: 'Bearer', expires_in: 3600 });
      const code = this.codes.get(form.code);
      this.codes.delete(form.code);
      const right = code && createHash('sha256').update(form.code_verifier ?? '').digest('base64url') === code.code_challenge && form.resource === this.url;
      return right ? reply({ access_token: 'good-4711', token_type: 'Bearer', expires_in: 3600, refresh_token: 'refresh-4711', ...how.more }) : reply({ error: 'invalid_grant' }, 400);
    }
    if (pathname === '/revoke') { this.forms.push(Object.fromEntries(new URLSearchParams(body))); return reply('', 200); }
    return reply({ error: 'not_found' }, 404);
  }

  metadata(more = {}) {
    return { issuer: this.base, authorization_endpoint: `${this.base}/authorize`, token_endpoint: `${this.base}/token`, registration_endpoint: `${this.base}/register`, revocation_endpoint: `${this.base}/revoke`,
      code_challenge_methods_supported: ['S256'], token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'], ...more };
  }
}
