// How the page bears a long history: node tests/soak/list.mjs [--conversations N] [--messages N] (by default 100000 and 5000).
// Fills an account by POST /api/import, then measures the list's pages, searches, a long chat's opening and the list's
// scrolling, in a browser. Environment as in tests/api/harness.mjs. Prints JSON. The server's engine is the scripted one.
import { randomUUID } from 'node:crypto';
import { openHouse, until } from '../web/page.mjs';
import { leaveCleanly } from './leave.mjs';

const option = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : Number(process.argv[i + 1]); };
const [CHATS, LONG] = [option('conversations', 100000), option('messages', 5000)];
const BATCH = 10000;

// Words as frequent as those of a language are: the k-th with a weight of 1/k.
let seed = 7;
const random = () => { seed = (seed * 1664525 + 1013904223) % 4294967296; return seed / 4294967296; };
const syllables = ['ka', 'lo', 'mi', 'ter', 'un', 'da', 'sol', 're', 'vi', 'nor', 'e', 'pas'];
const words = Array.from({ length: 20000 }, (_, i) => Array.from({ length: 1 + (i % 4) }, () => syllables[Math.floor(random() * syllables.length)]).join('') + (i % 7 ? '' : i));
const word = () => words[Math.floor(words.length ** random()) - 1] ?? words[0];
const text = (n) => Array.from({ length: n }, word).join(' ');

function conversation(title, at, pairs, length) {
  const messages = [];
  for (let i = 0; i < 2 * pairs; i++) {
    const role = i % 2 ? 'assistant' : 'user';
    messages.push({ id: i + 1, parent: i || null, role, status: 'done', content: text(i % 2 ? length : 15), reasoning: '', tool_calls: null, tool_call_id: null,
      error: null, model: i % 2 ? 'demo' : null, usage: null, timings: null, created_at: at, finished_at: at, attachments: [] });
  }
  return { key: randomUUID(), title, created_at: at, updated_at: at, pinned: false, archived: false, trashed_at: null, fork_of: null, tags: [],
    settings: {}, leaf: messages.length, messages };
}

async function fill(server, conversations) {
  const body = { schema: 'sluice-export', version: 1, exported_at: Date.now(), conversations };
  const { status, text: answer } = await server.json('POST', '/api/import', body);
  if (status !== 200) throw new Error(answer);
}

const ms = (values) => { const v = [...values].sort((a, b) => a - b); return { median_ms: Math.round(v[v.length >> 1] * 10) / 10, max_ms: Math.round(v.at(-1) * 10) / 10 }; };

async function ask(server, path, times = 9) {
  const took = [];
  let bytes = 0;
  for (let i = 0; i < times; i++) {
    const begin = performance.now();
    bytes = (await (await server.request('GET', path)).arrayBuffer()).byteLength;
    took.push(performance.now() - begin);
  }
  return { ...ms(took), bytes };
}

const house = await openHouse({ fake: true, motion: true });
leaveCleanly(() => house.close());
const out = { conversations: CHATS, messages: 2 * CHATS + LONG };
try {
  const now = Date.now();
  const began = performance.now();
  for (let i = 0; i < CHATS; i += BATCH) {
    await fill(house.server, Array.from({ length: Math.min(BATCH, CHATS - i) }, (_, k) => conversation(text(4), now - (CHATS - i - k) * 400000, 1, 50)));
  }
  await fill(house.server, [conversation('A very long chat', now, LONG / 2, 120)]);
  out.filled_s = Math.round((performance.now() - began) / 1000);
  out.page = await ask(house.server, '/api/conversations?limit=100');
  out.search = {};
  for (const [name, q] of [['common word', words[0].padEnd(3, 'a')], ['rare word', words[19999]], ['nowhere', 'qqqqqq'], ['two letters', 'ka'], ['one letter, nowhere', 'ž']]) {
    out.search[name] = await ask(house.server, `/api/conversations?limit=50&q=${encodeURIComponent(q)}`, 5);
  }
  const id = (await house.server.json('GET', '/api/conversations?limit=1')).body.items[0].id;
  out.long_chat = { first_texts: await ask(house.server, `/api/conversations/${id}?texts=80`), whole: await ask(house.server, `/api/conversations/${id}`) };

  const page = await house.page();
  await until(page, () => document.querySelectorAll('.conversation').length > 5);
  const opened = [];
  for (let i = 0; i < 6; i++) {
    opened.push(await page.evaluate(async (chat) => {
      const frame = () => new Promise(requestAnimationFrame);
      const begin = performance.now();
      location.hash = `#/c/${chat}`;
      while (document.querySelectorAll('#thread .message .answer > *').length < 2) await frame();
      await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
      const took = performance.now() - begin;
      await new Promise((rest) => setTimeout(rest, 1500)); // the other texts arrive
      return took;
    }, id));
    out.long_chat.nodes = await page.locator('#thread *').count();
    await page.evaluate(async () => { location.hash = '#/'; await new Promise((rest) => setTimeout(rest, 200)); });
  }
  out.long_chat.opened = ms(opened.slice(1)); // the first one also fetches the libraries
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const spent = async () => Object.fromEntries((await cdp.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value * 1000]));
  const before = await spent();
  out.scrolling = await page.evaluate(async () => {
    const list = document.querySelector('#conversations');
    const frames = [];
    let last = performance.now();
    let nodes = 0;
    for (let i = 0; i < 600; i++) {
      list.scrollTop += 300;
      await new Promise(requestAnimationFrame);
      const at = performance.now();
      frames.push(at - last);
      last = at;
      nodes = Math.max(nodes, list.querySelectorAll('*').length);
    }
    frames.sort((a, b) => a - b);
    return { frames: frames.length, pixels: Math.round(list.scrollTop), median_ms: frames[300], p99_ms: frames[594], over_50_ms: frames.filter((f) => f > 50).length, nodes };
  });
  const after = await spent();
  for (const name of ['ScriptDuration', 'LayoutDuration', 'RecalcStyleDuration']) out.scrolling[`${name}_ms_a_frame`] = Math.round((after[name] - before[name]) / 6) / 100;
  out.heap_mb = Math.round((await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0)) / 1e6);
  out.problems = house.problems;
} finally {
  await house.close();
}
console.log(JSON.stringify(out, null, 1));
