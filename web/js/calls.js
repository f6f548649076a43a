// Calls of tools: a card each, with its arguments and what it gave. A call of a tool server's tool is run by the server, when
// one allows it (tool_runs.js); of any other a person pastes the result, or a program sends it.

import { copyText, el, icon, sheet } from "./dom.js";
import { seconds } from "./format.js";
import { t } from "./i18n.js";
import { comparing, emit, on, state } from "./state.js";

const written = new Set(); // ids of answers whose end this page saw: only their calls may run unasked
on("answer-end", (message) => written.add(message.id));

const LONG = 600; // characters of a result, before it is folded

export function pretty(text) {
  if (typeof text !== "string") return JSON.stringify(text ?? {}, null, 2);
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

export const nameOf = (call) => (call.function || call).name || t("thread.call");

/** The results that follow an answer on the branch that is shown: call's id -> message. */
function resultsOf(message) {
  const out = new Map();
  const children = new Map();
  for (const m of state.current?.messages.values() || []) if (m.role === "tool") children.set(m.parent_id, m);
  for (let m = children.get(message.id); m; m = children.get(m.id)) out.set(m.tool_call_id, m);
  return out;
}

/** A result, folded when it is long. */
export function resultOf(text, label = t("calls.result")) {
  const pre = el("pre", { tabIndex: 0, dir: "auto", ariaLabel: label }, pretty(text));
  return el("details", { class: "call-result", open: text.length <= LONG, data: { key: "result" }, on: { toggle: ({ target }) => { target.dataset.key = "result"; } } }, el("summary", {}, icon("chevron"), label), pre);
}

/** How a call went, in a few words: a badge in its head. */
export function badge(run) {
  const time = run.ms >= 0 ? seconds(run.ms) : "";
  const words = run.state === "done" ? time : [t(`tools.state_${run.state}`), time].filter(Boolean).join(" · ");
  return words ? el("span", { class: "call-state", data: { state: run.state } }, words) : null;
}

/** call: of the answer; about: {server, tool, title} of its tool, where one is known; the rest goes below. */
export function card(call, about, ...below) {
  sheet("tools");
  const args = pretty((call.function || call).arguments);
  return el("div", { class: "call" },
    el("div", { class: "call-name" }, icon("tool"), el("span", { class: "call-title" }, about?.tool || nameOf(call)), about?.server ? el("span", { class: "call-server" }, about.server) : null,
      about?.state ? badge(about) : null,
      el("button", { class: "icon-button", type: "button", ariaLabel: t("calls.copy"), on: { click: () => copyText(args) } }, icon("copy"))),
    el("pre", { tabIndex: 0, ariaLabel: t("calls.arguments") }, args), ...below);
}

/** Asks for results that nobody runs here. done: what the button does with [{tool_call_id, content}]. */
export function form(calls, done) {
  sheet("tools");
  const fields = calls.map((c) => el("textarea", { rows: 2, required: true, dir: "auto", name: c.id,
    ariaLabel: t("calls.resultOf", { name: nameOf(c) }), placeholder: t("calls.paste") }));
  return el("form", { class: "call-form", on: { submit: (event) => {
    event.preventDefault();
    done(calls.map((c, i) => ({ tool_call_id: c.id, content: fields[i].value })));
  } } }, ...calls.flatMap((c, i) => [el("label", {}, t("calls.resultOf", { name: nameOf(c) }), fields[i])]),
  el("div", { class: "dialog-row" }, el("button", { class: "primary" }, t("calls.send"))));
}

function drawByHand(box, message, calls) {
  if (box.querySelector(".call-form")) return; // what is being typed stays
  box.replaceChildren(...calls.map((c) => card(c)), form(calls, (results) => emit("tool-results", { message, results })));
}

/** Whether the server may have something to do with these calls. */
const mayRun = (message) => Boolean(message.runs?.length || state.current.settings?.tool_servers?.length) && !state.current.temporary;

export function drawCalls(box, message) {
  let calls = message.tool_calls || [];
  if (typeof calls === "string") { try { calls = JSON.parse(calls); } catch { calls = []; } }
  if (!calls.length) { box.replaceChildren(); return; } // most answers, of which none should look through all messages
  const results = resultsOf(message);
  const twice = new Set(calls.map((c) => c.id)).size < calls.length; // nobody could say which of them is allowed, or answered
  const open = !twice && message.status === "done" && !results.size && state.current?.leaf_id === message.id && !comparing(state.current);
  if (open && mayRun(message)) {
    import("./tool_runs.js").then((m) => m.drawRuns(box, { message, calls, fresh: written.has(message.id) }, () => drawByHand(box, message, calls)), () => drawByHand(box, message, calls));
    return;
  }
  if (results.size) delete message.runs; // they are messages now
  if (open) { drawByHand(box, message, calls); return; }
  box.replaceChildren(...calls.map((c) => {
    const result = results.get(c.id);
    return card(c, result?.timings?.run, ...(result ? [resultOf(result.content || "")] : []));
  }));
}

/** A result's own place in the thread: it is shown in the card of its call, so only a line. */
export function createResult(message) {
  return el("li", { class: "message result" }, el("h3", { class: "sr" }, t("calls.result")),
    el("p", { class: "muted" }, icon("tool"), t(message.timings?.run ? "tools.given" : "calls.given")), el("div", { class: "actions" }, el("span", { class: "versions", hidden: true })));
}
