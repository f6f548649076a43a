// Settings: where values come from, presets, defaults, the server's words at the field; prompts, slash commands, the meter.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answered, noBrowser, openHouse, say, until } from './page.mjs';

const opts = { skip: noBrowser };
const order = (o) => `fake:${JSON.stringify(o)}`;
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

const fresh = async () => { await page.goto(`${house.server.url}/#/`); await page.waitForSelector('#welcome:not([hidden])'); };
const open = async () => { await page.click('#settings'); await page.waitForSelector('#settings-dialog[open]'); };
const save = async () => { await page.click('#settings-form .primary'); await until(page, () => !document.querySelector('#settings-dialog').open); };
const origin = (name) => page.textContent(`[data-field=${name}] .origin`);
const current = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;

test('each value says where it comes from', opts, async () => {
  await fresh();
  await open();
  assert.match(await origin('temperature'), /^model default: [\d.]+$/);
  await page.fill('[name=temperature]', '0.4');
  assert.equal(await origin('temperature'), 'this chat');
  await page.click('#settings-defaults');
  await until(page, () => document.querySelector('[data-field=temperature] .origin').textContent === 'my default');
  await page.fill('[name=top_p]', '0.5');
  await page.fill('#preset-name', 'Strict');
  await page.click('#preset-save');
  await until(page, () => document.querySelector('[data-field=top_p] .origin').textContent === 'preset Strict');
  await save();
  await say(page, order({ text: 'x' }));
  await answered(page);
  const { settings } = await current();
  assert.deepEqual([settings.temperature, settings.top_p, settings.preset], [0.4, 0.5, 'Strict']);
  assert.deepEqual((await house.server.json('GET', '/api/presets')).body.items[0].settings, { temperature: 0.4, top_p: 0.5 });
  await fresh();
  await open();
  assert.equal(await page.inputValue('[name=temperature]'), '0.4', 'a new chat begins with the defaults');
  assert.equal(await page.inputValue('[name=top_p]'), '');
  await page.selectOption('#settings-preset', 'Strict');
  assert.equal(await page.inputValue('[name=top_p]'), '0.5', 'applied');
  await page.fill('#preset-name', 'Renamed');
  await page.click('#preset-rename');
  await until(page, () => document.querySelector('#settings-preset').value === 'Renamed');
  await page.click('#preset-delete');
  await until(page, () => document.querySelectorAll('#settings-preset option').length === 1);
  await page.keyboard.press('Escape');
  await house.server.json('PATCH', '/api/defaults', { temperature: null });
});

test('what the server refuses is said at the field, and nothing is lost', opts, async () => {
  await fresh();
  await say(page, order({ text: 'x' }));
  await answered(page);
  await open();
  await page.fill('[name=json_schema]', '{"type": ');
  await page.click('#settings-form .primary');
  assert.match(await page.textContent('#settings-problem'), /no JSON/);
  await page.fill('[name=json_schema]', '{"type": "nonsense"}');
  await page.click('#settings-form .primary');
  await page.waitForSelector('[name=json_schema][aria-invalid=true]');
  assert.ok((await page.textContent('#settings-problem')).length > 10);
  await page.fill('[name=json_schema]', '{"type": "object"}');
  await page.fill('[name=stop]', 'END\ntwo\\nlines');
  await save();
  const { settings } = await current();
  assert.deepEqual([settings.json_schema, settings.stop], [{ type: 'object' }, ['END', 'two\nlines']]);
  await open();
  assert.equal(await page.inputValue('[name=stop]'), 'END\ntwo\\nlines');
  await page.keyboard.press('Escape');
});

test('nothing failed in the page meanwhile', opts, () => { assert.deepEqual(house.problems, []); });
