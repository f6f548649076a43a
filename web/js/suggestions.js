// What an empty chat offers: first messages that an admin wrote, which are sent at once, or beginnings of the page's own, which wait for the
// text that they are about.

import { focusAtEnd, setText } from "./composer.js";
import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { render } from "./render.js";
import { emit, on, state } from "./state.js";

const OWN = ["reply", "summary", "error", "plan"];

const textOf = (name) => `${t(`suggestions.${name}Text`)}\n\n`;

/** What is typed already is what it is about; another beginning goes. */
function begin(name) {
  const typed = $("composer-text").value;
  const old = OWN.map(textOf).find((text) => typed.startsWith(text)) || "";
  setText(textOf(name) + typed.slice(old.length));
  focusAtEnd();
}

const button = (text, click) => el("button", { class: "suggestion", type: "button", dir: "auto", data: { key: text }, on: { click } }, text);

on("status", () => {
  const written = [...new Set(state.status?.suggestions || [])];
  render($("suggestions"), ...(written.length ? written.map((text) => button(text, () => emit("suggestion", text))) : OWN.map((name) => button(t(`suggestions.${name}`), () => begin(name)))));
});
