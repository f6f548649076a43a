// The list of conversations: paged, searched, renamed, deleted.

import { call } from "./api.js";
import { confirmDialog, el, fromTemplate, $, openMenu, toast } from "./dom.js";
import { dayGroup } from "./format.js";
import { t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const PAGE = 50;
const list = $("conversations");
let loadingMore = false;

export async function loadConversations(more = false) {
  if (loadingMore || (more && !state.next)) return;
  loadingMore = true;
  try {
    const query = new URLSearchParams({ limit: PAGE });
    if (more) query.set("before", state.next);
    if (state.query) query.set("q", state.query);
    const asked = state.query;
    const page = await call("GET", `/api/conversations?${query}`);
    if (asked !== state.query) return;
    state.conversations = more ? state.conversations.concat(page.items) : page.items;
    state.next = page.next;
    drawList();
  } catch (error) {
    toast(error.message);
  } finally {
    loadingMore = false;
  }
}

function row(conversation) {
  const root = fromTemplate("t-conversation");
  const link = root.querySelector(".conversation-link");
  link.href = `#/c/${conversation.id}`;
  root.querySelector(".conversation-title").textContent = conversation.title || t("common.newChat");
  root.toggleAttribute("data-running", Boolean(conversation.running));
  if (state.current?.id === conversation.id) {
    root.dataset.current = "";
    link.setAttribute("aria-current", "page");
  }
  const more = root.querySelector(".conversation-more");
  more.setAttribute("aria-label", t("list.actions", { title: conversation.title || t("common.newChat") }));
  more.addEventListener("click", () => openMenu(more, [
    { label: t("list.rename"), icon: "edit", run: () => rename(root, conversation) },
    { label: t("list.delete"), icon: "trash", bad: true, run: () => remove(conversation) },
  ]));
  return root;
}

export function drawList() {
  const nodes = [];
  let group = "";
  for (const conversation of state.conversations) {
    const day = dayGroup(conversation.updated_at);
    if (day !== group && !state.query) nodes.push(el("h2", {}, (group = day)));
    nodes.push(row(conversation));
  }
  if (!nodes.length) nodes.push(el("p", { class: "empty" }, state.query ? t("list.nothing") : t("list.empty")));
  list.replaceChildren(...nodes);
}

function rename(root, conversation) {
  const input = el("input", { value: conversation.title || "", maxLength: 200, ariaLabel: t("list.newTitle") });
  let ended = false;
  const end = async (save) => {
    if (ended) return;
    ended = true;
    const title = input.value.trim();
    if (save && title && title !== conversation.title) {
      try {
        await call("PATCH", `/api/conversations/${conversation.id}`, { title });
        conversation.title = title;
        if (state.current?.id === conversation.id) { state.current.title = title; emit("title"); }
      } catch (error) { toast(error.message); }
    }
    drawList();
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") end(true);
    else if (event.key === "Escape") end(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  input.addEventListener("blur", () => end(true));
  root.replaceChildren(input);
  input.focus();
  input.select();
}

async function remove(conversation) {
  if (!await confirmDialog(t("list.deleteTitle"), t("list.deleteText", { title: conversation.title || t("common.newChat") }))) return;
  try {
    await call("DELETE", `/api/conversations/${conversation.id}`);
  } catch (error) {
    toast(error.message);
    return;
  }
  state.conversations = state.conversations.filter((c) => c.id !== conversation.id);
  drawList();
  if (state.current?.id === conversation.id) location.hash = "#/";
}

/** Puts a conversation at the top, or updates its row. */
export function touchConversation(conversation, running) {
  const old = state.conversations.find((c) => c.id === conversation.id);
  const item = Object.assign(old || {}, { id: conversation.id, title: conversation.title, updated_at: Date.now(), running });
  state.conversations = [item, ...state.conversations.filter((c) => c !== old)];
  drawList();
}

list.addEventListener("scroll", () => {
  if (list.scrollHeight - list.scrollTop - list.clientHeight < 400) loadConversations(true);
}, { passive: true });

let typing = 0;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { state.query = $("search").value.trim(); loadConversations(); }, 180);
});

on("answer-end", (message) => {
  const item = state.conversations.find((c) => c.id === message.conversation_id);
  if (item) { item.running = false; drawList(); }
});
