// Text that is deleted while a request that has read it waits for the engine is not on the disk afterwards.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { atRest, eventually, start } from './harness.mjs';

const words = 'The river ran past seven mills and three old bridges before it came to the town. '.repeat(8); // 5 to 6 blocks
let s;
before(async () => { s = await start({ args: ['--threads', '1'] }); });
after(() => s?.stop());

const metric = (name) => s.metric(name.startsWith('num_') ? name : `prompt_cache_${name}`);
const ok = (r) => { assert.ok(r.status < 300, r.text); return r.body; };

const until = (what, good) => eventually(async () => assert.ok(await good(), `never: ${what}\n${s.log.slice(-2000)}`), 100);

/** The engine answers nothing while `during` runs. */
async function whileStopped(ask, during) {
  const pid = s.pid('engine');
  process.kill(pid, 'SIGSTOP');
  try {
    const asked = ask();
    asked.catch(() => {});
    await until('a worker has taken it', async () => await s.metric('worker_processes', 'pool="stream",state="busy"') > 0);
    await atRest(s.childrenOf(s.pid('workers-stream'))); // it has read its rows, and waits for the engine
    await during();
    process.kill(pid, 'SIGCONT');
    return await asked;
  } finally { process.kill(pid, 'SIGCONT'); }
}

/** Blocks that are listed once all that was stored is either listed or gone. */
async function listed(stored) {
  await until('stored', async () => await metric('stored_total') >= stored + 5);
  await until('listed or gone', async () => await metric('rows') === await metric('records') && await metric('removals') === 0);
  return metric('rows');
}

for (const deleted of [true, false]) test(`an item of a conversation of /v1 that is ${deleted ? '' : 'not '}deleted before its job is submitted`, async () => {
  const { id } = ok(await s.json('POST', '/v1/conversations', { items: [{ type: 'message', role: 'user', content: `${deleted} ${words}` }] }));
  const [item] = ok(await s.json('GET', `/v1/conversations/${id}/items`)).data, stored = await metric('stored_total'), rows = await metric('rows');
  ok(await whileStopped(() => s.json('POST', '/v1/responses', { conversation: id, input: 'And then?', max_output_tokens: 16 }),
    async () => { if (deleted) ok(await s.json('DELETE', `/v1/conversations/${id}/items/${item.id}`)); }));
  const now = await listed(stored);
  if (deleted) assert.equal(now, rows);
  else assert.ok(now >= rows + 5, `${now} of ${rows}`);
});

test('a chat of the page that is deleted before its answer is submitted; a message above an answer that runs stays', async () => {
  const c = ok(await s.json('POST', '/api/conversations', { settings: { titles: false } })), post = (body) => s.json('POST', `/api/conversations/${c.id}/messages`, body);
  ok(await post({ content: 'Hi', settings: { max_tokens: 4, titles: false } }));
  const list = async () => ok(await s.json('GET', `/api/conversations/${c.id}`)).messages;
  await until('answered', async () => (await list()).every((m) => m.status !== 'running'));
  const stored = await metric('stored_total'), rows = await metric('rows'), [first] = await list();
  await whileStopped(() => post({ content: words, settings: { max_tokens: 4 } }), async () => {
    assert.equal((await s.json('DELETE', `/api/messages/${first.id}`)).status, 409);
    ok(await s.json('DELETE', `/api/conversations/${c.id}`));
  });
  await until('stored, or cancelled', async () => await metric('stored_total') >= stored + 5 || await metric('num_requests_running') === 0);
  await until('listed or gone', async () => await metric('rows') === await metric('records') && await metric('removals') === 0);
  assert.ok(await metric('rows') <= rows);
});
