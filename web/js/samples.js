// A page of samples, /samples.html: each component of the design system in each of its states, made by the page's own parts and
// styles. Nothing links to it; whoever changes a style looks here, and tests/web/samples.test.mjs photographs it.

import { el, icon } from "./dom.js";
import { loadStrings, t, translatePage } from "./i18n.js";
import { loadMarkdown, MarkdownView } from "./markdown.js";
import { initTheme } from "./theme.js";

await loadStrings();

const TYPE = ["12", "13", "14", "16", "20", "26"];
const COLOURS = ["bg", "bg-side", "bg-raised", "bg-hover", "bg-active", "bg-bubble", "line", "line-strong", "text-muted", "text", "accent", "accent-fill", "accent-soft", "danger", "danger-soft",
  "warn", "warn-soft", "success", "success-soft", "info", "info-soft"];
const PROSE = "## 26 · 20 · 16\n\n**500** *i* `code` [sluice](https://example.org) ~~s~~ [^1]\n\n- 1\n  - 2\n    - 3\n\n1. [x] A\n2. [ ] B\n\n> 16/1.65\n\n| A | B |\n| --- | ---: |\n| 1 | 2 |\n\n```diff\n- 1\n+ 2\n```\n\n[^1]: 13";

const part = (...children) => el("section", { class: "sample" }, ...children);
const row = (...children) => el("div", { class: "sample-row" }, ...children);
const button = (look, label, more = {}) => el("button", { class: look, type: "button", ...more }, label);
const round = (name, more = {}) => el("button", { class: "icon-button", type: "button", ariaLabel: name, ...more }, icon(name));

function buttons() {
  return part(row(button("primary", t("common.save")), button("quiet", t("common.cancel")), button("danger", t("common.delete")), button("primary", t("common.save"), { disabled: true }), button("link", t("thread.retry"))),
    row(round("copy"), round("edit", { disabled: true }), round("ghost", { ariaPressed: "true" }), button("pill", t("composer.thinking")), button("suggestion", t("suggestions.reply")), el("span", { class: "badge" }, t("page.admin")),
      ...[0, 1, 2, 3, 4, 5, 6, 7].map((n) => el("span", { class: "tag", data: { colour: String(n) } }, t("list.tags")))));
}

function fields() {
  return part(el("div", { class: "dialog sample-dialog" }, el("div", { class: "grid" },
    el("label", {}, t("login.name"), el("input", { value: "ada" })), el("label", {}, t("login.password"), el("input", { placeholder: t("login.password") })),
    el("label", {}, t("presets.label"), el("select", {}, el("option", {}, t("presets.none")))), el("label", {}, t("settings.seed"), el("input", { value: "x", ariaInvalid: "true" })),
    el("label", { class: "check-line" }, el("input", { type: "checkbox", checked: true }), t("share.files")), el("p", { class: "form-error" }, t("login.differ"))),
  el("textarea", { rows: 2, placeholder: t("composer.placeholder"), ariaLabel: t("composer.label") })));
}

function messages() {
  const prose = el("div", { class: "prose answer" });
  new MarkdownView(prose).finish(PROSE);
  return part(el("ol", { class: "thread" },
    el("li", { class: "message user" }, el("div", { class: "bubble" }, t("suggestions.planText"))),
    el("li", { class: "message assistant", data: { status: "done" } }, prose,
      el("div", { class: "problem" }, el("p", {}, t("thread.failed")), button("", t("thread.retry"))),
      el("div", { class: "actions" }, round("copy"), round("again"), round("more"), el("span", { class: "about muted" }, "demo-model · 12:00")))));
}

function menu() {
  const item = (name, label, more = {}) => el("button", { type: "button", role: "menuitem", ...more }, icon(name), label);
  return part(el("div", { class: "menu sample-menu", role: "menu" }, el("div", { class: "menu-head" }, t("composer.models")), item("check", "demo-model", { role: "menuitemradio", ariaChecked: "true" }),
    el("div", { class: "menu-line", role: "separator" }), item("edit", t("list.rename")), item("pin", t("list.pin"), { disabled: true }), item("trash", t("list.delete"), { class: "bad" })),
  el("div", { class: "toast sample-toast" }, t("common.copied"), button("toast-action", t("list.undo"))),
  el("p", { class: "banner" }, t("page.motto")), el("p", { class: "banner", data: { level: "warning" } }, t("page.motto")));
}

async function draw() {
  await loadMarkdown();
  document.getElementById("samples").append(
    part(...TYPE.map((size) => el("p", { class: `sample-type type-${size}` }, `${size} · ${t("page.motto")}`))),
    part(row(...COLOURS.map((name) => el("figure", { class: `sample-colour is-${name}` }, el("figcaption", {}, name))))),
    buttons(), fields(), menu(), messages());
}

translatePage();
initTheme();
draw();
