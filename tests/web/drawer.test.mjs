// The list at the side as a place: archive and trash have ways of their own; on a phone it is a drawer that follows a finger, with targets that
// a finger hits.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { axe, RULES } from './axe.mjs';
import { answered, noBrowser, openHouse, openSettings, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
let house;
const api = (method, where, body) => house.server.json(method, where, body);
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  const ids = [];
  for (const title of ['Kept', 'Put away', 'Thrown away']) ids.push((await api('POST', '/api/conversations', { title })).body.id);
  await api('POST', '/api/conversations/bulk', { ids: [ids[1]], archived: true });
  await api('POST', '/api/conversations/bulk', { ids: [ids[2]], trashed: true });
});
after(async () => { await house?.close(); });

const titles = (page) => page.$$eval('.conversation-title', (all) => all.map((n) => n.textContent));
const heard = (page, text) => until(page, `document.querySelector('#live').textContent.trim().startsWith(${JSON.stringify(text)})`);

test('archive and trash are in sight, by keyboard too; where one is, is titled, told and left again', opts, async () => {
  const page = await house.page();
  await until(page, () => document.querySelector('.conversation-title')?.textContent === 'Kept');
  await page.focus('#account');
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Trash');
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Archive');
  await page.keyboard.press('Enter');
  await heard(page, 'Archive: 1 chat');
  assert.deepEqual(await titles(page), ['Put away']);
  assert.equal(await page.textContent('#place h2'), 'Archive');
  assert.equal(await page.getAttribute('#conversations', 'aria-label'), 'Archive');
  assert.equal(await page.getAttribute('[data-place=archive]', 'aria-current'), 'page');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await heard(page, 'Trash: 1 chat');
  assert.deepEqual(await titles(page), ['Thrown away']);
  assert.ok(await page.isVisible('#place-kept'));
  await page.fill('#search', 'no such'); // what is searched is searched there
  await until(page, () => document.querySelector('#conversations .empty')?.textContent === 'No results.');
  await page.fill('#search', 'thrown');
  await until(page, () => document.querySelector('.conversation-title')?.textContent === 'Thrown away');
  await page.fill('#search', '');
  await until(page, () => document.querySelector('#conversations').dataset.query === '');
  await page.click('#place-empty');
  await page.click('#confirm-dialog .danger');
  await until(page, () => document.querySelector('.place-none b')?.textContent === 'Trash is empty');
  await page.fill('#search', 'tag:none'); // what is filtered says nothing of the rest
  await until(page, () => document.querySelector('#conversations .empty')?.textContent === 'No results.');
  await page.fill('#search', '');
  await until(page, () => document.querySelector('.place-none b'));
  assert.match(await page.textContent('.place-none p'), /30 days/);
  assert.ok(await page.isHidden('#place-empty'));
  assert.deepEqual(await axe(page, { type: 'tag', values: RULES }), []);
  await page.focus('#place-back');
  await page.keyboard.press('Enter');
  await until(page, () => document.querySelector('.conversation-title')?.textContent === 'Kept');
  assert.ok(await page.isHidden('#place'));
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await api('POST', '/api/conversations/bulk', { ids: (await api('GET', '/api/conversations?archived=1')).body.items.map((c) => c.id), archived: false });
  await page.keyboard.press('Control+k');
  await page.fill('#palette input', 'archive');
  await page.locator('#palette [role=option]', { hasText: /^Archive$/ }).click();
  await until(page, () => document.querySelector('.place-none b')?.textContent === 'Nothing archived yet');
  await page.click('[data-place=archive]'); // where one is leads back
  await until(page, () => document.querySelectorAll('.conversation').length === 2);
  await page.context().close();
});

/** A finger goes by these places, [x, y], with so many milliseconds between two, as the page is told, however busy the machine is. Gives what
 *  lifts it, after `rest` milliseconds. */
async function finger(page, places, ms = 16, lift = true) {
  page.cdp ??= await page.context().newCDPSession(page);
  let now = Date.now() / 1000;
  const touch = (type, point) => page.cdp.send('Input.dispatchTouchEvent', { type, timestamp: now, touchPoints: point ? [{ x: point[0], y: point[1] }] : [] });
  await touch('touchStart', places[0]);
  for (const place of places.slice(1)) { now += ms / 1000; await touch('touchMove', place); }
  const up = async (rest = 0) => {
    now += rest / 1000;
    await touch('touchEnd');
    await page.waitForTimeout(Math.max(0, now * 1000 - Date.now()) + 20); // what comes next is told later, too
  };
  if (lift) await up();
  return up;
}
const way = (x0, x1, y, n = 8) => Array.from({ length: n + 1 }, (_, i) => [x0 + ((x1 - x0) * i) / n, y]);
const shown = (page) => page.evaluate(() => !document.querySelector('#app').classList.contains('side-hidden'));
const settled = (page, open) => until(page, open
  ? () => document.querySelector('#sidebar').getBoundingClientRect().left === 0 && !document.querySelector('#app').matches('.side-hidden, .is-dragged')
  : () => document.querySelector('#sidebar').getBoundingClientRect().right <= 0 && document.querySelector('#app').matches('.side-hidden:not(.is-dragged)'));

test('on a phone the drawer follows a finger from the edge, and back; half the way or a fling decides', opts, async () => {
  const page = await house.page(PHONE);
  await settled(page, false);
  const lift = await finger(page, way(6, 126, 400), 16, false);
  await until(page, () => Math.abs(document.querySelector('#sidebar').getBoundingClientRect().left + 200) <= 2); // under the finger
  assert.ok(await page.evaluate(() => Number(getComputedStyle(document.querySelector('#scrim')).opacity)) > 0.2);
  await lift(300); // it rested there: no fling
  await settled(page, false);
  await finger(page, way(6, 250, 400), 30);
  await settled(page, true);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'sidebar-close');
  assert.ok(await page.evaluate(() => document.querySelector('.main').inert));
  await finger(page, way(300, 260, 400, 3), 8); // short and fast
  await settled(page, false);
  assert.ok(!await page.evaluate(() => document.querySelector('.main').inert));
  await finger(page, way(6, 60, 400, 3), 8);
  await settled(page, true);
  await finger(page, way(380, 200, 500), 16); // on the scrim
  await settled(page, false);
  await finger(page, way(120, 350, 400), 16); // not from the edge
  await page.waitForTimeout(100);
  assert.equal(await shown(page), false);
  await finger(page, way(6, 126, 400), 16, false);
  await until(page, () => document.querySelector('#app').matches('.is-dragged'));
  await page.setViewportSize({ width: 844, height: 390 }); // turned, with the finger on it
  await until(page, () => !document.querySelector('#app').matches('.side-hidden, .is-dragged') && !document.querySelector('#sidebar').style.transform);
  await page.cdp.send('Input.dispatchTouchEvent', { type: 'touchCancel', touchPoints: [] });
  await page.setViewportSize(PHONE.viewport);
  await settled(page, false);
  const sideways = () => page.evaluate(() => getComputedStyle(document.querySelector('.main')).touchAction);
  assert.equal(await sideways(), 'pan-y pinch-zoom');
  await page.cdp.send('Emulation.setPageScaleFactor', { pageScaleFactor: 2 }); // who zoomed in moves over the page by the same ways
  await until(page, () => document.querySelector('#app').matches('.is-zoomed'));
  assert.equal(await sideways(), 'auto');
  await finger(page, way(6, 250, 400), 16);
  assert.equal(await shown(page), false);
  await page.context().close();
});

test('ways up and down scroll, code keeps its own ways sideways, a tap stays a tap, less motion is none', opts, async () => {
  const page = await house.page({ ...PHONE, reducedMotion: 'reduce' });
  await say(page, order({ text: `\`\`\`\n${'wide '.repeat(80)}\n\`\`\`\n\n${'A paragraph of the answer.\n\n'.repeat(60)}` }));
  await answered(page);
  await page.evaluate(() => { document.querySelector('#scroller').scrollTop = 0; });
  const code = await page.locator('.code pre').boundingBox();
  await (await finger(page, way(300, 100, code.y + code.height / 2), 16, false))(300); // at rest: a tap while something still scrolls would only stop it
  await until(page, () => document.querySelector('.code pre').scrollLeft > 50);
  assert.equal(await shown(page), false);
  await (await finger(page, [[10, 600], [10, 560], [12, 480], [14, 400], [16, 300]], 16, false))(300); // from the edge, but up
  await until(page, () => document.querySelector('#scroller').scrollTop > 100);
  assert.equal(await shown(page), false);
  await finger(page, way(6, 250, 400), 16);
  assert.equal(await eventually(async () => {
    const at = await page.evaluate(() => (document.querySelector('#app').matches('.side-hidden, .is-dragged') ? null : document.querySelector('#sidebar').getBoundingClientRect().left));
    assert.notEqual(at, null);
    return at;
  }, 20), 0); // at once
  const row = await page.locator('.conversation-link').first().boundingBox();
  await (await finger(page, way(row.x + 200, row.x + 20, row.y + 20), 16, false))(300); // over a row: it is not opened
  await until(page, () => document.querySelector('#app').matches('.side-hidden'));
  const here = page.url();
  await page.waitForTimeout(100);
  assert.equal(page.url(), here);
  await page.tap('#sidebar-open');
  await page.locator('.conversation-link', { hasText: 'Kept' }).tap();
  await until(page, () => document.querySelector('#title').textContent === 'Kept');
  await page.context().close();
});

test('the buttons for what is selected are 44 pixels large on a phone, and none lies over another', opts, async () => {
  for (const width of [390, 320]) {
    const page = await house.page({ ...PHONE, viewport: { width, height: 700 } });
    await page.tap('#sidebar-open');
    await settled(page, true);
    await page.locator('.conversation-more').first().tap();
    await page.locator('.menu .i-select').tap();
    await page.waitForSelector('#selection:not([hidden])'); // a tap is a click a moment later
    const boxes = await page.$$eval('#selection button', (all) => all.map((n) => { const { x, y, width: w, height: h } = n.getBoundingClientRect(); return { name: n.ariaLabel, x, y, w, h }; }));
    assert.equal(boxes.length, 7);
    assert.deepEqual(boxes.filter((b) => b.w < 44 || b.h < 44), []);
    const over = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
    assert.deepEqual(boxes.filter((a) => boxes.some((b) => a !== b && over(a, b))), []);
    assert.equal(new Set(boxes.slice(1).map((b) => b.y)).size, 1, 'what can be done stands in one row');
    await page.context().close();
  }
});

test('a tablet in French: the list says its words in one line, its buttons stand in one row, a choice is shown whole', opts, async () => {
  const page = await house.page({ viewport: { width: 820, height: 1180 }, hasTouch: true, locale: 'fr-FR' });
  assert.equal((await page.locator('#new-chat').boundingBox()).height, 44);
  await page.locator('.conversation-more').first().tap();
  await page.locator('.menu .i-select').tap();
  await page.waitForSelector('#selection:not([hidden])');
  const tops = await page.$$eval('#selection button', (all) => all.slice(1).map((n) => n.getBoundingClientRect().y));
  assert.equal(new Set(tops).size, 1);
  await page.locator('#selection button').first().tap();
  await openSettings(page, 'keys');
  const cut = await page.$$eval('#keys-form select', (all) => all.filter((n) => {
    const style = getComputedStyle(n);
    const pen = Object.assign(document.createElement('canvas').getContext('2d'), { font: style.font });
    return pen.measureText(n.selectedOptions[0].text).width > n.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  }).map((n) => n.selectedOptions[0].text));
  assert.deepEqual(cut, []);
  await page.context().close();
});

test('a found passage begins with a sentence or a word, with an ellipsis only where it was cut', opts, async () => {
  const page = await house.page();
  await say(page, 'Many words came before this, as they do in long answers. The quick heron waits for a sentence that has neither comma nor end and goes on with the slow tortoise and whatever else is to be said.');
  await answered(page);
  const passage = async (text) => {
    await page.fill('#search', text);
    await until(page, `document.querySelector('#conversations').dataset.query === ${JSON.stringify(text)}`);
    return (await page.locator('.conversation-match').first().textContent()).replace(/^.*? · /, '');
  };
  assert.match(await passage('heron waits'), /^The quick heron waits for a sentence/);
  assert.match(await passage('slow tortoise'), /^… \w+ (\w+ )+the slow tortoise and whatever/);
  assert.match(await passage('many words'), /^Many words came/);
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
