// The list of conversations at the side: groups, search, selection, and what the menu of a row does.

import { call } from "./api.js";
import { announce, confirmDialog, $, openMenu, toast, withdrawActions } from "./dom.js";
import { dayGroup } from "./format.js";
import { t } from "./i18n.js";
import { filtersMenu } from "./list_filters.js";
import { parseQuery } from "./list_query.js";
import { ListPages, PAGE } from "./list_pages.js";
import { drawRow, heightOf, HEIGHT, titleField, titleOf } from "./list_row.js";
import { selection } from "./list_selection.js";
import { askedHere, drawPlace, placeName, placeOf } from "./list_places.js";
import { move, renameInFolder } from "./project_doors.js";
import { stopWaiting, whileLoading } from "./skeleton.js";
import { emit, on, state } from "./state.js";
import { tagsDialog } from "./tags.js";
import { VirtualRows } from "./virtual_rows.js";

const NEAR = 1200; // pixels before an end of what is held, when the next page is asked for
const pages = new ListPages();
const search = $("search");
const list = $("conversations");
const rows = new VirtualRows(list, draw);
let shown = null; // what the rows answer
let renaming = null; // id of the row whose title is being typed

// --- drawing --------------------------------------------------------------------------------------------------------

const itemRow = (c) => ({ key: c.id, height: heightOf(c, pages.text), c });

/** Groups and conversations, one under the other. */
function flatten() {
  const out = [];
  const label = (text) => out.push({ key: `group ${text}`, height: HEIGHT.group, text, loose: true });
  if (pages.plain && pages.pinned.length && !pages.cut) {
    label(t("list.pinned"));
    for (const c of pages.pinned) out.push(itemRow(c));
  }
  let group = "";
  for (const c of pages.items) {
    const day = dayGroup(c.updated_at);
    if (!pages.text && day !== group) label((group = day));
    out.push(itemRow(c));
  }
  const none = !out.length && !(pages.plain && !$("projects").hidden); // those in projects are chats, too
  const place = none && !pages.text && !pages.failed && Object.keys(pages.params).length === 1 && placeOf(pages.params); // by tags or days: something else may be there
  if (place) return [{ key: `place ${place}`, height: HEIGHT.place, place, loose: true }];
  for (const note of pages.notes(none)) out.push({ key: `note ${note}`, height: HEIGHT.note, note, loose: true });
  return out;
}

function draw(row, old) {
  if (old && renaming === row.key) return old; // it is being typed in
  return drawRow(row, old, { words: pages.text, plain: pages.plain, chosen: selection.has(row.key), current: state.current?.id === row.key });
}

export function drawList({ top = false } = {}) {
  drawPlace(pages.params, pages.items.length > 0);
  document.documentElement.toggleAttribute("data-selecting", selection.size > 0);
  rows.set(flatten(), { top, above: pages.cut ? null : 0 });
}

// --- pages ----------------------------------------------------------------------------------------------------------

rows.moved = () => {
  const view = rows.scroller;
  if (pages.loading || view.clientHeight === 0) return;
  if (rows.above + rows.height - view.scrollTop - view.clientHeight < NEAR) pages.below().then((more) => more && drawList(), failed);
  else if (view.scrollTop - rows.above < NEAR) pages.above().then((more) => more && drawList(), failed);
};

const failed = (error) => toast(error.message);

/** The list from its top, as the search box says. */
export async function loadConversations() {
  const typed = search.value;
  const asked = askedHere(typed);
  const { text, params } = parseQuery(asked);
  pages.reset(params, text);
  state.query = text;
  drawPlace(pages.params, false);
  stopWaiting(list);
  const read = pages.first();
  if (!await (shown === asked ? read : whileLoading(list, "rows", read))) return;
  shown = asked;
  drawList({ top: true });
  if (pages.plain && !pages.failed) emit("list-read", !pages.items.length && !pages.pinned.length);
  list.dataset.query = typed; // what the rows answer, for who waits for them
  if (!pages.plain || pages.failed) announce(pages.failed || [placeName(pages.params), t("list.found", { n: pages.items.length, more: pages.items.length >= PAGE ? "+" : "" })].filter(Boolean).join(": "));
}
on("reach", (reach) => { if (!reach && pages.failed) loadConversations(); });

/** Something happened elsewhere: the rows change, the place stays. */
export function refreshList() {
  pages.refresh().then((more) => more && drawList(), () => { /* the next time */ });
}

/** Puts a conversation at the top, or updates its row. */
export function touchConversation(conversation, running) {
  const { id, title, project_id } = conversation;
  pages.touch({ id, title, project_id, updated_at: Date.now(), running });
  drawList();
}

let typing = 0;
search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(loadConversations, 120); });
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && search.value) setQuery("");
  else if (event.key === "ArrowDown") focusRow(0, 1);
  else if (event.key === "Enter" && !event.isComposing) { clearTimeout(typing); loadConversations().then(() => focusRow(0, 1)); }
  else return;
  event.preventDefault();
  event.stopPropagation();
});

export function setQuery(text = search.value) {
  search.value = text;
  loadConversations();
}

$("filters").addEventListener("click", () => filtersMenu($("filters"), search.value, setQuery));
on("list-query", setQuery);

// --- one row ----------------------------------------------------------------------------------------------------------
const rowOf = (target) => target.closest?.(".conversation");
const conversationOf = (target) => pages.find(rowOf(target)?.dataset.id);

on("moved", (ids) => { selection.clear(); if (pages.plain) pages.remove(new Set(ids)); drawList(); refreshList(); });
export function rowMenu(c, button) {
  openMenu(button, c.trashed_at ? [
    { label: t("list.restore"), icon: "restore", run: () => change([c], { trashed: false }) },
    { label: t("list.deleteNow"), icon: "trash", bad: true, run: () => removeForGood([c]) },
  ] : [
    { label: t("list.rename"), icon: "edit", run: () => rename(c) },
    { label: t(c.pinned ? "list.unpin" : "list.pin"), icon: "pin", run: () => change([c], { pinned: !c.pinned }) },
    { label: t("list.tags"), icon: "tag", run: () => editTags([c]) }, { label: t("projects.move"), icon: "folder", run: () => move([c], button) },
    { label: t("list.share"), icon: "share", run: () => emit("share", c) }, { label: t("list.kept"), icon: "file", run: async () => (await import("./kept.js")).keptDialog(c) },
    { label: t("list.choose"), icon: "select", run: () => { selection.toggle(c.id); drawList(); } },
    { label: t(c.archived ? "list.unarchive" : "list.archive"), icon: "archive", run: () => change([c], { archived: !c.archived }) },
    { label: t("list.delete"), icon: "trash", bad: true, run: () => change([c], { trashed: true }) },
  ]);
}

const DONE = [["trashed", true, "list.trashed"], ["trashed", false, "list.restored"], ["archived", true, "list.archived"], ["archived", false, "list.unarchived"]];

/** Pins, archives, trashes or brings back; what can be taken back says so. */
export async function change(conversations, marks) {
  const ids = conversations.map((c) => c.id);
  withdrawActions(); // while this is under way, "Undo" would speak of what came before
  try {
    await call("POST", "/api/conversations/bulk", { ids, ...marks });
  } catch (error) { toast(error.message, 5000); return; }
  for (const c of conversations) {
    if ("trashed" in marks) c.trashed_at = marks.trashed ? Date.now() : null;
    if ("pinned" in marks) c.pinned = marks.pinned;
    if ("archived" in marks) c.archived = marks.archived;
  }
  selection.clear();
  const leaving = conversations.filter((c) => !pages.fits(c) || (pages.plain && "pinned" in marks));
  const held = rowOf(document.activeElement)?.dataset.id, at = rows.rows.findIndex((row) => row.key === held);
  pages.remove(new Set(leaving.map((c) => c.id)));
  if (pages.plain && "pinned" in marks) await loadConversations(); // it changes its group
  drawList();
  if (held && !list.contains(document.activeElement)) refocus(held, at);
  emit("list-touched");
  const [name, value, key] = DONE.find(([mark, wanted]) => marks[mark] === wanted) || [];
  if (key) toast(t(key, { n: ids.length }), 10000, { label: t("list.undo"), run: () => change(conversations, { [name]: !value }).then(loadConversations) });
  if (marks.trashed && ids.includes(state.current?.id)) location.hash = "#/";
}

export async function removeForGood(conversations) {
  const n = conversations.length;
  if (!await confirmDialog(t("list.deleteTitle", { n }), n === 1 ? t("list.deleteText", { title: titleOf(conversations[0]) }) : t("list.deleteMany", { n }))) return;
  const ids = conversations.map((c) => c.id);
  try { await call("POST", "/api/conversations/bulk", { ids, deleted: true }); } catch (error) { toast(error.message, 5000); return; }
  selection.clear();
  pages.remove(new Set(ids));
  drawList();
  emit("list-touched");
  if (ids.includes(state.current?.id)) location.hash = "#/";
}

export async function editTags(conversations) {
  if (!await tagsDialog(conversations)) return;
  selection.clear();
  drawList();
}

export function rename(c) {
  const i = rows.rows.findIndex((row) => row.key === c.id);
  const root = i < 0 ? null : rows.show(i);
  if (!root) { renameInFolder(c); return; }
  renaming = c.id;
  const end = async (save, byKey) => {
    if (renaming !== c.id) return;
    renaming = null;
    const title = input.value.trim();
    if (save && title && title !== c.title) {
      try {
        await call("PATCH", `/api/conversations/${c.id}`, { title });
        c.title = title;
        if (state.current?.id === c.id) { state.current.title = title; emit("title"); }
      } catch (error) { toast(error.message); }
    }
    drawList();
    if (byKey) rows.nodes.get(c.id)?.querySelector(".conversation-link")?.focus(); // else one has gone elsewhere
  };
  const input = titleField(c, end);
  root.replaceChildren(input);
  input.focus();
  input.select();
}

// --- clicks and keys ------------------------------------------------------------------------------------------------------

list.addEventListener("click", (event) => {
  const c = conversationOf(event.target);
  if (!c) return;
  const more = event.target.closest(".conversation-more");
  if (more) rowMenu(c, more);
  else if (event.target.closest(".conversation-check")) choose(c, event.shiftKey);
  else if (event.target.closest(".conversation-link") && (selection.size || event.ctrlKey || event.metaKey || event.shiftKey)) {
    event.preventDefault();
    choose(c, event.shiftKey);
  } else if (c.match) state.found = { id: c.match.message_id, text: c.match.text };
});
list.addEventListener("contextmenu", (event) => {
  const c = conversationOf(event.target);
  if (!c || event.shiftKey) return; // with Shift the browser's own
  event.preventDefault();
  rowMenu(c, rowOf(event.target).querySelector(".conversation-more"));
});

function choose(c, range) {
  const all = rows.rows.filter((row) => row.c).map((row) => row.key);
  if (range && all.includes(selection.last)) selection.range(all, c.id);
  else selection.toggle(c.id);
  drawList();
}

/** The row that had the focus is gone or drawn anew: the keyboard goes on at it, else at the row that took its place. */
function refocus(id, at) {
  const now = rows.rows.findIndex((row) => row.key === id);
  if (!focusRow(now < 0 ? at : now, 1) && !focusRow(rows.rows.length - 1, -1)) search.focus();
}

/** The row at index `from`, or the next one in that direction that is a conversation. */
function focusRow(from, step) {
  for (let i = from; i >= 0 && i < rows.rows.length; i += step) {
    if (!rows.rows[i].c) continue;
    rows.show(i)?.querySelector(".conversation-link")?.focus();
    return true;
  }
  return false;
}

list.addEventListener("keydown", (event) => {
  const c = conversationOf(event.target);
  const at = c ? rows.rows.findIndex((row) => row.key === c.id) : -1;
  if (at < 0) return;
  if (event.key === "ArrowDown") focusRow(at + 1, 1);
  else if (event.key === "ArrowUp") { if (!focusRow(at - 1, -1)) search.focus(); }
  else if (event.key === "Home") focusRow(0, 1);
  else if (event.key === "End") focusRow(rows.rows.length - 1, -1);
  else if (event.key === " " && !event.target.closest("button")) choose(c, event.shiftKey);
  else if (event.key === "Delete") { if (c.trashed_at) removeForGood([c]); else change([c], { trashed: true }); }
  else if (event.key === "F2") rename(c);
  else if (event.key === "Escape" && selection.size) { selection.clear(); drawList(); }
  else return;
  event.preventDefault();
  event.stopPropagation();
});

/** The conversation beside the open one: its id, or null. */
export function neighbour(step) {
  const all = rows.rows.filter((row) => row.c);
  const here = /^#\/c\/(\w+)/.exec(location.hash)?.[1]; // it may still be on its way
  const at = all.findIndex((row) => row.key === here);
  return all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step]?.key ?? null;
}

/** What a chat is called, as far as the list knows. */
export const titleInList = (id) => pages.find(id)?.title || "";

/** The open conversation as the list knows it, for the shortcuts. */
export function currentRow() {
  return state.current && (pages.find(state.current.id) || state.current);
}

selection.bar($("selection"), {
  chosen: () => selection.ids().map((id) => pages.find(id)).filter(Boolean),
  change, editTags, move, removeForGood, drawList, inTrash: () => pages.params.trash === "1",
});

on("answer-end", (message) => {
  const item = pages.find(message.conversation_id);
  if (item) { item.running = false; drawList(); }
});
