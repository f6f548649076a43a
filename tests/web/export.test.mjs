// The export dialog: what is chosen arrives as a file, the bar tells the truth, cancel stops it; the page that is exported
// can do nothing.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { unzip } from '../api/unzip.mjs';
import { answered, noBrowser, openHouse, openSettings, say, until } from './page.mjs';
import { vectors, watch } from './vectors.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page({ acceptDownloads: true });
  await say(page, `fake:${JSON.stringify({ text: 'A <script>document.title = "owned"</script> ![x](http://127.0.0.1:9/x.png)' })}`);
  await answered(page);
  await house.server.json('POST', '/api/conversations', { title: 'another' });
});
after(async () => { await house?.close(); });

async function open() {
  await openSettings(page, 'data');
  await page.click('[data-pref=export] button');
  await page.waitForSelector('#export-dialog[open]');
}

async function take(format, what) {
  await open();
  await page.check(`#export-dialog [name=format][value=${format}]`);
  if (what === 'all') await page.check('#export-dialog [name=what][value=all]');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#export-dialog .export-start')]);
  await page.waitForSelector('#export-dialog', { state: 'detached' });
  return { name: download.suggestedFilename(), path: await download.path() };
}

test('this chat, or all, as a file with a name', opts, async () => {
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  // plain letters: without a locale the browser can write no others into a file's name
  await house.server.json('PATCH', `/api/conversations/${id}`, { title: 'A script, and a picture' });
  const one = await take('json');
  const title = (await house.server.json('GET', `/api/conversations/${id}`)).body.title;
  const { conversations } = JSON.parse(readFileSync(one.path, 'utf8'));
  assert.deepEqual(conversations.map((c) => c.title), [title]);
  assert.match(one.name, /script.*\.json$/);
  const all = await take('zip', 'all');
  assert.match(all.name, /^sluice-\d{4}-\d\d-\d\d\.zip$/);
  assert.equal(Object.keys(unzip(readFileSync(all.path))).length, 3);
  assert.equal(await page.evaluate(() => document.activeElement.closest('[data-pref]')?.dataset.pref), 'export', 'the focus is back');
});

test('the exported page runs nothing and loads nothing', opts, async () => {
  const html = await take('html');
  const reader = await (await house.browser.newContext()).newPage();
  const asked = [];
  reader.on('request', (r) => asked.push(r.url()));
  await reader.goto(`file://${html.path}`).catch(() => {});
  await reader.setContent(readFileSync(html.path, 'utf8'));
  assert.equal(await reader.title(), 'Sluice');
  assert.equal(await reader.locator('script, img, iframe, form').count(), 0);
  assert.match(await reader.innerText('section.assistant .prose'), /<script>document/);
  assert.equal(await reader.getAttribute('section.assistant a', 'href'), 'http://127.0.0.1:9/x.png', 'a picture is a link');
  assert.deepEqual(asked.filter((u) => !u.startsWith('file:')), []);
  await reader.context().close();
});

test('no vector of the corpus becomes more than text, links and plain elements', opts, async () => {
  const allowed = { a: /^(https?:\/\/|mailto:)/i, ol: /^\d+$/ };
  const line = (v) => JSON.stringify({ messages: [{ role: 'user', content: v }, { role: 'assistant', content: v }] });
  const taken = await house.server.json('POST', '/api/import', [...vectors.map(line), line(vectors.join('\n\n'))].join('\n'), { 'content-type': 'application/octet-stream' });
  assert.equal(taken.body.failed, 0, taken.text);
  const html = await (await house.server.request('GET', '/api/export?format=html')).text();
  const file = path.join(house.server.dir, 'vectors.html');
  writeFileSync(file, html);
  const context = await house.browser.newContext();
  const reader = await context.newPage();
  const guard = await watch(reader, `file://${file}`);
  await reader.goto(`file://${file}`);
  const seen = await reader.evaluate(() => [...document.querySelectorAll('article *')].map((n) => [n.localName, ...[...n.attributes].map((a) => [a.name, a.value])]));
  assert.ok(seen.length > 2 * vectors.length, `${seen.length} elements`);
  const tags = /^(h[1-6]|time|section|span|details|summary|div|p|pre|code|ul|ol|li|blockquote|hr|br|em|strong|s|table|thead|tbody|tr|th|td|a)$/;
  for (const [tag, ...attributes] of seen) {
    assert.match(tag, tags);
    for (const [name, value] of attributes) {
      if (name === 'class') assert.match(value, /^(user|assistant|system|tool|text|prose|note|math|task|left|center|right)$/);
      else if (name === 'dir') assert.equal(value, 'auto');
      else if (name === 'rel') assert.equal(value, 'noopener noreferrer nofollow ugc');
      else if (name === 'href' || name === 'start') assert.match(value, allowed[tag]);
      else assert.fail(`${tag} ${name}=${value}`);
    }
  }
  assert.deepEqual(await guard.end(), []);
  await context.close();
});

test('the bar follows the bytes; cancel stops the transfer and the dialog stays', opts, async () => {
  let release;
  const held = new Promise((done) => { release = done; });
  await page.route('**/api/export?*', async (route) => { await held; await route.continue().catch(() => {}); });
  await open();
  await page.click('#export-dialog .export-start');
  await page.waitForSelector('#export-dialog[data-busy] progress');
  assert.equal(await page.innerText('.export-state'), 'Preparing…');
  await page.click('.export-stop');
  await until(page, () => !document.querySelector('#export-dialog').hasAttribute('data-busy'));
  release();
  await page.unroute('**/api/export?*');
  assert.ok(await page.isVisible('#export-dialog .export-start'));
  await page.evaluate(() => {
    window.parts = [];
    const bar = document.querySelector('#export-dialog progress');
    new MutationObserver(() => window.parts.push(bar.value)).observe(bar, { attributes: true });
  });
  // Enter starts it, from any choice
  const [download] = await Promise.all([page.waitForEvent('download'), page.press('#export-dialog [name=format]:checked', 'Enter')]);
  await download.path();
  const parts = await page.evaluate(() => window.parts);
  assert.equal(parts.at(-1), 1);
  assert.ok(parts.every((p, i) => p >= 0 && p <= 1 && (!i || p >= parts[i - 1])), String(parts));
});

test('a ZIP that was cut off is not saved', opts, async () => {
  await page.route('**/api/export?*', async (route) => {
    const whole = await route.fetch();
    await route.fulfill({ status: 200, headers: { 'content-type': 'application/zip', 'x-export-files': '3' }, body: (await whole.body()).subarray(0, -10) });
  });
  await open();
  await page.check('#export-dialog [value=zip]');
  await page.click('#export-dialog .export-start');
  await page.waitForSelector('#export-dialog .form-error:not([hidden])');
  assert.match(await page.innerText('#export-dialog .form-error'), /Can’t reach the server/);
  await page.keyboard.press('Escape');
  await page.unroute('**/api/export?*');
});

test('a failure is said in the dialog', opts, async () => {
  await page.route('**/api/export?*', (route) => route.fulfill({ status: 429, contentType: 'application/json', body: '{"error":{"message":"another export of yours is being made"}}' }));
  await open();
  await page.click('#export-dialog .export-start');
  await page.waitForSelector('#export-dialog .form-error:not([hidden])');
  assert.match(await page.innerText('#export-dialog .form-error'), /another export/);
  if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}/export.png` });
  await page.keyboard.press('Escape');
  await page.unroute('**/api/export?*');
});

test('one click saves the whole account', opts, async () => {
  await openSettings(page, 'data');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('[data-pref=account] button')]);
  const files = unzip(readFileSync(await download.path()));
  assert.equal(JSON.parse(files['account.json']).user.name, 'admin');
});

test('nothing failed in the page meanwhile', opts, () => assert.deepEqual(house.problems, []));
