// What the admin's sections share: blocks of facts, tables, figures for people, a call that comes again.

import { call } from "../api.js";
import { el, rounds } from "../dom.js";
import { bytes as inBytes } from "../format.js";
import { date, number, relativeTime, t } from "../i18n.js";

export const count = (n) => (n === null || n === undefined ? "–" : number(n, { maximumFractionDigits: 0 }));
export const short = (n) => (n === null || n === undefined ? "–" : number(n, { maximumSignificantDigits: 3 }));
export const percent = (part, all) => (all > 0 ? number(part / all, { style: "percent", maximumFractionDigits: 1 }) : "–");
export const dateTime = (ms) => (ms > 0 ? date(ms, { dateStyle: "medium", timeStyle: "medium" }) : t("admin.never"));
export const clock = (ms) => date(ms, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const bytes = (n) => (n === null || n === undefined ? "–" : inBytes(n));

/** Seconds as "3 d 4 h", "5 min", "12 s", "340 ms". */
export function span(s) {
  if (!(s >= 0)) return "–";
  if (s < 1) return `${count(s * 1000)} ms`;
  if (s < 60) return `${short(s)} s`;
  const two = (large, a, small, b) => (small ? `${large} ${a} ${small} ${b}` : `${large} ${a}`);
  if (s < 3600) return two(Math.floor(s / 60), "min", Math.floor(s % 60), "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
  return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
}

const relative = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [30 * 86400, "day", 86400], [365 * 86400, "month", 30 * 86400], [Infinity, "year", 365 * 86400]];

/** How long ago a moment (ms) was, in words: "5 minutes ago", "yesterday". */
export function ago(ms) {
  const s = Math.max(0, (Date.now() - ms) / 1000);
  const [, unit, seconds] = relative.find(([most]) => s < most);
  return relativeTime(-Math.floor(s / seconds), unit);
}

/** A titled block. */
export function block(title, ...children) {
  return el("section", { class: "admin-block" }, el("h2", {}, title), ...children);
}

/** Names and values: [[name, value], ...]; a null value leaves the row out. */
export function facts(rows) {
  return el("dl", { class: "admin-facts" }, ...rows.filter((r) => r && r[1] !== null && r[1] !== undefined && r[1] !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A table; on a phone each row of a wide one is a card of its own, with the heads before its values (admin.css), so the roles are said. A row may have a name of
 *  its own by which it is known when it is drawn again: `keys`. */
export function table(caption, heads, rows, keys) {
  return el("div", { class: "admin-scroll", tabIndex: 0, role: "group", ariaLabel: caption },
    el("table", { class: `admin-table${heads.length > 3 ? " as-cards" : ""}`, role: "table" }, el("caption", { class: "sr" }, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads.map((h) => (h ? el("th", { scope: "col", role: "columnheader" }, h) : el("td", { role: "cell" }))))),
      el("tbody", { role: "rowgroup" }, ...rows.map((cells, i) => el("tr", { role: "row", ...(keys ? { data: { key: keys[i] } } : {}) },
        ...cells.map((c, n) => el("td", { role: "cell", data: { head: heads[n] || "" } }, c)))))));
}

/** A bar of parts to scale: [[label, bytes], ...], with its legend. */
export function stack(label, parts) {
  const shown = parts.filter(([, n]) => n > 0);
  const sum = shown.reduce((all, [, n]) => all + n, 0);
  const bar = el("div", { class: "stack", role: "img", ariaLabel: `${label}: ${shown.map(([name, n]) => `${name} ${bytes(n)}`).join(", ")}` });
  const legend = el("ul", { class: "stack-legend", ariaHidden: "true" });
  shown.forEach(([name, n], i) => {
    const piece = el("span", { class: `stack-part c${i % 6}` });
    piece.style.flexGrow = String(n / sum);
    bar.append(piece);
    legend.append(el("li", {}, el("span", { class: `stack-dot c${i % 6}` }), `${name} `, el("b", {}, bytes(n))));
  });
  return el("div", {}, bar, legend);
}

export function problem(error) {
  return el("p", { class: "form-error", role: "alert" }, error.message);
}

/** Calls, draws, and comes again after `ms` while the section is open and the page is seen. A reply that was overtaken is not drawn.
 *  Gives what comes again at once; its `first` resolves when there is something to be seen. */
export function poll(signal, ms, path, draw, failed) {
  let timer = 0;
  const begin = rounds();
  const round = async () => {
    clearTimeout(timer);
    if (document.hidden) return; // `seen` goes on
    const isNewest = begin();
    const counts = () => isNewest() && !signal.aborted;
    try {
      const value = await call("GET", typeof path === "function" ? path() : path);
      if (counts()) draw(value);
    } catch (error) {
      if (counts()) failed?.(error);
    }
    if (counts()) timer = setTimeout(round, ms);
  };
  const seen = () => { if (!document.hidden) round(); };
  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  round.first = round();
  return round;
}
