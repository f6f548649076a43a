// The ways to projects from what is always here: js/projects.js comes where somebody has a project or wants one.

import { call } from "./api.js";
import { $, toast } from "./dom.js";
import { t } from "./i18n.js";
import { on, state } from "./state.js";

async function use(act) {
  let module;
  try { module = await import("./projects.js"); } catch { toast(t("errors.unreachable")); return; }
  act(module);
}

/** The choice of a project for these chats, at a button. */
export const move = (conversations, button) => use((m) => m.moveMenu(conversations, button));
/** Of a chat that stands in a folder. */
export const renameInFolder = (c) => use((m) => m.renameChat(c));
const make = () => use((m) => m.newProject());
on("command-project", make);
$("new-project").addEventListener("click", make);

export async function showProjects() {
  try {
    const { items } = await call("GET", "/api/projects");
    if (!items.length) state.project = undefined; // of an address that names one
    else use((m) => m.refresh(items));
  } catch { /* the list is there without them */ }
}
