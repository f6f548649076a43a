// A server of the Model Context Protocol for tests, by streamable HTTP: it does what the protocol says, and in other ways what it
// should not. `how` decides (a test changes it between two requests): sse, secret, session, version, pages, ping, list and call (what
// to do instead: hang, rubbish, html, huge, trickle, status, redirect, drop, error, deep, many), list_until and wait_until (promises). It keeps what came.
import http from 'node:http';

const TOOLS = [
  { name: 'add', title: 'Add numbers', description: 'Adds two numbers.', annotations: { readOnlyHint: true },
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] } },
  { name: 'wipe.disk', description: 'Removes everything.', annotations: { destructiveHint: true }, inputSchema: { type: 'object', properties: {} } },
  { name: 'wait', description: 'Takes its time.', inputSchema: { type: 'object', properties: { ms: { type: 'number' } } } },
  { name: 'fail', description: 'Never works.', inputSchema: { type: 'object', properties: {} } },
  { name: 'picture', description: 'Gives a picture.', inputSchema: { type: 'object', properties: {} } },
];

export async function startMcp(first = {}) {
  const m = { how: { ...first }, requests: [], calls: [], replies: [], listed: 0, sessions: new Set(), ended: [], tools: structuredClone(TOOLS), open: new Set() };
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (d) => { body += d; });
    request.on('end', () => serve(m, request, body, response).catch(() => response.destroy()));
  });
  server.on('connection', (socket) => { m.open.add(socket); socket.on('close', () => m.open.delete(socket)); });
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  server.unref(); // a test that fails before its end leaves it
  m.url = `http://127.0.0.1:${server.address().port}/mcp`;
  m.stop = () => { for (const socket of m.open) socket.destroy(); return new Promise((done) => { server.close(done); }); };
  return m;
}

function send(m, response, message, headers = {}) {
  if (!m.how.sse) {
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(message));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
  response.write(': hello\n\n');
  response.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'ü' } })}\n\n`);
  if (m.how.ping) {
    response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 'p1', method: 'ping' })}\r\n\r\n`);
    response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'sampling/createMessage', params: {} })}\n\n`);
  }
  const text = JSON.stringify(message, null, 1).split('\n'); // an event of many lines, in pieces that end anywhere
  const whole = `id: 9\nevent: message\n${text.map((l) => `data: ${l}\n`).join('')}\n`;
  const bytes = Buffer.from(whole);
  response.write(bytes.subarray(0, bytes.length / 2));
  setTimeout(() => { response.write(bytes.subarray(bytes.length / 2)); if (!m.how.stays) response.end(); }, 20);
}

const FAULTS = {
  hang: () => {},
  rubbish: (response) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end('{"jsonrpc": "2.0", "id": 2, "result"'); },
  html: (response) => { response.writeHead(200, { 'content-type': 'text/html' }); response.end('<!doctype html><title>hello</title>'); },
  huge: (response, id) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${'x'.repeat(6 << 20)}"}]}}`); },
  trickle: (response) => { response.writeHead(200, { 'content-type': 'text/event-stream' }); const t = setInterval(() => response.write(': still here\n\n'), 100); response.on('close', () => clearInterval(t)); },
  status: (response) => { response.writeHead(500); response.end('no'); },
  redirect: (response) => { response.writeHead(307, { location: 'http://127.0.0.1:1/' }); response.end(); },
  drop: (response) => response.destroy(),
  error: (response, id) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32602, message: 'no such tool' } })); },
  deep: (response, id) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end(`{"jsonrpc":"2.0","id":${id},"result":${'['.repeat(5000)}${']'.repeat(5000)}}`); },
  many: (response, id) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end(`{"jsonrpc":"2.0","id":${id},"result":{"tools":[],"x":[${'0,'.repeat(150000)}0]}}`); },
  shapeless: (response, id) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end(`{"jsonrpc":"2.0","id":${id},"result":{"tools":7,"content":"x"}}`); },
};

function result(m, { name, arguments: args }) {
  const text = (words, more = {}) => ({ content: [{ type: 'text', text: words }], ...more });
  if (m.how.text !== undefined) return text(m.how.text);
  if (name === 'add') return text(String(args.a + args.b));
  if (name === 'fail') return text('it broke', { isError: true });
  if (name === 'picture') return { content: [{ type: 'image', mimeType: 'image/png', data: 'AAAA' }, { type: 'resource_link', name: 'a', uri: 'file:///a' }, { type: 'odd' }, { type: 'resource', resource: { uri: 'x:/y', text: 'inner' } }] };
  return { content: [], structuredContent: { done: true } };
}

async function serve(m, request, body, response) {
  const { how } = m;
  m.requests.push({ method: request.method, headers: request.headers, body });
  if (how.secret && request.headers.authorization !== how.secret) { response.writeHead(401); response.end(); return; }
  const session = request.headers['mcp-session-id'];
  if (request.method === 'DELETE') { m.ended.push(session); response.writeHead(204); response.end(); return; }
  const message = JSON.parse(body);
  if (!message.method) { m.replies.push(message); response.writeHead(202); response.end(); return; }
  if (how.session && message.method !== 'initialize' && !m.sessions.has(session)) { response.writeHead(404); response.end(); return; }
  if (message.method !== 'initialize' && request.headers['mcp-protocol-version'] !== (how.version ?? '2025-06-18')) { response.writeHead(400); response.end(); return; }
  if (message.id === undefined) { response.writeHead(202); response.end(); return; }
  const answer = (value, headers) => send(m, response, { jsonrpc: '2.0', id: message.id, result: value }, headers);
  if (message.method === 'initialize') {
    if (FAULTS[how.begin]) { FAULTS[how.begin](response, message.id); return; }
    const id = `s-${m.sessions.size}`;
    if (how.session) m.sessions.add(id);
    answer({ protocolVersion: how.version ?? '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'test', version: '1' } }, how.session ? { 'mcp-session-id': id } : {});
  } else if (message.method === 'tools/list') {
    if (FAULTS[how.list]) { FAULTS[how.list](response, message.id); return; }
    m.listed++;
    await how.list_until;
    const from = Number(message.params.cursor ?? 0);
    const to = how.pages ? from + 2 : m.tools.length;
    answer({ tools: m.tools.slice(from, to), ...(to < m.tools.length && { nextCursor: String(to) }) });
  } else {
    m.calls.push(message.params);
    if (FAULTS[how.call]) { FAULTS[how.call](response, message.id); return; }
    if (message.params.name === 'wait' && how.text === undefined) await (how.wait_until ?? new Promise((done) => { setTimeout(done, message.params.arguments.ms).unref(); }));
    answer(result(m, message.params));
  }
}
