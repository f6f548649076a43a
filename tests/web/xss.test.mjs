// Nothing that others wrote can run script, load anything, or pass for a part of the page: answers, reasoning, messages,
// titles, tool calls, code, formulas. 240 vectors, in the real browser, with requests, policy and script watched.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, lastAnswer, noBrowser, openHouse, say, until } from './page.mjs';
import { badElements, lines, vectors, watch } from './vectors.mjs';

const opts = { skip: noBrowser };
let house;
let page;
let guard;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
  guard = await watch(page, house.server.url);
});
after(async () => { await house?.close(); });

test('the corpus is large', () => assert.ok(new Set(vectors).size > 200));

test('no vector does anything as Markdown, streamed or whole, alone or among others', opts, async () => {
  await page.evaluate(async (all) => {
    const { loadMarkdown, MarkdownView } = await import(new URL('markdown.js', document.querySelector('script[type=module]').src));
    await loadMarkdown();
    const probe = document.createElement('div');
    probe.className = 'probe prose';
    document.querySelector('#scroller').append(probe);
    const one = (text, step) => {
      const root = document.createElement('div');
      probe.append(root);
      const view = new MarkdownView(root);
      if (step) for (let i = 0; i < text.length; i += step) view.append(text.slice(i, i + step));
      view.finish(text);
    };
    for (const text of all) { one(text, 0); one(text, 5); }
    one(all.join('\n\n'), 23);
    for (let i = 0; i < 5000 && !document.querySelector('.probe .math.drawn'); i++) await new Promise((wake) => setTimeout(wake, 20));
  }, vectors);
  assert.ok(await page.locator('.probe .math.drawn').count() > 10, 'formulas are drawn, so the vectors met KaTeX');
  assert.deepEqual(await page.evaluate(badElements, '.probe'), []);
  const wide = await page.evaluate(() => [...document.querySelectorAll('.probe .math')].filter((n) => n.getBoundingClientRect().width > innerWidth).length);
  assert.equal(wide, 0);
  await page.evaluate(() => document.querySelector('.probe').remove());
});

test('what is typed, answered, thought and called stays text, also after a reload and in the list', opts, async () => {
  const some = vectors.filter((_, i) => i % 11 === 3); // as many as the demo model's context takes
  const answer = `<think>\n${some.slice(0, 5).join('\n\n')}\n</think>\n\n${some.join('\n\n')}`;
  await say(page, `fake:${JSON.stringify({ text: answer })}`);
  await answered(page);
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  const shows = async () => {
    assert.deepEqual(await page.evaluate(badElements, '#thread .answer'), []);
    assert.deepEqual(await page.evaluate(badElements, '#thread .reasoning .prose'), []);
    assert.equal(await page.locator('#thread .bubble *').count(), 0);
  };
  await shows();
  const title = lines.slice(0, 6).join(' ').slice(0, 190);
  const { headers } = await page.evaluate(async () => ({ headers: { 'X-CSRF-Token': (await (await fetch('/api/session')).json()).csrf } }));
  const set = (text) => page.evaluate(async ([where, body, more]) => (await fetch(where, { method: 'PATCH', body,
    headers: { 'Content-Type': 'application/json', ...more } })).status, [`/api/conversations/${id}`, JSON.stringify({ title: text }), headers]);
  assert.equal(await set(title), 200);
  await page.reload();
  await lastAnswer(page).waitFor();
  await shows();
  await until(page, () => document.querySelector('.conversation-title'));
  assert.equal(await page.locator('.conversation-title *').count(), 0);
  assert.equal(await page.locator('#title *').count(), 0);
  assert.equal((await page.textContent('#title')).trim(), title.trim());
});

test('nor does the read-only page of a shared chat, to a stranger', opts, async () => {
  const id = /#\/c\/(\w+)/.exec(page.url())[1];
  await house.server.json('PATCH', '/api/admin/settings', { share_links: true });
  const { body: link } = await house.server.json('POST', `/api/conversations/${id}/shares`, {});
  const stranger = await (await house.browser.newContext()).newPage();
  const eyes = await watch(stranger, house.server.url);
  await stranger.goto(house.server.url + link.path);
  await stranger.locator('.message.assistant .answer > *').first().waitFor();
  await stranger.click('.reasoning summary');
  assert.deepEqual(await stranger.evaluate(badElements, '#thread .prose'), []);
  assert.equal(await stranger.locator('.bubble *, #shared-title *').count(), 0);
  assert.deepEqual(await eyes.end(), []);
  await stranger.context().close();
});

test('nor what a search finds', opts, async () => {
  await page.fill('#search', 'onerror');
  await page.waitForTimeout(600);
  const made = await page.locator('#sidebar').evaluate((side) => [...side.querySelectorAll('*')].filter((n) => /^(script|img|iframe|style|math|object|form)$/i.test(n.localName)
    || [...n.attributes].some((a) => /^on/i.test(a.name) || /^\s*javascript:/i.test(a.value))).map((n) => n.outerHTML));
  assert.deepEqual(made, []);
  await page.fill('#search', '');
});

test('a tool call shows its name and its arguments as text', opts, async () => {
  const call = { name: 'x', arguments: { html: lines.join(' '), '<img src=x onerror=alert(1)>': lines[0] } };
  const shown = await page.evaluate(async (one) => {
    const { state, emit } = await import(new URL('state.js', document.querySelector('script[type=module]').src));
    const message = [...state.current.messages.values()].find((m) => m.role === 'assistant');
    message.tool_calls = [{ id: 'a', type: 'function', function: { name: '<svg onload=window.__pwned=1>', arguments: JSON.stringify(one.arguments) } }];
    emit('answer-end', message);
    const box = document.querySelector('#thread .calls');
    return { text: box.textContent, made: box.querySelectorAll('img, svg, script, a, iframe').length };
  }, call);
  assert.equal(shown.made, 0);
  assert.ok(shown.text.includes('<svg onload=window.__pwned=1>') && shown.text.includes('<img src=x onerror=alert(1)>'));
});

test('nothing ran, nothing was asked of another host, nothing had to be stopped by the policy', opts, async () => {
  await page.mouse.move(600, 400);
  assert.deepEqual(await guard.end(), []);
  assert.deepEqual(house.problems, []);
});
