// Projects in the list: folders above the chats, what their menus do, and moving chats into them, by menu or by dragging. Loaded where
// somebody has a project or wants one.

import { call } from "./api.js";
import { announce, confirmDialog, el, $, icon, openMenu, rounds, toast } from "./dom.js";
import { t } from "./i18n.js";
import { titleOf } from "./list_row.js";
import { selection } from "./list_selection.js";
import "./project_style.js";
import { endProject } from "./project_end.js";
import { rowMenu } from "./sidebar.js";
import { whileLoading } from "./skeleton.js";
import { emit, on, state } from "./state.js";

const FIRST = 20; // chats of a folder, until more are asked for
const MORE = 199;
const root = $("projects");
let projects = [];
const chats = new Map(); // project's id -> {items, next}; only of open ones
const open = new Set(remembered());
const begin = rounds();

function remembered() {
  try { return JSON.parse(localStorage.getItem("projects-open")) || []; } catch { return []; }
}
function remember() {
  try { localStorage.setItem("projects-open", JSON.stringify([...open])); } catch { /* private mode */ }
}

export const projectOf = (id) => projects.find((p) => p.id === id);
export const folder = (p) => el("span", { class: "i i-folder folder", data: { colour: String(p.colour) } });

// --- drawing --------------------------------------------------------------------------------------------------------

function chatRow(c) {
  const more = el("button", { class: "icon-button", type: "button", ariaLabel: t("list.actions", { title: titleOf(c) }), ariaHasPopup: "menu", ariaExpanded: "false", on: { click: () => rowMenu(c, more) } }, icon("more"));
  const link = el("a", { href: `#/c/${c.id}`, dir: "auto" }, titleOf(c));
  const row = el("li", { class: "project-chat", on: { contextmenu: (event) => { if (event.shiftKey) return; event.preventDefault(); rowMenu(c, more); } } }, link, more);
  if (state.current?.id === c.id) { row.dataset.current = ""; link.setAttribute("aria-current", "page"); }
  return row;
}

function chatRows(p) {
  const held = chats.get(p.id);
  if (!held) return Array.from({ length: Math.max(1, Math.min(p.chats, FIRST)) }, () => el("li", { class: "project-chat is-coming" })); // nothing moves when they come
  const more = held.next && el("li", { class: "project-chat" }, el("button", { type: "button", on: { click: () => moreChats(p.id) } }, t("project.showAll", { n: p.chats })));
  return held.items.length ? [...held.items.map(chatRow), more] : [el("li", { class: "project-chat" }, el("span", { class: "muted" }, t("project.noChats")))];
}

function projectRow(p) {
  const shown = open.has(p.id);
  const more = el("button", { class: "icon-button", type: "button", ariaLabel: t("project.actions", { name: p.name }), ariaHasPopup: "menu", ariaExpanded: "false", on: { click: () => projectMenu(p, more) } }, icon("more"));
  const button = el("button", { class: "project-open", type: "button", ariaExpanded: String(shown), data: { id: p.id }, on: { click: () => toggle(p) } },
    icon("chevron"), folder(p), el("span", { class: "project-name", dir: "auto" }, p.name),
    p.owner || p.shares ? el("span", { class: "project-shared", title: p.owner ? t("projectSharing.of", { name: p.owner }) : t("projectSharing.withN", { n: p.shares }) }, icon("share"), el("span", { class: "sr" }, p.owner ? t("projectSharing.of", { name: p.owner }) : t("projectSharing.withN", { n: p.shares }))) : null,
    el("span", { class: "project-count", ariaLabel: t("project.chats", { n: p.chats }) }, String(p.chats)));
  const row = el("div", { class: "project-row", data: { id: p.id } }, button, more);
  row.toggleAttribute("data-current", state.project === p.id && !state.current);
  row.addEventListener("contextmenu", (event) => { if (event.shiftKey) return; event.preventDefault(); projectMenu(p, more); });
  droppable(row, (ids) => moveByIds(ids, p));
  return el("li", {}, row, shown ? el("ul", { class: "project-chats", ariaLabel: t("project.chatsOf", { name: p.name }) }, ...chatRows(p).filter(Boolean)) : null);
}

function draw() {
  const keyOf = (node) => node.closest(".project-row")?.dataset.id ?? node.closest(".project-chat")?.querySelector("a")?.hash;
  const at = document.activeElement;
  const held = root.contains(at) && keyOf(at);
  const menu = at?.matches?.(".icon-button");
  root.setAttribute("aria-label", t("project.title"));
  root.hidden = !projects.length;
  root.replaceChildren(el("ul", {}, ...projects.map(projectRow)));
  if (held) { // the focus stays where it was
    const same = [...root.querySelectorAll(".project-row, .project-chat")].find((row) => keyOf(row) === held);
    same?.querySelector(menu ? ".icon-button" : "a, .project-open")?.focus();
  }
  drawHere();
}

/** Where one is: in the bar above a chat, and in the welcome of a new one. */
function drawHere() {
  const p = projectOf(state.current ? state.current.project_id : state.project);
  document.querySelector(".project-here")?.remove();
  document.querySelector(".project-welcome")?.remove();
  if (!p || state.temporary) return;
  const button = () => el("button", { class: "project-here", type: "button", title: t("project.edit"), ariaLabel: t("project.editOf", { name: p.name }), on: { click: () => edit(p.id) } }, folder(p), el("span", { dir: "auto" }, p.name));
  if (state.current) document.querySelector(".topbar .title").before(button());
  else {
    $("welcome").append(el("div", { class: "project-welcome" }, button(),
      el("span", { class: "muted" }, [p.instructions ? t("project.hasInstructions") : "", p.n_files ? t("project.filesN", { n: p.n_files }) : "", p.indexing ? t("project.indexing") : ""].filter(Boolean).join(" · ") || t("project.hasNothing"))));
  }
}

// --- reading --------------------------------------------------------------------------------------------------------

const page = (id, limit, from) => call("GET", `/api/conversations?project=${id}&archived=any&limit=${limit}${from ? `&before=${encodeURIComponent(from)}` : ""}`);

/** As many as are shown, from the top. */
async function readChats(id, n = Math.max(FIRST, chats.get(id)?.items.length || 0)) {
  let read = await page(id, Math.min(n, MORE));
  const items = read.items;
  while (read.next && items.length < n) {
    read = await page(id, Math.min(n - items.length, MORE), read.next);
    items.push(...read.items);
  }
  chats.set(id, { items, next: read.next });
}
async function moreChats(id) {
  try { await readChats(id, Infinity); draw(); } catch (error) { toast(error.message); }
}

/** given: the projects, where somebody has just read them. */
export async function refresh(given) {
  const counts = begin();
  const items = given || (await call("GET", "/api/projects")).items;
  await Promise.all(items.filter((p) => open.has(p.id)).map((p) => readChats(p.id)));
  if (!counts()) return;
  projects = items;
  if (state.project && !projectOf(state.project)) state.project = undefined; // an address that names none
  if (items.length) emit("list-read", false);
  draw();
}
const quietly = () => refresh().catch(() => { /* the next time */ });

let soon = 0;
const later = () => { clearTimeout(soon); soon = setTimeout(quietly, 50); };
for (const name of ["list-touched", "list-changed", "conversation-made", "titled", "title", "imported", "answer-start", "moved"]) on(name, later);
on("thread-drawn", () => {
  drawHere();
  for (const link of root.querySelectorAll(".project-chat > a")) {
    const here = link.hash === `#/c/${state.current?.id}`;
    link.parentElement.toggleAttribute("data-current", here);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const row of root.querySelectorAll(".project-row")) row.toggleAttribute("data-current", state.project === row.dataset.id && !state.current);
});

async function toggle(p) {
  if (!open.delete(p.id)) open.add(p.id);
  remember();
  draw();
  if (!open.has(p.id)) return;
  const place = root.querySelector(`.project-row[data-id="${p.id}"] + ul`);
  try { await (chats.has(p.id) ? readChats(p.id) : whileLoading(place, "rows", readChats(p.id))); } catch (error) { toast(error.message); if (!chats.has(p.id) && open.delete(p.id)) remember(); } // rows that are known stay, with the focus
  draw();
}

root.addEventListener("keydown", (event) => {
  const all = [...root.querySelectorAll(".project-open, .project-chat > a, .project-chat > button:not(.icon-button)")];
  const at = all.indexOf(document.activeElement);
  const p = projectOf(document.activeElement?.dataset?.id);
  if (at < 0) return;
  if (event.key === "ArrowDown") (all[at + 1] || $("conversations").querySelector(".conversation-link"))?.focus();
  else if (event.key === "ArrowUp") (all[at - 1] || $("search")).focus();
  else if (event.key === "ArrowRight" && p && !open.has(p.id)) toggle(p);
  else if (event.key === "ArrowLeft" && p && open.has(p.id)) toggle(p);
  else if (event.key === "F2" && p && p.access !== "reader") rename(p);
  else if (event.key === "Delete" && p) removeProject(p);
  else return;
  event.preventDefault();
  event.stopPropagation();
});

// --- what can be done with one ------------------------------------------------------------------------------------------

function projectMenu(p, button) {
  openMenu(button, [
    { label: t("project.newChat"), icon: "compose", run: () => { location.hash = `#/p/${p.id}`; } },
    { label: t("project.edit"), icon: "tune", run: () => edit(p.id) },
    ...(p.access === "reader" ? [] : [{ label: t("list.rename"), icon: "edit", run: () => rename(p) }]),
    { line: true },
    { label: t(p.access === "owner" ? "project.delete" : "projectSharing.leave"), icon: "trash", bad: true, run: () => removeProject(p) },
  ]);
}

async function edit(id) {
  try { await (await import("./project_window.js")).projectWindow(id, { changed: refresh, remove: removeProject }); } catch (error) { toast(error.message); }
}

/** Asks for one line of text; null: not given. */
async function askName(title, value, verb) {
  const input = el("input", { type: "text", value, maxLength: 64, dir: "auto", ariaLabel: t("project.name") });
  input.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); $("confirm-dialog").close("ok"); } });
  const asked = confirmDialog(title, "", verb, { safe: true, field: input });
  input.focus();
  input.select();
  return await asked && input.value.trim() ? input.value.trim() : null;
}

async function rename(p) {
  const name = await askName(t("project.rename"), p.name, t("common.save"));
  if (name && name !== p.name) try { await call("PATCH", `/api/projects/${p.id}`, { name }); await refresh(); } catch (error) { toast(error.message); }
}

/** A chat that stands in a folder: its row in the list is not there to be typed in. */
export async function renameChat(c) {
  const title = await askName(t("list.rename"), c.title || "", t("common.save"));
  if (!title || title === c.title) return;
  try {
    await call("PATCH", `/api/conversations/${c.id}`, { title });
    if (state.current?.id === c.id) { state.current.title = title; emit("title"); }
    later();
  } catch (error) { toast(error.message); }
}

/** Resolves to the new project, or null. */
export async function newProject({ go = true } = {}) {
  const name = await askName(t("projects.new"), "", t("project.make"));
  if (!name) return null;
  try {
    const made = await call("POST", "/api/projects", { name, colour: projects.length % 8 });
    await refresh();
    announce(t("project.made", { name }));
    if (go) location.hash = `#/p/${made.id}`;
    if (go) await edit(made.id);
    return made;
  } catch (error) { toast(error.message, 5000); return null; }
}

/** Resolves to whether it is gone: the own one is deleted, another's is left. */
async function removeProject(p) {
  const how = await endProject(p);
  if (!how) return false;
  open.delete(p.id);
  remember();
  const inside = state.current?.project_id === p.id;
  if (inside) state.current.project_id = null;
  if (state.project === p.id || (inside && how === "trashed")) location.hash = "#/";
  emit("moved", []);
  return true;
}

// --- moving -------------------------------------------------------------------------------------------------------------

/** to: a project, or null for none. */
async function move(conversations, to) {
  const ids = conversations.map((c) => c.id);
  const before = new Set(conversations.map((c) => c.project_id ?? null));
  const id = to?.id ?? null;
  if (!ids.length || (before.size === 1 && before.has(id))) return;
  try {
    await call("POST", "/api/conversations/bulk", { ids, project_id: id });
  } catch (error) { toast(error.message, 5000); return; }
  for (const c of conversations) c.project_id = id;
  if (state.current && ids.includes(state.current.id)) state.current.project_id = id;
  if (to) { open.add(to.id); remember(); }
  emit("moved", id ? ids : []);
  const [old] = before;
  const undo = before.size === 1 ? { label: t("list.undo"), run: () => move(conversations, projectOf(old) || null) } : null;
  toast(to ? t("project.moved", { n: ids.length, name: to.name }) : t("project.movedOut", { n: ids.length }), 6000, undo);
}

/** The choice of a project for these chats, at a button. */
export function moveMenu(conversations, button) {
  const within = (id) => conversations.every((c) => (c.project_id ?? null) === id);
  openMenu(button, [
    { head: t("project.moveTo") },
    ...projects.map((p) => ({ label: p.name, icon: within(p.id) ? "check" : "folder", checked: within(p.id), run: () => move(conversations, p) })),
    ...(projects.length ? [{ label: t("project.none"), icon: within(null) ? "check" : "none", checked: within(null), run: () => move(conversations, null) }, { line: true }] : []),
    { label: t("projects.new"), icon: "plus", run: async () => { const made = await newProject({ go: false }); if (made) move(conversations, made); } },
  ]);
}

/** What is dragged is a chat's link, which every browser knows how to drag; with it go the chosen ones. */
const isChat = (event) => event.dataTransfer?.types.includes("text/uri-list") && ![...event.dataTransfer.items].some((i) => i.kind === "file");
function draggedIds(event) {
  let url;
  try { url = new URL(event.dataTransfer.getData("text/uri-list").split("\n")[0]); } catch { return []; }
  const id = url.origin === location.origin && /^#\/c\/(\d+)/.exec(url.hash)?.[1];
  return !id ? [] : selection.has(id) ? selection.ids() : [id];
}

/** when: whether what is dragged could go there. */
function droppable(node, take, when = () => true) {
  let inside = 0;
  const mark = () => node.classList.toggle("is-target", inside > 0);
  node.addEventListener("dragenter", (event) => { if (isChat(event) && when()) { inside++; mark(); } });
  node.addEventListener("dragleave", () => { if (inside) { inside--; mark(); } });
  node.addEventListener("dragover", (event) => { if (isChat(event) && when()) { event.preventDefault(); event.dataTransfer.dropEffect = "move"; } });
  node.addEventListener("drop", (event) => {
    inside = 0;
    mark();
    const ids = draggedIds(event);
    if (!ids.length) return;
    event.preventDefault();
    take(ids);
  });
}

async function moveByIds(ids, to) {
  const known = new Map([...chats.values()].flatMap(({ items }) => items).map((c) => [c.id, c]));
  move(ids.map((id) => known.get(id) || { id, project_id: state.current?.id === id ? state.current.project_id : null }), to);
}
let fromFolder = false;
root.addEventListener("dragstart", () => { fromFolder = true; });
droppable($("conversations"), (ids) => moveByIds(ids, null), () => fromFolder);
addEventListener("dragend", () => {
  fromFolder = false;
  for (const node of document.querySelectorAll(".is-target")) node.classList.remove("is-target");
});
