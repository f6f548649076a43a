// Overview: what needs a hand, then how the server does, as figures with their last hour or their last 30 days. All of it is counted
// where it happens: the history that the recorder keeps, and the rows of usage.

import { compact, dayBarsSmall } from "../bars.js";
import { call } from "../api.js";
import { el } from "../dom.js";
import { date, t } from "../i18n.js";
import { render } from "../render.js";
import { attentionBlock } from "./attention.js";
import { sparkline } from "./spark.js";
import { bytes, count, percent, poll, problem, short, span } from "./view.js";

const RANGE_S = 3600;
const LEAST_S = 600;
const DAYS = 30;
const DAY_MS = 86400000;
const clock = (s) => date(s * 1000, { hour: "numeric", minute: "2-digit" });

const last = (values) => values.findLast((v) => v !== null) ?? null;
const sum = (values) => values.reduce((all, v) => all + (v ?? 0), 0);
/** Each row's value per second, null in gaps. */
const rate = (h, name) => h.columns[name].map((v, i) => (v === null ? null : v / h.columns.covered_s[i]));

/** Without the time before anybody watched, of a server that is younger than the hour; ten minutes stay. */
function cropped(h) {
  const first = Math.max(0, Math.min(h.columns.covered_s.findIndex((v) => v !== null), h.n - Math.ceil(LEAST_S / h.step_s)));
  const columns = Object.fromEntries(Object.entries(h.columns).map(([name, values]) => [name, values.slice(first)]));
  return { ...h, from: h.from + first * h.step_s, n: h.n - first, columns };
}

/** A figure with where it comes from: a link to the section that has more of it. */
function tile({ title, value, note, href, graph, axis }) {
  return el("a", { class: "tile", href }, el("span", { class: "tile-title" }, title), el("span", { class: "tile-value" }, value),
    el("span", { class: "tile-note muted" }, note || "\u00a0"), graph, el("span", { class: "tile-axis", ariaHidden: "true" }, ...axis.map((a) => el("span", {}, a))));
}

function hourTile(h, { title, values, format, value, note, href = "#/load", most, kind }) {
  return tile({ title, value: value ?? format(last(values)), note, href, graph: sparkline({ label: title, values, format, most, kind }), axis: [clock(h.from), clock(h.from + h.step_s * h.n)] });
}

function hourTiles(s, h) {
  const c = h.columns;
  const errors = sum(c.http_errors);
  const requests = sum(c.http_requests);
  return [
    hourTile(h, { title: t("admin.tileAnswers"), values: c.running, format: short, kind: "whole", value: count(s.load.jobs_running), note: t("admin.tileQueued", { n: s.load.jobs_waiting }), href: "#/jobs" }),
    hourTile(h, { title: t("admin.tileRate"), values: rate(h, "completion_tokens"), format: (v) => t("thread.rate", { rate: short(v) }), note: t("admin.tileHour", { n: Math.round(sum(c.completion_tokens)) }) }),
    hourTile(h, { title: t("admin.tileFirst"), values: c.first_token_p95, format: (v) => (v === null ? "–" : span(v)), kind: "seconds", note: t("admin.tileFirstNote") }),
    hourTile(h, { title: t("admin.tileErrors"), values: c.http_errors, format: short, kind: "whole", value: count(errors), note: t("admin.tileErrorsOf", { n: Math.round(requests) }), href: "#/logs" }),
    hourTile(h, { title: t("admin.tileMemory"), values: c.resident_bytes, format: bytes, note: t("admin.tileFree", { size: bytes(s.memory.memory_available) }), href: "#/status" }),
    hourTile(h, { title: t("admin.tileCpu"), values: c.host_cpu, format: (v) => (v === null ? "–" : percent(v, 1)), most: 1, note: t("admin.seriesHost") }),
  ];
}

function dayTiles(u, users) {
  const first = Math.round(Date.parse(u.from) / DAY_MS);
  const tokens = Array(u.days).fill(0);
  const people = Array(u.days).fill(0);
  for (const one of u.users) {
    for (let i = 0; i < u.days; i++) {
      tokens[i] += one.prompt_tokens[i] + one.completion_tokens[i];
      if (one.requests[i]) people[i]++;
    }
  }
  const day = (i) => date((first + i) * DAY_MS, { day: "numeric", month: "short", timeZone: "UTC" });
  const axis = [day(0), day(u.days - 1)];
  const dayTile = (title, values, value, note, words) => tile({ title, value, note, href: "#/users", axis,
    graph: el("span", { class: "spark-box" }, dayBarsSmall({ label: title, first, values, words }), el("span", { class: "spark-top", ariaHidden: "true" }, compact(Math.max(...values)))) });
  return [
    dayTile(t("admin.tilePeople"), people, count(people.at(-1)), t("admin.tilePeopleOf", { n: users }), (n) => t("admin.tilePeopleDay", { n })),
    dayTile(t("admin.tileTokens"), tokens, count(tokens.at(-1)), t("admin.tileMonth", { n: sum(tokens) }), (n) => t("thread.tokens", { n })),
  ];
}

function open(view, signal) {
  const attention = el("div", { class: "overview-attention" });
  const tiles = el("div", { class: "tiles" });
  view.append(attention, tiles);
  let checks = [];
  const known = {}; // what has come: status, history, usage
  const draw = () => {
    if (!known.status) return;
    render(attention, attentionBlock(known.status, checks));
    render(tiles, ...(known.history ? hourTiles(known.status, cropped(known.history)) : []), ...(known.usage ? dayTiles(known.usage, known.status.database.users) : []));
  };
  const take = (name) => (value) => { known[name] = value; draw(); };
  const failed = (error) => { if (!tiles.childElementCount) render(attention, problem(error)); };
  call("GET", "/api/admin/checks").then(({ items }) => { if (!signal.aborted) { checks = items; draw(); } }, () => { /* the section of that name says why */ });
  const again = poll(signal, 3000, "/api/admin/status", take("status"), failed);
  poll(signal, 10000, `/api/admin/history?seconds=${RANGE_S}`, take("history"), failed);
  poll(signal, 60000, `/api/admin/usage/daily?days=${DAYS}`, take("usage"), failed);
  return again.first;
}

export const overviewSection = { id: "overview", get title() { return t("admin.overview"); }, open };
