// What an admin of a new server does first, as a card under the greeting: a model that fits, people, and chats from elsewhere. It goes
// with the first chat, or when it is closed.

import { el, $, icon } from "./dom.js";
import { t } from "./i18n.js";
import { state } from "./state.js";

const STORED = "first-run"; // "0": closed, on this device

function closed() {
  try { return localStorage.getItem(STORED) === "0"; } catch { return false; } // private mode
}

function close() {
  try { localStorage.setItem(STORED, "0"); } catch { /* private mode */ }
  $("first-run")?.remove();
}

/** empty: there is no chat yet; importChats opens the import. */
export function drawFirstRun(empty, importChats) {
  $("first-run")?.remove();
  if (!empty || state.user?.role !== "admin" || closed()) return;
  const step = (name, key, props) => el("li", {}, props.href ? el("a", { class: "quiet", href: props.href }, icon(name), t(key)) : el("button", { class: "quiet", type: "button", on: props.on }, icon(name), t(key)));
  $("suggestions").after(el("section", { id: "first-run", class: "first-run", ariaLabel: t("firstRun.title") },
    el("h3", {}, t("firstRun.title")), el("ul", {},
      step("tune", "firstRun.model", { href: "/admin#/models" }), step("share", "firstRun.invite", { href: "/admin#/users" }),
      step("import", "firstRun.import", { on: { click: importChats } })),
    el("button", { class: "icon-button", type: "button", ariaLabel: t("common.close"), on: { click: close } }, icon("close"))));
}
