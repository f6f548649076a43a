// Formulas by KaTeX, which comes with the first one. Until it is there, and where it gives up, the source is shown. Those for which a text's
// time was too short are drawn when they come near the screen and nothing else is to be done.
// KaTeX builds its elements itself (no HTML is parsed); `trust` is off, so no formula has links, pictures or classes.

import { isOver, within } from "./budget.js";

const LATE_MS = 1000; // for all the formulas that waited for KaTeX
const PRINT_MS = 3000; // for those that were overdue when the page is printed, which waits
const LONGEST = 4000; // characters of one formula
const KEPT = 300;
const OPTIONS = { trust: false, throwOnError: true, strict: "ignore", maxSize: 20, maxExpand: 500, output: "htmlAndMathml" };
const made = new Map(); // source -> element, so that a growing paragraph is cheap
const late = []; // drawn as source, until KaTeX is here
let loading = null;
let katex = null;
let settled = false; // it is here, or will not come

export function mathSettled() { return settled; }

const FONTS = ["16px KaTeX_Main", "italic 16px KaTeX_Math", "16px KaTeX_Size1", "16px KaTeX_Size2"]; // a font that came later would move the text

/** Fetches KaTeX; called at the first sign of a formula, so that it is there at its end. */
export function loadMath() {
  if (loading) return loading;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("../vendor/katex/katex.min.css", import.meta.url);
  const styled = new Promise((done) => { style.onload = style.onerror = done; });
  document.head.append(style);
  loading = Promise.all([import("../vendor/katex/katex.min.js"),
    styled.then(() => Promise.all(FONTS.map((font) => document.fonts.load(font))))]).then(() => { katex = globalThis.katex; }).catch(() => {}).finally(() => { settled = true; });
  return loading;
}

function build(tex, display) {
  const key = `${display ? "$$" : "$"}${tex}`;
  if (isOver()) return null; // the source stays
  if (!made.has(key)) {
    if (made.size >= KEPT) made.delete(made.keys().next().value);
    const box = document.createElement("span");
    try {
      katex.render(tex, box, { ...OPTIONS, displayMode: display });
    } catch {
      box.replaceChildren();
    }
    if (box.querySelector("a, img, script, iframe, object, embed, form")) box.replaceChildren(); // it never has these
    made.set(key, box.firstChild);
  }
  return made.get(key)?.cloneNode(true);
}

const NEAR = "400px 0px"; // above and below the screen
const overdue = new WeakMap(); // element -> {tex, display}
const soon = []; // overdue ones near the screen
const idle = globalThis.requestIdleCallback || ((run) => setTimeout(run, 50)); // Safari has none
const nearby = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting && target.isConnected) continue;
    nearby.unobserve(target);
    if (isIntersecting && soon.push(target) === 1) idle(drawOne);
  }
}, { rootMargin: NEAR });

/** One at a time: each may take long, and what somebody types comes first. */
function drawOne() {
  const element = soon.shift();
  const { tex, display } = overdue.get(element) || {};
  if (element.isConnected && element.textContent === tex) typeset(element, tex, { display });
  if (soon.length) idle(drawOne);
}

addEventListener("beforeprint", () => within(PRINT_MS, () => {
  for (const element of document.querySelectorAll(".math:not(.drawn)")) if (overdue.has(element)) typeset(element, element.textContent, overdue.get(element));
}));

/** Shows the formula `tex` in `element`. open: its end has not arrived yet. */
export function typeset(element, tex, { display = false, open = false } = {}) {
  element.className = display ? "math display" : "math";
  element.dir = "ltr";
  const drawn = !open && katex && tex.length <= LONGEST ? build(tex, display) : null;
  if (drawn) {
    element.classList.add("drawn");
    element.replaceChildren(drawn);
    return;
  }
  element.textContent = tex;
  if (katex && !open && tex.length <= LONGEST && isOver()) {
    overdue.set(element, { tex, display });
    nearby.observe(element);
  }
  if (katex || open || settled) return;
  if (!late.length) loadMath().then(drawLate);
  late.push({ element, tex, display });
}

function drawLate() {
  within(LATE_MS, () => {
    for (const { element, tex, display } of late.splice(0)) if (katex && element.textContent === tex) typeset(element, tex, { display });
  });
}

export function typesetWithin(root) {
  for (const element of root.querySelectorAll(".math")) typeset(element, element.textContent);
}
