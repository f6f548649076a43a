// Models of this machine beside the first in the page: the menu in the message box, a chat that remembers, and the operator's list.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
for (const name of ['second', 'third']) {
  mkdirSync(path.join(models, name));
  for (const f of readdirSync(demo)) symlinkSync(path.join(demo, f), path.join(models, name, f));
}
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true, args: ['--models', models, '--ram-budget', '300000000'] });
  page = await house.page();
});
after(async () => { await house?.close(); rmSync(models, { recursive: true, force: true }); });

test('the operator adds one from the list', opts, async () => {
  await page.goto(`${house.server.url}/admin#/models`);
  await page.reload();
  await page.waitForSelector('#admin:not([hidden])');
  await page.getByRole('button', { name: 'Load when used: second' }).click();
  const row = page.locator('tbody tr', { hasText: 'Not loaded' });
  await row.getByText('second', { exact: true }).waitFor();
  await until(page, () => ![...document.querySelectorAll('button')].some((b) => b.ariaLabel === 'Load when used: second'));
  assert.deepEqual(house.problems, []);
});

test('it is chosen in the message box, loaded by the first message, and its answer says so', opts, async () => {
  await page.goto(house.server.url);
  await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: /second.*Loads when used/ }).click();
  await until(page, () => document.querySelector('#model .model-name').textContent === 'second');
  await say(page, 'Hello');
  assert.equal((await answered(page)).text.trim(), 'ok');
  assert.match(await lastAnswer(page).locator('.about-model').innerText(), /second/);
  await page.reload(); // the chat remembers it
  await until(page, () => document.querySelector('#model .model-name')?.textContent === 'second');
  await page.click('#model');
  assert.ok(await page.getByRole('menuitemradio', { name: /second/ }).innerText().then((words) => !words.includes('Loads when used')));
  await page.getByRole('menuitemradio').first().click();
  await until(page, () => document.querySelector('#model .model-name').textContent !== 'second');
  assert.deepEqual(house.problems, []);
});

test('one that has no room beside those that stay says so in the reader\'s words, and the text is still there', opts, async () => {
  const { items } = (await house.server.json('GET', '/api/admin/registry')).body;
  assert.equal((await house.server.json('PATCH', `/api/admin/registry/${items[0].id}`, { pinned: true })).status, 200);
  const added = await house.server.json('POST', '/api/admin/registry', { name: 'third', path: path.join(models, 'third') });
  assert.equal(added.status, 201, added.text);
  await eventually(async () => assert.notEqual((await house.server.json('GET', '/v1/models/third')).body.sluice?.chat_template, undefined));
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: /third/ }).click();
  await until(page, () => document.querySelector('#model .model-name').textContent === 'third');
  await page.fill('#composer-text', 'Is there room?');
  await page.press('#composer-text', 'Enter');
  await until(page, () => document.body.innerText.includes('doesn’t fit into the server’s memory right now: it needs'));
  assert.equal(await page.locator('#composer-text').inputValue(), 'Is there room?');
  house.problems.length = 0; // the 503 is a line of the console
  await house.server.json('DELETE', `/api/admin/registry/${added.body.id}`);
  await house.server.json('PATCH', `/api/admin/registry/${items[0].id}`, { pinned: false });
});

test('the operator pins, unloads and removes it', opts, async () => {
  await page.goto(`${house.server.url}/admin#/models`);
  await page.reload();
  await page.getByRole('button', { name: 'Pin: second' }).click();
  await page.getByText('Pinned', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Unload: second' }).click();
  await page.getByRole('button', { name: 'Load: second', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Remove: second' }).click();
  await page.locator('#confirm-dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Load when used: second' }).waitFor();
  assert.deepEqual(house.problems, []);
});
