// How full the model's context is: by the engine's own figures of the last answer, and by the server's count of what stands
// in the message box, rendered as it would be sent.

import { readyIds } from "./attach.js";
import { call } from "./api.js";
import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { branch, isRunning, on, state } from "./state.js";

const PAUSE_MS = 500; // after the last key
const text = $("composer-text");
const bar = el("span", {});
const words = el("span");
const meter = el("span", { id: "meter", class: "meter", hidden: true }, el("span", { class: "meter-bar", ariaHidden: "true" }, bar), words);
$("stop").before(meter);
let timer = 0;
let asked = 0;
let counted; // the chat whose figure stands there
let draft = null; // what was counted, where the figure is a draft's

function draw(used, limit, cached) {
  meter.hidden = !(limit > 0) || !used;
  if (meter.hidden) return;
  bar.style.width = `${Math.min(100, (100 * used) / limit)}%`;
  meter.toggleAttribute("data-full", used >= limit);
  meter.dataset.used = used;
  const say = (n) => t(n >= limit ? "meter.full" : "meter.used", { used: n, n: limit });
  words.textContent = say(used);
  const widest = [say(limit - 1), say(10 * limit - 1)].sort((a, b) => a.length - b.length).pop();
  words.dataset.widest = widest; // its place is kept: a longer number moves nothing
  meter.title = [draft ? t("meter.draft") : "", cached > 0 ? t("meter.cached", { n: cached }) : ""].filter(Boolean).join(" · ");
}

function limit() {
  return state.status?.model?.n_ctx || 0;
}

/** The last answer's figures: what the next message is put behind. */
function drawUsed() {
  draft = null;
  const last = state.current && branch(state.current).findLast((m) => m.role === "assistant");
  const u = last?.usage;
  if (last?.status === "running") draw((last.prompt_tokens || 0) + (last.tokens || 0), limit(), last.progress?.cached);
  else draw(u ? u.prompt_tokens + u.completion_tokens : 0, limit(), u?.cached_tokens);
}

async function countDraft() {
  const content = text.value.trim();
  const conversation = state.current;
  const mine = ++asked;
  const files = readyIds();
  if (!(content || files.length) || isRunning(conversation) || /^\/\S*$/.test(content)) { drawUsed(); return; }
  const before = conversation && branch(conversation).findLast((m) => m.role === "assistant");
  const body = conversation ? { conversation_id: conversation.id, parent_id: conversation.leaf_id || null, content } : { content, settings: state.draftSettings };
  if (files.length) body.attachments = files;
  try {
    const { prompt_tokens, n_ctx } = await call("POST", "/api/count", body);
    if (mine !== asked || text.value.trim() !== content || state.current !== conversation) return;
    draft = { content, conversation };
    draw(prompt_tokens, n_ctx, before?.usage?.cached_tokens);
  } catch { /* the last figures stay, until the engine's next sign of life */ }
}

function later() {
  if (counted !== state.current?.id) { // another chat's figure does not stay while this one is counted
    counted = state.current?.id;
    drawUsed();
  }
  clearTimeout(timer);
  timer = setTimeout(countDraft, PAUSE_MS);
}

text.addEventListener("input", later);
for (const name of ["answer-end", "thread-changed", "settings-changed", "thread-drawn", "files-changed"]) on(name, later);
for (const name of ["answer-start", "answer-progress"]) on(name, drawUsed);
on("status", () => { // of the engine: says nothing about a draft that was counted
  const typed = text.value.trim();
  if (draft && draft.content === typed && draft.conversation === state.current) return;
  drawUsed();
  if (typed && state.status?.engine?.state === "ready") later();
});
