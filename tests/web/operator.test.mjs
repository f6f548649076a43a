// The operator's page where it used to mislead: invitations, buttons that name what they do, charts, a status without a model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { noBrowser, openHouse, patience, until } from './page.mjs';

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
  assert.deepEqual(await page.locator('#first-run li').allInnerTexts(), ['Choose a model', 'Invite people', 'Import your chats']);
  await page.click('#first-run li button');
  await page.waitForSelector('#import-dialog[open]');
  await page.keyboard.press('Escape');
  await page.click('#first-run > button');
  await page.reload();
  await until(page, () => document.querySelector('#welcome-model').textContent && document.querySelector('#conversations').dataset.query !== undefined);
  assert.equal(await page.locator('#first-run').count(), 0);
});

test('the first page of an operator begins with what needs a hand', opts, async () => {
  await section('status');
  const lines = page.locator('.admin-block').first().locator('li');
  await lines.first().waitFor();
  assert.match(await lines.first().innerText(), /^There’s no backup yet/);
});

test('while sign-up is closed no invitation is made; one press opens it, and the link works', opts, async () => {
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'invite' });
  const { body: made } = await house.server.json('POST', '/api/invites', { role: 'user', note: '' });
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'closed' });

  const guest = await (await house.browser.newContext()).newPage();
  guest.setDefaultTimeout(patience);
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
  const n = 60, at = Math.floor(Date.now() / 1000) - n * 10;
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
  await page.click('#account');
  await page.click('.menu button:has(.i-shield)');
  await page.waitForSelector('.security .keys li');
  await page.locator('.security-part', { hasText: 'Two-factor' }).getByRole('button').click();
  await page.fill('.security .proof input', house.server.admin.password);
  await page.click('.security .proof .primary');
  await page.waitForSelector('.qr');
  assert.equal(await page.locator('.security .proof label span').last().innerText(), '6-digit code');
});

test('no script failed and nothing was refused', opts, () => assert.deepEqual(house.problems, []));
