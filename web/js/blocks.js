// Puts a tree of Markdown blocks into the page, and later only what is different: an element stays as long as its block
// looks the same, a growing code box only gets the new characters. Nothing here ever parses HTML.

import { check, isOver, Overdue } from "./budget.js";
import { cleanInline } from "./clean.js";
import { CodeBox } from "./code.js";
import { typeset, typesetWithin } from "./math.js";

const READS_ITS_OWN_WAY = new Set(["p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "th", "td", "blockquote", "ul", "ol", "div"]);

function setAttributes(element, block) {
  if (block.attrs.start) element.start = block.attrs.start;
  element.className = block.attrs.class || "";
}

/** What takes too long to draw is shown as it was written; only a block of the top level knows how that was. */
function create(block) {
  try {
    const shown = build(block);
    if (isOver()) shown.key = ""; // its formulas may be their source still
    return shown;
  } catch (error) {
    if (!(error instanceof Overdue) || !block.source) throw error;
    return plain(block.source());
  }
}

/** It has no key, so that the next drawing, which may have more time, draws it anew. */
function plain(text) {
  const element = document.createElement("p");
  element.className = "plain";
  element.dir = "auto";
  element.textContent = text;
  return { kind: "plain", children: [], element };
}

function build(block) {
  if (block.kind === "plain") return plain(block.source());
  check();
  const shown = { ...block, children: [] };
  if (block.kind === "code") {
    shown.box = new CodeBox(block.info, block.html);
    shown.element = shown.box.root;
    return shown;
  }
  shown.element = document.createElement(block.kind === "math" ? "div" : block.tag);
  if (block.kind === "math") {
    typeset(shown.element, block.html, { display: true, open: block.attrs.open });
    return shown;
  }
  setAttributes(shown.element, block);
  if (READS_ITS_OWN_WAY.has(block.tag)) shown.element.dir = "auto";
  if (block.tag === "table") shown.element.tabIndex = 0; // it may scroll
  fill(shown, block);
  return shown;
}

function fill(shown, block) {
  if (block.kind === "box") {
    shown.children = sync(shown.element, shown.children, block.children);
  } else if (block.html) {
    shown.element.replaceChildren(cleanInline(block.html));
    typesetWithin(shown.element);
  } else {
    shown.element.replaceChildren();
  }
}

/** Makes `shown` look as `block`; false when it takes another element. */
function update(shown, block) {
  try {
    return change(shown, block);
  } catch (error) {
    if (!(error instanceof Overdue) || !block.source) throw error;
    return false;
  }
}

function change(shown, block) {
  if (shown.kind === "plain" || shown.kind !== block.kind || shown.tag !== block.tag) return false;
  if (block.kind === "code") {
    if (shown.info !== block.info) return false;
    shown.box.setText(block.html);
  } else if (block.kind === "math") {
    typeset(shown.element, block.html, { display: true, open: block.attrs.open });
  } else {
    setAttributes(shown.element, block);
    fill(shown, block);
  }
  shown.key = isOver() ? "" : block.key;
  shown.html = block.html;
  return true;
}

/** Turns the elements of `before` into those of `blocks`, in `parent` behind the element `after` (or at its start). */
export function sync(parent, before, blocks, after = null) {
  const out = [];
  blocks.forEach((block, i) => {
    let shown = before[i];
    if (!shown) {
      shown = create(block);
      if (after) after.after(shown.element);
      else parent.prepend(shown.element);
    } else if (shown.key !== block.key && !update(shown, block)) {
      const next = create(block);
      shown.element.replaceWith(next.element);
      shown = next;
    }
    after = shown.element;
    out.push(shown);
  });
  for (const shown of before.slice(blocks.length)) shown.element.remove();
  return out;
}

/** These blocks will not change any more: colours for their code. */
export function settle(all) {
  for (const shown of all) {
    shown.box?.settle();
    settle(shown.children);
  }
}
