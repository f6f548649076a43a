// The import dialog: looked through first, written then; a file that is no export, problems by name, stop, keyboard.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chatgpt, claude, zip } from '../api/exports.mjs';
import { noBrowser, openHouse, openSettings, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

async function open() {
  await openSettings(page, 'data');
  await page.click('[data-pref=import] button');
  await page.waitForSelector('#import-dialog[open]');
}
const give = (data, name = 'conversations.json') => page.setInputFiles('#import-dialog input[type=file]',
  { name, mimeType: 'application/octet-stream', buffer: Buffer.isBuffer(data) ? data : Buffer.from(JSON.stringify(data)) });
const rows = () => page.locator('#import-dialog .import-counts').innerText();
const chats = async () => (await house.server.json('GET', '/api/conversations?limit=199&archived=any')).body.items.length;

test('a look first, then the import, then the list', opts, async () => {
  await open();
  await give([claude(), chatgpt(), claude(), { odd: '<img src=x onerror=alert(1)>' }]);
  const start = page.locator('#import-dialog .import-start');
  await start.waitFor();
  assert.equal(await start.innerText(), 'Import 2 chats');
  assert.match(await rows(), /Multiple apps[^]*2 chats, 10 messages[^]*1 chat[^]*1 chat/);
  assert.match(await page.locator('.import-problems li').innerText(), /^\[3\] Not a chat in a format Sluice knows/);
  assert.equal(await chats(), 0, 'nothing is written yet');
  assert.ok(await start.evaluate((b) => b === document.activeElement), 'Enter continues');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#import-dialog', { state: 'detached' });
  await page.locator('#conversations >> text=Files').waitFor();
  assert.equal(await chats(), 2);
  assert.equal(await page.evaluate(() => document.activeElement.closest('[data-pref]')?.dataset.pref), 'import', 'the focus is back');
});

test('the same again offers nothing; what is no export is refused in words', opts, async () => {
  await open();
  await give(zip([{ name: 'c.json', data: JSON.stringify([claude()]) }]), 'export.zip');
  await page.locator('#import-dialog .import-report >> text=Everything in this file has already been imported.').waitFor();
  assert.ok(await page.locator('.import-start').isHidden());
  await give(Buffer.from('hello'), 'hello.txt');
  await page.locator('#import-dialog .form-error >> text=recognize this file').waitFor();
  assert.equal(await page.locator('.import-report').innerText(), '');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#import-dialog', { state: 'detached' });
});

test('a dropped file; the bar; cancel stops it and what came in stays', opts, async () => {
  await open();
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], 'many.json'));
    document.getElementById('import-dialog').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  }, JSON.stringify(Array.from({ length: 3000 }, (_, i) => claude({ uuid: `many${i}`, name: 'many' }))));
  const start = page.locator('#import-dialog .import-start');
  await start.waitFor();
  assert.equal(await start.innerText(), 'Import 3,000 chats');
  const seen = page.evaluate(() => new Promise((done) => { // at once, or all are in before a busy test has looked
    new MutationObserver((_, look) => {
      if (!/Importing: \d/.test(document.querySelector('.import-state').textContent)) return;
      look.disconnect();
      document.querySelector('#import-dialog .import-stop').click();
      done(document.querySelector('#import-dialog progress').value);
    }).observe(document.querySelector('#import-dialog'), { subtree: true, childList: true, characterData: true });
  }));
  await start.click();
  assert.ok(await seen > 0.3);
  await until(page, () => document.getElementById('import-dialog').dataset.busy === undefined);
  let n = -1;
  for (let now = await chats(); n !== now; now = await chats()) n = now; // until the server has seen that the page went away
  assert.ok(n > 2, 'some came in');
  await page.keyboard.press('Escape');
  assert.deepEqual(house.problems, []);
});
