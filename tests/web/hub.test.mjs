// The search on the hub on the admin's page: what runs here is seen beside each model, and one press downloads it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { demo, eventually } from '../api/harness.mjs';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { noBrowser, openHouse } from './page.mjs';

const opts = { skip: noBrowser };
let house, hub, page;
before(async () => {
  if (noBrowser) return;
  const files = modelFiles(demo);
  hub = await startHub(files, { blobs: true, others: { 'lab/tiny-other': { 'config.json': { data: Buffer.from('{"model_type": "other"}') } } } });
  house = await openHouse({ args: ['--hub', hub.url] });
  page = await house.page();
});
after(async () => { await house?.close(); hub?.stop(); });

test('a word finds models, each says whether it runs and how fast, and one is downloaded with its bar', opts, async () => {
  await page.goto(`${house.server.url}/admin#/models`);
  await page.fill('#hub-text', 'tiny');
  await page.press('#hub-text', 'Enter');
  const rows = page.locator('.hub-list li');
  await rows.locator('.fit-unsupported').waitFor();
  assert.match(await rows.nth(0).innerText(), /lab\/tiny\n.*MB · 1,000 downloads\nFits\nabout [\d.,]+–[\d.,]+ tokens\/s\nDownload/);
  assert.match(await rows.nth(1).innerText(), /lab\/tiny-other\n[^]*Not supported/);
  assert.equal(await rows.nth(1).getByRole('button').count(), 0, 'what can\'t run is not offered');
  hub.fault = (req) => (req.method === 'GET' && /safetensors/.test(req.url) ? { slow: 1000 } : null);
  await page.getByRole('button', { name: 'Download hf.co/lab/tiny' }).click();
  await page.getByText('Downloading hf.co/lab/tiny…').waitFor();
  await page.locator('.pull progress[value]').waitFor();
  await eventually(async () => assert.ok(await rows.nth(0).getByRole('button').isDisabled(), 'one at a time'));
  hub.fault = () => null;
  await page.getByRole('button', { name: 'Cancel download' }).click();
  await page.getByText('Files received so far are kept').waitFor();
  await rows.nth(0).getByRole('button').click();
  await page.getByText('hf.co/lab/tiny is downloaded').waitFor();
  await page.getByRole('button', { name: 'Load tiny' }).waitFor();
});

test('what was found is there after a reload, in the reader\'s language', opts, async () => {
  await page.evaluate(() => localStorage.setItem('language', 'de'));
  const german = await (await house.browser.newContext({ storageState: await page.context().storageState(), locale: 'de-DE' })).newPage();
  await german.goto(`${house.server.url}/admin#/models`);
  await german.locator('.hub-list .fit-fits').waitFor();
  assert.match(await german.locator('.hub-list').innerText(), /Passt\netwa [\d.,]+–[\d.,]+ Tokens\/s/);
  await german.context().close();
  await page.evaluate(() => localStorage.removeItem('language'));
});

test('nothing found and a hub that is out of reach are said', opts, async () => {
  await page.fill('#hub-text', 'nothing-of-this-name');
  await page.press('#hub-text', 'Enter');
  await page.getByText('No models found').waitFor();
  hub.search = () => 'not JSON';
  await page.fill('#hub-text', 'broken');
  await page.press('#hub-text', 'Enter');
  const wrong = page.locator('[role=status] .form-error');
  await wrong.waitFor();
  assert.match(await wrong.innerText(), /^The search failed: \w/);
});

test('no script failed and nothing was refused', opts, () => assert.deepEqual(house.problems, []));
