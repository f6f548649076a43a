// WCAG 2.2 AA by axe-core over every page and dialog (scenes.mjs), in light and in dark, on a desktop and on a phone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, RULES } from './axe.mjs';
import { noBrowser, openHouse } from './page.mjs';
import { scenes } from './scenes.mjs';

const opts = { skip: noBrowser };
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

/** rules: what axe looks at in light; dark differs only in colours. */
async function check(context, least, rules) {
  const bad = [];
  const names = [];
  for await (const { name, page } of scenes(house, context)) {
    names.push(name);
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    for (const v of await axe(page, rules)) bad.push(`${name}: ${v}`);
    if (!context.isMobile) {
      await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
      for (const v of await axe(page, { type: 'rule', values: ['color-contrast'] })) bad.push(`${name}, dark: ${v}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) bad.push(`${name}: ${wide} pixels wider than the screen`);
  }
  assert.deepEqual(bad, []);
  for (const name of least) assert.ok(names.includes(name), `no scene ${name} in ${names}`);
}

const LEAST = ['login', 'gate', 'welcome', 'chat', 'list', 'palette', 'add-menu', 'model-menu', 'title-menu', 'confirm', 'export-dialog', 'import-dialog', 'toast', 'selection', 'share-made', 'compare',
  'failed', 'queued', 'tool-card', 'project-dialog', 'admin-confirm', 'person', 'settings-dialog', 'account-menu', 'settings-general', 'settings-keys', 'settings-security', 'settings-data', 'settings-search', 'shared', 'admin-overview', 'admin-status'];

test('each page and dialog on a desktop', opts, () => check({ viewport: { width: 1280, height: 800 } }, LEAST, { type: 'tag', values: RULES }));
test('each page and dialog on a narrow phone: targets large enough, nothing beside the screen', opts, () => check({ viewport: { width: 320, height: 700 }, hasTouch: true, isMobile: true },
  LEAST, { type: 'rule', values: ['target-size', 'scrollable-region-focusable', 'aria-hidden-focus'] }));
