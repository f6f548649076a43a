// What the settings button and the commands of the message box ("/name") do to the open chat.

import { call } from "./api.js";
import { drawComposer } from "./composer.js";
import { helpDialog } from "./shortcuts.js";
import { $, toast } from "./dom.js";
import { t } from "./i18n.js";
import { canContinue, continueAnswer, forkFrom } from "./message_menu.js";
import { promptsDialog } from "./prompts.js";
import { settingsDialog } from "./settings.js";
import { emit, isRunning, on, state } from "./state.js";

/** Throws what the server says. */
async function saveSettings(settings) {
  if (!state.current) { state.draftSettings = settings; drawComposer(); return; }
  const saved = await call("PATCH", `/api/conversations/${state.current.id}`, { settings });
  state.current.settings = saved.settings;
  emit("settings-changed");
  drawComposer();
}
on("thinking", async (wanted) => {
  try { await saveSettings({ ...(state.current?.settings || state.draftSettings), thinking: wanted }); } catch (error) { toast(error.message); }
});
function openSettings() {
  const draft = Object.keys(state.draftSettings).length ? state.draftSettings : null;
  return settingsDialog(state.current ? state.current.settings : draft, saveSettings);
}
$("settings").addEventListener("click", openSettings);

const leaf = () => state.current?.messages.get(state.current.leaf_id);
on("command-settings", () => openSettings());
on("command-system", async (system) => {
  if (!system) { openSettings(); return; }
  try { await saveSettings({ ...(state.current?.settings || state.draftSettings), system }); toast(t("slash.systemSet")); } catch (error) { toast(error.message); }
});
on("command-prompts", () => promptsDialog());
on("command-continue", () => { const m = leaf(); if (m && canContinue(m)) continueAnswer(m); else toast(t("slash.nothing")); });
on("command-again", () => { const m = leaf(); if (m?.role === "assistant") emit("regenerate", m); else toast(t("slash.nothing")); });
on("command-fork", () => { const m = leaf(); if (m && !isRunning(state.current)) forkFrom(m); else toast(t("slash.nothing")); });
on("command-help", () => helpDialog());
