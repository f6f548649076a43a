// Models of this machine beside the first in the page: the menu in the message box, a chat that remembers, and the operator's list.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const models = mkdtempSync(path.join(os.tmpdir(), 'slm-'));
mkdirSync(path.join(models, 'second'));
for (const f of readdirSync(demo)) symlinkSync(path.join(demo, f), path.join(models, 'second', f));
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true, args: ['--models', models] });
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
