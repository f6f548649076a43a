#!/usr/bin/env node
// By hand: does the page keep 60 frames a second while a long answer streams, and does anything jump?
//   node tests/soak/streaming.mjs [--tokens 10000] [--rate 100] [--kind prose|code|list|table|mixed]
// A proxy before the real server writes the answer's stream at the given rate; the page and its path are the real ones.
// Figures from the browser's own trace (frames by PipelineReporter, main thread by RunTask) and its LayoutShift entries.
// It takes tokens / rate seconds and some 15 more. Status 1 when something jumped or fewer than 59 frames a second were shown,
// 2 when it was told to stop.
import http from 'node:http';
import os from 'node:os';
import { sleep } from '../api/harness.mjs';
import { openHouse, until } from '../web/page.mjs';
import { leaveCleanly } from './leave.mjs';

const arg = (name, fallback) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? fallback : process.argv[i + 1];
};
const tokens = Number(arg('tokens', 10000)), rate = Number(arg('rate', 100)), kind = arg('kind', 'mixed');

const words = 'the river runs past a mill and turns its wheel slowly while people wait for **flour** and `bread` on the bank'.split(' ');
const sentence = (n, from) => Array.from({ length: n }, (_, i) => words[(from + i * 7) % words.length]).join(' ');
const parts = {
  prose: (i) => `${sentence(70, i)}.\n\n`,
  code: (i) => `${i ? '' : '```python\n'}def f_${i}(x):\n    return x * ${i}  # ${sentence(6, i).replaceAll('`', '')}\n\n`,
  list: (i) => `- ${sentence(18, i)}\n`,
  table: (i) => `${i ? '' : '| number | words |\n| ---: | --- |\n'}| ${i} | ${sentence(9, i)} |\n`,
  mixed: (i) => [`## Part ${i}\n\n`, `${sentence(60, i)}.\n\n`, `- ${sentence(12, i)}\n- ${sentence(9, i)}\n\n`, `\`\`\`js\nconst x${i} = ${i};\nconsole.log(x${i});\n\`\`\`\n\n`,
    `A formula $x_{${i}}^2$ and [a link](https://example.org/${i}).\n\n`][i % 5],
};
const pieces = [];
for (let i = 0; pieces.length < tokens; i++) pieces.push(...parts[kind](i).match(/\s*\S{1,6}|\s+$/g));
pieces.length = tokens;

console.error(`this takes some ${Math.ceil(tokens / rate + 15)} s`);
const house = await openHouse({ fake: true, motion: true });
leaveCleanly(() => house.close());
const upstream = new URL(house.server.url);
async function writeAnswer(request, response) {
  let body = '';
  for await (const chunk of request) body += chunk;
  const conversation_id = request.url.split('/')[3];
  const send = (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const message = { id: '2', conversation_id, parent_id: '1', role: 'assistant', content: '', reasoning: '', status: 'running' };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  send('start', { user_message: { id: '1', conversation_id, parent_id: null, role: 'user', content: JSON.parse(body).content, status: 'done' }, message });
  const began = performance.now();
  for (let i = 0; i < pieces.length; i++) {
    const ahead = began + (i * 1000) / rate - performance.now();
    if (ahead > 1) await sleep(ahead);
    send('delta', { content: pieces[i], n: i + 1, tokens_per_second: rate });
  }
  send('done', { message: { ...message, content: pieces.join(''), status: 'done', usage: { completion_tokens: tokens } } });
  response.end();
}
const proxy = http.createServer((request, response) => {
  if (request.method === 'POST' && /\/messages$/.test(request.url)) { writeAnswer(request, response); return; }
  request.pipe(http.request({ host: upstream.hostname, port: upstream.port, path: request.url, method: request.method, headers: request.headers }, (from) => {
    response.writeHead(from.statusCode, from.headers);
    from.pipe(response);
  }).on('error', () => response.destroy()));
}).listen(0, '127.0.0.1');
await new Promise((done) => { proxy.on('listening', done); });
house.server.url = `http://127.0.0.1:${proxy.address().port}`;

async function measure() {
  const page = await house.page();
  const { id } = (await house.server.json('POST', '/api/conversations', { title: 'A long one' })).body;
  await page.goto(`${house.server.url}/#/c/${id}`); // of a new chat the message box goes down with the first message, as it should
  await until(page, () => document.querySelector('#title').textContent === 'A long one');
  await page.waitForTimeout(1000);
  const cdp = await page.context().newCDPSession(page);
  await page.evaluate(() => {
    globalThis.seen = { shifts: [], frames: [] };
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) globalThis.seen.shifts.push({ value: e.value, late: e.hadRecentInput,
        what: e.sources.map((s) => `${s.node?.className || s.node?.textContent.slice(0, 30) || 'a node that is gone'} ${['x', 'y', 'width', 'height'].map((k) => `${k} ${s.previousRect[k].toFixed(1)}→${s.currentRect[k].toFixed(1)}`).join(' ')}`).join(', ') });
    }).observe({ type: 'layout-shift' }); // those of the load are paint.mjs's
    const tick = (at) => { globalThis.seen.frames.push(at); requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  });
  const events = [];
  const wanted = new Set(['PipelineReporter', 'RunTask', 'ThreadControllerImpl::RunTask', 'thread_name']);
  cdp.on('Tracing.dataCollected', ({ value }) => { for (const e of value) if (wanted.has(e.name)) events.push(e); });
  await page.fill('#composer-text', 'Tell me something long.');
  await cdp.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['cc', 'benchmark', 'disabled-by-default-devtools.timeline', 'devtools.timeline', '__metadata'] } });
  await page.press('#composer-text', 'Enter');
  await page.locator('.message.assistant').waitFor();
  const from = await page.evaluate(() => performance.now());
  const load0 = os.loadavg()[0];
  await until(page, () => document.querySelector('.message.assistant').dataset.status === 'done', (tokens / rate) * 3000 + 20000);
  const seen = await page.evaluate((since) => ({ shifts: globalThis.seen.shifts, gaps: globalThis.seen.frames.filter((f) => f > since).map((f, i, all) => (i ? f - all[i - 1] : 0)),
    took: performance.now() - since, nodes: document.querySelectorAll('.answer *').length }), from);
  const complete = new Promise((done) => { cdp.on('Tracing.tracingComplete', done); });
  await cdp.send('Tracing.end');
  await complete;
  return { events, seen, load0 };
}

let measured;
try {
  measured = await measure();
} finally {
  await house.close();
  proxy.close();
  proxy.closeAllConnections();
}
const { events, seen, load0 } = measured;
const main = new Set(events.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map((e) => `${e.pid}/${e.tid}`));
const tasks = events.filter((e) => /RunTask/.test(e.name) && e.ph === 'X' && main.has(`${e.pid}/${e.tid}`));
const byThread = {};
for (const e of tasks) (byThread[e.pid] ??= []).push(e);
const busiest = Object.values(byThread).sort((a, b) => b.length - a.length)[0] ?? [];
const cpu = busiest.map((e) => (e.tdur ?? e.dur) / 1000).sort((a, b) => b - a);
const states = {};
for (const e of events) {
  const reporter = e.name === 'PipelineReporter' && (e.args.chrome_frame_reporter ?? e.args.frame_reporter);
  if (reporter?.state) states[reporter.state] = (states[reporter.state] ?? 0) + 1;
}
const quantile = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))];
const fps = (seen.gaps.length * 1000) / seen.took;
console.log(`${kind}: ${tokens} tokens at ${rate}/s in ${(seen.took / 1000).toFixed(1)} s, ${seen.nodes} elements, machine load ${load0.toFixed(1)} of ${os.cpus().length}`);
console.log(`frames: ${fps.toFixed(1)} a second, gap p50 ${quantile(seen.gaps, 0.5).toFixed(1)} ms, p99 ${quantile(seen.gaps, 0.99).toFixed(1)} ms, longest ${Math.max(...seen.gaps).toFixed(0)} ms; trace ${JSON.stringify(states)}`);
console.log(`main thread: ${(cpu.reduce((a, b) => a + b, 0) / seen.took * 100).toFixed(0)} % of a core, tasks over 16 ms of cpu time: ${cpu.filter((c) => c > 16).length} of ${cpu.length}, longest ${cpu[0]?.toFixed(1)} ms`);
const jumped = seen.shifts.filter((s) => s.value > 0);
console.log(`layout shifts: ${jumped.length}${jumped.slice(0, 8).map((s) => `\n  ${s.value.toFixed(5)} ${s.what}`).join('')}`);
if (fps < 59) console.log('fewer than 59 frames a second');
process.exit(jumped.length || fps < 59 ? 1 : 0);
