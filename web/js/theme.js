// Light, dark, or as the system: chosen in a menu, remembered on this device.

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
  return MODES.map(([name, icon]) => ({ label: t(`theme.${name}`), icon, checked: name === mode, run: () => chooseTheme(name) }));
}

export function initTheme() {
  try { mode = localStorage.getItem("theme") || "system"; } catch { /* private mode */ }
  if (!MODES.some(([name]) => name === mode)) mode = "system";
  apply();
  system.addEventListener("change", apply);
  $("theme").addEventListener("click", () => openMenu($("theme"), themes()));
}
