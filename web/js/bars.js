// Figures by day, as columns: with an axis of round numbers and dates, or as small as a word. The same figures are read aloud as
// the newest and the greatest, and each column says its own under the pointer.

import { el } from "./dom.js";
import { date, loadStrings, number, t } from "./i18n.js";

await loadStrings();

const SVG = "http://www.w3.org/2000/svg";
const DAY_MS = 86400000;
const WIDE = 600, NARROW = 360; // units of the drawing, of which one is about a pixel: letters keep their size
const HEIGHT = 150, LEFT = 46, BOTTOM = 20, TOP = 8;
const day = (n) => date(n * DAY_MS, { day: "numeric", month: "short", timeZone: "UTC" });

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  parent?.append(node);
  return node;
}

export const compact = (n) => number(n, { notation: "compact", maximumSignificantDigits: 3 });

/** The least of 1, 2, 2.5 or 5 times a power of ten that is not below n. */
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= n);
}

/** words: what a day's number is called. */
function summary(label, first, values, words) {
  const most = Math.max(...values);
  return most ? t("bars.summary", { label, last: words(values.at(-1)), most: words(most), day: day(first + values.indexOf(most)) }) : t("bars.none", { label });
}

const tokens = (n) => t("thread.tokens", { n });

/** first: the first value's day, as days since 1970; values: tokens of each day. */
export function dayBars({ label, first, values }) {
  const top = roundUp(Math.max(1, ...values));
  const width = innerWidth < 560 ? NARROW : WIDE;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "bars", role: "img", "aria-label": summary(label, first, values, tokens) });
  const y = (v) => HEIGHT - BOTTOM - v / top * (HEIGHT - BOTTOM - TOP);
  const step = (width - LEFT) / values.length;
  for (const v of [0, top / 2, top]) {
    shape("line", { x1: LEFT, x2: width, y1: y(v), y2: y(v), class: "bars-grid" }, svg);
    if (v && v < 1) continue; // there is no half of a token
    shape("text", { x: LEFT - 8, y: y(v) + 4, class: "bars-label", "text-anchor": "end" }, svg).textContent = compact(v);
  }
  values.forEach((v, i) => {
    const column = shape("g", {}, svg);
    shape("title", {}, column).textContent = `${day(first + i)}: ${tokens(v)}`;
    shape("rect", { x: LEFT + i * step, y: TOP, width: step, height: HEIGHT - BOTTOM - TOP, class: "bars-hit" }, column);
    if (v) shape("rect", { x: LEFT + i * step + 1.5, y: Math.min(y(v), HEIGHT - BOTTOM - 1.5), width: step - 3, height: Math.max(1.5, y(0) - y(v)), rx: 2, class: "bars-bar" }, column);
  });
  for (let i = values.length - 1; i >= 0; i -= width === NARROW ? 10 : 7) {
    shape("text", { x: LEFT + (i + 0.5) * step, y: HEIGHT - 4, class: "bars-label", "text-anchor": i === values.length - 1 ? "end" : "middle" }, svg).textContent = day(first + i);
  }
  return el("div", { class: "bars-box" }, svg);
}

/** The same as small as a word of text, for a row of a table. words: what a day's number is called. */
export function dayBarsSmall({ label, first, values, words }) {
  const top = Math.max(1, ...values);
  const svg = shape("svg", { viewBox: `0 0 ${values.length * 4} 20`, class: "bars-small", role: "img", "aria-label": summary(label, first, values, words), preserveAspectRatio: "none" });
  shape("title", {}, svg).textContent = summary(label, first, values, words);
  values.forEach((v, i) => shape("rect", { x: i * 4, y: v ? 20 - Math.max(2, v / top * 20) : 19, width: 3, height: v ? Math.max(2, v / top * 20) : 1, class: v ? "bars-bar" : "bars-none" }, svg));
  return svg;
}
