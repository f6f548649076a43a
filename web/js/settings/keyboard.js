// Every shortcut, and whether single letters are some.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { chooseSingleKeys, shortcuts, shownKeysOf, singleKeys } from "../shortcuts.js";

export function draw(panel) {
  const single = el("input", { id: "help-single", type: "checkbox", class: "switch", checked: singleKeys(), on: { change: () => chooseSingleKeys(single.checked) } });
  single.setAttribute("role", "switch");
  panel.append(el("div", { class: "pref" }, el("div", { class: "pref-words" }, el("label", { htmlFor: "help-single" }, t("help.single")), el("p", { class: "muted" }, t("settingsWindow.singleText"))), single),
    el("dl", { id: "help-list", class: "help" }, ...shortcuts().map((s) => el("div", {}, el("dt", {}, ...shownKeysOf(s.keys)), el("dd", {}, t(s.what))))));
}
