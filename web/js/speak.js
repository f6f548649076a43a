// Reading an answer aloud by the browser's own voices. One at a time; a second choice ends it.

import { toast } from "./dom.js";
import { language, t } from "./i18n.js";

const PIECE = 200; // characters; some voices fall silent in the middle of longer texts
let speaking = null; // id of the message

export const canSpeak = () => "speechSynthesis" in globalThis;
export const isSpeaking = (id) => speaking === id;

/** What is said of Markdown: no code, no marks. */
function spoken(text) {
  return text.replace(/```[^]*?(```|$)/g, " ").replace(/\$\$[^]*?\$\$/g, " ").replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/^\s*(#{1,6}|>|[-*+]|\d+\.)\s+/gm, "")
    .replace(/[*_`~|]+/g, "").replace(/\s+/g, " ").trim();
}

/** In pieces that end with a sentence where one ends in time. */
function pieces(text) {
  return text.match(new RegExp(`[^]{1,${PIECE}}(?:[.!?:;](?=\\s)|$)|[^]{1,${PIECE}}(?:\\s|$)|[^]{1,${PIECE}}`, "g")) || [];
}

export function hush() {
  speaking = null;
  globalThis.speechSynthesis?.cancel();
}

export function speak(message) {
  const again = speaking === message.id;
  hush();
  if (again) return;
  const all = pieces(spoken(message.content || ""));
  if (!all.length) return;
  speaking = message.id;
  all.forEach((text, i) => {
    const piece = new SpeechSynthesisUtterance(text);
    piece.lang = language;
    piece.onerror = ({ error }) => { if (error !== "interrupted" && error !== "canceled") { hush(); toast(t("answer.noVoice"), 5000); } };
    if (i === all.length - 1) piece.onend = () => { if (speaking === message.id) speaking = null; };
    speechSynthesis.speak(piece);
  });
}

addEventListener("hashchange", hush);
addEventListener("pagehide", hush);
