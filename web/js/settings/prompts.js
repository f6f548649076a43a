// The library of prompts: texts by name, made, changed and taken away here.

import { call } from "../api.js";
import { el, icon, toast } from "../dom.js";
import { t } from "../i18n.js";
import { forgetPrompts, prompts } from "../prompts.js";
import { render } from "../render.js";
import { problemNode } from "./rows.js";

let edited = null; // the one whose text is in the form

export async function draw(panel) {
  const rows = el("ul", { class: "keys" });
  const name = el("input", { maxLength: 64, required: true, pattern: "[^ \\/]+", placeholder: t("prompts.example"), title: t("prompts.nameRule") });
  const text = el("textarea", { rows: 5, required: true, maxLength: 65536, dir: "auto", placeholder: t("prompts.textExample", { slot: "{{x}}" }) });
  const problem = problemNode();
  const save = el("button", { class: "primary" });
  const cancel = el("button", { type: "button", class: "quiet", on: { click: () => edit(null) } }, t("common.cancel"));
  const complain = (error) => { problem.textContent = error?.message || ""; problem.hidden = !error; };
  const edit = (prompt) => {
    edited = prompt;
    name.value = prompt?.name || "";
    text.value = prompt?.text || "";
    save.textContent = prompt ? t("common.save") : t("prompts.add");
    cancel.hidden = !prompt;
    complain(null);
  };
  const list = async () => {
    const all = await prompts();
    render(rows, ...all.map((p) => el("li", { data: { key: `${p.id} ${p.updated_at}` } },
      el("span", { class: "grow" }, el("code", {}, `/${p.name}`), " ", el("span", { class: "muted", dir: "auto" }, p.text.replace(/\s+/g, " ").slice(0, 60))),
      el("button", { class: "icon-button", type: "button", data: { key: "edit" }, ariaLabel: t("prompts.edit", { name: p.name }), on: { click: () => { edit(p); text.focus(); } } }, icon("edit")),
      el("button", { class: "icon-button", type: "button", data: { key: "delete" }, ariaLabel: t("prompts.delete", { name: p.name }), on: { click: async () => {
        try { await call("DELETE", `/api/prompts/${p.id}`); forgetPrompts(); if (edited === p) edit(null); await list(); } catch (error) { complain(error); }
      } } }, icon("trash")))));
    if (!all.length) render(rows, el("li", { class: "muted" }, t("prompts.none")));
  };
  panel.append(el("p", { class: "muted" }, t("prompts.intro")), rows,
    el("form", { id: "prompts-form", on: { submit: async (event) => {
      event.preventDefault();
      try {
        await call(edited ? "PATCH" : "POST", edited ? `/api/prompts/${edited.id}` : "/api/prompts", { name: name.value.trim(), text: text.value });
        forgetPrompts();
        toast(t("prompts.saved", { name: name.value.trim() }));
        edit(null);
        await list();
        name.focus();
      } catch (error) { complain(error); }
    } } }, el("label", {}, el("span", {}, t("prompts.name")), name), el("label", {}, el("span", {}, t("prompts.text")), text), problem,
    el("div", { class: "dialog-row" }, cancel, save)));
  edit(null);
  await list();
}
