// Several chat models on one machine: loaded when they are used, ended for room and for idleness, each by an engine of its own.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { demo, eventually, joined, program, sleep, start } from './harness.mjs';

const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
const files = readdirSync(demo).filter((f) => f !== 'draft');
function folder(name, from) {
  mkdirSync(path.join(models, name));
  for (const f of files) symlinkSync(path.join(from(f) ?? demo, f), path.join(models, name, f));
  return path.join(models, name);
}
const twin = folder('twin', () => demo);
// The demo model's draft model with a tokenizer of its own, in which words have each other's ids: another model, whose answers are others.
const small = folder('small', (f) => (['config.json', 'model.safetensors'].includes(f) ? path.join(demo, 'draft') : demo));
const tokenizer = JSON.parse(readFileSync(path.join(demo, 'tokenizer.json'), 'utf8'));
const { vocab } = tokenizer.model;
for (const [a, b] of [['The', 'Ġmoon'], ['1', '2']]) [vocab[a], vocab[b]] = [vocab[b], vocab[a]];
rmSync(path.join(small, 'tokenizer.json'));
writeFileSync(path.join(small, 'tokenizer.json'), JSON.stringify(tokenizer));
const broken = path.join(models, 'broken');
mkdirSync(broken);
writeFileSync(path.join(broken, 'config.json'), '{"model_type": "qwen3_moe"}');
writeFileSync(path.join(broken, 'model.safetensors'), 'no tensors');

// Each engine of the demo model takes some 140 MB with its process, that of the small one less: two have room, three have not.
const ROOM = 340e6;
let s;
const id = {};
const registry = async () => (await s.json('GET', '/api/admin/registry')).body.items;
const row = async (name) => (await registry()).find((m) => m.name === name);
const set = (name, change) => s.json('PATCH', `/api/admin/registry/${id[name]}`, change);
const add = (name, where, more = {}) => s.json('POST', '/api/admin/registry', { name, path: where, ...more });
const until = (what) => eventually(async () => {
  const got = await what();
  assert.ok(got, `never: ${what}\n${s.log.slice(-4000)}`);
  return got;
});
const state = (name, wanted) => until(async () => (await row(name))?.state === wanted);
const complete = (model, more = {}) => s.json('POST', '/v1/completions', { model, prompt: 'The sun', max_tokens: 8, temperature: 0, ...more });
const text = (r) => { assert.equal(r.status, 200, r.text); return r.body.choices[0].text; };
/** Several long answers at once, more than there are slots; a context holds no longer ones. */
const crowd = (model) => Promise.all(Array.from({ length: 8 }, () => s.stream({ model, prompt: 'The sun', max_tokens: 450, ignore_eos: true }, { where: '/v1/completions' })));
const ends = (streams) => streams.map((x) => x.chunks.at(-1)?.choices?.[0]?.finish_reason ?? 'broken');
const whole = Array(8).fill('length');
/** Has begun to answer: some tokens are there. */
const busy = (name) => until(async () => (await s.metric('local_jobs_running', `model="${name}"`)) > 0);
const lone = (where) => spawnSync(program('sluice'), ['generate', '--model', where, '--backend', 'cpu', '--prompt-file', '-', '--max-tokens', '8', '--json'],
  { input: 'The sun', encoding: 'utf8' });
/** What the first engine's command line says that it leaves to others. */
const beside = () => {
  const words = readFileSync(`/proc/${s.pid('engine')}/cmdline`, 'utf8').split('\0');
  return Number(words[words.indexOf('--beside') + 1]);
};
const cli = (...words) => spawnSync(program('sluice'), ['models', ...words, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });

before(async () => {
  s = await start({ args: ['--models', models, '--ram-budget', String(ROOM), '--ctx', '512', '--slots', '2'] });
});
after(async () => { await s?.stop(); rmSync(models, { recursive: true, force: true }); });

test('without rows there is one model, and no engine but its own', async () => {
  assert.deepEqual((await s.json('GET', '/v1/models')).body.data.map((m) => m.id), ['demo-model']);
  assert.deepEqual(JSON.parse(readFileSync(path.join(s.dir, 'state/processes.json'), 'utf8')).map((p) => p.name).filter((n) => n.startsWith('engine')), ['engine']);
  assert.deepEqual((await s.json('GET', '/api/status')).body.loading, []);
  assert.ok(!(await s.metrics()).includes('local_engine_up{'));
});

test('an admin adds models of the list, and what is wrong is named', async () => {
  for (const [name, where, more, status, field] of [
    [undefined, small, {}, 400, 'name'], ['x', undefined, {}, 400, 'path'], ['x', '/etc', {}, 404, 'path'], ['demo-model', small, {}, 409, 'name'],
    ['two words', small, {}, 400, 'name'], ['x', small, { idle_s: -1 }, 400, 'idle_s'], ['x', small, { pinned: 'yes' }, 400, 'pinned'],
    ['x', small, { defaults: { temperature: 9 } }, 400, 'defaults'], ['x', small, { defaults: { seed: 1 } }, 400, 'defaults'], ['x', small, { users: [999999] }, 400, 'users'],
  ]) {
    const r = await add(name, where, more);
    assert.equal(r.status, status, `${field}: ${r.text}`);
    assert.equal(r.body.error.param, field, r.text);
  }
  assert.equal((await registry()).length, 0);
  for (const [name, where] of [['small', small], ['twin', twin], ['broken', broken]]) {
    const r = await add(name, where, name === 'small' ? { aliases: ['tiny'] } : {});
    assert.equal(r.status, 201, r.text);
    assert.deepEqual([r.body.name, r.body.path, r.body.pinned, r.body.preload, r.body.idle_s, r.body.defaults], [name, where, false, false, 900, {}]);
    id[name] = r.body.id;
  }
  assert.equal((await add('small', twin)).status, 409);
  assert.equal((await s.json('GET', '/v1/models')).body.data.filter((m) => m.sluice.on_demand).length, 3);
  const listed = await until(async () => { const r = await s.json('GET', '/v1/models/small'); return r.status === 200 && r.body.sluice.chat_template && r.body; });
  assert.deepEqual([listed.sluice.state, listed.sluice.kind, listed.sluice.aliases, listed.owned_by], ['unloaded', 'chat', ['tiny'], 'sluice']);
  assert.equal(listed.sluice.chat_template.format, 'hermes');
  const asleep = await s.json('GET', '/props?model=small'); // to ask about it does not load it
  assert.deepEqual([asleep.status, asleep.body.is_sleeping, asleep.body.total_slots], [200, true, 0], asleep.text);
  assert.ok(asleep.body.default_generation_settings.n_ctx > 0);
  assert.deepEqual((await s.json('GET', '/slots?model=small&fail_on_no_slot=1')).body, []);
  assert.equal((await row('small')).state, 'unloaded');
});

test('two models answer in turns through one server, each as it does alone', async () => {
  const expected = { 'demo-model': JSON.parse(lone(demo).stdout).text, small: JSON.parse(lone(small).stdout).text };
  assert.notEqual(expected.small, expected['demo-model']);
  for (const model of ['small', 'demo-model', 'small', 'demo-model', 'tiny']) {
    const r = await complete(model);
    assert.equal(text(r), expected[model] ?? expected.small, model);
    assert.equal(r.body.model, model === 'tiny' ? 'small' : model);
  }
  assert.equal((await row('small')).state, 'ready');
  assert.equal((await s.json('GET', '/props?model=small')).body.is_sleeping, false);
  const drafts = (await s.json('GET', '/v1/models/small')).body.sluice.speculate !== 'off';
  assert.deepEqual((await s.json('GET', '/slots?model=small')).body.map((x) => [x.id, x.n_ctx, x.speculative]), [[0, 512, drafts], [1, 512, drafts]]);
  assert.equal(await s.metric('local_engine_up', 'model="small"'), 1);
  assert.ok(await s.metric('local_cached_tokens_total', 'model="small"') >= 0);
  await s.json('PATCH', '/api/admin/settings', { metrics_open: true }); // not everyone may know of each
  assert.equal(await s.metric('local_engine_up', `model="${id.small}"`), 1);
  assert.ok(!(await s.metrics()).includes('model="small"'));
  await s.json('PATCH', '/api/admin/settings', { metrics_open: false });
  assert.equal((await s.json('GET', '/v1/models/small')).body.sluice.context, 512);
  const chat = await s.stream({ model: 'small', messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 4 });
  assert.ok(chat.chunks.every((c) => c.model === 'small') && chat.done);
});

test('Ollama and llama.cpp see them as they are', async () => {
  const names = (r) => r.body.models.map((m) => m.name);
  assert.deepEqual(names(await s.json('GET', '/api/tags')).sort(), ['demo-model:latest', 'small:latest', 'twin:latest']);
  const ps = await s.json('GET', '/api/ps');
  assert.deepEqual(names(ps), ['demo-model:latest', 'small:latest']);
  const at = Date.parse(ps.body.models[1].expires_at) - Date.now();
  assert.ok(at > 600e3 && at <= 900e3, ps.text);
  assert.deepEqual([ps.body.models[1].context_length, Date.parse(ps.body.models[0].expires_at) > Date.now() + 1e12], [512, true]);
  const show = await s.json('POST', '/api/show', { model: 'small' });
  assert.equal(show.body.model_info['general.basename'], 'small');
  const said = await s.json('POST', '/api/generate', { model: 'small', prompt: 'The sun', raw: true, stream: false, options: { num_predict: 3 } });
  assert.equal(said.status, 200, said.text);
  assert.equal((await s.json('GET', '/props?model=small')).body.model_alias, 'small');
  assert.equal((await s.json('GET', '/props')).body.model_alias, 'demo-model');
  assert.equal((await s.json('POST', '/tokenize', { model: 'small', content: 'The sun' })).status, 200);
});

test('the one used longest ago goes for another\'s room, when its answers have ended', async () => {
  await sleep(3000); // what has just been loaded stays a moment
  const running = crowd('small');
  await busy('small');
  const other = complete('twin');
  assert.deepEqual(ends(await running), whole);
  text(await other);
  assert.equal((await row('small')).state, 'unloaded');
  assert.equal((await row('twin')).state, 'ready');
  assert.equal(s.pid(`engine-${id.small}`), undefined, 'its process has ended');
});

test('a pinned one stays, and who then has no room is told the figures', async () => {
  assert.equal((await set('twin', { pinned: true })).body.pinned, true);
  const r = await complete('small');
  assert.equal(r.status, 503, r.text);
  assert.equal(r.body.error.reason, 'model_no_room', r.text);
  assert.ok(r.body.error.params.needed > r.body.error.params.free, r.text);
  assert.ok(Number(r.headers.get('retry-after')) > 0);
  assert.equal((await row('small')).state, 'failed');
  assert.equal((await row('twin')).state, 'ready');
  await set('twin', { pinned: false });
  text(await complete('small'));
  assert.equal((await row('twin')).state, 'unloaded');
});

test('a killed engine takes down its own answers alone, and is there again', async () => {
  const first = crowd('demo-model');
  const second = crowd('small');
  await busy('small');
  process.kill(s.pid(`engine-${id.small}`), 'SIGKILL');
  assert.ok(ends(await second).includes('broken'), 'streams say that they broke');
  text(await complete('small'));
  assert.deepEqual(ends(await first), whole);
  const third = crowd('small');
  await busy('small');
  process.kill(s.pid('engine'), 'SIGKILL');
  assert.deepEqual(ends(await third), whole);
  await until(async () => (await s.json('GET', '/health')).status === 200);
  assert.ok(beside() > 96e6, 'what runs beside it keeps its room');
});

test('the first model keeps its room while it is down', async () => {
  process.kill(s.pid('engine'), 'SIGKILL');
  text(await complete('twin'));
  assert.equal((await row('small')).state, 'unloaded');
  await until(async () => (await s.json('GET', '/health')).status === 200);
});

test('only who may use a model sees it', async () => {
  const made = await s.json('POST', '/api/users', { name: 'eve', password: 'a long password' });
  const key = spawnSync(program('sluice'), ['key', 'add', 'eve', '--state', path.join(s.dir, 'state'), '--name', 'k', '--json'], { encoding: 'utf8' });
  const as = { authorization: `Bearer ${JSON.parse(key.stdout).key}` };
  const seen = async () => (await s.json('GET', '/v1/models', undefined, as)).body.data.map((m) => m.id);
  assert.equal((await set('small', { everyone: false })).status, 200);
  assert.deepEqual((await seen()).includes('small'), false);
  const r = await s.json('POST', '/v1/completions', { model: 'small', prompt: 'x', max_tokens: 1 }, as);
  assert.equal(r.status, 404, r.text);
  assert.equal(r.body.error.code, 'model_not_found');
  assert.equal((await s.json('POST', '/api/show', { model: 'small' }, as)).status, 404);
  assert.ok(!(await s.json('GET', '/api/tags', undefined, as)).text.includes('small'));
  for (const [method, where, body] of [['POST', '/api/admin/registry', { name: 'y', path: small }], ['POST', `/api/admin/registry/${id.small}/load`], ['POST', `/api/admin/registry/${id.small}/unload`]])
    assert.equal((await s.json(method, where, body, as)).status, 403, where);
  assert.equal((await set('small', { users: [Number(made.body.id)] })).status, 200);
  text(await s.json('POST', '/v1/completions', { model: 'small', prompt: 'x', max_tokens: 1 }, as));
  assert.equal((await s.json('PATCH', `/api/users/${made.body.id}`, { limits: { max_jobs: 1 } })).status, 200);
  const running = s.json('POST', '/v1/completions', { prompt: 'The sun', max_tokens: 450, ignore_eos: true }, as);
  await until(async () => (await s.json('GET', '/api/admin/status')).body.jobs.length > 0);
  assert.equal((await s.json('POST', '/api/generate', { model: 'small' }, as)).status, 429, 'the wait for a model is an answer of the user\'s');
  await running;
  await set('small', { everyone: true, users: [] });
});

test('a model\'s own defaults hold where a request says nothing', async () => {
  const fixed = text(await complete('small'));
  assert.deepEqual((await set('small', { defaults: { temperature: 0, max_tokens: 8 } })).body.defaults, { temperature: 0, max_tokens: 8 });
  assert.equal(text(await complete('small', { temperature: undefined, max_tokens: undefined })), fixed);
  assert.equal(text(await complete('small', { temperature: undefined, max_tokens: 3 })), text(await complete('small', { max_tokens: 3 })));
  const messages = [{ role: 'user', content: 'Hi.' }];
  for (const [where, body, used] of [
    ['/v1/completions', { prompt: 'The sun', ignore_eos: true }, (b) => b.usage.completion_tokens],
    ['/v1/chat/completions', { messages, ignore_eos: true }, (b) => b.usage.completion_tokens],
    ['/v1/responses', { input: 'Hi.', ignore_eos: true }, (b) => b.usage.output_tokens],
    ['/api/chat', { messages, stream: false }, (b) => b.eval_count],
    ['/api/generate', { prompt: 'Hi.', stream: false }, (b) => b.eval_count],
  ]) {
    const r = await s.json('POST', where, { model: 'small', ...body });
    assert.deepEqual([r.status, used(r.body)], [200, 8], `${where}: ${r.text}`);
  }
  assert.deepEqual((await set('small', { defaults: {} })).body.defaults, {});
});

test('a conversation remembers its model; its answer is kept, and says who gave it', async () => {
  const made = await s.json('POST', '/api/conversations', { settings: { model: 'small', max_tokens: 5 } });
  assert.equal(made.status, 201, made.text);
  await s.json('POST', `/api/admin/registry/${id.small}/unload`);
  await state('small', 'unloaded');
  const got = await follow(await s.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'Hi.' }));
  assert.equal(got.names.at(-1), 'done', JSON.stringify(got));
  const last = async () => (await s.json('GET', `/api/conversations/${made.body.id}`)).body.messages.at(-1);
  const message = await until(async () => { const m = await last(); return m.status === 'length' && m; });
  assert.deepEqual([message.model, message.usage.completion_tokens], ['small', 5]);
  assert.equal(message.content + (message.reasoning ?? ''), got.content + got.reasoning);
  await set('small', { pinned: true });
  const settings = await s.json('PATCH', `/api/conversations/${made.body.id}`, { settings: { model: 'small', max_tokens: 200 } });
  assert.equal(settings.status, 200, settings.text);
  const begun = await follow(await s.request('POST', `/api/conversations/${made.body.id}/messages`, { content: 'More.', parent_id: message.id }), ({ event }) => event === 'delta');
  const again = await follow(await s.request('GET', `/api/messages/${begun.start.message.id}/stream`)); // finds the engine by the job's key
  const { content, reasoning } = again.start.message; // so short an answer may be there before it is asked for again
  assert.ok((content + reasoning + again.content + again.reasoning).length > 0, JSON.stringify(again));
  await set('small', { pinned: false });
});

test('an answer goes on with another model by its words, not by its tokens', async () => {
  const { body: { id: chat } } = await s.json('POST', '/api/conversations', { settings: { temperature: 0, max_tokens: 8, thinking: false } });
  const post = (body) => s.request('POST', `/api/conversations/${chat}/messages`, body).then((r) => follow(r));
  const first = (await post({ content: '1 2 3 4 5 6 7 8 9 10 11 12' })).last.message; // it counts on
  assert.equal(first.status, 'length');
  assert.match(first.content, /[12]/);
  const more = (await post({ continue: first.id, settings: { model: 'small', max_tokens: 2 } })).last.message;
  assert.equal(more.model, 'small');
  assert.ok(more.content.startsWith(first.content), more.content);
});

test('who waits too long is told so, and the loading goes on', async () => {
  await s.json('POST', `/api/admin/registry/${id.small}/unload`);
  await state('small', 'unloaded');
  await s.json('PATCH', '/api/admin/settings', { model_wait_seconds: 0 });
  const r = await complete('small');
  assert.equal(r.status, 503, r.text);
  assert.equal(r.body.error.reason, 'model_loading');
  assert.ok(Number(r.headers.get('retry-after')) > 0);
  const loading = await until(async () => { const names = (await s.json('GET', '/api/status')).body.loading; return names.length && names; });
  assert.deepEqual(loading, ['small', 'tiny']);
  await state('small', 'ready');
  text(await complete('small'));
  await s.json('PATCH', '/api/admin/settings', { model_wait_seconds: 120 });
});

test('an idle one is unloaded, and an admin loads and unloads', async () => {
  assert.equal((await set('small', { idle_s: 1 })).body.idle_s, 1);
  await state('small', 'unloaded');
  assert.equal((await s.json('POST', `/api/admin/registry/${id.small}/unload`)).status, 409);
  await set('small', { idle_s: 0 });
  assert.equal((await s.json('POST', `/api/admin/registry/${id.small}/load`)).status, 202);
  await state('small', 'ready');
  assert.equal((await s.json('POST', '/api/admin/registry/999/load')).status, 404);
});

const kept = (name) => path.join(s.dir, `state/cache/prompt-cache-${id[name]}`);
const segments = (name) => (existsSync(kept(name)) ? readdirSync(kept(name)).filter((f) => f.endsWith('.kv')) : []);
const cache = (...words) => spawnSync(program('sluice'), ['cache', ...words, '--state', path.join(s.dir, 'state')], { encoding: 'utf8' });
const stats = (name) => { const all = JSON.parse(cache('stats', '--json').stdout); return { ...all.models.find((m) => m.model_id === id[name]), all }; };
const story = 'The river ran past seven mills and three old bridges before it came to the town, and nobody there knew its name. '.repeat(6);
/** A chat with this model that is told a story: its id, the usage of the answer, what goes on. */
async function tell(name, what = story) {
  const { body: { id: chat } } = await s.json('POST', '/api/conversations', { settings: { model: name, temperature: 0, max_tokens: 8, thinking: false, titles: false } });
  const say = async (content) => (await follow(await s.request('POST', `/api/conversations/${chat}/messages`, { content }))).last.message;
  const { usage } = await say(what);
  await until(async () => (await s.json('GET', `/api/conversations/${chat}/prompt-cache`)).body.tokens >= usage.prompt_tokens - 64);
  return { chat, usage, say };
}
async function unload(name) {
  assert.equal((await s.json('POST', `/api/admin/registry/${id[name]}/unload`)).status, 202);
  await state(name, 'unloaded');
}

test('its prompts are kept on the disk while it is unloaded, apart from the first model\'s', async () => {
  assert.equal(cache('clear').status, 0); // what other tests have left
  await until(async () => (await s.metric('prompt_cache_rows')) === 0 && (await s.metric('prompt_cache_removals')) === 0);
  const { chat, usage, say } = await tell('small');
  const before = stats('small');
  assert.ok(before.tokens >= 96 && before.bytes > 0 && before.files > 0, JSON.stringify(before.all));
  assert.match(cache('stats').stdout, /^small +\d+ tokens/m);
  await unload('small');
  assert.ok(stats('small').tokens >= before.tokens); // the answer's last block may have come in since
  assert.equal(cache('verify').status, 0, cache('verify').stdout);
  const next = await say('What did the river pass?');
  const { from } = next.timings.cache;
  assert.ok(from.disk >= usage.prompt_tokens - 64 && next.usage.cached_tokens === from.disk + from.device, JSON.stringify(next.timings.cache));
  // What is forgotten while its engine is not there leaves the disk all the same.
  await unload('small');
  assert.ok(segments('small').length > 0);
  assert.equal((await s.json('DELETE', `/api/conversations/${chat}`)).status, 204);
  await until(async () => segments('small').length === 0 && (await s.metric('prompt_cache_removals')) === 0);
  assert.equal(stats('small').tokens, undefined);
  assert.equal(s.pid(`engine-${id.small}`), undefined);
  text(await complete('small'));
});

test('it makes drafts of what it has itself', async () => {
  const line = 'The quick brown fox jumps over the lazy dog. ';
  const write = async (model, speculate) => s.json('POST', '/v1/completions', { model, prompt: line.repeat(6), max_tokens: 60, ignore_eos: true, temperature: 0, speculate });
  const plain = await write('small', 'off');
  let drafted = 0;
  for (let i = 0; i < 20 && !drafted; i++) {
    const r = await write('small', 'ngram');
    assert.equal(text(r), text(plain));
    assert.equal(r.body.timings.speculation.applied, 'ngram');
    drafted = r.body.timings.speculation.drafted;
  }
  assert.ok(drafted > 0);
  const own = await write('twin', 'mtp');
  assert.equal(text(own), text(await write('demo-model', 'off')));
  assert.equal(own.body.timings.speculation.applied, 'mtp');
  assert.equal((await write('small', 'mtp')).body.error?.param, 'speculate', 'it has no next-token layer');
});

test('a broken model says so to its user without the machine\'s paths, and why to the admin', async () => {
  const r = await complete('broken');
  assert.equal(r.status, 503, r.text);
  assert.equal(r.body.error.reason, 'model_broken');
  assert.ok(!r.text.includes(models));
  text(await complete('demo-model'));
});

test('it runs on the device that its row names, or says why not', async () => {
  const long = await set('small', { device: 'x'.repeat(101) });
  assert.deepEqual([long.status, long.body.error.param], [400, 'device']);
  assert.equal((await row('small')).device, '');
  assert.equal((await set('small', { device: 'no such GPU' })).body.device, 'no such GPU');
  if ((await row('small')).state === 'ready') await unload('small');
  assert.equal((await complete('small')).body.error.reason, 'model_broken');
  assert.match((await row('small')).error, /'no such GPU' is no GPU of this machine|Vulkan/);
  assert.equal((await set('small', { device: 'cpu' })).status, 200);
  await until(async () => (await complete('small')).status === 200);
  const words = readFileSync(`/proc/${s.pid(`engine-${id.small}`)}/cmdline`, 'utf8').split('\0');
  assert.equal(words[words.indexOf('--device') + 1], 'cpu');
  assert.equal((await set('small', { device: '' })).body.device, '');
});

test('the command manages them beside the running server', () => {
  const list = () => Object.fromEntries(cli('list', '--json').stdout.trim().split('\n').filter(Boolean).map((l) => JSON.parse(l)).map((m) => [m.name, m]));
  assert.equal(list().small.state, 'ready');
  assert.equal(cli('unload', 'small').status, 0);
  assert.equal(list().small.state, 'unloaded');
  const loaded = cli('load', 'tiny');
  assert.deepEqual([loaded.status, loaded.stderr.trim().split('\n').at(-1)], [0, 'ready']);
  const added = cli('add', 'third', small, '--aliases', 'other', '--idle', '60', '--pinned', 'yes', '--defaults', '{"top_k": 5}', '--device', '1');
  assert.equal(added.status, 0, added.stderr);
  assert.deepEqual([list().third.pinned, list().third.idle_s, list().third.defaults, list().third.aliases, list().third.path, list().third.device], [true, 60, { top_k: 5 }, ['other'], small, '1']);
  assert.equal(cli('set', 'third', '--pinned', 'no').status, 0);
  assert.equal(list().third.pinned, false);
  for (const [words, code, match] of [[['add', 'fourth', '/nowhere'], 1, /nowhere/], [['add', 'third', small], 1, /called that already/], [['load', 'broken'], 1, /./], [['load', 'none'], 1, /no such model/],
    [['add', 'fifth', small, '--defaults', '[]'], 2, /defaults/], [['add', 'fifth'], 2, /usage/], [['load'], 2, /usage/]]) {
    const r = cli(...words);
    assert.deepEqual([r.status, match.test(r.stderr)], [code, true], `${words}: ${r.status} ${r.stderr}`);
  }
  assert.equal(cli('remove', 'third').status, 0);
  assert.equal(list().third, undefined);
});

test('a removed model is gone, and its answers end first', async () => {
  await tell('small', `Later. ${story}`);
  assert.ok(segments('small').length > 0);
  const before = await s.metric('local_jobs_total', 'model="small"');
  const running = crowd('small');
  const counted = async () => { let n = 0; for (const name of ['local_jobs_running', 'local_jobs_waiting', 'local_jobs_total']) n += await s.metric(name, 'model="small"'); return n - before; };
  await until(async () => await counted() >= 8); // one that comes later finds no model
  const cancelled = await until(async () => {
    const job = (await s.json('GET', '/api/admin/status')).body.jobs.find((j) => j.model === 'small');
    return job && (await s.json('DELETE', `/api/admin/jobs/${job.id}?model=small`)).status === 204;
  });
  assert.equal(cancelled, true);
  assert.equal((await s.json('DELETE', `/api/admin/registry/${id.small}`)).status, 204);
  assert.equal((await complete('small')).status, 404);
  assert.equal(ends(await running).filter((e) => e === 'length').length, 7);
  await until(() => s.pid(`engine-${id.small}`) === undefined);
  await until(async () => !existsSync(kept('small')) && (await s.metric('prompt_cache_removals')) === 0);
  assert.equal(joined((await s.stream({ messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2 })).chunks).finish.length, 1);
});

test('after a restart the rows are there, and one is loaded before anybody asks, in room that the first leaves it', async () => {
  assert.equal(cli('add', 'small', small, '--preload', 'yes').status, 0);
  assert.equal(cli('set', 'twin', '--pinned', 'yes').status, 0);
  s.child.kill('SIGTERM');
  await s.exited;
  s.options.args.push('--speculate', 'mtp'); // which the small one has nothing for
  await s.again();
  await state('small', 'ready');
  assert.ok(beside() > 96e6 && beside() < 200e6, `${beside()}: the pinned one has no room beside the first`);
  await until(() => s.log.includes('model=twin: no room is kept for it: the first model needs it'));
  text(await complete('small'));
  const running = JSON.parse(readFileSync(path.join(s.dir, 'state/processes.json'), 'utf8')).filter((p) => p.name.startsWith('engine-') && p.pid);
  assert.deepEqual(running.map((p) => p.name), [`engine-${(await row('small')).id}`]);
});

test('a command that waits for a model ends with the server, also with a killed one', async () => {
  s.child.kill('SIGSTOP'); // nothing is loaded from now on
  const waits = spawn(program('sluice'), ['models', 'load', 'twin', '--state', path.join(s.dir, 'state')], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => { waits.on('exit', resolve); });
  await new Promise((resolve) => { waits.stderr.once('data', resolve); });
  s.child.kill('SIGKILL');
  assert.equal(await ended, 1);
});
