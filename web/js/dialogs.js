// API keys, password, help.

import { call } from "./api.js";
import { copyText, el, $, icon, toast } from "./dom.js";
import { date, t } from "./i18n.js";
import { render } from "./render.js";
import { state } from "./state.js";

const LIMITED = { inference: "keys.mayInference", metrics: "keys.mayMetrics" };

async function drawKeys() {
  const { items } = await call("GET", "/api/keys");
  render($("keys-list"), ...items.map((key) => el("li", { data: { key: key.id } },
    el("span", { class: "grow" }, key.name || t("keys.unnamed")), el("code", {}, `${key.prefix}…`),
    key.scopes.length === 1 && LIMITED[key.scopes[0]] ? el("span", { class: "muted" }, t(LIMITED[key.scopes[0]])) : null,
    el("span", { class: "muted" }, key.last_used_at ? t("keys.used", { date: date(key.last_used_at) }) : t("keys.neverUsed")),
    el("button", { class: "icon-button", type: "button", data: { key: "delete" }, ariaLabel: t("keys.delete", { name: key.name }), on: { click: async () => {
      try { await call("DELETE", `/api/keys/${key.id}`); await drawKeys(); } catch (error) { toast(error.message); }
    } } }, icon("trash")))));
  if (!items.length) render($("keys-list"), el("li", { class: "muted" }, t("keys.none")));
}

export async function keysDialog() {
  $("keys-base").textContent = `${location.origin}/v1`;
  $("keys-new").hidden = true;
  $("keys-scopes").value = "";
  $("keys-scopes").querySelector("[value=metrics]").hidden = state.user?.role !== "admin";
  $("keys-dialog").showModal();
  try { await drawKeys(); } catch (error) { toast(error.message); }
}

$("keys-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const scopes = $("keys-scopes").value;
    const made = await call("POST", "/api/keys", { name: $("keys-name").value.trim(), ...(scopes && { scopes: [scopes] }) });
    $("keys-name").value = "";
    $("keys-new").hidden = false;
    $("keys-new").replaceChildren(made.key, " ", el("button", { type: "button", class: "icon-button", ariaLabel: t("keys.copy"),
      on: { click: () => copyText(made.key, t("keys.copied")) } }, icon("copy")));
    await drawKeys();
  } catch (error) { toast(error.message); }
});

export function passwordDialog() {
  const form = $("password-form");
  form.reset();
  form.querySelector(".form-error").hidden = true;
  $("password-dialog").showModal();
}

$("password-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = $("password-form");
  const problem = form.querySelector(".form-error");
  try {
    await call("POST", "/api/password", { current: form.current.value, new: form.new.value, revoke_keys: form.keys.checked });
    $("password-dialog").close();
    toast(t("password.changed"));
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
});
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
