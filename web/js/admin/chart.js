// A line chart as SVG: gaps where nothing is known, values under the pointer or by the arrow keys, and the same figures as
// a table for those who cannot see it.

import { el } from "../dom.js";
import { date, t } from "../i18n.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 170;
const PAD = { left: 62, right: 10, top: 10, bottom: 22 };

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  parent?.append(node);
  return node;
}

/** The next 1, 2 or 5 times a power of ten. */
function niceCeiling(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= x * 0.9999);
}

/** "M x y L x y ..." with a new M after each gap; a lone value is a short dash. */
function line(values, x, y) {
  let out = "";
  values.forEach((v, i) => {
    if (v === null) return;
    const alone = (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
    out += `${(values[i - 1] ?? null) === null ? "M" : "L"}${(x(i) - (alone ? 1 : 0)).toFixed(1)} ${y(v).toFixed(1)}`;
    if (alone) out += `h2`;
  });
  return out;
}

const moment = (s, step) => date(s * 1000, step >= 3600 ? { dateStyle: "short", timeStyle: "short" }
  : step >= 300 ? { day: "numeric", month: "numeric", hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const tick = (s, span) => date(s * 1000, span > 2 * 86400 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" });

function drawAxes(svg, w, spec, top, x, y) {
  for (const part of [0, 0.5, 1]) {
    shape("line", { x1: PAD.left, x2: w - PAD.right, y1: y(top * part), y2: y(top * part), class: "chart-grid" }, svg);
    shape("text", { x: PAD.left - 8, y: y(top * part) + 4, class: "chart-label", "text-anchor": "end" }, svg).textContent = spec.format(top * part);
  }
  const count = Math.max(2, Math.min(6, Math.floor(w / 130)));
  for (let k = 0; k < count; k++) {
    const i = Math.round(k * (spec.n - 1) / (count - 1));
    shape("text", { x: x(i), y: HEIGHT - 6, class: "chart-label", "text-anchor": k === 0 ? "start" : k === count - 1 ? "end" : "middle" }, svg)
      .textContent = tick(spec.from + i * spec.step, spec.n * spec.step);
  }
}

function values(spec, i) {
  return spec.series.map((s) => `${s.label} ${s.values[i] === null ? "–" : spec.format(s.values[i])}`);
}

function cursor(svg, tip, spec, x) {
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
    show(Math.round((event.clientX - box.left - PAD.left) / Math.max(1, box.width - PAD.left - PAD.right) * (spec.n - 1)));
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
 * spec: { title, from, step, n, format, most (of the axis; else by the values), series: [{ label, color: 0..5, values }] }
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
      const x = (i) => PAD.left + (spec.n > 1 ? i / (spec.n - 1) : 1) * (w - PAD.left - PAD.right);
      const top = spec.most || niceCeiling(Math.max(0, ...spec.series.flatMap((s) => s.values.filter((v) => v !== null))));
      const y = (v) => HEIGHT - PAD.bottom - Math.min(1, v / top) * (HEIGHT - PAD.top - PAD.bottom);
      const svg = shape("svg", { viewBox: `0 0 ${w} ${HEIGHT}`, width: w, height: HEIGHT, role: "img", tabindex: 0, "aria-label": `${spec.title}. ${summary(spec)}` });
      current = spec;
      title.textContent = spec.title;
      drawAxes(svg, w, spec, top, x, y);
      for (const s of spec.series) shape("path", { d: line(s.values, x, y), class: `chart-line c${s.color}` }, svg);
      cursor(svg, tip, spec, x);
      tip.hidden = true;
      box.replaceChildren(svg, tip);
      legend.replaceChildren(...spec.series.map((s) => el("li", {}, el("span", { class: `stack-dot c${s.color}` }), s.label)));
      if (details.open) fillTable(details, spec);
      if (focused) svg.focus();
    },
  };
}
