// Settings: one form made from what the server says of each setting (type, limits, default, help). Changes are sent
// together, all or nothing; what the server refuses is shown at its field.

import { call } from "../api.js";
import { el, toast } from "../dom.js";
import { has, number, t } from "../i18n.js";
import { bytes, problem, short } from "./view.js";

const GROUPS = ["page", "model", "limits", "accounts", "sign_in", "tools", "api"];
// The server's own words (English) where the catalogue does not know the name yet.
const label = (row) => (has(`admin.set_${row.name}`) ? t(`admin.set_${row.name}`) : row.name);
const help = (row) => (has(`admin.help_${row.name}`) ? t(`admin.help_${row.name}`) : row.help);
const word = (choice) => (has(`admin.choice_${choice}`) ? t(`admin.choice_${choice}`) : choice);
const unit = (row) => (has(`admin.unit_${row.unit}`) ? t(`admin.unit_${row.unit}`) : row.unit);
const heading = (group) => (GROUPS.includes(group) ? t(`admin.group_${group}`) : group);

function describe(row) {
  const parts = [];
  if (row.unit === "bytes") parts.push(t("admin.between", { min: bytes(row.min), max: bytes(row.max) }));
  else if (row.min !== undefined) parts.push(t("admin.between", { min: short(row.min), max: number(row.max) }) + (row.unit ? ` ${unit(row)}` : ""));
  parts.push(t("admin.default", { value: row.default === null ? t("admin.none") : row.default === "" || row.type === "secret" ? t("admin.empty") : row.type === "bool" ? t(`admin.${row.default ? "on" : "off"}`) : row.unit === "bytes" ? bytes(row.default) : word(String(row.default)) }));
  return parts.join(" · ");
}

function field(row) {
  const id = `setting-${row.name}`;
  const common = { id, name: row.name, ariaDescribedBy: `${id}-help` };
  if (row.type === "bool") return el("input", { ...common, type: "checkbox", checked: row.value });
  if (row.type === "choice") {
    return el("select", common, ...row.choices.map((c) => el("option", { value: c, selected: c === row.value }, word(c))));
  }
  if (row.type === "secret") return el("input", { ...common, type: "password", autocomplete: "new-password", maxLength: row.max_bytes, placeholder: row.value ? t("admin.secretSet") : "" });
  const number = row.type === "int" || row.type === "number";
  return el("input", { ...common, type: number ? "number" : "text", value: row.value === null ? "" : String(row.value), autocomplete: "off",
    ...(number ? { min: row.min, max: row.max, step: row.type === "int" ? 1 : "any", placeholder: row.nullable ? t("admin.none") : "" } : { maxLength: row.max_bytes }) });
}

function read(input, row) {
  if (row.type === "bool") return input.checked;
  if (row.type === "secret") return input.value || (input.dataset.remove ? "" : row.value); // what is not typed stays
  if (row.type === "choice" || row.type === "text") return input.value;
  return input.value === "" ? null : Number(input.value);
}

/** A secret is never shown, so that an empty field cannot mean that it is to go. */
function remover(row, input) {
  if (row.type !== "secret" || !row.value) return "";
  return el("button", { type: "button", class: "quiet small", on: { click: () => {
    input.value = "";
    input.dataset.remove = "1";
    input.placeholder = t("admin.secretGoes");
  } } }, t("admin.secretRemove"));
}

function draw(form, items) {
  const rows = new Map(items.map((row) => [row.name, row]));
  const groups = Map.groupBy ? Map.groupBy(items, (row) => row.group) : items.reduce((m, row) => m.set(row.group, [...(m.get(row.group) || []), row]), new Map());
  const save = el("button", { class: "primary", type: "submit" }, t("common.save"));
  form.replaceChildren(...[...groups].map(([group, list]) => el("fieldset", { class: "admin-block" }, el("legend", {}, heading(group)), ...list.map((row) => {
    const id = `setting-${row.name}`;
    const input = field(row);
    input.setAttribute("aria-describedby", `${id}-help`);
    return el("div", { class: `setting setting-${row.type}` }, el("label", { htmlFor: id }, label(row), el("code", { class: "muted" }, row.name)), input, remover(row, input),
      el("p", { id: `${id}-help`, class: "muted" }, help(row), el("br"), describe(row)), el("p", { class: "form-error", role: "alert", hidden: true, data: { error: row.name } }));
  }))), el("p", { class: "muted" }, t("admin.settingsAtOnce")), el("div", { class: "dialog-row settings-save" }, save));

  form.onsubmit = async (event) => {
    event.preventDefault();
    for (const node of form.querySelectorAll("[data-error]")) node.hidden = true;
    const change = {};
    for (const [name, row] of rows) {
      const value = read(form.elements[name], row);
      if (value !== row.value) change[name] = value;
    }
    if (!Object.keys(change).length) { toast(t("admin.nothingChanged")); return; }
    try {
      const { items: fresh } = await call("PATCH", "/api/admin/settings", change);
      draw(form, fresh);
      toast(t("admin.saved"));
    } catch (error) {
      const node = form.querySelector(`[data-error="${CSS.escape(error.param)}"]`);
      if (!node) { toast(error.message, 5000); return; }
      node.textContent = error.message;
      node.hidden = false;
      form.elements[error.param].focus();
    }
  };
}

/** #/settings/NAME leads to one of them. */
function goTo(form) {
  const field = form.elements[/^#\/settings\/(\w+)/.exec(location.hash)?.[1]];
  if (!field) return;
  field.closest(".setting").scrollIntoView({ block: "center" });
  field.focus({ preventScroll: true });
}

function open(view, signal) {
  const form = el("form", { class: "admin-settings", noValidate: true });
  view.append(form);
  call("GET", "/api/admin/settings").then(({ items }) => { if (!signal.aborted) { draw(form, items); goTo(form); } }).catch((error) => form.replaceChildren(problem(error)));
}

export const settingsSection = { id: "settings", get title() { return t("admin.settings"); }, open };
