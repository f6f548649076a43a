// Accounts on the page: an invitation accepted, the second factor set up and asked for, sessions ended, the account deleted;
// users, invitations and the audit log for admins.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { startMcp } from '../api/mcp_server.mjs';
import { noBrowser, openHouse, openSettings, until } from './page.mjs';

let house, admin, link;
const skip = noBrowser;

before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  await house.server.json('PATCH', '/api/admin/settings', { sign_up: 'invite' });
  admin = await house.page();
});
after(() => house?.close());

/** RFC 6238, written down once more: the app's side. */
function appCode(base32, step = Math.floor(Date.now() / 30000)) {
  const bits = [...base32.replaceAll(' ', '')].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', key).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1e6).padStart(6, '0');
}

/** A page of its own browser, at an address, not signed in. */
async function stranger(where = '/') {
  const context = await house.browser.newContext({ viewport: { width: 1000, height: 900 } });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: house.server.url });
  const page = await context.newPage();
  page.on('pageerror', (e) => house.problems.push(`script: ${e.message}`));
  page.on('console', (m) => { if (/Content Security Policy|Refused to/.test(m.text())) house.problems.push(m.text()); });
  await page.goto(house.server.url + where);
  return page;
}

async function openSecurity(page) {
  await openSettings(page, 'security');
  await page.waitForSelector('.security .keys li');
}

test('an admin makes an invitation, and somebody comes in by it', { skip }, async () => {
  await admin.goto(`${house.server.url}/admin#/users`);
  await admin.fill('.admin-row input[maxlength="64"]:not([required])', 'for Dora');
  await admin.click('.admin-row .primary');
  link = await admin.locator('.invite-link').innerText();
  assert.match(link, /\/#\/invite\/[\w-]{43}$/);
  const page = await stranger(`/${link.slice(link.indexOf('#'))}`);
  await page.waitForSelector('#sign-up-form:not([hidden])');
  await page.locator('#sign-up-text', { hasText: 'invited' }).waitFor();
  await page.fill('#sign-up-name', 'dora');
  await page.fill('#sign-up-password', 'doras password');
  await page.fill('#sign-up-again', 'doras passwort');
  await page.click('#sign-up-form .primary');
  await page.waitForSelector('#sign-up-error:not([hidden])');
  await page.fill('#sign-up-again', 'doras password');
  await page.click('#sign-up-form .primary');
  await page.waitForSelector('#app:not([hidden])');
  assert.equal(await page.locator('#account-name').innerText(), 'dora');
  assert.ok(!page.url().includes('invite'), 'the token leaves the address bar');
  await page.context().close();
});

test('the used link says so', { skip }, async () => {
  const page = await stranger(`/${link.slice(link.indexOf('#'))}`);
  await page.waitForSelector('#sign-up-error:not([hidden])');
  assert.match(await page.locator('#sign-up-error').innerText(), /used, revoked or has expired/);
  await page.click('#sign-up-back');
  await page.waitForSelector('#login-form:not([hidden])');
  await page.context().close();
});

async function signIn(page, code) {
  await page.fill('#login-name', 'dora');
  await page.fill('#login-password', 'doras password');
  await page.click('#login-form .primary');
  if (!code) return;
  await page.waitForSelector('#login-code-row:not([hidden])');
  await page.fill('#login-code', code);
  await page.click('#login-form .primary');
}

test('a second factor is set up by its code, asked for, and a recovery code helps', { skip }, async () => {
  const page = await stranger();
  await signIn(page);
  await page.waitForSelector('#app:not([hidden])');
  await openSecurity(page);
  await page.locator('[data-part=factor]').getByRole('button').click();
  await page.fill('.security .proof input', 'doras password');
  await page.click('.security .proof .primary');
  const secret = await page.locator('.secret').innerText();
  assert.ok((await page.locator('.qr path').getAttribute('d')).length > 500);
  await page.fill('.security .proof input', appCode(secret));
  await page.click('.security .proof .primary');
  const codes = (await page.locator('.codes').innerText()).split('\n');
  assert.equal(codes.length, 10);
  const other = await stranger();
  await signIn(other, appCode(secret, Math.floor(Date.now() / 30000) + 1));
  await other.waitForSelector('#app:not([hidden])');
  const third = await stranger();
  await signIn(third, codes[0].toUpperCase());
  await third.waitForSelector('#app:not([hidden])');
  // the first ends the two others
  await page.locator('.security .codes + .dialog-row .primary').click();
  await page.keyboard.press('Escape');
  await openSecurity(page);
  await until(page, () => document.querySelectorAll('.security .keys li').length === 3);
  await page.locator('[data-part=sessions]').locator('> div > .small').click();
  await until(page, () => document.querySelectorAll('.security .keys li').length === 1);
  await third.reload();
  await third.waitForSelector('#login-form:not([hidden])');
  for (const p of [page, other, third]) await p.context().close();
});

test('an admin sees the user, sets limits, resets the second factor, ends the sessions', { skip }, async () => {
  await admin.reload();
  await admin.locator('.name-button', { hasText: 'dora' }).click();
  const dialog = admin.locator('.person');
  await dialog.locator('.limits input').first().fill('1234');
  const secondLimit = dialog.locator('.limits input').nth(1);
  assert.equal(await secondLimit.inputValue(), '');
  await dialog.locator('.limits .primary').click();
  await until(admin, () => document.querySelectorAll('.person .limits input')[1].value === '34.359738368' && document.querySelector('.person .limits .with-unit select').value === 'gigabyte'); // drawn again: what holds where nothing else was said
  const drop = dialog.locator('.person-actions button').nth(2);
  await drop.click();
  await drop.click();
  await until(admin, () => document.querySelectorAll('.person-actions button').length === 3);
  await admin.keyboard.press('Escape');
  const users = (await house.server.json('GET', '/api/users')).body.items;
  const dora = users.find((u) => u.name === 'dora');
  assert.equal(dora.second_factor, false);
  assert.equal(dora.limits.tokens_per_day, 1234);
});

test('a group is made, people are found and chosen, limits are set; the person\'s window says from where', { skip }, async () => {
  for (const name of ['edgar', 'edith']) await house.server.json('POST', '/api/users', { name, password: 'a long password', role: 'user' });
  await admin.goto(`${house.server.url}/admin#/groups`);
  await admin.fill('.admin-row input[required]', 'Research');
  await admin.click('.admin-row .primary');
  const dialog = admin.locator('.person');
  await dialog.locator('.pick-list').waitFor();
  await dialog.locator('input[type=search]').fill('ed');
  assert.deepEqual(await dialog.locator('.pick-list label').allInnerTexts(), ['edgar', 'edith']);
  for (const name of ['edgar', 'edith']) await dialog.locator('.pick-list label', { hasText: name }).locator('input').check();
  await dialog.locator('input[type=search]').fill('dora');
  await dialog.locator('.pick-list input').check(); // the others stay chosen
  await dialog.locator('.limits input').first().fill('4321');
  assert.equal(await dialog.locator('.primary').count(), 1); // of one window
  await dialog.getByRole('button', { name: 'Save' }).click();
  await until(admin, () => document.querySelectorAll('.person .pick-list input:checked').length === 3 && document.querySelector('.person .limits input').value === '4321' && document.querySelector('.person .primary').disabled);
  await eventually(async () => {
    const [group] = (await house.server.json('GET', '/api/groups')).body.items;
    assert.deepEqual([group.members, group.limits.tokens_per_day, group.limits.max_jobs], [3, 4321, null]);
  });
  await admin.keyboard.press('Escape');
  await admin.goto(`${house.server.url}/admin#/users`);
  await admin.locator('.name-button', { hasText: 'edith' }).click();
  await admin.locator('.person dd', { hasText: '4,321 (from group Research)' }).waitFor();
  await admin.keyboard.press('Escape');
  await admin.locator('.group-pick summary').click();
  assert.equal(await admin.locator('.group-pick label').innerText(), 'Research');
  await admin.goto(`${house.server.url}/admin#/groups`);
  await admin.locator('.name-button', { hasText: 'Research' }).click();
  await admin.getByRole('button', { name: 'Remove group' }).click();
  await admin.locator('#confirm-dialog [value=ok]').click();
  await admin.locator('p', { hasText: 'No groups yet.' }).waitFor();
  await admin.goto(`${house.server.url}/admin#/users`);
});

test('a group\'s window asks before changes are lost; what is changed while a save is drawn is kept and saved next', { skip }, async (t) => {
  const { body: made } = await house.server.json('POST', '/api/groups', { name: 'Chemistry' });
  const mcp = await startMcp();
  t.after(() => mcp.stop());
  const { body: tools } = await house.server.json('POST', '/api/tool-servers', { name: 'balance', url: mcp.url, everyone: true });
  await house.server.request('PUT', `/api/tool-servers/${tools.id}/groups`, { groups: [] });
  await admin.goto(`${house.server.url}/admin#/groups`);
  await admin.locator('.name-button', { hasText: 'Chemistry' }).click();
  const dialog = admin.locator('.person');
  const box = dialog.locator('.given input').first();
  const asked = admin.locator('#confirm-dialog[open]');
  await box.check();
  for (const close of [() => admin.keyboard.press('Escape'), () => admin.keyboard.press('Escape'), () => dialog.getByRole('button', { name: 'Close' }).first().click(), () => dialog.locator('.dialog-close').click()]) {
    await close();
    await asked.waitFor();
    await admin.keyboard.press('Escape'); // back to the window
    await asked.waitFor({ state: 'detached' });
    assert.ok(await box.isChecked());
  }
  const held = [];
  await admin.route('**/api/admin/registry', (route) => held.push(route)); // the save is done, and not drawn yet
  await dialog.getByRole('button', { name: 'Save' }).click();
  await eventually(() => assert.ok(held.length));
  const description = dialog.locator('input[maxlength="200"]').first();
  await description.fill('Reads papers');
  await description.press('Enter');
  await eventually(() => assert.ok(held.length >= 2));
  await admin.unroute('**/api/admin/registry');
  for (const route of held) await route.continue();
  const read = async () => (await house.server.json('GET', `/api/groups/${made.id}`)).body;
  assert.deepEqual([(await read()).description, (await read()).tool_servers], ['Reads papers', [tools.id]]);
  await box.uncheck();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await eventually(async () => assert.deepEqual((await read()).tool_servers, []));
  await until(admin, () => document.querySelector('.person .primary').disabled);
  await admin.keyboard.press('Escape'); // nothing is lost, nothing is asked
  await dialog.waitFor({ state: 'detached' });
  await admin.locator('.name-button', { hasText: 'Chemistry' }).click();
  await box.check();
  await admin.keyboard.press('Escape');
  await asked.locator('[value=ok]').click();
  await dialog.waitFor({ state: 'detached' });
  assert.deepEqual((await read()).tool_servers, []);
  await house.server.request('DELETE', `/api/tool-servers/${tools.id}`);
  await house.server.request('DELETE', `/api/groups/${made.id}`);
  await admin.goto(`${house.server.url}/admin#/users`);
});

test('what is drawn again takes nothing from the hand: text, a press that wants a second one, the focus', { skip }, async () => {
  const { body: erna } = await house.server.json('POST', '/api/users', { name: 'erna', password: 'ernas password', role: 'user' });
  await admin.reload();
  await admin.locator('input[type="password"]').fill('of a user to come');
  await admin.locator('.name-button', { hasText: 'erna' }).click();
  const dialog = admin.locator('.person');
  await dialog.locator('.inline-form input').fill('half a new pass');
  const disable = dialog.locator('.person-actions button').nth(1);
  const held = []; // the answer to what is done first comes after the next press
  await admin.route(`**/api/users/${erna.id}`, (route) => { held.push(route); });
  await dialog.locator('.limits input').first().fill('99');
  await dialog.locator('.limits .primary').click();
  await eventually(() => assert.ok(held.length));
  await disable.click();
  assert.match(await disable.getAttribute('class'), /danger/);
  await held[0].continue();
  await until(admin, () => document.querySelectorAll('.person .limits input')[1].value === '34.359738368' && document.querySelector('.person .limits .with-unit select').value === 'gigabyte');
  assert.match(await disable.getAttribute('class'), /danger/);
  assert.ok(await disable.evaluate((b) => b === document.activeElement));
  assert.equal(await dialog.locator('.inline-form input').inputValue(), 'half a new pass');
  await admin.unroute(`**/api/users/${erna.id}`);
  await disable.click();
  await until(admin, () => /Enable|Allow/.test(document.querySelectorAll('.person-actions button')[1].textContent));
  assert.ok(await dialog.evaluate((d) => d.contains(document.activeElement)), 'not at the page\'s beginning');
  await admin.keyboard.press('Escape');
  await admin.locator('.person').waitFor({ state: 'detached' });
  await until(admin, () => /disabled/i.test([...document.querySelectorAll('tr')].find((r) => r.textContent.includes('erna')).textContent));
  assert.equal(await admin.evaluate(() => document.activeElement.textContent), 'erna', 'where the dialog was opened');
  assert.equal(await admin.locator('input[type="password"]').inputValue(), 'of a user to come');
});

test('render: whatever was there, it looks like what is asked for; what has a key is the same node', { skip }, async () => {
  const page = await stranger();
  const seen = await page.evaluate(async () => {
    const [{ el }, { render }] = await Promise.all([import(new URL('dom.js', document.querySelector('script[type=module]').src)), import(new URL('render.js', document.querySelector('script[type=module]').src))]);
    let seed = 7;
    const random = (n) => { seed = (seed * 48271) % 0x7fffffff; return seed % n; };
    const keys = ['a', 'b', 'c', 'd'];
    const word = () => ['one', 'two', ''][random(3)];
    const tree = (depth) => {
      const free = [...keys];
      return Array.from({ length: random(5) }, () => {
        if (!depth || !random(4)) return word();
        const key = random(2) && free.splice(random(free.length), 1)[0];
        const props = { class: word(), ...(random(3) ? {} : { title: word() }), ...(key ? { data: { key } } : {}) };
        if (!random(5)) return el('button', { ...props, class: key || 'b', title: '', on: { click: () => {} } }, key || word());
        return el(['p', 'div'][random(2)], props, ...tree(depth - 1));
      });
    };
    const node = el('div');
    const wrong = [];
    for (let i = 0; i < 2000; i++) {
      const fresh = tree(3);
      const want = el('div', {}, ...fresh.map((x) => (x.cloneNode ? x.cloneNode(true) : x)));
      const before = new Map([...node.children].filter((c) => c.dataset.key).map((c) => [c.dataset.key, c]));
      const names = new Map(fresh.filter((x) => x.dataset?.key).map((x) => [x.dataset.key, x.nodeName]));
      render(node, ...fresh);
      if (!node.isEqualNode(want)) wrong.push(`${i}: ${node.innerHTML} instead of ${want.innerHTML}`);
      for (const c of node.children) {
        const old = before.get(c.dataset.key);
        if (old && old.nodeName === names.get(c.dataset.key) && old !== c) wrong.push(`${i}: ${c.dataset.key} is another`);
      }
    }
    let clicks = 0;
    const button = (n, key) => el('button', { ...(key && { data: { key } }), on: { click: () => { clicks += n; } } }, 'x');
    render(node, button(1));
    render(node, button(10)); // no key: what it does is new too
    node.firstChild.click();
    render(node, button(100, 'k'));
    render(node, button(1000, 'k'));
    node.firstChild.click();
    return { wrong: wrong.slice(0, 3), clicks };
  });
  assert.deepEqual(seen, { wrong: [], clicks: 110 });
  await page.context().close();
});

test('the audit log shows what was done, filtered, and is saved whole', { skip }, async () => {
  await admin.goto(`${house.server.url}/admin#/audit`);
  await admin.waitForSelector('.admin-table tbody tr');
  await admin.fill('.audit-filter input[name="action"]', 'second_factor');
  await admin.click('.audit-filter .primary');
  await until(admin, () => [...document.querySelectorAll('.admin-table tbody tr')].map((row) => row.querySelector('code')?.textContent).join() === 'second_factor.reset,second_factor.on');
  const [download] = await Promise.all([admin.waitForEvent('download'), admin.click('.audit-filter .quiet')]);
  const stream = await download.createReadStream();
  let text = '';
  for await (const part of stream) text += part;
  assert.deepEqual(text.trim().split('\n').map((l) => JSON.parse(l).action), ['second_factor.reset', 'second_factor.on']);
});

test('a password is changed, and the API keys are revoked when that is asked for', { skip }, async () => {
  const page = await stranger();
  await signIn(page);
  await page.waitForSelector('#app:not([hidden])');
  const keys = () => page.evaluate(() => fetch('/api/keys').then((r) => r.json()).then((l) => l.items.length));
  const change = async (revoke) => {
    await openSettings(page, 'security');
    await page.locator('[data-part=password]').getByRole('button').click();
    await page.fill('#password-form [name=current]', 'doras password');
    await page.fill('#password-form [name=new]', 'doras password');
    assert.equal(await page.isChecked('#password-form [name=keys]'), false);
    if (revoke) await page.check('#password-form [name=keys]');
    await page.click('#password-form .primary');
    await page.waitForSelector('#password-form', { state: 'detached' });
  };
  await page.evaluate(async () => {
    const { call } = await import(new URL('api.js', document.querySelector('script[type=module]').src)); // the page's own, which has the token
    await call('POST', '/api/keys', { name: 'k' });
  });
  await change(false);
  assert.equal(await keys(), 1);
  await change(true);
  assert.equal(await keys(), 0);
  await page.context().close();
});

test('the account is deleted by its owner, with the password', { skip }, async () => {
  const page = await stranger();
  await signIn(page);
  await page.waitForSelector('#app:not([hidden])');
  await openSecurity(page);
  const last = page.locator('[data-part=delete]');
  await last.getByRole('button').click();
  await last.locator('input').fill('not the password');
  await last.locator('.danger').click();
  await last.locator('.form-error:not([hidden])').waitFor();
  await last.locator('input').fill('doras password');
  await last.locator('.danger').click();
  await page.waitForSelector('#login-form:not([hidden])');
  await signIn(page);
  await page.waitForSelector('#login-error:not([hidden])');
  await page.context().close();
  assert.deepEqual(house.problems, []);
});
