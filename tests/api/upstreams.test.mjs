// Models that other servers answer: relayed, counted, limited and failed as ours are; nothing of the caller goes along.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { png } from './files.mjs';
import { eventually, joined, lasting, program, sleep, start } from './harness.mjs';
import { addUpstream, FakeUpstream, stateOf } from './upstream_rig.mjs';
import { streams } from './upstream_streams.mjs';

const SECRET = 'sk-upstream-very-secret-0123456789';
let server, up;
const ask = (more = {}) => ({ model: 'far', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi.' }], ...more });
const until = (what) => eventually(async () => assert.ok(await what(), `never: ${what}`));
const bent = async (knobs, run) => { up.knobs = knobs; up.seen = []; try { return await run(); } finally { up.knobs = {}; } };
/** A breaker that failed answers opened is closed by an answer. */
const well = async (name = 'near', model = 'far') => { await sleep(300); await until(async () => { await server.chat(ask({ model })); await sleep(100); return (await stateOf(server, name)) === 'ok'; }); };

before(async () => {
  server = await start({ fake: true });
  up = await FakeUpstream.open();
  await addUpstream(server, 'near', up.url, [{ model: 'far', remote: 'far-away/model' }], { key: SECRET });
});
after(async () => { await server?.stop(); await up?.stop(); });

test('an answer of an upstream comes whole, with its own count', async () => {
  const r = await server.chat(ask());
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.model, 'far');
  assert.equal(r.body.choices[0].message.content, 'Hello you');
  assert.equal(r.body.choices[0].finish_reason, 'stop');
  assert.equal(r.body.usage.prompt_tokens, 11);
  assert.equal(r.body.usage.completion_tokens, 7);
  assert.equal(r.body.usage.prompt_tokens_details.cached_tokens, 4);
});

test('an answer of an upstream comes as a stream, piece by piece', async () => {
  const r = await bent({ reasoning: ['th', 'ink'], delay: 5 }, () => server.stream(ask({ stream_options: { include_usage: true } })));
  const j = joined(r.chunks);
  assert.equal(j.content, 'Hello you');
  assert.equal(j.reasoning, 'think');
  assert.deepEqual(j.finish, ['stop']);
  assert.ok(r.chunks.filter((c) => c.choices[0]?.delta?.content).length >= 3, 'pieces are passed on as they come');
  assert.equal(r.chunks.at(-1).usage.completion_tokens, 7);
  assert.equal(r.done, true);
});

test('the upstream gets its own key and name of the model, and nothing of who asked', async () => {
  await bent({}, () => server.chat(ask({ user: 'ada@example.org', metadata: { a: 'b' }, safety_identifier: 'ada', store: true, temperature: 0.3, seed: 5, max_tokens: 9 }),
    { cookie: 'session=mine', 'x-forwarded-for': '203.0.113.9', 'user-agent': 'my-agent' }));
  const [{ headers, body, path: where }] = up.seen;
  assert.equal(where, '/v1/chat/completions');
  assert.equal(headers.authorization, `Bearer ${SECRET}`);
  assert.deepEqual(Object.keys(headers).sort(), ['accept', 'authorization', 'content-length', 'content-type', 'host', 'user-agent', 'via']);
  assert.match(headers.via, /^1\.1 sluice-[0-9a-f]{16}$/); // a number that it drew, for circles
  assert.equal(headers['user-agent'], 'sluice');
  assert.deepEqual(Object.keys(body).sort(), ['max_tokens', 'messages', 'model', 'seed', 'stream', 'stream_options', 'temperature']);
  assert.equal(body.model, 'far-away/model');
  assert.equal(body.temperature, 0.3);
  assert.deepEqual(body.messages, [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi.' }]);
  const text = JSON.stringify(up.seen);
  for (const mine of [server.key, 'ada', '203.0.113.9', '127.0.0.1:' + server.port]) assert.ok(!text.includes(mine), mine);
});

test('the key is sealed in the database and never shown again', async () => {
  const list = await server.json('GET', '/api/admin/upstreams');
  assert.ok(!list.text.includes(SECRET));
  assert.equal(list.body.items[0].has_key, true);
  for (const name of ['sluice.db', 'sluice.db-wal', 'upstreams.json']) {
    try { assert.ok(!readFileSync(path.join(server.dir, 'state', name)).includes(SECRET), name); } catch (e) { if (e.code !== 'ENOENT') throw e; }
  }
  assert.ok(!server.log.includes(SECRET));
});

test('tool calls come back as ours do, several of them, and results go along', async () => {
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
  const calls = [{ index: 0, id: 'a', function: { name: 'look', arguments: '{"at"' } }, { index: 0, function: { arguments: ':"sea"}' } }, { index: 1, id: 'b', function: { name: 'look', arguments: '{}' } }];
  const r = await bent({ words: [], calls }, () => server.stream(ask({ tools, tool_choice: 'required' })));
  const j = joined(r.chunks);
  assert.deepEqual(j.calls.map((c) => [c.name, c.arguments]), [['look', '{"at":"sea"}'], ['look', '{}']]);
  assert.deepEqual(j.finish, ['tool_calls']);
  assert.equal(up.seen.length, 0 || up.seen.length);
  const whole = await bent({ words: ['x'] }, () => server.chat({ model: 'far', tools, messages: [
    { role: 'user', content: 'Look.' }, { role: 'assistant', content: null, tool_calls: [{ id: j.calls[0].id, type: 'function', function: { name: 'look', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: j.calls[0].id, content: 'blue' }] }).then((x) => ({ x, seen: up.seen })));
  assert.equal(whole.x.status, 200, whole.x.text);
  assert.equal(whole.seen[0].body.messages[2].tool_call_id, j.calls[0].id);
  assert.equal(whole.seen[0].body.messages[1].tool_calls[0].function.name, 'look');
});

test('/v1/models lists it beside our own; a name that is nobody\'s is 404', async () => {
  const list = await server.json('GET', '/v1/models');
  assert.ok(list.body.data.some((m) => m.id === 'far' && m.sluice.relayed));
  assert.ok(list.body.data.length >= 2);
  assert.equal((await server.json('GET', '/v1/models/far')).body.id, 'far');
  const r = await server.chat(ask({ model: 'further' }));
  assert.equal(r.status, 404);
  assert.equal(r.body.error.code, 'model_not_found');
});

test('Responses, Anthropic\'s and Ollama\'s dialects answer with it as well', async () => {
  const responses = await server.json('POST', '/v1/responses', { model: 'far', input: 'Hi.' });
  assert.equal(responses.status, 200, responses.text);
  assert.equal(responses.body.output.at(-1).content[0].text, 'Hello you');
  assert.equal(responses.body.model, 'far');
  const messages = await server.json('POST', '/v1/messages', { model: 'far', max_tokens: 20, messages: [{ role: 'user', content: 'Hi.' }] });
  assert.equal(messages.status, 200, messages.text);
  assert.equal(messages.body.content.at(-1).text, 'Hello you');
  const ollama = await server.json('POST', '/api/chat', { model: 'far', stream: false, messages: [{ role: 'user', content: 'Hi.' }] });
  assert.equal(ollama.status, 200, ollama.text);
  assert.equal(ollama.body.message.content, 'Hello you');
  const tags = await server.json('GET', '/api/tags');
  assert.ok(tags.body.models.some((m) => m.name === 'far:latest'));
});

test('what only our own engine can do is refused by name', async () => {
  for (const [field, value] of [['logit_bias', { 5: 1 }], ['grammar', 'root ::= "a"'], ['stop_token_ids', [3]], ['experts_per_token', 2]]) {
    const r = await server.chat(ask({ [field]: value }));
    assert.equal(r.status, 400, `${field}: ${r.text}`);
    assert.equal(r.body.error.param, field);
  }
  assert.equal((await server.json('POST', '/v1/messages/count_tokens', { model: 'far', messages: [{ role: 'user', content: 'Hi.' }] })).status, 400);
});

test('a text goes on at an upstream, and what only our own engine can do with it is refused by name', async () => {
  const text = (more) => server.json('POST', '/v1/completions', { model: 'far', prompt: 'Once upon', ...more });
  const { whole, seen } = await bent({}, async () => ({ whole: await text({ max_tokens: 4, stop: ['x'], temperature: 0, cache_salt: 's', best_of: 1 }), seen: up.seen }));
  assert.equal(whole.status, 200, whole.text);
  assert.equal(whole.body.choices[0].text, 'Hello you');
  assert.equal(whole.body.choices[0].finish_reason, 'length');
  assert.deepEqual([whole.body.usage.prompt_tokens, whole.body.usage.completion_tokens], [3, 4]);
  assert.equal(seen[0].path, '/v1/completions');
  assert.deepEqual(Object.keys(seen[0].body).sort(), ['cache_salt', 'max_tokens', 'model', 'prompt', 'stop', 'stream', 'stream_options', 'temperature']);
  const two = await text({ n: 2, stream: true });
  assert.equal(two.text.split('data: {').length - 1 >= 4, true, two.text);
  for (const [field, value] of [['prompt', [1, 2]], ['prompt', ['a', 'b']], ['prompt', ''], ['echo', true], ['logprobs', 1], ['best_of', 2], ['cache_salt', 5], ['grammar', 'root ::= "a"'], ['logit_bias', { 5: 1 }]]) {
    const r = await text({ [field]: value });
    assert.equal(r.status, 400, `${field}: ${r.text}`);
    assert.equal(r.body.error.param, field);
  }
});

test('log probabilities come through where the upstream has them, and are refused by name where it has none', async () => {
  const item = (w) => ({ token: w, logprob: -0.25, bytes: [...Buffer.from(w)], top_logprobs: [{ token: w, logprob: -0.25, bytes: [...Buffer.from(w)] }, { token: '\u00e9', logprob: -2.5, bytes: [195, 169] }], secret: 'x' });
  const wanted = { logprobs: true, top_logprobs: 2 }, words = ['Hel', 'lo'];
  const known = words.map((w) => { const { secret, ...rest } = item(w); return rest; });
  const whole = await bent({ logprobs: item, words, reasoning: ['hm'] }, async () => ({ r: await server.chat(ask(wanted)), seen: up.seen }));
  assert.equal(whole.r.status, 200, whole.r.text);
  assert.equal(whole.r.body.choices[0].message.content, 'Hello');
  assert.deepEqual(whole.r.body.choices[0].logprobs.content, known);
  assert.equal(whole.seen[0].body.top_logprobs, 2);
  const stream = await bent({ logprobs: item, words, delay: 5 }, () => server.stream(ask(wanted)));
  assert.equal(joined(stream.chunks).content, 'Hello');
  assert.deepEqual(stream.chunks.flatMap((c) => c.choices[0]?.logprobs?.content ?? []), known);
  const together = await bent({ logprobs: (w) => (w === 'Hel' ? words.map(item) : null), words, delay: 5 }, () => server.chat(ask(wanted))); // a Sluice's items all go with an event's first piece
  assert.equal(together.status, 200, together.text);
  assert.equal(together.body.choices[0].message.content, 'Hello');
  assert.deepEqual(together.body.choices[0].logprobs.content, known);
  const none = await server.chat(ask(wanted));
  assert.equal(none.status, 400, none.text);
  assert.equal(none.body.error.param, 'logprobs');
  assert.equal(await stateOf(server, 'near'), 'ok', 'that was not its fault');
});

test('a request that comes back here is found out, and other proxies\' names stay here', async () => {
  await addUpstream(server, 'mirror', `${server.url}/v1`, ['round'], { key: server.key });
  const r = await server.chat(ask({ model: 'round' }));
  assert.equal(r.status, 508, r.text);
  assert.equal(r.body.error.code, 'upstream_loop');
  assert.equal(r.body.error.reason, 'upstream_loop');
  assert.equal(await stateOf(server, 'mirror'), 'ok');
  const other = '1.1 sluice-0123456789abcdef';
  const [{ headers }] = await bent({}, async () => { await server.chat(ask(), { via: `1.1 proxy.corp.example (squid), ${other}, 1.1 sluice-short` }); return up.seen; });
  assert.match(headers.via, new RegExp(`^${other}, 1\\.1 sluice-[0-9a-f]{16}$`));
  const long = await server.chat(ask(), { via: Array(16).fill(other).join(', ') });
  assert.equal(long.status, 508, long.text);
});

test('an admin sees answers of other servers among the jobs, without their words, and ends one', async () => {
  await bent({ words: Array(5000).fill('secret '), delay: 20 }, async () => {
    const asked = Date.now() / 1000 - 1, running = server.stream(ask());
    let job;
    const jobs = async () => (await server.json('GET', '/api/admin/status')).body.jobs;
    await until(async () => { job = (await jobs()).find((j) => j.upstream === 'near' && j.completion_tokens > 2); return Boolean(job); });
    assert.equal(job.state, 'decode');
    assert.ok(job.started >= asked && job.started <= Date.now() / 1000 + 1, `${job.started}`);
    assert.ok(!JSON.stringify(job).includes('secret'));
    assert.equal((await server.request('DELETE', `/api/admin/jobs/${job.id}`)).status, 204);
    const r = await running;
    assert.ok(r.done && joined(r.chunks).content.startsWith('secret '), r.raw.slice(-200));
    await until(() => up.open === 0);
    assert.equal((await server.json('DELETE', `/api/admin/jobs/${job.id}`)).status, 404);
    await until(async () => !(await jobs()).some((j) => j.id === job.id));
  });
});

test('a client that leaves ends the upstream\'s work at once', async () => {
  await bent({ words: Array(5000).fill('w '), delay: 20 }, async () => {
    const gone = up.gone;
    const stop = new AbortController();
    const r = server.stream(ask(), { signal: stop.signal, onChunk: (c) => { if (c.choices[0]?.delta?.content) stop.abort(); } });
    await assert.rejects(r);
    await until(() => up.gone > gone);
  });
  await well();
});

// ---- what goes wrong

const failure = async (knobs, more = {}) => bent(knobs, () => server.chat(ask(more)));

test('an upstream that refuses our key is no 401 of the client\'s', async () => {
  const r = await failure({ status: 401, body: { error: { message: `bad key ${SECRET}` } } });
  assert.equal(r.status, 502, r.text);
  assert.equal(r.body.error.reason, 'upstream_key');
  assert.ok(!r.text.includes(SECRET));
  assert.ok(!server.log.includes(SECRET));
});

test('each failure has its status: 400, 404, 429, 500', async () => {
  const bad = await failure({ status: 400, body: { error: { message: 'temperature is too hot' } } });
  assert.equal(bad.status, 400);
  assert.match(bad.body.error.message, /too hot/);
  const long = await failure({ status: 400, body: { error: { message: 'too long', code: 'context_length_exceeded' } } });
  assert.equal(long.body.error.code, 'context_length_exceeded');
  const none = await failure({ status: 404 });
  assert.equal(none.status, 502);
  assert.equal(none.body.error.reason, 'upstream_model');
  const own = await failure({ status: 500, body: { error: { message: 'stack trace of 10.0.0.7' } } });
  assert.equal(own.status, 502);
  assert.ok(!own.text.includes('10.0.0.7'), 'what is behind this server is nobody\'s business');
  await well();
});

test('rubbish, an endless line and an error in the stream end the answer with an error', async () => {
  for (const raw of ['data: {"what": "is this"}\n\n', 'data: {{{{\n\n', 'hello\n\nworld\n\n', 'data: [1,2]\n\n']) {
    const r = await failure({ raw });
    assert.equal(r.status, 502, `${raw}: ${r.text}`);
    await well();
  }
  const endless = await failure({ raw: `data: ${'x'.repeat(6 << 20)}` });
  assert.equal(endless.status, 502, endless.text);
  await well();
  const inside = await failure({ raw: 'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"error":{"message":"CUDA out of memory"}}\n\n' });
  assert.equal(inside.status, 502);
  assert.ok(!inside.text.includes('CUDA'));
  await well();
});

test('a stream that dies in the middle ends with an error event, and keeps what came', async () => {
  const r = await bent({ words: ['a', 'b', 'c', 'd'], delay: 10, dieAfter: 2 }, () => server.stream(ask()));
  assert.equal(joined(r.chunks.filter((c) => c.choices)).content, 'ab');
  assert.ok(r.raw.includes('"error"'), r.raw);
  await well();
});

test('an upstream that hangs is given up in its time', async () => {
  const slowOne = await FakeUpstream.open({ hang: 600000 });
  const { id } = await addUpstream(server, 'slow', slowOne.url, ['sleepy'], { first_byte_ms: 500, idle_ms: 400 });
  const r = await server.chat(ask({ model: 'sleepy' }));
  assert.equal(r.status, 504, r.text);
  assert.equal(r.body.error.reason, 'upstream_timeout');
  assert.equal((await server.json('PATCH', `/api/admin/upstreams/${id}`, { first_byte_ms: 60000 })).status, 200); // its first piece is not to be late
  slowOne.knobs = { words: ['a', 'b'], silentAfter: 1 };
  const s = await server.stream(ask({ model: 'sleepy' }));
  assert.ok(s.raw.includes('"error"'), s.raw);
  await slowOne.stop();
});

test('an upstream that nobody listens on is 503, and its breaker opens', async () => {
  const dead = await FakeUpstream.open();
  await addUpstream(server, 'dead', dead.url, ['lost']);
  assert.equal((await server.chat(ask({ model: 'lost' }))).status, 200);
  await dead.kill();
  const r = await server.chat(ask({ model: 'lost' }));
  assert.equal(r.status, 503, r.text);
  assert.ok(r.headers.get('retry-after'));
  await until(async () => (await stateOf(server, 'dead')) !== 'ok');
});

test('without one in whom the fault lies the next upstream answers: no error before the first piece', async () => {
  const [a, b] = [await FakeUpstream.open({ words: ['A'] }), await FakeUpstream.open({ words: ['B'] })];
  await addUpstream(server, 'first', a.url, [{ model: 'pair', priority: 0 }]);
  await addUpstream(server, 'second', b.url, [{ model: 'pair', priority: 1 }]);
  const text = async () => (await server.chat(ask({ model: 'pair' }))).body.choices?.[0].message.content;
  assert.equal(await text(), 'A');
  for (const knobs of [{ status: 500 }, { status: 429, head: { 'retry-after': '1' } }, { raw: 'data: {{\n\n' }, { status: 404 }, { dieAfter: 0, words: ['A'] }]) {
    a.knobs = knobs;
    assert.equal(await text(), 'B', JSON.stringify(knobs));
    a.knobs = { words: ['A'] };
    await sleep(1200);
    await well('first', 'pair');
  }
  await a.kill();
  assert.equal(await text(), 'B');
  // Drained: no new answers; the one that runs goes on.
  b.knobs = { words: ['x', 'y', 'z'], delay: lasting(300) };
  const id = (await server.json('GET', '/api/admin/upstreams')).body.items.find((u) => u.name === 'second').id;
  const running = server.chat(ask({ model: 'pair' }));
  await until(() => b.open === 1);
  assert.equal((await server.json('PATCH', `/api/admin/upstreams/${id}`, { drained: true })).status, 200);
  await until(async () => (await server.chat(ask({ model: 'pair' }))).status === 503);
  assert.equal((await running).body.choices[0].message.content, 'xyz');
  await b.stop();
});

test('a trial that has begun to answer lets others in, and a good probe does not close what answers opened', async () => {
  const sick = await FakeUpstream.open({ status: 500 });
  await addUpstream(server, 'sick', sick.url, ['ill']);
  for (let i = 0; i < 3; i++) assert.equal((await server.chat(ask({ model: 'ill' }))).status, 502);
  assert.equal((await server.chat(ask({ model: 'ill' }))).status, 503);
  sick.knobs = { words: Array(40).fill('w '), delay: lasting(100) };
  await sleep(1500);
  const seen = sick.seen.length;
  assert.notEqual(await stateOf(server, 'sick'), 'ok', 'its list of models is well, its answers are not known to be');
  let ended = false;
  const long = server.stream(ask({ model: 'ill' })).finally(() => { ended = true; });
  await until(() => sick.seen.length > seen);
  sick.knobs = { words: ['b'] };
  await until(async () => (await server.chat(ask({ model: 'ill' }))).status === 200);
  assert.equal(ended, false, 'beside it, not after it');
  assert.equal(joined((await long).chunks).content, 'w '.repeat(40));
  await sick.stop();
});

test('an upstream takes as many answers at once as it may, the others wait', async () => {
  const one = await FakeUpstream.open({ words: ['a'], delay: 100 });
  await addUpstream(server, 'narrow', one.url, ['thin'], { max_streams: 2 });
  const all = await Promise.all(Array.from({ length: 8 }, () => server.chat(ask({ model: 'thin' }))));
  assert.deepEqual(all.map((r) => r.status), Array(8).fill(200));
  assert.equal(one.most, 2);
  await one.stop();
});

test('turns of a conversation go to one upstream, and conversations are spread', async () => {
  const list = [await FakeUpstream.open(), await FakeUpstream.open(), await FakeUpstream.open()];
  for (const [i, u] of list.entries()) await addUpstream(server, `spread${i}`, u.url, ['many']);
  for (let c = 0; c < 24; c++) {
    const messages = [{ role: 'user', content: `Conversation ${c}` }];
    for (let turn = 0; turn < 3; turn++) {
      const r = await server.chat({ model: 'many', messages });
      assert.equal(r.status, 200, r.text);
      messages.push({ role: 'assistant', content: 'Hello you' }, { role: 'user', content: `more ${turn}` });
    }
  }
  const places = new Map();
  for (const [i, u] of list.entries()) for (const s of u.seen) {
    const first = s.body.messages[0].content;
    places.set(first, (places.get(first) ?? new Set()).add(i));
  }
  assert.equal(places.size, 24);
  assert.deepEqual([...places.values()].map((p) => p.size), Array(24).fill(1));
  assert.ok(list.every((u) => u.seen.length >= 6), list.map((u) => u.seen.length).join());
  for (const u of list) await u.stop();
});

// ---- whose, how much

test('a model for some users is not there for the others', async () => {
  const made = await server.json('POST', '/api/users', { name: 'eve', password: 'a long password' });
  assert.equal(made.status, 201, made.text);
  const key = execFileSync(program('sluice'), ['key', 'add', 'eve', '--state', path.join(server.dir, 'state'), '--name', 'k', '--json'], { encoding: 'utf8' });
  const eve = { authorization: `Bearer ${JSON.parse(key).key}` };
  const model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far');
  const set = (body) => server.json('PATCH', `/api/admin/registry/${model.id}`, body);
  assert.equal((await server.chat(ask(), eve)).status, 200);
  assert.equal((await set({ everyone: false })).status, 200);
  assert.equal((await server.chat(ask(), eve)).status, 404);
  assert.ok(!(await server.json('GET', '/v1/models', undefined, eve)).body.data.some((m) => m.id === 'far'));
  assert.equal((await server.chat(ask())).status, 200, 'admins may');
  assert.equal((await set({ users: [Number(made.body.id)], aliases: ['distant'] })).status, 200);
  assert.equal((await server.chat(ask({ model: 'distant' }), eve)).body.model, 'far');
  assert.equal((await set({ everyone: true, users: [], aliases: [] })).status, 200);
});

test('what the upstream counts is what the user has used', async () => {
  const { body: { id, key } } = await server.json('POST', '/api/keys', { name: 'counted' }); // of its own: what the tests before used is counted when it is
  const counted = (more) => bent({ usage: { prompt_tokens: 1000, completion_tokens: 234 } }, async () => (await server.request('POST', '/v1/chat/completions', ask(more), { authorization: `Bearer ${key}` })).text());
  const used = (n) => eventually(async () => assert.equal((await server.json('GET', '/api/usage')).body.items.filter((d) => d.key_id === id).reduce((sum, d) => sum + d.prompt_tokens + d.completion_tokens, 0), n));
  await counted();
  await used(1234);
  await counted({ stream: true });
  await used(2468);
});

const usedBy = async (headers) => (await server.json('GET', '/api/usage', undefined, headers)).body.items.reduce((n, d) => n + d.prompt_tokens + d.completion_tokens, 0);

test('a wild count is bounded by what was asked for', async () => {
  const wild = { usage: { prompt_tokens: 999999999, completion_tokens: 999999999 } };
  const r = await bent(wild, () => server.chat(ask({ max_tokens: 40 })));
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.usage.completion_tokens, 40);
  assert.ok(r.body.usage.prompt_tokens < 70000, r.text);
});

test('an answer that breaks off, or whose client leaves, is counted', async () => {
  const text = 'word '.repeat(4000);
  const messages = [{ role: 'user', content: text }];
  const before = await usedBy();
  await bent({ words: ['a', 'b', 'c', 'd'], delay: 10, dieAfter: 2 }, () => server.stream(ask({ messages })));
  await until(async () => (await usedBy()) >= before + 5002);
  const second = await usedBy();
  await bent({ words: Array(5000).fill('w '), delay: 20 }, async () => {
    const stop = new AbortController();
    await assert.rejects(server.stream(ask({ messages }), { signal: stop.signal, onChunk: (c) => { if (c.choices[0]?.delta?.content) stop.abort(); } }));
  });
  await until(async () => (await usedBy()) > second + 5000);
  const third = await usedBy();
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far' } });
  await bent({ words: ['a', 'b'], delay: 10, dieAfter: 1 }, () => server.request('POST', `/api/conversations/${made.body.id}/messages`, { content: text }).then((r) => r.text()));
  await until(async () => (await usedBy()) > third + 5000);
  await well();
});

test('an image goes on as itself only: an address of the other server\'s network does not', async () => {
  const model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: true })).status, 200);
  const see = (url) => bent({}, async () => ({ r: await server.chat(ask({ messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url } }] }] })), seen: up.seen }));
  for (const url of ['http://169.254.169.254/latest', 'https://example.org/a.png', 'file:///etc/passwd', 'data:text/html;base64,QUJD', 'data:image/png,QUJD', 'data:image/png;base64,', 'data:image/png;base64,http://h/', 'data:image/png;x,;base64,QUJD']) {
    const { r, seen } = await see(url);
    assert.equal(r.status, 400, `${url}: ${r.text}`);
    assert.equal(r.body.error.param, 'messages[0].content[1].image_url');
    assert.equal(seen.length, 0);
  }
  const big = await bent({ usage: null }, async () => ({ r: await server.chat(ask({ messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(400000)}` } }] }] })), seen: up.seen }));
  assert.equal(big.r.status, 200, big.r.text);
  assert.equal(big.seen[0].body.messages[0].content[1].image_url.url.length, 400022);
  assert.ok(big.r.body.usage.prompt_tokens < 2000, big.r.text);
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: false })).status, 200);
});

test('pictures of a conversation go to a model that sees as themselves', async () => {
  const put = await fetch(`${server.url}/api/attachments?name=dot.png`, { method: 'POST', body: png, headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/octet-stream' } });
  assert.equal(put.status, 201);
  const { id } = await put.json();
  const model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far');
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far' } });
  const post = (body) => bent({}, async () => { const r = await server.request('POST', `/api/conversations/${made.body.id}/messages`, body); return { status: r.status, text: await r.text(), seen: up.seen }; });
  const blind = await post({ content: 'What is it?', attachments: [id] });
  assert.equal(blind.status, 400, blind.text);
  assert.equal(JSON.parse(blind.text).error.param, 'attachments');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: true })).status, 200);
  const url = `data:image/png;base64,${png.toString('base64')}`;
  const seen = await post({ content: 'What is it?', attachments: [id] });
  assert.match(seen.text, /event: done/);
  assert.deepEqual(seen.seen[0].body.messages, [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }, { type: 'text', text: 'What is it?' }] }]);
  const leaf = (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1).id;
  const again = await post({ content: 'And now?', parent_id: leaf });
  assert.equal(again.seen[0].body.messages[0].content[0].image_url.url, url, again.text);
  assert.equal(again.seen[0].body.messages.at(-1).content, 'And now?');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: false })).status, 200);
  const named = await post({ content: 'And then?', parent_id: (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1).id });
  assert.match(named.seen[0].body.messages[0].content, /Attached image: dot\.png \(not shown\)/);
});

test('a conversation\'s functions are not offered to a model that calls none', async () => {
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
  const model = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far');
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far', tools } });
  assert.equal(made.status, 201, made.text);
  const post = () => server.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'Hi.' }).then(async (r) => ({ status: r.status, text: await r.text() }));
  const with_ = await bent({}, async () => ({ r: await post(), seen: up.seen }));
  assert.equal(with_.seen[0].body.tools[0].function.name, 'look');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { tools: false })).status, 200);
  const without = await post();
  assert.equal(without.status, 400, without.text);
  assert.equal(JSON.parse(without.text).error.reason, 'model_without_tools');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${model.id}`, { tools: true })).status, 200);
});

test('requests that wait for an upstream have a budget of memory', async () => {
  const mute = await FakeUpstream.open({ hang: 600000 });
  await addUpstream(server, 'mute', mute.url, ['silent']);
  const content = 'x'.repeat(15 << 20);
  const stop = new AbortController();
  const wait = async () => { // asked again where the machine is too busy to hand on 15 MiB in 10 s
    for (let r; !stop.signal.aborted && (!r || r.status === 503);) r = await server.stream(ask({ model: 'silent', messages: [{ role: 'user', content }] }), { signal: stop.signal }).catch(() => ({}));
  };
  const running = [0, 1, 2, 3].map(wait);
  await until(() => mute.open === 4);
  const r = await server.chat(ask({ model: 'silent', messages: [{ role: 'user', content }] }));
  assert.equal(r.status, 429, r.text);
  assert.equal(r.body.error.reason, 'upstream_busy');
  stop.abort();
  await Promise.all(running);
  await until(() => mute.open === 0);
  await mute.stop();
});

test('the answers of a user who is disabled end, detached or not', async () => {
  const made = await server.json('POST', '/api/users', { name: 'mallory', password: 'a long password' });
  const key = JSON.parse(execFileSync(program('sluice'), ['key', 'add', 'mallory', '--state', path.join(server.dir, 'state'), '--name', 'k', '--json'], { encoding: 'utf8' })).key;
  await bent({ words: Array(5000).fill('w '), delay: 20 }, async () => {
    const gone = up.gone;
    const running = server.chat(ask(), { authorization: `Bearer ${key}` }).catch(() => {});
    await until(() => up.open === 1);
    assert.equal((await server.json('PATCH', `/api/users/${made.body.id}`, { disabled: true })).status, 200);
    await until(() => up.gone > gone);
    await running;
  });
});

test('a last line without its end is read', async () => {
  const r = await bent({ raw: 'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}' }, () => server.chat(ask()));
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.choices[0].message.content, 'ab');
});

test('an upstream\'s models are written as a whole, and an alias is its model', async () => {
  const other = await FakeUpstream.open();
  const made = await addUpstream(server, 'whole', other.url, ['whole-a', 'whole-b']);
  const names = async () => (await server.json('GET', '/api/admin/upstreams')).body.items.find((u) => u.name === 'whole')?.models.map((m) => m.model).sort();
  const set = (models) => server.json('PATCH', `/api/admin/upstreams/${made.id}`, { models });
  const a = (await server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'whole-a');
  assert.equal((await server.json('PATCH', `/api/admin/registry/${a.id}`, { aliases: ['first-of-all'] })).status, 200);
  assert.equal((await set(['first-of-all'])).status, 200);
  assert.deepEqual(await names(), ['whole-a']);
  for (const models of [['whole-c', 'not a name'], ['whole-c', ''], ['whole-c', 'x'.repeat(200)], ['whole-c', 'whole-a', 'first-of-all']]) {
    const r = await set(models);
    assert.equal(r.status, 400, r.text);
    assert.equal(r.body.error.param, 'models');
    assert.deepEqual(await names(), ['whole-a']);
  }
  const r = await server.json('POST', '/api/admin/upstreams', { name: 'half', url: other.url, models: ['whole-a', 'first-of-all'] });
  assert.equal(r.status, 400, r.text);
  const list = await server.json('GET', '/api/admin/upstreams');
  assert.ok(!list.body.items.some((u) => u.name === 'half'), 'nothing of it was written');
  assert.ok(!(await server.json('GET', '/api/admin/registry')).body.items.some((m) => m.name === 'whole-c'));
  assert.equal((await set([])).status, 200);
  assert.deepEqual(await names(), []);
  await other.stop();
});

test('bad input of an admin names its field', async () => {
  for (const [body, param] of [
    [{ url: up.url }, 'name'], [{ name: 'x', url: 'ftp://x' }, 'url'], [{ name: 'x', url: 'https://u:p@h/' }, 'url'], [{ name: 'x', url: 'http://h/?a=b' }, 'url'],
    [{ name: 'x', url: up.url, dialect: 'soap' }, 'dialect'], [{ name: 'x', url: up.url, key: 'a\nb' }, 'key'], [{ name: 'x', url: up.url, max_streams: -1 }, 'max_streams'],
    [{ name: 'x', url: up.url, models: [{ model: 'a', weight: 0 }] }, 'weight'], [{ name: 'x', url: up.url, what: 1 }, 'what'], [{ name: 'x' }, 'url'],
  ]) {
    const r = await server.json('POST', '/api/admin/upstreams', body);
    assert.equal(r.status, 400, `${JSON.stringify(body)}: ${r.text}`);
    assert.equal(r.body.error.param, param);
  }
  assert.equal((await server.json('POST', '/api/admin/upstreams', { name: 'near', url: up.url })).status, 409);
  assert.equal((await server.json('DELETE', '/api/admin/upstreams/99999')).status, 404);
});

test('a certificate that nobody signed is refused before the key is sent', async () => {
  const at = (name) => path.join(server.dir, name);
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1',
    '-keyout', at('up.key'), '-out', at('up.pem')], { stdio: 'ignore' });
  let asked = 0;
  const other = https.createServer({ key: readFileSync(at('up.key')), cert: readFileSync(at('up.pem')) }, (req, res) => { asked++; res.end('{}'); });
  await new Promise((done) => { other.listen(0, '127.0.0.1', done); });
  other.unref();
  await addUpstream(server, 'unsigned', `https://127.0.0.1:${other.address().port}/v1`, ['unsigned'], { key: SECRET });
  const r = await server.chat(ask({ model: 'unsigned' }));
  assert.equal(r.status, 503, r.text);
  assert.equal(asked, 0);
  await until(async () => /certificate/i.test((await server.json('GET', '/api/admin/upstreams')).text));
  await new Promise((done) => { other.close(done); other.closeAllConnections(); });
});

test('redirects are not followed', async () => {
  const r = await failure({ status: 307, head: { location: 'http://127.0.0.1:1/' } });
  assert.equal(r.status, 502, r.text);
  await well();
});

test('Anthropic\'s and Ollama\'s servers are upstreams too', async () => {
  const tools = [{ type: 'function', function: { name: 'look', description: 'looks', parameters: { type: 'object', properties: { at: { type: 'string' } } } } }];
  const other = await FakeUpstream.open({ calls: true });
  await addUpstream(server, 'claude', other.url, [{ model: 'far-claude', remote: 'claude-x' }], { dialect: 'anthropic', key: SECRET });
  await addUpstream(server, 'llama', other.url.replace('/v1', ''), [{ model: 'far-llama', remote: 'llama3' }], { dialect: 'ollama' });
  const messages = [{ role: 'system', content: 'S' }, { role: 'user', content: 'Look.' }, { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'grey' }];
  for (const model of ['far-claude', 'far-llama']) {
    const r = await server.chat({ model, messages, tools, max_tokens: 50 });
    assert.equal(r.status, 200, r.text);
    const m = r.body.choices[0].message;
    for (const [path, body, param] of [['/v1/completions', { model, prompt: 'x' }, 'model'], ['/v1/chat/completions', { model, messages, logprobs: true }, 'logprobs'], ['/v1/chat/completions', { model, messages, cache_salt: 's' }, 'cache_salt']]) {
      const none = await server.json('POST', path, body);
      assert.equal(none.status, 400, none.text);
      assert.equal(none.body.error.param, param);
    }
    assert.equal(m.content, 'Hello');
    assert.equal(m.reasoning_content, 'hm');
    assert.deepEqual(m.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]), [['look', { at: 'sea' }]]);
    assert.equal(r.body.usage.prompt_tokens, 11);
    assert.equal(r.body.choices[0].finish_reason, 'tool_calls');
  }
  const [claude, llama] = other.seen;
  assert.equal(claude.headers['x-api-key'], SECRET);
  assert.equal(claude.headers['anthropic-version'], '2023-06-01');
  assert.equal(claude.headers.authorization, undefined);
  assert.equal(claude.body.model, 'claude-x');
  assert.equal(claude.body.max_tokens, 50);
  assert.deepEqual(claude.body.system, [{ type: 'text', text: 'S' }]);
  assert.deepEqual(claude.body.messages.map((m) => [m.role, m.content[0].type]), [['user', 'text'], ['assistant', 'tool_use'], ['user', 'tool_result']]);
  assert.equal(llama.path, '/api/chat');
  assert.equal(llama.body.options.num_predict, 50);
  assert.deepEqual(llama.body.messages[2].tool_calls[0].function.arguments, { at: 'sky' });
  assert.equal(llama.body.messages[3].tool_name, 'look');
  await other.stop();
});

test('streams of vLLM, SGLang, routers, Anthropic and Ollama are read with what each adds and leaves out', async () => {
  const other = await FakeUpstream.open();
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
  for (const dialect of ['openai', 'anthropic', 'ollama']) await addUpstream(server, `wire-${dialect}`, other.url.replace('/v1', ''), [`as-${dialect}`], { dialect });
  for (const s of streams) {
    other.knobs = { raw: s.raw };
    const model = `as-${s.dialect}`;
    const r = await server.chat(ask({ model, tools, max_tokens: 200 }));
    if (s.error) {
      assert.equal(r.status, 502, `${s.name}: ${r.text}`);
      assert.equal(r.body.error.reason, s.error, s.name);
      other.knobs = { raw: streams.find((w) => w.dialect === s.dialect && w.finish === 'length').raw };
      assert.equal((await server.chat(ask({ model }))).status, 200, 'one failure opens no breaker');
      continue;
    }
    assert.equal(r.status, 200, `${s.name}: ${r.text}`);
    const { message, finish_reason } = r.body.choices[0];
    assert.equal(message.content ?? '', s.content, s.name);
    assert.equal(message.reasoning_content ?? '', s.reasoning ?? '', s.name);
    assert.deepEqual((message.tool_calls ?? []).map((c) => [c.function.name, c.function.arguments]), s.calls ?? [], s.name);
    assert.equal(finish_reason, s.finish, s.name);
    const { prompt_tokens, completion_tokens, prompt_tokens_details: { cached_tokens } } = r.body.usage;
    if (s.usage) assert.deepEqual([prompt_tokens, cached_tokens, completion_tokens], s.usage, s.name);
    else assert.ok(prompt_tokens > 0 && completion_tokens > 0, s.name);
    const live = joined((await server.stream(ask({ model, tools, max_tokens: 200 }))).chunks);
    assert.deepEqual([live.content, live.reasoning, live.finish], [s.content, s.reasoning ?? '', [s.finish]], `${s.name}, streamed`);
  }
  await other.stop();
});

// ---- the page's conversations

test('a conversation remembers its model; its answers are detached, kept, and say who gave them', async () => {
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far', temperature: 0.5 } });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.body.settings.model, 'far');
  const events = await bent({ reasoning: ['hm'] }, () => server.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'Hi.' }).then((r) => r.text()));
  assert.match(events, /event: done/);
  const whole = (await server.json('GET', `/api/conversations/${made.body.id}`)).body;
  const answer = whole.messages.at(-1);
  assert.equal(answer.content, 'Hello you');
  assert.equal(answer.reasoning, 'hm');
  assert.equal(answer.model, 'far');
  assert.equal(answer.status, 'done');
  assert.equal(answer.usage.completion_tokens, 7);
  // A client that leaves does not end it, and another reads it from its beginning.
  up.knobs = { words: Array(20).fill('w '), delay: 50 };
  const stop = new AbortController();
  const first = await fetch(`${server.url}/api/conversations/${made.body.id}/messages`, { method: 'POST', signal: stop.signal, body: JSON.stringify({ content: 'More.' }), headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' } });
  const reader = first.body.getReader();
  let text = '';
  while (!text.includes('event: delta')) {
    const { value, done } = await reader.read();
    assert.ok(!done, text);
    text += new TextDecoder().decode(value);
  }
  const id = /"message":\{"id":"(\d+)"/.exec(text.slice(text.indexOf('"message":')))[1];
  stop.abort();
  const again = await (await server.request('GET', `/api/messages/${id}/stream`)).text();
  assert.match(again, /event: done/);
  const row = (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1);
  assert.equal(row.content, 'w '.repeat(20));
  // Stopped by its user.
  up.knobs = { words: Array(2000).fill('w '), delay: 50 };
  const running = server.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'Once more.' }).then((r) => r.text());
  const current = await eventually(async () => {
    const last = (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1);
    assert.ok(last.status === 'running' && last.content.length >= 2, JSON.stringify(last));
    return last;
  });
  assert.equal((await server.json('POST', `/api/messages/${current.id}/stop`)).status, 202);
  await running;
  const stopped = (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1);
  assert.equal(stopped.status, 'stopped');
  assert.ok(stopped.content.length >= 2);
  const resumed = await server.json('POST', `/api/conversations/${made.body.id}/messages`, { continue: stopped.id });
  assert.equal(resumed.status, 400);
  assert.equal(resumed.body.error.reason, 'continue_relayed');
  up.knobs = {};
  await well();
});

test('an answer that fails says why in its row', async () => {
  const made = await server.json('POST', '/api/conversations', { settings: { model: 'far' } });
  const events = await bent({ words: ['a', 'b'], delay: 10, dieAfter: 1 }, () => server.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'Hi.' }).then((r) => r.text()));
  assert.match(events, /event: error/);
  const row = (await server.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1);
  assert.equal(row.status, 'error');
  assert.equal(row.content, 'a');
  assert.equal(row.error_detail.code, 'upstream_broken');
  await well();
});

test('the operator\'s command adds, lists, tests, drains and removes', async () => {
  const other = await FakeUpstream.open();
  const run = (...args) => new Promise((done, fail) => { // not execFileSync: the upstream lives in this process
    const child = execFile(program('sluice'), [...args, '--state', path.join(server.dir, 'state')], (e, stdout, stderr) => (e ? fail(new Error(stderr)) : done(stdout)));
    child.stdin.on('error', () => {}); // one that is refused early reads nothing
    child.stdin.end(`${SECRET}\n`);
  });
  await run('upstream', 'add', 'cli', other.url, '--models', 'typed=typed-far,plain', '--key-file', '-');
  assert.match(await run('upstream', 'list'), /cli .*plain,typed/);
  assert.match(await run('models'), /typed/);
  await eventually(async () => assert.match(await run('upstream', 'test', 'cli'), /cli answers as plain/), 100);
  assert.equal(other.seen[0].headers.authorization, `Bearer ${SECRET}`);
  assert.equal((await server.chat(ask({ model: 'typed' }))).status, 200);
  assert.equal(other.seen[1].body.model, 'typed-far');
  await run('upstream', 'drain', 'cli');
  await until(async () => (await server.chat(ask({ model: 'typed' }))).status === 503);
  await run('upstream', 'resume', 'cli');
  await run('models', 'set', 'typed', '--aliases', 'keyed', '--context', '4096');
  assert.equal((await server.json('GET', '/v1/models/keyed')).body.context_length, 4096);
  for (const models of ['typed,new-one,=x', 'typed,new-one,not a name', 'new-one,new-one']) {
    await assert.rejects(run('upstream', 'add', 'half', other.url, '--models', models), /models/, models);
    await assert.rejects(run('upstream', 'serve', 'cli', '--models', models), /models/, models);
  }
  assert.ok(!(await run('upstream', 'list')).includes('half'), 'nothing of it was written');
  assert.ok(!(await run('models')).includes('new-one'));
  await run('upstream', 'serve', 'cli', '--models', 'later=far-later');
  assert.match(await run('upstream', 'list'), /cli .*later,plain,typed/);
  await run('upstream', 'remove', 'cli');
  await run('models', 'remove', 'typed');
  assert.equal((await server.chat(ask({ model: 'typed' }))).status, 404);
  await other.stop();
});

test('200 streams at once are whole, and each is counted', async () => {
  const wide = await FakeUpstream.open({ words: Array.from({ length: 20 }, (_, i) => `${i} `), delay: 20, together: 200 });
  await addUpstream(server, 'wide', wide.url, ['broad']);
  assert.equal((await server.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 })).status, 200);
  const all = await Promise.all(Array.from({ length: 200 }, (_, i) => server.stream(ask({ model: 'broad', messages: [{ role: 'user', content: `n ${i}` }] }))));
  const expected = wide.knobs.words.join('');
  assert.deepEqual([...new Set(all.map((r) => (r.status === 200 ? joined(r.chunks).content : JSON.stringify(r.error))))], [expected]);
  assert.ok(all.every((r) => r.done));
  assert.equal(wide.most, 200);
  await wide.stop();
});

test('one of four is killed under load: whoever asks after that meets no error', async (t) => {
  const four = await Promise.all([0, 1, 2, 3].map(() => FakeUpstream.open({ words: ['a', 'b', 'c'], delay: 15 })));
  for (const [i, u] of four.entries()) await addUpstream(server, `four${i}`, u.url, ['crowd']);
  const done = [];
  let over = false, killed = Infinity, n = 0;
  const client = async () => {
    while (!over) {
      const began = Date.now();
      const r = await server.chat(ask({ model: 'crowd', messages: [{ role: 'user', content: `q ${n++}` }] }));
      done.push({ began, status: r.status, text: r.body.choices?.[0].message.content });
    }
  };
  const clients = Array.from({ length: 24 }, client);
  t.after(() => { over = true; });
  await until(() => four[1].seen.length > 3 && done.length > 50);
  killed = Date.now();
  await four[1].kill();
  await until(async () => (await stateOf(server, 'four1')) !== 'ok');
  const then = done.length;
  await until(() => done.length > then + 100);
  over = true;
  await Promise.all(clients);
  assert.deepEqual(done.filter((d) => d.began >= killed && d.status !== 200), []);
  const lost = done.filter((d) => d.status !== 200).length;
  assert.ok(lost <= 24 / 2, `${lost} had begun to be written there`);
  assert.ok(done.every((d) => d.status !== 200 || d.text === 'abc'));
  for (const u of four) await u.stop();
});

test('a relay that is killed takes its streams along and comes back', async () => {
  up.knobs = { words: Array(5000).fill('w '), delay: 20 };
  const running = server.stream(ask());
  await until(() => up.open >= 1);
  process.kill(server.childrenOf(server.pid('relay'))[0], 'SIGKILL');
  const r = await running.catch((e) => ({ raw: `"error" ${e}` }));
  assert.ok(r.raw.includes('"error"'), r.raw.slice(-300));
  up.knobs = {};
  await until(async () => (await server.chat(ask())).status === 200);
});
