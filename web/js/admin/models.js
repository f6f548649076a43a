// Models: what lies on this machine, which one is loaded, the way from one to another, and those that are loaded when they are used.

import { call } from "../api.js";
import { confirmDialog, el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { openHub } from "./hub.js";
import { noteOf } from "./server_words.js";
import { block, bytes, dateTime, poll, problem, span, table } from "./view.js";

const RESTING = ["ready", "failed", "unloaded"];

function open(view, signal) {
  const state = el("div", { role: "status" });
  const grace = el("input", { type: "number", id: "model-grace", min: 0, max: 3600, value: "30" });
  const list = el("div");
  const progress = el("div", { class: "pull" });
  const hub = block(t("admin.pull"), openHub(signal, () => again()), el("details", {}, el("summary", {}, t("admin.pullByName")), ...pullForm(() => again())), progress);
  const further = el("div");
  let added = []; // paths of models that are loaded when they are used
  view.append(el("div", { class: "admin-column" }, state, block(t("admin.localList"), further, el("p", { class: "muted" }, t("admin.localHelp"))), block(t("admin.modelList"), list, el("p", { class: "muted" }, t("admin.modelHelp"))), hub));

  const graceField = el("label", { class: "model-grace" }, t("admin.modelGrace"), grace);
  let loaded = null; // path of the model that is in memory

  /** The time for running answers is asked for only where a model is in memory, whose answers they are. */
  const ask = async (action, body, words) => {
    const field = loaded ? graceField : "";
    if (!await confirmDialog(words.title, words.text, words.verb, { safe: action === "load", field })) return;
    try {
      await call("POST", `/api/admin/models/${action}`, { ...body, grace_s: field ? Number(grace.value) || 0 : 0 });
      toast(t("admin.modelAsked"));
    } catch (error) { toast(error.message, 5000); }
    again();
  };
  const load = (model) => ask("load", { path: model.path }, { title: t("admin.modelLoadTitle", { name: model.name }),
    text: t(loaded ? "admin.modelLoadText" : "admin.modelLoadFirst"), verb: t("admin.modelLoadGo") });
  const unload = () => ask("unload", {}, { title: t("admin.modelUnloadTitle"), text: t("admin.modelUnloadText"), verb: t("admin.modelUnloadGo") });

  const add = async (item) => {
    try { await call("POST", "/api/admin/registry", { name: item.name.replace(/\.gguf$/i, "").replace(/\s/g, "-"), path: item.path }); } catch (error) { toast(error.message, 5000); }
    againFurther();
    again();
  };
  const actions = (m, item, busy) => (item.path === loaded ? t("admin.modelLoaded") : m.can_switch ? el("span", {},
    el("button", { class: "quiet small", type: "button", disabled: busy, data: { key: `${item.path} ${busy}` }, ariaLabel: t("admin.modelLoadLabel", { name: item.name }), on: { click: () => load(item) } }, t("admin.modelLoad")),
    " ", added.includes(item.path) ? "" : el("button", { class: "quiet small", type: "button", data: { key: `add ${item.path}` }, ariaLabel: `${t("admin.localAdd")}: ${item.name}`, on: { click: () => add(item) } }, t("admin.localAdd"))) : "");

  const draw = (m) => {
    const busy = !RESTING.includes(m.phase);
    const last = (path) => path?.split("/").at(-1) ?? "–";
    loaded = m.phase === "unloaded" ? null : m.current;
    render(state, m.can_switch ? block(t("admin.modelNow"),
      el("p", { class: `state state-${busy ? "loading" : m.phase === "unloaded" ? "down" : "ready"}` }, t(`admin.phase_${m.phase}`, { name: last(m.wanted ?? m.current), current: last(m.current) })),
      m.error ? el("p", { class: "form-error" }, m.error) : null,
      el("p", { class: "muted" }, t("admin.modelSince", { when: dateTime(m.since) })),
      m.phase === "unloaded" || busy ? null : el("button", { class: "quiet", type: "button", data: { key: "unload" }, on: { click: unload } }, t("admin.modelUnload")))
      : el("p", { class: "note" }, t("admin.modelFixed", { reason: noteOf(m.reason) })));
    hub.hidden = !m.can_switch;
    drawPull(progress, m.pull, () => again());
    hub.dispatchEvent(new CustomEvent("pull", { detail: m.pull?.phase === "running" }));
    render(list, table(t("admin.models"), [t("admin.model"), t("admin.family"), t("admin.format"), t("admin.size"), t("admin.modelPath"), ""], m.items.map((item) => [
      item.path === loaded ? el("b", {}, item.name) : item.name, item.model_type || "–", item.format, bytes(item.bytes), el("code", {}, item.path),
      actions(m, item, busy)]),
    m.items.map((item) => item.path)));
  };
  const again = poll(signal, 1000, "/api/admin/models", draw, (error) => render(state, problem(error)));
  const againFurther = poll(signal, 1000, "/api/admin/registry", ({ items }) => {
    added = items.map((m) => m.path);
    drawFurther(further, items.filter((m) => m.path), () => againFurther());
  }, (error) => render(further, problem(error)));
  return again.first;
}

/** The models that are loaded when they are used: how each is, and what can be done with it. */
function drawFurther(node, items, again) {
  if (!items.length) { render(node, el("p", { class: "muted" }, t("admin.localNone"))); return; }
  const act = async (work) => {
    try { await work(); } catch (error) { toast(error.message, 5000); }
    again();
  };
  const remove = async (m) => {
    if (await confirmDialog(t("admin.localRemoveTitle", { name: m.name }), t("admin.localRemoveText"), t("admin.localRemove"))) act(() => call("DELETE", `/api/admin/registry/${m.id}`));
  };
  const button = (m, what, words, run) => el("button", { class: "quiet small", type: "button", data: { key: `${what} ${m.id}` }, ariaLabel: `${words}: ${m.name}`, on: { click: run } }, words);
  const ask = (m, what, words) => button(m, what, words, () => act(() => call("POST", `/api/admin/registry/${m.id}/${what}`)));
  const pin = (m) => button(m, m.pinned ? "unpin" : "pin", t(m.pinned ? "admin.localUnpin" : "admin.localPin"), () => act(() => call("PATCH", `/api/admin/registry/${m.id}`, { pinned: !m.pinned })));
  const why = (m) => (m.free_bytes !== undefined ? t("admin.localNoRoom", { needed: bytes(m.needed_bytes), free: bytes(m.free_bytes) }) : m.error || "");
  render(node, table(t("admin.localList"), [t("admin.model"), t("admin.stateHead"), t("admin.localMemory"), t("admin.localIdle"), t("admin.modelPath"), ""],
    items.map((m) => [m.name, el("span", { title: m.error || "" }, t(`admin.local_${m.state}`), m.state === "failed" && why(m) ? `: ${why(m)}` : ""), bytes(m.needed_bytes),
      m.pinned ? t("admin.localPinned") : m.idle_s ? span(m.idle_s) : t("admin.never"), el("code", {}, m.path),
      el("span", {}, m.state === "ready" ? ask(m, "unload", t("admin.modelUnload")) : ["unloaded", "failed"].includes(m.state) ? ask(m, "load", t("admin.modelLoad")) : "", " ", pin(m), " ", button(m, "remove", t("admin.localRemove"), () => remove(m)))]),
    items.map((m) => String(m.id))));
}

function rest(p) {
  return p.rate > 0 && p.total > p.got ? t("admin.pullRest", { time: span((p.total - p.got) / p.rate) }) : "";
}

function pullForm(again) {
  const repo = el("input", { id: "pull-repo", required: true, autocomplete: "off", spellcheck: false, maxLength: 200 });
  const include = el("input", { id: "pull-include", autocomplete: "off", spellcheck: false, maxLength: 200 });
  repo.setAttribute("placeholder", t("admin.pullRepoExample"));
  include.setAttribute("placeholder", t("admin.pullIncludeExample"));
  const wrong = el("p", { class: "form-error", role: "alert", hidden: true });
  const form = el("form", { class: "admin-row" }, el("label", {}, t("admin.pullRepo"), repo), el("label", {}, t("admin.pullInclude"), include),
    el("button", { class: "primary", type: "submit" }, t("admin.pullStart")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.hidden = true;
    try {
      await call("POST", "/api/admin/models/pull", { repo: repo.value.trim(), ...(include.value.trim() && { include: include.value.trim() }) });
      toast(t("admin.modelAsked"));
    } catch (error) {
      wrong.textContent = error.message;
      wrong.hidden = false;
    }
    again();
  });
  return [form, wrong];
}

function drawPull(node, pull, again) {
  if (!pull) { render(node); return; }
  const running = pull.phase === "running";
  const repo = pull.repo.replace(/@[0-9a-f]{40}(?=:|$)/, ""); // the commit is for the computer
  const bar = el("progress", { ariaLabel: t("admin.pullBar", { repo }) });
  if (pull.total > 0) { bar.max = pull.total; bar.value = pull.got; }
  const stop = async () => {
    try { await call("DELETE", "/api/admin/models/pull"); } catch (error) { toast(error.message); }
    again();
  };
  render(node, el("p", {}, t(`admin.pull_${pull.phase}`, { repo })), pull.error ? el("p", { class: "form-error" }, pull.error) : null,
    ...(running ? [bar, el("p", { class: "muted" }, pull.total ? t("admin.pullProgress", { got: bytes(pull.got), all: bytes(pull.total), rate: bytes(pull.rate), done: pull.files_done, files: pull.files }) : t("admin.pullAsking"), " ", rest(pull)),
      el("button", { class: "quiet", type: "button", data: { key: "stop" }, on: { click: stop } }, t("admin.pullStop"))] : []));
}

export const modelsSection = { id: "models", get title() { return t("admin.models"); }, open };
