// Jobs: what the engine works on now. Who and how long, never what: the admin sees no prompt and no answer.

import { call } from "../api.js";
import { confirmDialog, el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { count, poll, problem, span, table } from "./view.js";

function progress(job) {
  if (job.state === "prefill") return t("admin.jobReading", { done: count(job.done_tokens), all: count(job.prompt_tokens) });
  if (job.state === "decode") return t("admin.jobWriting", { n: count(job.completion_tokens) });
  return t("admin.jobQueued", { n: count(job.prompt_tokens) });
}

function open(view, signal) {
  const body = el("div");
  let users = new Map();
  view.append(el("p", { class: "muted" }, t("admin.jobsHelp")), body);
  call("GET", "/api/users").then((list) => { users = new Map(list.items.map((u) => [u.id, u.name])); }).catch(() => {});

  const cancel = async (job) => {
    if (!await confirmDialog(t("admin.jobCancelLabel", { id: job.id }), t("admin.jobCancelText"), t("admin.jobCancelGo"))) return;
    try { await call("DELETE", `/api/admin/jobs/${job.id}${job.model ? `?model=${encodeURIComponent(job.model)}` : ""}`); toast(t("admin.jobCancelled")); } catch (error) { toast(error.status === 404 ? t("admin.jobGone") : error.message); }
    again();
  };
  const draw = (s) => {
    if (s.engine.state === "down") { render(body, el("p", { class: "muted" }, t("admin.engineDown"))); return; }
    if (!s.jobs.length) { render(body, el("p", { class: "muted" }, t("admin.noJobs"))); return; }
    render(body, table(t("admin.jobs"), [t("admin.job"), t("admin.user"), t("admin.stateHead"), t("admin.progress"), t("admin.since"), t("admin.request"), ""], s.jobs.map((job) => [
      job.id, users.get(job.user_id) || (job.user_id === "0" ? "–" : `#${job.user_id}`), t(`admin.job_${job.state}`), progress(job),
      span(Math.max(0, Date.now() / 1000 - job.started)), el("code", {}, job.request_id || "–"),
      el("button", { class: "quiet small", type: "button", data: { key: job.id }, ariaLabel: t("admin.jobCancelLabel", { id: job.id }), on: { click: () => cancel(job) } }, t("admin.jobCancel"))]),
    s.jobs.map((job) => job.id)));
  };
  const again = poll(signal, 1000, "/api/admin/status", draw, (error) => render(body, problem(error)));
  return again.first;
}

export const jobsSection = { id: "jobs", get title() { return t("admin.jobs"); }, open };
