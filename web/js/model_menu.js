// The pill in the message box: which model answers, and how long it thinks. An admin sees the models of this machine there.

import { call } from "./api.js";
import { $, openMenu, toast } from "./dom.js";
import { count } from "./format.js";
import { t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const EFFORTS = ["low", "medium", "high"];
const pill = $("model");
let knows = null; // what the loaded model's template knows: {thinking_switch, effort}
let knownOf = ""; // the model it is about

let others = []; // models beside the first: of this machine, loaded when they are wanted, and of other servers

const settings = () => state.current?.settings || state.draftSettings;

const isOf = (m, name) => m.id === name || (m.sluice.aliases || []).includes(name);

/** What the chosen model's template knows; another server decides for itself. */
function traits() {
  const { model } = settings();
  if (!model) return knows;
  const own = others.find((m) => isOf(m, model))?.sluice.chat_template;
  return own ? { thinking_switch: own.thinking_switch, effort: own.reasoning_effort } : null;
}

/** The choice that stands: "off", an effort, or "" for what the model does by itself. */
function chosen() {
  const { thinking, reasoning_effort: effort } = settings();
  if (thinking === false) return "off";
  return effort && (settings().model || knows?.effort) ? effort : thinking === true ? "on" : "";
}

function draw() {
  const other = settings().model;
  const model = other ? { name: other } : state.status?.model;
  pill.hidden = !model?.name;
  if (pill.hidden) return;
  const choice = chosen();
  const shown = choice === "off" ? t("composer.instant") : choice === "on" ? t("composer.thinking") : choice ? t(`settings.effort_${choice}`) : "";
  const beside = state.temporary ? [] : settings().compare || [];
  const names = [model.name, ...beside];
  pill.querySelector(".model-name").textContent = beside.length ? `${model.name} +${beside.length}` : model.name;
  pill.querySelector(".model-effort").textContent = shown;
  pill.title = [...names, shown, model.backend, model.device].filter(Boolean).join(" · ");
  pill.setAttribute("aria-label", t("composer.model", { model: [...names, shown].filter(Boolean).join(", ") }));
}

async function learn() {
  const name = state.status?.model?.name || "";
  if (knows && knownOf === name) return;
  knownOf = name;
  try { knows = await call("GET", "/api/defaults/base"); } catch { knows = null; }
}

async function learnOthers() {
  try { others = (await call("GET", "/v1/models")).data.filter((m) => m.sluice?.kind === "chat"); } catch { /* those that are known */ }
}

async function models() {
  if (state.user?.role !== "admin") return [];
  try { return (await call("GET", "/api/admin/models")).items; } catch { return []; }
}

async function compare(names, own) {
  try { (await import("./compare.js")).compareMenu(pill, names, own); } catch { toast(t("errors.unreachable")); }
}

const choose = (values) => emit("choose-settings", values);

function thinkingItems() {
  const now = chosen(), knows = traits();
  const item = (value, label, hint, values) => ({ label, hint, checked: now === value, run: () => choose(values) });
  if (knows?.effort) {
    return [item("", t("composer.auto"), t("composer.autoHint"), { thinking: null, reasoning_effort: null }),
      ...(knows.thinking_switch ? [item("off", t("composer.instant"), t("composer.instantHint"), { thinking: false, reasoning_effort: null })] : []),
      ...EFFORTS.map((e) => item(e, t(`composer.effort_${e}`), undefined, { thinking: null, reasoning_effort: e }))];
  }
  if (!knows?.thinking_switch) return [];
  return [item("", t("composer.auto"), t("composer.autoHint"), { thinking: null }), item("on", t("composer.thinking"), t("composer.thinkingHint"), { thinking: true }),
    item("off", t("composer.instant"), t("composer.instantHint"), { thinking: false })];
}

// What is to be in the menu is asked for first: who has pressed Escape or gone on by then gets no menu in their way.
let asked = 0;
pill.addEventListener("keydown", (event) => { if (event.key === "Escape") asked++; });

pill.addEventListener("click", async () => {
  const mine = ++asked;
  pill.focus(); // not every browser does so with a click
  const [, all] = await Promise.all([learn(), models(), learnOthers()]);
  if (mine !== asked || document.activeElement !== pill) return;
  const model = state.status?.model?.name ? state.status.model : null;
  const now = settings().model || "";
  const thinking = thinkingItems();
  const names = [...(model ? [model.id] : []), ...others.map((m) => m.id)];
  openMenu(pill, [
    { head: t("composer.models") },
    ...(model ? [{ label: model.name, hint: model.n_ctx ? t("composer.context", { n: count(model.n_ctx) }) : undefined, checked: !now, run: () => { if (now || settings().compare) choose({ model: null, compare: null }); } }] : []),
    ...others.map((m) => ({ label: m.id, hint: m.sluice.on_demand && m.sluice.state !== "ready" ? t(m.sluice.state === "loading" ? "page.state_model_loading" : "composer.onDemand") : m.context_length ? t("composer.context", { n: count(m.context_length) }) : t("composer.elsewhere"), checked: isOf(m, now),
      run: () => choose({ model: m.id, compare: null, thinking: null, reasoning_effort: null }) })),
    ...all.filter((m) => m.name !== model?.name && !others.some((o) => o.id === m.name)).slice(0, 6).map((m) => ({ label: m.name, hint: t("composer.notLoaded"), checked: false, run: () => location.assign("/admin#/models") })),
    ...(names.length > 1 && !state.temporary ? [{ line: true }, { label: t("composer.compare"), hint: t("composer.compareHint"), icon: "columns", run: () => compare(names, now || model?.id) }] : []),
    ...(thinking.length ? [{ line: true }, { head: t("composer.effort") }, ...thinking] : []),
    { line: true },
    { label: t("page.settings"), icon: "tune", run: () => emit("command-settings") },
    ...(state.user?.role === "admin" ? [{ label: t("composer.manage"), icon: "admin", run: () => location.assign("/admin#/models") }] : []),
  ]);
});

for (const name of ["status", "thread-drawn", "settings-changed"]) on(name, draw);
