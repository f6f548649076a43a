// General: the language, what is kept on this device.

import { el } from "../dom.js";
import { chooseLanguage, chosen, languages, t } from "../i18n.js";
import { state } from "../state.js";
import { settingRow, switchRow } from "./rows.js";

function languageRow() {
  const select = el("select", { name: "language", on: { change: () => chooseLanguage(select.value) } },
    ...[["system", t("language.system")], ...languages()].map(([code, label]) => el("option", { value: code, selected: code === chosen, ...(code === "system" ? {} : { lang: code }) }, label)));
  return settingRow(t("account.language"), select, t("settingsWindow.onDevice"));
}

async function offlineRow() {
  const { isOffline, toggleOffline } = await import("../offline.js");
  const row = switchRow(t("offline.menu"), await isOffline(), async () => { await toggleOffline(); row.querySelector("input").checked = await isOffline(); }, t("offlineChats.text"));
  row.dataset.pref = "offline";
  return row;
}

export async function draw(panel, ui) {
  panel.append(languageRow());
  if (navigator.serviceWorker) panel.append(await offlineRow());
  if (state.user?.role !== "admin") return;
  const again = el("button", { type: "button", class: "quiet", on: { click: async () => { ui.close(); (await import("../first_run.js")).showFirstRun(); } } }, t("settingsWindow.show"));
  const row = settingRow(t("settingsWindow.firstRun"), again, t("settingsWindow.firstRunText"));
  row.dataset.pref = "first-run";
  panel.append(row, settingRow(t("page.admin"), el("a", { class: "quiet", href: "/admin" }, t("settingsWindow.openAdmin")), t("settingsWindow.adminText")));
}
