// Drawing again what is on the page already: what has not changed stays as it is, with the focus, a selection, a press of the
// mouse under way, and what is being typed.

import { listens } from "./dom.js";

const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
const keyOf = (node) => (isElement(node) ? node.dataset.key : undefined);

/** Whether `old` can be made to look like `fresh`. What listens is the work of its closure, so only a key says that two are the same. */
function alike(old, fresh) {
  if (old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) return false;
  if (!isElement(fresh) || keyOf(fresh) !== undefined) return true;
  if (listens(old) || listens(fresh)) return false;
  return !(old.hasAttribute("style") || fresh.hasAttribute("style")) || old.isEqualNode(fresh); // the page's policy lets nobody set that attribute
}

function patch(old, fresh) {
  if (!isElement(fresh)) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (listens(old)) return; // it looks after itself
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patchChildren(old, [...fresh.childNodes]);
}

function patchChildren(node, fresh) {
  const wanted = new Set(fresh.map(keyOf));
  const keyed = new Map();
  for (const child of [...node.childNodes]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (wanted.has(key)) keyed.set(key, child);
    else child.remove(); // first, so that those behind it need not move
  }
  let at = node.firstChild; // what lies before it is done
  for (const child of fresh) {
    const key = keyOf(child);
    const old = key !== undefined ? keyed.get(key) : at && keyOf(at) === undefined ? at : null;
    if (old && alike(old, child)) {
      patch(old, child);
      if (old === at) at = at.nextSibling;
      else node.insertBefore(old, at);
      continue;
    }
    node.insertBefore(child, at);
    if (old && old === at) {
      at = at.nextSibling;
      old.remove();
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/**
 * `node` has these children now. A child with `data-key` is the one that had the same key before; others are told by their place.
 * What listens (el's `on`) is kept untouched while its key stays, so the key must say all that its closure and its looks are made
 * of; without a key it is made anew. Where the focused element goes away, the focus goes to `node`, not to the page's beginning.
 */
export function render(node, ...fresh) {
  const held = node.contains(document.activeElement);
  const holder = document.createElement("template").content;
  holder.append(...fresh.filter((c) => c !== null && c !== undefined));
  patchChildren(node, [...holder.childNodes]);
  if (!held || node.contains(document.activeElement)) return;
  node.tabIndex = -1;
  node.focus({ preventScroll: true });
}
