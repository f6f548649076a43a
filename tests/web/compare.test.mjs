// Several models answer one message at once: this machine's first, another of this machine, one of another server, side by side.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually, lasting } from '../api/harness.mjs';
import { addUpstream, FakeUpstream } from '../api/upstream_rig.mjs';
import { axe, RULES } from './axe.mjs';
import { answered, noBrowser, openHouse, order, until } from './page.mjs';

const opts = { skip: noBrowser };
const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
mkdirSync(path.join(models, 'second'));
for (const f of readdirSync(demo)) symlinkSync(path.join(demo, f), path.join(models, 'second', f));
const words = 'From far away it comes slowly, word by word by word.'.split(' ').map((w) => `${w} `);
let house, page, up, first;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true, args: ['--models', models, '--ram-budget', '300000000'] });
  up = await FakeUpstream.open({ words, delay: 300 });
  await addUpstream(house.server, 'near', up.url, ['far-model']);
  const added = await house.server.json('POST', '/api/admin/registry', { name: 'second', path: path.join(models, 'second') });
  assert.equal(added.status, 201, added.text);
  await eventually(async () => assert.notEqual((await house.server.json('GET', '/v1/models/second')).body.sluice?.chat_template, undefined));
  first = (await house.server.json('GET', '/api/status')).body.model.id;
  page = await house.page();
  await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
});
after(async () => { await house?.close(); await up?.stop(); rmSync(models, { recursive: true, force: true }); });

const stored = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;
const texts = () => page.locator('.beside-column').evaluateAll((all) => all.map((c) => c.querySelector('.answer')?.innerText.trim() ?? ''));
const heads = () => page.locator('.beside-column .beside-model').allInnerTexts();
const allDone = () => until(page, () => document.querySelector('.beside-column') && !document.querySelector('.message[data-status=running]'));
async function send(text) {
  await page.fill('#composer-text', text);
  if (await page.evaluate(() => matchMedia('(pointer: coarse)').matches)) await page.click('#send');
  else await page.press('#composer-text', 'Enter');
}
async function choose(...names) {
  await page.click('#model');
  await page.getByRole('menuitem', { name: /Compare models/ }).click();
  for (const name of names) await page.getByRole('menuitemcheckbox', { name }).click();
  await page.keyboard.press('Escape');
}

test('further models are chosen in the message box, by mouse or keyboard', opts, async () => {
  await page.locator('#model').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: /Compare models/ }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.menu [role=menuitemcheckbox]').first().waitFor();
  assert.deepEqual((await page.locator('.menu [role=menuitemcheckbox]').allInnerTexts()).map((x) => x.trim()).sort(), ['far-model', 'second']);
  await page.getByRole('menuitemcheckbox', { name: 'second' }).focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.getByRole('menuitemcheckbox', { name: 'second' }).getAttribute('aria-checked'), 'true');
  await page.getByRole('menuitemcheckbox', { name: 'far-model' }).click();
  await page.keyboard.press('Escape');
  await until(page, () => /\+2$/.test(document.querySelector('#model .model-name').textContent));
  assert.match(await page.getAttribute('#model', 'aria-label'), /second, far-model/);
  await page.click('#settings'); // the form knows nothing of models, and leaves them alone
  await page.fill('#settings-form [name=system]', 'Be brief.');
  await page.click('#settings-form .primary');
  await until(page, () => !document.querySelector('#settings-dialog'));
  assert.match(await page.innerText('#model .model-name'), /\+2$/);
});

test('one message is answered by all at once; one is stopped, the page reloaded, and each goes on by itself', opts, async () => {
  up.knobs = { words: Array(400).fill('far '), delay: lasting(100) }; // it is stopped
  await send(order({ text: 'Near by, a word at a time, and for a good while yet.', token_ms: lasting(250) }));
  await until(page, () => document.querySelectorAll('.beside-column[data-status=running]').length === 3);
  assert.deepEqual(await heads(), [first, 'second', 'far-model']);
  await until(page, () => [...document.querySelectorAll('.beside-column .answer')].filter((a) => a.innerText.trim()).length === 3);
  await page.getByRole('button', { name: 'Stop far-model' }).click();
  await until(page, () => document.querySelectorAll('.beside-column')[2].dataset.status === 'stopped');
  assert.equal(await page.locator('.beside-column[data-status=stopped]').count(), 1);
  await page.reload();
  await until(page, () => document.querySelectorAll('.beside-column').length === 3);
  await allDone();
  const [near, second, far] = await texts();
  assert.deepEqual([near, second], Array(2).fill('Near by, a word at a time, and for a good while yet.'));
  assert.ok(far.startsWith('far') && far.length < 1000, far);
  assert.match(await page.locator('.beside-column .beside-state').nth(1).innerText(), /\d.* s/);
  const { messages, settings, leaf_id: leaf } = await stored();
  const answers = messages.filter((m) => m.role === 'assistant');
  assert.equal(new Set(answers.map((m) => m.parent_id)).size, 1);
  assert.equal(answers.find((m) => m.id === leaf).model, first, 'the chat goes on from its own model');
  assert.deepEqual(settings.compare, ['second', 'far-model']);
  assert.deepEqual(await axe(page, { type: 'tag', values: RULES }), []);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await axe(page, { type: 'rule', values: ['color-contrast'] }), []);
  await page.emulateMedia({ colorScheme: 'light' });
});

test('one answer is used: the chat goes on with its model, and the others stay as versions, in an export too', opts, async () => {
  const said = page.locator('.toast', { hasText: 'continues with second' }).waitFor(); // for a moment
  await page.getByRole('button', { name: 'Use the answer from second' }).click();
  await page.locator('.beside').waitFor({ state: 'detached' });
  await until(page, () => document.querySelector('.versions-text')?.textContent.endsWith('/3') && document.querySelector('#model .model-name').textContent === 'second');
  await said;
  await send(order({ text: 'And on.' }));
  assert.equal((await answered(page, 2)).text.trim(), 'And on.');
  const { messages, settings } = await stored();
  assert.deepEqual([settings.model, settings.compare, messages.at(-1).model], ['second', undefined, 'second']);
  assert.equal(messages.find((m) => m.id === messages.find((x) => x.id === messages.at(-1).parent_id).parent_id).model, 'second');
  const made = (await house.server.json('GET', `/api/export?conversation=${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body.conversations[0];
  assert.deepEqual(made.messages.filter((m) => m.role === 'assistant').map((m) => m.model).sort(), [first, 'far-model', 'second', 'second'].sort());
  assert.deepEqual(house.problems, []);
});

test('a model that the limit of answers at once refuses says so in its column, and is asked again from there', opts, async () => {
  // The title of the chat before is an answer of this user as well, while it is made.
  await house.server.logs(/\/title status=/);
  assert.equal((await house.server.json('PATCH', '/api/admin/settings', { user_max_jobs: 2 })).status, 200);
  let release; // whichever of the two is refused, there is no place when it is asked once more
  up.knobs = { words: ['Far.'], until: new Promise((done) => { release = done; }) };
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
  await choose('second', 'far-model');
  await send(order({ text: 'Slow, slow, slow, slow, slow, slow, slow, slow, slow, slow, slow, slow.', token_ms: lasting(250) }));
  const refused = page.locator('.beside-slot .problem');
  await until(page, () => document.querySelectorAll('.beside-column[data-status=running]').length === 2 && document.querySelector('.beside-slot .problem'));
  assert.match(await refused.innerText(), /as many answers running as/);
  release();
  await allDone();
  assert.equal((await house.server.json('PATCH', '/api/admin/settings', { user_max_jobs: null })).status, 200);
  await refused.getByRole('button', { name: /^Ask / }).click();
  await until(page, () => document.querySelectorAll('.beside-column[data-status=done]').length === 3 && !document.querySelector('.beside-slot'));
  const { messages, leaf_id: leaf } = await stored();
  assert.equal(messages.find((m) => m.id === leaf).model, first, 'the chat goes on from its own model, whoever is asked late');
  house.problems.length = 0; // the 429 is a line of the console
});

test('what is typed meanwhile waits for the last of them; a model that is chosen alone ends the comparison', opts, async () => {
  let release;
  up.knobs = { words: ['Far ', 'and ', 'slow.'], until: new Promise((done) => { release = done; }) };
  await send(order({ text: 'Quick.' }));
  await until(page, () => document.querySelectorAll('.beside-column[data-status=done]').length >= 1 && document.querySelector('.beside-column[data-status=running]'));
  await send(order({ text: 'Next.' }));
  await page.locator('#queued:not([hidden])').waitFor();
  up.knobs = { words: ['Far.'] };
  release();
  await until(page, () => [...document.querySelectorAll('.beside-column .answer')].map((a) => a.innerText.trim()).includes('Next.'));
  await until(page, () => [...document.querySelectorAll('.beside')].at(-1).querySelectorAll('.beside-column[data-status=done]').length === 3);
  const { messages } = await stored();
  assert.equal(messages.filter((m) => m.role === 'user').length, 3);
  assert.equal(messages.filter((m) => m.role === 'assistant').length, 9);
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: /far-model/ }).click();
  await page.locator('.beside').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await stored()).settings.compare, undefined));
});

test('on a phone the answers are a strip with a button for each', opts, async () => {
  const phone = await house.page({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
  const before = page;
  page = phone;
  await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
  await choose('second', 'far-model');
  await send(order({ text: 'Short.' }));
  await until(page, () => document.querySelectorAll('.beside-column[data-status=done]').length === 3);
  const tab = page.getByRole('button', { name: 'far-model', exact: true });
  assert.equal(await page.locator('.beside-tab[aria-pressed=true]').innerText(), first);
  await tab.click();
  await until(page, () => { const c = document.querySelectorAll('.beside-column')[2].getBoundingClientRect(); return c.left >= 0 && c.right <= innerWidth + 1; });
  await until(page, () => document.querySelectorAll('.beside-tab')[2].ariaPressed === 'true');
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  assert.deepEqual(await axe(page, { type: 'rule', values: ['target-size', 'scrollable-region-focusable', 'aria-hidden-focus'] }), []);
  page = before;
  await phone.context().close();
  assert.deepEqual(house.problems, []);
});

test('a stop is for the models too that are about to be asked', opts, async () => {
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
  await choose('second', 'far-model');
  up.knobs = { words, delay: 3000 };
  let held = 0, release;
  const released = new Promise((done) => { release = done; });
  await page.route('**/messages', async (route) => {
    if (route.request().postData()?.includes('regenerate')) { held++; await released; }
    await route.continue();
  });
  await send(order({ text: 'Slow, slow, slow, slow, slow, slow, slow, slow.', token_ms: 5000 }));
  await until(page, () => document.querySelector('.beside-column[data-status=running]'));
  await eventually(() => assert.ok(held >= 2));
  await page.click('#stop');
  await until(page, () => document.querySelector('.beside-column[data-status=stopped]'));
  release();
  await until(page, () => document.querySelectorAll('.beside-column[data-status=stopped]').length === 3);
  await page.unrouteAll();
  assert.deepEqual((await stored()).messages.filter((m) => m.role === 'assistant').map((m) => m.status), Array(3).fill('stopped'));
  assert.deepEqual(house.problems, []);
});
