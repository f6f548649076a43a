// What the page costs before the first chat, by the wire; that a reader never runs stale code; that it can be installed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { noBrowser, openHouse, until } from './page.mjs';

const LIMIT = 180000; // bytes of all that is asked for, compressed
const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

test('all that comes before the first chat, the font with it, is under 180 KB compressed, and no library that may never be needed', opts, async () => {
  const page = await house.page();
  await until(page, () => document.querySelector('#welcome-model').textContent && document.fonts.check('16px "Inter Variable"'));
  await page.waitForTimeout(300);
  const all = await page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .map((r) => ({ name: new URL(r.name).pathname, bytes: r.encodedBodySize, plain: r.decodedBodySize })));
  const code = all.filter((r) => /\.(js|css)$/.test(r.name));
  assert.ok(code.length > 15 && code.every((r) => r.bytes > 0), JSON.stringify(code));
  const sum = all.reduce((n, r) => n + r.bytes, 0);
  assert.ok(all.some((r) => r.name.endsWith('.woff2')), 'the font is counted');
  assert.ok(sum < LIMIT, `${sum} bytes: ${all.sort((a, b) => b.bytes - a.bytes).map((r) => `${r.name} ${r.bytes}`).join(', ')}`);
  assert.deepEqual(all.filter((r) => /katex|highlight|mermaid|markdown-it|admin/.test(r.name)).map((r) => r.name), []);
  assert.deepEqual(code.filter((r) => r.plain > 2048 && r.bytes > 0.6 * r.plain).map((r) => r.name), [], 'sent uncompressed');
  await page.context().close();
});

test('what the page asks for has the address of its version and is asked for once; another version\'s is kept by nobody', opts, async () => {
  const page = await house.page();
  const asked = () => page.evaluate(() => performance.getEntriesByType('resource').map((r) => ({ path: new URL(r.name).pathname, sent: r.transferSize })).filter((r) => /\/(css|js|strings|vendor)\//.test(r.path)));
  const first = (await asked()).map((r) => r.path);
  const version = /^\/v\/[0-9a-f]{16}\//.exec(first[0])?.[0];
  assert.deepEqual(first.filter((p) => !p.startsWith(version)), []);
  await page.reload();
  await page.waitForSelector('#app:not([hidden])');
  const again = await asked();
  const twice = again.filter((r) => first.includes(r.path)); // a page that is left early has not asked for all
  assert.ok(twice.length > 30);
  assert.deepEqual(twice.filter((r) => r.sent > 0), []);
  for (const [path, control, status] of [[`${version}js/main.js`, 'public, max-age=31536000, immutable', 200], ['/v/0123456789abcdef/js/main.js', 'no-cache', 200],
    [`${version}js/none.js`, null, 404], [`${version}frame/preview.html`, null, 404], [`${version}index.html`, null, 404]]) {
    const r = await fetch(house.server.url + path);
    await r.text();
    assert.equal(r.status, status, path);
    if (control) assert.equal(r.headers.get('cache-control'), control, path);
    else assert.doesNotMatch(r.headers.get('cache-control') ?? '', /immutable/, path);
  }
  await page.context().close();
});

test('who was here before has the session, the chats and the state asked for at once and once each; who signed out asks for no chats', opts, async () => {
  const page = await house.page({ alone: true });
  await page.addInitScript(() => { // what the page asks for again and again comes after this test, however long it takes
    const later = globalThis.setTimeout;
    globalThis.setTimeout = (what, ms, ...rest) => later(what, ms >= 2000 ? 2 ** 31 - 1 : ms, ...rest);
  });
  const { id } = (await house.server.json('POST', '/api/conversations', { title: 'Asked ahead' })).body;
  await page.goto(`${house.server.url}/#/c/${id}`);
  const wanted = [`/api/conversations/${id}?texts=80`, '/api/conversations?limit=100&pinned=0&project=none', '/api/conversations?pinned=1&limit=199', '/api/projects', '/api/status'];
  const asked = [];
  let seen;
  const all = new Promise((resolve) => { seen = resolve; });
  page.on('request', (r) => {
    const path = r.url().slice(house.server.url.length);
    if (r.isNavigationRequest()) asked.length = 0; // the page before may still have asked
    if (path.startsWith('/api/')) asked.push(path);
    if (wanted.every((p) => asked.includes(p))) seen();
  });
  await page.route('**/api/session', async (route) => { await all; await route.continue(); }); // the session's answer comes last: what waited for it would never be asked for
  await page.reload();
  await page.locator('.conversation').first().waitFor();
  await until(page, () => document.querySelector('#title').textContent === 'Asked ahead' && document.querySelector('#model').checkVisibility());
  for (const path of ['/api/session', ...wanted]) assert.equal(asked.filter((p) => p === path).length, 1, `${path} of ${asked}`);
  page.removeAllListeners('request');
  await page.unroute('**/api/session');
  let after = null; // what the page that begins anew asks for: timing tells nothing of an answer that nobody read
  page.on('request', (r) => { if (r.isNavigationRequest()) after = []; else after?.push(new URL(r.url()).pathname); });
  await page.click('#account');
  await page.locator('.menu .i-out').click();
  await page.waitForSelector('#login-form', { state: 'visible' });
  assert.deepEqual(after.filter((path) => /^\/api\/(conversations|projects|status)/.test(path)), []);
  assert.ok(after.includes('/api/session'), after.join(' '));
  page.removeAllListeners('request');
  await page.fill('#login-name', house.server.admin.name);
  await page.fill('#login-password', house.server.admin.password);
  await page.click('#login-form .primary');
  await page.locator('.conversation').first().waitFor();
  await page.context().close();
});

test('nothing moves while a new chat\'s page loads: what is offered comes below the message box', opts, async () => {
  const page = await house.page();
  await page.addInitScript(() => {
    globalThis.moved = [];
    new PerformanceObserver((list) => { for (const e of list.getEntries()) globalThis.moved.push(e.value); }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.goto(`${house.server.url}/#/`);
  await page.reload();
  await page.locator('.suggestion').first().waitFor();
  await page.waitForTimeout(200);
  assert.deepEqual(await page.evaluate(() => globalThis.moved), []);
  const at = await page.evaluate(() => { // a slow browser draws the mark before it has read the word beside it
    const splash = document.querySelector('#splash'), word = splash.querySelector('span');
    splash.hidden = false;
    const mark = splash.querySelector('svg').getBoundingClientRect(), end = word.getBoundingClientRect().right;
    word.remove();
    return { middle: (mark.left + end) / 2, whole: mark.left, begun: splash.querySelector('svg').getBoundingClientRect().left };
  });
  assert.equal(at.begun, at.whole);
  assert.ok(Math.abs(at.middle - 640) < 3, `${JSON.stringify(at)} of 1280`);
  await page.context().close();
});

test('each file that has no version is asked for again, and answered from the reader\'s own copy while it is the same', opts, async () => {
  for (const path of ['/', '/js/main.js', '/css/page.css', '/vendor/inter.woff2', '/strings/de.json', '/vendor/markdown-it.min.js', '/icon.svg', '/manifest.webmanifest']) {
    const first = await fetch(house.server.url + path, { headers: { 'accept-encoding': 'gzip' } });
    await first.text();
    const etag = first.headers.get('etag');
    assert.equal(first.headers.get('cache-control'), 'no-cache', path);
    assert.ok(etag, path);
    const second = await fetch(house.server.url + path, { headers: { 'if-none-match': etag, 'accept-encoding': 'gzip' } });
    await second.text();
    assert.equal(second.status, 304, path);
    const other = await fetch(house.server.url + path, { headers: { 'if-none-match': '"another"' } });
    assert.equal(other.status, 200, path);
    await other.text();
  }
});

test('it can be installed, and has no service worker', opts, async () => {
  const page = await house.page();
  const manifest = await (await fetch(`${house.server.url}/manifest.webmanifest`)).json();
  assert.equal(manifest.display, 'standalone');
  for (const icon of [...manifest.icons.map((i) => i.src), await page.getAttribute('link[rel=apple-touch-icon]', 'href')]) {
    const r = await fetch(`${house.server.url}/${icon}`);
    assert.equal(r.status, 200, icon);
    assert.match(r.headers.get('content-type'), icon.endsWith('svg') ? /^image\/svg\+xml/ : /^image\/png/);
    await r.arrayBuffer();
  }
  const cdp = await page.context().newCDPSession(page);
  const { errors } = await cdp.send('Page.getAppManifest');
  assert.deepEqual(errors, []);
  assert.equal(await page.evaluate(async () => (await navigator.serviceWorker?.getRegistrations())?.length ?? 0), 0);
  await page.context().close();
});

test('on paper there is the conversation and nothing else, in dark colours on white', opts, async () => {
  const page = await house.page({ colorScheme: 'dark' });
  await page.fill('#composer-text', 'Hello');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('.message.assistant[data-status=done]');
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), 'rgb(255, 255, 255)');
  const shown = await page.evaluate(() => ['.sidebar', '.topbar', '.dock', '.actions', '.bubble', '.answer'].filter((s) => document.querySelector(s)?.checkVisibility()));
  assert.deepEqual(shown, ['.bubble', '.answer']);
  await page.emulateMedia({ media: 'screen', colorScheme: 'dark' });
  assert.equal(await ground(), 'rgb(22, 24, 25)');
  await page.context().close();
});

test('colours of the system\'s own choosing leave the icons to be seen', opts, async () => {
  const page = await house.page();
  await page.emulateMedia({ forcedColors: 'active' });
  const [icon, ground] = await page.evaluate(() => [getComputedStyle(document.querySelector('#settings .i')).backgroundColor, getComputedStyle(document.querySelector('.topbar')).backgroundColor]);
  assert.notEqual(icon, 'rgba(0, 0, 0, 0)');
  assert.notEqual(icon, ground);
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
