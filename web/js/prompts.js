// The own prompts: texts by name, used by "/name" in the message box; {{words}} in them are asked for.

import { call } from "./api.js";
import { focusComposer, setText } from "./composer.js";
import { el, $, icon, toast } from "./dom.js";
import { t } from "./i18n.js";
import { render } from "./render.js";

let known = null; // as the server has them; null: not read yet
let edited = null; // the one whose text is in the form

export async function prompts() {
  try { known ??= (await call("GET", "/api/prompts")).items; } catch { return []; }
  return known;
}

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

/** The library itself. */
export async function promptsDialog() {
  const rows = el("ul", { class: "keys" });
  const name = el("input", { maxLength: 64, required: true, pattern: "[^ \\/]+", placeholder: t("prompts.example"), title: t("prompts.nameRule") });
  const text = el("textarea", { rows: 5, required: true, maxLength: 65536, dir: "auto", placeholder: t("prompts.textExample", { slot: "{{x}}" }) });
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const save = el("button", { class: "primary" }, t("prompts.add"));
  const complain = (error) => { problem.textContent = error?.message || ""; problem.hidden = !error; };
  const edit = (prompt) => {
    edited = prompt;
    name.value = prompt?.name || "";
    text.value = prompt?.text || "";
    save.textContent = prompt ? t("common.save") : t("prompts.add");
    complain(null);
  };
  const draw = async () => {
    const all = await prompts();
    render(rows, ...all.map((p) => el("li", { data: { key: `${p.id} ${p.updated_at}` } },
      el("span", { class: "grow" }, el("code", {}, `/${p.name}`), " ", el("span", { class: "muted", dir: "auto" }, p.text.replace(/\s+/g, " ").slice(0, 60))),
      el("button", { class: "icon-button", type: "button", data: { key: "edit" }, ariaLabel: t("prompts.edit", { name: p.name }), on: { click: () => { edit(p); text.focus(); } } }, icon("edit")),
      el("button", { class: "icon-button", type: "button", data: { key: "delete" }, ariaLabel: t("prompts.delete", { name: p.name }), on: { click: async () => {
        try { await call("DELETE", `/api/prompts/${p.id}`); known = null; if (edited === p) edit(null); await draw(); } catch (error) { complain(error); }
      } } }, icon("trash")))));
    if (!all.length) render(rows, el("li", { class: "muted" }, t("prompts.none")));
  };
  const node = dialog("prompts-dialog", el("h2", { id: "prompts-dialog-title" }, t("prompts.title")), el("p", { class: "muted" }, t("prompts.intro")), rows,
    el("form", { id: "prompts-form", on: { submit: async (event) => {
      event.preventDefault();
      try {
        await call(edited ? "PATCH" : "POST", edited ? `/api/prompts/${edited.id}` : "/api/prompts", { name: name.value.trim(), text: text.value });
        known = null;
        toast(t("prompts.saved", { name: name.value.trim() }));
        edit(null);
        await draw();
        name.focus();
      } catch (error) { complain(error); }
    } } }, el("label", {}, el("span", {}, t("prompts.name")), name), el("label", {}, el("span", {}, t("prompts.text")), text), problem,
    el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: () => node.close() } }, t("common.close")), save)));
  edit(null);
  await draw();
}
