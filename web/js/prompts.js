// The own prompts (settings/prompts.js makes them): texts by name, used by "/name" in the message box; {{words}} in them are asked for.

import { call } from "./api.js";
import { focusComposer, setText } from "./composer.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";

let known = null; // as the server has them; null: not read yet

export async function prompts() {
  try { known ??= (await call("GET", "/api/prompts")).items; } catch { return []; }
  return known;
}

export function forgetPrompts() { known = null; }

/** The {{words}} of a text, each once, in their order. */
export function variables(text) {
  return [...new Set([...text.matchAll(/\{\{\s*([^{}\s][^{}]*?)\s*\}\}/g)].map((m) => m[1]))];
}

function fillIn(text, values) {
  return text.replace(/\{\{\s*([^{}\s][^{}]*?)\s*\}\}/g, (whole, name) => values.get(name) ?? whole);
}

function dialog(id, ...children) {
  document.getElementById(id)?.remove();
  const node = el("dialog", { id, class: "dialog" }, ...children);
  node.setAttribute("aria-labelledby", `${id}-title`);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

/** Puts the prompt's text into the message box, after asking for what it leaves open. */
export function usePrompt(prompt) {
  const names = variables(prompt.text);
  const put = (content) => { setText(content); focusComposer(); };
  if (!names.length) { put(prompt.text); return; }
  const fields = names.map((name) => el("textarea", { rows: 1, dir: "auto", name }));
  const node = dialog("prompt-dialog", el("form", { on: { submit: (event) => {
    event.preventDefault();
    const values = new Map(names.map((name, i) => [name, fields[i].value]));
    node.close();
    put(fillIn(prompt.text, values));
  } } }, el("h2", { id: "prompt-dialog-title" }, `/${prompt.name}`),
  ...names.map((name, i) => el("label", {}, el("span", { dir: "auto" }, name), fields[i])),
  el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: () => node.close() } }, t("common.cancel")),
    el("button", { class: "primary" }, t("prompts.use")))));
  fields[0].addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && names.length === 1) { event.preventDefault(); node.querySelector("form").requestSubmit(); }
  });
  fields[0].focus();
}
