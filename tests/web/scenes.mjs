// Every page and dialog, one after the other: what axe looks at, and what screenshots.mjs takes. Menus and the admin's
// sections are walked as they are found, so that what is added there comes here by itself; the rest is a line in EXTRA.
import { startMcp } from '../api/mcp_server.mjs';
import { answered, closeSettings, openChat, openSettings, order, say, still, until } from './page.mjs';

/** An answer with all that Markdown has. */
export const SAMPLE = `## Tides in one page

The Moon pulls the near side of the Earth **more** than the far side, by about $2GMr/d^3$, and so the sea has *two* bulges.

| body | mass (kg) | share of the tide |
| :--- | ---: | ---: |
| Moon | $7.3 \\cdot 10^{22}$ | 69 % |
| Sun | $2.0 \\cdot 10^{30}$ | 31 % |

- [x] two high tides a day
- [ ] spring tide at new and full moon

\`\`\`python
def tide(mass, radius, distance):
    """Acceleration across a body, in m/s²."""
    return 2 * 6.674e-11 * mass * radius / distance**3  # far side and near side
\`\`\`

> Time and tide wait for no one. See [the Wikipedia article](https://en.wikipedia.org/wiki/Tide).
`;
const THOUGHT = 'The user wants a short page. Start with the cause, then numbers, then a piece of code.';

const TIDES = { ask: 'Explain the tides.', thought: THOUGHT, text: SAMPLE, title: 'Why there are tides' };

/** Asks the scripted engine for the sample, or for another answer that has code and a formula; the conversation gets a title that a person
    would give. */
export async function sampleChat(house, page, tokenMs = 0, { ask, thought, text, title } = TIDES) {
  await page.click('#settings'); // the order to the scripted engine stands in the system prompt, out of sight
  await page.fill('#settings-form [name=system]', `fake:${JSON.stringify({ text: `<think>\n${thought}\n</think>\n\n${text}`, token_ms: tokenMs })}`);
  await page.click('#settings-form .primary');
  await page.waitForSelector('#settings-dialog', { state: 'detached' });
  await say(page, ask);
  await answered(page);
  await page.locator('.hljs-keyword').first().waitFor();
  await page.locator('.math.drawn').first().waitFor();
  await page.evaluate(async (body) => {
    const { csrf } = await (await fetch('/api/session')).json();
    const headers = { 'Content-Type': 'application/json', 'X-CSRF-Token': csrf };
    await fetch(`/api/conversations/${location.hash.split('/').pop()}`, { method: 'PATCH', headers, body });
  }, JSON.stringify({ title }));
}

async function closeDialogs(page) {
  for (let i = 0; i < 4 && await page.locator('dialog[open], .menu').count(); i++) await page.keyboard.press('Escape');
}

/** Opens each item of a menu; yields what it opens. Items that leave the page or open another menu are not taken. */
async function* menuOf(page, button, name, begin) {
  await begin();
  await page.click(button);
  yield { name: `${name}-menu`, page };
  const count = await page.locator('.menu [role=menuitem]').count();
  await closeDialogs(page);
  for (let i = 0; i < count; i++) {
    await begin();
    await page.click(button);
    const item = page.locator('.menu [role=menuitem]').nth(i);
    if (await item.locator('.i-out, .i-language, .i-trash, .i-edit, .i-pin, .i-archive, .i-select, .i-folder').count()) { await closeDialogs(page); continue; }
    const here = page.url();
    await page.evaluate(() => document.querySelectorAll('.toast').forEach((n) => n.remove()));
    await item.click();
    const what = await page.waitForSelector('dialog[open], .toast, #admin', { timeout: 5000 }).catch(() => null);
    const opened = what && await page.$('dialog[open]');
    if (opened) {
      await page.waitForTimeout(150); // its list arrives
      await still(page);
      yield { name: (await opened.getAttribute('id')) ?? `${name}-${i}`, page };
    }
    await closeDialogs(page);
    if (page.url() !== here) {
      await page.goto(here);
      await page.locator('.message.assistant').first().waitFor();
    }
  }
}

// [name, what makes it, what ends it]
const EXTRA = [
  ['settings-dialog', async (page) => { await page.click('#settings'); await page.waitForSelector('dialog[open]'); }, closeDialogs],
  ['slash', async (page) => { await page.fill('#composer-text', '/'); await page.waitForSelector('#slash-list:not([hidden])'); },
    async (page) => { await page.press('#composer-text', 'Escape'); await page.fill('#composer-text', ''); }],
  ['message-menu', async (page) => { await page.locator('.message.assistant .act-more').first().click(); await page.waitForSelector('.menu'); }, closeDialogs],
  ['edit', async (page) => { await page.hover('.message.user'); await page.click('.message.user .act-edit'); await page.waitForSelector('.edit'); },
    async (page) => { await page.press('.edit textarea', 'Escape'); }],
  ['files', async (page) => {
    await page.setInputFiles('#attach-input', [['notes.md', '# Notes'], ['data.bin', '\0\x01']].map(([name, text]) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })));
    await page.waitForSelector('.file[data-state="failed"]');
    await page.waitForSelector('.file[data-state="ready"]');
  }, async () => {}],
  ['file-dialog', async (page) => { await page.click('.file[data-state="ready"] .file-open'); await page.waitForSelector('#file-body pre'); }, async (page) => {
    await closeDialogs(page);
    while (await page.locator('#files .file').count()) await page.locator('#files .file-remove').first().click();
  }],
  ...[['add-menu', '#add'], ['model-menu', '#model'], ['title-menu', '#title-button']].map(([name, button]) => [name, async (page) => { await page.click(button); await page.waitForSelector('.menu'); }, closeDialogs]),
  ['palette', async (page) => { await page.keyboard.press('Control+k'); await page.waitForSelector('#palette[open] [role=option]'); }, closeDialogs],
  ['confirm', async (page) => {
    await page.locator('.message.assistant .act-more').first().click();
    await page.locator('.menu .i-trash').last().click();
    await page.waitForSelector('#confirm-dialog[open]');
  }, closeDialogs],
  ['export-dialog', async (page) => { await page.click('#title-button'); await page.locator('.menu .i-export').click(); await page.waitForSelector('#export-dialog[open]'); }, closeDialogs],
  ['import-dialog', async (page) => { await page.fill('#composer-text', '/import'); await page.waitForSelector('#slash-list:not([hidden])'); await page.press('#composer-text', 'Enter'); await page.waitForSelector('#import-dialog[open]'); }, closeDialogs],
  ['toast', async (page) => { await page.locator('.message.assistant .act-copy').first().click(); await page.waitForSelector('.toast'); },
    async (page) => { await page.evaluate(() => document.querySelectorAll('.toast').forEach((n) => n.remove())); }],
  ['reasoning', async (page) => { await page.click('.reasoning summary'); }, async (page) => { await page.click('.reasoning summary'); }],
];

/** What a chat can show beside an answer that went well: two versions, a preview, a failed answer, one that runs with a message behind it, a tool that asks. */
async function* troubles(house, page) {
  await page.goto(`${house.server.url}/#/`);
  await page.waitForSelector('#welcome:not([hidden])');
  await say(page, order({ text: 'One.\n\n```html\n<p>Hello</p>\n```' }));
  await answered(page);
  await page.locator('.act-preview').click();
  await page.waitForSelector('iframe');
  await page.locator('.message.assistant .act-again').click();
  await until(page, () => document.querySelector('.message.assistant .versions-text')?.textContent === '2/2');
  await answered(page);
  yield { name: 'versions', page };
  await page.locator('.message.assistant .act-more').click();
  await page.locator('.menu .i-columns').click();
  await page.waitForSelector('.beside-column .prose p');
  yield { name: 'compare', page };
  await page.click('.beside-close');
  await say(page, order({ text: 'a b c d e f', fail_after: 3 }));
  await answered(page);
  yield { name: 'failed', page };
  await say(page, order({ text: 'word '.repeat(400), token_ms: 100 }));
  await page.fill('#composer-text', 'And then?');
  await page.click('#send');
  await page.waitForSelector('#queued:not([hidden])');
  yield { name: 'queued', page };
  await page.click('#queued-drop');
  await page.click('#stop');
  await answered(page);

  const mcp = await startMcp();
  try {
    if (!(await house.server.json('GET', '/api/tool-servers')).body.items.length) await house.server.json('POST', '/api/tool-servers', { name: 'calc', url: mcp.url, everyone: true });
    const { id } = (await house.server.json('POST', '/api/conversations', { title: 'Adding up', settings: { tool_servers: ['calc'] } })).body;
    await openChat(page, house, id);
    await say(page, order({ text: '<tool_call>\n{"name": "calc_wipe_disk", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "unknown", "arguments": {"a": 1}}\n</tool_call>' }));
    await page.waitForSelector('.call-ask');
    yield { name: 'tool-card', page };
  } finally { await mcp.stop(); }
}

/** Yields {name, page}: each is as the reader would see it, until the next one is asked for. */
export async function* scenes(house, context = {}) {
  const out = await (await house.browser.newContext({ viewport: { width: 1280, height: 800 }, ...context })).newPage();
  await out.goto(house.server.url);
  await out.waitForSelector('#login:not([hidden])');
  yield { name: 'login', page: out };
  await out.goto(`${house.server.url}/#/invite/none`);
  await out.waitForSelector('#sign-up-error:not([hidden])');
  yield { name: 'sign-up', page: out };
  await out.goto(`${house.server.url}/admin`);
  await out.waitForSelector('#gate:not([hidden])');
  yield { name: 'gate', page: out };
  await out.context().close();

  const page = await house.page(context);
  await until(page, () => document.querySelector('#welcome-model').textContent);
  yield { name: 'welcome', page };
  await sampleChat(house, page);
  const here = page.url();
  await page.reload();
  await page.locator('.math.drawn').first().waitFor();
  await page.locator('.conversation').first().waitFor({ state: 'attached' });
  yield { name: 'chat', page };
  for (const [name, begin, end] of EXTRA) {
    await begin(page);
    yield { name, page };
    await end(page);
  }
  const list = async () => { if (await page.evaluate(() => document.querySelector('#sidebar').inert)) await page.click('#sidebar-open'); };
  await list();
  await page.fill('#search', 'tides');
  await page.waitForTimeout(400);
  await still(page);
  yield { name: 'search', page };
  await page.fill('#search', '');
  await page.locator('.conversation').first().waitFor();
  yield { name: 'list', page };
  await page.click('#filters');
  yield { name: 'filters-menu', page };
  await closeDialogs(page);
  await page.click('#theme');
  yield { name: 'theme-menu', page };
  await closeDialogs(page);
  await page.locator('.conversation-link').first().click({ modifiers: ['Control'] });
  await page.waitForSelector('#selection:not([hidden])');
  yield { name: 'selection', page };
  await page.locator('.conversation-link').first().focus();
  await page.keyboard.press('Escape');
  yield* menuOf(page, '#account', 'account', list);
  yield* menuOf(page, '.conversation >> nth=0 >> .conversation-more', 'conversation', list);

  const project = (await house.server.json('POST', '/api/projects', { name: 'Tides and currents', colour: 1, instructions: 'Answer in metres.' })).body;
  await house.server.json('POST', '/api/conversations/bulk', { ids: [here.split('/').pop()], project_id: project.id });
  await page.reload();
  await page.locator(`.project-open[data-id="${project.id}"]`).waitFor({ state: 'attached' });
  await list();
  await page.locator(`.project-open[data-id="${project.id}"]`).click();
  await page.locator('.project-chat a').waitFor();
  yield { name: 'project-folder', page };
  await page.locator(`.project-row[data-id="${project.id}"] .icon-button`).click();
  await page.locator('.menu button:has(.i-tune)').click();
  await page.waitForSelector('#project-dialog[open]');
  await page.setInputFiles('#project-dialog input[type=file]', { name: 'tides.md', mimeType: 'text/plain', buffer: Buffer.from('The range at Saint-Malo is 13 metres.') });
  await page.waitForSelector('#project-dialog .file-remove');
  await house.server.json('POST', '/api/users', { name: 'Rosalind', password: 'a long password', role: 'user' });
  await page.fill('.project-share-add input', 'rosalind');
  await page.click('.project-share-add button');
  await page.locator('.project-sharing li').waitFor();
  await page.locator('#project-dialog').evaluate((dialog) => { dialog.scrollTop = dialog.scrollHeight; });
  yield { name: 'project-dialog', page };
  await closeDialogs(page);

  await house.server.json('PATCH', '/api/admin/settings', { share_links: true });
  await page.goto(here); // the same page: a phone's list still stands over it
  await page.locator('.message.assistant').first().waitFor();
  if (await page.isVisible('#scrim')) await page.click('#sidebar-close');
  await page.click('#title-button');
  await page.locator('.menu .i-share').click();
  await page.click('#share-form .primary');
  await page.waitForSelector('#share-link:not([hidden])');
  yield { name: 'share-made', page };
  await closeDialogs(page);
  yield* troubles(house, page);
  const shared = await house.server.json('POST', `/api/conversations/${here.split('/').pop()}/shares`, {});
  if (shared.body?.path) {
    await page.goto(house.server.url + shared.body.path);
    await page.locator('.math.drawn').first().waitFor();
    yield { name: 'shared', page };
  }
  await house.server.json('POST', '/api/groups', { name: 'Research', description: 'Tries new models', limits: { tokens_per_day: 500000 } });
  await page.goto(`${house.server.url}/admin`);
  await page.waitForSelector('#admin:not([hidden])');
  const sections = await page.locator('#sections a').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
  for (const section of sections) {
    await page.click(`#sections a[href="${section}"]`);
    await page.waitForTimeout(250);
    await still(page);
    yield { name: `admin-${section.replace(/\W/g, '')}`, page };
    if (section !== '#/models') continue;
    await page.locator('#view .admin-block button:not(:disabled)').first().click();
    await page.waitForSelector('#confirm-dialog[open]');
    yield { name: 'admin-confirm', page };
    await closeDialogs(page);
  }
  await page.goto(`${house.server.url}/admin#/users`);
  await page.locator('.name-button').first().click();
  await page.waitForSelector('.person .limits');
  yield { name: 'person', page };
  await closeDialogs(page);
  await page.goto(`${house.server.url}/admin#/groups`);
  await page.locator('.person').waitFor({ state: 'detached' });
  await page.locator('.name-button').first().click();
  await page.waitForSelector('.person .limits');
  yield { name: 'group', page };
  await page.goto(house.server.url);
  await page.waitForSelector('#app:not([hidden])');
  await openSettings(page, 'general');
  for (const section of await page.locator('.settings-tab').evaluateAll((all) => all.map((tab) => tab.dataset.section))) {
    await openSettings(page, section);
    await page.waitForTimeout(150); // its parts arrive
    await still(page);
    yield { name: `settings-${section}`, page };
  }
  if (await page.locator('.settings-back').isVisible()) await page.click('.settings-back');
  yield { name: 'settings-list', page };
  await page.fill('.settings-search input', 'e');
  yield { name: 'settings-search', page };
  await closeSettings(page);
  await openSettings(page, 'security');
  await page.waitForSelector('.security .keys li');
  await page.locator('[data-part=factor]').getByRole('button').click();
  await page.fill('.security .proof input', house.server.admin.password);
  await page.click('.security .proof .primary');
  await page.waitForSelector('.qr');
  yield { name: 'second-factor', page };
  await page.context().close();
}
