// What takes a parser of Markdown long: each is drawn, or shown as it was written, within a bound, and typing goes on meanwhile.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { noBrowser, openHouse } from './page.mjs';

const SIZE = 300000; // characters of each text
// Milliseconds of the processor, which does not depend on who else has it.
const WITHIN = 3000; // until one is on the screen, layout and all
const BESIDE = WITHIN; // the longest that a key may wait while one streams: a piece may be the one with which all so far is drawn
const opts = { skip: noBrowser };
let house;
let page;
let renderer; // the process whose main thread has the page
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
  const browser = await house.browser.newBrowserCDPSession();
  const pids = (await browser.send('SystemInfo.getProcessInfo')).processInfo.filter((p) => p.type === 'renderer').map((p) => p.id);
  const before = new Map(pids.map((pid) => [pid, spent(pid)]));
  await page.evaluate(() => { for (let i = 0; i < 3e7; i++) performance.mark && i; });
  renderer = pids.sort((a, b) => spent(b) - before.get(b) - (spent(a) - before.get(a)))[0];
});

/** What a process's first thread has had of the processor, in milliseconds. */
function spent(pid) {
  const [user, system] = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ').slice(11, 13).map(Number);
  return (user + system) * 10;
}
after(async () => { await house?.close(); });

const fill = (piece) => piece.repeat(Math.ceil(SIZE / piece.length)).slice(0, SIZE);
const texts = {
  'mailto': fill('mailto:'),
  'mailto with names': fill('mailto:a@b'),
  'addresses without a host': fill('http://'),
  'an address of stars': `https://a.b/${fill('*')}b`,
  'nested emphasis': fill('*a **a '),
  'emphasis that closes': fill('*a_ b*_'),
  'runs of backticks': Array.from({ length: 770 }, (_, i) => '`'.repeat(i)).join(' '),
  'links that do not end': fill('[a](b'),
  'links in links': fill('[a]['),
  'brackets': '['.repeat(SIZE / 2) + ']'.repeat(SIZE / 2),
  'open brackets': fill('['),
  'pictures that do not end': fill('![a]('),
  'references': fill('[a]: b\n'),
  'lazy continuations of quotations': `${'>'.repeat(200)} a\n${fill('b\n')}`,
  'a table of many rows': `|a|b|\n|-|-|\n${fill('|*a*|b|\n')}`,
  'a table of many columns': `|${fill('a|').slice(0, SIZE / 2)}\n|${fill('-|').slice(0, SIZE / 2)}\n|*a*|`,
  'a list of many points': fill('- *a*\n'),
  'many formulas': Array.from({ length: SIZE / 12 }, (_, i) => `$x_{${i}}$`).join(' '),
  'formulas that do not end': fill('\\[\n'),
};

/** The same where no paragraph is too long to be tried: what the parser makes of each, the clock bounds. */
for (const [name, text] of Object.entries(texts)) {
  if (!text.includes('\n')) texts[`${name}, in paragraphs`] = text.match(/[^]{1,30000}/g).join('\n\n');
}

/** Draws it in the page; milliseconds until it is on the screen, and how much of its text can be read there. */
async function drawWhole(text) {
  const before = spent(renderer);
  const got = await page.evaluate(async (whole) => {
    const { loadMarkdown, MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    await loadMarkdown();
    const root = document.createElement('div');
    root.className = 'probe prose';
    document.querySelector('#scroller').append(root);
    new MarkdownView(root).finish(whole);
    root.getBoundingClientRect();
    await new Promise((wake) => setTimeout(wake, 0));
    const plain = root.querySelector('.plain')?.textContent.length ?? 0;
    const shown = root.textContent.length;
    root.remove();
    return { plain, shown };
  }, text);
  return { ...got, took: Math.round(spent(renderer) - before) };
}

for (const [name, text] of Object.entries(texts)) {
  test(`${name}: on the screen in time`, opts, async (t) => {
    const got = await drawWhole(text);
    t.diagnostic(`${name}: ${JSON.stringify(got)}`);
    assert.ok(got.took < WITHIN, `${got.took} ms, limit ${WITHIN}`);
    if (name !== 'references') assert.ok(got.shown > 0, 'something can be read');
  });
}

test('what is next to such a text is drawn as ever', opts, async () => {
  const got = await page.evaluate(async (bad) => {
    const { MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    const root = document.createElement('div');
    new MarkdownView(root).finish(`# Before\n\n${bad}\n\nhttps://a.example and *after*`);
    const plain = root.querySelector('p > .plain');
    return { h1: root.querySelector('h1')?.textContent, plain: plain?.textContent === bad, link: root.querySelector('a')?.href, em: root.querySelector('em')?.textContent };
  }, texts.mailto);
  assert.deepEqual(got, { h1: 'Before', plain: true, link: 'https://a.example/', em: 'after' });
});

test('while such a text streams, no key waits long, and at its end all of it is there', opts, async (t) => {
  for (const name of ['mailto', 'nested emphasis', 'lazy continuations of quotations', 'a list of many points']) {
    await page.evaluate(async () => {
      const { MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
      const root = document.createElement('div');
      root.className = 'probe prose';
      document.querySelector('#scroller').append(root);
      globalThis.probe = { root, view: new MarkdownView(root) };
    });
    let longest = 0;
    for (let i = 0; i < texts[name].length; i += 2000) { // a key is looked at between two pieces
      const before = spent(renderer);
      await page.evaluate(async (piece) => {
        globalThis.probe.view.append(piece);
        await new Promise((wake) => setTimeout(wake, 0));
      }, texts[name].slice(i, i + 2000));
      longest = Math.max(longest, Math.round(spent(renderer) - before));
    }
    const shown = await page.evaluate((whole) => {
      const { root, view } = globalThis.probe;
      view.finish(whole);
      const { length } = root.textContent;
      root.remove();
      return length;
    }, texts[name]);
    t.diagnostic(`${name}: ${longest} ms`);
    assert.ok(longest < BESIDE, `${name}: ${longest} ms`);
    assert.ok(shown > 0, name);
  }
});

test('HTML enters the page by the one policy that has a name', opts, async () => {
  const got = await page.evaluate(() => {
    const refused = (f) => { try { f(); return false; } catch (error) { return error instanceof TypeError; } };
    return { inner: refused(() => { document.createElement('div').innerHTML = '<b>x</b>'; }),
      other: refused(() => trustedTypes.createPolicy('other', { createHTML: (x) => x })),
      again: refused(() => trustedTypes.createPolicy('dompurify', { createHTML: (x) => x })) };
  });
  assert.deepEqual(got, { inner: true, other: true, again: true });
});

test('nothing else failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems.filter((p) => !/Trusted/.test(p)), []);
});
