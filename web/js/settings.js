// Settings of answers: those of a chat in a dialog of their own, and those that new chats begin with, in the settings window. Each
// value says where it comes from; presets keep sets of them. The server checks what is saved; its words stand at the field that they are about.

import { call } from "./api.js";
import { el, toast } from "./dom.js";
import { loadStrings, number, t } from "./i18n.js";
import { whileLoading } from "./skeleton.js";

await loadStrings();

const FIELDS = [
  { name: "max_tokens", label: "settings.maxTokens", min: 1, step: 1, empty: "settings.noLimit", plain: true },
  { name: "temperature", label: "settings.temperature", min: 0, max: 2, step: 0.05, slides: [0, 2] },
  { name: "top_p", label: "settings.topP", min: 0, max: 1, step: 0.01, slides: [0, 1] },
  { name: "top_k", label: "settings.topK", min: -1, step: 1 },
  { name: "min_p", label: "settings.minP", min: 0, max: 1, step: 0.01, slides: [0, 1] },
  { name: "repetition_penalty", label: "settings.repetition", min: 0.01, max: 10, step: 0.01, slides: [0.5, 2] },
  { name: "presence_penalty", label: "settings.presence", min: -2, max: 2, step: 0.1, slides: [-2, 2] },
  { name: "frequency_penalty", label: "settings.frequency", min: -2, max: 2, step: 0.1, slides: [-2, 2] },
  { name: "seed", label: "settings.seed", step: 1, empty: "settings.random" },
];
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** What is set, without what is empty: as presets and defaults are kept. */
const set = (settings) => Object.fromEntries(Object.entries(settings).filter(([name, value]) => value !== null && name !== "preset"));

function choice(name, options) {
  return el("select", { name }, ...options.map(([value, label]) => el("option", { value }, label)));
}

function row(name, label, input, wide) {
  return el("label", { class: wide ? "wide" : "", data: { field: name } }, el("span", {}, t(label)), input, el("small", { class: "origin muted" }));
}

/** A number; where few values make sense, with a slider for them, which shows the default as long as nothing is set. */
function numberRow(f) {
  const input = el("input", { name: f.name, type: "number", ...(f.min === undefined ? {} : { min: f.min }), ...(f.max === undefined ? {} : { max: f.max }), step: f.step });
  if (!f.slides) return row(f.name, f.label, input);
  const slider = el("input", { type: "range", min: f.slides[0], max: f.slides[1], step: f.step, ariaLabel: t(f.label), on: { input: () => { input.value = slider.value; } } });
  return row(f.name, f.label, el("span", { class: "slide" }, input, slider)); // the number first: the label is its
}
const codeRow = (name, label, hint) => row(name, label, el("textarea", { name, rows: 3, class: "mono", spellcheck: false, placeholder: t(hint) }), true);

class SettingsForm {
  /** save: async (what stands in the form), throws what the server says. buttons: what stands beside Save. */
  constructor({ save, buttons = [], isDefaults = false }) {
    this.isDefaults = isDefaults;
    this.base = { values: {} };
    this.defaults = {};
    this.presets = [];
    this.preset = null; // the name that the settings carry
    this.problem = el("p", { id: "settings-problem", class: "form-error", role: "alert", hidden: true });
    this.buildFields();
    this.node = el("form", { id: "settings-form", noValidate: true, on: { input: () => this.drawOrigins(), submit: (event) => {
      event.preventDefault();
      this.guarded(() => save(this.read()));
    } } }, this.fields, this.buildPresets(), this.problem,
    el("div", { class: "dialog-row" }, ...buttons, el("button", { class: "primary" }, t("common.save"))));
  }

  buildFields() {
    const onOff = [["", t("settings.default")], ["true", t("settings.on")], ["false", t("settings.off")]];
    const plain = [
      row("system", "settings.system", el("textarea", { name: "system", rows: 4, dir: "auto", placeholder: t("settings.none") }), true),
      row("thinking", "settings.thinking", choice("thinking", onOff)),
      row("reasoning_effort", "settings.effort", choice("reasoning_effort", [["", t("settings.default")], ...EFFORTS.map((e) => [e, t(`settings.effort_${e}`)])])),
      ...FIELDS.filter((f) => f.plain).map(numberRow),
      row("titles", "settings.titles", choice("titles", onOff)),
    ];
    const more = [
      ...FIELDS.filter((f) => !f.plain).map(numberRow),
      row("stop", "settings.stop", el("textarea", { name: "stop", rows: 2, placeholder: t("settings.stopHint") }), true),
      codeRow("json_schema", "settings.schema", "settings.schemaHint"),
      codeRow("tools", "settings.tools", "settings.toolsHint"),
    ];
    const reset = el("button", { type: "button", class: "quiet small wide settings-reset", on: { click: () => {
      for (const node of this.advanced.querySelectorAll("[name]")) node.value = "";
      this.drawOrigins();
    } } }, t("settings.reset"));
    this.rows = [...plain, ...more];
    this.advanced = el("details", { class: "settings-advanced" }, el("summary", {}, t("settings.advanced")), el("div", { class: "grid" }, ...more, reset));
    this.fields = el("div", { id: "settings-fields" }, el("div", { class: "grid" }, ...plain), this.advanced);
  }

  buildPresets() {
    this.select = el("select", { id: "settings-preset", on: { change: () => this.applyPreset() } });
    this.presetName = el("input", { id: "preset-name", maxLength: 64, placeholder: t("presets.example") });
    const button = (id, label, run) => el("button", { id, type: "button", class: "quiet", on: { click: () => this.guarded(run) } }, t(label));
    this.rename = button("preset-rename", "presets.rename", () => this.renamePreset());
    this.remove = button("preset-delete", "presets.delete", () => this.removePreset());
    return el("fieldset", { class: "presets" }, el("legend", { class: "sr" }, t("presets.label")),
      el("label", {}, el("span", {}, t("presets.label")), this.select), el("label", {}, el("span", {}, t("presets.name")), this.presetName),
      el("div", { class: "dialog-row" }, button("preset-save", "presets.save", () => this.savePreset()), this.rename, this.remove));
  }

  inputs() { return this.fields.querySelectorAll("[name]"); }

  /** Shows a field that may be folded away, with the keyboard in it. */
  show(name) {
    const input = this.node.elements[name];
    if (this.advanced.contains(input)) this.advanced.open = true;
    input?.focus();
  }

  fill(settings) {
    for (const node of this.inputs()) {
      const value = settings[node.name];
      if (value === undefined || value === null) node.value = "";
      else if (node.name === "stop") node.value = [value].flat().map((s) => s.replace(/\n/g, "\\n")).join("\n");
      else node.value = typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
      if (node.value && this.advanced.contains(node)) this.advanced.open = true;
    }
  }

  /** What stands in the form; null where a field is empty. Throws {param, message} for what is no JSON. */
  read() {
    const out = { preset: this.preset };
    for (const node of this.inputs()) {
      const text = node.value.trim();
      const json = node.name === "json_schema" || node.name === "tools";
      if (!text) out[node.name] = null;
      else if (node.type === "number") out[node.name] = Number(text);
      else if (node.name === "stop") out.stop = node.value.split("\n").filter(Boolean).map((s) => s.replace(/\\n/g, "\n"));
      else if (json) {
        try { out[node.name] = JSON.parse(text); } catch (cause) { throw Object.assign(new Error(t("settings.noJson", { why: cause.message })), { param: node.name }); }
      } else out[node.name] = text === "true" ? true : text === "false" ? false : node.value;
    }
    return out;
  }

  origin(name, value) {
    const from = this.presets.find((p) => p.name === this.preset);
    if (value === null) {
      const known = this.base.values[name];
      if (!known || known.value === null) return t("settings.fromModel");
      return known.from === "server" ? t("settings.fromServerValue", { value: number(known.value) }) : t("settings.fromModelValue", { value: number(known.value) });
    }
    if (from && same(value, from.settings[name])) return t("settings.fromPreset", { name: from.name });
    return t(this.isDefaults || same(value, this.defaults[name]) ? "settings.fromDefaults" : "settings.fromChat");
  }

  drawOrigins() {
    let values;
    try { values = this.read(); } catch { return; } // JSON that is being typed
    for (const node of this.rows) {
      const { field } = node.dataset;
      node.toggleAttribute("data-changed", (values[field] ?? null) !== null);
      node.querySelector(".origin").textContent = this.origin(field, values[field] ?? null);
      const input = node.querySelector("input");
      if (input) input.placeholder = values[field] === null && this.base.values[field]?.value != null ? number(this.base.values[field].value) : t(FIELDS.find((f) => f.name === field).empty || "settings.default");
      const slider = node.querySelector("[type=range]");
      if (slider) slider.value = values[field] ?? this.base.values[field]?.value ?? slider.defaultValue;
    }
  }

  drawPresets() {
    this.select.replaceChildren(el("option", { value: "" }, t("presets.none")), ...this.presets.map((p) => el("option", { value: p.name }, p.name)));
    this.select.value = this.presets.some((p) => p.name === this.preset) ? this.preset : "";
    for (const button of [this.rename, this.remove]) button.disabled = !this.select.value;
    this.drawOrigins();
  }

  complain(error) {
    this.problem.textContent = error?.message || "";
    this.problem.hidden = !error;
    for (const node of this.node.querySelectorAll("[aria-invalid]")) node.removeAttribute("aria-invalid");
    const name = error?.param?.split(/[.[]/)[0];
    const node = name && this.node.querySelector(`[name="${CSS.escape(name)}"]`);
    if (!node) return;
    node.setAttribute("aria-invalid", "true");
    node.setAttribute("aria-describedby", "settings-problem");
    this.show(name);
  }

  async guarded(work) {
    this.complain(null);
    try { await work(); } catch (error) { this.complain(error); }
  }

  /** Fields that this model knows nothing of, unless they hold something. */
  hideUnknown() {
    const shows = { thinking: this.base.thinking_switch, reasoning_effort: this.base.effort, tools: this.base.tools };
    for (const node of this.rows) node.hidden = shows[node.dataset.field] === false && !this.node.elements[node.dataset.field].value;
  }

  /** settings: of the chat; null: those that new chats begin with. */
  async load(settings) {
    await this.guarded(async () => {
      const [facts, own, list] = await Promise.all([call("GET", "/api/defaults/base"), call("GET", "/api/defaults"), call("GET", "/api/presets")]);
      this.base = facts;
      this.defaults = own;
      this.presets = list.items;
    });
    this.preset = (settings || this.defaults).preset ?? null;
    this.fill(settings || this.defaults);
    this.hideUnknown();
    this.drawPresets();
  }

  async saveDefaults() {
    this.defaults = await call("PATCH", "/api/defaults", this.read());
    this.drawOrigins();
    toast(t("settings.defaultsSaved"));
  }

  applyPreset() {
    this.preset = this.select.value || null;
    const chosen = this.presets.find((p) => p.name === this.preset);
    if (chosen) this.fill(chosen.settings);
    this.drawPresets();
  }

  presetNamed(fallback) {
    const name = this.presetName.value.trim() || fallback;
    if (name) return name;
    this.presetName.focus();
    throw new Error(t("presets.needsName"));
  }

  async savePreset() {
    const name = this.presetNamed(this.select.value);
    const old = this.presets.find((p) => p.name.toLowerCase() === name.toLowerCase());
    const made = await call(old ? "PATCH" : "POST", old ? `/api/presets/${old.id}` : "/api/presets", { name, settings: set(this.read()) });
    this.presets = [...this.presets.filter((p) => p.id !== made.id), made].sort((a, b) => a.name.localeCompare(b.name));
    this.preset = made.name;
    this.presetName.value = "";
    this.drawPresets();
    toast(t("presets.saved", { name: made.name }));
  }

  async renamePreset() {
    const chosen = this.presets.find((p) => p.name === this.preset);
    Object.assign(chosen, await call("PATCH", `/api/presets/${chosen.id}`, { name: this.presetNamed("") }));
    this.preset = chosen.name;
    this.presetName.value = "";
    this.drawPresets();
  }

  async removePreset() {
    const chosen = this.presets.find((p) => p.name === this.preset);
    await call("DELETE", `/api/presets/${chosen.id}`);
    this.presets = this.presets.filter((p) => p !== chosen);
    this.preset = null;
    this.drawPresets();
  }
}

/** Opens the dialog over a chat's settings (null: a new chat, which begins with the defaults). save: async, throws what the server says. field: which one to show. */
export async function settingsDialog(settings, save, field = "") {
  document.getElementById("settings-dialog")?.remove();
  const button = (props, label) => el("button", { type: "button", class: "quiet", ...props }, t(label));
  const form = new SettingsForm({ save: async (values) => { await save(values); dialog.close(); }, buttons: [
    button({ id: "settings-defaults", on: { click: () => form.guarded(() => form.saveDefaults()) } }, "settings.asDefaults"),
    button({ on: { click: () => dialog.close() } }, "common.cancel")] });
  form.node.prepend(el("h2", { id: "settings-title", tabIndex: -1, autofocus: true }, t("page.settings")));
  const dialog = el("dialog", { id: "settings-dialog", class: "dialog settings-dialog", "aria-labelledby": "settings-title", on: { close: () => dialog.remove() } }, form.node);
  document.body.append(dialog);
  let left = false;
  dialog.addEventListener("close", () => { left = true; });
  await whileLoading(form.node, "rows", form.load(settings), () => dialog.showModal()); // what is typed must not be written over
  if (left) return;
  if (!dialog.open) dialog.showModal();
  else form.node.querySelector("h2").focus();
  if (field) form.show(field);
}

/** The same form for what new chats begin with: {node, show(name)}, once its values are there. */
export async function defaultsForm() {
  const form = new SettingsForm({ isDefaults: true, save: () => form.saveDefaults() });
  await form.load(null);
  return form;
}
