// A server whose experts stay on disk: the same answers as with everything in memory, within the budget, whatever
// happens to the process, the files and the disk's bytes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, cpSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demo, eventually, joined, program, sleep, start } from './harness.mjs';

const CACHE = 4_000_000; // of the demo model's 20 MB of experts
const words = ['river', 'stone', 'bread', 'music', 'winter', 'garden', 'letter', 'window'];
const ask = (i) => ({ messages: [{ role: 'user', content: `What is a ${words[i]}?` }], temperature: 0, max_tokens: 24, logprobs: true, top_logprobs: 5 });

let dir, all, s;
function copy() { // a model that a test may damage
  const model = mkdtempSync(path.join(dir, 'model-'));
  cpSync(demo, model, { recursive: true });
  return model;
}
const streamed = (options = {}) => start({ ...options, args: ['--expert-cache', String(CACHE), ...(options.args ?? [])] });
const answer = (r) => ({ text: joined(r.chunks).content, finish: joined(r.chunks).finish, logprobs: r.chunks.flatMap((c) => c.choices?.[0]?.logprobs?.content ?? []) });
const good = (r) => r.status === 200 && r.done && !r.chunks.some((c) => c.error);
const expected = [];

before(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'slt-models-'));
  all = await start();
  for (let i = 0; i < words.length; i++) expected.push(answer(await all.stream(ask(i))));
  await all.stop();
  s = await streamed();
});
after(async () => {
  await s?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const io = (pid, field) => Number(new RegExp(`^${field}: (\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/io`, 'utf8'))[1]);
const anonymous = (pid) => Number(/^Anonymous:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]) * 1024;
const majorFaults = (pid) => Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[9]);

test('answers are those of the server that has everything in memory', async () => {
  for (let i = 0; i < words.length; i++) assert.deepEqual(answer(await s.stream(ask(i))), expected[i], words[i]);
});

test('eight clients at once, the same answers, none left behind', async () => {
  const got = await Promise.all(words.map((_, i) => s.stream(ask(i))));
  got.forEach((r, i) => {
    assert.ok(good(r), r.raw);
    assert.deepEqual(answer(r), expected[i], words[i]);
  });
});

test('bytes at /metrics are the bytes that the kernel counted', async (t) => {
  const pid = s.pid('engine');
  const before = { kernel: io(pid, 'read_bytes'), ours: await s.metric('expert_read_bytes_total') };
  for (let i = 0; i < 4; i++) await s.stream({ ...ask(i), messages: [{ role: 'user', content: `Tell me of ${words[i]} and ${words[7 - i]}.` }] });
  let kernel, ours;
  await eventually(async () => { // the status page is written a few times a second
    kernel = io(pid, 'read_bytes') - before.kernel;
    ours = await s.metric('expert_read_bytes_total') - before.ours;
    assert.ok(ours > CACHE, `${ours} bytes`);
    assert.ok(kernel === 0 || Math.abs(ours / kernel - 1) < 0.01, `${ours} at /metrics, ${kernel} in /proc/PID/io`);
  });
  if (kernel === 0) {
    t.skip('this file system does not count reads (O_DIRECT is refused)');
    return;
  }
  const [asked, hits, late, misses] = await Promise.all(['asked', 'hits', 'late', 'misses'].map((n) => s.metric(`expert_${n}_total`)));
  assert.equal(hits + late + misses, asked);
  assert.ok(await s.metric('expert_cache_bytes') <= await s.metric('expert_cache_budget_bytes'));
});

test('kill -9 in the middle of an answer: an error event, then the same answers', async () => {
  const first = s.pid('engine');
  let began;
  const started = new Promise((done) => { began = done; });
  const whole = s.stream({ ...ask(0), max_tokens: 400, ignore_eos: true }, { onChunk: (c) => { if (c.choices?.[0]?.delta.content) began(); } });
  await started;
  process.kill(first, 'SIGKILL');
  const r = await whole;
  assert.ok(r.chunks.at(-1).error, r.raw.slice(-300));
  await eventually(async () => assert.ok(good(await s.stream(ask(1))), 'no service again'));
  assert.notEqual(s.pid('engine'), first);
  for (let i = 0; i < 3; i++) assert.deepEqual(answer(await s.stream(ask(i))), expected[i], words[i]);
});

// What went wrong comes as an error event, or as an error answer where nothing was sent yet.
async function failure(server, i) {
  const r = await server.stream(ask(i));
  const error = r.error?.error ?? r.chunks.find((c) => c.error)?.error;
  return { r, error };
}

test('a file that is cut short under way fails requests, not the engine', async () => {
  const model = copy(), server = await streamed({ model });
  try {
    const pid = server.pid('engine');
    assert.ok(good(await server.stream(ask(0))));
    const file = path.join(model, 'model.safetensors');
    truncateSync(file, 100_000);
    let error;
    for (let i = 1; i < words.length && !error; i++) ({ error } = await failure(server, i));
    assert.equal(error?.type, 'server_error');
    assert.equal(server.pid('engine'), pid);
    process.kill(pid, 0);
    assert.equal((await server.request('GET', '/health')).status, 200);
    assert.ok(await server.metric('expert_failures_total') > 0);
    await server.logs(/model\.safetensors/);
  } finally {
    await server.stop();
  }
});

test('a packed file gives the same answers; a damaged record is found and named', async () => {
  const model = copy(), sidecar = path.join(model, 'model.safetensors.experts');
  execFileSync(program('sluice'), ['pack', model]);
  let server = await streamed({ model });
  try {
    await server.logs(/packed=yes/);
    for (let i = 0; i < 4; i++) assert.deepEqual(answer(await server.stream(ask(i))), expected[i], words[i]);
  } finally {
    await server.stop();
  }
  const fd = openSync(sidecar, 'r+'), size = statSync(sidecar).size, records = 192, byte = Buffer.alloc(1);
  for (let at = 8192 + 700; at < size; at += Math.floor((size - 8192) / records)) { // one byte of every record
    readSync(fd, byte, 0, 1, at);
    byte[0] ^= 1;
    writeSync(fd, byte, 0, 1, at);
  }
  closeSync(fd);
  server = await streamed({ model });
  try {
    const pid = server.pid('engine'), { error } = await failure(server, 0);
    assert.equal(error?.type, 'server_error');
    await server.logs(/layer \d+, expert \d+/);
    assert.equal(server.pid('engine'), pid);
  } finally {
    await server.stop();
  }
});

test('a model of ten times the cache runs within its memory', async (t) => {
  const model = path.join(dir, 'large');
  execFileSync(program('sluice'), ['synth', '--out', model, '--shape', 'qwen3-30b-a3b', '--layers', '4', '--hidden', '512', '--inter', '512',
    '--experts', '128', '--heads', '8', '--kv-heads', '2', '--vocab', '8192', '--context', '4096', '--tokenizer', demo]);
  const cache = 24_000_000, limits = ['--expert-cache', String(cache), '--ctx', '2048', '--slots', '8'];
  const server = await start({ model, args: limits });
  try {
    const pid = server.pid('engine');
    await server.stream({ ...ask(0), max_tokens: 8, ignore_eos: true });
    const faults = majorFaults(pid);
    let most = 0, running = true;
    const sampler = (async () => {
      while (running) {
        most = Math.max(most, anonymous(pid));
        await sleep(20);
      }
    })();
    await Promise.all(words.map((_, i) => server.stream({ ...ask(i), max_tokens: 24, ignore_eos: true })));
    running = false;
    await sampler;
    const info = JSON.parse(execFileSync(program('sluice'), ['info', model, '--json', '--backend', 'cpu', ...limits]));
    assert.equal(info.plan.expert_cache_bytes, cache);
    assert.ok(info.expert_bytes > 8 * cache, `${info.expert_bytes}`);
    assert.ok(most < info.plan.host_bytes, `${most} bytes of memory, ${info.plan.host_bytes} planned`);
    assert.ok(most < info.expert_bytes * 0.75, `${most} bytes of memory, the experts alone have ${info.expert_bytes}`);
    t.diagnostic(`${(most / 1e6).toFixed(0)} MB of memory for ${(info.file_bytes / 1e6).toFixed(0)} MB of model`);
    assert.equal(majorFaults(pid) - faults, 0, 'weights are read, not faulted in');
    assert.ok(await server.metric('expert_evictions_total') > 0);
  } finally {
    await server.stop();
  }
});
