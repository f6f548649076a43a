// Tools that run, on the page: servers are added and chosen, a call asks, runs, shows what it gave, and the chat goes on.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, load, top } from '../api/harness.mjs';
import { startMcp } from '../api/mcp_server.mjs';
import { FakePeer } from '../api/oauth_rig.mjs';
import { answered, closeSettings, noBrowser, openChat, openHouse, openSettings, order, reads, say, still, until } from './page.mjs';

const opts = { skip: noBrowser };
const pictures = process.env.SLUICE_PICTURES;
const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
let house, page, mcp, dir;
before(async () => {
  if (noBrowser) return;
  dir = mkdtempSync(path.join(os.tmpdir(), 'slt-tools-'));
  writeFileSync(path.join(dir, 'programs.json'), JSON.stringify({ programs: { everything: { command: process.execPath,
    args: [path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'], read: [modules] } } }));
  house = await openHouse({ fake: true, args: ['--tool-programs', path.join(dir, 'programs.json')] });
  mcp = await startMcp();
  page = await house.page();
});
after(async () => { await house?.close(); await mcp?.stop(); if (dir) rmSync(dir, { recursive: true, force: true }); });

const picture = async (name, p = page) => {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await p.screenshot({ path: path.join(pictures, `${name}.png`) });
};
const fresh = async () => { await page.goto(`${house.server.url}/#/`); await page.waitForSelector('#welcome:not([hidden])'); };
const stored = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;
const calling = (...calls) => calls.map(([name, args]) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`).join('\n');
const cards = (p = page) => p.locator('.call');
const openTools = async () => { await page.click('#add'); await page.locator('.menu .i-tool').click(); await page.waitForSelector('.menu .menu-head'); };
async function choose(name) {
  await openTools();
  await page.getByRole('menuitemcheckbox', { name: new RegExp(`^${name}`) }).click();
  await page.waitForSelector('#tools-on:not([hidden])');
}

test('an admin adds a server: what is wrong is said at the form, what is right is shown with its tools', opts, async () => {
  await fresh();
  await openTools();
  await page.getByRole('menuitem', { name: /^Manage/ }).click();
  await page.waitForSelector('.settings-tools[data-drawn]');
  assert.match(await page.textContent('.servers'), /No tool servers yet/);
  await page.fill('#tools-form input[type=url]', 'http://127.0.0.1:1/mcp');
  await page.fill('#tools-form input:not([type])', 'calc');
  await page.click('#tools-form .primary');
  await until(page, () => /can’t be reached/.test(document.querySelector('.settings-tools .form-error')?.textContent));
  await page.fill('#tools-form input[type=url]', mcp.url);
  await page.fill('#tools-form input[type=password]', 'Bearer x');
  await page.click('#tools-form .primary');
  await page.waitForSelector('.server');
  assert.match(await page.textContent('.server-head'), /calc.*Everyone/);
  assert.equal(mcp.requests[0].headers.authorization, 'Bearer x');
  await page.click('.server-tools summary');
  assert.deepEqual(await page.locator('.server-tools li b').allTextContents(), ['Add numbers', 'wipe.disk', 'wait', 'fail', 'picture']);
  await picture('tools-dialog');
  await closeSettings(page);
});

test('a call asks, is allowed, and its result goes to the model; a reload shows the same', opts, async () => {
  await fresh();
  await choose('calc');
  assert.equal(await page.getAttribute('#tools-on', 'aria-label'), '1 tool server is on');
  await say(page, order({ steps: [`I will add them.\n${calling(['calc_add', { a: 2, b: 40 }])}`, 'It is **42**.'] }));
  await page.waitForSelector('.call-ask');
  assert.deepEqual((await stored()).settings.tool_servers, ['calc'], 'the chat remembers');
  assert.match(await page.textContent('.call'), /add.*calc.*"a": 2.*wants to use “Add numbers”/s);
  assert.equal(mcp.calls.length, 0);
  await picture('tools-ask');
  await page.reload();
  await page.waitForSelector('.call-ask');
  await page.getByRole('button', { name: 'Allow once' }).click();
  assert.equal((await answered(page, 2)).text.trim(), 'It is 42.');
  assert.deepEqual(mcp.calls, [{ name: 'add', arguments: { a: 2, b: 40 } }]);
  assert.equal(await page.textContent('.call-result pre'), '42');
  await picture('tools-done');
  await page.reload();
  await page.waitForSelector('.call-result');
  assert.equal(await page.textContent('.call-result pre'), '42');
  assert.match(await page.textContent('.call-name'), /add.*calc.*ms/s);
  assert.equal(await page.locator('.call-ask').count(), 0);
});

test('a tool that is always allowed runs by itself, until one is asked again', opts, async () => {
  await fresh();
  await choose('calc');
  const twice = () => order({ steps: [calling(['calc_add', { a: 1, b: 1 }]), calling(['calc_add', { a: 2, b: 2 }]), 'Four.'] });
  await say(page, twice());
  await page.getByRole('button', { name: 'Always allow' }).click();
  assert.equal((await answered(page, 3)).text.trim(), 'Four.');
  assert.deepEqual(mcp.calls.slice(-2).map((c) => c.arguments.a), [1, 2]);
  const file = (await house.server.json('GET', `/api/export?format=json&conversation=${(await stored()).id}`)).body;
  Object.assign(file.conversations[0], { key: 'crafted', title: 'crafted', leaf: 2 });
  file.conversations[0].messages.length = 2;
  const before = mcp.calls.length;
  await house.server.json('POST', '/api/import', file);
  const { id } = (await house.server.json('GET', '/api/conversations?q=crafted')).body.items[0];
  await house.server.json('PATCH', `/api/conversations/${id}`, { settings: { tool_servers: ['calc'] } });
  await page.goto(`${house.server.url}/#/c/${id}`);
  await page.waitForSelector('.call-ask'); // nobody's file decides what runs here
  await page.waitForTimeout(300);
  assert.equal(mcp.calls.length, before);
  await openTools();
  await page.getByRole('menuitem', { name: /^Manage/ }).click();
  await page.click('.server-tools summary');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await until(page, () => !document.querySelector('.server-tools li button'));
  await closeSettings(page);
  await fresh();
  await choose('calc');
  await say(page, twice());
  await page.waitForSelector('.call-ask');
});

test('two calls of one id are shown, and nothing can be done with them', opts, async () => {
  const file = (await house.server.json('GET', `/api/export?format=json&conversation=${(await house.server.json('GET', '/api/conversations?q=crafted')).body.items[0].id}`)).body;
  const [chat] = file.conversations;
  Object.assign(chat, { key: 'samesame', title: 'samesame' });
  chat.messages[1].tool_calls = [1, 2].map((a) => ({ ...chat.messages[1].tool_calls[0], function: { name: 'calc_add', arguments: JSON.stringify({ a, b: a }) } }));
  assert.equal((await house.server.json('POST', '/api/import', file)).body.imported, 1);
  const { id } = (await house.server.json('GET', '/api/conversations?q=samesame')).body.items[0];
  await house.server.json('PATCH', `/api/conversations/${id}`, { settings: { tool_servers: ['calc'] } });
  await page.goto(`${house.server.url}/#/c/${id}`);
  await until(page, () => document.querySelectorAll('.call').length === 2);
  await page.waitForTimeout(500);
  assert.equal(await page.locator('.call-ask, .call-form, .call-buttons').count(), 0);
});

test('calls that another tab ran meanwhile run once: the rest waits for somebody', opts, async () => {
  await fresh();
  await choose('calc');
  await say(page, order({ steps: [calling(['calc_add', { a: 7, b: 1 }], ['calc_add', { a: 7, b: 2 }]), 'Both.'] }));
  await until(page, () => document.querySelectorAll('.call-ask').length === 2);
  const [, answer] = (await stored()).messages;
  const { definition } = (await house.server.json('GET', '/api/tool-servers')).body.items[0].tools.find((x) => x.call === 'calc_add');
  await house.server.json('POST', `/api/messages/${answer.id}/calls/${answer.tool_calls[0].id}/run`, { allow: 'once', definition });
  const before = mcp.calls.length;
  await page.evaluate(() => { for (const box of document.querySelectorAll('.call-ask')) box.querySelectorAll('button')[2].click(); }); // denied, both
  await page.locator('.call-result pre').first().waitFor();
  await until(page, () => document.querySelectorAll('.call-ask').length === 1);
  assert.equal(await page.textContent('.call-result pre'), '8', 'what it gave');
  assert.deepEqual((await stored()).messages[1].runs.map((r) => r.state), ['done'], 'the second waits');
  assert.equal(mcp.calls.length, before);
});

test('two calls: one is denied, one fails; the model hears of both', opts, async () => {
  await fresh();
  await choose('calc');
  await say(page, order({ steps: [calling(['calc_wipe_disk', {}], ['calc_fail', {}]), 'I give up.'] }));
  await until(page, () => document.querySelectorAll('.call-ask').length === 2);
  assert.match(await cards().first().textContent(), /May change or delete things/);
  assert.deepEqual(await page.locator('.call-ask').evaluateAll((all) => all.map((box) => [Boolean(box.querySelector('.call-warn')), box.querySelectorAll('.primary').length])), [[true, 0], [false, 1]], 'what may delete is not what stands out');
  await picture('tools-two');
  await cards().first().getByRole('button', { name: 'Don’t allow' }).click();
  await until(page, () => document.querySelector('.call-state')?.textContent === 'not allowed · 0 ms');
  await cards().nth(1).getByRole('button', { name: 'Allow once' }).click();
  assert.equal((await answered(page, 2)).text.trim(), 'I give up.');
  assert.deepEqual((await stored()).messages.filter((m) => m.role === 'tool').map((m) => m.timings.run.state), ['refused', 'failed']);
  assert.ok(!mcp.calls.some((c) => c.name === 'wipe.disk'));
});

test('a call that runs shows for how long, can be stopped, and then a button goes on', opts, async () => {
  await fresh();
  await choose('calc');
  await say(page, order({ steps: [calling(['calc_wait', { ms: 60000 }]), 'Stopped, I see.'] }));
  await page.getByRole('button', { name: 'Allow once' }).click();
  await until(page, () => /Running for [1-9]\d* second/.test(document.querySelector('.call-time')?.textContent));
  await picture('tools-running');
  await page.getByRole('button', { name: 'Stop', exact: true }).first().click();
  await page.getByRole('button', { name: 'Continue' }).waitFor();
  await picture('tools-stopped');
  assert.equal(await page.locator('.message.assistant').count(), 1, 'nothing goes on by itself');
  await page.reload();
  await page.getByRole('button', { name: 'Continue' }).click();
  assert.equal((await answered(page, 2)).text.trim(), 'Stopped, I see.');
});

test('calls of servers and calls that are answered by hand, in one answer', opts, async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
  const { body } = await house.server.json('POST', '/api/conversations', { settings: { tools, tool_servers: ['calc'], thinking: false } });
  await openChat(page, house, body.id);
  await say(page, order({ steps: [calling(['weather', { city: 'Rome' }], ['calc_add', { a: 1, b: 2 }]), 'Both.'] }));
  await page.waitForSelector('.call-form');
  await page.fill('.call-form textarea', 'sunny');
  await page.getByRole('button', { name: 'Allow once' }).click();
  await until(page, () => document.querySelectorAll('.call-result').length === 1);
  assert.equal(await page.inputValue('.call-form textarea'), 'sunny', 'what was typed stays');
  await page.click('.call-form .primary');
  await answered(page, 2);
  assert.deepEqual((await stored()).messages.filter((m) => m.role === 'tool').map((m) => m.content), ['sunny', '3']);
});

test('what a server writes is text: in names, descriptions, results', opts, async () => {
  const evil = '<img src=x onerror=window.__pwned=1>';
  mcp.tools.push({ name: 'evil', title: evil, description: evil, inputSchema: { type: 'object' } });
  const calc = (await house.server.json('GET', '/api/tool-servers')).body.items[0];
  await house.server.json('POST', `/api/tool-servers/${calc.id}/refresh`);
  mcp.how = { text: evil };
  await page.reload();
  await fresh();
  await choose('calc');
  await say(page, order({ steps: [calling(['calc_evil', { x: evil }]), 'Nice try.'] }));
  await page.getByRole('button', { name: 'Allow once' }).click();
  await answered(page, 2);
  assert.equal(await page.textContent('.call-result pre'), evil);
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
  assert.equal(await page.locator('.call img').count(), 0);
  mcp.how = {};
});

test('by keyboard alone, and clean for axe in both themes, on a phone in German too', opts, async () => {
  await fresh();
  await choose('calc');
  await say(page, order({ steps: [calling(['calc_add', { a: 3, b: 4 }]), 'Seven.'] }));
  await page.waitForSelector('.call-ask');
  const { default: { source } } = await load('axe-core');
  const clean = async (p, what) => {
    if (!await p.evaluate(() => Boolean(globalThis.axe))) await p.evaluate(source); // by the debugger, which the policy does not bind
    const found = await p.evaluate(() => globalThis.axe.run(document.querySelector('dialog[open]') || document, { resultTypes: ['violations'] }));
    assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], what);
  };
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await still(page);
    await clean(page, `question, ${colorScheme}`);
    await picture(`tools-axe-${colorScheme}`);
  }
  await page.getByRole('button', { name: 'Allow once' }).focus();
  await page.keyboard.press('Enter');
  await answered(page, 2);
  await still(page); // new text appears gently
  await clean(page, 'result');
  const phone = await house.page({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, locale: 'de-DE', colorScheme: 'dark' });
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  await phone.goto(`${house.server.url}/#/c/${id}`);
  await phone.waitForSelector('.call-result');
  await picture('tools-phone', phone);
  const small = await phone.evaluate(() => [...document.querySelectorAll('.call button, .call summary')].filter((b) => b.getBoundingClientRect().height < 44).map((b) => b.outerHTML));
  assert.deepEqual(small, [], 'what a finger hits');
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the phone');
  await phone.click('#add');
  await phone.locator('.menu .i-tool').click();
  await phone.getByRole('menuitem', { name: /^Toolserver verwalten/ }).click();
  await phone.waitForSelector('.settings-tools[data-drawn] .server');
  await phone.click('.server-tools summary');
  await picture('tools-dialog-phone', phone);
  await clean(phone, 'dialog');
  await phone.context().close();
});

test('a program that the server\'s file names is offered by an admin, and runs', opts, async () => {
  await openSettings(page, 'tools');
  await page.fill('#tools-form input:not([type])', 'all');
  await page.fill('#tools-form input[type=url]', 'stdio://nobody');
  await page.click('#tools-form .primary');
  await until(page, () => /No program of this name/.test(document.querySelector('.settings-tools .form-error')?.textContent));
  await page.fill('#tools-form input[type=url]', 'stdio://everything');
  await eventually(async () => { // again where the machine was too busy to start it in the 15 s that it has
    await page.click('#tools-form .primary');
    await until(page, () => !document.querySelector('#tools-form .primary').disabled);
    assert.equal(await page.locator('.server-head b', { hasText: /^all$/ }).count(), 1, await page.textContent('.settings-tools .form-error'));
  });
  await closeSettings(page);
  await fresh();
  await choose('all');
  await say(page, order({ steps: [calling(['all_get-sum', { a: 17, b: 25 }]), 'It is 42.'] }));
  await page.getByRole('button', { name: 'Allow once' }).click();
  assert.equal((await answered(page, 2)).text.trim(), 'It is 42.');
  assert.match(await page.textContent('.call-result pre'), /42/);
});

test('a server that wants a sign-in is signed in to at the settings, and at the call that needs it, which goes on', opts, async () => {
  const peer = await FakePeer.open();
  const through = async (button) => { const [there] = await Promise.all([page.waitForEvent('popup'), button.click()]); if (!there.isClosed()) await there.waitForEvent('close').catch(() => {}); };
  await openSettings(page, 'tools');
  await page.fill('#tools-form input:not([type])', 'acct');
  await page.fill('#tools-form input[type=url]', peer.url);
  await page.click('#tools-form .primary');
  const row = page.locator('.server', { hasText: 'acct' });
  await row.getByRole('button', { name: 'Sign in' }).waitFor();
  await picture('tools-sign-in');
  await through(row.getByRole('button', { name: 'Sign in' }));
  await until(page, () => /Signed in at 127.0.0.1/.test(document.querySelector('.servers')?.textContent));
  await reads(row, /1 tool/);
  await row.getByRole('button', { name: /^Disconnect/ }).click();
  await row.getByRole('button', { name: 'Sign in' }).waitFor();
  await closeSettings(page);

  await fresh();
  await choose('acct');
  await say(page, order({ steps: [calling(['acct_look', {}]), 'I saw it.'] }));
  await page.locator('.call-ask', { hasText: 'sign in to “acct”' }).waitFor();
  await picture('tools-sign-in-call');
  await through(page.locator('.call-ask').getByRole('button', { name: 'Sign in' }));
  peer.good = 'Bearer fresh'; // what was just given is taken no more, nor refreshed
  peer.how = { refresh: { status: 400, body: { error: 'invalid_grant' } }, more: { access_token: 'fresh-1' } };
  await page.getByRole('button', { name: 'Allow once' }).click();
  await page.locator('.call-ask').getByRole('button', { name: 'Sign in' }).waitFor();
  await through(page.locator('.call-ask').getByRole('button', { name: 'Sign in' }));
  assert.equal((await answered(page, 2)).text.trim(), 'I saw it.');
  assert.equal(await page.textContent('.call-result pre'), 'seen');
  await peer.stop();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
