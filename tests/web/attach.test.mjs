// Attached files in a real browser: picked, dropped, pasted; what the chips say; refusals; the message and its edits; the draft.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { png } from '../api/files.mjs';
import { order } from '../api/harness.mjs';
import { answered, noBrowser, openHouse, until } from './page.mjs';

let house, page;
const opts = { skip: noBrowser };
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(() => house?.close());

const chips = (where = '#files') => page.locator(`${where} .file`);
const file = (name, text, mimeType = 'text/plain') => ({ name, mimeType, buffer: Buffer.from(text) });
const ready = (n) => until(page, `document.querySelectorAll('#files .file[data-state="ready"]').length === ${n}`);
const says = (o) => order(o)[0].content;
const fresh = async () => {
  await page.click('#new-chat');
  await until(page, () => !document.querySelector('.message'));
};

test('files are picked, counted, sent, shown and read again', opts, async () => {
  await page.setInputFiles('#attach-input', [file('notes.md', '# Notes\n\nThe sky is green.'), file('data.csv', 'a,b\n1,2\n')]);
  await ready(2);
  const api = await page.evaluate(() => fetch('/api/attachments/1').then((r) => r.json()));
  const words = await chips().first().innerText();
  assert.match(words, /notes\.md/);
  assert.match(words, new RegExp(`26 bytes · ${api.tokens} tokens`));
  await page.fill('#composer-text', says({ text: 'Read them.' }));
  await page.press('#composer-text', 'Enter');
  await page.locator('.message.assistant').waitFor();
  assert.equal((await answered(page)).text, 'Read them.');
  assert.equal(await chips().count(), 0);
  assert.equal(await page.locator('.message.user .file').count(), 2);
  await page.reload();
  await page.locator('.message.user .file').first().click();
  await until(page, () => document.querySelector('#file-body pre'));
  assert.equal(await page.innerText('#file-body pre'), '# Notes\n\nThe sky is green.');
  assert.match(await page.innerText('#file-about'), /text\/plain/);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#file-download')]);
  assert.equal(download.suggestedFilename(), 'notes.md');
  await page.keyboard.press('Escape');
  assert.ok(await page.evaluate(() => document.activeElement.closest('.file')), 'the focus is back where it was');
});

test('a file is found by its name and by what is in it', opts, async () => {
  for (const [text, line] of [['GREEN', /^\w+ \d+ · In notes\.md: # Notes The sky is green\.$/], ['notes.m', /^\w+ \d+ · File: notes\.md$/]]) {
    await page.fill('#search', text);
    await until(page, `document.querySelector('#conversations').dataset.query === ${JSON.stringify(text)}`);
    assert.match(await page.textContent('.conversation-match'), line);
    assert.equal((await page.textContent('.conversation-match mark')).toLowerCase(), text.toLowerCase());
  }
  await page.click('.conversation-link');
  await until(page, () => document.querySelector('.message.user.found'));
  await page.fill('#search', '');
  await page.click('.conversation-link');
});

test('an edit keeps the files, or takes one away', opts, async () => {
  await page.locator('.message.user').hover();
  await page.click('.message.user .act-edit');
  assert.equal(await chips('.edit').count(), 2);
  await page.locator('.edit .file-remove').first().click();
  await page.click('.edit .primary');
  await until(page, () => document.querySelectorAll('.message.user .file').length === 1);
  await answered(page);
  assert.match(await page.innerText('.message.user .file'), /data\.csv/);
  await page.locator('.message.user .older').click();
  await until(page, () => document.querySelectorAll('.message.user .file').length === 2);
});

test('a file that is not taken says why, and nothing is sent until it is gone', opts, async () => {
  await fresh();
  await page.setInputFiles('#attach-input', [file('x.exe', '\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0'), file('ok.txt', 'fine')]);
  await page.locator('.file[data-state="failed"]').waitFor();
  await ready(1);
  assert.match(await page.innerText('.file[data-state="failed"]'), /You can attach text, PDF/);
  await page.fill('#composer-text', 'hello');
  assert.ok(await page.isDisabled('#send'));
  await page.press('#composer-text', 'Enter');
  assert.equal(await page.locator('.message').count(), 0);
  await page.locator('.file[data-state="failed"] .file-remove').press('Enter');
  assert.ok(await page.isEnabled('#send'));
  assert.equal(await page.evaluate(() => document.activeElement.closest('.file')?.innerText.includes('ok.txt')), true, 'the focus stays among the files');
});

test('an unsent draft keeps its files over another chat and a reload', opts, async () => {
  assert.equal(await chips().count(), 1);
  await page.locator('.conversation-link').first().click();
  await page.locator('.message.user').first().waitFor();
  assert.equal(await chips().count(), 0);
  await page.reload();
  await page.click('#new-chat');
  await ready(1);
  await page.locator('.file-remove').click();
  assert.equal(await chips().count(), 0);
});

/** A paste or a drop, as the browser would make it. */
const hand = (type, target, items) => page.evaluate(([kind, where, list]) => {
  const data = new DataTransfer();
  for (const i of list) {
    if (i.text !== undefined) data.setData('text/plain', i.text);
    else data.items.add(new File([new Uint8Array(i.bytes)], i.name, { type: i.type }));
  }
  const init = { bubbles: true, cancelable: true };
  const event = kind === 'paste' ? new ClipboardEvent('paste', { ...init, clipboardData: data }) : new DragEvent(kind, { ...init, dataTransfer: data });
  return !document.querySelector(where).dispatchEvent(event);
}, [type, target, items]);

test('a picture is shown and held back; a long text is pasted as a file, a short one is not', opts, async () => {
  assert.ok(await hand('paste', '#composer-text', [{ name: 'image.png', type: 'image/png', bytes: [...png] }]));
  await page.locator('.file[data-state="image"]').waitFor();
  assert.match(await page.innerText('.file[data-state="image"]'), /This model can’t read images/);
  await until(page, () => document.querySelector('#files img')?.naturalWidth === 1);
  await page.fill('#composer-text', 'what is it?');
  assert.ok(await page.isDisabled('#send'));
  await page.locator('.file-remove').click();
  assert.ok(await hand('paste', '#composer-text', [{ text: 'long '.repeat(2000) }]));
  await ready(1);
  assert.match(await page.innerText('#files .file'), /pasted\.txt/);
  assert.equal(await hand('paste', '#composer-text', [{ text: 'short' }]), false, 'left to the browser');
  await page.locator('.file-remove').click();
});

test('files are dropped anywhere in the page', opts, async () => {
  const item = { name: 'dropped.txt', type: 'text/plain', bytes: [...Buffer.from('from outside')] };
  await hand('dragenter', '#thread', [item]);
  assert.ok(await page.isVisible('#drop'));
  assert.ok(await hand('dragover', '#thread', [item]));
  await hand('drop', '#thread', [item]);
  assert.ok(await page.isHidden('#drop'));
  await ready(1);
  await page.locator('.file-remove').click();
});

test('a name is only a name', opts, async () => {
  await page.setInputFiles('#attach-input', [file('<img src=x onerror=alert(1)>\u202egpj.txt', '<script>alert(1)</script>')]);
  await ready(1);
  assert.match(await page.innerText('#files .file'), /<img src=x onerror=alert\(1\)>gpj\.txt/);
  await page.click('#files .file-open');
  await until(page, () => document.querySelector('#file-body pre'));
  assert.equal(await page.innerText('#file-body pre'), '<script>alert(1)</script>');
  assert.equal(await page.locator('#file-title *').count(), 0);
  await page.keyboard.press('Escape');
});

test('on a phone too; files alone make a message', opts, async () => {
  await page.setViewportSize({ width: 380, height: 720 });
  await page.fill('#composer-text', '');
  await page.setInputFiles('#attach-input', Array.from({ length: 5 }, (_, i) => file(`a rather long name of a file, number ${i}.txt`, `text ${i}`)));
  await ready(6);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.ok(await page.evaluate(() => [...document.querySelectorAll('#files .file-remove')].every((b) => b.offsetWidth >= 24 && b.offsetHeight >= 24)));
  await page.click('#send');
  await page.locator('.message.assistant').waitFor();
  await answered(page);
  assert.ok(await page.locator('.message.user .bubble').isHidden());
  assert.equal(await page.locator('.message.user .file').count(), 6);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

test('nothing failed in the page meanwhile', opts, () => assert.deepEqual(house.problems, []));
