// Settings: one form made from what the server says of each setting (type, unit, limits, default, help). Changes are sent
// together, all or nothing; what the server refuses is shown at its field.

import { call } from "../api.js";
import { el, icon, toast } from "../dom.js";
import { fold } from "../fold.js";
import { has, number, t } from "../i18n.js";
import { sizeField } from "./size_field.js";
import { bytes, problem, short } from "./view.js";

const GROUPS = ["page", "model", "limits", "accounts", "sign_in", "tools", "api"];
const LINES = new Set(["suggestions"]); // texts with | between their parts: one a line
// The server's own words (English) where the catalogue does not know the name yet.
const label = (row) => (has(`admin.set_${row.name}`) ? t(`admin.set_${row.name}`) : row.name);
const help = (row) => (has(`admin.help_${row.name}`) ? t(`admin.help_${row.name}`) : row.help);
const word = (choice) => (has(`admin.choice_${choice}`) ? t(`admin.choice_${choice}`) : choice);
const unit = (row) => (has(`admin.unit_${row.unit}`) ? t(`admin.unit_${row.unit}`) : row.unit);
const heading = (group) => (GROUPS.includes(group) ? t(`admin.group_${group}`) : group);

function defaultOf(row) {
  const d = row.default;
  const value = d === null ? t("admin.none") : d === "" || row.type === "secret" ? t("admin.empty") : row.type === "bool" ? t(`admin.${d ? "on" : "off"}`)
    : row.unit === "bytes" ? bytes(d) : typeof d === "number" ? `${number(d)}${row.unit ? ` ${unit(row)}` : ""}` : word(String(d));
  return t("admin.default", { value });
}

function limitsOf(row) {
  if (row.unit === "bytes") return t("admin.between", { min: bytes(row.min), max: bytes(row.max) });
  return row.min === undefined ? "" : t("admin.between", { min: short(row.min), max: number(row.max) });
}

// Each kind of field: {input, node (with what belongs to it), read()}; read gives what is sent.
const KINDS = {
  bool(row, common) {
    const input = el("input", { ...common, type: "checkbox", class: "switch", checked: row.value });
    input.setAttribute("role", "switch");
    return { input, node: input, read: () => input.checked };
  },
  choice(row, common) {
    const input = el("select", common, ...row.choices.map((c) => el("option", { value: c, selected: c === row.value }, word(c))));
    return { input, node: input, read: () => input.value };
  },
  secret(row, common) {
    const input = el("input", { ...common, type: "password", autocomplete: "new-password", maxLength: row.max_bytes, placeholder: row.value ? t("admin.secretSet") : "" });
    let goes = false;
    // A secret is never shown, so that an empty field cannot mean that it is to go.
    const remove = row.value ? el("button", { type: "button", class: "quiet small", on: { click: () => {
      goes = true;
      input.value = "";
      input.placeholder = t("admin.secretGoes");
      input.dispatchEvent(new Event("input", { bubbles: true }));
    } } }, t("admin.secretRemove")) : null;
    return { input, node: el("div", { class: "with-unit" }, input, remove), read: () => input.value || (goes ? "" : row.value) }; // what is not typed stays
  },
  text(row, common) {
    if (!LINES.has(row.name)) {
      const input = el("input", { ...common, type: "text", value: row.value, autocomplete: "off", maxLength: row.max_bytes });
      return { input, node: input, read: () => input.value };
    }
    const input = el("textarea", { ...common, rows: 4, value: row.value.split("|").map((s) => s.trim()).filter(Boolean).join("\n") });
    const before = input.value;
    return { input, node: input, read: () => (input.value === before ? row.value : input.value.split("\n").map((s) => s.trim()).filter(Boolean).join(" | ")) };
  },
  number(row, common) {
    const input = el("input", { ...common, type: "number", value: row.value === null ? "" : String(row.value), autocomplete: "off", min: row.min, max: row.max,
      step: row.type === "int" ? 1 : "any", placeholder: row.nullable ? t("admin.none") : "" });
    return { input, node: row.unit ? el("div", { class: "with-unit" }, input, el("span", { class: "muted" }, unit(row))) : input, read: () => (input.value === "" ? null : Number(input.value)) };
  },
  size: (row, common) => sizeField(row.value, label(row), common),
};

function fieldOf(row) {
  const kind = row.unit === "bytes" ? "size" : row.type === "int" ? "number" : row.type;
  const field = KINDS[kind](row, { id: `setting-${row.name}`, name: row.name });
  field.input.setAttribute("aria-describedby", `setting-${row.name}-help`);
  return { ...field, row, changed: () => field.read() !== row.value };
}

function line(field) {
  const { row } = field;
  const id = `setting-${row.name}`;
  return el("div", { class: `setting setting-${row.type}`, data: { words: fold(`${label(row)} ${help(row)} ${row.name}`) } },
    el("div", { class: "setting-words" }, el("label", { htmlFor: id, title: row.name }, label(row)), el("p", { id: `${id}-help`, class: "muted" }, help(row), " ", el("span", { class: "setting-bounds" }, [limitsOf(row), defaultOf(row)].filter(Boolean).join(" · ")))),
    el("div", { class: "setting-field" }, field.node), el("p", { class: "form-error", role: "alert", hidden: true, data: { error: row.name } }));
}

/** Words that are looked for leave only the settings that have them all. */
function filter(form, typed) {
  const words = fold(typed).split(/\s+/).filter(Boolean);
  for (const node of form.querySelectorAll(".setting")) node.hidden = !words.every((w) => node.dataset.words.includes(w));
  for (const group of form.querySelectorAll("fieldset")) group.hidden = !group.querySelector(".setting:not([hidden])");
  form.querySelector(".settings-nothing").hidden = Boolean(form.querySelector("fieldset:not([hidden])"));
}

function draw(form, items) {
  const fields = items.map(fieldOf);
  const groups = new Map();
  for (const field of fields) groups.set(field.row.group, [...(groups.get(field.row.group) || []), field]);
  const state = el("span", { class: "settings-state", role: "status" });
  const save = el("button", { class: "primary", type: "submit" }, t("common.save"));
  const discard = el("button", { class: "quiet", type: "button", on: { click: () => draw(form, items) } }, t("admin.discard"));
  form.replaceChildren(...[...groups].map(([group, list]) => el("fieldset", { class: "admin-block" }, el("legend", {}, heading(group)), ...list.map(line))),
    el("p", { class: "muted settings-nothing", hidden: true }, t("admin.settingsNothing")), el("p", { class: "muted" }, t("admin.settingsAtOnce")),
    el("div", { class: "dialog-row settings-save" }, state, discard, save));
  const count = () => {
    const n = fields.filter((f) => f.changed()).length;
    state.textContent = n ? t("admin.changes", { n }) : "";
    discard.hidden = !n;
    save.disabled = !n;
    form.toggleAttribute("data-changed", n > 0);
  };
  count();
  form.oninput = count;
  form.onchange = count;
  form.onsubmit = async (event) => {
    event.preventDefault();
    for (const node of form.querySelectorAll("[data-error]")) node.hidden = true;
    const change = Object.fromEntries(fields.filter((f) => f.changed()).map((f) => [f.row.name, f.read()]));
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
  const find = el("input", { type: "search", autocomplete: "off", placeholder: t("admin.settingsFind"), ariaLabel: t("admin.settingsFind"), on: { input: () => filter(form, find.value) } });
  view.append(el("div", { class: "settings-find" }, icon("search"), find), form);
  return call("GET", "/api/admin/settings").then(({ items }) => { if (!signal.aborted) { draw(form, items); goTo(form); } }).catch((error) => form.replaceChildren(problem(error)));
}

export const settingsSection = { id: "settings", get title() { return t("admin.settings"); }, open };
