// The conversation in the page: going on, forking, deleting from here, versions by keyboard, calls, and two devices at once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lasting } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openChat, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

const fresh = async () => { await page.goto(`${house.server.url}/#/`); await page.waitForSelector('#welcome:not([hidden])'); };
const count = (selector, n) => until(page, `document.querySelectorAll(${JSON.stringify(selector)}).length === ${n}`);
const conversation = async (p = page) => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(p.url())[1]}`)).body;

test('a stopped answer continues in its place', opts, async () => {
  await fresh();
  const words = Array.from({ length: 60 }, (_, i) => `word${i}`).join(' ');
  await say(page, order({ text: words, token_ms: lasting(20) }));
  await until(page, () => document.querySelector('.message.assistant .answer')?.textContent.includes('word3'));
  await page.click('#stop');
  const stopped = await answered(page);
  assert.equal(stopped.status, 'stopped');
  await page.reload();
  await page.click('.act-continue:visible');
  await until(page, () => document.querySelector('.message.assistant').dataset.status === 'done');
  const now = await answered(page);
  assert.ok(now.text.startsWith(stopped.text.trim().slice(0, 20)) && now.text.includes('word59'), now.text.slice(0, 200));
  assert.equal(await page.locator('.message.assistant').count(), 1);
  assert.equal(await page.locator('.act-continue:visible').count(), 0);
  const { messages } = await conversation();
  assert.equal(messages.length, 2);
  assert.match(await lastAnswer(page).locator('.stats').textContent(), new RegExp(`^${messages[1].usage.completion_tokens + messages[1].timings.earlier_tokens} tokens`));
});

test('a chat is forked from a message, and cut from a message', opts, async () => {
  await fresh();
  await say(page, order({ text: 'One.' }));
  await answered(page);
  await say(page, order({ text: 'Two.' }));
  await answered(page);
  const from = page.url();
  await page.locator('.message.assistant').first().locator('.act-more').click();
  await page.click('.menu .i-fork');
  await until(page, `location.href !== ${JSON.stringify(from)}`);
  await count('.message', 2);
  assert.equal(await page.locator('.answer').innerText(), 'One.');
  await page.goto(from);
  await count('.message', 4);
  await page.locator('.message.user').nth(1).hover();
  await page.locator('.message.user').nth(1).locator('.act-more').click();
  await page.locator('.menu .bad').last().click();
  assert.match(await page.textContent('#confirm-text'), /2/);
  await page.click('#confirm-dialog .danger');
  await count('.message', 2);
  assert.equal((await conversation()).messages.length, 2);
});

test('versions are walked by keyboard', opts, async () => {
  await fresh();
  await say(page, order({ text: 'A version.' }));
  await answered(page);
  await lastAnswer(page).locator('.act-again').click();
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '2/2');
  await answered(page);
  await page.evaluate(() => localStorage.setItem('single-keys', '1'));
  await page.locator('#scroller').focus();
  await page.keyboard.press('[');
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '1/2');
  await page.keyboard.press(']');
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '2/2');
  await page.evaluate(() => localStorage.removeItem('single-keys'));
});

test('calls are cards; a pasted result answers them', opts, async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
  const { body } = await house.server.json('POST', '/api/conversations', { settings: { tools, thinking: false } });
  await openChat(page, house, body.id);
  await say(page, order({ text: '<tool_call>\n{"name": "weather", "arguments": {"city": "<b>Rome</b>"}}\n</tool_call>' }));
  await answered(page);
  assert.match(await page.textContent('.call pre'), /"city": "<b>Rome<\/b>"/);
  await page.fill('.call-form textarea', order({ text: 'It is warm.' }));
  await page.click('.call-form .primary');
  assert.equal((await answered(page, 2)).text.trim(), 'It is warm.');
  assert.equal(await page.locator('.call-form').count(), 0);
  assert.match(await page.locator('.call pre').nth(1).textContent(), /It is warm/);
  await page.reload();
  await count('.message.assistant', 2);
  assert.deepEqual((await conversation()).messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant']);
});

test('another device: a message appears and its answer grows; what is deleted goes', opts, async () => {
  await fresh();
  await say(page, order({ text: 'Here.' }));
  await answered(page);
  const there = await house.page(); // its own cookies: another device
  await there.goto(page.url());
  await there.waitForSelector('.message.assistant');
  await say(page, order({ text: 'Seen from afar.', token_ms: lasting(100) }));
  assert.deepEqual(await answered(there, 2), await answered(page, 2));
  const { messages } = await conversation();
  await house.server.json('DELETE', `/api/messages/${messages[2].id}`);
  await until(there, () => document.querySelectorAll('.message.assistant').length === 1);
  await there.context().close();
});

test('a message that is being edited keeps its text and the focus, however far one scrolls', opts, async () => {
  const messages = Array.from({ length: 120 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${'A line of some length that fills the screen. '.repeat(12)}` }));
  await house.server.json('POST', '/api/import', JSON.stringify({ messages }), { 'content-type': 'application/octet-stream' });
  const { id } = (await house.server.json('GET', '/api/conversations?limit=1')).body.items[0];
  await page.goto(`${house.server.url}/#/c/${id}`);
  await page.waitForSelector('.message.user');
  const scroll = (to) => page.evaluate((where) => new Promise((drawn) => {
    const view = document.querySelector('#scroller');
    view.scrollTop = where === 'end' ? view.scrollHeight : where;
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  }), to);
  const shown = (text) => until(page, `[...document.querySelectorAll('.message .bubble, .message .answer')].some((n) => n.textContent.startsWith(${JSON.stringify(text)}))`);
  for (let at = 0; at === 0 || !(await page.locator('.bubble', { hasText: /^0 A/ }).count()); at++) await scroll(0);
  const first = page.locator('.message.user').first();
  await first.hover();
  await first.locator('.act-edit').click();
  await first.locator('.edit textarea').fill('Half written');
  await scroll('end');
  await shown('119 ');
  assert.ok(await page.locator('.message').count() < 60, 'the others between are not drawn');
  assert.equal(await page.evaluate(() => document.activeElement.value), 'Half written');
  await page.keyboard.type(', and on');
  await scroll(0);
  await shown('1 ');
  assert.equal(await first.locator('.edit textarea').inputValue(), 'Half written, and on');
  const places = await page.$$eval('.message', (all) => all.map((n) => Number(n.getAttribute('aria-posinset'))));
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  await first.locator('.edit .quiet').click();
  await scroll('end');
  await shown('119 ');
  assert.equal(await page.locator('.edit').count(), 0);
  assert.equal(await page.locator('.message[aria-posinset="1"]').count(), 0, 'it is far away now');
});

/** What is new is asked for at once, as when the page is looked at again. */
const look = () => page.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });
const made = async () => (await house.server.json('GET', '/api/conversations?limit=199')).body.items.length;
/** The next request to `where` waits at `step` ("before" or "after" the server saw it) until go() is called. */
async function hold(where, step, answer) {
  let go, came;
  const held = new Promise((done) => { go = done; });
  const here = new Promise((done) => { came = done; });
  await page.route(where, async (route) => {
    const response = step === 'after' ? await route.fetch({ url: route.request().url().replace(/&tag=\w+/, '') }) : null;
    came();
    await held;
    if (response) await route.fulfill({ response });
    else if (answer) await route.fulfill(answer);
    else await route.continue();
  }, { times: 1 });
  return { here, go };
}

test('an answer is read once, though a look at what is new takes it up before its own stream has begun', opts, async () => {
  const words = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ');
  await fresh();
  await say(page, order({ text: 'First.' }));
  await answered(page);
  await page.evaluate((whole) => {
    const real = window.fetch;
    const held = new Promise((done) => { window.letGo = done; });
    window.fetch = async (path, options) => {
      const response = await real(path, options);
      if (/messages$/.test(path)) { window.fetch = real; await held; }
      return response;
    };
    window.wrong = [];
    new MutationObserver(() => {
      const text = document.querySelectorAll('.message.assistant .answer')[1]?.textContent.trim() || '';
      if (!whole.startsWith(text)) window.wrong.push(text);
    }).observe(document.querySelector('#thread'), { subtree: true, childList: true, characterData: true });
  }, words);
  await page.fill('#composer-text', order({ text: words, token_ms: lasting(10) }));
  await page.press('#composer-text', 'Enter');
  await until(page, () => {
    document.dispatchEvent(new Event('visibilitychange'));
    return document.querySelectorAll('.message.assistant .answer')[1]?.textContent.includes('word3');
  });
  await page.evaluate(() => window.letGo());
  await until(page, () => document.querySelectorAll('.message.assistant')[1].dataset.status === 'done');
  assert.equal((await answered(page)).text.trim(), words);
  assert.deepEqual(await page.evaluate(() => window.wrong), []);
  assert.equal(await page.locator('.message').count(), 4);
});

test('an answer that had ended when its stream was asked for is at no moment one without words', opts, async () => {
  await fresh();
  await say(page, order({ text: 'Ended.' }));
  await answered(page);
  const { id } = await conversation();
  await fresh();
  await page.evaluate(() => {
    window.empty = 0;
    new MutationObserver(() => {
      const answer = document.querySelector('.message.assistant');
      if (answer && answer.dataset.status !== 'running' && !answer.querySelector('.answer').textContent) window.empty++;
    }).observe(document.querySelector('#thread'), { subtree: true, childList: true, characterData: true, attributes: true });
  });
  await page.route(/conversations\/\d+\?texts/, async (route) => {
    const reply = await route.fetch(), json = await reply.json();
    Object.assign(json.messages.at(-1), { status: 'running', content: '' }); // as it was a moment before
    await route.fulfill({ response: reply, json });
  }, { times: 1 });
  await openChat(page, house, id);
  assert.equal((await answered(page)).text.trim(), 'Ended.');
  assert.equal(await page.evaluate(() => window.empty), 0);
});

test('a version that was chosen is not taken back by what was asked before', opts, async () => {
  await fresh();
  await say(page, order({ text: 'A version.' }));
  await answered(page);
  await lastAnswer(page).locator('.act-again').click();
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '2/2');
  await answered(page);
  const news = await hold('**/api/changes*', 'after');
  await look();
  await news.here;
  const heard = page.waitForResponse(/api\/changes/);
  const kept = page.waitForResponse((r) => r.request().method() === 'PATCH');
  await page.click('.message.assistant .older');
  await kept;
  const later = await hold('**/api/changes*', 'before');
  news.go();
  await (await heard).finished();
  await look();
  await later.here; // so the page has done with the first, and knows nothing newer
  assert.equal(await page.textContent('.message.assistant .versions-text'), '1/2');
  later.go();
});

test('what is typed stays with its chat: while that loads, and when it was not taken', opts, async () => {
  const at = [];
  for (const name of ['A', 'B']) {
    await fresh();
    await say(page, order({ text: `Chat ${name}.` }));
    await answered(page);
    at.push(page.url());
  }
  const before = await made();
  const box = () => page.inputValue('#composer-text');
  const goTo = async (i) => { await page.goto(at[i]); await until(page, `document.querySelector('.answer')?.textContent === 'Chat ${'AB'[i]}.'`); };
  const slow = await hold(/\/api\/conversations\/\d+\?texts/, 'before');
  await page.goto(at[0]);
  await slow.here;
  await page.fill('#composer-text', 'Too early');
  await page.press('#composer-text', 'Enter');
  assert.equal(await box(), 'Too early');
  slow.go();
  await goTo(0);
  assert.equal(await box(), 'Too early');
  assert.equal(await made(), before, 'no chat was made of it');
  const refused = await hold(/\/messages$/, 'before', { status: 503, json: { error: { message: 'Busy', code: 'overloaded' } } });
  await page.fill('#composer-text', 'Not taken');
  await page.press('#composer-text', 'Enter');
  await refused.here;
  await page.press('#composer-text', 'X'); // typed on meanwhile
  await goTo(1);
  await page.fill('#composer-text', 'For B');
  refused.go();
  await page.waitForSelector('.toast');
  assert.equal(await box(), 'For B');
  await page.fill('#composer-text', '');
  await goTo(0);
  assert.equal(await box(), 'Not taken\nX');
  await page.fill('#composer-text', '');
});

test('a second click, a second Enter: one chat, one message', opts, async () => {
  await house.server.json('PATCH', '/api/admin/settings', { suggestions: 'Hello there' });
  await page.reload();
  await fresh();
  const before = await made();
  await page.locator('.suggestion', { hasText: 'Hello there' }).dblclick();
  await answered(page, 1);
  assert.equal(await made(), before + 1);
  assert.equal((await conversation()).messages.length, 2);
  await house.server.json('PATCH', '/api/admin/settings', { suggestions: '' });
});

test('a session ends: nothing disturbs the form, the chat is there again, and another user sees nothing of it', opts, async () => {
  const mine = await house.page();
  const signIn = async (name, password) => {
    await mine.fill('#login-name', name);
    await mine.fill('#login-password', password);
    await mine.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });
    for (let i = 0; i < 3; i++) await mine.evaluate(() => fetch('/api/session').then((r) => r.status)); // whatever was asked has been answered
    assert.equal(await mine.inputValue('#login-password'), password);
    assert.equal(await mine.evaluate(() => document.activeElement.id), 'login-password');
    await mine.press('#login-password', 'Enter');
    await mine.waitForSelector('#app:not([hidden])');
  };
  const end = async () => {
    await mine.context().clearCookies();
    await mine.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });
    await mine.waitForSelector('#login-form:not([hidden])');
  };
  await say(mine, order({ text: 'A secret.' }));
  await answered(mine);
  await mine.fill('#composer-text', 'Half a thought');
  await end();
  const { admin } = house.server;
  await signIn(admin.name, admin.password);
  await until(mine, () => document.querySelector('.answer')?.textContent === 'A secret.');
  assert.equal(await mine.inputValue('#composer-text'), 'Half a thought');
  await house.server.json('POST', '/api/users', { name: 'eve', password: 'password of eve', role: 'user' });
  await end();
  await signIn('eve', 'password of eve');
  await until(mine, () => document.querySelector('#account-name').textContent === 'eve');
  assert.match(mine.url(), /#\/$/);
  assert.doesNotMatch(await mine.content(), /A secret|Half a thought/);
  assert.deepEqual(await mine.evaluate(() => [document.querySelector('#composer-text').value, ...Object.values(sessionStorage)].filter((v) => v.includes('thought'))), []);
  await mine.context().close();
});

test('the reasoning\'s time is the same after a reload', opts, async () => {
  await fresh();
  await say(page, order({ text: '<think>\nA thought of some length.\n</think>\n\nDone.', token_ms: 15 }));
  await answered(page);
  const label = await lastAnswer(page).locator('.reasoning-label').textContent();
  assert.match(label, /\d/);
  await page.reload();
  await page.waitForSelector('.message.assistant');
  assert.equal(await lastAnswer(page).locator('.reasoning-label').textContent(), label);
});

test('nothing failed in the page meanwhile', opts, () => { assert.deepEqual(house.problems, []); });
