// Usage and storage: today's part of the limits, the last 30 days, what the prompt cache keeps.

import { dayBars } from "../bars.js";
import { call } from "../api.js";
import { confirmDialog, el, toast } from "../dom.js";
import { bytes } from "../format.js";
import { date, number, t } from "../i18n.js";
import { settingRow } from "./rows.js";

const DAYS = 30;
const DAY_MS = 86400000;
const when = (ms) => date(ms, { dateStyle: "medium", timeStyle: "short" });

function quota(label, used, limit, text) {
  const bar = limit ? el("progress", { max: limit, value: Math.min(used, limit), ariaLabel: label }) : null;
  return el("div", { class: "quota" }, el("span", {}, label),
    el("span", { class: "muted" }, limit ? t("security.usedOf", { used: text(used), limit: text(limit) }) : text(used)), bar);
}

async function limitsPart() {
  const { limits, used, day_ends_at, groups, limit_sources: sources } = await call("GET", "/api/account/limits");
  const label = (key, name) => (sources[name].from === "group" ? `${t(key)} (${t("security.ofGroup", { name: sources[name].group })})` : t(key));
  const rows = [quota(label("security.tokensToday", "tokens_per_day"), used.tokens_today, limits.tokens_per_day, number),
    quota(label("security.stored", "storage_bytes"), used.storage_bytes, limits.storage_bytes, bytes)];
  if (limits.tokens_per_day) rows.push(el("p", { class: "muted" }, t("security.dayEnds", { time: when(day_ends_at) })));
  const more = [["requests_per_minute", "security.requests"], ["tokens_per_minute", "security.tokens"], ["max_jobs", "security.jobs"]]
    .filter(([name]) => limits[name]).map(([name, key]) => t(key, { n: limits[name] }));
  if (groups.length) rows.push(el("div", { class: "groups", data: { pref: "groups" } }, el("h4", {}, t("security.groups")),
    el("ul", {}, ...groups.map((g) => el("li", {}, el("b", {}, g.name), g.description ? ` – ${g.description}` : "")))));
  if (more.length) rows.push(el("p", { class: "muted" }, more.join(" · ")));
  return el("section", { class: "usage-part", data: { pref: "limits" } }, ...rows);
}

async function daysPart() {
  const { items } = await call("GET", `/api/usage?days=${DAYS}`);
  const first = Math.floor(Date.now() / DAY_MS) - DAYS + 1; // days are those of UTC, as the limits are
  const values = Array(DAYS).fill(0);
  for (const u of items) {
    const at = Math.round(Date.parse(u.day) / DAY_MS) - first;
    if (at >= 0 && at < DAYS) values[at] += u.prompt_tokens + u.completion_tokens;
  }
  return el("section", { class: "usage-part", data: { pref: "days" } }, el("h4", {}, t("settingsWindow.days30")), dayBars({ label: t("settingsWindow.days30"), first, values }));
}

async function keptPart(panel) {
  const { tokens, bytes: size } = await call("GET", "/api/prompt-cache");
  const clear = el("button", { type: "button", class: "quiet", disabled: !tokens, on: { click: async () => {
    if (!await confirmDialog(t("settingsWindow.keptTitle"), t("settingsWindow.keptText"), t("list.keptForget"))) return;
    try { await call("DELETE", "/api/prompt-cache"); toast(t("list.keptDone")); } catch (error) { toast(error.message); return; }
    panel.querySelector("[data-pref=kept]").replaceWith(await keptPart(panel));
  } } }, t("list.keptForget"));
  const row = settingRow(t("list.kept"), clear, tokens ? `${t("thread.tokens", { n: tokens })} · ${bytes(size)}. ${t("settingsWindow.keptText")}` : t("settingsWindow.keptNone"));
  row.dataset.pref = "kept";
  return row;
}

export async function draw(panel) {
  const parts = await Promise.all([limitsPart(), daysPart(), keptPart(panel)]);
  panel.append(...parts);
}
