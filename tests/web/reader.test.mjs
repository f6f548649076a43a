// Each task of a day by keyboard and screen reader: names, roles and states as the accessibility tree has them, where the focus goes,
// and what is said aloud. (axe: axe.test.mjs; keys of single things: reach.test.mjs)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startMcp } from '../api/mcp_server.mjs';
import { reader } from './heard.mjs';
import { noBrowser, openChat, openHouse, order, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page, mcp, r;
before(async () => {
  if (noBrowser) return;
  [house, mcp] = await Promise.all([openHouse({ fake: true }), startMcp()]);
  await house.server.json('PATCH', '/api/admin/settings', { share_links: true });
  const context = await house.browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: house.server.url });
  page = await context.newPage();
  page.on('filechooser', () => {}); // so that none is missed: the browser is asked to report them before the first is opened
  page.on('pageerror', (e) => house.problems.push(e.message));
  await page.goto(house.server.url);
  r = await reader(page);
  await page.waitForSelector('#login-form:not([hidden])');
});
after(async () => { await house?.close(); await mcp?.stop(); });

const newChat = async () => { await r.press('Control+Shift+O'); await r.at('textbox', 'Message'); await page.waitForSelector('#welcome:not([hidden])'); await r.said(); };
const ask = async (o) => { await r.at('textbox', 'Message'); await r.type(order(o)); await r.press('Enter'); };

test('signing in: fields with names, a wrong password is said, the message box has the focus afterwards', opts, async () => {
  assert.deepEqual(await r.at('textbox', 'Username'), { role: 'textbox', name: 'Username', required: true });
  assert.equal((await r.of('#login-form h1')).name, 'Sluice');
  await r.type(house.server.admin.name);
  await r.to('textbox', 'Password');
  await r.type('wrong');
  await r.press('Enter');
  await r.hears(/Wrong username or password/);
  const field = await r.at('textbox', 'Password');
  assert.match(field.description, /Wrong username or password/);
  assert.equal(field.invalid, 'true');
  await r.type(house.server.admin.password); // what was wrong is selected, and goes
  await r.press('Enter');
  await r.at('textbox', 'Message');
  assert.deepEqual(await page.evaluate(() => ['main', 'aside', 'nav[aria-label]', 'h1'].filter((s) => ![...document.querySelectorAll(s)].some((n) => n.checkVisibility()))), []);
});

test('a new chat: that an answer begins and what it says is heard, and no token by itself', opts, async () => {
  const words = Array.from({ length: 60 }, (_, i) => `word${i}`).join(' ');
  await r.said();
  await ask({ text: `## A **list**\n\n${words}`, token_ms: 5 });
  const begun = await r.hears(/Answering/);
  const ended = await r.hears(/Answer finished.*word59/);
  assert.ok([...begun, ...ended].filter((s) => /word\d/.test(s)).length === 1, JSON.stringify([...begun, ...ended]));
  assert.doesNotMatch(ended.join(), /[#*]/, 'without the signs of Markdown');
  await r.at('textbox', 'Message');
  await r.to('button', 'Regenerate', 'Shift+Tab');
  await r.to('button', 'Copy answer', 'Shift+Tab');
  await r.press('Enter');
  await r.hears(/Copied/);
  await r.at('button', 'Copy answer');
  assert.deepEqual(await page.locator('.message > h2').allTextContents(), ['You', 'Answer']);
});

test('editing, regenerating, versions: the focus is never lost, and the version is said', opts, async () => {
  await r.to('button', 'Edit message', 'Shift+Tab');
  await r.press('Enter');
  await r.at('textbox', 'Edited message');
  await r.press('Escape');
  await r.at('button', 'Edit message');
  await r.press('Enter');
  await r.at('textbox', 'Edited message');
  await r.press('Control+A');
  await r.type(order({ text: 'Edited.' }));
  await r.press('Control+Enter');
  await r.hears(/Answer finished. Edited/);
  await r.at('textbox', 'Message');
  await r.to('button', 'Regenerate', 'Shift+Tab');
  await r.press('Enter');
  await r.hears(/Answer finished/);
  await r.at('textbox', 'Message');
  await r.to('button', 'Previous version', 'Shift+Tab');
  assert.equal((await r.of('.message.assistant .versions')).role, 'group');
  await r.press('Enter');
  await r.hears(/Version 1 of 2/);
  await r.at('button', 'Next version');
  await r.press('Enter');
  await r.hears(/Version 2 of 2/);
  await r.at('button', 'Previous version');
  await r.to('button', 'More');
  await r.press('Enter');
  await r.at('menuitem', /Read aloud|Compare versions/);
  assert.equal((await r.of('.menu')).name, 'More');
  await r.to('menuitem', 'Delete from here', 'ArrowDown');
  await r.press('Enter');
  await r.at('button', 'Cancel');
  assert.equal((await r.of('#confirm-dialog')).name, 'Delete from here?');
  await r.to('button', 'Delete');
  await r.press('Enter');
  await r.at('textbox', 'Message');
});

test('the menu of models: what is chosen is checked, and the pill has the focus again', opts, async () => {
  const pill = await r.to('button', /^Model: /);
  assert.equal(pill.expanded ?? false, false);
  await r.press('Enter');
  const item = await r.at('menuitemradio', /./);
  assert.equal(item.checked, 'true');
  assert.match((await r.of('.menu')).name, /^Model/);
  await r.press('Escape');
  await r.at('button', /^Model: /);
});

test('settings: found by a word, changed, and back to where one was', opts, async () => {
  await page.focus('#composer-text');
  await r.press('Control+,');
  await r.at('heading', 'Settings');
  assert.deepEqual(await r.of('#settings-window'), { role: 'dialog', name: 'Settings', modal: true });
  await r.to('searchbox', 'Search settings');
  await r.said();
  await r.type('width');
  await r.hears(/1 setting found/);
  await r.press('ArrowDown');
  await r.at('button', /Chat width/);
  await r.press('Enter');
  const radio = await r.at('radio', 'Default');
  assert.equal(radio.checked, 'true');
  await r.press('ArrowRight');
  await r.at('radio', 'Wide');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.width), 'wide');
  await r.press('ArrowLeft');
  await r.to('tab', 'Appearance', 'Shift+Tab');
  await r.press('ArrowDown');
  assert.equal((await r.at('tab', 'Chat defaults')).selected, true);
  await r.press('Escape');
  await r.at('textbox', 'Message');
});

test('a project with a file: its window, what is uploaded, and the list', opts, async () => {
  await r.to('button', 'New project', 'Shift+Tab');
  await r.press('Enter');
  await r.at('textbox', 'Name');
  await r.type('Birds');
  await r.press('Enter');
  await r.at('textbox', 'Instructions');
  assert.equal((await r.of('#project-dialog')).name, 'Project settings');
  await r.to('button', 'Add files');
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), r.press('Enter')]);
  await chooser.setFiles({ name: 'herons.md', mimeType: 'text/plain', buffer: Buffer.from('Herons wait.') });
  await r.hears(/herons.md attached/);
  await r.to('button', 'Remove herons.md', 'Shift+Tab');
  await r.to('button', 'Save');
  await r.press('Enter');
  await r.hears(/Project saved/);
  await until(page, () => !document.querySelector('dialog[open]') && document.activeElement !== document.body);
  const folder = await r.to('button', /^Birds/, 'Shift+Tab');
  assert.ok('expanded' in folder || folder.role === 'button');
});

test('a tool asks: it is said, the card tells what it is for, and the focus stays in the card', opts, async () => {
  await house.server.json('POST', '/api/tool-servers', { name: 'calc', url: mcp.url, everyone: true });
  const { id } = (await house.server.json('POST', '/api/conversations', { title: 'A wait', settings: { tool_servers: ['calc'] } })).body;
  await openChat(page, house, id);
  await page.focus('#composer-text');
  let release;
  mcp.how = { wait_until: new Promise((done) => { release = done; }) };
  await ask({ steps: [`<tool_call>\n${JSON.stringify({ name: 'calc_wait', arguments: { ms: 1 } })}\n</tool_call>`, 'Waited.'] });
  await r.hears(/Allow .*wait/);
  await r.to('button', 'Allow once', 'Shift+Tab');
  assert.deepEqual(await r.of('.call-ask'), { role: 'group', name: 'Allow wait?' });
  await r.press('Enter');
  await until(page, () => document.querySelector('.call-running'));
  assert.ok(await page.evaluate(() => document.querySelector('.calls').contains(document.activeElement)), JSON.stringify(await r.focus()));
  release();
  await r.hears(/Answer finished. Waited/);
  await until(page, () => document.activeElement !== document.body);
});

test('sharing: the link is said and comes next', opts, async () => {
  await r.to('button', 'Share', 'Shift+Tab');
  await r.press('Enter');
  await r.at('combobox', 'Link expires');
  assert.equal((await r.of('#share-dialog')).name, 'Share chat');
  await r.to('button', 'Create link');
  await r.said();
  await r.press('Enter');
  await r.hears(/Link created/);
  await r.at('button', 'Copy link');
  await r.press('Enter');
  await r.hears(/Link copied/);
  await r.press('Escape');
  await r.at('button', 'Share');
});

test('deleting a chat and taking it back: the row after it has the focus, and one key undoes', opts, async () => {
  for (const title of ['First', 'Second', 'Third']) await house.server.json('POST', '/api/conversations', { title });
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await page.locator('.conversation', { hasText: 'Third' }).waitFor();
  await r.to('button', 'Actions for Second', 'Shift+Tab');
  await r.press('Enter');
  await r.at('menuitem', 'Rename');
  assert.equal((await r.of('.menu')).name, 'Actions for Second');
  await r.to('menuitem', 'Delete', 'ArrowDown');
  await r.said();
  await r.press('Enter');
  await r.hears(/Moved to trash.*Undo/);
  await r.at('link', /^First/);
  await r.press('Control+Z');
  await r.hears(/Restored/);
  await page.locator('.conversation', { hasText: 'Second' }).waitFor();
});

test('the admin\'s page: landmarks, where one is, tables with heads, a person\'s window', opts, async () => {
  await page.goto(`${house.server.url}/admin`);
  await page.waitForSelector('.tile');
  await r.to('link', /^Skip/);
  await r.to('link', 'Users');
  await r.press('Enter');
  await page.waitForSelector('.name-button');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'view');
  assert.equal(await page.getAttribute('#sections a[data-id=users]', 'aria-current'), 'page');
  assert.equal((await r.of('.admin-table')).name, 'Users');
  assert.ok(await page.evaluate(() => [...document.querySelectorAll('.admin-table th')].every((th) => th.scope === 'col')));
  await r.to('button', house.server.admin.name);
  await r.press('Enter');
  await until(page, () => document.querySelector('.person .limits'));
  assert.equal((await r.of('.person')).name, house.server.admin.name);
  await r.press('Escape');
  await r.at('button', house.server.admin.name);
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
