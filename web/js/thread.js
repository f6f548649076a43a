// The open conversation: its messages in order, drawn once and then updated in place.

import { BlockWindow } from "./block_window.js";
import { createResult, drawCalls } from "./calls.js";
import { handleCodeClick } from "./code.js";
import { focusComposer } from "./composer.js";
import { announce, confirmDialog, copyText, el, fromTemplate, $, toast } from "./dom.js";
import { failureOf } from "./errors.js";
import { followFootnotes } from "./footnotes.js";
import { rate, seconds } from "./format.js";
import { t } from "./i18n.js";
import { plainText } from "./list_row.js";
import { MarkdownView } from "./markdown.js";
import { addActions, chooseVersion, drawActions } from "./message_menu.js";
import { createUser } from "./own_message.js";
import { branch, comparing, emit, on, siblings, state, versionsIn } from "./state.js";
import { loadingWords, trouble } from "./trouble.js";

const views = new Map(); // message id -> {root, answer, reasoning, pending, ...}
const scroller = $("scroller");
let columns = null; // js/compare.js, once answers stand side by side
const messagesOf = (item) => (item.columns ? item.columns.filter((m) => !m.slot) : [item]);
let follows = true; // keep the end in sight

function nearEnd() {
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
}

// Of a long conversation only what is near the screen is in the document.
const blocks = new BlockWindow({
  list: $("thread"),
  scroller,
  key: (message) => message.id,
  make: (item) => (item.columns ? columns.drawGroup(item, viewOf) : viewOf(item).root),
  gone: (item) => { for (const m of messagesOf(item)) if (m.status !== "running") views.delete(m.id); },
  holds: (root) => Boolean(root.querySelector(".edit")) || [...root.querySelectorAll(".call-form textarea")].some((box) => box.value),
});

export function scrollToEnd(smooth = false) {
  follows = true;
  if (smooth && nearby()) scroller.scrollTo({ top: scroller.scrollHeight, behavior: "smooth" });
  else blocks.toEnd();
}

/** Is the end so near that the way there can be shown? */
function nearby() {
  return scroller.scrollHeight - scroller.scrollTop < 6 * scroller.clientHeight;
}

/** Brings a message of the branch that is shown to the screen; its element, or null. */
export function showMessage(id) {
  follows = false;
  const group = blocks.items.find((item) => item.columns?.some((m) => m.id === id));
  const node = blocks.show(group?.id ?? id);
  return group && node ? views.get(id)?.root : node;
}

function keepEnd() {
  if (follows) scroller.scrollTop = scroller.scrollHeight;
  $("to-end").hidden = follows || nearEnd();
}

scroller.addEventListener("scroll", () => { follows = nearEnd(); $("to-end").hidden = follows; }, { passive: true });
$("to-end").addEventListener("click", () => scrollToEnd(true));

let versions = null; // while the thread is drawn: of all messages, found in one walk

function drawVersions(root, message) {
  const box = root.querySelector(".versions");
  const all = versions?.(message) ?? siblings(state.current, message);
  box.hidden = all.length < 2;
  if (all.length < 2) return;
  const at = all.indexOf(message);
  box.replaceChildren($("t-versions").content.cloneNode(true));
  box.querySelector(".versions-text").textContent = `${at + 1}/${all.length}`;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", t("thread.versionOf", { at: at + 1, n: all.length }));
  const [older, newer] = [box.querySelector(".older"), box.querySelector(".newer")];
  older.disabled = at === 0;
  newer.disabled = at === all.length - 1;
  older.addEventListener("click", () => chooseVersion(all[at - 1], -1));
  newer.addEventListener("click", () => chooseVersion(all[at + 1], 1));
}

function createAssistant(message) {
  const root = fromTemplate("t-assistant");
  const view = {
    root,
    answer: new MarkdownView(root.querySelector(".answer")),
    reasoning: new MarkdownView(root.querySelector(".reasoning .prose")),
    newAnswer: "", newReasoning: "", frame: 0,
  };
  root.querySelector(".act-copy").addEventListener("click", () => copyText(message.content));
  root.querySelector(".act-again").addEventListener("click", () => emit("regenerate", message));
  root.querySelector(".act-retry").addEventListener("click", () => emit("regenerate", message));
  return view;
}

function drawStats(view, message) {
  const parts = [];
  const timings = message.timings || {};
  const usage = message.usage || {};
  if (message.status === "running") {
    if (message.tokens) parts.push(t("thread.tokens", { n: message.tokens }), rate(message.rate));
    if (message.first_ms) parts.push(t("thread.first", { time: seconds(message.first_ms) }));
  } else {
    if (usage.completion_tokens) parts.push(t("thread.tokens", { n: usage.completion_tokens + (timings.earlier_tokens || 0) }));
    parts.push(rate(timings.decode_tokens_per_s));
    if (timings.ttft_ms > 0) parts.push(t("thread.first", { time: seconds(timings.ttft_ms) }));
    if (usage.cached_tokens > 0) parts.push(t("thread.cached", { cached: usage.cached_tokens, prompt: usage.prompt_tokens }));
    if (message.status === "stopped") parts.unshift(t("thread.stopped"));
    if (message.status === "length") parts.unshift(t("thread.length"));
  }
  // While it runs they stand below the text box, where nothing moves.
  const said = parts.filter(Boolean);
  const figures = said.flatMap((part, n) => [n ? " " : "", el("span", {}, n ? `· ${part}` : part)]); // where there is no room one is left out whole
  const running = message.status === "running";
  $("composer-hint").replaceChildren(...(running && !view.root.closest(".beside") ? figures : []));
  view.root.querySelector(".stats").replaceChildren(...(running ? [] : figures));
}

function drawReasoning(view, message, live) {
  const box = view.root.querySelector(".reasoning");
  const thinking = live && message.reasoning && !message.content;
  box.hidden = !message.reasoning?.trim();
  view.root.toggleAttribute("data-thinking", Boolean(thinking));
  const spent = message.timings?.reasoning_ms ?? message.reasoning_ms; // by the engine's clock, the same after a reload
  box.querySelector(".reasoning-label").textContent = thinking ? t("thread.thinking")
    : spent >= 1 ? t("thread.thoughtFor", { time: seconds(spent) }) : t("thread.reasoning");
}

const SILENT_MS = 2000; // without a sign of the engine, before that is said

function drawWaiting(view, message) {
  const waits = message.status === "running" && !message.content && !message.reasoning;
  view.root.toggleAttribute("data-waiting", waits);
  if (!waits) return;
  const bar = view.root.querySelector(".waiting-bar");
  const text = view.root.querySelector(".waiting-text");
  const p = message.progress;
  if (p?.queue_position > 0) {
    bar.removeAttribute("aria-valuenow");
    text.textContent = t("thread.waiting", { n: p.queue_position });
  } else if (p?.total > 0) {
    bar.setAttribute("aria-valuemax", p.total);
    bar.setAttribute("aria-valuenow", p.done);
    bar.firstElementChild.style.width = `${(100 * p.done) / p.total}%`;
    text.textContent = p.total > 64 ? t("thread.readingTokens", { done: p.done, n: p.total }) : "";
  } else {
    bar.removeAttribute("aria-valuenow");
    view.since ??= performance.now();
    const long = performance.now() - view.since >= SILENT_MS;
    text.textContent = loadingWords() || (long ? trouble()?.long ?? t("thread.noSign") : "");
    if (!long) view.silence ??= setTimeout(() => drawWaiting(view, message), SILENT_MS - (performance.now() - view.since) + 1);
  }
}
on("status", () => { for (const { item } of blocks.drawn.values()) for (const m of messagesOf(item)) if (m.status === "running" && views.has(m.id)) drawWaiting(views.get(m.id), m); });

function drawProblem(view, message) {
  const box = view.root.querySelector(".problem");
  box.hidden = message.status !== "error";
  if (message.status === "error") box.querySelector("p").textContent = failureOf(message);
}

/** All of a message that does not stream. */
function drawWhole(view, message) {
  view.root.dataset.status = message.status || "done";
  view.root.dataset.id = message.id;
  if (message.role === "assistant") {
    view.answer.finish(message.content || "");
    view.reasoning.finish(message.reasoning || "");
    view.newAnswer = view.newReasoning = "";
    drawReasoning(view, message, message.status === "running");
    drawWaiting(view, message);
    drawProblem(view, message);
    drawCalls(view.root.querySelector(".calls"), message);
    drawStats(view, message);
    if (message.sources) import("./sources.js").then((m) => m.drawSources(view.root, message), () => {});
  }
  drawVersions(view.root, message);
  drawActions(view.root, message);
}

function viewOf(message) {
  let view = views.get(message.id);
  if (!view) {
    view = message.role === "tool" ? { root: createResult(message) } : message.role === "user" ? createUser(message) : createAssistant(message);
    if (message.role !== "tool") addActions(view.root, message);
    views.set(message.id, view);
    drawWhole(view, message);
  }
  return view;
}

const SPOKEN = 600; // characters of an answer that are read aloud by themselves

/** An answer as it is read aloud: without the signs of Markdown. */
function spoken(content) {
  const text = plainText(content).trim();
  return text.length > SPOKEN ? `${text.slice(0, SPOKEN)}…` : text;
}

/** With answers side by side where there are such; what puts them there may have to come first. */
function folded(path) {
  if (columns) return columns.fold(path);
  if (comparing(state.current) || state.current?.sideBySide?.size) {
    import("./compare.js").then((module) => { if (!columns) { columns = module; drawThread(); } }, () => {});
  }
  return path;
}

/** Draws the branch that is shown; keeps the elements of messages that stay. Who works in one that goes away goes on at the message box. */
export function drawThread() {
  emit("thread-drawing"); // the layout first: blocks are measured in it
  const path = state.current ? branch(state.current) : [];
  versions = state.current && versionsIn(state.current);
  const held = $("thread").contains(document.activeElement);
  const before = new Set(views.keys());
  blocks.set(folded(path), views.size ? "keep" : "end");
  for (const { item } of blocks.drawn.values()) {
    if (item.columns) columns.drawGroup(item, viewOf);
    for (const message of messagesOf(item)) {
      if (!before.has(message.id)) continue; // it has just been drawn whole
      const { root } = viewOf(message);
      drawVersions(root, message);
      drawActions(root, message);
      if (message.tool_calls) drawCalls(root.querySelector(".calls"), message);
    }
  }
  versions = null;
  $("welcome").hidden = path.length > 0;
  $("thread").dataset.chat = state.current?.id ?? ""; // whose messages these are, for who waits for them
  keepEnd();
  if (held && !$("thread").contains(document.activeElement)) focusComposer();
  emit("thread-drawn");
}

// Texts that came after their messages had been drawn without them.
on("texts", (ids) => {
  const drawn = ids.filter((id) => views.has(id));
  for (const id of drawn) views.delete(id);
  blocks.renew(drawn);
  drawThread();
});

export function forgetViews() {
  $("composer-hint").textContent = "";
  blocks.clear();
  views.clear();
  columns?.clear();
}

/** Renders once a frame, however many pieces came. */
function schedule(view, message) {
  if (view.frame) return;
  view.frame = requestAnimationFrame(() => {
    view.frame = 0;
    if (view.newReasoning) view.reasoning.append(view.newReasoning);
    if (view.newAnswer) view.answer.append(view.newAnswer);
    view.newReasoning = view.newAnswer = "";
    drawReasoning(view, message, true);
    drawWaiting(view, message);
    drawStats(view, message);
    keepEnd();
  });
}

on("answer-start", ({ message, fresh }) => {
  const view = views.get(message.id);
  if (view) drawWhole(view, message);
  if (!state.current || state.current.id !== message.conversation_id) return;
  drawThread();
  if (!fresh) return;
  scrollToEnd();
  announce(t("thread.begun"));
});
on("answer-progress", (message) => { const view = views.get(message.id); if (view) drawWaiting(view, message); });
on("answer-delta", ({ message, data }) => {
  const view = views.get(message.id);
  if (!view) return;
  view.newReasoning += data.reasoning || "";
  view.newAnswer += data.content || "";
  schedule(view, message);
});
on("answer-end", (message) => {
  const view = views.get(message.id);
  if (!view) return;
  cancelAnimationFrame(view.frame);
  view.frame = 0;
  drawWhole(view, message);
  keepEnd();
  if (!view.root.closest(".beside")) announce(message.status === "error" ? t("thread.failed") : t("thread.ended", { text: spoken(message.content) }));
});

followFootnotes($("thread"));
$("thread").addEventListener("grown", keepEnd);
$("thread").addEventListener("click", (event) => handleCodeClick(event, (text) => copyText(text, t("code.copied"))));

export { confirmDialog, toast };
