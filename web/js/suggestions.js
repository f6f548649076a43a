// First messages for an empty chat: the admin's, or the page's own.

import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { render } from "./render.js";
import { emit, on, state } from "./state.js";

const OWN = ["suggestions.who", "suggestions.capital", "suggestions.story", "suggestions.sum"];

on("status", () => {
  const texts = state.status?.suggestions?.length ? state.status.suggestions : OWN.map((key) => t(key));
  render($("suggestions"), ...[...new Set(texts)].map((text) => el("button", { class: "suggestion", type: "button", dir: "auto", data: { key: text }, on: { click: () => emit("suggestion", text) } }, text)));
});
