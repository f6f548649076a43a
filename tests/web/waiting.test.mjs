// What is still loading: calm shapes in its place, after a moment only; nothing moves, nothing is read aloud, less motion is none.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, RULES } from './axe.mjs';
import { answered, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page, chat;
const api = async (method, where, body) => (await house.server.json(method, where, body)).body;
const held = new Set(); // what waits at the door

/** Requests whose path has this in it wait until the door is opened, or are answered at once. */
async function door(words) {
  await page.unroute('**/api/**');
  for (const open of held) open();
  held.clear();
  if (words) await page.route('**/api/**', async (route) => {
    if (route.request().url().includes(words)) await new Promise((open) => held.add(open));
    await route.continue().catch(() => {}); // the page may have gone elsewhere
  });
}
/** Requests whose path has this in it fail, while nothing else is said. */
async function broken(words) {
  await door(null);
  await page.route('**/api/**', (route) => (route.request().url().includes(words) ? route.fulfill({ status: 503, json: { error: { message: 'Not now' } } }) : route.continue()));
}
const shapes = (place) => page.locator(`${place} > .skeleton`);

before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true, motion: true });
  await api('PATCH', '/api/admin/settings', { share_links: true });
  page = await house.page();
  await say(page, order({ text: 'An answer.' }));
  await answered(page);
  chat = /#\/c\/(\w+)/.exec(page.url())[1];
  await api('PATCH', `/api/conversations/${chat}`, { title: 'The slow one' });
  await page.addInitScript(() => {
    globalThis.moved = [];
    new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) globalThis.moved.push(e.value); }).observe({ type: 'layout-shift', buffered: true });
    globalThis.seen = 0;
    new MutationObserver((all) => {
      for (const { addedNodes } of all) for (const n of addedNodes) if (n.classList?.contains('skeleton')) globalThis.seen++;
      if (document.querySelector('.message.assistant') && document.querySelector('.conversation')) globalThis.drawn ??= performance.now();
    }).observe(document, { childList: true, subtree: true });
  });
});
after(async () => { await house?.close(); });

/** Shapes stand in `place` while it waits, hidden from those who listen, and are gone when what was waited for is there. */
async function waits(place, there) {
  await shapes(place).waitFor();
  assert.equal(await page.getAttribute(place, 'aria-busy'), 'true');
  assert.equal(await shapes(place).getAttribute('aria-hidden'), 'true');
  assert.deepEqual(await axe(page, { type: 'tag', values: RULES }), []);
  await door(null);
  await until(page, there);
  await shapes(place).waitFor({ state: 'detached' });
  assert.equal(await page.getAttribute(place, 'aria-busy'), null);
}

test('a page that loads at once shows no shapes', opts, async () => {
  await page.goto(`${house.server.url}/#/c/${chat}`);
  await page.reload();
  await until(page, () => globalThis.drawn);
  const quick = await page.evaluate(() => globalThis.drawn - Math.min(...performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) => e.startTime)) < 110); // a busy machine is none that loads at once
  if (quick) assert.equal(await page.evaluate(() => globalThis.seen), 0);
});

test('the list of chats, and a search in it', opts, async () => {
  await door('/api/conversations?');
  await page.goto(`${house.server.url}/#/`);
  await page.reload();
  await waits('#conversations', () => document.querySelector('.conversation-title')?.textContent === 'The slow one');
  assert.deepEqual(await page.evaluate(() => globalThis.moved), []);
  await door('/api/conversations?');
  await page.fill('#search', 'answer');
  await shapes('#conversations').waitFor();
  assert.ok(await page.isHidden('.conversation'), 'what stood there is no answer to what is asked now');
  await waits('#conversations', () => document.querySelector('.conversation-match mark'));
  await page.fill('#search', '');
  await until(page, () => document.querySelector('#conversations').dataset.query === '');
});

test('a chat that is opened: its title stands already, and the message box is where it will be', opts, async () => {
  await door(`/api/conversations/${chat}`);
  await page.locator('.conversation-link', { hasText: 'The slow one' }).click();
  await shapes('#scroller').waitFor();
  assert.equal(await page.textContent('#title'), 'The slow one');
  const box = async () => (await page.locator('#composer').boundingBox()).y;
  const before = await box();
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.skeleton')).animationName.includes('breathe')), true);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.skeleton')).animationName), 'none');
  await page.emulateMedia({ reducedMotion: 'no-preference' });
  await waits('#scroller', () => document.querySelector('.message.assistant')?.checkVisibility({ visibilityProperty: true }));
  assert.equal(await box(), before);
  await page.click('#new-chat');
  await door(`/api/conversations/${chat}`);
  await page.locator('.conversation-link', { hasText: 'The slow one' }).click();
  await shapes('#scroller').waitFor();
  await page.click('#new-chat'); // not wanted any more
  await page.waitForSelector('#welcome', { state: 'visible' });
  assert.equal(await shapes('#scroller').count(), 0);
  await door(null);
  assert.ok(await page.evaluate(() => globalThis.moved.reduce((a, b) => a + b, 0)) < 0.01);
});

test('the palette does not say that there is nothing before it has looked, and says why it could not', opts, async () => {
  await page.keyboard.press('Control+k');
  await page.locator('#palette-list [role=option]', { hasText: 'The slow one' }).waitFor();
  await door('/api/conversations?');
  await page.fill('#palette input', 'xyzzy');
  assert.equal(await page.textContent('.palette-empty'), 'Searching…');
  await door(null);
  await page.locator('.palette-empty', { hasText: 'No results' }).waitFor();
  await page.context().setOffline(true);
  await page.fill('#palette input', 'slow');
  await page.locator('.palette-empty', { hasText: /offline|reach/i }).waitFor();
  await page.context().setOffline(false);
  await page.keyboard.press('Escape');
});

test('sections of the settings, the settings of a chat, a project and its chats', opts, async () => {
  await door('/api/sessions');
  await page.evaluate(() => { location.hash = '#settings/security'; });
  await waits('#settings-panel', () => document.querySelectorAll('.settings-security .security-part').length > 3);
  await page.keyboard.press('Escape');
  await door('/api/presets');
  await page.click('#settings');
  await waits('#settings-form', () => document.querySelector('#settings-form [name=system]').checkVisibility({ visibilityProperty: true }));
  assert.equal(await page.evaluate(() => document.activeElement.id), 'settings-title');
  await page.keyboard.press('Escape');
  const project = await api('POST', '/api/projects', { name: 'Tides', colour: 1 });
  const inside = await api('POST', '/api/conversations', { title: 'In the folder' });
  await api('POST', '/api/conversations/bulk', { ids: [inside.id], project_id: project.id });
  await page.reload();
  await page.waitForSelector(`.project-open[data-id="${project.id}"]`);
  await broken(`project=${project.id}`);
  await page.click(`.project-open[data-id="${project.id}"]`);
  await until(page, () => document.querySelector('.toast')); // what does not come leaves no empty rows
  assert.equal(await page.getAttribute(`.project-open[data-id="${project.id}"]`, 'aria-expanded'), 'false');
  assert.equal(await page.locator('.project-chats').count(), 0);
  await door(`project=${project.id}`);
  await page.click(`.project-open[data-id="${project.id}"]`);
  const top = async () => (await page.locator('#conversations').boundingBox()).y;
  await shapes('.project-chats').waitFor();
  const before = await top();
  await waits('.project-chats', () => document.querySelector('.project-chat a')?.textContent === 'In the folder');
  assert.equal(await top(), before);
  await door(`/api/projects/${project.id}`);
  await page.locator('.project-row .icon-button').click();
  await page.locator('.menu .i-tune').click();
  await shapes('.project-dialog').waitFor();
  await page.keyboard.press('Escape'); // not wanted any more
  await door(null);
  await page.waitForSelector('.project-dialog', { state: 'detached' });
  await page.waitForTimeout(100);
  assert.equal(await page.locator('dialog[open]').count(), 0);
  await door(`/api/projects/${project.id}`);
  await page.locator('.project-row .icon-button').focus();
  await page.keyboard.press('Enter');
  await page.locator('.menu .i-tune').click();
  await shapes('.project-dialog').waitFor();
  await door(null);
  await page.waitForSelector('#project-dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#project-dialog', { state: 'detached' });
  await until(page, () => document.activeElement.closest('.project-row'));
});

test('the admin\'s sections, and the page behind a link', opts, async () => {
  const { path } = await api('POST', `/api/conversations/${chat}/shares`, {});
  for (const [section, words, there] of [['overview', '/api/admin/status', '.tiles .tile'], ['users', '/api/users', '.admin-table'], ['settings', '/api/admin/settings', '.admin-settings input'], ['checks', '/api/admin/checks', '.check']]) {
    await door(words);
    await page.goto(`${house.server.url}/admin#/${section}`);
    await page.reload();
    await waits('#view', `Boolean(document.querySelector('${there}'))`);
  }
  const group = await api('POST', '/api/groups', { name: 'Research' });
  for (const [section, words] of [['users', '/api/users/'], ['groups', `/api/groups/${group.id}`]]) { // one person, one group: named at once
    await page.goto(`${house.server.url}/admin#/${section}`);
    await page.locator('.name-button').first().waitFor();
    await door(words);
    await page.locator('.name-button').first().click();
    assert.equal(await page.textContent('.person h2'), section === 'users' ? house.server.admin.name : 'Research');
    await waits(section === 'users' ? '.person > div' : '.person form > div:first-child', () => document.querySelector('.person .limits'));
    await page.keyboard.press('Escape');
    await page.locator('.person').waitFor({ state: 'detached' });
  }
  await door('/api/shared/');
  await page.goto(house.server.url + path);
  await waits('#shared', () => document.querySelector('.message.assistant'));
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
