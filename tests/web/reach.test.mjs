// Who reaches what: fingers on a phone, and a keyboard without a mouse. (axe: axe.test.mjs)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, lastAnswer, noBrowser, openHouse, openSettings, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const FINGER = 44; // pixels
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

/** Buttons, fields and rows that can be pressed and are smaller than a finger; within text they may be. */
async function small(page, where) {
  return page.evaluate(([least, name]) => [...document.querySelectorAll('button, summary, select, input, [role=option], [role=menuitem], .conversation-link, .admin-link, .tile')]
    .filter((n) => n.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !n.closest('.sr, [inert], .prose p, .prose li'))
    .map((n) => ({ n, box: (n.closest('label') || n).getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0 && (box.height < least - 2.5 || box.width < Math.min(least - 12, 32)))
    .map(({ n, box }) => `${name}: ${n.id || n.className || n.name} ${Math.round(box.width)}x${Math.round(box.height)}`), [FINGER, where]);
}

test('on a phone everything to be pressed is as high as a finger', opts, async () => {
  const page = await house.page(PHONE);
  const bad = await small(page, 'welcome');
  await say(page, order({ text: '<think>\nHm.\n</think>\n\nYes.\n\n```html\n<p>x</p>\n```' }));
  await answered(page);
  bad.push(...await small(page, 'chat'));
  for (const button of ['#add', '#model', '#title-button']) {
    await page.click(button);
    bad.push(...await small(page, button));
    await page.keyboard.press('Escape');
  }
  await page.click('#sidebar-open');
  await page.waitForSelector('.conversation');
  bad.push(...await small(page, 'list'));
  await page.click('#account');
  bad.push(...await small(page, 'account'));
  await page.keyboard.press('Escape');
  await page.click('#sidebar-close');
  await page.click('#settings');
  await page.waitForSelector('#settings-dialog[open]');
  bad.push(...await small(page, 'settings'));
  await page.click('#settings-dialog .dialog-close');
  await openSettings(page, 'general');
  for (const section of await page.locator('.settings-tab').evaluateAll((all) => all.map((tab) => tab.dataset.section))) {
    await openSettings(page, section);
    bad.push(...await small(page, section));
  }
  await page.click('.settings-back');
  bad.push(...await small(page, 'settings list'));
  await page.goto(`${house.server.url}/admin`);
  await page.waitForSelector('.tile');
  for (const section of await page.locator('#sections a').evaluateAll((all) => all.map((a) => a.dataset.id))) {
    await page.click(`#sections a[data-id=${section}]`);
    await page.waitForTimeout(400); // what it shows arrives
    bad.push(...await small(page, `admin ${section}`));
  }
  await page.click('#sections a[data-id=users]');
  await page.locator('.name-button').first().click();
  await page.waitForSelector('.person .bars');
  bad.push(...await small(page, 'person'));
  assert.deepEqual([...new Set(bad)], []);
  await page.context().close();
});

test('the meter of a phone is a ring, and says its figures whole', opts, async () => {
  const page = await house.page({ ...PHONE, locale: 'de-DE' });
  await say(page, order({ text: 'Ja.' }));
  await answered(page);
  await page.waitForSelector('#meter:not([hidden])');
  const box = await page.locator('#meter').boundingBox();
  assert.ok(box.width <= 48, String(box.width));
  assert.match(await page.getAttribute('#meter', 'aria-label'), /^\d+ von [\d.]+ Token/);
  await page.context().close();
});

test('a chat by keyboard alone: model, files, sending, menu of an answer, versions, title, list, theme', opts, async () => {
  const page = await house.page();
  const key = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
  const here = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
  /** Tab until the wanted element has the focus. */
  const tabTo = async (selector, step = 'Tab') => {
    for (let i = 0; i < 80; i++) {
      if (await page.evaluate((s) => document.activeElement.matches(s), selector)) return;
      await key(step);
    }
    throw new Error(`no way by keyboard to ${selector}`);
  };
  await until(page, () => !document.querySelector('#model').hidden);
  await page.focus('#composer-text');
  await tabTo('#add');
  await key('Enter', 'ArrowDown', 'ArrowUp', 'Escape');
  assert.equal(await here(), 'add');
  await tabTo('#model');
  await key('Enter', 'End', 'Home', 'Escape');
  assert.equal(await here(), 'model');
  await page.focus('#composer-text');
  await page.keyboard.insertText(order({ text: 'Yes.' }));
  await key('Enter');
  await answered(page);
  await tabTo('.message.assistant .act-more', 'Shift+Tab');
  await key('Enter');
  await page.waitForSelector('.menu');
  await key('Escape');
  assert.match(await here(), /act-more/);
  await tabTo('#title-button', 'Shift+Tab');
  await key('Enter');
  await page.waitForSelector('.menu [role=menuitem]');
  await key('Escape');
  await tabTo('#theme', 'Shift+Tab');
  await key('Enter', 'End', 'Enter');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await tabTo('#sidebar-close', 'Shift+Tab');
  await key('Enter');
  await until(page, () => document.querySelector('#app').classList.contains('side-hidden'));
  assert.equal(await here(), 'sidebar-open');
  await page.context().close();
});

test('a dialog has a head and a foot that stay, and a cross', opts, async () => {
  const page = await house.page({ viewport: { width: 1280, height: 600 } });
  await page.click('#settings');
  await page.waitForSelector('#settings-dialog[open]');
  const places = () => page.evaluate(() => ['h2', '.dialog-close', 'form > .dialog-row'].map((s) => Math.round(document.querySelector(`#settings-dialog ${s}`).getBoundingClientRect().top)));
  await page.waitForTimeout(250); // it has come in
  const before = await places();
  await page.evaluate(() => { document.querySelector('#settings-dialog').scrollTop = 300; });
  assert.deepEqual(await places(), before);
  await page.click('#settings-dialog .dialog-close');
  await until(page, () => !document.querySelector('dialog[open]'));
  await page.context().close();
});

test('short words stand off the message box, over the chat', opts, async () => {
  const page = await house.page();
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  await lastAnswer(page).locator('.act-copy').click();
  const toast = await page.locator('.toast').boundingBox();
  const dock = await page.locator('.dock').boundingBox();
  const main = await page.locator('.main').boundingBox();
  assert.ok(toast.y + toast.height < dock.y);
  assert.ok(Math.abs((toast.x + toast.width / 2) - (main.x + main.width / 2)) < 12);
  await page.context().close();
});

test('bullets are discs, then circles, then squares; no colour of the browser\'s own', opts, async () => {
  const page = await house.page();
  await say(page, order({ text: '- a\n  - b\n    - c' }));
  await answered(page);
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.answer ul')].map((n) => getComputedStyle(n).listStyleType)), ['disc', 'circle', 'square']);
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.documentElement).accentColor), 'auto');
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
