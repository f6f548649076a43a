// The model's file is cut short under answers that stream experts from it: every answer ends with an error that says so, the engine
// lives on, nothing wrong is kept, and with the file as it was everything is as it was.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { demo, joined, start } from './harness.mjs';

const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-'));
let s;
after(async () => { await s?.stop(); rmSync(dir, { recursive: true }); });

test('a file that is cut short ends running answers, not the engine', async () => {
  const model = path.join(dir, 'model'), file = path.join(model, 'model.safetensors'), as = path.join(dir, 'as');
  cpSync(demo, model, { recursive: true });
  const bytes = readFileSync(file);
  writeFileSync(as, '');
  execFileSync('touch', ['-r', file, as]); // its time, to the nanosecond
  s = await start({ model, args: ['--strategy', 'ssd_streaming', '--expert-cache', '2M', '--slots', '8'] });
  const engine = s.pid('engine');
  const ask = (n, max_tokens) => ({ messages: [{ role: 'user', content: `Tell me about the number ${n}.` }], max_tokens, temperature: 0, ignore_eos: true });
  const before = await s.stream(ask(1, 8));

  let begun, count = 0;
  const all = new Promise((done) => { begun = done; });
  const running = Array.from({ length: 8 }, (_, i) => {
    let first = true;
    return s.stream(ask(i, 3000), { onChunk: (c) => {
      if (first && (c.choices?.[0]?.delta.content || c.choices?.[0]?.delta.reasoning_content)) { first = false; if (++count === 8) begun(); }
    } });
  });
  await Promise.race([all, Promise.all(running)]);
  assert.equal(count, 8);
  truncateSync(file, 4096);
  for (const r of await Promise.all(running)) {
    assert.ok(r.done, r.raw.slice(-300));
    const { error } = r.chunks.at(-1);
    assert.equal(error?.code, 'io_error', r.raw.slice(-300));
    assert.match(error.message, /layer \d+, expert \d+ .*(shorter than it was|changed)/);
    assert.ok(!error.message.includes(dir), 'the machine\'s folders are nobody\'s business');
    assert.deepEqual(joined(r.chunks.slice(0, -1)).finish, []);
  }
  const refused = await s.chat({ ...ask(1, 8), stream: false });
  assert.equal(refused.status, 500);
  assert.equal(refused.body.error.code, 'io_error');
  assert.equal((await s.request('GET', '/health')).status, 200);
  assert.ok(await s.metric('expert_failures_total') > 0);
  assert.equal(await s.metric('num_requests_running'), 0);

  writeFileSync(file, bytes);
  execFileSync('touch', ['-r', as, file]);
  const again = await s.stream(ask(1, 8));
  assert.equal(joined(again.chunks).content, joined(before.chunks).content);
  assert.equal(joined(again.chunks).reasoning, joined(before.chunks).reasoning);
  assert.equal(s.pid('engine'), engine);
});
