// The admin's page in a browser: who may see it, figures that move, a job ended, settings, the banner, the log, the checks, a
// model loaded; all by keyboard or by label.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually } from '../api/harness.mjs';
import { noBrowser, openHouse, until } from './page.mjs';

const opts = { skip: noBrowser };
const models = mkdtempSync(path.join(os.tmpdir(), 'slw-'));
mkdirSync(path.join(models, 'second'));
for (const f of readdirSync(demo)) symlinkSync(path.join(demo, f), path.join(models, 'second', f));

let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ args: ['--models', models] });
  page = await house.page({ locale: 'en' });
});
after(async () => { await house?.close(); rmSync(models, { recursive: true, force: true }); });

async function section(id) {
  await page.goto(`${house.server.url}/admin#/${id}`);
  await page.waitForSelector(`#sections [data-id="${id}"][aria-current]`);
}

test('the account menu leads there; who is no admin is told so', opts, async () => {
  await page.click('#account');
  await page.getByRole('menuitem', { name: 'Administration' }).click();
  await page.waitForSelector('#admin:not([hidden]) .tiles');
  await house.server.json('POST', '/api/users', { name: 'ulla', password: 'a long password', role: 'user' });
  const other = await (await house.browser.newContext({ locale: 'de' })).newPage();
  await other.goto(`${house.server.url}/admin`);
  await other.waitForSelector('#gate:not([hidden])');
  assert.match(await other.locator('#gate').innerText(), /anmelden/i);
  await other.goto(house.server.url);
  await other.fill('#login-name', 'ulla');
  await other.fill('#login-password', 'a long password');
  await other.click('#login-form .primary');
  await other.waitForSelector('#app:not([hidden])');
  await other.click('#account');
  assert.equal(await other.getByRole('menuitem', { name: 'Verwaltung' }).count(), 0);
  await other.goto(`${house.server.url}/admin#/users`);
  await other.waitForSelector('#gate:not([hidden])');
  assert.ok(await other.locator('#admin').isHidden());
  await other.context().close();
});

test('status shows what the server says', opts, async () => {
  await section('status');
  await page.getByText('Ready', { exact: true }).waitFor();
  const said = (await house.server.json('GET', '/api/admin/status')).body;
  const text = await page.locator('#view').innerText();
  for (const part of [said.versions.sqlite, String(said.pools[0].master_pid), said.engine.model_path]) assert.ok(text.includes(part), part);
  await page.locator('summary').click(); // each worker, and it stays open when new figures come
  await page.waitForResponse((r) => r.url().endsWith('/api/admin/status'));
  assert.equal(await page.locator('#view details').evaluate((d) => d.open), true);
});

test('load: a chart has a value for each moment, by keyboard and as a table', opts, async () => {
  await section('load');
  const chart = page.locator('.chart').last(); // HTTP requests: there were some
  await until(page, () => [...document.querySelectorAll('.chart-line')].some((p) => p.getAttribute('d')?.includes('M')));
  await eventually(async () => assert.match(await chart.locator('svg').getAttribute('aria-label'), /HTTP requests per second\. all: .+ now/));
  await chart.locator('svg').focus();
  await page.keyboard.press('ArrowLeft');
  await chart.locator('.chart-tip:not([hidden])').waitFor();
  assert.match(await chart.locator('.chart-tip').innerText(), /all [\d.]+/);
  await chart.locator('summary').click();
  await chart.locator('tbody tr').first().waitFor();
  await page.selectOption('#view select', '86400');
  await until(page, () => /5 min/.test(document.querySelector('#live').textContent));
});

test('jobs: one is seen without its words, and ended', opts, async () => {
  await section('jobs');
  await page.getByText('No active jobs').waitFor();
  const running = house.server.chat({ messages: [{ role: 'user', content: 'Repeat: quokka' }], max_tokens: 3500, ignore_eos: true, temperature: 0 });
  const end = page.getByRole('button', { name: /^End job/ });
  await end.hover();
  await page.mouse.down(); // and new figures come before it is let go
  const rows = await page.evaluate(() => new Promise((done) => {
    const cell = document.querySelectorAll('#view tbody td')[3];
    const was = cell.textContent;
    new MutationObserver(() => { if (cell.textContent !== was) done(document.querySelectorAll('#view tbody tr').length); }).observe(document.querySelector('#view'), { subtree: true, childList: true, characterData: true });
  }));
  assert.equal(rows, 1);
  await page.mouse.up();
  assert.ok(!(await page.locator('#view').innerText()).includes('quokka'));
  await page.locator('#confirm-dialog .danger').click();
  await page.getByText('No active jobs').waitFor();
  const r = await running;
  assert.ok(r.status !== 200 || r.body.usage.completion_tokens < 3500, r.text);
});

test('settings: a wrong value is named at its field, a right one holds, the banner is seen in the chat', opts, async () => {
  await section('settings');
  assert.ok(await page.getByRole('button', { name: 'Save' }).isDisabled()); // nothing to save yet
  await page.getByLabel('Temperature').fill('7');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('[data-error="default_temperature"]:not([hidden])').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), 'default_temperature');
  await page.getByLabel('Temperature').fill('0.3');
  await page.getByLabel('Banner', { exact: false }).first().fill('Back at <b>noon</b>');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.toast', { hasText: /^Saved$/ }).waitFor();
  const items = (await house.server.json('GET', '/api/admin/settings')).body.items;
  assert.equal(items.find((i) => i.name === 'default_temperature').value, 0.3);
  await page.goto(house.server.url);
  await page.waitForSelector('#banner:not([hidden])');
  assert.equal(await page.locator('#banner').innerText(), 'Back at <b>noon</b>');
});

test('a reply of the log that was overtaken by another level is not shown', opts, async () => {
  const held = [];
  await page.route('**/api/admin/log?level=info*', (route) => { held.push(route); });
  await section('status');
  await section('logs');
  await eventually(() => assert.ok(held.length));
  await page.getByRole('combobox').selectOption('error');
  await page.evaluate(() => new Promise((drawn) => { requestAnimationFrame(drawn); }));
  const late = page.waitForResponse(/log\?level=info/);
  await held[0].continue();
  await (await late).finished();
  await page.waitForTimeout(50);
  assert.equal(await page.locator('.log .log-info').count(), 0);
  await page.unroute('**/api/admin/log?level=info*');
  await section('status');
});

test('log and checks', opts, async () => {
  await section('logs');
  await page.locator('.log li').first().waitFor();
  const all = await page.locator('.log li').count();
  await page.getByLabel('Filter').fill('started nginx');
  await until(page, () => document.querySelectorAll('.log li:not([hidden])').length === 1);
  assert.ok(all > 3);
  const lines = await eventually(async () => {
    const now = (await page.locator('.log li').allTextContents()).join('\n');
    assert.match(now, /method=PATCH route=\/api\/admin\/settings/);
    return now;
  });
  assert.doesNotMatch(lines, /method=GET route=\/api\/admin\/(log|status) status=200/); // what the page itself asks every few seconds
  await section('checks');
  await page.locator('.checks-fine summary').click(); // what is fine is folded away
  await page.getByText('state folder').waitFor();
  await page.getByRole('button', { name: 'Full database check' }).click();
  await page.getByText('Intact (quick_check)').waitFor();
});

test('models: another one is loaded by the page', opts, async () => {
  await section('models');
  await page.getByRole('button', { name: 'Load second' }).click();
  await page.locator('#confirm-dialog .primary').click();
  await page.getByText('second is loaded').waitFor();
  assert.equal((await house.server.json('GET', '/api/admin/models')).body.current, path.join(models, 'second'));
});

test('no script failed and nothing was refused', opts, () => assert.deepEqual(house.problems, []));
