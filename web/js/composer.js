// The message box: grows with its text, sends, stops, remembers an unsent draft per chat.

import { attached, forgetFiles, moveFiles, showFilesOf } from "./attach.js";
import { $ } from "./dom.js";
import { emit, isRunning, on, state } from "./state.js";

const text = $("composer-text");
let draftOf = null; // whose text is in the box
const narrow = matchMedia("(pointer: coarse)");

function grow() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}

export function drawComposer() {
  const running = isRunning(state.current);
  $("stop").hidden = !running;
  const files = attached();
  const something = Boolean(text.value.trim() || files.n);
  $("send").hidden = running && !something;
  $("send").disabled = !files.ready || !something;
}

export function setText(value) {
  text.value = value;
  grow();
  drawComposer();
}

export function focusComposer() {
  if (!narrow.matches) text.focus();
}

/** To go on with what was begun. */
export function focusAtEnd() {
  text.focus();
  text.setSelectionRange(text.value.length, text.value.length);
  text.scrollTop = text.scrollHeight;
}

/** Puts away what is typed, under the chat it belongs to. It outlives a reload and goes with its tab. */
export function keepDraft() {
  if (draftOf === null) return;
  if (draftOf === "temporary") { draftOf = null; return; } // of such a chat nothing is kept
  try {
    if (text.value) sessionStorage.setItem(`draft:${draftOf}`, text.value);
    else sessionStorage.removeItem(`draft:${draftOf}`);
  } catch { /* private mode, or more than fits */ }
  draftOf = null;
}

/** The box's text becomes the draft of this chat: the new one has a row now. */
export function moveDraft(key) {
  try { sessionStorage.removeItem(`draft:${draftOf}`); } catch { /* private mode */ }
  draftOf = key;
  moveFiles(key);
}

/** A text that was not sent goes back to its chat, before what has been typed there since. */
export function giveBackText(key, typed) {
  if (!typed) return;
  const whole = (since) => [typed, since].filter(Boolean).join("\n");
  if (draftOf === key) { setText(whole(text.value)); return; }
  if (key === "temporary") return; // of such a chat nothing is kept
  try { sessionStorage.setItem(`draft:${key}`, whole(sessionStorage.getItem(`draft:${key}`))); } catch { /* private mode */ }
}

/** Forgets every draft of this tab: somebody else comes. */
export function forgetDrafts() {
  draftOf = null;
  setText("");
  forgetFiles();
  try { for (const key of Object.keys(sessionStorage)) if (/^(draft|files):/.test(key)) sessionStorage.removeItem(key); } catch { /* private mode */ }
}

/** Shows the unsent draft of a chat ("" for a new one). */
export function takeDraft(key) {
  draftOf = key;
  showFilesOf(key);
  let draft = "";
  try { draft = sessionStorage.getItem(`draft:${key}`) || ""; } catch { /* private mode */ }
  setText(draft);
}

function send() {
  const content = text.value.trim();
  const files = attached();
  if (!files.ready || !(content || files.n)) return;
  setText("");
  emit(isRunning(state.current) ? "queue" : "send", content);
}

text.addEventListener("input", () => { grow(); drawComposer(); });
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || narrow.matches) return;
  event.preventDefault();
  send();
});
$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("stop").addEventListener("click", () => emit("stop"));
addEventListener("pagehide", () => { const key = draftOf; keepDraft(); draftOf = key; }); // the page may come back
for (const name of ["answer-start", "answer-end", "files-changed"]) on(name, drawComposer);
