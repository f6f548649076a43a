// Light, dark, or as the system: chosen by the button, remembered on this device.

import { $ } from "./dom.js";

const MODES = ["system", "light", "dark"];
const LABELS = { system: "as the system", light: "light", dark: "dark" };
const system = matchMedia("(prefers-color-scheme: dark)");
let mode = "system";

function apply() {
  const dark = mode === "dark" || (mode === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-label", `Theme: ${LABELS[mode]}`);
  $("theme").title = `Theme: ${LABELS[mode]}`;
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
