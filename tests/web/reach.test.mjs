// Who reaches what: fingers on a phone, and a keyboard without a mouse. (axe: axe.test.mjs)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, lastAnswer, noBrowser, openHouse, openSettings, order, say, still, until } from './page.mjs';

const opts = { skip: noBrowser };
const FINGER = 44; // pixels
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

/** Buttons, fields and rows that can be pressed and are smaller than a finger; within text they may be. */
async function small(page, where) {
  await still(page); // what comes in grows
  return page.evaluate(([least, name]) => [...document.querySelectorAll('button, summary, select, input, [role=option], [role=menuitem], .conversation-link, .admin-link, .tile')]
    .filter((n) => n.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !n.closest('.sr, [inert], .prose p, .prose li, .log-text'))
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
  assert.equal(await page.locator('.menu kbd:visible').count(), 0); // a phone has none of these keys
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
  await still(page); // it has come in
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
  await page.locator('.toast').hover(); // what is pointed at stays
  await still(page);
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

/** Goes through all that Tab reaches; gives what has the focus while something lies over its middle or it is beside the screen. */
async function obscured(page, steps) {
  const bad = new Set();
  for (let i = 0; i < steps; i++) {
    await page.keyboard.press('Tab');
    const found = await page.evaluate(() => {
      const n = document.activeElement;
      if (n === document.body || n.matches('[tabindex="-1"], [role=tabpanel], .admin-scroll')) return '';
      const box = (n.closest('label') || n).getBoundingClientRect();
      const [x, y] = [box.left + box.width / 2, box.top + Math.min(box.height / 2, 40)];
      const top = document.elementFromPoint(x, y);
      return top && (n.contains(top) || top.contains(n) || top.closest('label')?.contains(n)) ? '' : `${n.name || n.id || n.className} ${Math.round(y)}: ${top?.className}`;
    });
    if (found) bad.add(found);
  }
  return [...bad];
}

test('what has the focus is never under a head or a foot that stays', opts, async () => {
  const page = await house.page({ viewport: { width: 1280, height: 480 }, reducedMotion: 'reduce' });
  await page.click('#settings');
  await page.waitForSelector('#settings-dialog[open]');
  await page.click('.settings-advanced summary');
  assert.deepEqual(await obscured(page, 28), []);
  await page.keyboard.press('Escape');
  await openSettings(page, 'chat');
  await page.click('.settings-advanced summary');
  assert.deepEqual(await obscured(page, 32), []);
  await page.goto(`${house.server.url}/admin#/settings`);
  await page.waitForSelector('.setting');
  assert.deepEqual(await obscured(page, 60), []);
  await page.context().close();
});

test('wider spacing of letters, words and lines cuts nothing off', opts, async () => {
  const page = await house.page({ reducedMotion: 'reduce' });
  await say(page, order({ text: '<think>\nHm.\n</think>\n\nYes, **this**.\n\n- a list\n\n```js\nlet x = 1;\n```' }));
  await answered(page);
  const cut = () => page.evaluate(() => {
    const sheet = new CSSStyleSheet(); // WCAG 1.4.12; the page's policy lets nobody write it as an element
    sheet.replaceSync('* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; } p { margin-bottom: 2em !important; }');
    document.adoptedStyleSheets = [sheet];
    const bad = [...document.querySelectorAll('body *')].filter((n) => n.checkVisibility() && n.textContent.trim() && !n.closest('.sr, .i, svg, .meter-tip, .katex, noscript')
      && /hidden|clip/.test(getComputedStyle(n).overflowY) && n.scrollHeight > n.clientHeight + 2 && getComputedStyle(n).webkitLineClamp === 'none'
      && n.clientHeight < 200).map((n) => `${n.id || n.className}: ${n.scrollHeight} in ${n.clientHeight}`);
    if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the screen');
    return [...new Set(bad)];
  });
  assert.deepEqual(await cut(), []);
  for (const section of ['general', 'appearance', 'usage', 'security', 'data']) {
    await openSettings(page, section);
    assert.deepEqual(await cut(), [], section);
  }
  await page.context().close();
});

test('at 200 and at 400 percent one can read, write and save', opts, async () => {
  for (const viewport of [{ width: 640, height: 400 }, { width: 320, height: 256 }]) { // of 1280 by 800, and by 1024
    const page = await house.page({ viewport, reducedMotion: 'reduce' });
    await say(page, order({ text: 'word '.repeat(200) }));
    await answered(page);
    const [scroller, send] = await page.evaluate(() => ['#scroller', '#send'].map((s) => document.querySelector(s).getBoundingClientRect().toJSON()));
    assert.ok(scroller.height >= 60 && send.bottom <= viewport.height && send.right <= viewport.width, JSON.stringify([viewport, scroller, send]));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.click('#settings');
    await page.waitForSelector('#settings-dialog[open]');
    const save = page.locator('#settings-form .dialog-row .primary').last();
    await save.scrollIntoViewIfNeeded();
    await page.fill('#settings-form [name=system]', 'Be brief.');
    await save.click();
    await until(page, () => !document.querySelector('dialog[open]'));
    await openSettings(page, 'general');
    await page.locator('.pref').last().scrollIntoViewIfNeeded();
    assert.ok(await page.evaluate(() => [...document.querySelectorAll('.settings-main *')].every((n) => n.getBoundingClientRect().right <= innerWidth + 1)));
    await page.context().close();
  }
});

test('who wants less motion gets none', opts, async () => {
  const moving = async (reducedMotion) => {
    const page = await house.page({ reducedMotion });
    // Counted as they begin: on a busy machine one may be over before anybody can look.
    await page.evaluate(() => {
      window.began = 0;
      for (const type of ['transitionrun', 'animationstart']) document.addEventListener(type, () => { window.began++; }, true);
    });
    await page.click('#theme');
    await page.waitForSelector('[role=menu]');
    if (reducedMotion !== 'reduce') await until(page, () => window.began > 0);
    const n = await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(() => done(window.began))); }));
    await page.context().close();
    return n;
  };
  assert.ok(await moving('no-preference') > 0);
  assert.equal(await moving('reduce'), 0);
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
