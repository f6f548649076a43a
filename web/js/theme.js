// The menu of light, dark and as the system. What was chosen, here or in the settings, is kept and applied by look.js.

import { $, openMenu } from "./dom.js";
import { t } from "./i18n.js";
import { chooseLook, looks } from "./look.js";

const ICONS = { system: "monitor", light: "sun", dark: "moon" };

/** The choices, for a menu. */
export function themes() {
  return Object.entries(ICONS).map(([name, icon]) => ({ name, label: t(`theme.${name}`), icon, checked: name === looks.theme, run: () => chooseLook("theme", name) }));
}

export function initTheme() {
  $("theme").addEventListener("click", () => openMenu($("theme"), themes()));
}
