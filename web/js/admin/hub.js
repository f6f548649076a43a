// The search on the hub: models, and beside each whether it runs on this machine and how fast, planned before anything of it is downloaded.

import { call } from "../api.js";
import { el, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { noteOf } from "./server_words.js";
import { bytes, poll, short } from "./view.js";

const BUSY = ["searching", "planning"];

/** What stands for the verdict: a word with a colour, and the reason or the speed. */
function fitOf(fit) {
  if (!fit) return el("span", { class: "muted" }, t("admin.fit_planning"));
  const speed = fit.tokens_per_s ? t("admin.fitSpeed", { low: short(fit.tokens_per_s_low), high: short(fit.tokens_per_s_high) }) : "";
  return el("div", {}, el("b", { class: `fit fit-${fit.verdict}` }, t(`admin.fit_${fit.verdict}`)),
    speed ? el("span", { class: "muted" }, speed) : null, fit.reason ? el("small", { class: "muted" }, noteOf(fit.reason)) : null);
}

function row(item, busy, pull) {
  const runs = ["fits", "streams"].includes(item.fit?.verdict);
  const facts = [item.about, item.downloads === null ? "" : t("admin.hubDownloads", { n: item.downloads }), item.gated ? t("admin.hubGated") : ""].filter(Boolean);
  return el("li", { data: { key: item.name } },
    el("div", {}, el("b", {}, item.name.replace("hf.co/", "")), el("span", { class: "muted" }, [item.fit?.bytes ? bytes(item.fit.bytes) : "", ...facts].filter(Boolean).join(" · "))),
    fitOf(item.fit),
    runs ? el("button", { class: "quiet small", type: "button", disabled: busy, data: { key: `pull ${item.pull} ${busy}` }, ariaLabel: t("admin.hubPullLabel", { name: item.name }), on: { click: () => pull(item) } }, t("admin.pullStart")) : null);
}

/** again: called when a download was asked for. Hears whether one runs by the event "pull" of what it is put into. */
export function openHub(signal, again) {
  const text = el("input", { type: "search", id: "hub-text", autocomplete: "off", spellcheck: false, maxLength: 200 });
  text.setAttribute("placeholder", t("admin.hubExample"));
  const list = el("ul", { class: "hub-list" });
  const state = el("p", { class: "muted", role: "status" });
  const form = el("form", { class: "admin-row" }, el("label", {}, t("admin.hubText"), text), el("button", { class: "primary", type: "submit" }, t("admin.hubSearch")));
  const node = el("div", {}, el("p", { class: "muted" }, t("admin.hubHelp")), form, state, list);
  let pulls = false, last = null;

  const pull = async (item) => {
    try {
      await call("POST", "/api/admin/models/pull", { repo: item.pull });
      toast(t("admin.modelAsked"));
    } catch (error) { toast(error.message, 5000); }
    again();
  };
  const draw = (found) => {
    last = found;
    const busy = BUSY.includes(found.phase), done = found.items.filter((i) => i.fit).length;
    render(state, found.phase === "failed" ? el("span", { class: "form-error" }, t("admin.hubFailed", { why: found.error })) : found.phase === "searching" ? t("admin.hubSearching")
      : busy ? t("admin.hubPlanning", { done, all: found.items.length }) : found.phase === "done" && !found.items.length ? t("admin.hubNothing") : "");
    render(list, ...found.items.map((item) => row(item, pulls, pull)));
    if (!busy) stop();
  };
  /** Looks at what is found while it is found. */
  let running = null;
  const stop = () => { running?.abort(); running = null; };
  const watch = () => {
    stop();
    running = new AbortController();
    poll(running.signal, 700, "/api/admin/models/search", draw, (error) => {
      render(state, error.message);
      if (error.status === 501) stop(); // no `sluice up` here that searches
    });
  };
  signal.addEventListener("abort", stop, { once: true });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await call("POST", "/api/admin/models/search", { query: text.value.trim() });
      watch();
    } catch (error) { render(state, el("span", { class: "form-error" }, error.message)); }
  });
  queueMicrotask(() => node.parentElement?.addEventListener("pull", (event) => {
    if (pulls === event.detail) return;
    pulls = event.detail;
    if (last) draw(last);
  }, { signal }));
  watch(); // what was found before, if this is not the first visit
  return node;
}
