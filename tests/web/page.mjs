// A browser on the page of a running server: shared by the page's tests.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { eventually, load, PATIENCE, sleep, start } from '../api/harness.mjs';

// The browser without its windows first: the same engine for a third less of the processor.
const places = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'];
/** A small script that only leads to a snap is none: a snap sees neither the tests' files nor their sockets. */
const isSnap = (file) => statSync(file).size < 20000 && readFileSync(file, 'latin1').includes('/snap/');
export const executablePath = places.find((file) => existsSync(file) && !isSnap(file));
const quiet = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

// To find tests that look too early or too late: each answer of the API comes, or each step of a test is taken, so many ms later.
const late = Number(process.env.SLUICE_TEST_LATE_MS ?? 0), slowMo = Number(process.env.SLUICE_TEST_SLOW_MS ?? 0);

/** Why the page's tests cannot run here, or false. */
export const noBrowser = executablePath ? false : 'no Chromium or Chrome on this machine (a snap cannot be driven)';

/** Server and browser together; `problems` gathers script errors and refused resources of every page. Pages want less motion unless `motion`:
    what pulses as long as an answer runs is drawn sixty times a second, by the processor. */
export async function openHouse({ motion = false, ...options } = {}) {
  const server = await start(options);
  const { default: playwright } = await load('playwright-core');
  const browser = await playwright.chromium.launch({ executablePath, args: quiet, timeout: PATIENCE, slowMo });
  const open = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await open({ reducedMotion: motion ? 'no-preference' : 'reduce', ...options });
    context.setDefaultTimeout(PATIENCE);
    if (late) await context.route('**/api/**', async (route) => { await sleep(late); await route.fallback().catch(() => {}); });
    return context;
  };
  const problems = [];
  let cookies = []; // of a session that pages share: a password is made slow to try
  return {
    server, browser, problems,
    async close() {
      await browser.close();
      await server.stop();
    },
    /** A page that is signed in; viewport and colour scheme as given. The first fills in the form, the others have its
        session, as long as there is one; alone: this page has a session of its own. */
    async page({ alone = false, ...context } = {}) {
      const c = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...context });
      await c.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
      const page = await c.newPage();
      page.on('pageerror', (e) => problems.push(`script: ${e.message}`));
      page.on('console', (m) => { if (/Content Security Policy|Refused to|^no string for/.test(m.text())) problems.push(`console: ${m.text()}`); });
      if (!alone) await c.addCookies(cookies);
      await page.goto(server.url);
      const shown = page.locator('#app:not([hidden]), #login-form').filter({ visible: true });
      await shown.first().waitFor();
      if (await page.isVisible('#app')) return page;
      await page.fill('#login-name', server.admin.name);
      await page.fill('#login-password', server.admin.password);
      await page.click('#login-form .primary');
      await page.waitForSelector('#app:not([hidden])');
      if (!alone) cookies = await c.cookies();
      return page;
    },
  };
}

/** Polls a condition in the page. (Playwright's own waitForFunction needs eval, which the page's policy forbids.) */
export const until = (page, condition) => eventually(async () => { if (!await page.evaluate(condition)) throw new Error(`never: ${condition}`); }, 20);

/** Waits until what is found there has this text, or one that fits; gives it. */
export const reads = (where, text) => eventually(async () => {
  const now = (await where.textContent()).trim();
  if (typeof text === 'string') assert.equal(now, text);
  else assert.match(now, text);
  return now;
}, 20);

/** Waits until what a function of the test gives is as expected. */
export const becomes = (what, expected) => eventually(async () => assert.deepEqual(await what(), expected), 20);

/** Waits until nothing fades or slides in any more; what turns for ever may. */
export const still = (page) => until(page, async () => {
  await new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); });
  return document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getComputedTiming().iterations === Infinity);
});

/** A message that tells the scripted engine (`fake: true`) what to answer. */
export const order = (o) => `fake:${JSON.stringify(o)}`;

/** Types and sends; waits until the answer has begun. */
export async function say(page, text) {
  const before = await page.locator('.message.assistant').count();
  await page.fill('#composer-text', text);
  if (await page.evaluate(() => matchMedia('(pointer: coarse)').matches)) await page.click('#send'); // Enter is a new line there
  else await page.press('#composer-text', 'Enter');
  await page.locator('.message.assistant').nth(before).waitFor();
}

export function lastAnswer(page) {
  return page.locator('.message.assistant').last();
}

/** Waits until that many answers are shown and the last has ended; gives its status and text as they were at one moment. */
export const answered = (page, n = 1) => eventually(async () => {
  const last = await page.evaluate(() => {
    const all = [...document.querySelectorAll('.message.assistant')];
    return { n: all.length, status: all.at(-1)?.dataset.status, text: all.at(-1)?.querySelector('.answer').innerText };
  });
  assert.ok(last.n >= n && last.status !== 'running', `${n} answers, the last ended: ${JSON.stringify(last)}`);
  return { status: last.status, text: last.text };
}, 20);

/** Goes to a chat by its address, and waits until it is open: what is sent while one is read is given back. */
export async function openChat(page, house, id) {
  await page.goto(`${house.server.url}/#/c/${id}`);
  await page.waitForSelector(`#thread[data-chat="${id}"]`, { state: 'attached' });
}

/** Opens a section of the settings window by its address, and waits until it is drawn. */
export const openSettings = (page, section) => eventually(async () => { // again where the server was too busy to say what is in it
  await page.evaluate((name) => { location.hash = `#settings/${name}`; }, section);
  const body = await page.waitForSelector(`#settings-window[open] .settings-${section}:is([data-drawn], :has(> .form-error[role=alert]))`, { timeout: PATIENCE / 4 });
  assert.ok(await body.evaluate((node) => 'drawn' in node.dataset), `${section} is not drawn`);
});

export async function closeSettings(page) {
  await page.click('#settings-window > .dialog-close');
  await page.waitForSelector('#settings-window', { state: 'detached' });
}
