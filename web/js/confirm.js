// "Is it still you?": asked when the server wants that before it does something that matters. Loaded when it is asked for.

import { call } from "./api.js";
import { el } from "./dom.js";
import { loadStrings, t } from "./i18n.js";
import { askPasskey, passkeysWork } from "./passkeys.js";

await loadStrings();

let asking = null; // requests that are refused at the same time share one dialog

function field(label, props) {
  const input = el("input", props);
  return { input, row: el("label", {}, el("span", {}, label), input) };
}

/** Shows the dialog; resolves to whether the session is confirmed now. */
function show(can) {
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const password = can.password && field(t("login.password"), { type: "password", autocomplete: "current-password" });
  const code = can.code && field(t(can.password ? "confirm.orCode" : "login.code"), { autocomplete: "one-time-code", autocapitalize: "none", spellcheck: false });
  const fields = [password, code].filter(Boolean);
  if (fields.length === 1) fields[0].input.required = true;
  let done = false;
  const prove = async (proof, input) => {
    problem.hidden = true;
    try {
      await call("POST", "/api/session/confirm", await proof());
      done = true;
      dialog.close();
    } catch (error) {
      if (error.status === 401) { dialog.close(); return; } // signed out: there is nothing left to confirm
      problem.textContent = error.param === "password" ? t("confirm.wrong") : error.message;
      problem.hidden = false;
      input?.select();
    }
  };
  const cancel = el("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, t("common.cancel"));
  const passkey = can.passkey && passkeysWork() ? el("button", { type: "button", class: `passkey ${fields.length ? "quiet" : "primary"}`,
    on: { click: () => prove(async () => ({ passkey: await askPasskey("/api/session/confirm/options") })) } }, t("confirm.passkey")) : null;
  const form = el("form", { on: { submit: (event) => {
    event.preventDefault();
    if (password?.input.value) prove(() => ({ password: password.input.value }), password.input);
    else prove(() => ({ code: code?.input.value.trim() }), code?.input);
  } } }, el("h2", { id: "confirm-session-title" }, t("confirm.title")), el("p", {}, t(fields.length || passkey ? "confirm.text" : "confirm.signInAgain")),
  ...fields.map((f) => f.row), problem,
  el("div", { class: "dialog-row" }, cancel, passkey, fields.length ? el("button", { class: "primary" }, t("confirm.go")) : null));
  const dialog = el("dialog", { id: "confirm-session", class: "dialog" }, form);
  dialog.setAttribute("aria-labelledby", "confirm-session-title");
  document.body.append(dialog);
  dialog.showModal();
  fields[0]?.input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(done);
    }, { once: true });
  });
}

/** Asks; resolves to whether it was confirmed. */
export function confirmSession() {
  asking ??= call("GET", "/api/session/confirm").then(show).finally(() => { asking = null; });
  return asking;
}
