// Mutated requests: no 5xx, no hang, an error object for each refusal, and the server answers as before. A slice of what
// is run by hand: SLUICE_MUTATIONS=100000 SLUICE_SEED=7 node --test tests/api/mutated.test.mjs
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startHub } from '../cli/hub.mjs';
import { eventually, order, start } from './harness.mjs';
import { storm } from './mutate.mjs';

const n = Number(process.env.SLUICE_MUTATIONS ?? 1500);
let s, hub;
before(async () => {
  hub = await startHub({}); // /api/pull asks it, and is told that there is no such model
  s = await start({ fake: true, args: ['--log-level', 'warn', '--hub', hub.url] });
});
after(async () => {
  await s?.stop();
  hub?.stop();
});

test(`${n} mutated requests`, async () => {
  const { statuses, bad } = await storm(s, n, { seed: Number(process.env.SLUICE_SEED ?? 1) });
  if (n > 5000) console.log(JSON.stringify(statuses));
  assert.deepEqual(bad.slice(0, 5), []);
  assert.equal(Object.values(statuses).reduce((a, b) => a + b, 0), n);
  assert.ok(statuses[200] > n / 100, 'some pass: the mutations are small');
  assert.equal(await s.metric('worker_crashes_total'), 0, s.log.slice(-2000));
  await eventually(async () => assert.equal(await s.metric('num_requests_running'), 0)); // the page is written now and then
  const r = await s.chat({ messages: order({ text: 'fine' }) });
  assert.equal(r.body.choices?.[0].message.content, 'fine', r.text);
});
