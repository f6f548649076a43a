// What an answer can show, and what can be done with it: previews behind walls, diagrams, footnotes, versions, one message less.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
let page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

async function fresh() {
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
}
const fence = (language, text) => `\`\`\`${language}\n${text}\n\`\`\``;
const stored = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;
const count = (selector, n) => until(page, `document.querySelectorAll(${JSON.stringify(selector)}).length === ${n}`);

test('a page of an answer runs in a frame that reaches neither this page nor the network', opts, async () => {
  await fresh();
  const asked = [];
  page.on('response', (r) => { if (r.url().includes('leak')) asked.push(r.url()); });
  const html = `<p id=out>no</p><img src="${house.server.url}/leak.png"><script>
    const said = [];
    try { void parent.document.body; said.push('parent'); } catch { }
    try { void localStorage.length; said.push('storage'); } catch { }
    try { void document.cookie; said.push('cookie'); } catch { }
    fetch('${house.server.url}/leak').then(() => said.push('network')).catch(() => { }).finally(() => { document.getElementById('out').textContent = 'reached: ' + said.join(); });
  <\/script>`;
  await say(page, order({ text: fence('html', html) }));
  await answered(page);
  await lastAnswer(page).locator('.act-preview').click();
  const frame = page.frameLocator('.code-frame');
  await frame.locator('#out', { hasText: 'reached:' }).waitFor();
  assert.equal(await frame.locator('#out').textContent(), 'reached: ');
  assert.deepEqual(asked, []);
  assert.ok(await lastAnswer(page).locator('.code pre').isHidden());
  await lastAnswer(page).locator('.act-preview').click();
  assert.ok(await lastAnswer(page).locator('.code pre').isVisible());
  await count('.code-frame', 0);
});

test('a picture in SVG is shown', opts, async () => {
  await fresh();
  await say(page, order({ text: fence('svg', '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle id="dot" cx="4" cy="4" r="3"/></svg>') }));
  await answered(page);
  await lastAnswer(page).locator('.act-preview').click();
  await page.frameLocator('.code-frame').locator('#dot').waitFor();
});

test('a Mermaid diagram is drawn, and a wrong one says why and stays text', opts, async () => {
  await fresh();
  await say(page, order({ text: `${fence('mermaid', 'flowchart LR\n  Moon --> Tide')}\n\n${fence('mermaid', 'flowchart LR\n  Moon -->')}` }));
  await answered(page);
  const first = page.frameLocator('.code-frame >> nth=0');
  await first.locator('svg').getByText('Tide').waitFor();
  await until(page, () => parseFloat(document.querySelector('.code-frame').style.height) > 40);
  const drawn = await first.locator('svg style').textContent();
  await page.emulateMedia({ colorScheme: 'dark' });
  const colours = (style) => style.replace(/drawing-\d+/g, '');
  await eventually(async () => assert.notEqual(colours(await first.locator('svg style').textContent()), colours(drawn), 'it follows the page into the dark'));
  await page.emulateMedia({ colorScheme: 'light' });
  await page.locator('.code-problem:not([hidden])').waitFor();
  assert.equal(await page.locator('.code').nth(1).locator('pre').isVisible(), true);
});

test('code is downloaded under the ending of its language', opts, async () => {
  await fresh();
  await say(page, order({ text: fence('python', 'print(1)') }));
  await answered(page);
  const [file] = await Promise.all([page.waitForEvent('download'), lastAnswer(page).locator('[data-code=download]').click()]);
  assert.equal(file.suggestedFilename(), 'code.py');
  assert.equal(readFileSync(await file.path(), 'utf8').trim(), 'print(1)');
});

test('footnotes lead to their notes and back, by mouse and by keyboard', opts, async () => {
  await fresh();
  await say(page, order({ text: 'Seen often.[^1] And[^b] more.\n\n[^1]: In **1901**,\nand later.\n[^b]: Twice.\n\nThe end. A [^link](https://example.org) stays one.' }));
  await answered(page);
  const answer = lastAnswer(page).locator('.answer');
  assert.equal(await answer.locator('.footnote').count(), 2);
  assert.equal((await answer.locator('.footnote').first().innerText()).replace(/\s+/g, ' '), '1 In 1901, and later.');
  const sign = answer.locator('p > .footnote-ref').first();
  await sign.click();
  assert.equal(await page.evaluate(() => Boolean(document.activeElement.closest('.footnote'))), true);
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => Boolean(document.activeElement.matches('.footnote-ref') && !document.activeElement.closest('.footnote'))), true);
  assert.equal(await answer.locator('a[href="https://example.org"]').count(), 1);
});

test('each message says when, each answer of which model', opts, async () => {
  await fresh();
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  const { messages } = await stored();
  assert.equal(await lastAnswer(page).locator('.about-model').textContent(), messages[1].model);
  assert.equal(await lastAnswer(page).locator('time').getAttribute('datetime'), new Date(messages[1].created_at).toISOString());
  assert.equal(await page.locator('.message.user time').getAttribute('datetime'), new Date(messages[0].created_at).toISOString());
});

test('a long own message is folded, and opens', opts, async () => {
  await fresh();
  await say(page, `${order({ text: 'Long.' })}\n${'One more line.\n'.repeat(40)}`);
  await answered(page);
  const bubble = page.locator('.message.user .bubble');
  const height = async () => (await bubble.boundingBox()).height;
  const folded = await height();
  assert.ok(folded < 320, String(folded));
  await page.click('.unfold');
  assert.ok(await height() > 2 * folded);
  assert.equal(await page.getAttribute('.unfold', 'aria-expanded'), 'true');
  await page.click('.unfold');
  assert.equal(await height(), folded);
});

test('an edited answer is a version of its own, kept by the server, and the model reads it', opts, async () => {
  await fresh();
  await say(page, order({ text: 'The capital is Bonn.' }));
  await answered(page);
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Edit answer' }).click();
  await page.fill('.edit textarea', 'The capital is **Berlin**.');
  await page.click('.edit .primary');
  await until(page, () => document.querySelector('.versions-text')?.textContent === '2/2');
  assert.equal((await lastAnswer(page).locator('.answer').innerText()).trim(), 'The capital is Berlin.');
  const after = await stored();
  const shown = after.messages.find((m) => m.id === after.leaf_id);
  assert.equal(shown.content, 'The capital is **Berlin**.');
  assert.deepEqual(after.messages.filter((m) => m.role === 'assistant').map((m) => m.content).sort(), ['The capital is **Berlin**.', 'The capital is Bonn.']);
  await page.reload();
  await page.waitForSelector('.message.assistant');
  assert.equal((await lastAnswer(page).locator('.answer').innerText()).trim(), 'The capital is Berlin.');
});

test('two answers stand side by side, and one is chosen', opts, async () => {
  await fresh();
  await say(page, order({ text: 'First words.' }));
  await answered(page);
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Edit answer' }).click();
  await page.fill('.edit textarea', 'Second words.');
  await page.click('.edit .primary');
  await until(page, () => document.querySelector('.versions-text')?.textContent === '2/2');
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Compare versions' }).click();
  const sides = page.locator('.beside-column');
  await until(page, () => [...document.querySelectorAll('.beside-column .answer')].filter((side) => side.innerText.trim()).length === 2);
  assert.deepEqual((await sides.locator('.answer').allInnerTexts()).map((s) => s.trim()), ['First words.', 'Second words.']);
  await page.getByRole('button', { name: 'Close comparison' }).click();
  await count('.beside-column', 0);
  assert.equal((await lastAnswer(page).locator('.answer').innerText()).trim(), 'Second words.');
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Compare versions' }).click();
  await sides.first().getByRole('button', { name: /^Use the answer from Version 1/ }).click();
  await until(page, () => document.querySelector('.versions-text')?.textContent === '1/2');
  await count('.beside, .beside-head', 0);
  assert.equal((await lastAnswer(page).locator('.answer').innerText()).trim(), 'First words.');
});

test('one message is deleted, what follows it stays, and the chat goes on', opts, async () => {
  await fresh();
  for (const text of ['One.', 'Two.']) { await say(page, order({ text })); await answered(page); }
  const first = page.locator('.message.assistant').first();
  await first.hover();
  await first.locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Delete this message' }).click();
  await page.click('#confirm-dialog .danger');
  await count('.message', 3);
  const { messages } = await stored();
  assert.deepEqual(messages.map((m) => m.role), ['user', 'user', 'assistant']);
  assert.equal(messages[1].parent_id, messages[0].id);
  await say(page, order({ text: 'Three.' }));
  assert.equal((await answered(page)).text.trim(), 'Three.');
});

test('a failed answer offers one way on: to continue what is there, or to try again where there is nothing', opts, async () => {
  const ways = () => page.evaluate(() => [...[...document.querySelectorAll('.message.assistant')].at(-1).querySelectorAll('.act-retry, .act-continue, .act-again')].filter((n) => n.checkVisibility()).map((n) => n.className.match(/act-\w+/)[0]));
  await fresh();
  await say(page, order({ text: 'Some words of it all', fail_after: 3 }));
  assert.equal((await answered(page)).status, 'error');
  assert.deepEqual(await ways(), ['act-continue']);
  await fresh();
  await say(page, order({ text: 'Some words of it all', fail_after: 0 }));
  assert.equal((await answered(page)).status, 'error');
  assert.deepEqual(await ways(), ['act-retry']);
  await lastAnswer(page).locator('.act-more').click();
  assert.equal(await page.getByRole('menuitem', { name: 'Regenerate' }).count(), 1);
  await page.keyboard.press('Escape');
});

test('an answer is read aloud without its code, and a second choice ends it', opts, async () => {
  await fresh();
  await page.evaluate(() => {
    globalThis.said = [];
    speechSynthesis.speak = (u) => { globalThis.said.push(u.text); };
    speechSynthesis.cancel = () => { globalThis.said.push('cancelled'); };
  });
  await say(page, order({ text: `**Hello** there.\n\n${fence('js', 'let x;')}\n\n- one` }));
  await answered(page);
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Read aloud' }).click();
  assert.equal((await page.evaluate(() => globalThis.said.filter((s) => s !== 'cancelled').join(' '))).replace(/\s+/g, ' '), 'Hello there. one');
  await lastAnswer(page).locator('.act-more').click();
  await page.getByRole('menuitem', { name: 'Stop reading' }).click();
  assert.equal(await page.evaluate(() => globalThis.said.at(-1)), 'cancelled');
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems.filter((p) => !/leak|Fetch API cannot load/.test(p)), []); // those are the previewed page's own
});
