// "+" in the message box: files, prompts, tools, instructions. And dictation, where the browser can do it.

import { focusComposer, setText } from "./composer.js";
import { el, icon, $, openMenu, toast } from "./dom.js";
import { language, t } from "./i18n.js";
import { prompts, usePrompt } from "./prompts.js";
import { emit, on, state } from "./state.js";

const MOST_PROMPTS = 8;
const add = $("add");

function promptsMenu(own) {
  openMenu(add, [{ head: t("prompts.title") },
    ...own.slice(0, MOST_PROMPTS).map((p) => ({ label: p.name, hint: p.text.replace(/\s+/g, " ").slice(0, 60), icon: "prompt", run: () => usePrompt(p) })),
    { line: true }, { label: t("composer.managePrompts"), icon: "edit", run: () => emit("command-prompts") }]);
}

/** The servers whose tools this chat may use, each on or off. */
async function toolsMenu(button) {
  const { chooseServer, chosenServers, toolServers } = await import("./tool_servers.js");
  const chosen = chosenServers();
  const usable = (await toolServers()).filter((x) => x.usable);
  openMenu(button, [{ head: t("tools.title") },
    ...usable.map((x) => ({ label: x.name, hint: t("tools.count", { n: x.tools.length }), many: true, checked: chosen.includes(x.name), run: () => chooseServer(x.name, !chosen.includes(x.name)) })),
    ...(usable.length ? [{ line: true }] : []),
    { label: t("tools.manage"), icon: "tune", run: () => emit("open-settings", "tools") }, { label: t("tools.byHand"), icon: "source", run: () => emit("command-settings", "tools") }]);
}

// Beside "+", while the chat has some.
const pill = el("button", { id: "tools-on", class: "pill", type: "button", hidden: true, ariaHasPopup: "menu", ariaExpanded: "false", on: { click: () => toolsMenu(pill) } }, icon("tool"), el("span", {}));
add.after(pill);
function drawPill() {
  const n = ((state.current?.settings || state.draftSettings)?.tool_servers || []).length;
  pill.hidden = !n || Boolean(state.temporary);
  pill.lastChild.textContent = n;
  pill.title = pill.ariaLabel = t("tools.on", { n });
}
for (const name of ["settings-changed", "thread-drawn", "temporary-changed"]) on(name, drawPill);

add.addEventListener("click", () => openMenu(add, [
  { label: t("attach.pick"), icon: "clip", disabled: Boolean(state.temporary), hint: state.temporary ? t("header.temporaryNoFiles") : undefined, run: () => $("attach-input").click() },
  { label: t("prompts.title"), icon: "prompt", run: async () => { const own = await prompts(); if (own.length) promptsMenu(own); else emit("command-prompts"); } },
  { label: t("composer.tools"), icon: "tool", disabled: Boolean(state.temporary), hint: state.temporary ? t("tools.notTemporary") : undefined, run: () => toolsMenu(add) },
  { label: t("composer.instructions"), icon: "edit", run: () => emit("command-settings", "system") },
]));

// --- dictation: the browser's own, which may ask its maker's servers; it says so itself ---------------------------------------

const Recognition = globalThis.SpeechRecognition || globalThis.webkitSpeechRecognition;
const dictate = $("dictate");
let heard = null; // the recognition under way

function showListening(on) {
  dictate.setAttribute("aria-pressed", String(on));
  dictate.classList.toggle("listening", on);
}

function startDictation() {
  const before = $("composer-text").value;
  const spoken = heard = new Recognition();
  spoken.lang = language;
  spoken.continuous = true;
  spoken.interimResults = true;
  spoken.onresult = ({ results }) => setText([before, [...results].map((r) => r[0].transcript.trim()).join(" ")].filter(Boolean).join(" "));
  spoken.onerror = ({ error }) => { if (error !== "aborted" && error !== "no-speech") toast(t(error === "not-allowed" ? "composer.noMicrophone" : "composer.noDictation"), 5000); };
  spoken.onend = () => { heard = null; showListening(false); focusComposer(); };
  spoken.start();
  showListening(true);
}

dictate.hidden = !Recognition;
dictate.addEventListener("click", () => { if (heard) heard.stop(); else startDictation(); });
