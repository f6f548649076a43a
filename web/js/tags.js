// Tags of conversations: their colours, and the dialog that gives and takes them.

import { call } from "./api.js";
import { el, $, icon, toast } from "./dom.js";
import { fold } from "./fold.js";
import { t } from "./i18n.js";

/** One of the theme's eight colours, the same for a tag everywhere: by a hash of its name. */
export function tagColour(tag) {
  let hash = 0;
  for (const c of fold(tag)) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
  return hash % 8;
}

const same = (a, b) => fold(a) === fold(b);

export function tagChip(tag, ...more) {
  return el("span", { class: "tag", dir: "auto", data: { colour: String(tagColour(tag)) } }, tag, ...more);
}

export async function allTags() {
  return (await call("GET", "/api/conversation-tags")).items.map((item) => item.tag);
}

/** For one conversation or several: resolves to true when something was changed. */
export async function tagsDialog(conversations) {
  const dialog = $("tags-dialog");
  const form = $("tags-form");
  const held = new Map(); // folded -> name, of those that all of them have
  for (const tag of conversations[0].tags) {
    if (conversations.every((c) => c.tags.some((x) => same(x, tag)))) held.set(fold(tag), tag);
  }
  const before = new Map(held);
  const draw = () => $("tags-list").replaceChildren(...[...held.values()].map((tag) => tagChip(tag,
    el("button", { type: "button", class: "tag-remove", ariaLabel: t("tags.remove", { tag }), on: { click: () => { held.delete(fold(tag)); draw(); $("tags-name").focus(); } } }, icon("close")))));
  const add = () => {
    const tag = $("tags-name").value.trim().replace(/\s+/g, " ");
    if (tag) held.set(fold(tag), tag);
    $("tags-name").value = "";
    draw();
  };
  $("tags-name").onkeydown = (event) => { // Enter adds; with nothing typed it saves
    if (event.key !== "Enter" || event.isComposing || !$("tags-name").value.trim()) return;
    event.preventDefault();
    add();
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    add();
    dialog.close("ok");
  };
  draw();
  dialog.returnValue = "";
  dialog.showModal();
  $("tags-name").focus();
  allTags().then((tags) => $("tags-known").replaceChildren(...tags.map((value) => el("option", { value })))).catch(() => {});
  await new Promise((closed) => { dialog.addEventListener("close", closed, { once: true }); });
  if (dialog.returnValue !== "ok") return false;
  const added = [...held].filter(([key]) => !before.has(key)).map(([, tag]) => tag);
  const taken = [...before].filter(([key]) => !held.has(key)).map(([, tag]) => tag);
  if (!added.length && !taken.length) return false;
  try {
    await call("POST", "/api/conversations/bulk", { ids: conversations.map((c) => c.id), add_tags: added, remove_tags: taken });
  } catch (error) {
    toast(error.message, 5000);
    return false;
  }
  for (const c of conversations) c.tags = [...c.tags.filter((x) => ![...taken, ...added].some((y) => same(x, y))), ...added];
  return true;
}
