// Upstreams: other servers that answer for this one, how they are, and which models they answer.

import { call } from "../api.js";
import { confirmDialog, el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { block, count, dateTime, poll, problem, table } from "./view.js";

const DIALECTS = { openai: "OpenAI", anthropic: "Anthropic", ollama: "Ollama" };

/** "mine, yours=theirs" as the API takes it. */
function modelsOf(text) {
  return text.split(",").map((word) => word.trim()).filter(Boolean).map((word) => {
    const [model, remote] = word.split("=", 2);
    return remote ? { model, remote } : { model };
  });
}

function addForm(again) {
  const field = (more) => el("input", { autocomplete: "off", spellcheck: false, ...more });
  const name = field({ required: true, maxLength: 64 });
  const url = field({ required: true, maxLength: 512, type: "url" });
  const models = field({ required: true });
  const key = field({ type: "password" });
  key.setAttribute("autocomplete", "new-password");
  url.setAttribute("placeholder", "https://…/v1");
  models.setAttribute("placeholder", t("admin.upstreamModelsExample"));
  const dialect = el("select", {}, ...Object.entries(DIALECTS).map(([value, name]) => el("option", { value }, name)));
  const wrong = el("p", { class: "form-error", role: "alert", hidden: true });
  const form = el("form", { class: "upstream-form" }, el("label", {}, t("admin.upstreamName"), name), el("label", {}, t("admin.upstreamUrl"), url),
    el("label", {}, t("admin.upstreamDialect"), dialect), el("label", {}, t("admin.upstreamModels"), models), el("label", {}, t("admin.upstreamKey"), key),
    el("button", { class: "primary", type: "submit" }, t("admin.upstreamAdd")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.hidden = true;
    try {
      await call("POST", "/api/admin/upstreams", { name: name.value.trim(), url: url.value.trim(), dialect: dialect.value, models: modelsOf(models.value), ...(key.value && { key: key.value }) });
      form.reset();
      again();
    } catch (error) {
      wrong.textContent = error.message;
      wrong.hidden = false;
    }
  });
  return [form, wrong, el("p", { class: "muted" }, t("admin.upstreamHelp"))];
}

function open(view, signal) {
  const body = el("div");
  view.append(el("div", { class: "admin-column" }, block(t("admin.upstreamList"), body), block(t("admin.upstreamNew"), ...addForm(() => again()))));

  const act = async (work) => {
    try { await work(); } catch (error) { toast(error.message, 5000); }
    again();
  };
  const test = (u) => act(async () => {
    const r = await call("POST", `/api/admin/upstreams/${u.id}/test`);
    toast(r.ok ? t("admin.upstreamOk", { name: u.name, ms: count(r.first_ms) }) : t("admin.upstreamFailed", { name: u.name, why: r.error }), 5000);
  });
  const drain = (u) => act(() => call("PATCH", `/api/admin/upstreams/${u.id}`, { drained: !u.drained }));
  const remove = async (u) => {
    if (await confirmDialog(t("admin.upstreamRemoveTitle", { name: u.name }), t("admin.upstreamRemoveText"), t("admin.upstreamRemove"))) act(() => call("DELETE", `/api/admin/upstreams/${u.id}`));
  };
  const button = (u, what, words, run) => el("button", { class: "quiet small", type: "button", data: { key: `${what} ${u.id} ${u.drained}` }, ariaLabel: `${words}: ${u.name}`, on: { click: () => run(u) } }, words);
  const state = (u) => el("span", {}, t(`admin.upstream_${u.drained ? "drained" : u.status?.state ?? "unknown"}`), u.status?.last_error ? el("small", { class: "muted upstream-error" }, u.status.last_error) : null);
  const draw = ({ items }) => {
    if (!items.length) { render(body, el("p", { class: "muted" }, t("admin.upstreamNone"))); return; }
    render(body, table(t("admin.upstreams"), [t("admin.upstreamName"), t("admin.stateHead"), t("admin.upstreamNow"), t("admin.upstreamRequests"), t("admin.upstreamErrors"), t("admin.upstreamModels"), t("admin.upstreamUrl"), t("admin.upstreamProbed"), ""],
      items.map((u) => [u.name, state(u), count(u.status?.in_flight ?? 0), count(u.status?.requests ?? 0), count(u.status?.errors ?? 0),
        u.models.map((m) => m.model).join(", ") || "–", el("code", {}, u.url), dateTime(u.status?.probed_at ?? 0),
        el("span", {}, button(u, "test", t("admin.upstreamTest"), test), " ", button(u, "drain", t(u.drained ? "admin.upstreamResume" : "admin.upstreamDrain"), drain), " ", button(u, "remove", t("admin.upstreamRemove"), remove))]),
      items.map((u) => String(u.id))));
  };
  const again = poll(signal, 2000, "/api/admin/upstreams", draw, (error) => render(body, problem(error)));
  return again.first;
}

export const upstreamsSection = { id: "upstreams", get title() { return t("admin.upstreams"); }, open };
