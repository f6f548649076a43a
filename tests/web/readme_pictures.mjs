#!/usr/bin/env node
// By hand: the pictures of README.md, made anew.
//   node tests/web/readme_pictures.mjs FOLDER
// Answers of the chat are the scripted engine's; the overview is that of the demo model, after a minute of work. 128 colours are enough
// (Pillow: quantize(128, method=1, kmeans=3), save(optimize=True)).
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { sleep } from '../api/harness.mjs';
import { openHouse, until } from './page.mjs';
import { sampleChat } from './scenes.mjs';

const folder = process.argv[2];
if (!folder) { console.error('usage: readme_pictures.mjs FOLDER'); process.exit(2); }
mkdirSync(folder, { recursive: true });
const file = (name) => path.join(folder, `${name}.png`);
const WORK_MS = 90000;
const CHATS = ['Retries for the nightly sync', 'Sourdough at 22 °C', 'Holiday in Brittany', 'Vacuum and bloat in Postgres', 'Names for a cat', 'Eigenvalues, with a picture', 'Regex for number plates', 'Budget 2027'];

async function chat() {
  const house = await openHouse({ fake: true });
  try {
    const api = async (...call) => (await house.server.json(...call)).body;
    const ids = [];
    for (const title of CHATS) ids.push((await api('POST', '/api/conversations', { title })).id);
    await api('PATCH', `/api/conversations/${ids[1]}`, { pinned: true });
    await api('PATCH', `/api/conversations/${ids[7]}`, { tags: ['work'] });
    const project = await api('POST', '/api/projects', { name: 'Tides and currents', colour: 1, instructions: 'Answer in metres.' });
    await api('POST', '/api/conversations/bulk', { ids: [ids[2]], project_id: project.id });
    const page = await house.page();
    await sampleChat(house, page, 40);
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
    const page = await house.page();
    await page.goto(`${house.server.url}/admin`);
    await until(page, () => document.querySelectorAll('.tile').length === 8);
    await page.waitForTimeout(1500);
    await page.screenshot({ path: file('admin-overview') });
  } finally { await house.close(); }
}

if (process.argv[3] !== "overview") await chat();
await overview();
