// Two versions of an answer side by side, and the choice of one of them. Loaded when it is opened.

import { el } from "./dom.js";
import { t } from "./i18n.js";
import { MarkdownView } from "./markdown.js";
import { emit, siblings, state } from "./state.js";

function side(all, chosen, label, close) {
  const prose = el("div", { class: "prose", tabIndex: 0, role: "region", ariaLabel: label });
  const view = new MarkdownView(prose);
  const select = el("select", { ariaLabel: label }, ...all.map((m, i) => el("option", { value: m.id }, [t("answer.version", { n: i + 1 }), m.model].filter(Boolean).join(" · "))));
  const draw = () => view.finish(all.find((m) => m.id === select.value).content || "");
  select.value = chosen.id;
  select.addEventListener("change", draw);
  draw();
  return el("section", { class: "compare-side" }, el("div", { class: "compare-head" }, select,
    el("button", { class: "quiet", type: "button", on: { click: () => { close(); emit("choose-version", all.find((m) => m.id === select.value)); } } }, t("answer.keep"))), prose);
}

export function compareDialog(message) {
  const all = siblings(state.current, message);
  const at = all.indexOf(message);
  const other = all[at > 0 ? at - 1 : 1];
  const [left, right] = at > 0 ? [other, message] : [message, other];
  const close = () => dialog.close();
  const dialog = el("dialog", { id: "compare-dialog", class: "dialog compare", "aria-labelledby": "compare-title" },
    el("h2", { id: "compare-title", tabIndex: -1, autofocus: true }, t("answer.compareTitle")),
    el("div", { class: "compare-columns" }, side(all, left, t("answer.left"), close), side(all, right, t("answer.right"), close)),
    el("div", { class: "dialog-row" }, el("button", { class: "quiet", type: "button", on: { click: close } }, t("common.close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
