// The page's language: as the browser asks, or as chosen in the settings; numbers and plurals follow.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, closeSettings, lastAnswer, noBrowser, openHouse, openSettings, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

test('a German browser gets German, with German numbers and plurals', opts, async () => {
  const page = await house.page({ locale: 'de-AT' });
  assert.equal(await page.getAttribute('html', 'lang'), 'de');
  assert.equal(await page.getAttribute('html', 'dir'), 'ltr');
  assert.equal(await page.getAttribute('#composer-text', 'placeholder'), 'Nachricht schreiben');
  await say(page, `fake:${JSON.stringify({ text: 'Eins' })}`);
  await answered(page);
  assert.match(await lastAnswer(page).locator('.stats').textContent(), /^\d Tokens?\b/);
  const shown = await page.evaluate(async () => {
    const { number, t } = await import(new URL('i18n.js', document.querySelector('script[type=module]').src));
    return [number(1234.5), t('thread.tokens', { n: 1 }), t('thread.tokens', { n: 12345 })];
  });
  const nf = new Intl.NumberFormat('de-AT');
  assert.deepEqual(shown, [nf.format(1234.5), '1 Token', `${nf.format(12345)} Tokens`]);
  await page.context().close();
});

test('notes of the engine are in the reader\'s language on the admin\'s page; a form that is not known stays', opts, async () => {
  const page = await house.page({ locale: 'de' });
  const needs = 'vulkan: needs 9.1 GiB of GPU memory (weights 8 GiB, KV 1 GiB, the rest 100 MiB), 6 GiB may be taken';
  await page.route('**/api/admin/status', async (route) => {
    const s = await (await route.fetch()).json();
    Object.assign(s.engine, { state: 'ready', strategy: 'ssd_streaming', backend_note: needs });
    s.plan = { ...s.plan, reason: 'vulkan: device of a form of its own' };
    s.prompt_cache = { ...s.prompt_cache, on: false, note: 'nothing is stored for now: cannot write x: No space left on device' };
    s.parts = { 'embedding and head': { bytes: 1e6, formats: { f16: 1 } } };
    await route.fulfill({ json: s });
  });
  await page.route('**/api/admin/models', async (route) => { await route.fulfill({ json: { ...await (await route.fetch()).json(), can_switch: false, reason: '`sluice up` does not run here: set the model where the engine\'s service is configured' } }); });
  await page.goto(`${house.server.url}/admin#/status`);
  await until(page, () => document.querySelector('#view .admin-facts'));
  const text = await page.textContent('#view');
  for (const words of ['Experten vom Datenträger gestreamt', 'vulkan: Braucht 9.1 GiB GPU-Speicher (Gewichte 8 GiB, KV-Cache 1 GiB, Übriges 100 MiB); verfügbar sind 6 GiB',
    'vulkan: device of a form of its own', 'Zurzeit wird nichts gespeichert: Der Datenträger ist voll.', 'Einbettung und Ausgabeschicht']) assert.ok(text.includes(words), `${words} in ${text}`);
  await page.goto(`${house.server.url}/admin#/models`);
  await until(page, () => /sluice up läuft nicht/.test(document.querySelector('#view .note')?.textContent));
  await page.context().close();
});

test('a language can be chosen, is remembered, and can follow the system again', opts, async () => {
  const page = await house.page();
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
  const choose = async (name) => {
    await openSettings(page, 'general');
    await Promise.all([page.waitForEvent('load'), page.selectOption('[name=language]', { label: name })]);
    await page.waitForSelector('#app:not([hidden])');
  };
  await page.fill('#composer-text', 'not sent yet');
  await choose('Deutsch');
  assert.equal(await page.getAttribute('html', 'lang'), 'de');
  assert.equal(await page.inputValue('#composer-text'), 'not sent yet', 'the draft stays');
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.textContent('#welcome h2'), 'Wie kann ich dir helfen?');
  await openSettings(page, 'general');
  assert.equal(await page.inputValue('[name=language]'), 'de');
  await closeSettings(page);
  await choose('Wie das System');
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
  await page.context().close();
});

test('a language that is one file is loaded in parts, as they are wanted', opts, async () => {
  const page = await house.page({ locale: 'fr-CA' });
  assert.equal(await page.getAttribute('html', 'lang'), 'fr');
  assert.equal(await page.textContent('#welcome h2'), 'Comment puis-je vous aider\u202f?');
  const asked = () => page.evaluate(() => performance.getEntriesByType('resource').map((r) => new URL(r.name).pathname.replace(/^\/v\/\w+/, '')).filter((p) => p.startsWith('/strings/')));
  assert.deepEqual(await asked(), ['/strings/fr.json']);
  await openSettings(page, 'keys');
  assert.equal(await page.innerText('#keys-form .primary'), 'Créer une clé');
  assert.deepEqual(await asked(), ['/strings/fr.json', '/strings/later/fr.json']);
  await page.goto(`${house.server.url}/admin#/users`);
  await page.getByRole('heading', { name: 'Tous les utilisateurs' }).waitFor();
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
