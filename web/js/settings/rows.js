// What the sections of the settings window share: a line with its words at the left and what is changed at the right.

import { el } from "../dom.js";

let made = 0; // ids

/** control: an input or a button. hint: what it means, below the label. */
export function settingRow(label, control, hint = "") {
  const id = `pref-${++made}`;
  const isField = control.matches("input, select, textarea");
  if (isField) control.id ||= id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return el("div", { class: "pref" }, el("div", { class: "pref-words" },
    isField ? el("label", { htmlFor: control.id }, label) : el("span", { class: "pref-label" }, label),
    hint ? el("p", { id: `${id}-hint`, class: "muted" }, hint) : null), control);
}

/** A switch: change(on) does it, and says by false that it was not done. */
export function switchRow(label, on, change, hint = "") {
  const input = el("input", { type: "checkbox", class: "switch", checked: on, on: { change: async () => {
    if (await change(input.checked) === false) input.checked = !input.checked;
  } } });
  input.setAttribute("role", "switch");
  return settingRow(label, input, hint);
}

/** One of a few, each a button of a radio: choices are [value, label]. */
export function segmented(label, name, value, choices, change) {
  return el("fieldset", { class: "pref segments" }, el("legend", {}, label), el("div", { class: "segments-row" }, ...choices.map(([v, words]) => el("label", {},
    el("input", { type: "radio", name, value: v, checked: v === value, on: { change: () => change(v) } }), el("span", {}, words)))));
}

export const problemNode = () => el("p", { class: "form-error", role: "alert", hidden: true });
