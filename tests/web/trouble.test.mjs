// What goes wrong, as the page tells it: which trouble it is, what to do, in the reader's language; and nothing is left behind.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, lasting } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

const chats = async () => (await house.server.json('GET', '/api/conversations')).body.items.length;
const send = async (where, text) => { await where.fill('#composer-text', text); await where.press('#composer-text', 'Enter'); };
const problem = (where = page) => where.locator('#composer-problem:not([hidden])').innerText();
async function german() {
  const other = await house.page({ locale: 'de-DE' });
  await until(other, () => document.querySelector('#welcome-model').textContent);
  return other;
}

test('a first message that is refused leaves no chat, and its text and the reason stay', opts, async () => {
  const words = 'far too long '.repeat(12000).trim();
  await until(page, () => document.querySelector('#welcome-model').textContent);
  const n = await chats();
  await send(page, words);
  await page.waitForSelector('#composer-problem:not([hidden])');
  assert.match(await problem(), /^This is too long: [\d,]+ tokens, and the model can read 4,096\./);
  assert.equal(await page.inputValue('#composer-text'), words);
  await until(page, () => location.hash === '#/');
  assert.equal(await chats(), n);
  assert.equal(await page.locator('.conversation').count(), n);
  await page.fill('#composer-text', 'short');
  assert.ok(await page.locator('#composer-problem').isHidden(), 'typing takes it away');
  await page.press('#composer-text', 'Enter');
  assert.equal((await answered(page)).status, 'done');
  assert.equal(await chats(), n + 1);
});

test('the limits of a day are told in German, with the time until they are over', opts, async () => {
  const other = await german();
  await house.server.json('PATCH', '/api/admin/settings', { user_tokens_per_day: 10 });
  await send(other, 'Eins, zwei, drei, vier, fünf, sechs, sieben, acht, neun, zehn, elf, zwölf');
  await other.waitForSelector('#composer-problem:not([hidden])');
  const said = await problem(other);
  await house.server.json('PATCH', '/api/admin/settings', { user_tokens_per_day: 0 });
  assert.match(said, /^Du hast (die|\d+ der) 10 Tokens für heute .*verbraucht|aufgebraucht/);
  assert.match(said, /Um \d\d:\d\d \(in .*(Sekunde|Minute|Stunde)/);
  await other.context().close();
});

test('an answer whose connection broke says why in each language, also after a reload', opts, async () => {
  const other = await german();
  await say(other, order({ text: 'one two three four five six seven eight', fail_after: 3 }));
  assert.equal((await answered(other)).status, 'error');
  const said = await lastAnswer(other).locator('.problem p').innerText();
  assert.match(said, /^[A-ZÄÖÜ].*\.$/);
  assert.doesNotMatch(said, /engine|the |device/i);
  await other.reload();
  await lastAnswer(other).locator('.problem:not([hidden])').waitFor();
  assert.equal(await lastAnswer(other).locator('.problem p').innerText(), said);
  const id = other.url().split('/').pop();
  const { body } = await house.server.json('GET', `/api/conversations/${id}`);
  const row = body.messages.find((m) => m.status === 'error');
  assert.equal(row.error_detail.code, 'device_failed');
  await other.context().close();
});

test('without a network the page says so at once, sends nothing, and goes on by itself', opts, async () => {
  await page.goto(`${house.server.url}/#/`);
  await until(page, () => document.querySelector('#engine').dataset.state === 'ready');
  const n = await chats();
  await page.context().setOffline(true);
  await until(page, () => document.querySelector('#engine-words').textContent === 'You’re offline');
  assert.doesNotMatch(await page.textContent('#welcome-model'), /Ready/);
  await send(page, 'Is anybody there?');
  assert.match(await problem(), /^You’re offline/);
  assert.equal(await page.inputValue('#composer-text'), 'Is anybody there?');
  await page.context().setOffline(false);
  await until(page, () => document.querySelector('#engine').dataset.state === 'ready');
  assert.equal(await chats(), n);
  await page.fill('#composer-text', '');
});

test('on a phone a temporary chat without a network says both in full', opts, async () => {
  const phone = await house.page({ viewport: { width: 360, height: 700 }, hasTouch: true, isMobile: true });
  for (const language of ['en', 'de']) {
    await phone.evaluate((name) => localStorage.setItem('language', name), language);
    await phone.reload();
    await phone.click('#temporary');
    await phone.context().setOffline(true);
    await until(phone, () => document.querySelector('#engine').dataset.state === 'down');
    assert.deepEqual(await phone.evaluate(() => ['#title', '#engine-words', '.topbar'].filter((s) => {
      const node = document.querySelector(s);
      return node.scrollWidth > node.clientWidth && getComputedStyle(node).display !== 'inline';
    })), [], language);
    await phone.context().setOffline(false);
  }
  await phone.context().close();
});

test('a search without a network shows no rows that answer something else', opts, async () => {
  await until(page, () => document.querySelectorAll('.conversation').length > 0);
  await page.context().setOffline(true);
  await page.fill('#search', 'wombat');
  await until(page, () => /You’re offline/.test(document.querySelector('#conversations').textContent));
  assert.equal(await page.locator('.conversation').count(), 0);
  await page.context().setOffline(false);
  await until(page, () => /No results/.test(document.querySelector('#conversations').textContent));
  await page.fill('#search', '');
  await until(page, () => document.querySelectorAll('.conversation').length > 0);
});

test('what is wrong with the model is told apart, each with what to do', opts, async () => {
  const told = async (engine, words, welcome) => {
    await page.route('**/api/status', async (route) => {
      const reply = await route.fetch();
      route.fulfill({ response: reply, json: { ...await reply.json(), engine: { error: null, ...engine } } });
    });
    await page.goto(`${house.server.url}/#/`);
    await page.reload();
    await eventually(async () => {
      assert.equal(await page.textContent('#engine-words'), words);
      assert.match(await page.textContent('#welcome-model'), welcome);
    });
    await page.unroute('**/api/status');
  };
  await told({ state: 'down', reason: 'model_unloaded' }, 'No model loaded', /^No model is loaded. Load a model$/);
  const n = await chats();
  await send(page, 'Hello?');
  assert.match(await problem(), /No model is loaded/);
  assert.equal(await chats(), n);
  await told({ state: 'loading', reason: 'model_loading' }, 'Model is loading…', /^The model is still loading/);
  await told({ state: 'down', reason: 'engine_hangs' }, 'Model not responding', /tell your admin/);
  await told({ state: 'down', reason: 'engine_unavailable' }, 'Model not running', /./);
  await page.fill('#composer-text', '');
});

test('an engine that gives no sign is told in words after two seconds', opts, async () => {
  await page.goto(`${house.server.url}/#/`);
  await page.reload();
  await until(page, () => document.querySelector('#engine').dataset.state === 'ready');
  const engine = house.server.pid('engine');
  const stopped = [engine, ...house.server.childrenOf(engine)];
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  try {
    await page.fill('#composer-text', 'Anybody?');
    await page.press('#composer-text', 'Enter');
    await until(page, () => /Waiting for the model…|responding/.test([...document.querySelectorAll('.waiting-text')].at(-1)?.textContent));
  } finally {
    for (const pid of stopped.reverse()) process.kill(pid, 'SIGCONT');
  }
  await answered(page);
});

test('the meter keeps the prompt while the answer is written', opts, async () => {
  await say(page, order({ text: 'word '.repeat(40), token_ms: lasting(30), prefill_ms: 200 }));
  const seen = await page.evaluate(() => new Promise((done) => {
    const out = [];
    const look = setInterval(() => {
      const running = [...document.querySelectorAll('.message.assistant')].at(-1).dataset.status === 'running';
      const used = Number(document.querySelector('#meter').dataset.used);
      if (used && running) out.push(used);
      if (!running) { clearInterval(look); done(out); }
    }, 20);
  }));
  assert.ok(seen.length > 5, 'seen while it ran');
  seen.forEach((used, i) => assert.ok(!i || used >= seen[i - 1], `${seen[i - 1]}, then ${used}`));
});

test('letters that are typed into nothing go to the message box; single keys are for who turns them on', opts, async () => {
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.type('hello t');
  assert.equal(await page.inputValue('#composer-text'), 'hello t');
  assert.equal(await page.locator('.edit').count(), 0);
  await page.fill('#composer-text', '');
  await page.evaluate(() => { localStorage.setItem('single-keys', '1'); document.activeElement.blur(); });
  await page.keyboard.press('e');
  await page.waitForSelector('.edit');
  await page.keyboard.press('Escape');
  await page.evaluate(() => localStorage.removeItem('single-keys'));
});

test('no script failed and nothing was refused', opts, () => assert.deepEqual(house.problems, []));
