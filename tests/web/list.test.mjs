// The list at the side: groups, a long list with few elements, search to the very message, selection, trash, tags, keys.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { answered, closeSettings, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
const api = (method, where, body) => house.server.json(method, where, body);
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  for (let i = 0; i < 40; i++) await Promise.all(Array.from({ length: 10 }, (_, k) => api('POST', '/api/conversations', { title: `Made ${i * 10 + k}` })));
  page = await house.page();
});
after(async () => { await house?.close(); });

const shot = (name) => process.env.SHOT && page.screenshot({ path: `${process.env.SHOT}/${name}.png` });
const titles = () => page.$$eval('.conversation-title', (all) => all.map((n) => n.textContent));
const list = async (query = '') => (await api('GET', `/api/conversations?limit=199&${query}`)).body.items;
const row = (title) => page.locator('.conversation', { has: page.locator('.conversation-title', { hasText: new RegExp(`^${title}$`) }) });
const menu = async (title, label) => {
  await row(title).hover();
  await row(title).locator('.conversation-more').click();
  await page.locator('.menu button', { hasText: label }).first().click();
};
async function find(text) {
  await page.fill('#search', text);
  await until(page, `document.querySelector('#conversations').dataset.query === ${JSON.stringify(text)}`);
}

// What was done to a row is on its way while the page shows it as done: asked until the answer has it.
async function comesUp(query, title) {
  let seen = [];
  for (let tries = 0; tries < 50 && !seen.includes(title); tries++) {
    await find('');
    await find(query);
    seen = await titles();
  }
  assert.deepEqual(seen, [title]);
}

test('however long the list, few elements are drawn, and scrolling reaches both ends', opts, async () => {
  await page.waitForSelector('.conversation');
  await until(page, () => document.querySelectorAll('.conversation').length > 10);
  const seen = new Set();
  let most = 0;
  await eventually(async () => {
    for (const title of await titles()) seen.add(title);
    most = Math.max(most, await page.locator('#conversations *').count());
    await page.evaluate(() => new Promise((drawn) => { // down, and from the top again: a busy machine may draw too late
      const list = document.querySelector('#conversations'), before = list.scrollTop;
      list.scrollTop += 600;
      if (list.scrollTop === before) list.scrollTop = 0;
      requestAnimationFrame(() => requestAnimationFrame(drawn));
    }));
    assert.equal(seen.size, 400);
  }, 0);
  assert.ok(most < 600, `${most} elements`);
  await page.evaluate(() => { document.querySelector('#conversations').scrollTop = 0; });
  await until(page, () => document.querySelector('.rows h2')?.textContent.length > 0);
  await shot('list');
});

test('a row is pinned, tagged, archived and put into the trash, and comes back', opts, async () => {
  const name = 'Made 399';
  await find(name);
  await menu(name, 'Pin');
  await find('');
  await until(page, () => document.querySelector('.rows h2')?.textContent === 'Pinned');
  assert.equal((await titles())[0], name);
  await menu(name, 'Tags');
  for (const tag of ['work', 'to do']) { await page.fill('#tags-name', tag); await page.press('#tags-name', 'Enter'); }
  await shot('tags');
  await page.click('#tags-dialog .primary');
  await until(page, () => document.querySelectorAll('.conversation .tag').length === 2);
  await find('tag:"to do" tag:WORK');
  assert.deepEqual(await titles(), [name]);
  await find('tag:work tag:play');
  assert.deepEqual(await titles(), []);
  await find('');
  await menu(name, 'Archive');
  await until(page, () => ![...document.querySelectorAll('.conversation-title')].some((n) => n.textContent === 'Made 399'));
  await find('is:archived');
  assert.deepEqual(await titles(), [name]);
  let go;
  const held = new Promise((resolve) => { go = resolve; });
  await page.route('**/api/conversations/bulk', async (route) => { await held; await route.continue(); }, { times: 1 });
  await menu(name, 'Delete');
  await until(page, () => !document.querySelector('.toast-action')); // to take the archiving back is no longer offered
  go();
  await page.click('.toast-action'); // the deletion is taken back
  await until(page, () => document.querySelectorAll('.conversation').length === 1);
  await menu(name, 'Delete');
  await comesUp('in:trash', name);
  await menu(name, 'Restore');
  await comesUp('is:archived', name);
  const [c] = await list('archived=1');
  assert.deepEqual([c.title, [...c.tags].sort(), c.trashed_at], [name, ['to do', 'work'], null]);
});

test('several are chosen by key and click, and the trash is emptied', opts, async () => {
  await find('');
  await row('Made 398').locator('.conversation-link').click({ modifiers: ['Control'] });
  await row('Made 395').locator('.conversation-link').click({ modifiers: ['Shift'] });
  const chosen = await page.$$eval('.conversation-check:checked', (all) => all.length);
  assert.match(await page.textContent('.selection-count'), new RegExp(`^${chosen} `));
  assert.ok(chosen >= 2, String(chosen)); // and what lies between them: they were made ten at a time
  await shot('selection');
  await page.click('#selection [aria-label="Delete"]');
  await until(page, () => document.querySelector('#selection').hidden);
  assert.equal((await list('trash=1')).length, chosen);
  await find('in:trash');
  await page.click('#place-empty');
  await page.click('#confirm-dialog .danger');
  await until(page, () => document.querySelectorAll('.conversation').length === 0);
  assert.equal((await list('trash=1')).length, 0);
});

test('a row by keyboard: Space opens its menu, Tab leaves it; a new name does not call the focus back', opts, async () => {
  await find('');
  await row('Made 380').locator('.conversation-more').focus();
  await page.keyboard.press('Space');
  await page.waitForSelector('.menu');
  assert.equal(await page.locator('.conversation-check:checked').count(), 0);
  await page.keyboard.press('End');
  assert.match(await page.evaluate(() => document.activeElement.textContent), /Delete/);
  await page.keyboard.press('Tab');
  assert.equal(await page.locator('.menu').count(), 0);
  await menu('Made 380', 'Rename');
  await page.fill('.conversation input[type=text]', 'Made over');
  await page.click('#composer-text');
  await row('Made over').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'composer-text');
});

test('what is cached of a chat is shown in figures, and forgotten when that is confirmed', opts, async () => {
  await find('');
  const asked = [];
  await page.route('**/prompt-cache', (route) => {
    asked.push(route.request().method());
    route.fulfill({ json: route.request().method() === 'GET' ? { tokens: 12416, bytes: 240000000 } : { forgotten_tokens: 12416 } });
  });
  await menu('Made 381', 'Prompt cache');
  await page.waitForSelector('#confirm-dialog[open]');
  assert.match(await page.textContent('#confirm-text'), /12,416 tokens of “Made 381”.*240 MB/);
  assert.equal(await page.textContent('#confirm-dialog .danger'), 'Clear cache');
  await shot('kept');
  await page.click('#confirm-dialog .quiet');
  assert.deepEqual(asked, ['GET'], 'nothing is forgotten unasked');
  await menu('Made 381', 'Prompt cache');
  await page.click('#confirm-dialog .danger');
  await until(page, () => [...document.querySelectorAll('.toast')].some((n) => n.textContent.includes('Cache cleared')));
  assert.deepEqual(asked, ['GET', 'GET', 'DELETE']);
  await page.unroute('**/prompt-cache');
  await menu('Made 381', 'Prompt cache'); // the real one: nothing is kept by an engine that stores nothing
  await until(page, () => [...document.querySelectorAll('.toast')].some((n) => n.textContent.startsWith('Nothing')));
});

test('what looks like a filter and is none is searched', opts, async () => {
  for (const text of ['is:constructor', 'toString:length', 'is:__proto__', 'before:never']) {
    await find(text);
    assert.deepEqual(await titles(), []);
  }
});

test('a search leads to the message, on the branch that holds it', opts, async () => {
  await find('');
  await page.click('#new-chat');
  await say(page, `fake:${JSON.stringify({ text: 'The heron stands by the WÜRM, waiting.' })}`);
  await answered(page);
  await page.locator('.message.assistant').hover();
  await page.locator('.message.assistant .act-again').click();
  await until(page, () => document.querySelector('.versions-text')?.textContent === '2/2');
  await answered(page);
  const id = /#\/c\/(\d+)/.exec(page.url())[1];
  const { messages } = (await api('GET', `/api/conversations/${id}`)).body;
  await page.locator('.message.assistant .older').click();
  await until(page, () => document.querySelector('.versions-text')?.textContent === '1/2');
  await page.evaluate(() => { // where it was found is marked for a moment
    const look = new MutationObserver(() => { if (document.querySelector('.message.assistant.found')) window.wasMarked = true; });
    look.observe(document.querySelector('#thread'), { subtree: true, childList: true, attributes: true, attributeFilter: ['class'] });
  });
  await page.keyboard.press('Control+Shift+f');
  await page.keyboard.type('heron stands');
  await until(page, () => document.querySelector('.conversation-match mark')?.textContent === 'heron stands');
  await shot('search');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await until(page, () => document.querySelector('.versions-text')?.textContent === '2/2');
  assert.match(page.url(), new RegExp(`#/c/${id}/${messages.at(-1).id}$`));
  await until(page, () => window.wasMarked);
  await until(page, () => [...CSS.highlights.get('found') ?? []].map(String).join() === 'heron stands');
  await find('');
});

test('of a chat of 1,000 messages few elements are drawn, and all of it can be read and found', opts, async () => {
  const at = Date.now();
  const messages = Array.from({ length: 1000 }, (_, i) => ({ id: i + 1, parent: i || null, role: i % 2 ? 'assistant' : 'user', status: 'done', content: `Stone **${i}** lies in the river.`, reasoning: '',
    tool_calls: null, tool_call_id: null, error: null, model: null, usage: null, timings: null, created_at: at, finished_at: at, attachments: [] }));
  const conversations = [{ key: 'a-long-one', title: 'Stones', created_at: at, updated_at: at, pinned: false, archived: false, trashed_at: null, fork_of: null, tags: [], settings: {}, leaf: 1000, messages }];
  const imported = await api('POST', '/api/import', { schema: 'sluice-export', version: 1, exported_at: at, conversations });
  assert.equal(imported.body.imported, 1, imported.text);
  const [{ id }] = (await list()).filter((c) => c.title === 'Stones');
  await page.evaluate(() => new MutationObserver((changes) => { for (const c of changes) window.drawn += c.addedNodes.length; }).observe(document.querySelector('#thread'), { childList: true }));
  const open = async () => { // from an empty chat, whose scroller is as high as what it holds
    await page.evaluate(() => { location.hash = '#/'; });
    await page.waitForSelector('.main.is-new');
    await page.evaluate((chat) => { window.drawn = 0; location.hash = `#/c/${chat}`; }, id);
    await until(page, () => [...document.querySelectorAll('#thread .message')].at(-1)?.textContent.includes('Stone 999'));
    return page.evaluate(() => window.drawn);
  };
  const drawn = await open();
  assert.ok(drawn < 200, `${drawn} elements were made to show the last of 1000`);
  const again = await open();
  assert.ok(again < 1.5 * drawn, `${again} elements the second time, ${drawn} the first`); // its beginning was drawn before its end
  let most = 0;
  const nodes = async () => { most = Math.max(most, await page.locator('#thread *').count()); };
  await nodes();
  await page.locator('#scroller').click({ position: { x: 5, y: 300 } });
  await page.keyboard.press('Control+f');
  await page.fill('#find-text', 'stone **17**');
  await until(page, () => document.querySelector('#find-count').textContent === '1 of 1');
  await until(page, () => [...document.querySelectorAll('#thread .message')].some((m) => m.textContent.includes('Stone 17 lies')));
  await nodes();
  await page.keyboard.press('Escape');
  await page.evaluate(() => { document.querySelector('#scroller').scrollTop = 0; });
  await until(page, () => document.querySelector('#thread .message')?.textContent.includes('Stone **0**'));
  assert.equal(await page.locator('#thread .message').first().getAttribute('aria-setsize'), '1000');
  await nodes();
  await page.click('#to-end');
  await until(page, () => [...document.querySelectorAll('#thread .message')].at(-1)?.textContent.includes('Stone 999'));
  assert.ok(most < 1500, `${most} elements`);
});

test('a link is made and revoked in the dialog', opts, async () => {
  await page.evaluate(() => localStorage.setItem('single-keys', '1'));
  await page.locator('#scroller').click();
  await page.evaluate(() => localStorage.setItem('single-keys', '1'));
  await page.keyboard.press('s');
  await page.waitForSelector('#share-dialog[open]');
  assert.ok(await page.isVisible('#share-off'));
  await page.keyboard.press('Escape');
  await api('PATCH', '/api/admin/settings', { share_links: true });
  await page.keyboard.press('s');
  await page.selectOption('#share-days', '7');
  await page.click('#share-form .primary');
  const url = await (await page.waitForSelector('#share-url')).inputValue();
  assert.equal((await fetch(url.replace('/s/', '/api/shared/'))).status, 200);
  await shot('share-dialog');
  await page.click('#share-list .quiet');
  await until(page, () => !document.querySelector('#share-list li'));
  assert.equal((await fetch(url.replace('/s/', '/api/shared/'))).status, 404);
  await page.keyboard.press('Escape');
});

test('the settings list every shortcut, and those of a single key can be turned on and off', opts, async () => {
  await page.click('#account');
  await page.click('.menu button:has(.i-keyboard)');
  await page.waitForSelector('#settings-window[open] #help-list');
  assert.ok(await page.locator('#help-list dt').count() >= 19);
  await shot('help');
  await page.check('#help-single'); // or it is already
  await closeSettings(page);
  await page.locator('#scroller').click();
  await page.keyboard.press('?');
  await page.waitForSelector('#settings-window[open] #help-list');
  let go;
  const held = new Promise((resolve) => { go = resolve; });
  await page.route('**/api/preferences', async (route) => { await held; await route.continue(); });
  const stored = page.waitForResponse((r) => r.url().endsWith('/api/preferences') && r.request().postDataJSON()?.single_keys === false);
  await page.uncheck('#help-single');
  await closeSettings(page);
  await page.keyboard.press('?');
  assert.ok(await page.isHidden('#settings-window'), 'off from the moment it is chosen, however slow the server');
  go();
  assert.equal((await (await stored).json()).single_keys, false);
  await page.unroute('**/api/preferences');
  await page.fill('#composer-text', '');
  await page.evaluate(() => document.activeElement.blur());
  const before = page.url();
  await page.keyboard.press('Alt+ArrowDown');
  await until(page, `location.href !== ${JSON.stringify(before)}`);
  await page.keyboard.press('Alt+ArrowUp');
  await until(page, () => document.querySelector('.message.assistant'));
});

test('nothing failed in the page meanwhile', opts, () => assert.deepEqual(house.problems, []));
