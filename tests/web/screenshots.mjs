#!/usr/bin/env node
// By hand: a picture of every page and dialog, light and dark, on a desktop and on a phone.
//   node tests/web/screenshots.mjs FOLDER [--only NAME] [--locale de]
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { openHouse } from './page.mjs';
import { scenes } from './scenes.mjs';

const folder = process.argv[2];
if (!folder || folder.startsWith('-')) { console.error('usage: screenshots.mjs FOLDER [--only NAME] [--locale de]'); process.exit(2); }
const arg = (name) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? undefined : process.argv[i + 1]; };
const only = arg('only');
const SIZES = { desktop: { viewport: { width: 1280, height: 800 } }, phone: { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 } };
mkdirSync(folder, { recursive: true });
const house = await openHouse({ fake: true });
for (const [size, context] of Object.entries(SIZES)) {
  for await (const { name, page } of scenes(house, { ...context, locale: arg('locale') ?? 'en-US' })) {
    if (only && name !== only) continue;
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.screenshot({ path: path.join(folder, `${name}-${size}-${scheme}.png`) });
    }
    console.log(`${name} ${size}`);
  }
}
await house.close();
