// 64 streams at once through nginx and the real engine: each says what it says alone. Meanwhile the short pool answers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, joined, start } from './harness.mjs';

let s;
before(async () => {
  s = await start({ allThreads: true });
  await s.json('PATCH', '/api/admin/settings', { user_max_jobs: 0 }); // all of one user
});
after(() => s?.stop());

const words = ['river', 'stone', 'bread', 'music', 'winter', 'garden', 'letter', 'window'];
const ask = (i) => ({ messages: [{ role: 'user', content: `What is a ${words[i % words.length]}? ${Math.floor(i / words.length)}` }],
  temperature: 0, max_tokens: 24, logprobs: true });

function mean(chunks) { // of the token's probability where the two might part
  return chunks.flatMap((c) => c.choices[0]?.logprobs?.content ?? []);
}

test('64 streams equal each alone at temperature 0', async () => {
  const alone = [];
  for (let i = 0; i < 64; i += 8) alone[i] = await s.stream(ask(i));
  const health = [];
  let running = true;
  const probe = (async () => {
    while (running) {
      const began = performance.now();
      const r = await s.request('GET', '/health');
      await r.text();
      health.push([r.status, performance.now() - began]);
      await new Promise((d) => setTimeout(d, 20));
    }
  })();
  const all = await Promise.all(Array.from({ length: 64 }, (_, i) => s.stream(ask(i))));
  running = false;
  await probe;
  for (const [i, r] of all.entries()) {
    assert.ok(r.done, `stream ${i}`);
    assert.equal(joined(r.chunks).finish.length, 1, `stream ${i}`);
    if (alone[i]) {
      const [a, b] = [mean(alone[i].chunks), mean(r.chunks)];
      const at = a.findIndex((t, k) => t.token !== b[k]?.token);
      // a batch adds in another order: two tokens that are nearly as likely may change places
      if (at >= 0) assert.ok(Math.abs(a[at].logprob - b[at].logprob) < 0.02, `stream ${i} differs at ${at}: ${a[at].token} ${b[at]?.token}`);
      else assert.equal(joined(r.chunks).content, joined(alone[i].chunks).content);
    }
  }
  assert.ok(health.every(([status]) => status === 200));
  health.sort((a, b) => a[1] - b[1]);
  console.log(`# /health beside 64 streams: median ${health[health.length >> 1][1].toFixed(1)} ms, worst ${health.at(-1)[1].toFixed(1)} ms of ${health.length}`);
  await eventually(async () => assert.equal(await s.metric('num_requests_running'), 0));
});
