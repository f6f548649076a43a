// The hostile side of the siege, a process of its own: three users and strangers, all at once, until standard input ends.
//   node tests/siege/hostile.mjs PORT [--without NAME,NAME...]        the users hostile-engine, hostile-database, hostile-files exist
// Prints JSON at the end: per attack, how often it was answered with which status.
import net from 'node:net';
import { randomBytes, randomUUID } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { sleep } from '../api/harness.mjs';
import { ask, makeKey, signIn } from './ask.mjs';

const PORT = Number(process.argv[2]);
const WITHOUT = new Set((process.argv[3] === '--without' ? process.argv[4] ?? '' : '').split(','));
const CHAT_BYTES = 8 << 20, CHAT_MESSAGES = 64;
const counts = {};
let over = false;

/** As ask, counted under the attack's name. */
async function strike(attack, from, ...rest) {
  const r = await ask(PORT, from, ...rest);
  const of = (counts[attack] ??= {});
  of[r.status] = (of[r.status] ?? 0) + 1;
  return r;
}

/** A hostile user with a session and a key. */
async function user(name, from) {
  const page = await signIn(PORT, from, name), bearer = { authorization: `Bearer ${await makeKey(PORT, from, page)}` };
  return { page: (attack, method, path, body, more = {}) => strike(attack, from, method, path, { body, ...more, headers: { ...page, ...more.headers } }),
    api: (attack, method, path, body, more = {}) => strike(attack, from, method, path, { body, timeout: 60000, ...more, headers: { ...bearer, ...more.headers } }) };
}

const forever = async (run, pause = 5) => { while (!over) { await run().catch(() => {}); await sleep(pause); } };
const times = (n, run) => Promise.all(Array.from({ length: n }, (_, i) => run(i)));

/** Holds all slots and the queue, makes masks dear, and has megabytes tokenized. */
async function engine(p) {
  const text = 'some text to be cut into pieces '.repeat(1 << 15), pattern = `^(${Array.from({ length: 40 }, (_, i) => `a{${i},${i + 40}}b`).join('|')})$`;
  const chat = (more) => ({ messages: [{ role: 'user', content: 'Go on.' }], ignore_eos: true, ...more });
  await Promise.all([
    forever(() => p.api('n of 16', 'POST', '/v1/chat/completions', chat({ n: 16, max_tokens: 2000 }))),
    times(100, (i) => forever(() => p.api('queued', 'POST', '/v1/completions', { prompt: `again ${i}`, ignore_eos: true, max_tokens: 200 }))),
    times(6, () => forever(() => p.api('patterns', 'POST', '/v1/chat/completions', chat({ max_tokens: 60, ignore_eos: false,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'string', pattern } } } })))),
    times(20, () => forever(() => p.api('tokenize', 'POST', '/tokenize', { content: text }))),
  ]);
}

function largeChat() {
  const line = 'Each of these words is indexed by its three-letter parts, which takes the database some time. ', now = Date.now();
  const messages = Array.from({ length: CHAT_MESSAGES }, (_, i) => ({ id: i + 1, parent: i || null, role: i % 2 ? 'assistant' : 'user', status: 'done',
    content: line.repeat(Math.ceil(CHAT_BYTES / CHAT_MESSAGES / line.length)) + i, reasoning: '', tool_calls: null, tool_call_id: null, error: null, model: null,
    usage: null, timings: null, created_at: now, finished_at: now, attachments: [] }));
  return JSON.stringify({ schema: 'sluice-export', version: 1, exported_at: now, conversations: [{ key: randomUUID(), title: 'large', created_at: now, updated_at: now,
    pinned: false, archived: false, trashed_at: null, fork_of: null, tags: [], settings: {}, leaf: CHAT_MESSAGES, messages }] });
}

/** Chats of many megabytes: imported, copied, exported to a slow reader and deleted, again and again; and the audit log filled. */
async function database(p) {
  const chats = async () => JSON.parse((await p.page('list', 'GET', '/api/conversations')).body).items ?? [];
  await Promise.all([
    forever(async () => {
      await p.page('import', 'POST', '/api/import', largeChat());
      for (const c of (await chats()).slice(0, 2)) {
        const { leaf_id } = JSON.parse((await p.page('list', 'GET', `/api/conversations/${c.id}?texts=1`)).body);
        await p.page('fork', 'POST', `/api/conversations/${c.id}/fork`, { from_message_id: leaf_id });
      }
      for (const c of await chats()) await p.page('delete', 'DELETE', `/api/conversations/${c.id}?forever=true`);
    }),
    times(2, () => forever(() => p.page('export', 'GET', '/api/export?format=json', undefined, { slow: 50 }), 1000)),
    forever(() => p.page('audit rows', 'DELETE', '/api/sessions'), 2),
    forever(async () => { const made = await p.page('keys', 'POST', '/api/keys', { name: 'x' }); if (made.status === 201) await p.page('keys', 'DELETE', `/api/keys/${JSON.parse(made.body).id}`); }, 20),
  ]);
}

/** A PDF whose one page unpacks to hundreds of megabytes of drawing. */
function pdfBomb() {
  const page = deflateSync(Buffer.alloc(200 << 20, 'q Q '), { level: 1 });
  const parts = [`%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n`,
    `3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>endobj\n4 0 obj<</Length ${page.length}/Filter/FlateDecode>>stream\n`];
  return Buffer.concat([Buffer.from(parts.join('')), page, Buffer.from('\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF')]);
}

const upload = (p, attack, name, bytes) =>
  p.page(attack, 'POST', `/api/attachments?name=${name}`, bytes, { headers: { 'content-type': 'application/octet-stream' } });

/** Files that are dear to read, long texts, and a large chat that strangers open through its link. */
async function files(p) {
  const bomb = pdfBomb(), chinese = Buffer.from('天地玄黃宇宙洪荒日月盈昃辰宿列張'.repeat(1 << 16));
  await p.page('import', 'POST', '/api/import', largeChat());
  const [chat] = JSON.parse((await p.page('list', 'GET', '/api/conversations')).body).items ?? [];
  const link = chat && await p.page('share', 'POST', `/api/conversations/${chat.id}/shares`, {});
  const token = link?.status === 201 && JSON.parse(link.body).token;
  await Promise.all([
    times(18, () => forever(() => upload(p, 'pdf', 'x.pdf', Buffer.concat([bomb, randomBytes(8)])))),
    times(2, () => forever(() => upload(p, 'long text', 'x.txt', Buffer.concat([chinese, Buffer.from(randomUUID())])), 200)),
    token && times(16, (i) => forever(() => strike('shared', `127.0.22.${i + 1}`, 'GET', `/api/shared/${token}`), 50)),
  ]);
}

/** Wrong passwords from 50 addresses, some hundred a second, and guesses of links. */
const logins = () => Promise.all([
  times(50, (i) => forever(() => strike('login', `127.0.20.${i + 1}`, 'POST', '/api/login', { body: { name: `nobody${i}`, password: 'wrong password' } }), 200)),
  times(8, (i) => forever(() => strike('links', `127.0.23.${i + 1}`, 'GET', `/api/shared/${randomUUID()}`), 20)),
]);

/** A thousand connections that send a byte now and then: heads without an end, and bodies of 30 MB. */
async function connections() {
  const open = new Set();
  const heads = ['GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n', 'POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 15000\r\n\r\n',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 30000000\r\n\r\n'];
  const hold = (i) => {
    const c = net.connect({ port: PORT, host: '127.0.0.1', localAddress: `127.0.21.${(i % 4) + 1}` });
    open.add(c);
    c.on('error', () => {}).on('data', () => {}).on('close', () => open.delete(c)).on('connect', () => c.write(heads[i % heads.length]));
  };
  for (let i = 0; !over; i++) {
    if (open.size < 1000) hold(i);
    else await sleep(100);
    for (const c of open) if (Math.random() < 0.001) c.write('x');
    if (i % 50 === 0) await sleep(20);
    (counts.connections ??= {}).most = Math.max(counts.connections?.most ?? 0, open.size);
  }
  for (const c of open) c.destroy();
}

const USERS = { engine, database, files }, STRANGERS = { logins, connections };
const running = [];
for (const [i, [name, attack]] of Object.entries(USERS).entries())
  if (!WITHOUT.has(name)) running.push(attack(await user(`hostile-${name}`, `127.0.9.${i + 1}`)));
for (const [name, attack] of Object.entries(STRANGERS)) if (!WITHOUT.has(name)) running.push(attack());
process.stdout.write('begun\n');
process.stdin.on('data', () => {}).on('end', async () => {
  over = true;
  await Promise.race([Promise.all(running), sleep(5000)]);
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  process.exit(0);
});
