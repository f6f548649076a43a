#!/usr/bin/env node
// By hand: the pictures of README.md, made anew.
//   node tests/web/readme_pictures.mjs FOLDER [chat | overview]
// Answers of the chat are the scripted engine's; the overview is that of the demo model, after a minute of work. 30 to 128 colours are
// enough: the six that fill most of the picture as they are, so that list and page stay apart, the others by Pillow's
// quantize(n, method=1, kmeans=3), and all of them as the palette of quantize(palette=..., dither=0), save(optimize=True).
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { sleep } from '../api/harness.mjs';
import { openHouse, until } from './page.mjs';
import { sampleChat } from './scenes.mjs';

const folder = process.argv[2];
if (!folder) { console.error('usage: readme_pictures.mjs FOLDER [chat | overview]'); process.exit(2); }
mkdirSync(folder, { recursive: true });
const file = (name) => path.join(folder, `${name}.png`);
const WORK_MS = 90000;
const DAY = 86400;
// [title, days ago]; those of today are the newest
const CHATS = [['Letter to the landlord', 0.1], ['Sourdough at 22 °C', 0.2], ['Holiday in Brittany', 0.3], ['Bloat in Postgres', 1], ['Interview questions', 1.1], ['Regex for number plates', 3],
  ['Budget 2027', 4], ['Eigenvalues, with a picture', 5], ['Release notes of 4.2', 12]];
const RETRIES = {
  title: 'Retries for the nightly sync',
  ask: 'Our nightly sync fails whenever the API is slow. How should it retry?',
  thought: 'A batch job against an API. First which errors to retry, then how long to wait, then code that can be pasted.',
  text: `Retry only errors that can clear up by themselves, and wait a random time of up to $\\min(30, 2^n)$ seconds after attempt $n$, so that clients don't all come back at once.

| Error | Retry? | Why |
| :--- | :--- | :--- |
| Timeout, 502, 503 | Yes | The server may be back in seconds |
| 429 | After \`Retry-After\` | The server says how long |
| 400, 401, 404 | No | The same request fails the same way |

\`\`\`python
def with_retries(call, attempts=6, cap=30):
    for n in range(1, attempts):
        try:
            return call()
        except Transient:
            time.sleep(random.uniform(0, min(cap, 2 ** n)))
    return call()
\`\`\`
`,
};

/** A history that another program wrote, so that it has days. */
const past = ([title, days], i) => {
  const at = Date.now() / 1000 - days * DAY;
  const message = (role, text, parent, children) => ({ id: role, parent, children, message: { author: { role }, recipient: 'all', create_time: at, content: { content_type: 'text', parts: [text] } } });
  return { id: `past-${i}`, conversation_id: `past-${i}`, title, create_time: at, update_time: at, current_node: 'assistant',
    mapping: { root: { id: 'root', message: null, parent: null, children: ['user'] }, user: message('user', title, 'root', ['assistant']), assistant: message('assistant', 'Gladly.', 'user', []) } };
};

async function chat() {
  const house = await openHouse({ fake: true });
  try {
    const api = async (...call) => (await house.server.json(...call)).body;
    await api('POST', '/api/import', Buffer.from(JSON.stringify(CHATS.map(past))), { 'content-type': 'application/octet-stream' });
    const { items } = await api('GET', '/api/conversations?limit=50');
    const idOf = (title) => items.find((c) => c.title === title).id;
    await api('PATCH', `/api/conversations/${idOf('Sourdough at 22 °C')}`, { pinned: true });
    await api('PATCH', `/api/conversations/${idOf('Bloat in Postgres')}`, { tags: ['work'] });
    const project = await api('POST', '/api/projects', { name: 'House move in March', colour: 1, instructions: 'Prices in euros.' });
    await api('POST', '/api/conversations/bulk', { ids: [idOf('Letter to the landlord'), idOf('Budget 2027')], project_id: project.id });
    const page = await house.page({ viewport: { width: 1280, height: 840 } });
    await sampleChat(house, page, 60, RETRIES);
    const here = page.url();
    await page.reload();
    await page.locator('.math.drawn').first().waitFor();
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.waitForTimeout(400);
      await page.screenshot({ path: file(`chat-${scheme}`) });
    }
    const phone = await house.page({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
    await phone.goto(here);
    await phone.locator('.math.drawn').first().waitFor();
    await phone.locator('#scroller').evaluate((scroller) => { scroller.scrollTop = 0; });
    await phone.waitForTimeout(400);
    await phone.screenshot({ path: file('phone') });
  } finally { await house.close(); }
}

async function overview() {
  const house = await openHouse();
  try {
    const json = (...call) => house.server.json(...call);
    for (const name of ['ada', 'grace', 'kim', 'edith']) await json('POST', '/api/users', { name, password: 'a long password', role: 'user' });
    const ask = (n) => json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: `Count to ${n}.` }], max_tokens: 200, ignore_eos: true });
    for (const end = Date.now() + WORK_MS; Date.now() < end; await sleep(1500 * Math.random())) await Promise.all(Array.from({ length: 1 + Math.floor(3 * Math.random()) }, (_, n) => ask(n + 10)));
    const page = await house.page({ viewport: { width: 1280, height: 640 } });
    await page.goto(`${house.server.url}/admin`);
    await until(page, () => document.querySelectorAll('.tile').length === 8);
    await page.waitForTimeout(1500);
    await page.screenshot({ path: file('admin-overview') });
  } finally { await house.close(); }
}

if (process.argv[3] !== 'overview') await chat();
if (process.argv[3] !== 'chat') await overview();
