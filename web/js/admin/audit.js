// The audit log: who did what, when, from where. Filtered by the server, read on at the end, saved as JSON lines.

import { call } from "../api.js";
import { el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { block, dateTime, problem, table } from "./view.js";

const PAGE = 50;
const SAVE_PAGE = 500; // the server's most

function query(form, before, limit) {
  const q = new URLSearchParams({ limit });
  for (const name of ["user", "action"]) if (form[name].value.trim()) q.set(name, form[name].value.trim());
  if (form.since.value) q.set("since", new Date(`${form.since.value}T00:00`).getTime());
  if (form.until.value) q.set("until", new Date(`${form.until.value}T00:00`).getTime() + 86400000); // the day itself too
  if (before) q.set("before", before);
  return `/api/admin/audit?${q}`;
}

async function save(form, button) {
  const lines = [];
  button.disabled = true;
  try {
    for (let before = null; ;) {
      const { items, next } = await call("GET", query(form, before, SAVE_PAGE));
      lines.push(...items.map((row) => `${JSON.stringify(row)}\n`));
      button.textContent = t("audit.saving", { n: lines.length });
      if (!next) break;
      before = next;
    }
    const link = el("a", { href: URL.createObjectURL(new Blob(lines, { type: "application/jsonl" })), download: "sluice-audit.jsonl" });
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) { toast(error.message); }
  button.textContent = t("audit.save");
  button.disabled = false;
}

function open(view, signal) {
  const list = el("div", { class: "audit-list" });
  let rows = [];
  const field = (name, type, label) => el("label", {}, label, el("input", { name, type }));
  const form = el("form", { class: "audit-filter", on: { submit: (event) => { event.preventDefault(); load(null); } } },
    field("user", "text", t("audit.user")), field("action", "text", t("audit.action")), field("since", "date", t("audit.since")),
    field("until", "date", t("audit.until")), el("button", { class: "primary" }, t("audit.show")),
    el("button", { type: "button", class: "quiet", on: { click: (event) => save(form, event.currentTarget) } }, t("audit.save")));
  async function load(before) {
    try {
      const { items, next } = await call("GET", query(form, before, PAGE));
      if (signal.aborted) return;
      rows = before ? [...rows, ...items] : items;
      list.replaceChildren(rows.length ? table(t("audit.title"), [t("audit.at"), t("audit.user"), t("audit.action"), t("audit.target"), t("audit.address")],
        rows.map((a) => [dateTime(a.at), a.user || "–", el("code", {}, a.action), a.target, a.address])) : el("p", { class: "muted" }, t("audit.none")));
      if (next) list.append(el("button", { type: "button", class: "quiet", on: { click: () => load(next) } }, t("audit.more")));
    } catch (error) { list.replaceChildren(problem(error)); }
  }
  view.append(block(t("audit.who"), form, list));
  return load(null);
}

export const auditSection = { id: "audit", title: t("audit.title"), open };
