// Settings: where values come from, presets, defaults, the server's words at the field; prompts, slash commands, the meter.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../api/harness.mjs';
import { axe, RULES } from './axe.mjs';
import { answered, becomes, closeSettings, noBrowser, openHouse, openSettings, order, reads, say, until } from './page.mjs';

const opts = { skip: noBrowser };
let house, page;
before(async () => {
  if (noBrowser) return;
  house = await openHouse({ fake: true });
  page = await house.page();
});
after(async () => { await house?.close(); });

const fresh = async () => { await page.goto(`${house.server.url}/#/`); await page.waitForSelector('#welcome:not([hidden])'); };
const open = async () => {
  await page.click('#settings');
  await page.waitForSelector('#settings-dialog[open] #settings-form:not([aria-busy])'); // with its values
  await page.evaluate(() => { document.querySelector('.settings-advanced').open = true; });
};
const save = async () => { await page.click('#settings-form .primary'); await until(page, () => !document.querySelector('#settings-dialog')); };
const origin = (name) => page.textContent(`[data-field=${name}] .origin`);
const current = async () => (await house.server.json('GET', `/api/conversations/${/#\/c\/(\w+)/.exec(page.url())[1]}`)).body;

test('each value says where it comes from', opts, async () => {
  await fresh();
  await open();
  await reads(page.locator('[data-field=temperature] .origin'), /^Model default: [\d.]+$/);
  await page.fill('[name=temperature]', '0.4');
  assert.equal(await origin('temperature'), 'This chat');
  const slider = page.getByRole('slider', { name: 'Temperature' });
  assert.equal(await slider.inputValue(), '0.4');
  await slider.focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.inputValue('[name=temperature]'), '0.45');
  await page.getByRole('button', { name: 'Reset to defaults' }).click();
  assert.deepEqual([await page.inputValue('[name=temperature]'), await page.locator('[data-field=temperature]').getAttribute('data-changed')], ['', null]);
  await page.fill('[name=temperature]', '0.4');
  await page.click('#settings-defaults');
  await until(page, () => document.querySelector('[data-field=temperature] .origin').textContent === 'My default');
  await page.fill('[name=top_p]', '0.5');
  await page.fill('#preset-name', 'Strict');
  await page.click('#preset-save');
  await until(page, () => document.querySelector('[data-field=top_p] .origin').textContent === 'Preset Strict');
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
  assert.match(await page.textContent('#settings-problem'), /Invalid JSON/);
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

test('a prompt of the library is used by its name, and asks for its variables', opts, async () => {
  await fresh();
  await page.fill('#composer-text', '/pro');
  await page.waitForSelector('#slash-list:not([hidden])');
  assert.equal(await page.getAttribute('#composer-text', 'aria-activedescendant'), 'slash-0');
  await page.keyboard.press('Enter');
  await page.fill('#prompts-form input', 'translate');
  await page.fill('#prompts-form textarea', 'Into {{language}}: {{ text }} ({{language}})');
  await page.click('#prompts-form .primary');
  await until(page, () => document.querySelector('.settings-prompts li code')?.textContent === '/translate');
  await page.fill('#prompts-form input', 'translate');
  await page.fill('#prompts-form textarea', 'x');
  await page.click('#prompts-form .primary');
  await page.waitForSelector('.settings-prompts .form-error:not([hidden])');
  await closeSettings(page);
  await page.fill('#composer-text', '/');
  await page.waitForSelector('#slash-list:not([hidden])');
  assert.ok(await page.locator('#slash-list li').count() > 5);
  await page.fill('#composer-text', '/tra');
  await until(page, () => document.querySelectorAll('#slash-list li').length === 1);
  await page.keyboard.press('Tab');
  await page.fill('#prompt-dialog [name=language]', 'German');
  await page.fill('#prompt-dialog [name=text]', '$& cat');
  await page.click('#prompt-dialog .primary');
  assert.equal(await page.inputValue('#composer-text'), 'Into German: $& cat (German)');
  await page.fill('#composer-text', '');
});

test('slash commands are run, not sent', opts, async () => {
  await fresh();
  await page.fill('#composer-text', '/system Answer in one word.');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('.toast');
  await say(page, order({ text: 'Yes.' }));
  await answered(page);
  const c = await current();
  assert.equal(c.settings.system, 'Answer in one word.');
  assert.equal(c.messages.length, 2);
  await page.fill('#composer-text', '/');
  await page.waitForSelector('#slash-list:not([hidden])');
  await page.keyboard.press('Escape');
  assert.ok(await page.isHidden('#slash-list'));
  await page.fill('#composer-text', '/new');
  await page.waitForSelector('#slash-list:not([hidden])');
  await page.press('#composer-text', 'Enter');
  await page.waitForSelector('#welcome:not([hidden])');
});

test('the meter says what the engine then counts', opts, async () => {
  await fresh();
  const draft = order({ text: 'Counted.' });
  await page.fill('#composer-text', draft);
  await page.waitForSelector('#meter:not([hidden])');
  const before = Number(await page.getAttribute('#meter', 'data-used'));
  const status = page.waitForResponse('**/api/status');
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // as when the tab is looked at again
  await status;
  await page.evaluate(() => new Promise((drawn) => setTimeout(drawn, 200)));
  assert.ok(await page.isVisible('#meter'), "the engine's state does not take a draft's figure away");
  await page.press('#composer-text', 'Enter');
  await answered(page);
  const { usage } = (await current()).messages[1];
  assert.equal(before, usage.prompt_tokens);
  await until(page, `document.querySelector('#meter').dataset.used === '${usage.prompt_tokens + usage.completion_tokens}'`);
  await page.fill('#composer-text', 'word '.repeat(8000));
  await page.waitForSelector('#meter[data-full]');
  await page.fill('#composer-text', '');
  await page.waitForSelector('#meter:not([data-full])');
  await page.evaluate(() => { location.hash = '#/'; });
  await page.waitForSelector('#welcome:not([hidden])');
  assert.ok(await page.isHidden('#meter'), 'the figure of the chat before does not stay');
});

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

test('one window has all settings: by its key, by an address, by the keyboard alone', opts, async () => {
  await fresh();
  await page.keyboard.press('Control+,');
  await page.waitForSelector('#settings-window[open] .settings-general[data-drawn]');
  await page.focus('.settings-tab[aria-selected=true]');
  await page.keyboard.press('ArrowDown');
  await page.waitForSelector('.settings-appearance[data-drawn]');
  assert.deepEqual(await page.evaluate(() => [document.activeElement.getAttribute('role'), document.activeElement.getAttribute('aria-selected'), document.activeElement.getAttribute('aria-controls')]), ['tab', 'true', 'settings-panel']);
  assert.equal(await page.getAttribute('#settings-panel', 'aria-labelledby'), 'settings-tab-appearance');
  await page.keyboard.press('End');
  await page.waitForSelector('.settings-keyboard[data-drawn]');
  await page.keyboard.press('Home');
  await page.waitForSelector('.settings-general[data-drawn]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#settings-window', { state: 'detached' });
  const here = page.url();
  await openSettings(page, 'security');
  assert.equal(page.url(), here, 'the chat keeps its address');
  await page.reload();
  await page.goto(`${house.server.url}/#settings/keys`);
  await page.waitForSelector('.settings-keys[data-drawn]');
  await page.goto('about:blank');
  await page.goto(`${house.server.url}/#settings/data`); // as the first thing of all
  await page.waitForSelector('.settings-data[data-drawn]');
  await closeSettings(page);
});

test('the search finds a setting by its words, in any language, and points at it', opts, async () => {
  await openSettings(page, 'general');
  await page.fill('.settings-search input', 'temper');
  assert.deepEqual(await page.locator('.settings-result b').allInnerTexts(), ['Temperature']);
  await page.keyboard.press('Enter');
  await until(page, () => document.activeElement?.name === 'temperature');
  assert.ok(await page.isVisible('[name=temperature]'), 'what was folded away is open');
  await page.fill('.settings-search input', 'qqq');
  assert.match(await page.innerText('.settings-found'), /No results/);
  await page.keyboard.press('Escape'); // first the words
  assert.ok(await page.isVisible('.settings-tabs'));
  await closeSettings(page);
  for (const [locale, typed, label, section] of [['de-DE', 'zwei faktor', 'Zwei-Faktor-Authentifizierung', 'security'], ['fr-FR', 'double auth', 'Double authentification', 'security'], ['fr-FR', 'theme sombre', 'Thème', 'appearance']]) {
    const other = await house.page({ locale });
    await openSettings(other, 'general');
    await other.fill('.settings-search input', typed);
    assert.equal(await other.locator('.settings-result b').first().innerText(), label);
    await other.locator('.settings-result').first().click();
    await other.waitForSelector(`.settings-${section}[data-drawn]`);
    await other.context().close();
  }
});

test('on a phone: the list, a section, and back', opts, async () => {
  const phone = await house.page(PHONE);
  await phone.click('#sidebar-open');
  await phone.click('#account');
  await phone.getByRole('menuitem', { name: /^Settings/ }).click();
  await phone.waitForSelector('#settings-window[open]');
  assert.ok(await phone.isVisible('.settings-tabs'));
  assert.ok(await phone.isHidden('.settings-main'));
  await phone.getByRole('tab', { name: 'Appearance' }).click();
  await phone.waitForSelector('.settings-appearance[data-drawn]');
  assert.ok(await phone.isHidden('.settings-tabs'));
  await phone.locator('.theme-card', { hasText: 'Dark' }).click();
  assert.equal(await phone.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await phone.locator('.segments-row label', { hasText: 'Large' }).click();
  assert.equal(await phone.evaluate(() => getComputedStyle(document.documentElement).fontSize), '18px');
  let bring; // the texts come late: what is remembered does not wait for them
  const brought = new Promise((resolve) => { bring = resolve; });
  await phone.route('**/strings/en.json', async (route) => { await brought; await route.continue(); });
  await phone.reload();
  assert.deepEqual(await phone.evaluate(() => [getComputedStyle(document.documentElement).fontSize, document.documentElement.dataset.theme]), ['18px', 'dark'], 'remembered');
  bring();
  await openSettings(phone, 'usage');
  await phone.click('.settings-back');
  assert.ok(await phone.isVisible('.settings-tabs'));
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await phone.context().close();
});

test('chat defaults and usage', opts, async () => {
  await openSettings(page, 'chat');
  await page.fill('[name=system]', 'Be brief.');
  await page.click('#settings-form .primary');
  await becomes(async () => (await house.server.json('GET', '/api/defaults')).body.system, 'Be brief.');
  await house.server.json('PATCH', '/api/defaults', { system: null });
  const bars = page.locator('.bars');
  await eventually(async () => { // what was used is written after the answers
    await openSettings(page, 'usage');
    const said = await bars.getAttribute('aria-label');
    const { items } = (await house.server.json('GET', '/api/usage')).body;
    const sum = items.reduce((n, u) => n + u.prompt_tokens + u.completion_tokens, 0);
    assert.match(said, new RegExp(`: ${sum.toLocaleString('en')} tokens on the last day`));
  });
  assert.equal(await bars.locator('.bars-hit').count(), 30);
  await closeSettings(page);
});

test('a new API key can end by itself', opts, async () => {
  await openSettings(page, 'keys');
  await page.fill('#keys-name', 'for a month');
  await page.selectOption('#keys-days', '30');
  await page.click('#keys-form .primary');
  await page.waitForSelector('#keys-new:not([hidden])');
  const { items } = (await house.server.json('GET', '/api/keys')).body;
  const days = (items.find((key) => key.name === 'for a month').expires_at - Date.now()) / 864e5;
  assert.ok(days > 29.9 && days <= 30, `${days} days`);
  assert.match(await page.locator('#keys-list li', { hasText: 'for a month' }).innerText(), /Expires [A-Z]/);
  assert.doesNotMatch(await page.locator('#keys-list li').first().innerText(), /Expires/);
  await closeSettings(page);
});

test('nothing failed in the page meanwhile', opts, () => { assert.deepEqual(house.problems, []); });

test('an action gets other keys by pressing them; what is taken or the browser’s is said; it holds on another device, and is taken back', opts, async () => {
  await fresh();
  await openSettings(page, 'keyboard');
  const keys = (run) => page.locator(`.key-button[data-run="${run}"]`);
  const press = async (run, combination) => { await keys(run).focus(); await page.keyboard.press('Enter'); await until(page, `document.querySelector('.key-button[data-run="${run}"]').hasAttribute('data-listening')`); await page.keyboard.press(combination); };
  const note = page.locator('.key-note:visible');
  const shown = async (run) => (await keys(run).innerText()).replace(/\s+/g, ' ').trim();
  await press('new', 'Control+t');
  assert.match(await note.innerText(), /Ctrl \+ T belongs to your browser/);
  await press('new', 'Control+c');
  assert.match(await note.innerText(), /needed for editing/);
  await press('new', 'ArrowDown');
  assert.match(await note.innerText(), /needed to get around/);
  await press('new', 'Escape');
  assert.equal(await shown('new'), 'Ctrl Shift O');
  assert.ok(await page.isVisible('#settings-window'), 'Escape ends the listening alone');
  await press('new', 'Control+Shift+y');
  await until(page, () => /Y$/.test(document.querySelector('.key-button[data-run=new]').innerText));
  await press('rename', 'Control+k'); // the palette's
  assert.match(await note.innerText(), /Command palette/);
  await page.keyboard.press('Enter'); // the focus is on what can be done about it
  await until(page, () => /K$/.test(document.querySelector('.key-button[data-run=rename]').innerText));
  assert.equal(await shown('palette'), 'None');
  await press('pin', 'Backspace');
  await until(page, () => document.querySelector('.key-button[data-run=pin]').innerText === 'None');
  assert.deepEqual((await house.server.json('GET', '/api/preferences')).body.shortcuts, { new: 'mod Shift y', rename: 'mod k', palette: '', pin: '' });
  assert.deepEqual(await axe(page, { type: 'tag', values: RULES }), []);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await axe(page, { type: 'rule', values: ['color-contrast'] }), []);
  await page.emulateMedia({ colorScheme: 'light' });
  await closeSettings(page);
  const other = await house.page(); // another device of this user
  await until(other, () => document.querySelector('#new-chat kbd').innerText === 'Ctrl ⇧ Y');
  await say(other, order({ text: 'x' }));
  await answered(other);
  await other.keyboard.press('Control+Shift+o');
  assert.match(other.url(), /#\/c\//, 'the old keys do nothing');
  await other.keyboard.press('Control+Shift+y');
  await other.waitForSelector('#welcome:not([hidden])');
  await other.keyboard.press('Control+k');
  assert.equal(await other.locator('#palette[open]').count(), 0);
  await other.context().close();
  await openSettings(page, 'keyboard');
  await page.getByRole('button', { name: 'Reset: Command palette' }).click(); // it takes them from who has them
  await until(page, () => /K$/.test(document.querySelector('.key-button[data-run=palette]').innerText));
  assert.equal(await shown('rename'), 'None');
  await page.click('#keys-reset');
  await until(page, () => document.querySelector('#keys-reset').disabled);
  assert.deepEqual([await shown('rename'), await shown('new')], ['F2', 'Ctrl Shift O']);
  await press('new', 'Control+Alt+e');
  await until(page, () => /E$/.test(document.querySelector('.key-button[data-run=new]').innerText));
  await closeSettings(page);
  const taken = (modifierAltGraph) => page.evaluate((altGr) => !document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '€', code: 'KeyE', ctrlKey: true, altKey: true, modifierAltGraph: altGr, bubbles: true, cancelable: true })), modifierAltGraph);
  const inTheWay = () => page.evaluate(() => [...document.querySelectorAll('dialog[open], .menu')].map((n) => n.id || n.className).join());
  assert.deepEqual([await inTheWay(), await page.innerText('#new-chat kbd')], ['', 'Ctrl Alt E']);
  assert.deepEqual([await taken(true), await taken(false), await inTheWay()], [false, true, ''], 'AltGr types a sign');
  await openSettings(page, 'keyboard');
  await page.route('**/api/preferences', (route) => route.abort());
  await page.click('#keys-reset');
  await page.locator('.toast').waitFor();
  assert.equal(await shown('new'), 'Ctrl Alt E', 'what was not kept is not said to be');
  assert.notEqual(await page.evaluate(() => document.activeElement.dataset.run), 'new');
  await page.unrouteAll();
  await page.click('#keys-reset');
  await until(page, () => document.querySelector('#keys-reset').disabled);
  assert.deepEqual((await house.server.json('GET', '/api/preferences')).body, {});
  await closeSettings(page);
});
