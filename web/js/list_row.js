// One row of the list: a group's name, a note, or a conversation.

import { el, fromTemplate, icon } from "./dom.js";
import { date, t } from "./i18n.js";
import { emptyPlace } from "./list_places.js";
import { tagChip } from "./tags.js";

// css/sidebar.css draws them so; higher where fingers press.
const fingers = matchMedia("(pointer: coarse)").matches ? 8 : 0;
export const HEIGHT = { group: 34, item: 36 + fingers, tagged: 56 + fingers, match: 74 + fingers, note: 56, place: 216 };
const SHOWN_TAGS = 4;

export const titleOf = (c) => c.title || t("common.newChat");

export function heightOf(c, words) {
  return words && c.match ? HEIGHT.match : c.tags?.length ? HEIGHT.tagged : HEIGHT.item;
}

function dayOf(ms) {
  const year = new Date(ms).getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return date(ms, { day: "numeric", month: "short", ...year });
}

/** What was searched, marked where it stands. */
function marked(text, words) {
  const at = words ? text.toLowerCase().indexOf(words.toLowerCase()) : -1;
  return at < 0 ? [text] : [text.slice(0, at), el("mark", {}, text.slice(at, at + words.length)), text.slice(at + words.length)];
}

/** Text as people read it: without the marks of Markdown, on one line. */
export function plainText(s) {
  return s.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/^[ \t]*(#{1,6}|[-*+>]|\|[-: |]*\|$)[ \t]+/gm, "").replace(/\*\*|__(?=\S)|(?<=\S)__|~~|`+|\|/g, " ")
    .replace(/\s+/g, " ");
}

/** attachment: where it stands in a file, its name or its text. */
function snippet({ before, text, after, attachment, cut_before, cut_after }, when) {
  const line = attachment ? (s) => s.replace(/\s+/g, " ") : plainText;
  const day = el("span", { class: "conversation-when" }, `${when} · `);
  const found = [cut_before ? "… " : "", line(before).trimStart(), el("mark", {}, line(text)), line(after), cut_after ? " …" : ""];
  if (!attachment) return [day, ...found];
  const named = attachment.name.includes(before + text + after);
  return [day, el("span", { class: "conversation-file" }, icon("clip"), named ? t("list.file") : t("list.inFile", { name: attachment.name })), " ", ...found];
}

/** old: the element that showed the row before, used again where that is possible. list: {words, plain, chosen, current}. */
export function drawRow(row, old, { words, plain, chosen, current }) {
  if (row.text) return el("h2", { class: "row group" }, row.text);
  if (row.place) return emptyPlace(row.place);
  if (row.note) return el("p", { class: "row empty" }, row.note);
  const { c } = row;
  const match = words ? c.match : null;
  const root = old?.querySelector(".conversation-link") ? old : fromTemplate("t-conversation");
  root.dataset.id = c.id;
  root.toggleAttribute("data-running", Boolean(c.running));
  root.toggleAttribute("data-pinned", Boolean(c.pinned) && !plain);
  root.toggleAttribute("data-current", current);
  root.toggleAttribute("data-chosen", chosen);
  const link = root.querySelector(".conversation-link");
  link.href = match ? `#/c/${c.id}/${match.message_id}` : `#/c/${c.id}`;
  if (current) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
  root.querySelector(".conversation-title").replaceChildren(...marked(titleOf(c), words));
  root.querySelector(".conversation-match").replaceChildren(...(match ? snippet(match, dayOf(c.updated_at)) : []));
  root.querySelector(".conversation-tags").replaceChildren(...(c.tags || []).slice(0, SHOWN_TAGS).map((tag) => tagChip(tag)));
  const box = root.querySelector(".conversation-check");
  box.checked = chosen;
  box.setAttribute("aria-label", t("list.select", { title: titleOf(c) }));
  root.querySelector(".conversation-more").setAttribute("aria-label", t("list.actions", { title: titleOf(c) }));
  return root;
}

/** Where a chat's title is typed. end(save, byKey): what is to be done with it, and whether a key said so. */
export function titleField(c, end) {
  const input = el("input", { type: "text", value: c.title || "", maxLength: 200, ariaLabel: t("list.newTitle"), dir: "auto" });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Escape" && (event.key !== "Enter" || event.isComposing)) return;
    event.preventDefault();
    end(event.key === "Enter", true);
  });
  input.addEventListener("blur", () => end(true, false));
  return input;
}
