// How full the model's context is: by the engine's own figures of the last answer, and by the server's count of what stands
// in the message box, rendered as it would be sent.

import { readyIds } from "./attach.js";
import { call } from "./api.js";
import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { branch, isRunning, on, state } from "./state.js";

const PAUSE_MS = 500; // after the last key
const text = $("composer-text");
const SVG = "http://www.w3.org/2000/svg";
const ROUND = 2 * Math.PI * 8; // of the ring
const circle = (name) => {
  const node = document.createElementNS(SVG, "circle");
  for (const [key, value] of Object.entries({ class: name, cx: 12, cy: 12, r: 8 })) node.setAttribute(key, value);
  return node;
};
const used = circle("ring-used");
const ring = document.createElementNS(SVG, "svg");
ring.setAttribute("class", "ring");
ring.setAttribute("viewBox", "0 0 24 24");
ring.setAttribute("aria-hidden", "true");
ring.append(circle("ring-all"), used);
const words = el("span", { class: "meter-tip", role: "tooltip" });
const meter = el("button", { id: "meter", class: "meter", type: "button", hidden: true }, ring);
$("model").before(meter, words);
let timer = 0;
let asked = 0;
let counted; // the chat whose figure stands there
let draft = null; // what was counted, where the figure is a draft's

function draw(n, limit, cached) {
  meter.hidden = words.hidden = !(limit > 0) || !n;
  if (meter.hidden) return;
  const share = Math.min(1, n / limit);
  used.setAttribute("stroke-dasharray", `${share * ROUND} ${ROUND}`);
  meter.toggleAttribute("data-high", share >= 0.8);
  meter.toggleAttribute("data-full", n >= limit);
  meter.dataset.used = n;
  const text = [t(n >= limit ? "meter.full" : "meter.used", { used: n, n: limit }), draft ? t("meter.draft") : "", cached > 0 ? t("meter.cached", { n: cached }) : ""].filter(Boolean).join(" · ");
  words.textContent = text;
  meter.setAttribute("aria-label", text);
}

function limit() {
  if ((state.current?.settings || state.draftSettings).model) return 0; // another server's context
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
  const body = conversation && !conversation.temporary ? { conversation_id: conversation.id, parent_id: conversation.leaf_id || null, content } : { content, settings: state.draftSettings, project_id: state.temporary ? undefined : state.project };
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
