// How the page looks and whom it serves: theme, phone width, keyboard. (axe: axe.test.mjs)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse(); });
after(async () => { await house?.close(); });

test('the theme can be chosen and is remembered', opts, async () => {
  const page = await house.page({ colorScheme: 'light' });
  await page.click('#theme');
  await page.getByRole('menuitemradio', { name: 'Dark' }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.context().close();
});

test('a phone shows one column and a list that slides in', opts, async () => {
  const page = await house.page({ viewport: { width: 375, height: 700 }, hasTouch: true, isMobile: true });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.waitForSelector('#composer-text');
  await page.fill('#composer-text', 'Hello');
  await page.click('#send');
  await answered(page);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.click('#sidebar-open');
  await page.waitForSelector('.conversation');
  assert.ok(await page.locator('.conversation').first().isVisible());
  await page.click('#sidebar-close');
  await page.context().close();
});

test('everything can be done by keyboard', opts, async () => {
  const page = await house.page();
  await page.evaluate(() => localStorage.setItem('single-keys', '1'));
  await page.keyboard.press('Control+b');
  await until(page, () => document.querySelector('#app').classList.contains('side-hidden'));
  await page.keyboard.press('Control+Shift+f');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.press('Escape');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'composer-text');
  await page.keyboard.type('Hello');
  await page.keyboard.press('Enter');
  await answered(page);
  await page.keyboard.press('Control+Shift+o');
  await page.waitForSelector('#welcome:not([hidden])');
  await page.evaluate(() => document.activeElement.blur());
  await page.evaluate(() => localStorage.setItem('single-keys', '1')); // by the switch of that very sheet
  await page.keyboard.press('?');
  await page.waitForSelector('#settings-window[open] #help-list');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#settings-window', { state: 'detached' });
  await page.focus('#account');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'menuitem');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'account');
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
