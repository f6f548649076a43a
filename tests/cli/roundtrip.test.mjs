// Out and in again: an export read into an empty account gives the same bytes, and takes no memory for the history's
// length (a small one here; 1 GB by hand).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createReadStream, createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { after, before, test } from 'node:test';
import { command, sluice } from './sluice.mjs';

const dir = mkdtempSync(path.join(tmpdir(), 'sluice-trip-'));
const state = path.join(dir, 'state');
const file = path.join(dir, 'history.json');
after(() => rmSync(dir, { recursive: true, force: true }));

const odd = 'ä你🙂 "quoted" \\ </script>\u2028 tab\t ';
const words = `${odd}${'the quick brown fox jumps over the lazy dog. '.repeat(30)}`;
const time = 1700000000000;

function message(id, parent, i) {
  const user = i % 2 === 0;
  return JSON.stringify({ id, parent, role: user ? 'user' : 'assistant', status: 'done', content: `${i} ${words}`, reasoning: user ? '' : 'hm', tool_calls: null, tool_call_id: null,
    error: null, model: user ? null : 'm', usage: user ? null : { prompt_tokens: i, cached_tokens: 1, completion_tokens: 2 }, timings: user ? null : { ttft_ms: 1.25 },
    created_at: time + i, finished_at: time + i, attachments: [] });
}

/** One long conversation and many short ones, written as our own export writes them: about 12 MB. */
before(async () => {
  const out = createWriteStream(file);
  out.write(`{"schema":"sluice-export","version":1,"exported_at":${time},"conversations":[`);
  for (let c = 0; c < 700; c++) {
    const n = c === 0 ? 4000 : 4;
    const head = { key: c.toString(16).padStart(32, '0'), title: `${odd}${c}`, created_at: time + c, updated_at: time + 2 * c, pinned: c % 7 === 0, archived: c % 5 === 0, trashed_at: null,
      fork_of: c === 9 ? (8).toString(16).padStart(32, '0') : null, tags: c % 3 ? [] : ['Alpha', 'beta'], settings: c % 2 ? {} : { temperature: 0.5, system: odd }, leaf: n };
    const messages = Array.from({ length: n }, (_, i) => message(i + 1, i === 0 ? null : n === 4 && i === 3 ? 1 : i, n === 4 && i === 3 ? 1 : i));
    out.write(`${c ? ',' : ''}\n${JSON.stringify(head).slice(0, -1)},"messages":[\n ${messages.join(',\n ')}]}`.replaceAll('\u2028', '\\u2028'));
  }
  out.end(']}\n');
  await finished(out);
  assert.equal((await sluice(['user', 'add', 'ada', '--create', '--state', state])).code, 0);
});

const peak = (pid) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;

test('export, import, export: the same bytes, in 50 MB of memory', async () => {
  const size = statSync(file).size;
  assert.ok(size > 8e6, `${size}`);
  const read = await sluice(['import', file, '--user', 'ada', '--state', state]);
  assert.equal(read.code, 0, read.err);
  const child = spawn(command, ['export', 'ada', '--state', state]);
  let got = 0;
  let mb = 0;
  const want = createReadStream(file, { highWaterMark: 1 << 20 })[Symbol.asyncIterator]();
  let held = Buffer.alloc(0);
  for await (const piece of child.stdout) {
    while (held.length < piece.length) {
      const next = await want.next();
      if (next.done) break;
      held = Buffer.concat([held, next.value]);
    }
    let mine = piece;
    let theirs = held.subarray(0, piece.length);
    if (!got) [mine, theirs] = [mine, theirs].map((b) => Buffer.from(b.toString('latin1').replace(/"exported_at":\d+/, '"exported_at":0'), 'latin1'));
    assert.ok(mine.equals(theirs), `differs within ${piece.length} bytes from ${got}`);
    held = held.subarray(piece.length);
    got += piece.length;
    if (!mb && got > size - (256 << 10)) mb = peak(child.pid); // the pipe holds 64 KB: it is still at work
  }
  assert.equal(got, size);
  assert.ok(mb > 1 && mb < 50, `${mb} MB`);
  console.log(`# ${(size / 1e6).toFixed(0)} MB exported in ${mb.toFixed(0)} MB`);
});
