// The message box and the bar on top: model and effort, "+", the ring, the queue, the title's menu, temporary chats, the palette.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, lasting } from '../api/harness.mjs';
import { answered, closeSettings, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
let page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

async function fresh() {
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
}
const chats = async () => (await house.server.json('GET', '/api/conversations?limit=199')).body.items;
const stored = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;
const words = (n) => Array.from({ length: n }, (_, i) => `word${i}`).join(' ');

test('on a new chat the box stands in the middle; with the first message it goes down', opts, async () => {
  await fresh();
  const middle = async () => { const box = await page.locator('#composer').boundingBox(); return (box.y + box.height / 2) / 800; };
  assert.ok(await middle() > 0.3 && await middle() < 0.65, String(await middle()));
  assert.ok(await page.locator('.suggestion').first().isVisible());
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  assert.ok(await middle() > 0.85, String(await middle()));
  assert.ok(await page.locator('.suggestion').first().isHidden());
});

test('an empty chat offers what an admin wrote', opts, async () => {
  await house.server.json('PATCH', '/api/admin/settings', { suggestions: ' Who is <b>on call</b>? || How do I file a ticket? |' });
  await page.reload();
  await fresh();
  await until(page, () => document.querySelectorAll('.suggestion').length === 2);
  assert.deepEqual(await page.locator('.suggestion').allTextContents(), ['Who is <b>on call</b>?', 'How do I file a ticket?']);
  await page.locator('.suggestion').last().click();
  await answered(page);
  assert.equal((await stored()).messages[0].content, 'How do I file a ticket?');
  await house.server.json('PATCH', '/api/admin/settings', { suggestions: '' });
  await page.reload();
  await fresh();
  await until(page, () => document.querySelectorAll('.suggestion').length === 4);
});

test('the page\'s own suggestions begin a message, and leave it to be gone on with', opts, async () => {
  await fresh();
  const before = (await chats()).length;
  await page.fill('#composer-text', 'The report is late.');
  await page.click('.suggestion >> nth=1');
  const text = await page.inputValue('#composer-text');
  assert.match(text, /^Summarize [^]+:\n\nThe report is late\.$/);
  assert.deepEqual(await page.evaluate(() => [document.activeElement.id, document.activeElement.selectionStart === document.activeElement.value.length]), ['composer-text', true]);
  await page.click('.suggestion >> nth=0'); // another beginning takes its place
  assert.match(await page.inputValue('#composer-text'), /^Write [^]+:\n\nThe report is late\.$/);
  assert.equal((await chats()).length, before);
  await page.fill('#composer-text', '');
});

test('the pill names the model, and sets whether it thinks: for this chat, and for the next answer', opts, async () => {
  await fresh();
  await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
  await page.click('#model');
  assert.equal(await page.getByRole('menuitemradio', { name: /^Automatic/ }).getAttribute('aria-checked'), 'true');
  await page.getByRole('menuitemradio', { name: /^Off/ }).click();
  await until(page, () => document.querySelector('#model .model-effort').textContent === 'Off');
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  assert.equal((await stored()).settings.thinking, false);
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: /^Automatic/ }).click();
  await until(page, () => document.querySelector('#model .model-effort').textContent === '');
  assert.equal((await stored()).settings.thinking ?? null, null);
});

test('"+" attaches files, uses prompts, opens tools and instructions', opts, async () => {
  await house.server.json('POST', '/api/prompts', { name: 'greet', text: 'Say hello to {{who}}.' });
  await page.reload(); // prompts are read once
  await page.waitForSelector('#app:not([hidden])');
  await fresh();
  await page.click('#add');
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('.menu .i-clip').click()]);
  await chooser.setFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }]);
  await page.waitForSelector('.file[data-state=ready]');
  await page.click('.file-remove');
  await page.click('#add');
  await page.locator('.menu .i-prompt').click();
  await page.getByRole('menuitem', { name: /^greet/ }).click();
  await page.fill('#prompt-dialog textarea', 'Ada');
  await page.click('#prompt-dialog .primary');
  assert.equal(await page.inputValue('#composer-text'), 'Say hello to Ada.');
  await page.fill('#composer-text', '');
  await page.click('#add');
  await page.locator('.menu .i-tool').click();
  await page.getByRole('menuitem', { name: /^Define functions/ }).click();
  await until(page, () => document.activeElement?.name === 'tools');
  await page.keyboard.press('Escape');
});

test('a message written while an answer runs waits, can be taken back, and goes when the answer is done', opts, async () => {
  await fresh();
  await say(page, order({ text: words(60), token_ms: lasting(40) }));
  await until(page, () => document.querySelector('.message.assistant .answer')?.textContent.includes('word2'));
  await page.fill('#composer-text', 'taken back');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('#queued:not([hidden])');
  await page.click('#queued-edit');
  assert.equal(await page.inputValue('#composer-text'), 'taken back');
  assert.ok(await page.isHidden('#queued'));
  await page.fill('#composer-text', order({ text: 'The second.' }));
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('#queued:not([hidden])');
  assert.ok(await page.isVisible('#stop'), 'the answer can still be stopped');
  assert.equal((await answered(page, 2)).text.trim(), 'The second.');
  assert.ok(await page.isHidden('#queued'));
  const { messages } = await stored();
  assert.deepEqual(messages.map((m) => m.status), ['done', 'done', 'done', 'done']);
});

test('after a stop what waited is back in the box', opts, async () => {
  await fresh();
  await say(page, order({ text: words(400), token_ms: lasting(40) }));
  await until(page, () => document.querySelector('.message.assistant .answer')?.textContent.includes('word2'));
  await page.fill('#composer-text', 'and then');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('#queued:not([hidden])');
  await page.click('#stop');
  await answered(page);
  await until(page, () => document.querySelector('#composer-text').value === 'and then');
  assert.equal((await stored()).messages.length, 2);
  await page.fill('#composer-text', '');
});

test('the title opens what can be done with the chat', opts, async () => {
  await fresh();
  assert.ok(await page.isDisabled('#title-button'));
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  await page.click('#title-button');
  await page.locator('.menu .i-pin').click();
  await until(page, () => document.querySelector('.conversation[data-current][data-pinned], .conversation[data-current]'));
  await until(page, () => !document.querySelector('.menu'));
  await eventually(async () => assert.equal((await stored()).pinned, true));
  await page.click('#share');
  await page.waitForSelector('#share-dialog[open]');
  await page.click('#share-dialog .dialog-close');
  await until(page, () => !document.querySelector('dialog[open]'));
  await page.click('#title-button');
  await page.locator('.menu .bad').click();
  await page.waitForSelector('#welcome:not([hidden])');
  assert.equal((await chats()).some((c) => c.id === id), false);
});

test('a temporary chat answers, remembers itself while it is open, and leaves no row', opts, async () => {
  await fresh();
  const before = (await chats()).length;
  await page.click('#temporary');
  await until(page, () => document.querySelector('#temporary').getAttribute('aria-pressed') === 'true');
  assert.ok(await page.isVisible('#temporary-note'));
  await say(page, order({ text: '<think>\nHm.\n</think>\n\nNobody **knows**.' }));
  const one = await answered(page);
  assert.deepEqual([one.status, one.text.trim()], ['done', 'Nobody knows.']);
  assert.ok(await lastAnswer(page).locator('.reasoning').isVisible());
  await say(page, order({ text: 'Second.' }));
  assert.equal((await answered(page)).text.trim(), 'Second.');
  assert.equal(await page.locator('.message').count(), 4);
  await lastAnswer(page).locator('.act-again').click();
  await until(page, () => document.querySelector('.message.assistant:last-of-type .versions-text')?.textContent === '2/2');
  await answered(page);
  assert.equal((await chats()).length, before);
  assert.match(page.url(), /#\/$/);
  await page.fill('#composer-text', order({ text: words(400), token_ms: lasting(40) }));
  await page.press('#composer-text', 'Enter');
  await until(page, () => [...document.querySelectorAll('.message.assistant .answer')].at(-1)?.textContent.includes('word2'));
  await page.click('#stop');
  assert.equal((await answered(page)).status, 'stopped');
  await page.click('#new-chat');
  await page.waitForSelector('#welcome:not([hidden])');
  assert.equal(await page.locator('.message').count(), 0);
  assert.equal(await page.getAttribute('#temporary', 'aria-pressed'), 'false');
  assert.equal((await chats()).length, before);
});

test('Ctrl-K finds chats, actions and settings, by keyboard alone', opts, async () => {
  await fresh();
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  await house.server.json('PATCH', `/api/conversations/${id}`, { title: 'Quokka habits' });
  await fresh();
  await page.keyboard.press('Control+k');
  await page.waitForSelector('#palette[open]'); // its module comes with the first key
  await page.keyboard.type('quokka');
  await until(page, () => document.querySelector('#palette [aria-selected=true]')?.textContent.startsWith('Quokka habits'));
  await page.keyboard.press('Enter');
  await until(page, `location.hash === '#/c/${id}'`);
  await page.waitForSelector('.message.assistant');
  for (const keys of ['', 'R']) { // a single key is named only to those who turned them on
    await page.keyboard.press('Control+k');
    await page.keyboard.type('regenerate');
    await until(page, () => document.querySelector('#palette [aria-selected=true] .palette-words')?.textContent === 'Regenerate answer');
    assert.equal(await page.locator('#palette [aria-selected=true] kbd').allInnerTexts().then((all) => all.join(' ')), keys);
    await page.keyboard.press('Escape');
    await page.evaluate(() => localStorage.setItem('single-keys', '1'));
  }
  await page.evaluate(() => localStorage.removeItem('single-keys'));
  await page.keyboard.press('Control+k');
  await page.keyboard.type('theme dark');
  await until(page, () => document.querySelector('#palette [aria-selected=true]')?.textContent === 'Theme: Dark');
  await page.keyboard.press('Enter');
  await until(page, () => document.documentElement.dataset.theme === 'dark');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('shortcuts');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#settings-window[open] #help-list');
  await closeSettings(page);
  await page.keyboard.press('Control+k');
  await page.keyboard.press('Escape');
  await until(page, () => !document.querySelector('dialog[open]'));
});

test('dictation writes what is heard into the box', opts, async () => {
  const other = await house.browser.newContext();
  await other.addInitScript(() => {
    globalThis.SpeechRecognition = class {
      start() { globalThis.recognition = this; }
      stop() { this.onend(); }
    };
  });
  const heard = await other.newPage();
  await heard.goto(house.server.url);
  await heard.fill('#login-name', house.server.admin.name);
  await heard.fill('#login-password', house.server.admin.password);
  await heard.click('#login-form .primary');
  await heard.waitForSelector('#app:not([hidden])');
  await heard.fill('#composer-text', 'Before.');
  await heard.click('#dictate');
  await heard.evaluate(() => globalThis.recognition.onresult({ results: [[{ transcript: 'hello' }], [{ transcript: ' world' }]] }));
  assert.equal(await heard.inputValue('#composer-text'), 'Before. hello world');
  assert.equal(await heard.getAttribute('#dictate', 'aria-pressed'), 'true');
  await heard.click('#dictate');
  assert.equal(await heard.getAttribute('#dictate', 'aria-pressed'), 'false');
  await other.close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
