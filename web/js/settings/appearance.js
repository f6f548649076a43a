// Appearance: the theme, how large the letters are, how wide a chat is. All of it is kept on this device.

import { el, icon } from "../dom.js";
import { t } from "../i18n.js";
import { chooseLook, looks } from "../look.js";
import { themes } from "../theme.js";
import { segmented } from "./rows.js";

export function draw(panel) {
  const cards = themes().map(({ name, label, icon: sign, checked, run }) => el("label", { class: "theme-card" },
    el("input", { type: "radio", name: "theme", value: name, checked, on: { change: run } }), icon(sign), el("span", {}, label)));
  panel.append(el("fieldset", { class: "pref segments" }, el("legend", {}, t("theme.title")), el("div", { class: "theme-cards" }, ...cards)),
    segmented(t("settingsWindow.textSize"), "text", looks.text, [["small", t("settingsWindow.small")], ["", t("settings.default")], ["large", t("settingsWindow.large")]], (v) => chooseLook("text", v)),
    segmented(t("settingsWindow.width"), "width", looks.width, [["", t("settings.default")], ["wide", t("settingsWindow.wide")]], (v) => chooseLook("width", v)),
    el("p", { class: "muted" }, t("settingsWindow.onDevice")));
}
