// What an answer may look like, and that a streamed one ends as the same elements as one that came whole.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { answered, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house;
let page;
const libraries = [];
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
  page.on('request', (r) => { if (/highlight|katex/.test(r.url())) libraries.push(r.url().split('/').pop()); });
});
after(async () => { await house?.close(); });

const text = `# Heading

A [link](https://example.org/a?b=1) and main.py and ![a cat](https://example.org/cat.png), $5 and $6, $e^{i\\pi} = -1$.

- [x] done
- [ ] not *yet*
  - nested

1. one
2. two

| left | right |
| :--- | ----: |
| a \`b\` | 1 |

> quoted

\`\`\`python
def f(x):
    return x  # comment
\`\`\`

$$
\\sum_{n=1}^\\infty \\frac{1}{n^2}
$$

שלום עולם

The end, see [below].

[below]: https://example.org/below
`;

test('libraries come when they are needed, not before', opts, async () => {
  await say(page, `fake:${JSON.stringify({ text: 'Plain **words**.' })}`);
  await answered(page);
  assert.deepEqual(libraries, []);
});

test('tables, tasks, formulas, code, links and pictures', opts, async () => {
  await say(page, `fake:${JSON.stringify({ text })}`);
  await answered(page);
  const answer = lastAnswer(page).locator('.answer');
  await answer.locator('.hljs-keyword').first().waitFor();
  await answer.locator('.math.display .katex-html').waitFor();
  assert.deepEqual([...new Set(libraries)].filter((l) => l.endsWith('js')).sort(), ['highlight.min.js', 'katex.min.js']);
  await eventually(async () => assert.equal(await answer.locator('.math .katex').count(), 2, '$5 and $6 is money'));
  await until(page, () => document.fonts.check('16px KaTeX_Math')); // the fonts are our own
  assert.deepEqual(await answer.locator('a').evaluateAll((all) => all.map((a) => [a.textContent, a.href, a.target, a.rel.includes('noreferrer')])), [
    ['link', 'https://example.org/a?b=1', '_blank', true], ['a cat', 'https://example.org/cat.png', '_blank', true],
    ['below', 'https://example.org/below', '_blank', true]]);
  assert.equal(await answer.locator('img').count(), 0);
  assert.deepEqual(await answer.locator('.task').evaluateAll((all) => all.map((n) => n.getAttribute('aria-label'))), ['done', 'to do']);
  assert.equal(await answer.locator('li li').textContent(), 'nested');
  assert.equal(await answer.locator('td').nth(1).evaluate((n) => getComputedStyle(n).textAlign), 'right');
  assert.equal(await answer.locator('.code-language').textContent(), 'python');
  assert.equal(await answer.locator('p:has-text("שלום")').evaluate((n) => getComputedStyle(n).direction), 'rtl');
  assert.equal(await answer.locator('h1').evaluate((n) => getComputedStyle(n).direction), 'ltr');
});

test('code is copied as it is, and wraps when asked', opts, async () => {
  const box = lastAnswer(page).locator('.code');
  await box.locator('[data-code=copy]').click();
  await eventually(async () => assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'def f(x):\n    return x  # comment\n'));
  const wrap = box.locator('[data-code=wrap]');
  await wrap.click();
  assert.equal(await wrap.getAttribute('aria-pressed'), 'true');
  assert.equal(await box.locator('pre').evaluate((n) => getComputedStyle(n).whiteSpace), 'pre-wrap');
});

test('a text ends the same however it was cut, and finished blocks keep their elements', opts, async () => {
  const bad = await page.evaluate(async (all) => {
    const { MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    const plain = (root) => { for (const n of root.querySelectorAll('code')) n.textContent = n.textContent; return root.innerHTML; };
    const whole = document.createElement('div');
    new MarkdownView(whole).finish(all);
    const wanted = plain(whole);
    const out = [];
    for (const step of [1, 2, 3, 7, 19, 64]) {
      const root = document.createElement('div');
      const view = new MarkdownView(root);
      let first = null;
      for (let i = 0; i < all.length; i += step) {
        view.append(all.slice(i, i + step));
        if (i > 30) first ??= root.firstElementChild;
      }
      const before = [...root.children];
      view.finish(all);
      if (plain(root) !== wanted) out.push(`step ${step}: other elements`);
      if (root.firstElementChild !== first) out.push(`step ${step}: the heading was made again`);
      const lost = before.filter((n) => !n.isConnected && n.parentNode !== root).length;
      if (lost > 1) out.push(`step ${step}: ${lost} blocks were made again at the end`);
    }
    return out;
  }, text);
  assert.deepEqual(bad, []);
});

test('what is written right to left is shown so, in the box, the message and the title', opts, async () => {
  await page.fill('#composer-text', 'مرحبا بالعالم');
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('#composer-text')).direction), 'rtl');
  await page.press('#composer-text', 'Enter');
  await until(page, () => document.querySelectorAll('.message.user').length === 3);
  assert.equal(await page.locator('.message.user .bubble').last().evaluate((n) => getComputedStyle(n).direction), 'rtl');
  await answered(page);
});

test('libraries that come late, and time that another program took, leave no text plain for good', opts, async () => {
  await page.click('#new-chat');
  await until(page, () => !document.querySelector('.message'));
  await say(page, order({ text: 'It is **late**.' }));
  await answered(page);
  const other = await house.page();
  let asked = 0;
  await other.route('**/markdown-it.min.js', (route) => { asked++; return route.abort(); });
  await other.goto(`${house.server.url}/${new URL(page.url()).hash}`);
  await other.locator('.answer .plain', { hasText: '**late**' }).waitFor();
  await other.unroute('**/markdown-it.min.js');
  await other.locator('.answer strong', { hasText: 'late' }).waitFor();
  assert.ok(asked > 0);
  const looks = await other.evaluate(async () => {
    const { MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    const root = document.createElement('div');
    document.querySelector('#scroller').append(root);
    const [now, wait] = [performance.now, globalThis.setTimeout];
    const waiting = [];
    let jumps = 0;
    performance.now = () => now.call(performance) + 2000 * jumps++; // each look at the clock finds two seconds gone
    globalThis.setTimeout = (work) => waiting.push(work);
    new MarkdownView(root).finish('It is **late**, $x^2$ too.');
    performance.now = now;
    globalThis.setTimeout = wait;
    const before = root.querySelector('strong') !== null;
    for (const work of waiting) work();
    const out = [before, root.querySelector('strong')?.textContent, root.querySelector('.plain') === null, waiting.length];
    root.remove();
    return out;
  });
  assert.deepEqual(looks, [false, 'late', true, 1]);
  await other.context().close();
});

test('formulas for which a text had no time are drawn when they come near the screen', opts, async () => {
  await page.evaluate(() => {
    const { render } = globalThis.katex;
    globalThis.katex.render = (...args) => { for (const end = performance.now() + 60; performance.now() < end;); return render(...args); };
    globalThis.sameKatex = () => { globalThis.katex.render = render; };
  });
  await say(page, order({ text: Array.from({ length: 60 }, (_, i) => `Line ${i}:\n\n$$z_{${i}}$$`).join('\n\n') }));
  await answered(page);
  const late = () => page.evaluate(() => { // those on the screen that are source still
    const on = (n) => { const { top, bottom } = n.getBoundingClientRect(); return bottom > 0 && top < innerHeight; };
    return [...document.querySelectorAll('.message.assistant:last-child .math')].filter((n) => on(n) && !n.matches('.drawn')).length;
  });
  const allDrawn = () => eventually(async () => assert.equal(await late(), 0, 'on the screen are source'), 100);
  await page.waitForTimeout(6500); // the second try is over, too
  await page.evaluate(() => { document.querySelector('#scroller').scrollTop = document.querySelector('#scroller').scrollHeight; });
  await allDrawn();
  await page.evaluate(() => { document.querySelector('.message.assistant:last-child .math').scrollIntoView(); });
  await allDrawn();
  await page.evaluate(() => globalThis.sameKatex());
  const printed = await page.evaluate(async () => { // on paper is what is far from the screen, too
    const [{ typeset }, { within }] = await Promise.all(['math.js', 'budget.js'].map((name) => import(new URL(name, document.querySelector('script[type=module]').src))));
    const far = document.createElement('span');
    far.style.cssText = 'position: fixed; top: 9999px';
    document.body.append(far);
    within(-1, () => typeset(far, 'q'));
    const before = far.matches('.drawn');
    dispatchEvent(new Event('beforeprint'));
    const after = far.matches('.drawn');
    far.remove();
    return [before, after];
  });
  assert.deepEqual(printed, [false, true]);
});

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
