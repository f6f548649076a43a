// The end of a project in one's list: the own one is deleted, another's is left. Each says before what becomes of the chats.

import { call } from "./api.js";
import { confirmDialog, el, toast } from "./dom.js";
import { t } from "./i18n.js";

async function leave(p) {
  if (!await confirmDialog(t("projectSharing.leaveTitle", { name: p.name }), t("projectSharing.leaveText"), t("projectSharing.leave"))) return null;
  await call("POST", `/api/projects/${p.id}/leave`);
  toast(t("projectSharing.left", { name: p.name }));
  return "left";
}

async function remove(p) {
  const choice = (value, label, checked) => el("label", { class: "radio" }, el("input", { type: "radio", name: "project-chats", value, checked }), el("span", {}, label));
  const keep = choice("keep", t("project.keepChats"), true);
  const field = el("div", {}, ...(p.chats ? [keep, choice("trash", t("project.trashChats", { n: p.chats }), false)] : []));
  const text = [t("project.deleteText"), p.shares ? t("projectSharing.deleteText") : ""].filter(Boolean).join(" ");
  if (!await confirmDialog(t("project.deleteTitle", { name: p.name }), text, t("project.delete"), { field })) return null;
  const kept = !p.chats || keep.querySelector("input").checked;
  await call("DELETE", `/api/projects/${p.id}?chats=${kept ? "keep" : "trash"}`);
  toast(t("project.deleted", { name: p.name }));
  return kept ? "kept" : "trashed";
}

/** Resolves to what became of its chats ("left", "kept", "trashed"), or null: it is there still. */
export async function endProject(p) {
  try { return await (p.access === "owner" ? remove(p) : leave(p)); } catch (error) { toast(error.message, 5000); return null; }
}
