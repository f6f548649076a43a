// Tools that run, with the protocol's own reference server (@modelcontextprotocol/server-everything): sessions, streams with progress
// and log messages before the result, all kinds of content, requests that the server makes of its client.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { sleep, slow, start, top } from './harness.mjs';

const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
const program = path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js');
let s, child, url;
let said = '';

const freePort = () => new Promise((done) => { const n = net.createServer().listen(0, '127.0.0.1', () => { const { port } = n.address(); n.close(() => done(port)); }); });
before(async () => {
  s = await start({ fake: true });
  const port = await freePort();
  url = `http://127.0.0.1:${port}/mcp`;
  child = spawn(process.execPath, [program, 'streamableHttp'], { env: { ...process.env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { said += d; });
  for (let i = 0; i < 200 * slow && !/listening/.test(said); i++) await sleep(50);
  assert.match(said, /listening/, said);
});
after(async () => { child?.kill('SIGKILL'); await s?.stop(); });

async function run(tool, args) {
  const c = (await s.json('POST', '/api/conversations', { settings: { tool_servers: ['all'], thinking: false } })).body;
  const text = `<tool_call>\n${JSON.stringify({ name: `all_${tool.replace(/[^a-z]/g, '-')}`, arguments: args })}\n</tool_call>`;
  const out = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { content: `fake:${JSON.stringify({ steps: [text, 'Done.'] })}` }));
  const answer = out.last.message;
  const { definition } = (await s.json('GET', '/api/tool-servers')).body.items[0].tools.find((t) => t.call === answer.tool_calls[0].function.name);
  const r = await s.json('POST', `/api/messages/${answer.id}/calls/${answer.tool_calls[0].id}/run`, { allow: 'once', definition });
  assert.equal(r.status, 200, r.text);
  const next = await follow(await s.request('POST', `/api/conversations/${c.id}/messages`, { parent_id: answer.id, tool_results: [{ tool_call_id: answer.tool_calls[0].id }] }));
  assert.equal(next.last.message.content, 'Done.');
  return r.body;
}

test('it lists its tools, and all can be offered', async () => {
  const r = await s.json('POST', '/api/tool-servers', { name: 'all', url, everyone: true });
  assert.equal(r.status, 201, r.text);
  const names = r.body.tools.map((t) => t.name);
  for (const name of ['echo', 'get-sum', 'get-tiny-image', 'trigger-long-running-operation']) assert.ok(names.includes(name), `${name} in ${names}`);
  assert.deepEqual(r.body.tools.filter((t) => t.problem), []);
});

test('texts, structures, pictures and links come back', async () => {
  assert.match((await run('echo', { message: 'grüße' })).result, /grüße/);
  assert.match((await run('get-sum', { a: 17, b: 25 })).result, /42/);
  assert.match((await run('get-structured-content', { location: 'New York' })).result, /temperature/);
  assert.match((await run('get-tiny-image', {})).result, /image\/png, \d+ bytes: not shown to the model/);
  assert.match((await run('get-resource-links', { count: 3 })).result, /\]\(\w+:\/\//);
});

test('a long call tells of its progress before it ends', async () => {
  const r = await run('trigger-long-running-operation', { duration: 2, steps: 4 });
  assert.equal(r.state, 'done', r.result);
  assert.ok(r.ends_at - r.began_at >= 1900, JSON.stringify(r));
});

test('what its arguments must be it says itself, as the call\'s result', async () => {
  const r = await run('get-sum', { a: 'x' });
  assert.equal(r.state, 'failed');
  assert.match(r.result, /number|invalid/i);
});
