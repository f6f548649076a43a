// What the settings button and the commands of the message box ("/name") do to the open chat.

import { call } from "./api.js";
import { drawComposer } from "./composer.js";
import { $, toast } from "./dom.js";
import { t } from "./i18n.js";
import { canContinue, continueAnswer, forkFrom } from "./message_menu.js";
import { emit, isRunning, on, state } from "./state.js";

/** Throws what the server says. */
async function saveSettings(settings, conversation = state.current) {
  if (!conversation || conversation.temporary) {
    if (conversation) conversation.settings = settings;
    else state.draftSettings = settings;
    emit("settings-changed");
    drawComposer();
    return;
  }
  const saved = await call("PATCH", `/api/conversations/${conversation.id}`, { settings });
  conversation.settings = saved.settings;
  emit("settings-changed");
  drawComposer();
}

/** Resolves to whether it is kept. */
async function choose(values, conversation) {
  try {
    const before = conversation?.settings || (Object.keys(state.draftSettings).length ? state.draftSettings : await call("GET", "/api/defaults"));
    const all = Object.entries({ ...before, ...values });
    await saveSettings(conversation && !conversation.temporary ? values : Object.fromEntries(all.filter(([, value]) => value !== null)), conversation);
    emit("settings-changed");
    return true;
  } catch (error) { toast(error.message); return false; }
}

/** null takes a value away. One choice after the other, as they were made, and for the chat that was open then; what is sent meanwhile waits
 *  (sending.js). */
on("choose-settings", (values) => {
  const { current, visit } = state;
  const mine = state.choosing = Promise.resolve(state.choosing).then(async (lost) => {
    const kept = (!current && state.visit !== visit) || await choose(values, current || state.current); // a new chat may have got its row
    if (state.choosing === mine) state.choosing = null;
    return kept ? lost : visit;
  });
});
async function openSettings(field = "") {
  const draft = Object.keys(state.draftSettings).length ? state.draftSettings : null;
  const { settingsDialog } = await import("./settings.js");
  const kept = state.current && !state.current.temporary; // else what the form does not know, such as the model, is to stay
  await settingsDialog(state.current ? state.current.settings : draft, (values) => saveSettings(kept ? values : { ...(state.current?.settings || state.draftSettings), ...values }), field);
}
$("settings").addEventListener("click", () => openSettings());

/** The window with everything else that can be set; section as in settings/sections.js. */
on("open-settings", async (section) => {
  try { await (await import("./settings/window.js")).openSettings(section); } catch { toast(t("errors.unreachable")); }
});

const leaf = () => state.current?.messages.get(state.current.leaf_id);
on("command-settings", (field) => openSettings(field));
on("command-system", async (system) => {
  if (!system) { openSettings(); return; }
  try { await saveSettings({ ...(state.current?.settings || state.draftSettings), system }); toast(t("slash.systemSet")); } catch (error) { toast(error.message); }
});
on("command-prompts", () => emit("open-settings", "prompts"));
on("command-continue", () => { const m = leaf(); if (m && canContinue(m)) continueAnswer(m); else toast(t("slash.nothing")); });
on("command-again", () => { const m = leaf(); if (m?.role === "assistant") emit("regenerate", m); else toast(t("slash.nothing")); });
on("command-fork", () => { const m = leaf(); if (m && !state.current.temporary && !isRunning(state.current)) forkFrom(m); else toast(t("slash.nothing")); });
on("command-help", () => emit("open-settings", "keyboard"));
