// Usage per user and key equals the sum of the answers' own figures: whole, streamed, n > 1, lists of prompts, answers
// that were cut off, workers that were killed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { eventually, lasting, order, PATIENCE, sleep, start } from './harness.mjs';

const python = process.env.SLUICE_PYTHON ?? 'python3';
let s, key, id;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());
beforeEach(async () => { ({ body: { key, id } } = await s.json('POST', '/api/keys', { name: 'counted' })); });

const as = () => ({ authorization: `Bearer ${key}` });
const NAMES = ['requests', 'prompt_tokens', 'cached_tokens', 'completion_tokens'];

/** What the server counted for this test's key; waits until `requests` are there: the row is written after the reply. */
async function counted(requests) {
  for (const end = Date.now() + PATIENCE; ;) {
    const r = await s.json('GET', '/api/usage');
    assert.equal(r.status, 200, r.text);
    const mine = r.body.items.filter((x) => x.key_id === id);
    const sum = Object.fromEntries(NAMES.map((n) => [n, mine.reduce((a, x) => a + x[n], 0)]));
    if (sum.requests >= requests || Date.now() > end) return sum;
    await sleep(20);
  }
}

const add = (sum, u) => ({ requests: sum.requests + 1, prompt_tokens: sum.prompt_tokens + u.prompt_tokens,
  cached_tokens: sum.cached_tokens + (u.prompt_tokens_details?.cached_tokens ?? 0), completion_tokens: sum.completion_tokens + u.completion_tokens });
const none = { requests: 0, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 };

test('whole and streamed answers, n > 1, lists of prompts', async () => {
  let sum = none;
  for (const n of [1, 3]) sum = add(sum, (await s.chat({ messages: order({ text: 'some words of an answer' }), n }, as())).body.usage);
  const r = await s.request('POST', '/v1/chat/completions', { messages: order({ text: 'a streamed one' }), n: 2, stream: true,
    stream_options: { include_usage: true } }, as());
  const events = (await r.text()).split('\n\n').filter((e) => e.startsWith('data: {'));
  sum = add(sum, JSON.parse(events.at(-1).slice(6)).usage);
  const texts = await s.json('POST', '/v1/completions', { prompt: ['fake:{"text":"x y z"}', 'another'], n: 2, max_tokens: 50 }, as());
  sum = add(sum, texts.body.usage);
  assert.deepEqual(await counted(4), sum);
});

test('a refused request costs nothing', async () => {
  for (const body of [{ messages: [] }, { messages: order({ refuse: 'busy' }) }, { messages: order({ text: 'x' }), temperature: 9 }])
    assert.notEqual((await s.chat(body, as())).status, 200);
  const good = await s.chat({ messages: order({ text: 'x' }) }, as());
  assert.deepEqual(await counted(1), add(none, good.body.usage));
});

const LONG = order({ text: 'word '.repeat(300), token_ms: lasting(10) });
async function cutOff(end) {
  const stop = new AbortController();
  const r = await fetch(`${s.url}/v1/chat/completions`, { method: 'POST', signal: stop.signal,
    headers: { ...as(), 'content-type': 'application/json' },
    body: JSON.stringify({ messages: LONG, stream: true }) });
  let seen = 0;
  try {
    for await (const bytes of r.body) {
      seen += (Buffer.from(bytes).toString().match(/"content":"[^"]/g) ?? []).length;
      if (seen >= 10) end(stop);
    }
  } catch (e) {
    assert.equal(e.name, 'AbortError');
  }
  return seen;
}

test('a stream that its client left counts its prompt and what came', async () => {
  const prompt = (await s.chat({ messages: LONG, max_tokens: 1 }, as())).body.usage.prompt_tokens;
  const seen = await cutOff((stop) => stop.abort());
  const sum = await counted(2);
  assert.equal(sum.requests, 2);
  assert.equal(sum.prompt_tokens, 2 * prompt);
  assert.ok(sum.completion_tokens >= seen + 1 && sum.completion_tokens < 300, `${sum.completion_tokens} counted, ${seen} seen`);
});

test('a stream whose worker was killed is counted by another', async () => {
  const killAll = () => { for (const pid of s.childrenOf(s.pid('workers-stream'))) try { process.kill(pid, 'SIGKILL'); } catch { /* gone */ } };
  const seen = await cutOff(killAll);
  const sum = await counted(1);
  assert.equal(sum.requests, 1);
  assert.ok(sum.prompt_tokens > 0);
  assert.ok(sum.completion_tokens >= seen - 1 && sum.completion_tokens < 300, `${sum.completion_tokens} counted, ${seen} seen`);
  killAll(); // those who come next look as well
  await eventually(async () => assert.equal((await s.chat({ messages: order({ text: 'x' }) }, as())).status, 200));
  assert.equal((await counted(2)).requests, 2, 'once');
});

test('an answer that its client has is counted, though its process is killed right after', async () => {
  let sum = none;
  for (let i = 0; i < 3; i++) {
    sum = add(sum, (await s.chat({ messages: order({ text: 'some words' }) }, as())).body.usage);
    for (const pid of s.childrenOf(s.pid('workers-stream'))) try { process.kill(pid, 'SIGKILL'); } catch { /* gone */ }
  }
  assert.deepEqual(await counted(3), sum);
  await sleep(100);
  assert.deepEqual(await counted(3), sum, 'once');
});

/** A stream that tells when it began and when it ended, however. */
function streaming(words) {
  let began;
  const first = new Promise((done) => { began = done; });
  const whole = (async () => {
    let raw = '';
    try {
      const r = await s.request('POST', '/v1/chat/completions', { messages: order({ text: 'word '.repeat(words), token_ms: 10 }), stream: true }, as());
      for await (const bytes of r.body) {
        raw += Buffer.from(bytes);
        if (/"content":"[^"]/.test(raw)) began();
      }
    } catch (error) { raw += error; }
    began();
    return raw;
  })();
  return { first, whole };
}

test('a stream that outlives its killed master takes no row of another away', async () => {
  const left = streaming(120);
  await left.first;
  const master = s.pid('workers-stream');
  process.kill(master, 'SIGKILL');
  await eventually(() => {
    const pid = s.pid('workers-stream');
    assert.ok(pid !== master && s.childrenOf(pid).length >= 4, 'a new master with its children');
  });
  const others = Array.from({ length: 8 }, () => streaming(400)); // more than the idle ones: each of the first rows has one
  await Promise.all(others.map((o) => o.first));
  assert.match(await left.whole, /\[DONE\]/, 'it was ended by nobody');
  assert.equal((await counted(1)).requests, 1);
  for (const child of s.childrenOf(s.pid('workers-stream'))) try { process.kill(child, 'SIGKILL'); } catch { /* gone */ }
  await Promise.all(others.map((o) => o.whole));
  await s.chat({ messages: order({ text: 'x' }) }, as()); // whoever serves it looks first
  assert.equal((await counted(10)).requests, 10, 'each of them once');
});

test('an engine that fails in mid-answer: what came is counted', async () => {
  const r = await s.chat({ messages: order({ text: 'a b c d e f g h', fail_after: 4 }) }, as());
  assert.equal(r.status, 503);
  const sum = await counted(1);
  assert.equal(sum.completion_tokens, 4);
  assert.ok(sum.prompt_tokens > 0);
});

test('everyone\'s usage is for admins, one\'s own for each', async () => {
  assert.equal((await s.json('POST', '/api/users', { name: 'una', password: 'a long password' })).status, 201);
  const login = await s.json('POST', '/api/login', { name: 'una', password: 'a long password' }, { authorization: null });
  const cookie = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0] };
  const own = await s.json('GET', '/api/usage', undefined, cookie);
  assert.deepEqual(own.body, { items: [], total: none });
  assert.equal((await s.json('GET', '/api/admin/usage', undefined, cookie)).status, 403);
  await s.chat({ messages: order({ text: 'x' }) }, as());
  await counted(1);
  const all = await s.json('GET', '/api/admin/usage?days=1');
  assert.ok(all.body.items.some((x) => x.key_id === id && x.user_id));
  assert.equal((await s.json('GET', '/api/usage?days=0')).status, 400);
});

test('by user and day: the same numbers as the rows, put together', async () => {
  await s.chat({ messages: order({ text: 'some words' }) }, as());
  await counted(1);
  const today = Math.floor(Date.now() / 86400000);
  const rows = [[today - 29, 7, 3, 4, 1, 5], [today - 29, 8, 1, 10, 0, 20], [today - 3, 0, 2, 6, 0, 8], [today - 30, 0, 9, 9, 9, 9]];
  execFileSync(python, ['-c', `import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.executemany("INSERT INTO usage (user_id, day, key_id, requests, prompt_tokens, cached_tokens, completion_tokens) VALUES (1, ?, ?, ?, ?, ?, ?)", json.loads(sys.argv[2]))
db.commit()`, path.join(s.dir, 'state/sluice.db'), JSON.stringify(rows)]);
  const daily = (await s.json('GET', '/api/admin/usage/daily?days=30')).body;
  const { items, total } = (await s.json('GET', '/api/admin/usage?days=30')).body;
  assert.deepEqual(daily.total, total);
  assert.equal(daily.from, new Date((today - 29) * 86400000).toISOString().slice(0, 10));
  for (const [name, column] of [['requests', 'requests'], ['prompt_tokens', 'prompt_tokens'], ['completion_tokens', 'completion_tokens']]) {
    for (const u of daily.users) {
      const wanted = Array(30).fill(0);
      for (const x of items.filter((i) => i.user_id === u.user_id)) wanted[Math.round((Date.parse(x.day) - Date.parse(daily.from)) / 86400000)] += x[name];
      assert.deepEqual(u[column], wanted, `${name} of ${u.user_id}`);
    }
  }
  const [first] = daily.users;
  assert.deepEqual([first.requests[0], first.prompt_tokens[0], first.completion_tokens[0], first.requests[26]], [4, 14, 25, 2]);
  assert.deepEqual((await s.json('GET', '/api/admin/usage/daily?days=30&user_id=1')).body.users, [first]);
  assert.deepEqual((await s.json('GET', '/api/admin/usage/daily?user_id=999')).body.users, []);
  for (const query of ['days=0', 'days=367', 'days=x', 'user_id=0', 'user_id=x']) {
    const r = await s.json('GET', `/api/admin/usage/daily?${query}`);
    assert.equal(r.status, 400, query);
    assert.equal(r.body.error.param, query.split('=')[0]);
  }
  const login = await s.json('POST', '/api/login', { name: 'una', password: 'a long password' }, { authorization: null });
  const cookie = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0] };
  assert.equal((await s.json('GET', '/api/admin/usage/daily', undefined, cookie)).status, 403);
  assert.equal((await s.json('POST', '/api/admin/usage/daily', {})).status, 405);
});
