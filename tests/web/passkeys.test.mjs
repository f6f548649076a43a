// Passkeys on the page, with Chromium's virtual authenticator: added, signed in with, confirmed by, deleted.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeSettings, noBrowser, openHouse, openSettings } from './page.mjs';

let house, page, devtools, authenticatorId;
const skip = noBrowser;
const python = process.env.SLUICE_PYTHON ?? 'python3';

before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  house.server.url = `http://localhost:${house.server.port}`; // browsers have no passkeys at an address
  await house.server.json('PATCH', '/api/admin/settings', { passkeys: true });
  page = await house.page();
  devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  ({ authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', { options: { protocol: 'ctap2', transport: 'internal',
    hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true } }));
});
after(() => house?.close());

async function openSecurity() {
  await openSettings(page, 'security');
  await page.waitForSelector('.security .keys li');
}
const part = () => page.locator('.security-part', { has: page.locator('h4', { hasText: 'Passkeys' }) });
async function signOut() {
  await page.click('#account');
  await page.click('.menu button:has(.i-out)');
  await page.waitForSelector('#login-form:not([hidden])');
}
function age() {
  execFileSync(python, ['-c', `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("UPDATE sessions SET confirmed_at = 1")
db.commit()`, path.join(house.server.dir, 'state/sluice.db')]);
}

test('a passkey is added in the account\'s dialog', { skip }, async () => {
  await openSecurity();
  await part().locator('button', { hasText: 'Add passkey' }).click();
  await page.fill('#passkey-name', 'test device');
  await part().locator('.primary').click();
  await part().locator('li', { hasText: 'test device' }).waitFor();
  await part().locator('li', { hasText: 'never used' }).waitFor();
  const { credentials } = await devtools.send('WebAuthn.getCredentials', { authenticatorId });
  assert.deepEqual(credentials.map((c) => [c.rpId, c.isResidentCredential]), [['localhost', true]]);
  await part().locator('button', { hasText: 'Add passkey' }).click();
  await part().locator('.primary').click();
  await part().locator('.form-error', { hasText: 'already has a passkey for your account' }).waitFor();
  await closeSettings(page);
});

test('it signs in, without a name or a password', { skip }, async () => {
  await signOut();
  await page.click('#login-passkey');
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.locator('#account-name').innerText(), house.server.admin.name);
});

test('it confirms what matters', { skip }, async () => {
  age();
  await openSettings(page, 'keys');
  await page.fill('#keys-name', 'by passkey');
  await page.click('#keys-form .primary');
  await page.click('#confirm-session .passkey');
  await page.locator('#keys-list li', { hasText: 'by passkey' }).waitFor();
  await page.keyboard.press('Escape');
});

test('a user who is not verified does not get in, and is told', { skip }, async () => {
  await signOut();
  await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
  await page.click('#login-passkey');
  await page.locator('#login-error', { hasText: 'Passkey request cancelled' }).waitFor();
  await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });
  await page.click('#login-passkey');
  await page.waitForSelector('#app:not([hidden])');
});

test('deleted, it is of no use', { skip }, async () => {
  await openSecurity();
  await part().locator('li', { hasText: 'last used' }).waitFor();
  await part().locator('li button', { hasText: 'Delete' }).click();
  await part().locator('li').waitFor({ state: 'detached' });
  await closeSettings(page);
  await signOut();
  await page.click('#login-passkey');
  await page.locator('#login-error', { hasText: 'accepted' }).waitFor();
  assert.ok(await page.locator('#app').isHidden());
});

test('where they are off, nothing of them is shown', { skip }, async () => {
  await house.server.json('PATCH', '/api/admin/settings', { passkeys: false });
  await page.reload();
  await page.waitForSelector('#login-form:not([hidden])');
  await page.waitForLoadState('networkidle');
  assert.ok(await page.locator('#login-passkey').isHidden());
  await page.fill('#login-name', house.server.admin.name);
  await page.fill('#login-password', house.server.admin.password);
  await page.click('#login-form .primary');
  await page.waitForSelector('#app:not([hidden])');
  await openSecurity();
  await page.waitForLoadState('networkidle');
  await part().waitFor({ state: 'hidden' });
  assert.deepEqual(house.problems, []);
});
