// axe-core in a page, for the page's tests.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { top } from '../api/harness.mjs';
import { still } from './page.mjs';

export const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
let source;

/** What axe finds in what is shown: a line for each rule that is broken. */
export async function axe(page, runOnly) {
  source ??= readFileSync(createRequire(path.join(modules, 'x.js')).resolve('axe-core/axe.min.js'), 'utf8');
  await still(page); // what is fading in has other colours
  if (!await page.evaluate(() => Boolean(globalThis.axe))) await page.evaluate(source); // by the debugger, which the policy does not bind
  // what lies under an open menu or dialog cannot be reached, and has been looked at before
  const found = await page.evaluate((only) => globalThis.axe.run(document.querySelector('dialog[open], .menu') || document, { runOnly: only, resultTypes: ['violations'] }), runOnly);
  return found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(' ')} (${n.failureSummary.split('\n').pop().trim()})`).join(', ')}`);
}
