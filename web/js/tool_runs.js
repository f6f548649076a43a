// Calls that the server runs: each asks first, unless its tool may always run; when all have ended, their results go to the model.
// What a call gave is kept by the server, so that a reload loses nothing; then a button goes on.

import { call } from "./api.js";
import { card, form, nameOf, resultOf } from "./calls.js";
import { announce, el, toast } from "./dom.js";
import { t } from "./i18n.js";
import { render } from "./render.js";
import { emit, on, state } from "./state.js";
import { forgetToolServers, toolServers } from "./tool_servers.js";
import { signInButton } from "./tool_sign_in.js";

const TICK_MS = 1000;
const LOOK_MS = 2000; // at a call that another tab runs

const live = new Map(); // message id -> {message, calls, box, runs: Map(call id -> run), notes: Map, mine, asked}
const ended = (run) => run && !["waiting", "running", "lost"].includes(run.state);

/** The tool that a call is for, among those of the chat's servers. */
function toolOf(servers, name) {
  const chosen = state.current?.settings?.tool_servers || [];
  for (const server of servers) {
    const tool = server.usable && chosen.includes(server.name) && server.tools.find((x) => x.call === name && !x.problem);
    if (tool) return { server, tool };
  }
  return null;
}

async function findTools(view) {
  const servers = await toolServers();
  for (const c of view.calls) view.tools.set(c.id, toolOf(servers, nameOf(c)));
}

async function refresh(view) {
  const whole = await call("GET", `/api/conversations/${view.message.conversation_id}`);
  const fresh = whole.messages.find((m) => m.id === view.message.id);
  if (!fresh || state.current?.id !== view.message.conversation_id) return;
  for (const now of fresh.runs || []) keep(view, now.call_id, now);
  if (whole.leaf_id !== view.message.id) emit("reload-conversation"); // it went on elsewhere
}

/** Sends the results when the last call has ended. All come from the server's rows, but those that were pasted. */
function goOn(view, pasted = []) {
  const byHand = new Map(pasted.map((r) => [r.tool_call_id, r]));
  live.delete(view.message.id);
  emit("tool-results", { message: view.message, results: view.calls.map((c) => byHand.get(c.id) || { tool_call_id: c.id }) });
}

/** What a call's state is now; kept with the message, which outlives this view. */
function keep(view, id, now) {
  if (now) view.runs.set(id, now);
  else view.runs.delete(id);
  view.message.runs = [...view.runs.values()].filter((r) => r.state !== "waiting");
}

/** Calls of one answer run one after the other, in the order in which they were allowed. */
function run(view, c, allow) {
  keep(view, c.id, { call_id: c.id, state: "waiting" });
  view.notes.delete(c.id);
  view.mine = true;
  draw(view);
  const { queue } = view;
  const definition = allow === "once" || allow === "always" ? view.tools.get(c.id)?.tool.definition : undefined; // as it is shown now
  view.last = view.last.then(() => queue === view.queue && runNow(view, c, { allow, definition }));
}

/** Someone else decides about these calls too: none that waits here runs any more. */
function stopQueue(view) {
  view.queue = {};
  view.mine = false;
  for (const [id, now] of [...view.runs]) if (now.state === "waiting") keep(view, id, null);
}

/** said.allow: "once", "always", "no", or nothing for a tool that always runs. */
async function runNow(view, c, said) {
  keep(view, c.id, { call_id: c.id, state: "running", began_at: Date.now() });
  draw(view);
  try {
    const done = await call("POST", `/api/messages/${view.message.id}/calls/${encodeURIComponent(c.id)}/run`, said);
    keep(view, c.id, done);
    if (said.allow === "always") forgetToolServers();
    if (done.state === "stopped") view.mine = false; // who stops a call decides what comes next
  } catch (error) {
    keep(view, c.id, null);
    view.notes.set(c.id, { text: error.message, reason: error.reason, allow: said.allow });
    if (error.reason === "tool_running" || error.reason === "tool_ran") { stopQueue(view); await watch(view); }
    if (error.reason === "tool_changed") { forgetToolServers(); await findTools(view); }
  }
  if (state.current?.id !== view.message.conversation_id) return;
  const runnable = view.calls.filter((x) => view.tools.get(x.id));
  if (view.mine && runnable.length === view.calls.length && runnable.every((x) => ended(view.runs.get(x.id)))) { draw(view); goOn(view); return; }
  draw(view);
}

async function watch(view) {
  try { await refresh(view); } catch { /* the next look shows it */ }
  if (live.get(view.message.id) === view && [...view.runs.values()].some((r) => r.state === "running") && !view.mine) setTimeout(() => watch(view).then(() => draw(view)), LOOK_MS);
}

async function stop(view, c) {
  try { keep(view, c.id, await call("POST", `/api/messages/${view.message.id}/calls/${encodeURIComponent(c.id)}/stop`)); view.mine = false; draw(view); }
  catch (error) { if (error.status !== 404) toast(error.message); } // 404: it has ended meanwhile
}

const button = (look, label, run, key) => el("button", { class: `${look} small`, type: "button", data: { key }, on: { click: run } }, label);

const isSignIn = (note) => note?.reason === "tool_sign_in" || note?.reason === "tool_scope";

/** Before it runs with the account of whoever reads this, who has none there yet, or one with too few rights. */
function signInFirst(view, c, server, reason) {
  const complain = (error) => { view.notes.set(c.id, { ...view.notes.get(c.id), text: error.message, failed: true }); draw(view); };
  const note = view.notes.get(c.id);
  return el("div", { class: "call-ask", role: "group", ariaLabel: t("toolServers.signIn"), data: { key: `sign-in ${reason} ${note?.text || ""}` } },
    el("p", {}, t(reason === "tool_scope" ? "toolServers.needsMore" : "toolServers.needsSignIn", { server: server.name })),
    note?.failed ? el("p", { class: "form-error", role: "alert" }, note.text) : null,
    el("div", { class: "call-buttons" }, signInButton(server, complain), button("quiet", t("toolServers.deny"), () => run(view, c, "no"), "no")));
}

function question(view, c, { server, tool }) {
  const note = view.notes.get(c.id);
  if (isSignIn(note) || server.sign_in?.state === "needed") return signInFirst(view, c, server, note?.reason);
  const lost = view.runs.get(c.id)?.state === "lost";
  const words = lost ? t("toolServers.lost") : note && note.reason !== "tool_permission" ? note.text : t(server.everyone ? "toolServers.askShared" : "toolServers.ask", { server: server.name, tool: tool.title || tool.name });
  return el("div", { class: "call-ask", role: "group", ariaLabel: t("toolServers.askTitle", { tool: tool.title || tool.name }), data: { key: `ask ${lost} ${note?.text || ""}` } },
    el("p", {}, words), tool.destructive ? el("p", { class: "call-warn" }, t("toolServers.destructive")) : null,
    el("div", { class: "call-buttons" }, button(tool.destructive ? "quiet" : "primary", t(lost || (note && !/^tool_(permission|rounds|changed)$/.test(note.reason)) ? "toolServers.runAgain" : "toolServers.once"), () => run(view, c, "once"), "once"),
      tool.always && !note ? null : button("quiet", t("toolServers.always"), () => run(view, c, "always"), "always"), button("quiet", t("toolServers.deny"), () => run(view, c, "no"), "no")));
}

function progress(view, c) {
  const { began_at, state: now } = view.runs.get(c.id);
  if (now === "waiting") return el("div", { class: "call-running muted", data: { key: "waiting" } }, t("toolServers.waiting"));
  return el("div", { class: "call-running", data: { key: `running ${began_at}` } }, el("span", { class: "waiting-bar", role: "progressbar", ariaLabel: t("toolServers.running") }, el("span", {})),
    el("span", { class: "call-time muted", data: { since: began_at } }, t("toolServers.running")), button("quiet", t("toolServers.stop"), () => stop(view, c), "stop"));
}

function below(view, c) {
  const found = view.tools.get(c.id);
  const done = view.runs.get(c.id);
  if (done?.state === "running" || done?.state === "waiting") return [progress(view, c)];
  if (ended(done)) return [resultOf(done.result || ""), ...(done.state === "stopped" && found ? [el("div", { class: "call-buttons", data: { key: "again" } }, button("quiet", t("toolServers.runAgain"), () => run(view, c, "once"), "rerun"))] : [])];
  return found ? [question(view, c, found)] : [];
}

function foot(view) {
  const byHand = view.calls.filter((c) => !view.tools.get(c.id) && !ended(view.runs.get(c.id)));
  if (byHand.length) view.form ??= form(byHand, (results) => { if (view.calls.every((c) => byHand.includes(c) || ended(view.runs.get(c.id)))) goOn(view, results); else toast(t("toolServers.others")); });
  if (byHand.length) { if (!view.foot.contains(view.form)) view.foot.replaceChildren(view.form); return; } // what is being typed stays, with the focus
  render(view.foot, goOnButton(view));
}

function goOnButton(view) {
  if (!view.calls.every((c) => ended(view.runs.get(c.id))) || view.mine) return null;
  return el("div", { class: "call-buttons", data: { key: "go-on" } }, button("primary", t("toolServers.goOn"), () => goOn(view), "go"));
}

function draw(view) {
  if (!view.box.isConnected && !view.first) return;
  view.first = false;
  const cards = view.calls.map((c) => {
    const found = view.tools.get(c.id);
    const done = view.runs.get(c.id);
    const about = { server: found?.server.name || done?.server, tool: found?.tool.name || done?.tool };
    if (ended(done)) Object.assign(about, { state: done.state, ms: done.ends_at - done.began_at });
    const node = card(c, about, ...below(view, c));
    node.dataset.key = c.id;
    node.querySelector(".call-name .icon-button").dataset.key = "copy";
    return node;
  });
  if (view.list.parentNode !== view.box) view.box.replaceChildren(view.list, view.foot);
  render(view.list, ...cards);
  foot(view);
}

/** Draws the calls of the last answer, and runs what may always run, if this page saw it written (fresh). nobody: what is drawn where no
 *  server has any of them. */
export async function drawRuns(box, { message, calls, fresh }, nobody) {
  const old = live.get(message.id);
  if (old?.message === message) {
    old.box = box;
    old.first = true;
    draw(old);
    return;
  }
  const view = { message, calls, box, list: el("div", { role: "group", ariaLabel: t("tools.title") }), foot: el("div"), runs: new Map((message.runs || []).map((r) => [r.call_id, r])), notes: new Map(), tools: new Map(), mine: false, first: true, queue: {}, last: Promise.resolve() };
  live.set(message.id, view);
  await findTools(view);
  if (![...view.tools.values()].some(Boolean) && !view.runs.size) { live.delete(message.id); nobody(); return; }
  draw(view);
  if (view.runs.size) { watch(view); return; } // begun before this page: what comes next is a button
  const asks = calls.filter((c) => view.tools.get(c.id) && !view.tools.get(c.id).tool.always);
  if (asks.length) announce(t("toolServers.askTitle", { tool: asks.map(nameOf).join(", ") }));
  if (fresh) for (const c of calls) if (view.tools.get(c.id)?.tool.always) run(view, c);
}

// How long each call that runs has run by now.
setInterval(() => {
  for (const node of document.querySelectorAll(".call-time[data-since]")) node.textContent = t("toolServers.runningFor", { n: Math.max(0, Math.round((Date.now() - Number(node.dataset.since)) / 1000)) });
}, TICK_MS);

on("tool-servers-changed", () => live.clear());

/** What waited for the sign-in goes on: a call that was allowed runs, any other asks. */
on("tool-signed-in", async (code) => {
  if (code !== "done") return;
  forgetToolServers();
  for (const view of live.values()) {
    await findTools(view);
    const waiting = view.calls.filter((c) => isSignIn(view.notes.get(c.id)));
    for (const c of waiting) run(view, c, view.notes.get(c.id).allow);
    draw(view);
  }
});

