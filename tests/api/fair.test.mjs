// Nobody's requests stop anybody else's: slots are shared by time, the queue and the number of answers have a part for each user.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, start } from './harness.mjs';

const none = { authorization: null };
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const endless = { messages, ignore_eos: true, max_tokens: 4000, temperature: 1, seed: 1 };
let s, bob;
before(async () => {
  s = await start({ args: ['--slots', '16', '--ctx', '4096', '--max-queue', '64'] });
  await setting({ sign_up: 'open' });
  const made = await s.json('POST', '/api/sign-up', { name: 'bob', password: 'a long password' }, none);
  const session = { ...none, cookie: made.headers.get('set-cookie').split(';')[0], 'x-csrf-token': made.body.csrf };
  const { key } = (await s.json('POST', '/api/keys', { name: 'k' }, session)).body;
  bob = { id: made.body.user.id, auth: { authorization: `Bearer ${key}` } };
});
after(() => s?.stop());

const setting = async (change) => assert.equal((await s.json('PATCH', '/api/admin/settings', change)).status, 200);
const jobs = async () => [await s.metric('num_requests_running'), await s.metric('num_requests_waiting')];

const until = (what, holds) => eventually(async () => {
  const now = await jobs();
  assert.ok(holds(now), `${what}: ${now}`);
});

/** A request of the admin's that streams until `stop` is called. */
function hold(body) {
  const control = new AbortController(), held = { stop: () => control.abort() };
  held.answer = fetch(`${s.url}/v1/chat/completions`, { method: 'POST', signal: control.signal, body: JSON.stringify({ stream: true, ...body }),
    headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' } });
  held.ended = held.answer.then((r) => r.text()).catch(() => {});
  return held;
}

async function holdAllSlotsTwice() {
  const first = hold({ ...endless, n: 16 });
  await until('all slots are taken', ([running]) => running === 16);
  const second = hold({ ...endless, n: 16 });
  await until('16 run and 16 wait', ([running, waiting]) => running === 16 && waiting === 16);
  return [first, second];
}

async function release(...all) {
  all.forEach((h) => h.stop());
  await Promise.all(all.map((h) => h.ended));
  await until('everything ends', ([running, waiting]) => running + waiting === 0);
}

const short = () => s.chat({ messages, max_tokens: 5, ignore_eos: true }, bob.auth);

test('16 endless answers of one user do not keep another from 5 tokens', async () => {
  const alice = hold({ ...endless, n: 16 });
  await until('all slots are taken', ([running]) => running === 16);
  const before = await s.metric('generation_tokens_total');
  for (let i = 0; i < 3; i++) {
    const r = await short();
    assert.equal(r.status, 200, r.text);
    assert.equal(r.body.usage.completion_tokens, 5);
  }
  const meanwhile = await s.metric('generation_tokens_total') - before; // a turn of 16 jobs is 1024, their whole answers are 64000
  assert.ok(meanwhile < 48000, `bob was served beside them, not after them: ${meanwhile} tokens`);
  await release(alice);
});

test('a user has 32 answers at one time unless the settings or the user\'s own limits say otherwise', async () => {
  const both = await holdAllSlotsTwice();
  const r = await s.chat({ messages, max_tokens: 1 });
  assert.equal(r.status, 429, r.text);
  assert.match(r.body.error.message, /you may have 32 jobs at one time/);
  assert.ok(Number(r.headers.get('retry-after')) >= 1);
  assert.equal((await short()).status, 200);
  await release(...both);
  await setting({ user_max_jobs: 4 });
  const five = (headers) => s.chat({ messages, max_tokens: 1, n: 5 }, headers);
  assert.equal((await five()).status, 429);
  const patch = (limits) => s.json('PATCH', `/api/users/${bob.id}`, { limits });
  assert.equal((await patch({ max_jobs: 6 })).status, 200);
  assert.equal((await five(bob.auth)).status, 200, 'the user\'s own limit overrides');
  assert.equal((await patch(null)).status, 200);
  assert.equal((await five(bob.auth)).status, 429);
  assert.equal((await s.json('GET', '/api/account/limits', undefined, bob.auth)).body.limits.max_jobs, 4);
  await setting({ user_max_jobs: 0 });
  assert.equal((await five()).status, 200, '0 is no limit');
});

test('one user fills a quarter of the queue, and others are still admitted', async () => {
  await setting({ user_max_jobs: 0 });
  const both = await holdAllSlotsTwice();
  const r = await s.chat({ messages, max_tokens: 1 });
  assert.equal(r.status, 429, r.text);
  assert.equal(r.body.error.code, 'rate_limit_exceeded');
  assert.equal(r.body.error.param, null);
  assert.match(r.body.error.message, /^16 of your jobs are waiting already/);
  assert.ok(Number(r.headers.get('retry-after')) >= 1);
  const other = await short();
  assert.equal(other.status, 200, other.text);
  await release(...both);
});
