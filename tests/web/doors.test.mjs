// One page and one key before two models of this machine, one for embeddings and three other servers, each with a protocol of its own.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually, sideModels } from '../api/harness.mjs';
import { FakeUpstream, addUpstream } from '../api/upstream_rig.mjs';
import { answered, lastAnswer, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
mkdirSync(path.join(models, 'second'));
for (const f of readdirSync(demo).filter((f) => f !== 'draft')) symlinkSync(path.join(demo, f), path.join(models, 'second', f));
const far = { 'far-openai': 'From OpenAI\'s form.', 'far-claude': 'Hello', 'far-llama': 'Hello' }; // what each says
let house, page, other, user;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ args: ['--models', models, ...sideModels.slice(0, 2), '--ctx', '512'] });
  other = await FakeUpstream.open({ words: ['From ', 'OpenAI\'s ', 'form.'] });
  const s = house.server, root = other.url.replace('/v1', '');
  await addUpstream(s, 'one', other.url, ['far-openai']);
  await addUpstream(s, 'two', other.url, ['far-claude'], { dialect: 'anthropic' });
  await addUpstream(s, 'three', root, ['far-llama'], { dialect: 'ollama' });
  const added = await s.json('POST', '/api/admin/registry', { name: 'second', path: path.join(models, 'second') });
  assert.equal(added.status, 201, added.text);
  const key = await s.json('POST', '/api/keys', { name: 'one key', scopes: ['inference', 'history'] });
  assert.equal(key.status, 201, key.text);
  user = { authorization: `Bearer ${key.body.key}` };
});
after(async () => { await house?.close(); await other?.stop(); rmSync(models, { recursive: true, force: true }); });

const chats = ['demo-model', 'second', ...Object.keys(far)];

test('one key lists them all, and each answers it', opts, async () => {
  const s = house.server;
  const ids = async () => (await s.json('GET', '/v1/models', undefined, user)).body.data.map((m) => m.id).sort();
  await eventually(async () => assert.deepEqual(await ids(), [...chats, 'bert'].sort()));
  for (const model of chats) {
    const r = await eventually(async () => { // one that was just added is begun with a moment later
      const now = await s.json('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 5 }, user);
      assert.notEqual(now.body.error?.reason, 'model_loading', now.text);
      return now;
    }, 100);
    assert.equal(r.status, 200, `${model}: ${r.text}`);
    assert.equal(r.body.model, model);
    if (far[model]) assert.equal(r.body.choices[0].message.content, far[model]);
  }
  const embedded = await eventually(async () => {
    const r = await s.json('POST', '/v1/embeddings', { model: 'bert', input: 'a river' }, user);
    assert.notEqual(r.status, 503, r.text);
    return r;
  });
  assert.ok(embedded.status === 200 && embedded.body.data[0].embedding.length > 0, embedded.text);
  assert.equal((await s.json('POST', '/v1/chat/completions', { model: 'bert', messages: [{ role: 'user', content: 'Hi.' }] }, user)).status, 404);
});

test('the page offers those that chat, each answers there, and each chat remembers its own', opts, async () => {
  page = await house.page();
  const shown = () => page.locator('#model .model-name').innerText();
  const places = {};
  for (const model of chats) {
    await page.goto(house.server.url);
    await page.reload();
    await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
    await page.click('#model');
    await page.getByRole('menuitemradio').nth(chats.length - 1).waitFor();
    const offered = (await page.getByRole('menuitemradio').allInnerTexts()).filter((words) => /tokens of context|On another server|Loads when used/.test(words));
    assert.deepEqual(offered.map((words) => words.split('\n')[0].trim()).sort(), [...chats].sort());
    await page.getByRole('menuitemradio', { name: new RegExp(`^${model}`) }).click();
    await say(page, 'One sentence about a river.');
    const words = (await answered(page)).text.trim();
    if (far[model]) assert.equal(words, far[model]);
    assert.match(await lastAnswer(page).locator('.about-model').innerText(), new RegExp(model));
    places[model] = page.url();
  }
  assert.equal(new Set(Object.values(places)).size, chats.length);
  for (const model of chats.toReversed()) {
    await page.goto(places[model]);
    await eventually(async () => assert.equal(await shown(), model));
  }
  assert.deepEqual(house.problems, []);
});
