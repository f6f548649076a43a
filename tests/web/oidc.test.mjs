// Sign-in by a provider on the page: the button, the provider's own pages, and back; an account linked and unlinked; what a
// return says when it failed, in both languages; the admin's settings with the secret. The provider is on another site than the
// server (localhost, not 127.0.0.1), as providers are, so that cookies are sent as they will be.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { appCode, realProvider } from '../api/oidc_rig.mjs';
import { noBrowser, openHouse, openSettings, until } from './page.mjs';

const skip = noBrowser;
const PASSWORD = 'paulas password';
let house, provider;

before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  const client = { client_id: 'sluice', client_secret: 'the secret', redirect_uris: [`${house.server.url}/api/oidc/callback`] };
  provider = await realProvider([client], { olga: { preferred_username: 'olga', email: 'olga@example.org', email_verified: true }, paul: { email: 'paula@example.org' } }, { host: 'localhost' });
});
after(async () => { await house?.close(); await provider?.stop(); });

async function stranger(where = '/', options = {}) {
  const context = await house.browser.newContext({ viewport: { width: 1000, height: 900 }, ...options });
  const page = await context.newPage();
  page.on('pageerror', (e) => house.problems.push(`script: ${e.message}`));
  page.on('console', (m) => { if (page.url().startsWith(house.server.url) && /Content Security Policy|Refused to|^no string for/.test(m.text())) house.problems.push(m.text()); });
  await page.goto(house.server.url + where);
  return page;
}

/** The provider's pages: login, then consent where it asks for it. */
async function signInThere(page, login) {
  await page.waitForSelector('input[name="login"]');
  assert.ok(page.url().startsWith(provider.issuer));
  await page.fill('input[name="login"]', login);
  await page.fill('input[name="password"]', 'any');
  await page.click('button[type="submit"]');
  await page.locator('input[name="prompt"][value="consent"]').waitFor({ state: 'attached' });
  await page.click('button[type="submit"]');
  await page.waitForURL(`${house.server.url}/**`);
}

test('an admin sets it up; the secret is not shown again and goes only when it is told to', { skip }, async () => {
  const page = await house.page();
  await page.goto(`${house.server.url}/admin#/settings`);
  await page.selectOption('#setting-oidc_policy', 'create');
  await page.fill('#setting-oidc_issuer', 'http://example.org');
  await page.fill('#setting-oidc_client_id', 'sluice');
  await page.fill('#setting-oidc_client_secret', 'a first one');
  await page.fill('#setting-oidc_name', 'House ID');
  const save = page.locator('.admin-settings .primary');
  await save.click();
  await page.locator('[data-error="oidc_issuer"]:not([hidden])').waitFor();
  await page.fill('#setting-oidc_issuer', provider.issuer);
  await save.click();
  const set = () => document.querySelector('#setting-oidc_client_secret').placeholder.startsWith('Set');
  await until(page, set);
  assert.equal(await page.inputValue('#setting-oidc_client_secret'), '');
  await page.locator('.setting-secret .small').click();
  await save.click();
  await until(page, () => document.querySelector('#setting-oidc_client_secret').placeholder === '');
  await page.fill('#setting-oidc_client_secret', 'the secret');
  await save.click();
  await until(page, set);
  await page.fill('#setting-oidc_email_domains', ''); // something else is saved: the secret stays
  await page.fill('#setting-banner', 'hello');
  const stored = page.waitForResponse((r) => r.request().method() === 'PATCH');
  await save.click();
  assert.equal((await stored).status(), 200);
  await until(page, () => document.querySelector('#setting-banner').value === 'hello' && document.querySelector('.admin-settings .primary').disabled); // drawn from the answer
  assert.ok(await page.evaluate(set));
  await page.context().close();
});

test('somebody signs in by the button and the provider\'s pages, and stays signed in', { skip }, async () => {
  const page = await stranger();
  const button = page.locator('#oidc-sign-in');
  await button.waitFor();
  assert.equal(await button.innerText(), 'Sign in with House ID');
  await button.click();
  await signInThere(page, 'olga');
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.locator('#account-name').innerText(), 'olga');
  assert.ok(!/code|state/.test(page.url()), 'nothing of it stays in the address bar');
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  await openSettings(page, 'security');
  const part = page.locator('.security-part', { hasText: 'Single sign-on' });
  await part.locator('li', { hasText: 'olga@example.org' }).waitFor();
  assert.match(await part.innerText(), /no password/);
  assert.equal(await part.getByRole('button').count(), 0, 'it cannot lock itself out');
  await page.context().close();
});

test('a user links an account, signs in by it, and unlinks it', { skip }, async () => {
  await house.server.json('POST', '/api/users', { name: 'paula', password: PASSWORD });
  const page = await stranger();
  await page.fill('#login-name', 'paula');
  await page.fill('#login-password', PASSWORD);
  await page.click('#login-form .primary');
  await page.waitForSelector('#app:not([hidden])');
  const security = async () => {
    await openSettings(page, 'security');
    return page.locator('.security-part', { hasText: 'Single sign-on' });
  };
  const part = await security();
  await part.getByRole('button', { name: 'Link House ID account' }).click();
  await part.locator('input[type="password"]').fill(PASSWORD);
  await part.locator('.primary').click();
  await signInThere(page, 'paul');
  await page.locator('.toast', { hasText: 'linked' }).waitFor();
  assert.equal(await page.locator('#account-name').innerText(), 'paula', 'she is still who she was');
  const other = await stranger();
  await other.locator('#oidc-sign-in').click();
  await signInThere(other, 'paul');
  await other.waitForSelector('#app:not([hidden])');
  assert.equal(await other.locator('#account-name').innerText(), 'paula');
  const again = await security();
  await again.getByRole('button', { name: 'Unlink' }).click();
  await again.locator('input[type="password"]').fill(PASSWORD);
  await again.locator('.danger').click();
  await again.getByRole('button', { name: 'Link House ID account' }).waitFor();
  for (const p of [page, other]) await p.context().close();
});

test('where the second factor here is asked for as well, the login asks for nothing but its code', { skip }, async () => {
  await house.server.json('POST', '/api/users', { name: 'quinn', password: PASSWORD });
  const page = await stranger();
  await page.fill('#login-name', 'quinn');
  await page.fill('#login-password', PASSWORD);
  await page.click('#login-form .primary');
  await page.waitForSelector('#app:not([hidden])');
  const { secret } = await page.evaluate(async (password) => {
    const { csrf } = await (await fetch('/api/session')).json();
    const post = async (path, body) => (await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json', 'x-csrf-token': csrf }, body: JSON.stringify(body) })).json();
    return post('/api/second-factor', { password });
  }, PASSWORD);
  await page.evaluate(async (code) => {
    const { csrf } = await (await fetch('/api/session')).json();
    await fetch('/api/second-factor/confirm', { method: 'POST', headers: { 'content-type': 'application/json', 'x-csrf-token': csrf }, body: JSON.stringify({ code }) });
  }, appCode(secret));
  await openSettings(page, 'security');
  const part = page.locator('.security-part', { hasText: 'Single sign-on' });
  await part.getByRole('button', { name: 'Link House ID account' }).click();
  await part.locator('input[type="password"]').fill(PASSWORD);
  await part.locator('.primary').click();
  await signInThere(page, 'quinn-there');
  await page.locator('.toast', { hasText: 'linked' }).waitFor();
  await page.context().close();
  await house.server.json('PATCH', '/api/admin/settings', { oidc_second_factor: true });
  const other = await stranger();
  await other.locator('#oidc-sign-in').click();
  await signInThere(other, 'quinn-there');
  await other.waitForSelector('#login-code-row:not([hidden])');
  assert.equal(await other.locator('#login-name').isVisible(), false);
  await other.fill('#login-code', '000000');
  await other.click('#login-form .primary');
  await other.waitForSelector('#login-error:not([hidden])');
  await other.fill('#login-code', appCode(secret, 1)); // each is taken once
  await other.click('#login-form .primary');
  await other.waitForSelector('#app:not([hidden])');
  assert.equal(await other.locator('#account-name').innerText(), 'quinn');
  await other.context().close();
  await house.server.json('PATCH', '/api/admin/settings', { oidc_second_factor: false });
});

test('what went wrong there is said over the login, in the reader\'s language, and only in our words', { skip }, async () => {
  const said = async (where, locale) => {
    const page = await stranger(where, { locale });
    await page.waitForSelector('#login-error:not([hidden])');
    const text = await page.locator('#login-error').innerText();
    assert.ok(page.url().endsWith('#/'));
    await page.context().close();
    return text;
  };
  assert.match(await said('/#/sign-in/oidc_state', 'en'), /expired or was started in another browser/);
  assert.match(await said('/#/sign-in/oidc_state', 'de'), /abgelaufen/);
  assert.match(await said('/#/sign-in/oidc_no_account', 'de'), /verknüpf/);
  assert.equal(await said('/#/sign-in/whatever_this_is', 'en'), await said('/#/sign-in/oidc_failed', 'en'));
  const page = await stranger();
  await page.locator('#oidc-sign-in').click();
  await page.waitForSelector('input[name="login"]');
  await page.locator('a', { hasText: 'Cancel' }).click();
  await page.waitForSelector('#login-error:not([hidden])');
  assert.match(await page.locator('#login-error').innerText(), /cancelled/);
  await page.context().close();
});

test('no script error, nothing refused by the policy', { skip }, () => { assert.deepEqual(house.problems, []); });
