// How the page looks and whom it serves: dark mode, phone width, keyboard, axe.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { top } from '../api/harness.mjs';
import { answered, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse(); });
after(async () => { await house?.close(); });

async function axe(page) {
  const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
  const source = readFileSync(createRequire(path.join(modules, 'x.js')).resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(source); // by the debugger, which the page's policy does not bind
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }));
  return found.violations.filter((v) => ['serious', 'critical'].includes(v.impact))
    .map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
}

test('log-in has no serious fault of accessibility', opts, async () => {
  const page = await (await house.browser.newContext()).newPage();
  await page.goto(house.server.url);
  await page.waitForSelector('#login:not([hidden])');
  assert.deepEqual(await axe(page), []);
  await page.context().close();
});

for (const scheme of ['light', 'dark']) {
  test(`a chat in ${scheme} mode has no serious fault of accessibility`, opts, async () => {
    const page = await house.page({ colorScheme: scheme });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), scheme);
    assert.deepEqual(await axe(page), []);
    await say(page, 'Write a Python program that prints the numbers from 1 to 3.');
    await answered(page);
    assert.deepEqual(await axe(page), []);
    await page.context().close();
  });
}

test('the theme can be chosen and is remembered', opts, async () => {
  const page = await house.page({ colorScheme: 'light' });
  await page.click('#theme');
  await page.click('#theme');
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
  assert.deepEqual(await axe(page), []);
  await page.context().close();
});

test('everything can be done by keyboard', opts, async () => {
  const page = await house.page();
  await page.keyboard.press('Control+b');
  await until(page, () => document.querySelector('#app').classList.contains('side-hidden'));
  await page.keyboard.press('Control+k');
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
  await page.keyboard.press('?');
  assert.ok(await page.isVisible('#help-dialog'));
  await page.keyboard.press('Escape');
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
