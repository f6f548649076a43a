// The page of samples: every component is there in both themes, keeps to the tokens, and is photographed.
//   SLUICE_PICTURES=FOLDER keeps the photographs.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { noBrowser, openHouse, until } from './page.mjs';

const opts = { skip: noBrowser };
const SIZES = ['12px', '13px', '14px', '16px', '20px', '26px'];
const WEIGHTS = ['400', '500', '600'];
let house;
before(async () => { if (!noBrowser) house = await openHouse({ fake: true }); });
after(async () => { await house?.close(); });

for (const [name, context] of Object.entries({ desktop: { viewport: { width: 1440, height: 900 } }, phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } })) {
  test(`the samples on a ${name}: six sizes of type, three weights, one height of controls, a picture in each theme`, opts, async () => {
    const page = await (await house.browser.newContext(context)).newPage();
    page.on('pageerror', (e) => house.problems.push(e.message));
    await page.goto(`${house.server.url}/samples.html`);
    await page.locator('.hljs-addition').waitFor();
    const seen = await page.evaluate(() => {
      const out = { sizes: new Set(), weights: new Set() };
      for (const node of document.querySelectorAll('.sample *')) {
        if (!node.checkVisibility() || ![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || node.closest('sup, .footnote-ref, pre, code, option')) continue;
        const style = getComputedStyle(node);
        out.sizes.add(style.fontSize);
        out.weights.add(style.fontWeight);
      }
      return { sizes: [...out.sizes], weights: [...out.weights] };
    });
    assert.deepEqual(seen.sizes.filter((s) => !SIZES.includes(s)), []);
    assert.deepEqual(seen.weights.filter((w) => !WEIGHTS.includes(w)), []);
    const heights = await page.evaluate(() => [...new Set([...document.querySelectorAll('.sample :is(.primary, .quiet, .danger, .icon-button:not(.actions *, .code *), .pill, input:not([type=checkbox]), select)')].map((n) => n.getBoundingClientRect().height))]);
    assert.deepEqual(heights, [name === 'phone' ? 44 : 36]);
    const pictures = [];
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await until(page, `document.documentElement.dataset.theme === '${colorScheme}'`);
      const folder = process.env.SLUICE_PICTURES;
      await page.evaluate(() => { document.querySelector('#samples').scrollTop = 0; });
      pictures.push(await page.screenshot(folder ? { path: path.join(folder, `samples-${name}-${colorScheme}.png`) } : {}));
    }
    assert.ok(pictures.every((p) => p.length > 10000));
    assert.notDeepEqual(pictures[0], pictures[1]);
    await page.context().close();
  });
}

test('nothing failed in the page meanwhile', opts, () => {
  assert.deepEqual(house.problems, []);
});
