// A line as small as a figure's own height, with the greatest value of its axis beside it: gaps where nothing is known.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { niceStep } from "./chart.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 200, HEIGHT = 44, POINTS = 90;

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  parent?.append(node);
  return node;
}

/** At most so many values, each the greatest of those that it stands for: a peak stays one. */
function thin(values) {
  const per = Math.ceil(values.length / POINTS);
  const out = [];
  for (let i = 0; i < values.length; i += per) {
    const some = values.slice(i, i + per).filter((v) => v !== null);
    out.push(some.length ? Math.max(...some) : null);
  }
  return out;
}

/** format: what a value says to people; most: of the axis, else the next round number; kind as in chart.js. */
export function sparkline({ label, values, format, most, kind }) {
  const shown = thin(values);
  const highest = Math.max(0, ...shown.filter((v) => v !== null));
  const step = niceStep(highest, kind);
  const top = most ?? (highest > 0 ? Math.ceil(highest / step - 0.0001) * step : 1);
  const known = values.filter((v) => v !== null);
  const words = known.length ? t("admin.chartSummary", { series: label, last: format(known.at(-1)), low: format(Math.min(...known)), high: format(Math.max(...known)) }) : t("admin.chartNone", { series: label });
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", preserveAspectRatio: "none", role: "img", "aria-label": words });
  const x = (i) => (shown.length > 1 ? i / (shown.length - 1) : 1) * WIDTH;
  const y = (v) => HEIGHT - 2 - Math.min(1, v / top) * (HEIGHT - 4);
  let line = "";
  let area = "";
  let from = -1;
  const close = (to) => { if (from >= 0) area += `L${x(to).toFixed(1)} ${HEIGHT}L${x(from).toFixed(1)} ${HEIGHT}Z`; from = -1; };
  shown.forEach((v, i) => {
    if (v === null) { close(i - 1); return; }
    const point = `${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    line += `${from < 0 ? "M" : "L"}${point}`;
    area += `${from < 0 ? "M" : "L"}${point}`;
    if (from < 0) from = i;
  });
  close(shown.length - 1);
  shape("path", { d: area, class: "spark-area" }, svg);
  shape("path", { d: line, class: "spark-line" }, svg);
  return el("span", { class: "spark-box" }, svg, el("span", { class: "spark-top", ariaHidden: "true" }, known.length ? format(top) : ""));
}
