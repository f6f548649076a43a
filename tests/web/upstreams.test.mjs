// Models of other servers in the page: the menu in the message box, a chat that remembers, an answer that says whose it is; and the
// operator's section about these servers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { png } from '../api/files.mjs';
import { FakeUpstream, addUpstream } from '../api/upstream_rig.mjs';
import { answered, becomes, lastAnswer, noBrowser, openHouse, order, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page, up;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  up = await FakeUpstream.open({ words: ['From ', 'far ', 'away.'] });
  await addUpstream(house.server, 'near', up.url, ['far-model']);
  page = await house.page();
});
after(async () => { await house?.close(); await up?.stop(); });

const pick = async (name) => {
  await page.click('#model');
  await page.getByRole('menuitemradio', { name: new RegExp(name) }).click();
};

test('a model of another server is chosen in the message box, and its answer says so', opts, async () => {
  await until(page, () => document.querySelector('#model:not([hidden]) .model-name')?.textContent);
  await pick('far-model');
  await until(page, () => document.querySelector('#model .model-name').textContent === 'far-model');
  await say(page, 'Hello');
  assert.equal((await answered(page)).text.trim(), 'From far away.');
  assert.match(await lastAnswer(page).locator('.about-model').innerText(), /far-model/);
  await page.reload(); // the chat remembers it
  await until(page, () => document.querySelector('#model .model-name')?.textContent === 'far-model');
  await say(page, 'Again');
  await answered(page);
  assert.equal(up.seen.length, 2);
  await page.click('#model');
  await page.getByRole('menuitemradio').first().click();
  await until(page, () => document.querySelector('#model .model-name').textContent !== 'far-model');
  assert.deepEqual(house.problems, []);
});

test('what is sent right after a choice goes to the model that was chosen', opts, async () => {
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
  let release;
  const held = new Promise((done) => { release = done; });
  await page.route('**/api/defaults', async (route) => { await held; await route.continue(); }, { times: 1 }); // the choice is on its way
  await pick('far-model');
  await page.fill('#composer-text', 'Hello');
  await page.press('#composer-text', 'Enter');
  await page.press('#composer-text', 'Enter'); // nothing is left to be sent
  release();
  assert.equal((await answered(page)).text.trim(), 'From far away.');
  assert.equal(await page.locator('.message').count(), 2);
  await page.locator('#model').click();
  await page.getByRole('menuitemradio').first().click();
  await until(page, () => document.querySelector('#model .model-name').textContent !== 'far-model');
});

test('what is sent after a choice that fails goes to no other model, and to its own chat also from elsewhere', opts, async () => {
  const during = async (where, end, choice) => { // something is done while the choice is on its way
    let release;
    const held = new Promise((done) => { release = done; });
    await page.route(where, async (route) => { await held; await end(route); }, { times: 1 });
    await pick('far-model');
    await page.fill('#composer-text', 'Hello');
    await page.press('#composer-text', 'Enter');
    await choice();
    release();
  };
  const fresh = async () => { await page.goto(`${house.server.url}/#/`); await page.waitForSelector('#welcome:not([hidden])'); };
  await fresh();
  await during('**/api/defaults', (route) => route.abort(), () => until(page, () => document.querySelector('#composer-text').value === ''));
  await until(page, () => document.querySelector('#composer-text').value === 'Hello');
  assert.equal(await page.locator('.message').count(), 0);
  await say(page, order({ text: 'Near.' }));
  await answered(page);
  const [, id] = /#\/c\/(\w+)/.exec(page.url());
  await during(`**/api/conversations/${id}`, (route) => route.continue(), fresh);
  await becomes(async () => (await house.server.json('GET', `/api/conversations/${id}`)).body.messages.map((m) => m.content).slice(2), ['Hello', 'From far away.']);
  assert.equal(await page.locator('.message').count(), 0);
});

test('a picture goes along where the chosen model sees, and says so where it does not', opts, async () => {
  const model = (await house.server.json('GET', '/api/admin/registry')).body.items.find((m) => m.name === 'far-model');
  assert.equal((await house.server.json('PATCH', `/api/admin/registry/${model.id}`, { vision: true })).status, 200);
  await page.setInputFiles('#attach-input', { name: 'dot.png', mimeType: 'image/png', buffer: png });
  await page.locator('#files .file[data-state="image"]').waitFor(); // the server's own model reads text
  await pick('far-model');
  await page.locator('#files .file[data-state="ready"]').waitFor();
  await say(page, 'What is it?');
  assert.equal((await answered(page)).text.trim(), 'From far away.');
  assert.equal(up.seen.at(-1).body.messages.at(-1).content[0].image_url.url, `data:image/png;base64,${png.toString('base64')}`);
  assert.deepEqual(house.problems, []);
});

test('an upstream that is down is told in the reader\'s words', opts, async () => {
  up.knobs = { status: 500 };
  await say(page, 'Hello?');
  assert.equal((await answered(page)).status, 'error');
  await until(page, () => document.body.innerText.includes('reported an error'));
  up.knobs = {};
});

test('the operator adds, tests, drains and removes one', opts, async () => {
  await page.goto(`${house.server.url}/admin#/upstreams`);
  await page.reload();
  await page.waitForSelector('#admin:not([hidden])');
  assert.match(await page.locator('tr', { hasText: 'near' }).locator('.upstream-error').innerText(), /500/); // the answer before
  await page.getByLabel('Name').fill('second');
  await page.getByLabel('Address').fill(up.url);
  await page.getByLabel('Models').fill('mine=theirs');
  await page.getByLabel('API key').fill('sk-secret');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const row = page.locator('tbody tr', { hasText: 'second' });
  await row.getByText('Ready').waitFor();
  assert.ok(!(await page.content()).includes('sk-secret'));
  await row.getByRole('button', { name: 'Test' }).click();
  await page.getByText(/second answered in/).waitFor();
  assert.equal(up.seen.at(-1).body.model, 'theirs');
  await row.getByRole('button', { name: 'Drain' }).click();
  await row.getByText('Drained').waitFor();
  await row.getByRole('button', { name: 'Remove' }).click();
  await page.locator('#confirm-dialog').getByRole('button', { name: 'Remove' }).click();
  await until(page, () => !document.querySelector('tbody')?.innerText.includes('second'));
  assert.deepEqual(house.problems, []);
});
