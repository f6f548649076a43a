// Presets and prompts, the count of a prompt's tokens, what happened elsewhere, titles by the model, results of calls.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { follow } from './answers.mjs';
import { lasting, start } from './harness.mjs';

let s, other;
before(async () => {
  s = await start({ fake: true });
  await s.json('POST', '/api/users', { name: 'eve', password: 'a long password' });
  const login = await s.request('POST', '/api/login', { name: 'eve', password: 'a long password' }, { authorization: null });
  const { csrf } = await login.json();
  other = { authorization: null, cookie: login.headers.get('set-cookie').split(';')[0], 'x-csrf-token': csrf };
});
after(() => s?.stop());

const say = (o) => `fake:${JSON.stringify(o)}`;
const post = (id, body) => s.request('POST', `/api/conversations/${id}/messages`, body).then(follow);
const make = async (settings = {}) => (await s.json('POST', '/api/conversations', { settings })).body.id;

for (const [path, one, two, bad] of [
  ['/api/presets', { name: 'Strict', settings: { temperature: 0, stop: ['END'], json_schema: { type: 'object' } } }, { settings: { temperature: 1 } },
    [{ name: 'x' }, { name: '', settings: {} }, { name: 'x', settings: { temperature: 3 } }, { name: 'x', settings: { nonsense: 1 } },
      { name: 'x', settings: { json_schema: { type: 'nonsense' } } }, { name: 'x'.repeat(65), settings: {} }, { name: 'x', settings: {}, more: 1 }]],
  ['/api/prompts', { name: 'translate', text: 'Translate into {{language}}:\n{{text}}' }, { text: 'Other' },
    [{ name: 'x' }, { name: 'two words', text: 'x' }, { name: 'x', text: ' ' }, { name: 'a\nb', text: 'x' }, { name: 'x', text: 'x'.repeat(65537) }]],
]) {
  test(`${path}: kept, changed, removed; only one's own`, async () => {
    const made = await s.json('POST', path, one);
    assert.equal(made.status, 201, made.text);
    const { id, created_at, updated_at, ...rest } = made.body;
    assert.ok(created_at > 0 && updated_at === created_at);
    assert.deepEqual(rest, one);
    assert.equal((await s.json('POST', path, { ...one, name: one.name.toUpperCase() })).status, 409, 'the name is taken');
    assert.equal((await s.json('PATCH', `${path}/${id}`, two)).status, 200);
    const renamed = await s.json('PATCH', `${path}/${id}`, { name: 'Ärger' });
    assert.equal(renamed.body.name, 'Ärger');
    assert.deepEqual((await s.json('GET', path)).body.items.map(({ name }) => name), ['Ärger']);
    for (const body of bad) {
      const r = await s.json('POST', path, body);
      assert.ok(r.status === 400 || r.status === 413, `${r.status} for ${JSON.stringify(body).slice(0, 80)}`);
      assert.ok(r.body.error.message.length > 5);
    }
    assert.deepEqual((await s.json('GET', path, undefined, other)).body.items, []);
    assert.equal((await s.json('PATCH', `${path}/${id}`, two, other)).status, 404);
    assert.equal((await s.json('DELETE', `${path}/${id}`, undefined, other)).status, 404);
    assert.equal((await s.json('POST', path, { ...one, name: 'Ärger' }, other)).status, 201, 'the same name of another user');
    assert.equal((await s.json('DELETE', `${path}/${id}`)).status, 204);
    assert.equal((await s.json('DELETE', `${path}/${id}`)).status, 404);
  });
}

test('the count before is the count after', async () => {
  const id = await make({ system: 'Be brief. ü', thinking: false });
  const draft = { content: 'How many\ntokens are these? <|im_start|>' };
  const count = async (body) => (await s.json('POST', '/api/count', body)).body;
  const before = await count({ conversation_id: id, ...draft });
  assert.equal(before.n_ctx, 4096);
  const fresh = await count({ ...draft, settings: { system: 'Be brief. ü', thinking: false } });
  assert.equal(fresh.prompt_tokens, before.prompt_tokens, 'without a conversation');
  const m = (await post(id, draft)).last.message;
  assert.equal(m.usage.prompt_tokens, before.prompt_tokens);
  const again = await count({ conversation_id: id, content: 'And now?' });
  assert.equal((await post(id, { content: 'And now?' })).last.message.usage.prompt_tokens, again.prompt_tokens);
  assert.equal((await count({ conversation_id: id, parent_id: m.parent_id })).prompt_tokens, before.prompt_tokens, 'of another answer');
  assert.ok((await count({ content: 'word '.repeat(9000) })).prompt_tokens > 4096, 'also what does not fit');
  assert.equal((await s.json('POST', '/api/count', {})).status, 400);
  assert.equal((await s.json('POST', '/api/count', { conversation_id: id, content: 'x' }, other)).status, 404);
  assert.equal((await s.json('POST', '/api/count', { conversation_id: id, parent_id: '999999', content: 'x' })).status, 400);
});

test('changes: 204 until something happened, then what is new', async () => {
  const id = await make();
  const ask = (q) => s.json('GET', `/api/changes?${new URLSearchParams({ conversation: id, ...q })}`);
  const first = (await ask({ after: 0 })).body;
  assert.deepEqual(first.conversation.messages, []);
  assert.equal((await ask({ after: 0, tag: first.tag })).status, 204);
  const running = post(id, { content: say({ text: 'one two three', token_ms: lasting(150) }) });
  let now;
  // what is read in two steps may be of two moments; the next answer is whole
  do now = await ask({ after: 0, tag: first.tag }); while (now.status === 204 || !now.body.conversation.leaf_id || !now.body.conversation.messages.length);
  const [user, answer] = now.body.conversation.messages;
  assert.equal(answer.parent_id, user.id);
  assert.deepEqual(now.body.conversation.running, [answer.id]);
  assert.equal(now.body.conversation.leaf_id, answer.id);
  assert.equal(now.body.conversation.count, 2);
  await running;
  const done = (await ask({ after: answer.id, tag: now.body.tag })).body;
  assert.deepEqual([done.conversation.running, done.conversation.messages], [[], []]);
  await s.json('PATCH', `/api/conversations/${id}`, { title: 'Mine' });
  assert.equal((await ask({ after: answer.id, tag: done.tag })).body.conversation.title, 'Mine');
  assert.equal((await s.json('GET', `/api/changes?conversation=${id}`, undefined, other)).status, 404);
  const alone = (await s.json('GET', '/api/changes')).body;
  assert.ok(alone.listed_at > 0 && !alone.conversation);
  assert.equal((await ask({ after: 'x' })).status, 400);
});

test('a title that is being made is none of the answers that its user may have at one time', async () => {
  await s.json('PATCH', '/api/admin/settings', { user_max_jobs: 1 });
  const id = await make();
  await post(id, { content: say({ text: 'one two three four five', token_ms: lasting(150) }) });
  let over = false, n = 0;
  const title = s.json('POST', `/api/conversations/${id}/title`, {}).finally(() => { over = true; });
  for (; !over; n++) {
    const r = await s.chat({ messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 1 });
    assert.equal(r.status, 200, r.text);
    if (n === 1) assert.equal((await s.json('POST', `/api/conversations/${id}/title`, {})).status, 429, 'nor is it one of many');
  }
  assert.equal((await title).body.changed, true);
  assert.ok(n > 3, `${n}`);
  await s.json('PATCH', '/api/admin/settings', { user_max_jobs: null });
});

test('a title by the model takes the place of the first line, never of the user\'s own; its tokens are counted', async () => {
  const title = (id, headers) => s.json('POST', `/api/conversations/${id}/title`, {}, headers);
  const id = await make();
  assert.deepEqual((await title(id)).body, { title: '', changed: false }, 'nothing was said yet');
  const m = (await post(id, { content: say({ text: '"A fine title."' }) })).last.message;
  const used = (await s.json('GET', '/api/usage')).body.total;
  assert.deepEqual((await title(id)).body, { title: 'A fine title', changed: true });
  const now = (await s.json('GET', '/api/usage')).body.total;
  assert.equal(now.requests, used.requests + 1);
  assert.equal(now.completion_tokens - used.completion_tokens, m.usage.completion_tokens, 'the scripted answer again');
  assert.ok(now.prompt_tokens > used.prompt_tokens);
  assert.equal((await title(id)).body.changed, false, 'once');
  for (const own of ['Mine', null]) {
    const mine = await make(own ? {} : { titles: false });
    const { last } = await post(mine, { content: say({ text: 'Other' }) });
    if (own) await s.json('PATCH', `/api/conversations/${mine}`, { title: own });
    assert.equal((await title(mine)).body.changed, false);
    if (own) { // though it is what the server had made of the first line
      const first = (await s.json('GET', `/api/conversations/${mine}`)).body;
      await s.json('PATCH', `/api/conversations/${mine}`, { title: say({ text: 'Other' }) });
      assert.equal((await title(mine)).body.changed, false, `${first.title} ${last.message.id}`);
    }
  }
  await s.json('PATCH', '/api/admin/settings', { model_titles: false });
  const off = await make();
  await post(off, { content: say({ text: 'Off' }) });
  assert.equal((await title(off)).body.changed, false, 'the admin turned it off');
  await s.json('PATCH', '/api/admin/settings', { model_titles: null });
  assert.equal((await title(id, other)).status, 404);
});

test('results answer the calls of an answer', async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
  const id = await make({ tools, thinking: false });
  const call = (city) => `<tool_call>\n{"name": "weather", "arguments": {"city": "${city}"}}\n</tool_call>`;
  const m = (await post(id, { content: say({ text: `${call('Rome')}\n${call('Oslo')}` }) })).last.message;
  assert.equal(m.tool_calls.length, 2, JSON.stringify(m));
  const [a, b] = m.tool_calls.map((c) => c.id);
  const results = [{ tool_call_id: a, content: '21 °C' }, { tool_call_id: b, content: say({ text: 'Rome is warmer.' }) }];
  for (const bad of [results.slice(1), [results[0], results[0]], [...results, results[0]], [{ tool_call_id: a }, results[1]], [{ ...results[0], tool_call_id: 'x' }, results[1]], [5, 6]])
    assert.equal((await s.json('POST', `/api/conversations/${id}/messages`, { tool_results: bad })).status, 400, JSON.stringify(bad));
  const out = await post(id, { tool_results: results });
  assert.equal(out.content, 'Rome is warmer.');
  const all = (await s.json('GET', `/api/conversations/${id}`)).body.messages;
  assert.deepEqual(all.map((x) => x.role), ['user', 'assistant', 'tool', 'tool', 'assistant']);
  assert.deepEqual(all.map((x) => x.tool_call_id), [undefined, undefined, a, b, undefined]);
  assert.deepEqual(all.map((x) => x.parent_id), [null, ...all.slice(0, 4).map((x) => x.id)], 'a chain');
  const again = await post(id, { regenerate: all[4].id });
  assert.equal(again.last.message.parent_id, all[3].id);
  assert.equal((await s.json('POST', `/api/conversations/${id}/messages`, { tool_results: results, parent_id: all[4].id })).status, 400);
  const copy = (await s.json('POST', `/api/conversations/${id}/fork`, { from_message_id: all[4].id })).body.id;
  assert.equal((await s.json('GET', `/api/conversations/${copy}`)).body.messages[2].tool_call_id, a);
});

test('values that hold where nothing is said', async () => {
  const { values, thinking } = (await s.json('GET', '/api/defaults/base')).body;
  assert.equal(typeof thinking, 'boolean');
  assert.equal(values.temperature.from, 'model');
  await s.json('PATCH', '/api/admin/settings', { default_temperature: 0.25 });
  assert.deepEqual((await s.json('GET', '/api/defaults/base')).body.values.temperature, { value: 0.25, from: 'server' });
  await s.json('PATCH', '/api/admin/settings', { default_temperature: null });
});

test('a wrong schema or effort is refused when it is saved', async () => {
  const bad = await s.json('POST', '/api/conversations', { settings: { json_schema: { type: 'object', properties: { a: { type: 'nonsense' } } } } });
  assert.equal(bad.status, 400);
  assert.equal(bad.body.error.param, 'json_schema');
  assert.equal((await s.json('POST', '/api/conversations', { settings: { reasoning_effort: 'enormous' } })).status, 400);
});

test('how a user likes the page is kept with the account: checked, replaced, taken back, in the session and the account file', async () => {
  const put = (body) => s.json('PATCH', '/api/preferences', body);
  assert.deepEqual((await s.json('GET', '/api/preferences')).body, {});
  assert.deepEqual((await put({ shortcuts: { new: 'mod Shift y', stop: '' }, single_keys: true })).body, { shortcuts: { new: 'mod Shift y', stop: '' }, single_keys: true });
  assert.deepEqual((await put({ shortcuts: { 'edit-last': 'é' } })).body, { single_keys: true, shortcuts: { 'edit-last': 'é' } });
  for (const [bad, field] of [[{ shortcuts: [] }, 'shortcuts'], [{ shortcuts: { New: 'x' } }, 'shortcuts'], [{ shortcuts: { new: 7 } }, 'shortcuts'], [{ shortcuts: { new: 'x'.repeat(49) } }, 'shortcuts'],
    [{ shortcuts: { new: 'a\u0001' } }, 'shortcuts'], [{ shortcuts: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`a${'b'.repeat(i % 30)}${'c'.repeat(i > 29 ? 1 : 0)}${'d'.repeat(i > 59 ? 1 : 0)}`, 'x'])) }, 'shortcuts'],
    [{ shortcuts: Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`${'a'.repeat(30)}${String.fromCharCode(97 + i % 8, 97 + (i >> 3))}`, '"'.repeat(48)])) }, 'shortcuts'],
    [{ single_keys: 'yes' }, 'single_keys'], [{ theme: 'dark' }, 'theme']]) {
    const r = await put(bad);
    assert.deepEqual([r.status, r.body.error?.param], [400, field], JSON.stringify(bad).slice(0, 60));
  }
  assert.deepEqual((await s.json('GET', '/api/session')).body.preferences, { single_keys: true, shortcuts: { 'edit-last': 'é' } });
  const login = await s.json('POST', '/api/login', { name: s.admin.name, password: s.admin.password }, { authorization: null });
  assert.equal(login.body.preferences.single_keys, true);
  assert.deepEqual((await put({ shortcuts: null, single_keys: null })).body, {});
});
