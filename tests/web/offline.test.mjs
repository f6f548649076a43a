// Reading without a network: off until asked for, never stale code, nothing kept after signing out.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { atRest, eventually, top } from '../api/harness.mjs';
import { answered, closeSettings, noBrowser, openHouse, openSettings, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page, web;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  const link = path.join(house.server.dir, 'share/web'); // files of this server alone, which change below
  const real = realpathSync(link);
  rmSync(link);
  cpSync(real, link, { recursive: true });
  upgrade(link);
  web = link;
  page = await house.page();
});
after(async () => { await house?.browser.close(); await house?.server.stop(); });

const upgrade = (folder) => execFileSync('sh', [path.join(top, 'web/version.sh'), folder]); // as `make install` does
const registered = () => page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length);
const kept = (name) => page.evaluate(async (n) => (await (await caches.open(n)).keys()).map((r) => r.url.replace(location.origin, '')), name);
const toggle = async () => { await openSettings(page, 'general'); await page.click('[data-pref=offline] input'); };
async function turnOn() {
  await toggle();
  await page.getByRole('button', { name: 'Keep chats here' }).click();
  await page.getByText('You can now read your chats offline').waitFor();
  await closeSettings(page);
}
const signIn = async () => {
  await page.fill('#login-name', house.server.admin.name);
  await page.fill('#login-password', house.server.admin.password);
  await page.click('#login-form .primary');
  await page.waitForSelector('#app:not([hidden])');
};
const waitKept = (name, what) => eventually(async () => {
  const all = await kept(name);
  assert.ok(all.some((u) => u.includes(what)), `${what} in ${all}`);
});

test('nothing is kept until somebody asks for it; then the newest chats are, and no token', opts, async () => {
  await say(page, order({ text: 'The fox is **red**.' }));
  await answered(page);
  assert.equal(await registered(), 0);
  await turnOn();
  assert.equal(await registered(), 1);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  await waitKept('read', `/api/conversations/${id}?`);
  await waitKept('page', '/js/thread.js');
  const { csrf, kept: session } = await page.evaluate(async () => ({ csrf: (await (await fetch('/api/session', { cache: 'no-store' })).json()).csrf, kept: await (await caches.match('/api/session')).text() }));
  assert.ok(csrf && !session.includes(csrf), session);
});

test('what is deleted here is not kept either, in whichever way; what is left is kept again', opts, async () => {
  const at = page.url();
  const make = async () => (await house.server.json('POST', '/api/conversations', {})).body.id;
  const deletions = [
    (id) => ['POST', '/api/conversations/bulk', { ids: [id], deleted: true }],
    () => ['DELETE', '/api/trash'],
    (id) => ['DELETE', `/api/conversations/${id}`],
  ];
  for (const ask of deletions) {
    const id = await make();
    await page.evaluate((x) => fetch(`/api/conversations/${x}?texts=80`).then((r) => r.text()), id);
    await waitKept('read', `/api/conversations/${id}?`);
    await page.evaluate(async ([method, path, body]) => {
      const { csrf } = await (await fetch('/api/session', { cache: 'no-store' })).json();
      const r = await fetch(path, { method, headers: { 'x-csrf-token': csrf, 'content-type': 'application/json' }, ...(body && { body: JSON.stringify(body) }) });
      if (!r.ok) throw new Error(await r.text());
    }, ask(id));
    assert.ok(!(await kept('read')).some((u) => u.includes(`/conversations/${id}?`)), ask(id).join(' '));
  }
  await waitKept('read', `/api/conversations/${/#\/c\/(\w+)/.exec(at)[1]}?`);
});

test('a chat that was deleted elsewhere goes when the page begins; so does what is too old', opts, async () => {
  const { id } = (await house.server.json('POST', '/api/conversations', {})).body;
  await page.evaluate(async (x) => {
    await (await fetch(`/api/conversations/${x}?texts=80`)).text();
  }, id);
  await waitKept('read', `/api/conversations/${id}?`);
  await page.evaluate(async () => (await caches.open('read')).put('/api/conversations/999?texts=80', new Response('{}', { headers: { 'x-kept-at': String(Date.now() - 31 * 86400000) } })));
  assert.equal((await house.server.request('DELETE', `/api/conversations/${id}`)).status, 204);
  const problems = house.problems.length;
  await page.reload();
  await eventually(async () => assert.deepEqual((await kept('read')).filter((u) => u.includes(`/conversations/${id}?`) || u.includes('/999?')), []));
  await page.waitForTimeout(300);
  house.problems.splice(problems); // the 404, which the browser writes into its console
});

test('new code runs at once, with the network, and nothing of the old version is kept', opts, async () => {
  const versionNow = () => /\/v\/(\w+)\//.exec(readFileSync(path.join(web, 'index.html'), 'utf8'))[1];
  const file = path.join(web, 'js/theme.js');
  const before = versionNow();
  const text = readFileSync(file, 'utf8');
  const served = readFileSync(path.join(web, 'v', before, 'js/theme.js'), 'utf8');
  assert.equal(served, text.split('\n').filter((line) => !/^ *\/[/*]/.test(line)).join('\n'), 'without its comments');
  rmSync(file); // as install(1) does
  writeFileSync(file, `${text}\nglobalThis.isNew = 2;\n`);
  const earlier = await fetch(`${house.server.url}/v/${before}/js/theme.js`);
  assert.deepEqual([await earlier.text(), /immutable/.test(earlier.headers.get('cache-control'))], [served, true], 'an address never gets other bytes');
  upgrade(web);
  const version = versionNow();
  assert.deepEqual(readdirSync(path.join(web, 'v')).sort(), [before, version].sort());
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.evaluate(() => globalThis.isNew), 2);
  const old = async () => (await kept('page')).filter((u) => u.startsWith('/v/') && !u.startsWith(`/v/${version}/`));
  await eventually(async () => assert.deepEqual(await old(), []));
  await waitKept('page', `/v/${version}/js/theme.js`);
});

test('turned off, nothing is left; on again, and signed out, no chat is', opts, async () => {
  await toggle();
  await page.getByText('Nothing is kept on this device').waitFor();
  assert.equal(await registered(), 0);
  assert.deepEqual(await page.evaluate(() => caches.keys()), []);
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  await turnOn();
  await waitKept('read', '/api/conversations/');
  await page.click('#account');
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.waitForSelector('#login:not([hidden])');
  await eventually(async () => assert.deepEqual(await kept('read'), []));
  await signIn();
});

test('signing out without a network leaves no chat on the device', opts, async () => {
  await page.waitForSelector('#app:not([hidden])');
  await waitKept('read', '/api/conversations/');
  await page.waitForTimeout(1000); // what is being kept is
  await page.route('**/api/logout', (route) => route.abort());
  const problems = house.problems.length;
  const unheard = page.waitForEvent('requestfailed', (r) => r.url().endsWith('/api/logout'));
  await page.click('#account');
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await unheard; // only then what is kept has been forgotten, and the server may be reached again
  assert.deepEqual(await kept('read'), []);
  await page.unrouteAll();
  house.problems.splice(problems);
});

test('off and on again in one page', opts, async () => {
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  const becomes = (n) => eventually(async () => assert.equal(await registered(), n));
  for (let i = 0; i < 2; i++) {
    await toggle();
    await becomes(0);
    await page.waitForTimeout(300);
    await toggle();
    await page.getByRole('button', { name: 'Keep chats here' }).click();
    await becomes(1);
    await waitKept('read', '/api/conversations/');
  }
});

test('a page that began without the server writes again when it is back', opts, async () => {
  const late = await house.page();
  await late.route('**/api/session', async (route) => route.fulfill({ json: { ...await (await route.fetch()).json(), csrf: '' } })); // as sw.js keeps it
  await late.route('**/api/status', (route) => route.abort());
  await late.reload();
  await until(late, () => document.querySelector('#engine').dataset.state === 'down');
  await late.unrouteAll();
  await until(late, () => document.querySelector('#engine').dataset.state === 'ready');
  await late.waitForTimeout(300);
  await say(late, order({ text: 'Back.' }));
  assert.equal((await answered(late)).text.trim(), 'Back.');
  await late.context().close();
});

test('without the server list and chats are read, with the newest code', opts, async () => {
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  await page.locator('.conversation a').last().click();
  await page.waitForSelector('.message.assistant');
  const at = page.url();
  await waitKept('read', `/api/conversations/${/#\/c\/(\w+)/.exec(at)[1]}?`);
  await waitKept('page', '/js/theme.js');
  await page.waitForTimeout(1500); // what changed is being fetched anew
  await atRest(house.server.childrenOf(house.server.pid('nginx')));
  await house.server.stop();
  await page.reload();
  await page.waitForSelector('.message.assistant .answer strong');
  assert.equal(await page.textContent('.message.assistant .answer'), 'The fox is red.');
  await page.locator('.conversation').first().waitFor();
  assert.equal(await page.evaluate(() => globalThis.isNew), 2);
  await until(page, () => document.querySelector('#engine').dataset.state === 'down');
  if (process.env.SLUICE_PICTURES) await page.screenshot({ path: path.join(process.env.SLUICE_PICTURES, 'offline.png') });
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
