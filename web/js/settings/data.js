// Data: chats in and out, all that belongs to the account, the trash.

import { el } from "../dom.js";
import { loadStrings, t } from "../i18n.js";
import { emptyTrash } from "../list_places.js";
import { settingRow } from "./rows.js";

await loadStrings();

function row(name, label, hint, verb, run, kind = "quiet") {
  const node = settingRow(label, el("button", { type: "button", class: kind, ariaLabel: label, on: { click: run } }, verb), hint);
  node.dataset.pref = name;
  return node;
}

export function draw(panel) {
  panel.append(
    row("import", t("import.title"), t("import.intro"), t("settingsWindow.import"), async () => (await import("../import.js")).importDialog()),
    row("export", t("export.title"), t("settingsWindow.exportText"), t("export.start"), async () => (await import("../export.js")).exportDialog()),
    row("account", t("export.account"), t("settingsWindow.accountText"), t("attach.download"), async () => (await import("../export.js")).exportAccount()),
    row("trash", t("list.emptyTrash"), t("list.emptyTrashText"), t("list.emptyTrash"), emptyTrash, "quiet bad"));
}
