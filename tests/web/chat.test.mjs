// The page with the demo model: chat, stop, reload in mid-answer, versions, rename, delete, search.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, lasting } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, reads, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ motion: true }); });
after(async () => { await house?.close(); });

async function set(page, values) {
  await page.click('#settings');
  await page.locator('#settings-form .settings-advanced').evaluate((folded) => { folded.open = true; });
  for (const [name, value] of Object.entries(values)) await page.fill(`#settings-form [name=${name}]`, String(value));
  await page.click('#settings-form .primary');
  await page.waitForSelector('#settings-dialog', { state: 'detached' }); // what is typed before goes nowhere
}

const LONG = 'Tell me a long story about a fox and a river.';

test('a wrong password is refused in words', opts, async () => {
  const page = await (await house.browser.newContext()).newPage();
  await page.goto(house.server.url);
  await page.fill('#login-name', 'admin');
  await page.fill('#login-password', 'not the password');
  await page.click('#login-form .primary');
  await page.waitForSelector('#login-error:not([hidden])');
  assert.ok((await page.textContent('#login-error')).length > 10);
  assert.ok(await page.isHidden('#app'));
  await page.context().close();
});

test('a message is answered, with its figures, and gets a row in the list', opts, async () => {
  const page = await house.page();
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: /^Off/ }).click();
  await set(page, { temperature: 0 });
  await say(page, 'What is 17 + 25?');
  const answer = await answered(page);
  assert.equal(answer.status, 'done');
  assert.match(answer.text, /42/);
  assert.match(await lastAnswer(page).locator('.stats').textContent(), /\d+ tokens · [\d.,]+ tok\/s · [\d.,]+ m?s to first token/);
  await reads(page.locator('.conversation-title').first(), 'What is 17 + 25?'); // the title comes when the list has heard of it
  await reads(page.locator('#title'), 'What is 17 + 25?');
  await page.context().close();
});

test('reasoning is folded away', opts, async () => {
  const scripted = await openHouse({ fake: true, motion: true }); // an engine that answers what it is told
  const page = await scripted.page();
  await say(page, `fake:${JSON.stringify({ text: '<think>\nA thought of some length.\n</think>\n\nThe **answer**.' })}`);
  const answer = await answered(page);
  assert.equal(answer.text.trim(), 'The answer.');
  const reasoning = lastAnswer(page).locator('.reasoning');
  assert.ok(await reasoning.isVisible());
  assert.equal(await reasoning.evaluate((d) => d.open), false);
  await reasoning.locator('summary').click();
  assert.equal((await reasoning.locator('.prose').innerText()).trim(), 'A thought of some length.');
  await scripted.close();
});

test('stop keeps what was generated', opts, async () => {
  const scripted = await openHouse({ fake: true }); // an answer that lasts until it is stopped
  const page = await scripted.page();
  const words = Array.from({ length: 400 }, (_, i) => `word${i}`).join(' ');
  await say(page, `fake:${JSON.stringify({ text: words, token_ms: lasting(50) })}`);
  await until(page, () => document.querySelector('.message.assistant .answer')?.textContent.includes('word2'));
  assert.equal(await lastAnswer(page).getAttribute('data-status'), 'running');
  await page.click('#stop');
  const answer = await answered(page);
  assert.equal(answer.status, 'stopped');
  assert.ok(answer.text.includes('word2') && words.startsWith(answer.text.trim()), answer.text.slice(0, 200));
  assert.ok(!answer.text.includes('word399'), 'it did not run to its end');
  await page.reload();
  await page.waitForSelector('.message.assistant');
  assert.deepEqual(await answered(page), answer);
  assert.deepEqual(scripted.problems, []);
  await scripted.close();
});

test('a reload in mid-answer loses nothing', opts, async () => {
  const page = await house.page();
  await set(page, { temperature: 1.8, max_tokens: 2500 });
  await say(page, LONG);
  await page.reload();
  await page.waitForSelector('.message.user');
  assert.equal(await page.locator('.message.user .bubble').first().textContent(), LONG);
  const answer = await answered(page);
  assert.ok(['done', 'length'].includes(answer.status), answer.status);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  const row = await house.server.json('GET', `/api/conversations/${id}`);
  const stored = row.body.messages.find((m) => m.role === 'assistant');
  const texts = () => page.evaluate(async (text) => {
    const { loadMarkdown, MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    await loadMarkdown();
    const root = document.createElement('div');
    new MarkdownView(root).finish(text);
    return [document.querySelector('.message.assistant .answer'), root].map((n) => n.textContent.replace(/\s+/g, ''));
  }, stored.content);
  await eventually(async () => { // what had no time to be drawn is drawn later
    const [shown, wanted] = await texts();
    assert.equal(shown, wanted);
  });
  await page.context().close();
});

test('regenerate makes a second version, and one can go back', opts, async () => {
  const page = await house.page();
  await say(page, 'What is the capital of France?');
  await answered(page);
  await lastAnswer(page).hover();
  await lastAnswer(page).locator('.act-again').click();
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '2/2');
  await answered(page);
  await lastAnswer(page).locator('.older').click();
  assert.equal(await lastAnswer(page).locator('.versions-text').textContent(), '1/2');
  await page.context().close();
});

test('an edited message begins a new branch', opts, async () => {
  const page = await house.page();
  await say(page, 'What is 2 + 2?');
  await answered(page);
  await page.hover('.message.user');
  await page.click('.message.user .act-edit');
  await page.fill('.edit textarea', 'What is 3 + 3?');
  await page.click('.edit .primary');
  await until(page, () => document.querySelector('.message.user .versions-text')?.textContent === '2/2');
  await answered(page);
  assert.equal(await page.locator('.message.user .bubble').textContent(), 'What is 3 + 3?');
  await page.context().close();
});

test('a chat can be renamed, found and deleted', opts, async () => {
  const page = await house.page();
  await say(page, 'Hello');
  await answered(page);
  const row = page.locator('.conversation[data-current]');
  await row.locator('.conversation-more').click();
  await page.click('.menu >> text=Rename');
  await page.fill('.conversation input[type=text]', 'A name of my own');
  await page.press('.conversation input[type=text]', 'Enter');
  await until(page, () => document.querySelector('#title').textContent === 'A name of my own');
  await page.fill('#search', 'name of my');
  await until(page, () => document.querySelectorAll('.conversation').length === 1);
  await page.fill('#search', '');
  await until(page, () => document.querySelectorAll('.conversation').length > 1);
  await page.locator('.conversation[data-current] .conversation-more').click();
  await page.click('.menu >> text=Delete');
  await until(page, () => ![...document.querySelectorAll('.conversation-title')].some((t) => t.textContent === 'A name of my own'));
  await page.waitForSelector('#welcome:not([hidden])');
  await page.context().close();
});

test('a second tab sees the same answer grow', opts, async () => {
  const page = await house.page();
  await set(page, { temperature: 1.8, max_tokens: 2500 });
  await say(page, LONG);
  await until(page, () => location.hash.startsWith('#/c/'));
  const second = await page.context().newPage();
  await second.goto(page.url());
  await second.waitForSelector('.message.assistant');
  const [a, b] = [await answered(page), await answered(second)];
  assert.equal(a.text, b.text);
  await page.context().close();
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
