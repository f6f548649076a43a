// The operator's page where it used to mislead: invitations, buttons that name what they do, charts, a status without a model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { chatgpt } from '../api/exports.mjs';
import { noBrowser, openHouse, openSettings, order, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

async function section(name) {
  await page.goto(`${house.server.url}/admin#/${name}`);
  await page.reload();
  await page.waitForSelector('#admin:not([hidden])');
}

test('an admin of a new server is led through the first steps, until they are closed', opts, async () => {
  await page.waitForSelector('#first-run');
  const steps = page.locator('#first-run li');
  assert.deepEqual(await steps.locator('b').allInnerTexts(), ['Choose a model that fits', 'Invite people', 'Bring your chats']);
  assert.match(await page.innerText('#first-run'), /\d of 3 done/);
  assert.equal(await steps.nth(0).locator('a').getAttribute('href'), '/admin#/models');
  await steps.nth(1).getByRole('button', { name: 'Create invitation' }).click();
  const link = await page.locator('#first-run .invite-link').innerText();
  assert.match(link, /\/#\/invite\/[\w-]{43}$/);
  const guest = await (await house.browser.newContext()).newPage();
  await guest.goto(link);
  await guest.locator('#sign-up-text', { hasText: 'invited' }).waitFor();
  await guest.context().close();
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'closed' });
  await steps.nth(2).getByRole('button').click();
  await page.waitForSelector('#import-dialog[open]');
  await page.setInputFiles('#import-dialog input[type=file]', { name: 'c.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify([chatgpt()])) });
  await page.click('#import-dialog .import-start');
  await page.waitForSelector('#first-run li.is-done >> nth=-1 >> text=Bring your chats');
  await page.reload(); // the card stays over the first chats
  await page.waitForSelector('#first-run');
  await page.click('#first-run > button');
  await page.reload();
  await until(page, () => document.querySelector('#welcome-model').textContent && document.querySelector('#conversations').dataset.query !== undefined);
  assert.equal(await page.locator('#first-run').count(), 0);
});

test('the first page of an operator begins with what needs a hand', opts, async () => {
  await section('overview');
  const lines = page.locator('.admin-block').first().locator('li');
  await lines.first().waitFor();
  assert.match(await lines.first().innerText(), /^There’s no backup yet/);
});

test('the overview shows what was counted', opts, async () => {
  for (const text of ['one two three', 'four five']) await house.server.chat({ messages: [{ role: 'user', content: order({ text }) }] });
  const daily = async () => (await house.server.json('GET', '/api/admin/usage/daily')).body;
  await eventually(async () => assert.ok((await daily()).total.requests >= 2)); // rows are written after the replies
  const before = await daily();
  const tokens = before.total.prompt_tokens + before.total.completion_tokens;
  assert.ok(tokens > 0);
  await section('overview');
  await page.locator('.tile').nth(7).waitFor();
  const tiles = Object.fromEntries(await page.locator('.tile').evaluateAll((all) => all.map((n) => [n.querySelector('.tile-title').textContent, n.innerText])));
  assert.match(tiles['People today'], /^People today\s+1\s+of 1 user/);
  assert.ok(tiles['Tokens today'].includes(`${tokens.toLocaleString('en')} tokens in 30 days`), tiles['Tokens today']);
  assert.match(tiles['Engine memory'], /Engine memory\s+[\d.]+ (bytes|[kMG]B)/);
  assert.match(await page.locator('.tile .spark').first().getAttribute('aria-label'), /^Answers right now: \d/);
  assert.equal((await daily()).total.requests, before.total.requests);
  await page.locator('.tile', { hasText: 'Engine memory' }).click();
  await page.waitForSelector('#sections [data-id=status][aria-current]');
});

test('people: 30 days of use in the table and in the dialog', opts, async () => {
  await section('users');
  const month = page.locator('.month').first();
  await month.waitFor();
  assert.match(await month.locator('svg').getAttribute('aria-label'), /^admin: [\d,]+ tokens on the last day, most on .*\([\d,]+ tokens\)$/);
  await page.locator('.name-button').first().click();
  const bars = page.locator('.person .bars');
  await bars.waitFor();
  assert.equal(await bars.locator('.bars-hit').count(), 30);
  assert.equal(await bars.locator('.bars-bar').count(), 1, 'all of it today');
  assert.ok(await bars.locator('.bars-label').count() >= 6);
  await page.keyboard.press('Escape');
});

test('settings: sizes have units, changes are counted and can be taken back, a search leaves what was looked for', opts, async () => {
  await section('settings');
  await page.locator('#setting-attachment_bytes').waitFor();
  assert.deepEqual([await page.inputValue('#setting-attachment_bytes'), await page.locator('#setting-attachment_bytes + select').inputValue()], ['10.48576', 'megabyte']);
  assert.equal(await page.getAttribute('#setting-share_links', 'role'), 'switch');
  await page.fill('#setting-attachment_bytes', '2.5');
  await page.locator('#setting-attachment_bytes + select').selectOption('megabyte');
  await page.check('#setting-share_links');
  assert.equal(await page.innerText('.settings-state'), '2 unsaved changes');
  await page.getByRole('button', { name: 'Discard' }).click();
  assert.equal(await page.isChecked('#setting-share_links'), false);
  await page.fill('#setting-attachment_bytes', '2.5');
  await page.locator('#setting-attachment_bytes + select').selectOption('megabyte');
  await page.fill('#setting-suggestions', 'One?\nTwo?');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.toast', { hasText: /^Saved$/ }).waitFor();
  const items = (await house.server.json('GET', '/api/admin/settings')).body.items;
  const value = (name) => items.find((i) => i.name === name).value;
  assert.deepEqual([value('attachment_bytes'), value('suggestions'), value('share_links')], [2500000, 'One? | Two?', false]);
  assert.deepEqual([await page.inputValue('#setting-attachment_bytes'), await page.locator('#setting-attachment_bytes + select').inputValue()], ['2.5', 'megabyte']);
  await page.getByLabel('Search settings').fill('shar link');
  assert.deepEqual(await page.locator('.setting:not([hidden]) label').allInnerTexts(), ['Link sharing']);
  await page.getByLabel('Search settings').fill('');
  await house.server.json('PATCH', '/api/admin/settings', { suggestions: '', attachment_bytes: 10485760 });
});

test('checks: what needs a look is in sight, the rest is folded away', opts, async () => {
  await section('checks');
  await page.locator('.checks-fine:not([hidden])').waitFor();
  const bad = await page.locator('#view > .checks > li').count();
  assert.equal(await page.locator('#view > .checks > .check-ok').count(), 0);
  assert.equal(await page.locator('.checks-fine').evaluate((d) => d.open), bad === 0);
  assert.match(await page.innerText('.checks-fine summary'), /^\d+ checks are OK$/);
  assert.match(await page.textContent('[data-code=machine]'), /^OKMachine[\d.]+ [GM]B of memory, \d+ CPUs$/);
  assert.match(await page.textContent('[data-code=engine_ready]'), /^OKEngineReady$/);
});

test('removals of the prompt cache that no engine does yet are told, and why they wait', opts, async () => {
  await page.route('**/api/admin/status', async (route) => {
    const status = await (await route.fetch()).json();
    Object.assign(status.prompt_cache, { on: false, removals: 3 }); // a model is loaded, its cache has no disk
    await route.fulfill({ json: status });
  });
  await section('overview');
  await page.locator('.attention li', { hasText: '3 deleted records are still in the prompt cache on disk. They go when a model with a prompt cache on disk is loaded.' }).waitFor();
  await section('status');
  await page.locator('.admin-block', { hasText: 'Pending removal' }).getByText('They stay on the disk until a model with a prompt cache is loaded.').waitFor();
  await page.unroute('**/api/admin/status');
});

test('on a phone no table is wider than its block, and one still says what each value is', opts, async () => {
  const phone = await house.page({ viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true });
  for (const name of ['users', 'models', 'audit', 'status']) {
    await phone.goto(`${house.server.url}/admin#/${name}`);
    await phone.locator('.admin-table').first().waitFor();
    assert.deepEqual(await phone.locator('.admin-scroll').evaluateAll((all) => all.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.ariaLabel)), [], name);
  }
  await phone.goto(`${house.server.url}/admin#/users`);
  await phone.locator('.name-button').first().waitFor();
  assert.equal(await phone.locator('.admin-table').last().locator('tbody td').nth(1).evaluate((cell) => getComputedStyle(cell, '::before').content), '"Status"');
  await phone.context().close();
});

test('while sign-up is closed no invitation is made; one press opens it, and the link works', opts, async () => {
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'invite' });
  const { body: made } = await house.server.json('POST', '/api/invites', { role: 'user', note: '' });
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'closed' });

  const guest = await (await house.browser.newContext()).newPage();
  await guest.goto(`${house.server.url}/#/invite/${made.invite}`);
  await guest.waitForSelector('#sign-up-error:not([hidden])');
  assert.equal(await guest.innerText('#sign-up-error'), 'Sign-up is closed. Ask an admin for an account.');
  assert.equal(await guest.locator('#sign-up-form input:visible').count(), 0, 'nothing is asked for that will not be taken');

  await section('users');
  await page.getByText('Invitations are off').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create link' }).count(), 0);
  assert.equal(await page.getByRole('link', { name: 'Sign-up settings' }).getAttribute('href'), '#/settings/sign_up');
  await page.getByRole('button', { name: 'Turn on invitations' }).click();
  await page.getByRole('button', { name: 'Create link' }).click();
  const link = await page.locator('.invite-link').innerText();
  await guest.goto('about:blank');
  await guest.goto(link);
  await guest.locator('#sign-up-text', { hasText: 'invited' }).waitFor();
  assert.ok(await guest.isVisible('#sign-up-name'));
  await guest.context().close();
});

test('a link to one setting leads to its field', opts, async () => {
  await section('settings/sign_up');
  await until(page, () => document.activeElement?.name === 'sign_up');
  assert.ok(await page.locator('#setting-sign_up').isVisible());
});

test('a button that acts says what it does', opts, async () => {
  await section('models');
  await page.getByRole('button', { name: 'Unload' }).click();
  await page.waitForSelector('#confirm-dialog[open]');
  assert.equal(await page.innerText('#confirm-dialog [value=ok]'), 'Unload model');
  assert.equal(await page.locator('#confirm-dialog #model-grace').count(), 1, 'the time for running answers is asked for there');
  await page.click('#confirm-dialog [value=ok]');
  await page.getByText('No model loaded').first().waitFor();

  await page.goto(`${house.server.url}/`);
  await until(page, () => document.querySelector('#engine-words').textContent === 'No model loaded');
  await page.getByRole('link', { name: 'Load a model' }).waitFor();

  await section('status');
  await page.locator('.state', { hasText: 'No model loaded' }).waitFor();
  assert.equal(await page.locator('.admin-block').first().locator('dt').count(), 0, 'nothing of the engine that has gone');

  await section('models');
  await page.getByRole('button', { name: /^Load / }).first().click();
  await page.waitForSelector('#confirm-dialog[open]');
  assert.equal(await page.innerText('#confirm-dialog [value=ok]'), 'Load model');
  assert.match(await page.innerText('#confirm-text'), /^No model is loaded right now/);
  assert.equal(await page.locator('#confirm-dialog #model-grace').count(), 0, 'no answer runs');
  await page.click('#confirm-dialog [value=ok]');
  await page.getByText(/ is loaded$/).first().waitFor();
});

test('charts: whole numbers of jobs, round times, labels that fit, points that stand alone, one job is one', opts, async () => {
  const n = 60, at = Math.floor(Date.now() / 600000) * 600 - 720; // two round times, five minutes apart, stand well within it
  await page.route('**/api/admin/history*', async (route) => {
    const reply = await route.fetch();
    const h = await reply.json();
    const fill = (v) => Array(n).fill(v);
    const columns = Object.fromEntries(Object.keys(h.columns).map((name) => [name, fill(0)]));
    Object.assign(columns, { covered_s: fill(10), up: fill(1), running: fill(1), first_token_p50: fill(null), resident_bytes: fill(123456789) });
    columns.first_token_p50[20] = 95;
    columns.jobs_done[3] = 1;
    columns.disk_bytes = fill(12345678901);
    route.fulfill({ response: reply, json: { ...h, from: at, step_s: 10, n, columns } });
  });
  await section('load');
  await until(page, () => /1 job ·/.test(document.querySelector('.load-sums')?.textContent));
  assert.doesNotMatch(await page.innerText('.load-sums'), /failed|1 jobs/);
  const charts = await page.$$eval('.chart', (all) => all.map((c) => ({
    title: c.querySelector('h2').textContent, labels: [...c.querySelectorAll('.chart-label[text-anchor=end]')].map((l) => l.textContent),
    cut: [...c.querySelectorAll('.chart-label')].filter((l) => { const b = l.getBBox(); return b.x < 0 || b.x + b.width > c.querySelector('svg').clientWidth; }).map((l) => l.textContent),
    dots: c.querySelectorAll('.chart-dot').length })));
  assert.deepEqual(charts.flatMap((c) => c.cut), []);
  const of = (title) => charts.find((c) => c.title === title);
  assert.deepEqual(of('Jobs').labels, ['0', '1']);
  assert.deepEqual(of('Time to first token').labels.slice(1), ['30 s', '1 min', '1 min 30 s', '2 min']);
  assert.equal(of('Time to first token').dots, 1);
  const marks = await page.$$eval('.chart:first-child .chart-label[text-anchor=middle]', (all) => all.map((l) => l.textContent));
  assert.ok(marks.length >= 2 && marks.every((m) => /:\d[05]|:\d\d/.test(m)));
  await page.unroute('**/api/admin/history*');
});

test('two-factor set-up asks for the code of the app alone', opts, async () => {
  await page.goto(house.server.url);
  await page.waitForSelector('#app:not([hidden])');
  await openSettings(page, 'security');
  await page.waitForSelector('.security .keys li');
  await page.locator('.security-part', { hasText: 'Two-factor' }).getByRole('button').click();
  await page.fill('.security .proof input', house.server.admin.password);
  await page.click('.security .proof .primary');
  await page.waitForSelector('.qr');
  assert.equal(await page.locator('.security .proof label span').last().innerText(), '6-digit code');
});

test('no script failed and nothing was refused', opts, () => assert.deepEqual(house.problems, []));
