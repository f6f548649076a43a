// Settings of a chat: each value with where it comes from, presets, the own defaults. The server checks what is saved; its
// words stand at the field that they are about.

import { call } from "./api.js";
import { el, $, toast } from "./dom.js";
import { number, t } from "./i18n.js";

const FIELDS = [
  { name: "temperature", label: "settings.temperature", min: 0, max: 2, step: 0.05 },
  { name: "top_p", label: "settings.topP", min: 0, max: 1, step: 0.01 },
  { name: "top_k", label: "settings.topK", min: -1, step: 1 },
  { name: "min_p", label: "settings.minP", min: 0, max: 1, step: 0.01 },
  { name: "repetition_penalty", label: "settings.repetition", min: 0.01, max: 10, step: 0.01 },
  { name: "presence_penalty", label: "settings.presence", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", label: "settings.frequency", min: -2, max: 2, step: 0.1 },
  { name: "max_tokens", label: "settings.maxTokens", min: 1, step: 1, empty: "settings.noLimit" },
  { name: "seed", label: "settings.seed", step: 1, empty: "settings.random" },
];
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const dialog = $("settings-dialog");
const form = $("settings-form");
const problem = $("settings-problem");
let base = { values: {} };
let defaults = {};
let presets = [];
let preset = null; // the name that the settings carry
let saveTo = null; // async (settings), throws what the server says

function build() {
  const row = (name, label, input, wide) => el("label", { class: wide ? "wide" : "", data: { field: name } },
    el("span", {}, t(label)), input, el("small", { class: "origin muted" }));
  $("settings-fields").replaceChildren(
    row("system", "settings.system", el("textarea", { name: "system", rows: 4, dir: "auto", placeholder: t("settings.none") }), true),
    ...FIELDS.map((f) => row(f.name, f.label, el("input", { name: f.name, type: "number", ...(f.min === undefined ? {} : { min: f.min }), ...(f.max === undefined ? {} : { max: f.max }), step: f.step }))),
    row("thinking", "settings.thinking", choice("thinking", [["", t("settings.default")], ["true", t("settings.on")], ["false", t("settings.off")]])),
    row("reasoning_effort", "settings.effort", choice("reasoning_effort", [["", t("settings.default")], ...EFFORTS.map((e) => [e, t(`settings.effort_${e}`)])])),
    row("titles", "settings.titles", choice("titles", [["", t("settings.default")], ["true", t("settings.on")], ["false", t("settings.off")]])),
    row("stop", "settings.stop", el("textarea", { name: "stop", rows: 2, placeholder: t("settings.stopHint") }), true),
    row("json_schema", "settings.schema", el("textarea", { name: "json_schema", rows: 3, class: "mono", spellcheck: false, placeholder: t("settings.schemaHint") }), true),
    row("tools", "settings.tools", el("textarea", { name: "tools", rows: 3, class: "mono", spellcheck: false, placeholder: t("settings.toolsHint") }), true),
  );
}

function choice(name, options) {
  return el("select", { name }, ...options.map(([value, label]) => el("option", { value }, label)));
}

function fill(settings) {
  for (const node of form.querySelectorAll("#settings-fields [name]")) {
    const value = settings[node.name];
    if (value === undefined || value === null) node.value = "";
    else if (node.name === "stop") node.value = [value].flat().map((s) => s.replace(/\n/g, "\\n")).join("\n");
    else node.value = typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
  }
}

/** What stands in the form; null where a field is empty. Throws {param, message} for what is no JSON. */
function read() {
  const out = { preset };
  for (const node of form.querySelectorAll("#settings-fields [name]")) {
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

const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

function origin(name, value) {
  const from = presets.find((p) => p.name === preset);
  if (value === null) {
    const known = base.values[name];
    if (!known || known.value === null) return t("settings.fromModel");
    return known.from === "server" ? t("settings.fromServerValue", { value: number(known.value) }) : t("settings.fromModelValue", { value: number(known.value) });
  }
  if (from && same(value, from.settings[name])) return t("settings.fromPreset", { name: from.name });
  if (same(value, defaults[name])) return t("settings.fromDefaults");
  return t("settings.fromChat");
}

function drawOrigins() {
  let values;
  try { values = read(); } catch { return; } // JSON that is being typed
  for (const row of $("settings-fields").children) {
    const { field } = row.dataset;
    row.toggleAttribute("data-changed", (values[field] ?? null) !== null);
    row.querySelector(".origin").textContent = origin(field, values[field] ?? null);
    const input = row.querySelector("input");
    if (input) input.placeholder = values[field] === null && base.values[field]?.value != null ? number(base.values[field].value) : t(FIELDS.find((f) => f.name === field).empty || "settings.default");
  }
}

function drawPresets() {
  const select = $("settings-preset");
  select.replaceChildren(el("option", { value: "" }, t("presets.none")), ...presets.map((p) => el("option", { value: p.name }, p.name)));
  select.value = presets.some((p) => p.name === preset) ? preset : "";
  for (const id of ["preset-rename", "preset-delete"]) $(id).disabled = !select.value;
}

function complain(error) {
  problem.textContent = error?.message || "";
  problem.hidden = !error;
  for (const node of form.querySelectorAll("[aria-invalid]")) node.removeAttribute("aria-invalid");
  const node = error?.param && form.querySelector(`[name="${CSS.escape(error.param.split(/[.[]/)[0])}"]`);
  if (!node) return;
  node.setAttribute("aria-invalid", "true");
  node.setAttribute("aria-describedby", "settings-problem");
  node.focus();
}

async function load() {
  const [facts, own, list] = await Promise.all([call("GET", "/api/defaults/base"), call("GET", "/api/defaults"), call("GET", "/api/presets")]);
  base = facts;
  defaults = own;
  presets = list.items;
}

/** Fields that this model knows nothing of, unless they hold something. */
function hideUnknown() {
  const shows = { thinking: base.thinking_switch, reasoning_effort: base.effort, tools: base.tools };
  for (const row of $("settings-fields").children) row.hidden = shows[row.dataset.field] === false && !form.elements[row.dataset.field].value;
}

/** What is set, without what is empty: as presets and defaults are kept. */
const set = (settings) => Object.fromEntries(Object.entries(settings).filter(([name, value]) => value !== null && name !== "preset"));

async function guarded(work) {
  complain(null);
  try { await work(); } catch (error) { complain(error); }
}

/** Opens the dialog over these settings (null: a new chat, which begins with the defaults). save: async, throws what the server says. */
export async function settingsDialog(settings, save) {
  if (!$("settings-fields").children.length) build();
  saveTo = save;
  complain(null);
  $("preset-name").value = "";
  await guarded(load); // first: what is typed must not be written over
  preset = (settings || defaults).preset ?? null;
  fill(settings || defaults);
  hideUnknown();
  drawPresets();
  drawOrigins();
  dialog.showModal();
}

form.addEventListener("input", drawOrigins);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(async () => {
    await saveTo(read());
    dialog.close();
  });
});

$("settings-preset").addEventListener("change", () => {
  preset = $("settings-preset").value || null;
  const chosen = presets.find((p) => p.name === preset);
  if (chosen) fill(chosen.settings);
  drawPresets();
  drawOrigins();
});

$("preset-save").addEventListener("click", () => guarded(async () => {
  const name = $("preset-name").value.trim() || $("settings-preset").value;
  if (!name) { $("preset-name").focus(); throw new Error(t("presets.needsName")); }
  const old = presets.find((p) => p.name.toLowerCase() === name.toLowerCase());
  const made = await call(old ? "PATCH" : "POST", old ? `/api/presets/${old.id}` : "/api/presets", { name, settings: set(read()) });
  presets = [...presets.filter((p) => p.id !== made.id), made].sort((a, b) => a.name.localeCompare(b.name));
  preset = made.name;
  $("preset-name").value = "";
  drawPresets();
  drawOrigins();
  toast(t("presets.saved", { name: made.name }));
}));

$("preset-rename").addEventListener("click", () => guarded(async () => {
  const chosen = presets.find((p) => p.name === preset);
  const name = $("preset-name").value.trim();
  if (!name) { $("preset-name").focus(); throw new Error(t("presets.needsName")); }
  Object.assign(chosen, await call("PATCH", `/api/presets/${chosen.id}`, { name }));
  preset = chosen.name;
  $("preset-name").value = "";
  drawPresets();
  drawOrigins();
}));

$("preset-delete").addEventListener("click", () => guarded(async () => {
  const chosen = presets.find((p) => p.name === preset);
  await call("DELETE", `/api/presets/${chosen.id}`);
  presets = presets.filter((p) => p !== chosen);
  preset = null;
  drawPresets();
  drawOrigins();
}));

$("settings-defaults").addEventListener("click", () => guarded(async () => {
  const now = read();
  defaults = await call("PATCH", "/api/defaults", now);
  drawOrigins();
  toast(t("settings.defaultsSaved"));
}));
