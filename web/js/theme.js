// Light, dark, or as the system, the size of letters, the width of a chat: chosen in a menu or in the settings, remembered on this device.

import { $, openMenu } from "./dom.js";
import { t } from "./i18n.js";

const MODES = [["system", "monitor"], ["light", "sun"], ["dark", "moon"]];
const system = matchMedia("(prefers-color-scheme: dark)");
let mode = "system";

function apply() {
  const dark = mode === "dark" || (mode === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.querySelector("meta[name=theme-color]")?.setAttribute("content", getComputedStyle(document.body).backgroundColor);
}

export function chooseTheme(name) {
  mode = name;
  try { localStorage.setItem("theme", mode); } catch { /* private mode */ }
  apply();
}

/** The choices, for a menu. */
export function themes() {
  return MODES.map(([name, icon]) => ({ name, label: t(`theme.${name}`), icon, checked: name === mode, run: () => chooseTheme(name) }));
}

/** How large the letters are ("small", "large") and how wide a chat is ("wide"); "": as usual. */
export const looks = { text: "", width: "" };

function applyLook(name) {
  if (looks[name]) document.documentElement.dataset[name] = looks[name];
  else delete document.documentElement.dataset[name];
}

export function chooseLook(name, value) {
  looks[name] = value;
  try { localStorage.setItem(`look-${name}`, value); } catch { /* private mode */ }
  applyLook(name);
}

export function initTheme() {
  try { mode = localStorage.getItem("theme") || "system"; } catch { /* private mode */ }
  if (!MODES.some(([name]) => name === mode)) mode = "system";
  apply();
  for (const name of Object.keys(looks)) {
    try { looks[name] = localStorage.getItem(`look-${name}`) || ""; } catch { /* private mode */ }
    applyLook(name);
  }
  system.addEventListener("change", apply);
  $("theme").addEventListener("click", () => openMenu($("theme"), themes()));
}
