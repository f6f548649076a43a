// What matters asks for the password again: the page shows a dialog and then does what was wanted, or says that it did not.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { noBrowser, openHouse, openSettings } from './page.mjs';

let house, page;
const skip = noBrowser;
const python = process.env.SLUICE_PYTHON ?? 'python3';

before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(() => house?.close());

/** As if nobody had confirmed anything for long. */
function age() {
  execFileSync(python, ['-c', `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("UPDATE sessions SET confirmed_at = 1")
db.commit()`, path.join(house.server.dir, 'state/sluice.db')]);
}

async function wantKey(name) {
  if (!await page.locator('#keys-form').isVisible()) await openSettings(page, 'keys');
  await page.fill('#keys-name', name);
  await page.click('#keys-form .primary');
}

test('a key is made after the password was said again', { skip }, async () => {
  age();
  await wantKey('asked about');
  const dialog = page.locator('#confirm-session');
  await dialog.waitFor();
  await page.fill('#confirm-session input[type=password]', 'not this one');
  await dialog.locator('.primary').click();
  await dialog.locator('.form-error', { hasText: 'Wrong password' }).waitFor();
  await page.fill('#confirm-session input[type=password]', house.server.admin.password);
  await dialog.locator('.primary').click();
  await page.locator('#keys-new', { hasText: 'sk-sluice-' }).waitFor();
  await page.locator('#keys-list li', { hasText: 'asked about' }).waitFor();
  assert.equal(await dialog.count(), 0);
  await wantKey('not asked about'); // it was confirmed just now
  await page.locator('#keys-list li', { hasText: 'not asked about' }).waitFor();
});

test('a key may be for one thing alone', { skip }, async () => {
  await page.selectOption('#keys-scopes', 'metrics');
  await wantKey('prometheus');
  await page.locator('#keys-list li', { hasText: /prometheus.*Read \/metrics/ }).waitFor();
  assert.doesNotMatch(await page.locator('#keys-list').innerText(), /false|undefined/);
  const { items } = (await house.server.json('GET', '/api/keys')).body;
  assert.deepEqual(items.find((k) => k.name === 'prometheus').scopes, ['metrics']);
  assert.deepEqual(items.find((k) => k.name === 'not asked about').scopes.sort(), ['admin', 'history', 'inference']);
  await page.selectOption('#keys-scopes', '');
});

test('who cancels is told that nothing was changed', { skip }, async () => {
  age();
  await wantKey('never made');
  await page.locator('#confirm-session').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.toast', { hasText: 'Nothing was changed' }).waitFor();
  assert.equal(await page.locator('#keys-list li', { hasText: 'never made' }).count(), 0);
});

test('the admin\'s page asks in the same way', { skip }, async () => {
  age();
  await page.goto(`${house.server.url}/admin#/settings`);
  await page.selectOption('#setting-sign_up', 'invite');
  await page.click('.admin-settings .primary');
  await page.locator('#confirm-session').waitFor();
  await page.fill('#confirm-session input[type=password]', house.server.admin.password);
  await page.keyboard.press('Enter');
  await page.locator('.toast', { hasText: /saved/i }).waitFor();
  const { items } = (await house.server.json('GET', '/api/admin/settings')).body;
  assert.equal(items.find((i) => i.name === 'sign_up').value, 'invite');
  assert.deepEqual(house.problems, []);
});
