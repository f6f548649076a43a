// What somebody hears who works with a keyboard and a screen reader: the element with the focus, as the browser's accessibility tree
// describes it to such programs, and what the page's live regions say meanwhile.
import assert from 'node:assert/strict';
import { eventually } from '../api/harness.mjs';

const STATES = ['expanded', 'checked', 'pressed', 'selected', 'disabled', 'required', 'invalid', 'modal'];

/** In the page: keeps what a live region says, once for each time that it changes, and not what nobody can see. */
function listen() {
  window.said = [];
  const regions = '[aria-live]:not([aria-live=off]), [role=status], [role=alert]';
  const fresh = new Set();
  const plain = (node) => node.textContent.replace(/\s+/g, ' ').trim();
  new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes) {
      const region = (target.nodeType === 1 ? target : target.parentElement)?.closest(regions);
      if (region?.ariaAtomic === 'false') window.said.push(...[...addedNodes].map(plain).filter(Boolean)); // only what is new in it
      else if (region) fresh.add(region);
    }
    requestAnimationFrame(() => {
      for (const region of fresh) {
        const text = region.checkVisibility() ? plain(region) : '', held = text && region.textContent; // a space more is a change, too
        if (text && region.lastSaid !== held) window.said.push(text);
        region.lastSaid = held;
      }
      fresh.clear();
    });
  }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ['hidden'] });
}

export async function reader(page) {
  const cdp = await page.context().newCDPSession(page);
  await page.addInitScript(listen);
  await page.evaluate(listen);

  async function node(expression) {
    const { result } = await cdp.send('Runtime.evaluate', { expression });
    if (!result.objectId) return null;
    const { nodes } = await cdp.send('Accessibility.getPartialAXTree', { objectId: result.objectId, fetchRelatives: false });
    const [n] = nodes;
    const out = { role: n.role?.value ?? '', name: (n.name?.value ?? '').trim() };
    for (const { name, value } of n.properties ?? []) if (STATES.includes(name) && value.value !== 'false') out[name] = value.value;
    if (n.description?.value) out.description = n.description.value;
    if (n.value?.value !== undefined && n.value.value !== '') out.value = n.value.value;
    return out;
  }
  const focus = () => node('document.activeElement');
  const fits = (n, role, name) => n && n.role === role && (typeof name === 'string' ? n.name === name : name.test(n.name));

  return {
    focus,
    /** The node of a selector. */
    of: (selector) => node(`document.querySelector(${JSON.stringify(selector)})`),
    press: async (...keys) => { for (const key of keys) await page.keyboard.press(key); },
    type: (text) => page.keyboard.insertText(text),

    /** Waits until the focus is on such an element, and gives it. */
    async at(role, name) {
      return eventually(async () => {
        const now = await focus();
        assert.ok(fits(now, role, name), `the focus is on ${JSON.stringify(now)}, not on ${role} ${name}`);
        return now;
      }, 20);
    },
    /** Goes by Tab (or another key) to such an element, and gives it. Each stop on the way has a role and a name, and can be seen. */
    async to(role, name, key = 'Tab', most = 70) {
      const way = [];
      for (let i = 0; i < most; i++) {
        await page.keyboard.press(key);
        const now = await focus();
        way.push(`${now?.role} ${now?.name}`);
        if (fits(now, role, name)) return now;
        if (now && !/^(RootWebArea|tabpanel|generic|dialog|none)$/.test(now.role)) assert.ok(now.name, `a stop without a name: ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200))}`);
      }
      return assert.fail(`no ${role} ${name} on the way by ${key}: ${way.join(' > ')}`);
    },
    /** Waits until something like it was said; gives all that was said since the last time. */
    async hears(pattern) {
      await eventually(async () => {
        const said = await page.evaluate(() => window.said);
        assert.ok(said.some((s) => pattern.test(s)), `never said ${pattern}: ${JSON.stringify(said)}`);
      }, 20);
      return page.evaluate(() => window.said.splice(0));
    },
    said: () => page.evaluate(() => window.said.splice(0)),
  };
}
