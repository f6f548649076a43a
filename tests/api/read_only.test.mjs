// A disk that takes no writes any more, as one mounted read-only after an error of its own: writes are refused in words,
// what is there is read, a running answer goes on and is kept once writes work again. Where chattr +i does not work, skipped.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { follow } from './answers.mjs';
import { eventually, order, start } from './harness.mjs';

const chattr = (flag, ...files) => spawnSync('chattr', [flag, ...files]).status === 0;
const probe = path.join(os.tmpdir(), `slr-${process.pid}`);
writeFileSync(probe, '');
const can = chattr('+i', probe) && chattr('-i', probe);
rmSync(probe);

let s, files = [];
after(async () => {
  chattr('-i', ...files);
  await s?.stop();
});

test('a read-only disk is 507 in words, and nothing is lost by it', { skip: !can && 'no right to make files immutable' }, async () => {
  s = await start({ fake: true });
  files = ['sluice.db', 'sluice.db-wal'].map((f) => path.join(s.dir, 'state', f));
  const text = 'one two three four five six seven eight nine ten '.repeat(3).trim();
  const make = async (title) => (await s.json('POST', '/api/conversations', { title })).body.id;
  const id = await make('before'), other = await make('empty');
  let began;
  const first = new Promise((done) => { began = done; });
  const answer = s.request('POST', `/api/conversations/${id}/messages`, { content: order({ text, token_ms: 20 })[0].content })
    .then((r) => follow(r, ({ event }) => { if (event === 'delta') began(); }));
  await first;
  assert.ok(chattr('+i', ...files));
  const writes = {
    'a conversation': () => s.json('POST', '/api/conversations', { title: 'never' }),
    'a message': () => s.json('POST', `/api/conversations/${other}/messages`, { content: 'never' }),
    'a change': () => s.json('PATCH', `/api/conversations/${id}`, { title: 'never' }),
    'a prompt': () => s.json('POST', '/api/prompts', { name: 'p', text: 'never' }),
    'a login': () => s.json('POST', '/api/login', s.admin, { authorization: null }),
  };
  for (const [what, write] of Object.entries(writes)) {
    const r = await write();
    assert.deepEqual([r.status, r.body?.error?.code], [507, 'disk_read_only'], `${what}: ${r.text.slice(0, 300)}`);
  }
  for (const where of ['/api/conversations', `/api/conversations/${id}`, '/api/status', '/v1/models']) assert.equal((await s.json('GET', where)).status, 200, where);
  assert.equal((await s.chat({ messages: order({ text: 'still here' }) })).status, 200, 'what needs no row works');
  assert.ok(chattr('-i', ...files));
  const whole = await answer;
  assert.deepEqual([whole.names.at(-1), whole.content.trim()], ['done', text]);
  const row = await eventually(async () => {
    const now = (await s.json('GET', `/api/conversations/${id}`)).body.messages[1];
    assert.notEqual(now.status, 'running');
    return now;
  });
  assert.deepEqual([row.status, row.content.trim()], ['done', text]);
  assert.equal((await s.json('GET', '/api/prompts')).body.items.length, 0);
  assert.equal((await writes['a prompt']()).status, 201);
});
