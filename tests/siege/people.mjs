// The ordinary side of the siege: two people at the page in Chromium, one with OpenAI's SDK, one with Anthropic's, one with
// plain HTTP. Each adds what was waited for to `seen`: {operation: [{ms, status, body}]}.
import { load, sleep } from '../api/harness.mjs';
import { ask, makeKey, PASSWORD, signIn } from './ask.mjs';

export const FIRST = 'first token', TEXTS = ['What is bread?', 'How do I make tea?', 'Say something about rivers.', 'What is 17 + 25?'];
const PAUSE = 400, PATIENCE_MS = 5000; // then the person stops the answer: what is sent while it runs would wait for its end
const text = () => `${TEXTS[Math.floor(Math.random() * TEXTS.length)]} ${Math.floor(Math.random() * 1e6)}`;
const note = (seen, name, r) => (seen[name] ??= []).push(r);

/** What an SDK threw: with its status, 0 where there was no answer. */
const thrown = (e) => ({ status: e.status ?? 0, body: e.message });

async function timed(seen, name, run) {
  const began = performance.now();
  let first;
  try {
    await run(() => { first ??= performance.now() - began; });
    note(seen, name, { status: 200, ms: first ?? performance.now() - began, body: '' });
  } catch (e) {
    note(seen, name, { ...thrown(e), ms: performance.now() - began });
  }
}

/** What every page does beside chatting. */
function operations(port, from, page, chats, name) {
  const get = (path) => ask(port, from, 'GET', path, { headers: page });
  return {
    session: () => get('/api/session'),
    list: () => get('/api/conversations'),
    'new chat': async () => {
      const r = await ask(port, from, 'POST', '/api/conversations', { headers: page, body: {} });
      if (r.status === 201) chats.push(JSON.parse(r.body).id);
      return r;
    },
    upload: () => ask(port, from, 'POST', '/api/attachments?name=note.txt', { body: `A note ${Math.random()}.`, headers: { ...page, 'content-type': 'application/octet-stream' } }),
    login: () => ask(port, from, 'POST', '/api/login', { body: { name, password: PASSWORD } }),
    health: () => ask(port, from, 'GET', '/health'),
  };
}

/** With plain HTTP: all operations and answers that stream. */
export async function plainPerson(server, name, from) {
  const page = await signIn(server.port, from, name), bearer = { authorization: `Bearer ${await makeKey(server.port, from, page)}` };
  const chats = [], all = operations(server.port, from, page, chats, name);
  all[FIRST] = async () => {
    const r = await ask(server.port, from, 'POST', '/v1/chat/completions', { headers: bearer, mark: '"content":"',
      body: { messages: [{ role: 'user', content: text() }], max_tokens: 12, stream: true } });
    return { ...r, ms: r.first ?? r.ms };
  };
  return { name, chats, page, from, async live(seen, until) {
    while (performance.now() < until()) for (const [operation, run] of Object.entries(all)) { note(seen, operation, await run()); await sleep(PAUSE / 4); }
  } };
}

/** OpenAI's SDK: a chat of several turns, streamed. */
export async function openaiPerson(server, name, from) {
  const page = await signIn(server.port, from, name);
  const { default: OpenAI } = await load('openai');
  const client = new OpenAI({ apiKey: await makeKey(server.port, from, page), baseURL: `${server.url}/v1`, maxRetries: 0, timeout: 60000 });
  return { name, chats: [], page, from, async live(seen, until) {
    for (let messages = []; performance.now() < until(); await sleep(PAUSE)) {
      messages = [...messages.slice(-6), { role: 'user', content: text() }];
      await timed(seen, FIRST, async (first) => {
        let said = '';
        for await (const chunk of await client.chat.completions.create({ model: server.model, messages, max_tokens: 24, stream: true })) {
          const more = chunk.choices[0]?.delta;
          if (more?.content || more?.reasoning_content) first();
          said += more?.content ?? '';
        }
        messages.push({ role: 'assistant', content: said });
      });
    }
  } };
}

/** Anthropic's SDK: single messages, streamed. */
export async function anthropicPerson(server, name, from) {
  const page = await signIn(server.port, from, name);
  const { default: Anthropic } = await load('@anthropic-ai/sdk');
  const client = new Anthropic({ apiKey: await makeKey(server.port, from, page), baseURL: server.url, maxRetries: 0, timeout: 60000 });
  return { name, chats: [], page, from, async live(seen, until) {
    for (; performance.now() < until(); await sleep(PAUSE))
      await timed(seen, FIRST, async (first) => {
        for await (const event of client.messages.stream({ model: server.model, max_tokens: 24, messages: [{ role: 'user', content: text() }] }))
          if (event.type === 'content_block_delta') first();
      });
  } };
}

/** The page in a browser: a new chat now and then, messages in it, and every acknowledged one remembered. */
export async function pagePerson(server, browser, name, from) {
  const page = await signIn(server.port, from, name), context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const tab = await context.newPage(), said = [];
  /* What the page said of a message that it could not send stands there for some seconds only. */
  await tab.addInitScript(() => addEventListener('DOMContentLoaded', () => {
    window.told = [];
    new MutationObserver((changes) => { for (const c of changes) for (const n of c.addedNodes) window.told.push(n.textContent); })
      .observe(document.getElementById('toasts'), { childList: true });
  }));
  tab.setDefaultTimeout(60000);
  await tab.goto(server.url);
  await tab.fill('#login-name', name);
  await tab.fill('#login-password', PASSWORD);
  await tab.click('#login-form .primary');
  await tab.waitForSelector('#app:not([hidden])');
  const last = () => tab.evaluate(() => [...document.querySelectorAll('.message.assistant')].at(-1)?.dataset.id);
  /* Watched inside the page, so that polling it does not count: when a new answer has text. Not by how many there are: a long
     chat keeps those in view only. */
  const begun = (before) => tab.evaluate((id) => new Promise((done, failed) => {
    const answer = () => [...document.querySelectorAll('.message.assistant')].at(-1);
    const look = () => answer() && answer().dataset.id !== id && answer().querySelector('.answer, .reasoning')?.textContent.trim();
    const state = () => ({ told: window.told, before: id, last: { ...answer()?.dataset }, typed: document.getElementById('composer-text').value,
      hash: location.hash, problems: [...document.querySelectorAll('.message .problem:not([hidden]), #composer-problem:not([hidden])')].map((p) => p.textContent) });
    const end = setTimeout(() => failed(new Error(`no text within 60 s: ${JSON.stringify(state())}`)), 60000);
    const refusal = document.getElementById('composer-problem'), over = (then) => { clearTimeout(end); watch.disconnect(); then(); };
    const see = () => { if (look()) over(done); else if (!refusal.hidden) over(() => failed(new Error(`refused: ${refusal.textContent}`))); };
    const watch = new MutationObserver(see);
    watch.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ['data-id', 'hidden'] });
    see();
  }), before);
  return { name, chats: [], said, page, from, async live(seen, until) {
    for (let turn = 0; performance.now() < until(); turn++, await sleep(PAUSE)) {
      if (turn % 4 === 0) await tab.click('#new-chat');
      const message = text(), before = await last();
      await timed(seen, `${FIRST} on the page`, async (first) => {
        await tab.fill('#composer-text', message);
        await tab.press('#composer-text', 'Enter');
        await begun(before).catch((e) => {
          if (!/refused: This is too long/.test(e.message)) throw e;
          turn |= 3; // the model's context is full: the next message goes to a new chat
          throw Object.assign(e, { status: 400 });
        });
        first();
        said.push(message);
        const runs = () => tab.evaluate(() => [...document.querySelectorAll('.message.assistant')].at(-1)?.dataset.status === 'running');
        const patience = performance.now() + PATIENCE_MS;
        while (await runs()) {
          if (performance.now() > patience && await tab.isVisible('#stop')) await tab.click('#stop', { timeout: 1000 }).catch(() => {}); // it may have ended just now
          await sleep(100);
        }
      });
    }
  } };
}
