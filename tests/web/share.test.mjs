// A read-only link: made and revoked in the dialog, shown to a stranger's browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { answered, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  await house.server.json('PATCH', '/api/admin/settings', { share_links: true });
});
after(async () => { await house?.close(); });

test('a stranger sees the chat, and no way to write in it', opts, async () => {
  const page = await house.page();
  await say(page, `fake:${JSON.stringify({ text: '<think>\nA thought.\n</think>\n\nThe **answer** & <img src=x onerror=alert(1)>' })}`);
  await answered(page);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  const { body: link } = await house.server.json('POST', `/api/conversations/${id}/shares`, {});
  const stranger = await (await house.browser.newContext()).newPage();
  stranger.on('pageerror', (e) => house.problems.push(`script: ${e.message}`));
  await stranger.goto(house.server.url + link.path);
  await stranger.waitForSelector('.message.assistant');
  assert.equal((await stranger.innerText('.message.assistant .answer')).trim(), 'The answer & <img src=x onerror=alert(1)>');
  assert.equal(await stranger.locator('textarea, input, .act-again, .act-edit').count(), 0);
  await stranger.click('.reasoning summary');
  await stranger.waitForSelector('.reasoning .prose p'); // drawn when the box has opened
  assert.equal((await stranger.innerText('.reasoning .prose')).trim(), 'A thought.');
  assert.deepEqual(await stranger.context().cookies(), []);
  if (process.env.SHOT) await stranger.screenshot({ path: `${process.env.SHOT}/share.png` });
  await house.server.json('DELETE', `/api/shares/${link.id}`);
  await stranger.reload();
  await stranger.waitForSelector('#shared-problem:not([hidden])');
  await stranger.context().close();
  await page.context().close();
});

test('files are seen by strangers where the owner says so', opts, async () => {
  const upload = (await house.server.json('POST', '/api/attachments?name=river%20notes.txt', 'The mill.', { 'content-type': 'application/octet-stream' })).body;
  const { id } = (await house.server.json('POST', '/api/conversations', { title: 'Mills' })).body;
  await (await house.server.request('POST', `/api/conversations/${id}/messages`, { content: 'fake:{"text":"Read."}', attachments: [upload.id] })).text();
  const page = await house.page();
  await page.goto(`${house.server.url}/#/c/${id}`);
  await page.locator('.conversation .conversation-more').first().click({ force: true });
  await page.click('.menu button:has(.i-share)');
  await page.check('#share-files');
  await page.click('#share-form .primary');
  const href = await (await page.waitForSelector('#share-url')).inputValue();
  await page.locator('#share-list li', { hasText: 'with files' }).waitFor(); // drawn anew after the link is shown
  await page.click('#share-copy');
  await page.hover('#share-dialog .toast'); // what lies behind a modal dialog is read to nobody; what is pointed at stays
  await page.keyboard.press('Escape');
  await page.waitForSelector('body > #toasts .toast');
  if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}/share-dialog.png` });
  await page.context().close();
  const stranger = await (await house.browser.newContext()).newPage();
  stranger.on('pageerror', (e) => house.problems.push(`script: ${e.message}`));
  await stranger.goto(href);
  await stranger.waitForSelector('.message.assistant');
  assert.match(await stranger.textContent('.message.user .file'), /river notes\.txt9 bytes/);
  if (process.env.SHOT) await stranger.screenshot({ path: `${process.env.SHOT}/share-files.png` });
  const [download] = await Promise.all([stranger.waitForEvent('download'), stranger.click('.file-open')]);
  assert.equal(download.suggestedFilename(), 'river notes.txt');
  assert.equal(readFileSync(await download.path(), 'utf8'), 'The mill.');
  await stranger.context().close();
});

test('what a tool gave is nobody\'s answer', opts, async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
  const { id } = (await house.server.json('POST', '/api/conversations', { settings: { tools, thinking: false } })).body;
  const send = async (body) => (await house.server.request('POST', `/api/conversations/${id}/messages`, body)).text();
  await send({ content: order({ text: '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>' }) });
  const [, asked] = (await house.server.json('GET', `/api/conversations/${id}`)).body.messages;
  await send({ parent_id: asked.id, tool_results: [{ tool_call_id: asked.tool_calls[0].id, content: order({ text: 'It is warm.' }) }] });
  const { body: link } = await house.server.json('POST', `/api/conversations/${id}/shares`, {});
  const stranger = await (await house.browser.newContext()).newPage();
  await stranger.goto(house.server.url + link.path);
  await stranger.waitForSelector('.message.assistant');
  assert.deepEqual(await stranger.$$eval('.message h2', (all) => all.map((n) => n.textContent)), ['Question', 'Answer', 'Result', 'Answer']);
  assert.deepEqual((await stranger.$$eval('.answer', (all) => all.map((n) => n.textContent.trim()))), ['', 'It is warm.']);
  assert.match(await stranger.locator('.call pre').last().textContent(), /^fake:/);
  await stranger.context().close();
});

test('nothing failed in the page meanwhile', opts, () => assert.deepEqual(house.problems, []));
