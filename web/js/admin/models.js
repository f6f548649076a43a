// Models: what lies on this machine, which one is loaded, and the way from one to another.

import { call } from "../api.js";
import { confirmDialog, el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { block, bytes, dateTime, poll, problem, table } from "./view.js";

const RESTING = ["ready", "failed", "unloaded"];

function open(view, signal) {
  const state = el("div", { role: "status" });
  const grace = el("input", { type: "number", id: "model-grace", min: 0, max: 3600, value: "30" });
  const list = el("div");
  view.append(el("div", { class: "admin-column" }, state, list), el("div", { class: "admin-row" }, el("label", { htmlFor: "model-grace" }, t("admin.modelGrace")), grace), el("p", { class: "muted" }, t("admin.modelHelp")));

  const ask = async (action, body, title, text) => {
    if (!await confirmDialog(title, text)) return;
    try {
      await call("POST", `/api/admin/models/${action}`, { ...body, grace_s: Number(grace.value) || 0 });
      toast(t("admin.modelAsked"));
    } catch (error) { toast(error.message, 5000); }
    again();
  };
  const load = (model) => ask("load", { path: model.path }, t("admin.modelLoadLabel", { name: model.name }), t("admin.modelLoadText"));
  const unload = () => ask("unload", {}, t("admin.modelUnload"), t("admin.modelUnloadText"));

  const draw = (m) => {
    const busy = !RESTING.includes(m.phase);
    const last = (path) => path?.split("/").at(-1) ?? "–";
    const loaded = m.phase === "unloaded" ? null : m.current;
    state.replaceChildren(...(m.can_switch ? [block(t("admin.modelNow"),
      el("p", { class: `state state-${busy ? "loading" : m.phase === "unloaded" ? "down" : "ready"}` }, t(`admin.phase_${m.phase}`, { name: last(m.wanted ?? m.current), current: last(m.current) })),
      m.error ? el("p", { class: "form-error" }, m.error) : null,
      el("p", { class: "muted" }, t("admin.modelSince", { when: dateTime(m.since) })),
      m.phase === "unloaded" || busy ? null : el("button", { class: "quiet", type: "button", on: { click: unload } }, t("admin.modelUnload")))]
      : [el("p", { class: "note" }, t("admin.modelFixed", { reason: m.reason }))]));
    const held = document.activeElement?.dataset?.path;
    list.replaceChildren(block(t("admin.modelList"), table(t("admin.models"), [t("admin.model"), t("admin.family"), t("admin.format"), t("admin.size"), t("admin.modelPath"), ""], m.items.map((item) => [
      item.path === loaded ? el("b", {}, item.name) : item.name, item.model_type || "–", item.format, bytes(item.bytes), el("code", {}, item.path),
      item.path === loaded ? t("admin.modelLoaded") : m.can_switch ? el("button", { class: "quiet small", type: "button", disabled: busy, data: { path: item.path }, ariaLabel: t("admin.modelLoadLabel", { name: item.name }), on: { click: () => load(item) } }, t("admin.modelLoad")) : ""]))));
    if (held) list.querySelector(`[data-path="${CSS.escape(held)}"]`)?.focus();
  };
  const again = poll(signal, 1000, "/api/admin/models", draw, (error) => state.replaceChildren(problem(error)));
}

export const modelsSection = { id: "models", get title() { return t("admin.models"); }, open };
