// What each shortcut does, and what must be there for it; js/shortcuts.js says which keys it has.

import { copyText, $ } from "./dom.js";
import { findNeeded, openFind } from "./find.js";
import { shareDialog } from "./share.js";
import { helpDialog, initShortcuts } from "./shortcuts.js";
import { change, currentRow, editTags, neighbour, rename } from "./sidebar.js";
import { walk } from "./message_menu.js";
import { branch, isRunning, on, state } from "./state.js";
import { showMessage } from "./thread.js";

const lastOf = (role) => state.current && branch(state.current).findLast((m) => m.role === role);
const open = (id) => { if (id) location.hash = `#/c/${id}`; };
const press = (message, button) => { showMessage(message.id)?.querySelector(button)?.click(); };

/** frame: {openNew, showSidebar(show), sidebarShown()}. */
export function initActions(frame) {
  const actions = {
    new: frame.openNew,
    search: () => { frame.showSidebar(true); $("search").focus(); $("search").select(); },
    find: openFind,
    "toggle-list": () => frame.showSidebar(!frame.sidebarShown()),
    next: () => open(neighbour(1)),
    previous: () => open(neighbour(-1)),
    composer: () => $("composer-text").focus(),
    "edit-last": () => press(lastOf("user"), ".act-edit"),
    again: () => press(lastOf("assistant"), ".act-again"),
    older: () => walk(-1),
    newer: () => walk(1),
    "copy-last": () => copyText(lastOf("assistant").content),
    pin: () => change([currentRow()], { pinned: !currentRow().pinned }),
    archive: () => change([currentRow()], { archived: !currentRow().archived }),
    tags: () => editTags([currentRow()]),
    share: () => shareDialog(state.current),
    rename: () => { frame.showSidebar(true); rename(currentRow()); },
    trash: () => change([currentRow()], { trashed: true }),
    "close-list": () => $("sidebar-close").click(),
    stop: () => $("stop").click(),
    help: helpDialog,
  };
  const needs = {
    find: findNeeded, "close-list": () => !$("scrim").hidden, stop: () => isRunning(state.current), "edit-last": () => lastOf("user") && !isRunning(state.current),
    again: () => lastOf("assistant") && !isRunning(state.current), "copy-last": () => lastOf("assistant"),
  };
  for (const name of ["older", "newer"]) needs[name] = () => state.current && !isRunning(state.current);
  for (const name of ["pin", "archive", "tags", "share", "rename", "trash"]) needs[name] = () => state.current?.messages.size;
  on("export-chosen", async (selected) => (await import("./export.js")).exportDialog({ selected }));
  for (const [name, run] of Object.entries(actions)) on(`key-${name}`, run);
  initShortcuts((name) => !needs[name] || Boolean(needs[name]()));
}
