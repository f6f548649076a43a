// Load: what the server did over time, from the history that it keeps itself (10 s for 6 hours, 5 min for 30 days).

import { announce, el } from "../dom.js";
import { t } from "../i18n.js";
import { chart } from "./chart.js";
import { bytes, count, percent, poll, problem, short, span } from "./view.js";

const RANGES = [[900, "admin.range_15m"], [3600, "admin.range_1h"], [21600, "admin.range_6h"], [86400, "admin.range_1d"], [604800, "admin.range_7d"], [2592000, "admin.range_30d"]];

/** Column by column: f(row's values by name), null where the row is a gap. */
function column(view, f) {
  const c = view.columns;
  return c.covered_s.map((covered, i) => (covered === null ? null : f((name) => c[name][i], covered)));
}
const rateOf = (view, name) => column(view, (v, covered) => v(name) / covered);
const shareOf = (view, part, all) => column(view, (v) => (v(all) > 0 ? v(part) / v(all) : null));
const plain = (view, name) => view.columns[name];
const whileUp = (view, f) => column(view, (v, covered) => (v("up") > 0 ? f(v, covered) : null));
const any = (values) => values.some((v) => v > 0);

/** What is drawn. A series that never has a value above 0 is left out when it is `rare`. */
const CHARTS = [
  { title: "admin.chartTokens", format: short, series: (v) => [
    { label: "admin.seriesAnswers", values: whileUp(v, (x, s) => x("completion_tokens") / s) },
    { label: "admin.seriesPrompts", values: whileUp(v, (x, s) => (x("prompt_tokens") - x("cached_tokens")) / s) }] },
  { title: "admin.chartJobs", kind: "whole", format: short, series: (v) => [
    { label: "admin.seriesRunning", values: whileUp(v, (x) => x("running")) }, { label: "admin.seriesWaiting", values: whileUp(v, (x) => x("waiting")) }] },
  { title: "admin.chartFirstToken", kind: "seconds", format: span, series: (v) => [
    { label: "admin.seriesP50", values: plain(v, "first_token_p50") }, { label: "admin.seriesP95", values: plain(v, "first_token_p95") }, { label: "admin.seriesP99", values: plain(v, "first_token_p99") }] },
  { title: "admin.chartPerToken", kind: "seconds", format: span, series: (v) => [
    { label: "admin.seriesP50", values: plain(v, "per_token_p50") }, { label: "admin.seriesP95", values: plain(v, "per_token_p95") }, { label: "admin.seriesP99", values: plain(v, "per_token_p99") }] },
  { title: "admin.chartCache", format: (x) => percent(x, 1), most: 1, series: (v) => [
    { label: "admin.seriesPromptHits", values: shareOf(v, "cached_tokens", "prompt_tokens") },
    { label: "admin.seriesExpertHits", values: shareOf(v, "expert_hits", "expert_asked"), rare: true }] },
  { title: "admin.chartMemory", format: bytes, series: (v) => [
    { label: "admin.seriesResident", values: plain(v, "resident_bytes") }, { label: "admin.seriesWeights", values: plain(v, "weight_bytes") },
    { label: "admin.seriesExperts", values: plain(v, "expert_bytes"), rare: true }, { label: "admin.seriesDevice", values: plain(v, "device_bytes"), rare: true },
    { label: "admin.seriesAvailable", values: whileUp(v, (x) => x("available_bytes")) }] },
  { title: "admin.chartDisk", format: (x) => t("admin.perSecond", { value: bytes(x) }), series: (v) => [
    { label: "admin.seriesDisk", values: rateOf(v, "disk_bytes") }, { label: "admin.seriesExpertDisk", values: rateOf(v, "expert_read_bytes"), rare: true },
    { label: "admin.seriesBus", values: rateOf(v, "expert_bus_bytes"), rare: true }] },
  { title: "admin.chartCpu", format: (x) => percent(x, 1), most: 1, series: (v) => [
    { label: "admin.seriesHost", values: plain(v, "host_cpu") }, { label: "admin.seriesStep", values: whileUp(v, (x, s) => Math.min(1, x("step_ms") / 1000 / s)) }] },
  { title: "admin.chartCores", format: short, series: (v) => [{ label: "admin.seriesCores", values: rateOf(v, "cpu_ms").map((x) => (x === null ? null : x / 1000)) }] },
  { title: "admin.chartRequests", format: short, series: (v) => [
    { label: "admin.seriesRequests", values: rateOf(v, "http_requests") }, { label: "admin.seriesErrors", values: rateOf(v, "http_errors") }] },
];

function total(view, name) {
  return view.columns[name].reduce((all, x) => all + (x ?? 0), 0);
}

function jobsOf(h) {
  const failed = Math.round(total(h, "jobs_failed"));
  return t(failed ? "admin.sumJobsFailed" : "admin.sumJobs", { n: Math.round(total(h, "jobs_done")), failed });
}

function open(view, signal) {
  let seconds = 3600;
  try { seconds = Number(sessionStorage.getItem("admin-range")) || 3600; } catch { /* private mode */ }
  const choice = el("select", { ariaLabel: t("admin.range") }, ...RANGES.map(([s, key]) => el("option", { value: String(s), selected: s === seconds }, t(key))));
  const sums = el("p", { class: "muted load-sums" });
  let asked = false; // for another range: then the sums are read aloud, not with each round
  const charts = CHARTS.map(() => chart());
  const grid = el("div", { class: "charts" }, ...charts.map((c) => c.node));
  view.append(el("div", { class: "admin-row" }, choice, sums), grid);

  let last = null;
  const draw = (h) => {
    last = h;
    sums.textContent = t("admin.rangeSums", { prompt: count(total(h, "prompt_tokens")), answers: count(total(h, "completion_tokens")), jobs: jobsOf(h), requests: t("admin.sumRequests", { n: Math.round(total(h, "http_requests")) }), step: span(h.step_s) });
    if (asked) announce(sums.textContent);
    asked = false;
    sums.dataset.completion = String(total(h, "completion_tokens"));
    CHARTS.forEach((c, i) => {
      const series = c.series(h).filter((s) => !s.rare || any(s.values)).map((s, k) => ({ ...s, label: t(s.label), color: k }));
      charts[i].draw({ title: t(c.title), from: h.from, step: h.step_s, n: h.n, format: c.format, most: c.most, kind: c.kind, series });
    });
  };
  const again = poll(signal, 10000, () => `/api/admin/history?seconds=${seconds}`, draw, (error) => sums.replaceChildren(problem(error)));
  choice.addEventListener("change", () => {
    seconds = Number(choice.value);
    asked = true;
    try { sessionStorage.setItem("admin-range", choice.value); } catch { /* private mode */ }
    again();
  });
  addEventListener("resize", () => { if (last) draw(last); }, { signal });
  return again.first;
}

export const loadSection = { id: "load", get title() { return t("admin.load"); }, open };
