// What each shortcut does, and what must be there for it; js/shortcuts.js says which keys it has.

import { copyText, $ } from "./dom.js";
import { findNeeded, openFind } from "./find.js";
import { t } from "./i18n.js";
import { goToPlace } from "./list_places.js";
import { initShortcuts, keysOf } from "./shortcuts.js";
import { change, currentRow, editTags, neighbour, rename } from "./sidebar.js";
import { walk } from "./message_menu.js";
import { branch, emit, isRunning, on, state } from "./state.js";
import { themes } from "./theme.js";
import { showMessage } from "./thread.js";

const lastOf = (role) => state.current && branch(state.current).findLast((m) => m.role === role);
const open = (id) => { if (id) location.hash = `#/c/${id}`; };
const press = (message, button) => { showMessage(message.id)?.querySelector(button)?.click(); };

// [icon, what it is called, which action]
const IN_PALETTE = [
  ["compose", "common.newChat", "new"], ["search", "help.search", "search"], ["search", "search.inChat", "find"], ["menu", "help.list", "toggle-list"],
  ["edit", "help.editLast", "edit-last"], ["again", "help.again", "again"], ["copy", "help.copyLast", "copy-last"], ["pin", "help.pin", "pin"], ["archive", "help.archive", "archive"],
  ["tag", "help.tags", "tags"], ["share", "help.share", "share"], ["edit", "help.rename", "rename"], ["trash", "help.trash", "trash"], ["stop", "help.stop", "stop"],
  ["archive", "list.placeArchive", "go-archive"], ["trash", "list.placeTrash", "go-trash"],
];

function paletteActions(actions, can) {
  const setting = (icon, label, run) => ({ icon, label, group: "settings", run });
  return [
    ...IN_PALETTE.map(([icon, what, name]) => ({ icon, label: t(what), keys: keysOf(name), can: () => can(name), run: actions[name] })),
    { icon: "ghost", label: t("header.temporary"), run: () => { actions.new(); emit("temporary", true); } },
    { icon: "folder", label: t("projects.new"), run: () => emit("command-project") },
    { icon: "export", label: t("slash.export"), run: () => emit("command-export") },
    { icon: "import", label: t("slash.import"), run: () => emit("command-import") },
    setting("tune", t("page.settings"), () => emit("command-settings")),
    { ...setting("gear", t("account.settings"), () => emit("open-settings")), keys: keysOf("settings") },
    ...[["prompt", "prompts.title", "prompts"], ["key", "account.keys", "keys"], ["keyboard", "account.help", "keyboard"], ["shield", "account.security", "security"], ["language", "account.language", "general"]]
      .map(([icon, label, section]) => setting(icon, t(label), () => emit("open-settings", section))),
    ...themes().map(({ icon, label, run }) => setting(icon, `${t("theme.title")}: ${label}`, run)),
    { ...setting("admin", t("page.admin"), () => location.assign("/admin")), can: () => state.user?.role === "admin" },
  ];
}

let palette = null; // its module, once it has come

async function loadPalette() {
  palette ??= await import("./palette.js");
  return palette;
}
addEventListener("keydown", (event) => { if (event.ctrlKey || event.metaKey) loadPalette().catch(() => {}); }); // the K may follow

/** frame: {openNew, showSidebar(show), sidebarShown()}. */
export function initActions(frame) {
  const can = (name) => !needs[name] || Boolean(needs[name]());
  const actions = {
    new: frame.openNew,
    palette: () => {
      const open = (module) => module.openPalette(paletteActions(actions, can));
      if (palette) open(palette); // at once: what is typed next belongs to it
      else loadPalette().then(open, () => {});
    },
    search: () => { frame.showSidebar(true); $("search").focus(); $("search").select(); },
    find: openFind,
    ...Object.fromEntries(["archive", "trash"].map((place) => [`go-${place}`, () => { frame.showSidebar(true); goToPlace(place); }])),
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
    share: () => emit("share", state.current),
    rename: () => { frame.showSidebar(true); rename(currentRow()); },
    trash: () => change([currentRow()], { trashed: true }),
    "close-list": () => $("sidebar-close").click(),
    stop: () => $("stop").click(),
    help: () => emit("open-settings", "keyboard"),
    settings: () => emit("open-settings"),
  };
  const needs = {
    find: findNeeded, "close-list": () => !$("scrim").hidden, stop: () => isRunning(state.current), "edit-last": () => lastOf("user") && !isRunning(state.current),
    again: () => lastOf("assistant") && !isRunning(state.current), "copy-last": () => lastOf("assistant"),
  };
  for (const name of ["older", "newer"]) needs[name] = () => state.current && !isRunning(state.current);
  for (const name of ["pin", "archive", "tags", "share", "rename", "trash"]) needs[name] = () => state.current?.messages.size && !state.current.temporary;
  on("export-chosen", async (selected) => (await import("./export.js")).exportDialog({ selected }));
  for (const [name, run] of Object.entries(actions)) on(`key-${name}`, run);
  initShortcuts(can);
}
