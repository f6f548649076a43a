#!/usr/bin/env node
// By hand: how soon the page is painted and how soon it can be typed into, in a browser that has nothing of it.
//   node tests/soak/paint.mjs [--loads 20]
// Then a reload over a slow line (150 ms, 1.6 Mbit/s) by a browser that has the page, until the list of chats is there.
// First paint and first contentful paint are the browser's own entries; "usable" is when the message box can be typed into.
// Status 1 when the median first paint is later than 200 ms, or that reload takes longer than 700 ms.
import os from 'node:os';
import { openHouse, until } from '../web/page.mjs';

const i = process.argv.indexOf('--loads');
const loads = i < 0 ? 20 : Number(process.argv[i + 1]);
const house = await openHouse({ fake: true, motion: true });
const signedIn = await house.page();
const cookies = await signedIn.context().cookies();
await signedIn.addInitScript(() => {
  const look = () => { if (document.querySelector('.conversation')) globalThis.listed = performance.now(); else requestAnimationFrame(look); };
  requestAnimationFrame(look);
});
const rows = [];
for (let n = 0; n < loads; n++) {
  const context = await house.browser.newContext({ viewport: { width: 1280, height: 800 } });
  await context.addCookies(cookies);
  const page = await context.newPage();
  await page.addInitScript(() => {
    globalThis.jumps = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) globalThis.jumps += e.value; }).observe({ type: 'layout-shift', buffered: true });
    const look = () => { if (document.querySelector('#composer-text')?.checkVisibility()) globalThis.usable ??= performance.now(); else requestAnimationFrame(look); };
    requestAnimationFrame(look);
  });
  await page.goto(house.server.url);
  await page.waitForSelector('#app:not([hidden])');
  await page.waitForTimeout(400);
  rows.push(await page.evaluate(() => ({ ...Object.fromEntries(performance.getEntriesByType('paint').map((e) => [e.name, e.startTime])), usable: globalThis.usable, jumps: globalThis.jumps })));
  await context.close();
}
await house.server.json('POST', '/api/conversations', { title: 'A chat' });
const cdp = await signedIn.context().newCDPSession(signedIn);
await cdp.send('Network.enable');
await cdp.send('Network.emulateNetworkConditions', { offline: false, latency: 150, downloadThroughput: 1.6e6 / 8, uploadThroughput: 1.6e6 / 8 });
const reloads = [];
for (let n = 0; n < 8; n++) {
  await signedIn.reload();
  await until(signedIn, () => globalThis.listed);
  reloads.push(await signedIn.evaluate(() => globalThis.listed));
}
reloads.sort((a, b) => a - b);
const quantile = (name, q) => rows.map((r) => r[name]).sort((a, b) => a - b)[Math.min(rows.length - 1, Math.floor(rows.length * q))];
console.log(`${loads} loads without a cache, machine load ${os.loadavg()[0].toFixed(1)} of ${os.cpus().length}`);
for (const name of ['first-paint', 'first-contentful-paint', 'usable']) console.log(`${name}: median ${quantile(name, 0.5).toFixed(0)} ms, p90 ${quantile(name, 0.9).toFixed(0)} ms`);
console.log(`warm reload over 150 ms and 1.6 Mbit/s until the list: median ${reloads[4].toFixed(0)} ms, longest ${reloads.at(-1).toFixed(0)} ms`);
console.log(`layout shift, sum: largest ${Math.max(...rows.map((r) => r.jumps)).toFixed(4)}`);
await house.close();
process.exit(quantile('first-paint', 0.5) > 200 || reloads[4] > 700 ? 1 : 0);
