// API keys: those that there are, and new ones, which are shown once.

import { call } from "../api.js";
import { copyText, el, icon, toast } from "../dom.js";
import { date, t } from "../i18n.js";
import { render } from "../render.js";
import { state } from "../state.js";

const DAYS = [7, 30, 90, 365]; // how long a new key can be good
const LIMITED = { inference: "keys.mayInference", metrics: "keys.mayMetrics" };

/** What it may do, how long, and when it last did. */
function factsOf(key) {
  const ends = key.expires_at && t(key.expires_at > Date.now() ? "share.until" : "keys.expired", { date: date(key.expires_at) });
  return [key.scopes.length === 1 && LIMITED[key.scopes[0]] ? t(LIMITED[key.scopes[0]]) : "", ends,
    key.last_used_at ? t("keys.used", { date: date(key.last_used_at) }) : t("keys.neverUsed")].filter(Boolean).join(" · ");
}

async function drawList(list) {
  const { items } = await call("GET", "/api/keys");
  render(list, ...items.map((key) => el("li", { data: { key: key.id } },
    el("span", { class: "grow" }, key.name || t("keys.unnamed"), el("small", { class: "muted" }, factsOf(key))), el("code", {}, `${key.prefix}…`),
    el("button", { class: "icon-button", type: "button", data: { key: "delete" }, ariaLabel: t("keys.delete", { name: key.name }), on: { click: async () => {
      try { await call("DELETE", `/api/keys/${key.id}`); await drawList(list); } catch (error) { toast(error.message); }
    } } }, icon("trash")))));
  if (!items.length) render(list, el("li", { class: "muted" }, t("keys.none")));
}

export async function draw(panel) {
  const list = el("ul", { id: "keys-list", class: "keys" });
  const name = el("input", { id: "keys-name", placeholder: t("keys.example"), ariaLabel: t("keys.newName"), maxLength: 100, required: true });
  const scopes = el("select", { id: "keys-scopes", ariaLabel: t("keys.may") }, el("option", { value: "" }, t("keys.mayAll")), el("option", { value: "inference" }, t("keys.mayInference")),
    state.user?.role === "admin" ? el("option", { value: "metrics" }, t("keys.mayMetrics")) : null);
  const days = el("select", { id: "keys-days", ariaLabel: t("keys.expires") }, el("option", { value: "" }, t("keys.forever")),
    ...DAYS.map((n) => el("option", { value: n }, t("keys.days", { n }))));
  const fresh = el("p", { id: "keys-new", class: "new-key", hidden: true });
  const make = async (event) => {
    event.preventDefault();
    try {
      const made = await call("POST", "/api/keys", { name: name.value.trim(), ...(scopes.value && { scopes: [scopes.value] }), ...(days.value && { expires_at: Date.now() + days.value * 864e5 }) });
      name.value = "";
      fresh.hidden = false;
      fresh.replaceChildren(made.key, " ", el("button", { type: "button", class: "icon-button", ariaLabel: t("keys.copy"), on: { click: () => copyText(made.key, t("keys.copied")) } }, icon("copy")));
      await drawList(list);
    } catch (error) { toast(error.message); }
  };
  panel.append(el("p", { class: "muted" }, t("keys.intro"), " ", el("code", { id: "keys-base" }, `${location.origin}/v1`)), list,
    el("form", { id: "keys-form", class: "inline-form", on: { submit: make } }, name, scopes, days, el("button", { class: "primary" }, t("keys.make"))), fresh);
  await drawList(list);
}
