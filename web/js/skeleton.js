// Calm shapes in the place of what is still loading. They come only after a moment, so that what loads quickly never flashes, move nothing
// (css/base.css lays them over), and are not read aloud: whoever listens is told that the place is busy.

import { el } from "./dom.js";

const AFTER_MS = 120;
const SHAPES = { rows: 12, thread: 9, lines: 6 }; // bars of each kind
const waits = new Map(); // place -> what it waits for now

function end(root) {
  root.querySelector(":scope > .skeleton")?.remove();
  root.classList.remove("is-loading");
  root.removeAttribute("aria-busy");
}

function show(root, kind, begun) {
  begun?.();
  if (root.querySelector(":scope > .skeleton")) return;
  const shapes = el("div", { class: `skeleton skeleton-${kind}`, ariaHidden: "true" }, ...Array.from({ length: SHAPES[kind] }, () => el("i")));
  if (kind !== "lines") { // they cover what stands there, wherever it is scrolled to
    shapes.style.insetBlockStart = `${root.scrollTop}px`;
    root.classList.add("is-loading");
  }
  root.append(shapes);
}

/** What `root` waits for is not wanted there any more. */
export function stopWaiting(root) {
  if (waits.delete(root)) end(root);
}

/** Gives what `work` gives. kind: "rows" and "thread" take the place of what `root` holds, "lines" stand below it. begun: called when the shapes
 *  come. Of several in one place the newest counts. */
export async function whileLoading(root, kind, work, begun) {
  const mine = {};
  waits.set(root, mine);
  root.setAttribute("aria-busy", "true");
  const timer = setTimeout(() => { if (waits.get(root) === mine) show(root, kind, begun); }, AFTER_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    if (waits.get(root) === mine) { waits.delete(root); end(root); }
  }
}
