// A line chart as SVG: gaps where nothing is known, values under the pointer or by the arrow keys, and the same figures as
// a table for those who cannot see it.

import { el } from "../dom.js";
import { date, t } from "../i18n.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 170;
const PAD = { right: 10, top: 10, bottom: 22 };
const GUTTER = 12; // beside the labels of the left axis
const DOT = 2.5;   // radius of a value that stands alone

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  parent?.append(node);
  return node;
}

const STEPS = { // what a tick of the left axis may be a multiple of
  number: [1, 2, 5, 10],
  seconds: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400], // below one, as numbers
};
const TICKS = 4; // at most, above zero

/** The step of the left axis: 1, 2 or 5 times a power of ten, of long times whole minutes and hours, of counts a whole number. */
export function niceStep(most, kind = "number") {
  const least = Math.max(most, Number.MIN_VALUE) / TICKS;
  if (kind === "seconds" && least > 0.5) return STEPS.seconds.find((s) => s >= least * 0.9999) ?? Math.ceil(least / 86400) * 86400;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = STEPS.number.map((m) => m * power).find((m) => m >= least * 0.9999);
  return kind === "whole" ? Math.max(1, step) : step;
}

/** Every tick from 0 to the first that no value is above. */
function ticksOf(spec) {
  const most = Math.max(0, ...spec.series.flatMap((s) => s.values.filter((v) => v !== null)));
  if (spec.most) return [0, spec.most / 2, spec.most];
  const step = most > 0 ? niceStep(most, spec.kind) : 1;
  const n = Math.max(1, Math.ceil(most / step - 0.0001));
  return [...Array(n + 1).keys()].map((i) => i * step);
}

/** "M x y L x y ..." with a new M after each gap. */
function line(values, x, y) {
  let out = "";
  values.forEach((v, i) => {
    if (v === null) return;
    out += `${(values[i - 1] ?? null) === null ? "M" : "L"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
  });
  return out;
}

/** A value between two gaps has no line: it is a dot. */
function dots(svg, s, x, y) {
  s.values.forEach((v, i) => {
    const alone = v !== null && (s.values[i - 1] ?? null) === null && (s.values[i + 1] ?? null) === null;
    if (alone) shape("circle", { cx: x(i).toFixed(1), cy: y(v).toFixed(1), r: DOT, class: `chart-dot c${s.color}` }, svg);
  });
}

const moment = (s, step) => date(s * 1000, step >= 3600 ? { dateStyle: "short", timeStyle: "short" }
  : step >= 300 ? { day: "numeric", month: "numeric", hour: "numeric", minute: "2-digit" } : { hour: "numeric", minute: "2-digit", second: "2-digit" });
const tick = (s, span) => date(s * 1000, span > 2 * 86400 ? { day: "numeric", month: "short" } : { hour: "numeric", minute: "2-digit" });

/** The labels of the left axis, drawn to be measured: the gutter is as wide as the widest of them. */
function drawLabels(svg, ticks, format) {
  const labels = ticks.map((v) => shape("text", { class: "chart-label", "text-anchor": "end" }, svg));
  labels.forEach((node, i) => { node.textContent = format(ticks[i]); });
  return { labels, left: GUTTER + Math.ceil(Math.max(...labels.map((node) => node.getComputedTextLength()))) };
}

const MARKS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000]; // seconds between marks of the time axis
const MARK_WIDTH = 90;

/** Round moments of the reader's own time that lie in what is drawn. */
function moments(spec, width) {
  const span = (spec.n - 1) * spec.step;
  const every = MARKS.find((s) => span / s <= Math.max(1, Math.floor(width / MARK_WIDTH))) ?? MARKS.at(-1);
  const shift = new Date(spec.from * 1000).getTimezoneOffset() * 60;
  const out = [];
  for (let s = Math.ceil((spec.from - shift) / every) * every + shift; s <= spec.from + span; s += every) out.push(s);
  return out;
}

function drawAxes(svg, w, spec, { ticks, labels, left }, x, y) {
  ticks.forEach((v, i) => {
    shape("line", { x1: left, x2: w - PAD.right, y1: y(v), y2: y(v), class: "chart-grid" }, svg);
    labels[i].setAttribute("x", String(left - 8));
    labels[i].setAttribute("y", String(y(v) + 4));
  });
  for (const s of moments(spec, w - left - PAD.right)) {
    const at = x((s - spec.from) / spec.step);
    const text = shape("text", { x: at.toFixed(1), y: HEIGHT - 6, class: "chart-label", "text-anchor": "middle" }, svg);
    text.textContent = tick(s, spec.n * spec.step);
    const half = text.getComputedTextLength() / 2;
    if (at < half || at + half > w) text.remove(); // it would be cut
  }
}

function values(spec, i) {
  return spec.series.map((s) => `${s.label} ${s.values[i] === null ? "–" : spec.format(s.values[i])}`);
}

function cursor(svg, tip, spec, x, padLeft) {
  const mark = shape("line", { y1: PAD.top, y2: HEIGHT - PAD.bottom, class: "chart-cursor", visibility: "hidden" }, svg);
  let at = Math.max(0, ...spec.series.map((s) => s.values.findLastIndex((v) => v !== null)));
  const show = (i) => {
    at = Math.max(0, Math.min(spec.n - 1, i));
    mark.setAttribute("x1", x(at));
    mark.setAttribute("x2", x(at));
    mark.setAttribute("visibility", "visible");
    tip.replaceChildren(el("b", {}, moment(spec.from + at * spec.step, spec.step)), ...values(spec, at).map((text, k) => el("span", {}, el("i", { class: `stack-dot c${spec.series[k].color}` }), text)));
    tip.hidden = false;
    const left = x(at) > svg.clientWidth / 2;
    tip.style.left = left ? "" : `${x(at) + 10}px`;
    tip.style.right = left ? `${svg.clientWidth - x(at) + 10}px` : "";
  };
  const hide = () => { mark.setAttribute("visibility", "hidden"); tip.hidden = true; };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(Math.round((event.clientX - box.left - padLeft) / Math.max(1, box.width - padLeft - PAD.right) * (spec.n - 1)));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -spec.n, End: spec.n }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(at + (tip.hidden && Math.abs(step) === 1 ? 0 : step));
  });
}

function summary(spec) {
  return spec.series.map((s) => {
    const known = s.values.filter((v) => v !== null);
    if (!known.length) return t("admin.chartNone", { series: s.label });
    return t("admin.chartSummary", { series: s.label, last: spec.format(known.at(-1)), low: spec.format(Math.min(...known)), high: spec.format(Math.max(...known)) });
  }).join("; ");
}

function fillTable(details, spec) {
  const rows = [...Array(spec.n).keys()].reverse().filter((i) => spec.series.some((s) => s.values[i] !== null));
  details.lastChild.replaceChildren(el("table", { class: "admin-table" }, el("caption", { class: "sr" }, spec.title),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("admin.time")), ...spec.series.map((s) => el("th", { scope: "col" }, s.label)))),
    el("tbody", {}, ...rows.map((i) => el("tr", {}, el("th", { scope: "row" }, moment(spec.from + i * spec.step, spec.step)),
      ...spec.series.map((s) => el("td", {}, s.values[i] === null ? "–" : spec.format(s.values[i]))))))));
}

/**
 * A chart that can be drawn anew: { node, draw(spec) }.
 * spec: { title, from, step, n, format, most (of the axis; else by the values), kind ("number", "seconds", "whole"), series: [{ label, color: 0..5, values }] }
 */
export function chart() {
  const title = el("h2", {});
  const legend = el("ul", { class: "stack-legend", ariaHidden: "true" });
  const tip = el("div", { class: "chart-tip", hidden: true });
  const box = el("div", { class: "chart-box" });
  const details = el("details", {}, el("summary", {}, t("admin.chartTable")), el("div", { class: "admin-scroll chart-table", tabIndex: 0 }));
  const node = el("section", { class: "admin-block chart" }, title, box, legend, details);
  let current = null;
  details.addEventListener("toggle", () => { if (details.open && current) fillTable(details, current); });
  return {
    node,
    draw(spec) {
      const focused = box.contains(document.activeElement);
      const w = Math.max(260, box.clientWidth || 500);
      const ticks = ticksOf(spec);
      const top = ticks.at(-1);
      const y = (v) => HEIGHT - PAD.bottom - Math.min(1, v / top) * (HEIGHT - PAD.top - PAD.bottom);
      const svg = shape("svg", { viewBox: `0 0 ${w} ${HEIGHT}`, width: w, height: HEIGHT, role: "img", tabindex: 0, "aria-label": `${spec.title}. ${summary(spec)}` });
      current = spec;
      title.textContent = spec.title;
      box.replaceChildren(svg, tip); // in the document, so that its texts can be measured
      const { labels, left } = drawLabels(svg, ticks, spec.format);
      const x = (i) => left + (spec.n > 1 ? i / (spec.n - 1) : 1) * (w - left - PAD.right);
      drawAxes(svg, w, spec, { ticks, labels, left }, x, y);
      for (const s of spec.series) {
        shape("path", { d: line(s.values, x, y), class: `chart-line c${s.color}` }, svg);
        dots(svg, s, x, y);
      }
      cursor(svg, tip, spec, x, left);
      tip.hidden = true;
      legend.replaceChildren(...spec.series.map((s) => el("li", {}, el("span", { class: `stack-dot c${s.color}` }), s.label)));
      if (details.open) fillTable(details, spec);
      if (focused) svg.focus();
    },
  };
}
