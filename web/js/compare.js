// Answers to one question side by side: what several models are asked at once, while it is written, or the versions of an answer. Each
// column holds the message as the thread draws it. Loaded when it is first needed.

import { ask, stopAnswer } from "./answer.js";
import { call } from "./api.js";
import { focusComposer } from "./composer.js";
import { announce, el, icon, openMenu, sheet, toast } from "./dom.js";
import { rate, seconds } from "./format.js";
import { loadStrings, t } from "./i18n.js";
import { comparing, emit, leafUnder, on, showLeaf, siblings, state } from "./state.js";

await Promise.all([loadStrings(), sheet("compare")]);

const MOST = 4;         // columns
const AGAIN_MS = 400;   // before a model is asked once more
const STEP_MS = 250;    // between two figures of an answer that is being written
const groups = new Map(); // a group's id -> its element and parts
const asked = new Map();  // question and model -> "": on its way, else why it was refused
const keyOf = (question, model) => `${question} ${model}`;

/** The models of a chat that compares, its own first. */
function modelsOf(conversation) {
  const { model, compare } = conversation.settings;
  const own = model || state.status?.model?.id;
  return [own, ...compare.filter((name) => name !== own)].filter(Boolean).slice(0, MOST);
}

// --- asking ------------------------------------------------------------------------------------------------------------------

/** again: milliseconds after which it is asked once more where too many are asked at once; stops: how often the chat was stopped when
 *  this was wanted. A stop since then counts for it too, wherever its request is. */
async function askModel(conversation, question, model, again = 0, stops = conversation.stops || 0) {
  const key = keyOf(question, model);
  const draw = () => { if (state.current === conversation) emit("thread-changed"); };
  const post = async () => {
    if ((conversation.stops || 0) !== stops) return;
    const answer = await ask(conversation, { regenerate: question, model }, false);
    if ((conversation.stops || 0) !== stops) await stopAnswer(answer);
  };
  asked.set(key, "");
  draw();
  try {
    await post().catch(async (error) => {
      if (error.status !== 429 || !again) throw error;
      await new Promise((wake) => setTimeout(wake, again));
      return post();
    });
    asked.delete(key);
  } catch (error) { asked.set(key, error.message); }
  draw();
}

/** The chat's own model has begun to answer: the others are asked the same. The chat goes on from the first, until one is chosen. */
export async function askOthers(message, stops) {
  const conversation = state.current;
  if (conversation?.id !== message.conversation_id) return;
  // Two requests on their way at once may each be one too many for the user's limit, where there is a place for one of them.
  await Promise.all(modelsOf(conversation).slice(1).map((model, i) => askModel(conversation, message.parent_id, model, AGAIN_MS * (i + 1), stops)));
}

// --- which answers stand side by side -----------------------------------------------------------------------------------------

function columnsOfModels(conversation, shown) {
  const all = siblings(conversation, shown);
  const columns = modelsOf(conversation).map((name) => (shown.model === name ? shown : all.findLast((m) => m.model === name) || { slot: name }));
  return columns.includes(shown) ? columns : [shown, ...columns].slice(0, MOST);
}

/** Of many versions the newest, with the one that is shown. */
function columnsOfVersions(conversation, shown) {
  const all = siblings(conversation, shown);
  const others = all.filter((m) => m !== shown).slice(1 - MOST);
  return all.filter((m) => m === shown || others.includes(m));
}

function groupOf(conversation, message, isLast) {
  const chosen = conversation.sideBySide?.has(message.parent_id) && message.role === "assistant";
  const models = !chosen && isLast && comparing(conversation) && message.role === "assistant" && conversation.messages.get(message.parent_id)?.role === "user";
  if (!chosen && !models) return null;
  const columns = models ? columnsOfModels(conversation, message) : columnsOfVersions(conversation, message);
  return columns.length > 1 ? { id: `beside-${message.parent_id}`, question: message.parent_id, shown: message, columns, models } : null;
}

/** A column is an ordinary message again. */
function release(root) {
  root.querySelector(":scope > .beside-head")?.remove();
  root.classList.remove("beside-column");
  root.removeAttribute("data-leaf");
}

/** The branch with a group in the place of each answer that has others beside it. */
export function fold(path) {
  const conversation = state.current;
  const items = conversation ? path.map((m, i) => groupOf(conversation, m, i === path.length - 1) || m) : path;
  const kept = new Set(items.map((item) => item.id));
  for (const [id, group] of groups) {
    if (kept.has(id)) continue;
    for (const root of group.strip.children) release(root);
    group.watch.disconnect();
    groups.delete(id);
  }
  return items;
}

// --- drawing -----------------------------------------------------------------------------------------------------------------

function stateWords(group, message) {
  const words = [];
  if (message.status === "running") words.push(message.tokens ? t("thread.tokens", { n: message.tokens }) : "", rate(message.rate));
  else if (message.finished_at > message.created_at) words.push(seconds(message.finished_at - message.created_at));
  if (message.status === "stopped") words.push(t("thread.stopped"));
  if (message === group.item.shown) words.push(t("compare.here"));
  if (message.tool_calls?.length && group.item.models) words.push(t("compare.tools"));
  return words.filter(Boolean).join(" · ");
}

const nameOf = (group, message) => (group.item.models && message.model) || [t("answer.version", { n: siblings(state.current, message).indexOf(message) + 1 }), message.model].filter(Boolean).join(" · ");

function makeHead(group, message) {
  const stop = el("button", { class: "icon-button beside-stop", type: "button", on: { click: async () => { try { await stopAnswer(message); } catch (error) { toast(error.message); } } } }, icon("stop"));
  const keep = el("button", { class: "quiet beside-keep", type: "button", on: { click: () => keepAnswer(group.item, message) } }, t("answer.keep"));
  return el("div", { class: "beside-head" }, el("b", { class: "beside-model" }), stop, keep, el("small", { class: "muted beside-state" }));
}

function drawHead(group, message, root) {
  let head = root.querySelector(":scope > .beside-head");
  if (!head) root.prepend(head = makeHead(group, message));
  const name = nameOf(group, message);
  const [stop, keep] = head.querySelectorAll("button");
  head.querySelector(".beside-model").textContent = name;
  head.querySelector(".beside-state").textContent = stateWords(group, message);
  stop.hidden = message.status !== "running";
  stop.ariaLabel = stop.title = t("compare.stop", { model: name });
  keep.ariaLabel = t("compare.keep", { model: name });
  root.classList.add("beside-column");
  root.toggleAttribute("data-leaf", message === group.item.shown);
}

/** The place of a model that has not answered: it waits, was refused, or was not asked. */
function slotNode(group, model) {
  const { question } = group.item;
  const why = asked.get(keyOf(question, model));
  const node = group.slots.get(model) || el("li", { class: "beside-column beside-slot" });
  group.slots.set(model, node);
  if (node.dataset.why === String(why)) return node;
  node.dataset.why = String(why);
  node.replaceChildren(el("div", { class: "beside-head" }, el("b", { class: "beside-model" }, model)),
    why === "" ? el("p", { class: "muted", role: "status" }, t("compare.asking"))
      : el("div", why ? { class: "problem", role: "alert" } : { class: "beside-none" }, el("p", {}, why || t("compare.none")),
        el("button", { class: why ? "" : "quiet", type: "button", ariaLabel: t("compare.ask", { model }), on: { click: () => askModel(state.current, question, model) } }, t(why ? "thread.retry" : "compare.askShort"))));
  return node;
}

function makeGroup(id) {
  const group = { id, slots: new Map(), strip: el("ol", { class: "beside-strip", ariaLabel: t("compare.label") }), tabs: el("div", { class: "beside-tabs", role: "group", ariaLabel: t("compare.label") }) };
  group.close = el("button", { class: "quiet beside-close", type: "button", on: { click: () => { state.current.sideBySide.delete(group.item.question); emit("thread-changed"); } } }, t("compare.close"));
  group.node = el("li", { class: "beside" }, group.tabs, group.strip, group.close);
  group.watch = new IntersectionObserver((entries) => { // on a phone: which of them is in sight
    for (const { target, intersectionRatio } of entries) if (intersectionRatio > 0.5) markTab(group, [...group.strip.children].indexOf(target));
  }, { root: group.strip, threshold: [0.51] });
  groups.set(id, group);
  return group;
}

const markTab = (group, at) => [...group.tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", String(i === at)));

function drawTabs(group) {
  const names = group.item.columns.map((m) => m.slot || nameOf(group, m));
  if (group.tabs.dataset.names === names.join("\n")) return;
  group.tabs.dataset.names = names.join("\n");
  group.tabs.replaceChildren(...names.map((name, i) => el("button", { class: "beside-tab", type: "button", ariaPressed: String(i === 0),
    on: { click: () => { markTab(group, i); group.strip.children[i].scrollIntoView({ block: "nearest", inline: "start" }); } } }, name)));
}

/** The element of a group; viewOf(message) is the thread's view of one. */
export function drawGroup(item, viewOf) {
  const group = groups.get(item.id) || makeGroup(item.id);
  group.item = item;
  group.node.style.setProperty("--n", item.columns.length);
  group.close.hidden = item.models;
  const nodes = item.columns.map((m) => (m.slot ? slotNode(group, m.slot) : viewOf(m).root));
  const old = [...group.strip.children];
  for (const root of old) if (!nodes.includes(root)) release(root);
  item.columns.forEach((m, i) => { if (!m.slot) drawHead(group, m, nodes[i]); });
  if (nodes.length !== old.length || nodes.some((node, i) => node !== old[i])) {
    group.strip.replaceChildren(...nodes);
    group.watch.disconnect();
    for (const node of nodes) group.watch.observe(node);
  }
  drawTabs(group);
  return group.node;
}

const groupWith = (message) => [...groups.values()].find((group) => group.item.columns.includes(message));
let timer = 0;
const changed = new Set();

function drawSoon(message) {
  changed.add(message);
  timer ||= setTimeout(() => {
    timer = 0;
    for (const m of changed) drawNow(m);
    changed.clear();
  }, STEP_MS);
}

function drawNow(message) {
  const group = groupWith(message);
  const root = group && [...group.strip.children][group.item.columns.indexOf(message)];
  if (root) drawHead(group, message, root);
}
on("answer-delta", ({ message }) => { if (groups.size) drawSoon(message); });
/** Of several that are written at once only the end is read aloud, and whose it is. */
on("answer-end", (message) => {
  const group = groupWith(message);
  if (!group) return;
  drawNow(message);
  announce(t(message.status === "error" ? "compare.failed" : "compare.done", { model: nameOf(group, message) }));
});

let known = state.status?.model?.id; // the first model's name, which may come later than the chat
on("status", () => {
  if (known === state.status?.model?.id) return;
  known = state.status?.model?.id;
  if (comparing(state.current)) emit("thread-changed");
});

on("settings-changed", () => { if (groups.size || comparing(state.current)) emit("thread-changed"); }); // other models, or one alone

/** Nothing stands side by side any more: another chat is shown. */
export function clear() {
  for (const group of groups.values()) group.watch.disconnect();
  groups.clear();
}

// --- choosing ----------------------------------------------------------------------------------------------------------------

/** The chat goes on from this answer, and with its model; the others stay as versions. */
async function keepAnswer(item, message) {
  const conversation = state.current;
  conversation.sideBySide?.delete(message.parent_id);
  if (item.models) conversation.stops = (conversation.stops || 0) + 1; // who has not begun need not
  if (!item.models) { emit("choose-version", message); return; }
  const own = modelsOf(conversation)[0];
  const other = message.model && message.model !== own;
  const patch = (settings) => call("PATCH", `/api/conversations/${conversation.id}`, { leaf_id: leafUnder(conversation, message).id, settings });
  const saved = patch({ compare: null, ...(other ? { model: message.model === state.status?.model?.id ? null : message.model, thinking: null, reasoning_effort: null } : {}) })
    .catch((error) => { if (error.status === 404) return patch({ compare: null }); throw error; }); // that model is gone
  showLeaf(conversation, leafUnder(conversation, message).id, saved.catch(() => {}));
  try {
    conversation.settings = (await saved).settings;
    if (message.model) toast(t("compare.kept", { model: message.model }), 4000);
  } catch (error) { toast(error.message); }
  if (state.current !== conversation) return;
  emit("settings-changed");
  emit("thread-changed");
  focusComposer();
}

/** Which models are asked beside the chat's own. names: of all that one may use; own: that of the chat. */
export function compareMenu(button, names, own) {
  let chosen = ((state.current?.settings || state.draftSettings).compare || []).filter((name) => names.includes(name));
  const toggle = (name) => {
    if (!chosen.includes(name) && chosen.length >= MOST - 1) { toast(t("compare.most", { n: MOST })); return false; }
    chosen = chosen.includes(name) ? chosen.filter((x) => x !== name) : [...chosen, name];
    emit("choose-settings", { compare: chosen.length ? chosen : null });
    return chosen.includes(name);
  };
  openMenu(button, [{ head: t("compare.beside", { model: own }) },
    ...names.filter((name) => name !== own).map((name) => ({ label: name, many: true, stays: true, checked: chosen.includes(name), run: () => toggle(name) }))]);
}
