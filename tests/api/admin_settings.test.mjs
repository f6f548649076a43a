// The server's settings: listed with their limits, changed all or nothing, in force in every worker at once, written down.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { order, start } from './harness.mjs';

const path = '/api/admin/settings';
let s;
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

const list = async () => Object.fromEntries((await s.json('GET', path)).body.items.map((i) => [i.name, i]));
const change = (body) => s.json('PATCH', path, body);

test('each setting says its type, limits and default, and begins with the default', async () => {
  const all = await list();
  for (const row of Object.values(all)) {
    assert.deepEqual(row.value, row.default, row.name);
    if (row.type === 'secret') assert.equal(row.value, false, 'none is set');
    assert.ok(row.help.length > 10 && row.group, row.name);
    if (row.type === 'int' || row.type === 'number') assert.ok(row.min < row.max, row.name);
    if (row.type === 'choice') assert.ok(row.choices.includes(row.value), row.name);
    if (row.value === null) assert.equal(row.nullable, true, row.name);
  }
  assert.equal(all.sign_up.value, 'closed');
  assert.deepEqual(all.sign_up.choices, ['closed', 'invite', 'open']);
});

test('bad values are refused by name, and nothing of the request is done', async () => {
  for (const row of Object.values(await list())) {
    const wrong = { bool: [1, 'true', []], int: [1.5, '1', row.max + 1, row.min - 1, true, {}], number: ['x', row.max + 0.5, row.min - 0.5, []],
      choice: ['', 'other', 'info|warning', 3], text: [7, 'x'.repeat(row.max_bytes + 1), 'two\nlines', true], secret: [7, 'x'.repeat(row.max_bytes + 1), 'two\nlines', true] }[row.type];
    for (const value of wrong) {
      const r = await change({ banner: 'half', [row.name]: value });
      assert.equal(r.status, 400, `${row.name}=${JSON.stringify(value)}: ${r.text}`);
      assert.equal(r.body.error.param, row.name, r.text);
    }
  }
  for (const [body, what] of [[{}, 'empty'], [{ nonsense: 1 }, 'unknown'], ['[]', 'list'], ['{"banner":"a","banner":"b"}', 'twice']])
    assert.equal((await s.json('PATCH', path, body, { 'content-type': 'application/json' })).status, 400, what);
  assert.equal((await s.json('PATCH', path, { nonsense: 1 })).body.error.param, 'nonsense');
  assert.equal((await list()).banner.value, '');
});

test('a change is in force in every worker at once, and null takes it back', async () => {
  const own = (await s.json('GET', '/v1/models')).body.data[0].sluice.defaults;
  const r = await change({ default_temperature: 0.25, default_top_k: 7, banner: 'Maintenance at <six>', banner_level: 'warning' });
  assert.equal(r.status, 200, r.text);
  assert.equal(r.body.items.find((i) => i.name === 'default_temperature').value, 0.25);
  for (let i = 0; i < 24; i++) { // whichever of the processes answers
    const d = (await s.json('GET', '/v1/models')).body.data[0].sluice.defaults;
    assert.equal(d.temperature, 0.25);
    assert.equal(d.top_k, 7);
    assert.equal(d.top_p, own.top_p);
    assert.deepEqual((await s.json('GET', '/api/status')).body.banner, { text: 'Maintenance at <six>', level: 'warning' });
  }
  await change({ default_temperature: null, default_top_k: null, banner: null, banner_level: null });
  for (let i = 0; i < 24; i++) {
    assert.deepEqual((await s.json('GET', '/v1/models')).body.data[0].sluice.defaults, own);
    assert.equal((await s.json('GET', '/api/status')).body.banner, null);
  }
});

test('an answer gets no longer than the admin allows, in the stream pool too', async () => {
  const ask = (o = {}) => s.chat({ messages: order({ text: 'one two three four five six seven eight nine ten eleven twelve' }), ...o });
  const free = await ask({ max_tokens: 30 });
  await change({ max_answer_tokens: 5 });
  const held = await ask({ max_tokens: 30 });
  assert.equal(held.body.usage.completion_tokens, 5, held.text);
  assert.ok(free.body.usage.completion_tokens > 5, free.text);
  await change({ max_answer_tokens: null, default_max_tokens: 3 });
  assert.equal((await ask()).body.usage.completion_tokens, 3);
  assert.equal((await ask({ max_tokens: 4 })).body.usage.completion_tokens, 4);
  await change({ default_max_tokens: null });
});
