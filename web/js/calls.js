// Calls of tools: a card each, with its arguments and, once someone gave one, its result. Nothing is run here: a person
// pastes what a tool gave, or a program sends it.

import { copyText, el, icon } from "./dom.js";
import { t } from "./i18n.js";
import { emit, state } from "./state.js";

function pretty(text) {
  if (typeof text !== "string") return JSON.stringify(text ?? {}, null, 2);
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

/** The results that follow an answer on the branch that is shown: call's id -> text. */
function resultsOf(message) {
  const out = new Map();
  const children = new Map();
  for (const m of state.current?.messages.values() || []) if (m.role === "tool") children.set(m.parent_id, m);
  for (let m = children.get(message.id); m; m = children.get(m.id)) out.set(m.tool_call_id, m.content);
  return out;
}

function card(callOf, result) {
  const fn = callOf.function || callOf;
  const args = pretty(fn.arguments);
  return el("div", { class: "call" },
    el("div", { class: "call-name" }, icon("tool"), fn.name || t("thread.call"),
      el("button", { class: "icon-button", type: "button", ariaLabel: t("calls.copy"), on: { click: () => copyText(args) } }, icon("copy"))),
    el("pre", { tabIndex: 0, ariaLabel: t("calls.arguments") }, args),
    ...(result === undefined ? [] : [el("div", { class: "call-result" }, t("calls.result")), el("pre", { tabIndex: 0, ariaLabel: t("calls.result") }, pretty(result))]));
}

function form(message, calls) {
  const fields = calls.map((c) => el("textarea", { rows: 2, required: true, dir: "auto", name: c.id,
    ariaLabel: t("calls.resultOf", { name: c.function?.name || t("thread.call") }), placeholder: t("calls.paste") }));
  return el("form", { class: "call-form", on: { submit: (event) => {
    event.preventDefault();
    emit("tool-results", { message, results: calls.map((c, i) => ({ tool_call_id: c.id, content: fields[i].value })) });
  } } }, ...calls.flatMap((c, i) => [el("label", {}, t("calls.resultOf", { name: c.function?.name || t("thread.call") }), fields[i])]),
  el("div", { class: "dialog-row" }, el("button", { class: "primary" }, t("calls.send"))));
}

export function drawCalls(box, message) {
  let calls = message.tool_calls || [];
  if (typeof calls === "string") { try { calls = JSON.parse(calls); } catch { calls = []; } }
  const results = resultsOf(message);
  const open = calls.length && message.status === "done" && !results.size && state.current?.leaf_id === message.id;
  if (open && box.querySelector(".call-form")) return; // what is being typed stays
  box.replaceChildren(...calls.map((c) => card(c, results.get(c.id))), ...(open ? [form(message, calls)] : []));
}

/** A result's own place in the thread: it is shown in the card of its call, so only a line. */
export function createResult(message) {
  return el("li", { class: "message result" }, el("h3", { class: "sr" }, t("calls.result")),
    el("p", { class: "muted" }, icon("tool"), t("calls.given")), el("div", { class: "actions" }, el("span", { class: "versions", hidden: true })));
}
