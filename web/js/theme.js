// Light, dark, or as the system: chosen by the button, remembered on this device.

import { $ } from "./dom.js";
import { t } from "./i18n.js";

const MODES = ["system", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");
let mode = "system";

function apply() {
  const dark = mode === "dark" || (mode === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.querySelector("meta[name=theme-color]")?.setAttribute("content", getComputedStyle(document.body).backgroundColor);
  $("theme").setAttribute("aria-label", t(`theme.${mode}`));
  $("theme").title = t(`theme.${mode}`);
}

export function initTheme() {
  try { mode = localStorage.getItem("theme") || "system"; } catch { /* private mode */ }
  if (!MODES.includes(mode)) mode = "system";
  apply();
  system.addEventListener("change", apply);
  $("theme").addEventListener("click", () => {
    mode = MODES[(MODES.indexOf(mode) + 1) % MODES.length];
    try { localStorage.setItem("theme", mode); } catch { /* private mode */ }
    apply();
  });
}
