// Finding in the open chat: the browser's own search sees only what is drawn, and of a long chat that is little. So its key
// opens this bar while some of the chat is not drawn; pressed again in the bar it is the browser's once more.

import { $ } from "./dom.js";
import { clearMarks, goToMessage } from "./found.js";
import { readTexts } from "./history.js";
import { t } from "./i18n.js";
import { branch, state } from "./state.js";

const bar = $("find");
const field = $("find-text");
let hits = [];
let at = -1;

/** Is there more than the browser's own search would see? */
export function findNeeded() {
  return Boolean(state.current) && document.querySelectorAll("#thread .message").length < branch(state.current).length;
}

export function openFind() {
  bar.hidden = false;
  field.focus();
  field.select();
  if (field.value) look();
}

function close() {
  bar.hidden = true;
  hits = [];
  clearMarks();
  $("scroller").focus();
}

async function look() {
  const conversation = state.current;
  const wanted = field.value.toLowerCase();
  hits = [];
  at = -1;
  if (conversation && wanted) {
    await readTexts(conversation);
    if (wanted !== field.value.toLowerCase() || state.current !== conversation) return;
    hits = branch(conversation).filter((m) => (m.content || "").toLowerCase().includes(wanted)).map((m) => m.id);
    at = hits.length - 1; // the newest first: that is where the reader stands
  }
  show();
}

function show() {
  $("find-count").textContent = !field.value ? "" : hits.length ? t("search.place", { at: at + 1, n: hits.length }) : t("list.nothing");
  if (hits.length) goToMessage(hits[at], field.value);
  else clearMarks();
}

function step(by) {
  if (!hits.length) return;
  at = (at + by + hits.length) % hits.length;
  show();
}

let typing = 0;
field.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(look, 150); });
bar.addEventListener("submit", (event) => { event.preventDefault(); step(-1); });
$("find-next").addEventListener("click", () => step(1));
$("find-close").addEventListener("click", close);
bar.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  else if (event.key === "Enter") step(event.shiftKey ? 1 : -1);
  else if (event.key === "ArrowDown") step(1);
  else if (event.key === "ArrowUp") step(-1);
  else return;
  event.preventDefault();
  event.stopPropagation();
});
addEventListener("hashchange", () => { if (!bar.hidden) close(); });
