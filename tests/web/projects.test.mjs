// Projects in the page: made, filled with instructions and files, chats begun in them and moved by menu, by selection and by dragging,
// sources that open the place, deleting with a choice; by keyboard, in German, on a phone.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { answered, becomes, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
const api = async (method, where, body) => (await house.server.json(method, where, body)).body;
const shot = async (name, on = page) => {
  if (!process.env.SLUICE_PICTURES) return;
  mkdirSync(process.env.SLUICE_PICTURES, { recursive: true });
  await on.waitForTimeout(250);
  await on.screenshot({ path: `${process.env.SLUICE_PICTURES}/${name}.png` });
};
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  for (const title of ['Herons', 'Lighthouses', 'Unrelated']) await api('POST', '/api/conversations', { title });
  page = await house.page();
});
after(async () => { await house?.close(); });

const folder = (name) => page.locator('.project-row', { has: page.locator('.project-name', { hasText: new RegExp(`^${name}$`) }) });
const inFolder = () => page.locator('.project-chat a').allInnerTexts();
const listed = () => page.locator('.conversation-title').allInnerTexts();
const count = (name) => folder(name).locator('.project-count').innerText();
const row = (title) => page.locator('.conversation', { has: page.locator('.conversation-title', { hasText: title }) });
const projectMenu = async (name, icon) => {
  await folder(name).hover();
  await folder(name).locator('.icon-button').click();
  await page.locator(`.menu button:has(.i-${icon})`).click();
};

test('without a project nothing of them is loaded; one is made with a name, and opens its window', opts, async () => {
  await becomes(listed, ['Unrelated', 'Lighthouses', 'Herons']);
  assert.equal(await page.evaluate(() => performance.getEntriesByType('resource').some((r) => /\/(projects|project_window|sources)\.(js|css)$/.test(r.name))), false);
  await page.click('#new-project');
  await page.fill('#confirm-dialog .confirm-field input', 'Birds');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#project-dialog[open]');
  assert.match(page.url(), /#\/p\/\d+$/);
  await page.fill('#project-dialog textarea', 'Say which heron.');
  await page.locator('#project-dialog .project-colours input').nth(4).check();
  const log = Array.from({ length: 500 }, (_, i) => (i === 250 ? 'On the ninth a Heron landed beside the old lighthouse.' : `Entry ${i} of the log has nothing to report on this day.`)).join('\n');
  await page.setInputFiles('#project-dialog input[type=file]', [{ name: 'log.txt', mimeType: 'text/plain', buffer: Buffer.from(log) }, { name: 'picture.png', mimeType: 'image/png',
    buffer: Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64') }]);
  await page.locator('#project-dialog .file[data-state=failed]').waitFor();
  assert.match(await page.locator('#project-dialog .file[data-state=failed]').innerText(), /picture/);
  await until(page, () => /matches? it|match it/.test(document.querySelector('#project-dialog .project-files p').textContent));
  await shot('window');
  await page.locator('#project-dialog .primary').click();
  await page.waitForSelector('#project-dialog', { state: 'detached' });
  await becomes(() => page.locator('.project-name').allInnerTexts(), ['Birds']);
  await until(page, () => /instructions.*1 file/.test(document.querySelector('.project-welcome')?.textContent));
  await shot('welcome');
  const [p] = (await api('GET', '/api/projects')).items;
  assert.deepEqual([p.name, p.instructions, p.colour, p.n_files], ['Birds', 'Say which heron.', 4, 1]);
});

test('a chat that begins in a project stands in its folder and not in the list; its sources open the place', opts, async () => {
  const [p] = (await api('GET', '/api/projects')).items;
  await eventually(async () => assert.ok(!(await api('GET', `/api/projects/${p.id}`)).indexing));
  await say(page, `Where did the heron land? ${order({ text: 'Beside the lighthouse [1], says the log. `[1]` in code and [99] are none.' })}`);
  await answered(page);
  await becomes(() => count('Birds'), '1');
  await page.fill('#search', 'heron'); // what is found stands alone, also chats of projects
  await until(page, () => document.querySelector('#conversations').dataset.query === 'heron');
  assert.ok(await page.locator('#projects').isHidden());
  await page.fill('#search', '');
  await page.locator('#projects').waitFor();
  assert.ok(!(await listed()).some((x) => /Where did|Beside/.test(x)));
  await folder('Birds').locator('.project-open').click();
  await becomes(async () => (await inFolder()).length, 1);
  assert.match((await inFolder())[0], /^(Where did|Beside) the/); // the model's title comes a moment later
  const answer = lastAnswer(page);
  await answer.locator('.sources').waitFor();
  assert.equal(await answer.locator('.cite').count(), 1, 'code and unknown numbers stay text');
  await answer.locator('.sources summary').click();
  await shot('sources');
  const hit = answer.locator('.source', { hasText: 'Heron' });
  assert.equal(await hit.locator('.source-name').innerText(), 'log.txt');
  await hit.click();
  await page.waitForSelector('#file-dialog[open] mark');
  assert.match(await page.locator('#file-body mark').innerText(), /a Heron landed/);
  await until(page, () => { const a = document.querySelector('#file-body mark').getBoundingClientRect(), b = document.querySelector('#file-body').getBoundingClientRect(); return a.top < b.bottom && a.bottom > b.top; });
  assert.ok(await page.locator('#file-body pre').evaluate((pre) => pre.textContent.length > 20000), 'all around it is there too');
  await shot('place');
  await page.keyboard.press('Escape');
  await page.reload();
  await lastAnswer(page).locator('.cite').click();
  await page.waitForSelector('#file-dialog[open] mark');
  await page.keyboard.press('Escape');
  await page.locator('.topbar .project-here').click();
  await page.waitForSelector('#project-dialog[open]');
  await page.keyboard.press('Escape');
});

test('chats are moved by menu with undo, many at once, and by dragging, in and out', opts, async () => {
  await row('Herons').hover();
  await row('Herons').locator('.conversation-more').click();
  await page.locator('.menu button:has(.i-folder)').click();
  await page.locator('.menu button', { hasText: 'Birds' }).click();
  await becomes(() => count('Birds'), '2');
  await becomes(async () => (await listed()).includes('Herons'), false);
  await page.click('.toast-action');
  await becomes(() => count('Birds'), '1');
  await becomes(async () => (await listed()).includes('Herons'), true);
  for (const title of ['Herons', 'Lighthouses']) await row(title).locator('.conversation-link').click({ modifiers: ['Control'] });
  await page.locator('#selection .icon-button:has(.i-folder)').click();
  await page.locator('.menu button', { hasText: 'Birds' }).click();
  await becomes(() => count('Birds'), '3');
  await becomes(listed, ['Unrelated']);
  await becomes(() => page.locator('#selection').isHidden(), true);
  await row('Unrelated').locator('.conversation-link').dragTo(folder('Birds'));
  await becomes(() => count('Birds'), '4');
  await becomes(listed, []);
  await page.locator('.project-chat a', { hasText: 'Unrelated' }).dragTo(page.locator('#conversations'));
  await becomes(() => count('Birds'), '3');
  await becomes(listed, ['Unrelated']);
});

test('the keyboard reaches all of it, and the palette knows projects', opts, async () => {
  await page.focus('#search');
  const opener = page.locator('.project-open');
  await opener.focus();
  await page.keyboard.press('ArrowLeft');
  assert.equal(await opener.getAttribute('aria-expanded'), 'false');
  let release; // opened again, its rows are read anew: they stay meanwhile, with the focus
  const held = new Promise((done) => { release = done; });
  await page.route('**/api/conversations?project=*', async (route) => { await held; await route.continue(); }, { times: 1 });
  await page.keyboard.press('ArrowRight');
  await becomes(() => opener.getAttribute('aria-expanded'), 'true');
  await page.locator('.project-chat a').first().waitFor();
  await page.keyboard.press('ArrowDown');
  const onRow = () => page.evaluate(() => document.activeElement.matches('.project-chat a'));
  assert.equal(await onRow(), true);
  await page.waitForTimeout(200); // longer than until shapes would stand there
  assert.equal(await onRow(), true);
  release();
  await page.locator('.project-chat', { hasText: /Where did|Beside/ }).locator('.icon-button').focus();
  await page.keyboard.press('Enter');
  await page.locator('.menu button:has(.i-edit)').click();
  await page.fill('#confirm-dialog .confirm-field input', 'Called anew');
  await page.keyboard.press('Enter');
  await becomes(async () => (await inFolder()).includes('Called anew'), true);
  await page.keyboard.press('Control+k');
  await page.locator('#palette input').fill('bird');
  await page.locator('#palette [role=option]', { hasText: 'Birds' }).waitFor();
  await page.keyboard.press('Escape');
  await projectMenu('Birds', 'edit');
  await page.fill('#confirm-dialog .confirm-field input', 'Waders');
  await page.keyboard.press('Enter');
  await becomes(() => page.locator('.project-name').allInnerTexts(), ['Waders']);
});

test('German, dark and a phone', opts, async () => {
  const german = await house.page({ locale: 'de-DE', colorScheme: 'dark' });
  await german.locator('.project-open').click();
  await german.locator('.project-chat a').first().waitFor();
  await german.locator('.project-chat a', { hasText: 'Called anew' }).click();
  await shot('german-dark', german);
  await german.locator('.topbar .project-here').click();
  await german.waitForSelector('#project-dialog[open]');
  assert.match(await german.locator('#project-dialog').innerText(), /Projekteinstellungen[^]*Anweisungen[^]*Dateien/);
  await shot('german-window-dark', german);
  await german.context().close();
  for (const scheme of ['light', 'dark']) {
    const phone = await house.page({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: scheme });
    await phone.click('#sidebar-open');
    await phone.locator('.project-open').click();
    await phone.locator('.project-chat a').first().waitFor();
    const small = await phone.locator('.projects :is(.project-open, .project-chat > a, .icon-button)').evaluateAll((all) => all.filter((n) => n.getBoundingClientRect().height < 40).length);
    assert.equal(small, 0, 'what fingers hit is large enough');
    await shot(`phone-${scheme}`, phone);
    await phone.locator('.project-chat a', { hasText: 'Called anew' }).click();
    await phone.locator('.sources summary').click();
    await phone.locator('.source').first().scrollIntoViewIfNeeded();
    await shot(`phone-sources-${scheme}`, phone);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await phone.locator('.topbar .project-here').click();
    await phone.waitForSelector('#project-dialog[open]');
    await shot(`phone-window-${scheme}`, phone);
    await phone.context().close();
  }
});

test('deleting asks what becomes of the chats; kept, they are in the list again', opts, async () => {
  await projectMenu('Waders', 'trash');
  await page.waitForSelector('#confirm-dialog[open]');
  await shot('delete');
  assert.equal(await page.locator('#confirm-dialog input[value=keep]').isChecked(), true);
  await page.locator('#confirm-dialog [value=ok]').click();
  await becomes(() => page.locator('#projects').isHidden(), true);
  await becomes(async () => (await listed()).length, 4);
  const answer = (await api('GET', '/api/conversations?q=heron')).items;
  assert.ok(answer.length);
  await page.goto(`${house.server.url}/#/c/${answer.find((c) => c.title === 'Called anew').id}`);
  await page.reload();
  await lastAnswer(page).locator('.sources summary').click();
  await lastAnswer(page).locator('.source').first().click();
  await page.locator('#file-body .source-gone').waitFor();
  await page.keyboard.press('Escape');
  await api('POST', '/api/projects', { name: 'Short-lived' });
  await page.reload();
  await row('Unrelated').locator('.conversation-link').dragTo(folder('Short-lived'));
  await becomes(() => count('Short-lived'), '1');
  await projectMenu('Short-lived', 'trash');
  await page.locator('#confirm-dialog input[value=trash]').check();
  await page.locator('#confirm-dialog [value=ok]').click();
  await becomes(async () => (await api('GET', '/api/conversations?trash=1')).items.map((c) => c.title), ['Unrelated']);
});

test('an owner shares a project by name; the reader\'s page uses it, changes nothing, and leaves', opts, async () => {
  const shared = await api('POST', '/api/projects', { name: 'Shared', instructions: 'Be kind.' });
  await api('POST', '/api/users', { name: 'rosa', password: 'a long password', role: 'user' });
  await page.reload();
  await projectMenu('Shared', 'tune');
  await page.fill('.project-share-add input', 'nobody here');
  await page.locator('.project-share-add button').click();
  await page.locator('#project-dialog .form-error', { hasText: 'no such person' }).waitFor();
  await page.fill('.project-share-add input', 'rosa');
  await page.keyboard.press('Enter');
  await page.locator('.project-sharing li', { hasText: 'rosa' }).waitFor();
  await page.locator('.project-sharing li select').selectOption('editor');
  await becomes(async () => (await api('GET', `/api/projects/${shared.id}/shares`)).items.map((x) => x.access), ['editor']);
  await page.locator('.project-sharing li select').selectOption('reader');
  await becomes(async () => (await api('GET', `/api/projects/${shared.id}/shares`)).items.map((x) => x.access), ['reader']);
  const late = `**/api/projects/${shared.id}/shares`;
  await page.route(late, async (route) => { const response = await route.fetch(); await new Promise((done) => { setTimeout(done, 300); }); await route.fulfill({ response }); });
  for (const access of ['editor', 'reader', 'editor', 'reader']) await page.locator('.project-sharing li select').selectOption(access); // faster than they are answered
  await page.unrouteAll({ behavior: 'wait' });
  const given = async () => [(await api('GET', `/api/projects/${shared.id}/shares`)).items[0].access, await page.locator('.project-sharing li select').inputValue()];
  await becomes(given, ['reader', 'reader']);
  const full = (route) => route.fulfill({ status: 507, json: { error: { message: 'The disk is full.', code: 'disk_full' } } });
  await page.route(late, full);
  await page.locator('.project-sharing li select').selectOption('editor');
  await page.locator('#project-dialog .form-error', { hasText: /\S/ }).waitFor();
  await becomes(given, ['reader', 'reader']);
  await page.unroute(late);
  await page.route(late, async (route) => { await new Promise((done) => { setTimeout(done, 300); }); await full(route); }, { times: 1 });
  const second = page.waitForResponse((r) => r.url().endsWith('/shares') && r.ok());
  for (const access of ['editor', 'reader']) await page.locator('.project-sharing li select').selectOption(access);
  await second;
  await page.waitForTimeout(200);
  assert.match(await page.locator('#project-dialog .form-error').textContent(), /disk is full/); // what comes after it went well
  await shot('sharing');
  await page.keyboard.press('Escape');
  await folder('Shared').locator('.project-shared').waitFor();
  const theirs = await (await house.browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  theirs.on('pageerror', (e) => house.problems.push(e.message));
  await theirs.goto(house.server.url);
  await theirs.fill('#login-name', 'rosa');
  await theirs.fill('#login-password', 'a long password');
  await theirs.click('#login-form .primary');
  await theirs.locator('.project-row').hover();
  await theirs.locator('.project-row .icon-button').click();
  await theirs.locator('.menu button:has(.i-tune)').click();
  const dialog = theirs.locator('#project-dialog');
  await dialog.locator('p', { hasText: 'Shared by' }).waitFor();
  await shot('shared-reader', theirs);
  assert.deepEqual([await dialog.locator('textarea').getAttribute('readonly'), await dialog.locator('.project-files-add').isVisible(), await dialog.locator('button.primary').count(), await dialog.locator('.project-sharing').count()], ['', false, 0, 0]);
  await dialog.getByRole('button', { name: 'Leave project' }).click();
  await theirs.locator('#confirm-dialog', { hasText: 'Your chats stay' }).locator('[value=ok]').click();
  await becomes(() => theirs.locator('.project-row').count(), 0);
  await theirs.context().close();
  await becomes(async () => (await api('GET', `/api/projects/${shared.id}/shares`)).items, []);
  await api('DELETE', `/api/projects/${shared.id}?chats=keep`);
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});

test('all chats of a large project can be shown', opts, async () => {
  const { id } = await api('POST', '/api/projects', { name: 'Large' });
  for (let i = 0; i < 205; i++) await api('POST', '/api/conversations', { title: `c${i}`, project_id: id });
  await page.reload();
  await folder('Large').locator('.project-open').click();
  const chats = () => page.locator('li', { has: folder('Large') }).locator('.project-chat a').count();
  await becomes(chats, 20);
  await page.locator('.project-chat > button:not(.icon-button)').click();
  await becomes(chats, 205);
});
