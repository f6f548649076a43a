// What one wrote oneself: its bubble, folded when it is long, its files, and changing it.

import { copyText, el, fromTemplate } from "./dom.js";
import { drawFiles, editableFiles } from "./files_view.js";
import { t } from "./i18n.js";
import { emit } from "./state.js";

const LINE = 72;       // characters of a line in a bubble, about
const MOST_LINES = 14; // of an own message, before it is folded

/** A long own message shows its beginning. By its text, since what is not drawn has no height. */
function drawFold(root, message) {
  const bubble = root.querySelector(".bubble");
  const button = root.querySelector(".unfold");
  const lines = (message.content || "").split("\n").reduce((n, line) => n + Math.ceil((line.length + 1) / LINE), 0);
  const show = (folded) => {
    bubble.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = t(folded ? "answer.showMore" : "answer.showLess");
  };
  button.hidden = lines <= MOST_LINES;
  if (button.hidden) return;
  show(true);
  button.addEventListener("click", () => show(!bubble.classList.contains("folded")));
}

function startEdit(root, message) {
  const bubble = root.querySelector(".bubble");
  const unfold = root.querySelector(".unfold");
  const folds = !unfold.hidden;
  const actions = root.querySelector(".actions");
  const text = el("textarea", { value: message.content, dir: "auto", ariaLabel: t("thread.editedMessage") });
  const files = editableFiles(message.attachments);
  const shown = root.querySelector(".files");
  const end = () => { form.remove(); bubble.hidden = !message.content; unfold.hidden = !folds; shown.hidden = actions.hidden = false; };
  const cancel = () => { end(); root.querySelector(".act-edit").focus(); };
  const begin = () => {
    bubble.hidden = unfold.hidden = shown.hidden = actions.hidden = true;
    root.append(form);
    text.focus();
  };
  const form = el("form", { class: "edit", on: { submit: (event) => {
    event.preventDefault();
    const content = text.value.trim();
    end();
    root.querySelector(".act-edit").focus({ preventScroll: true });
    const attachments = files.ids();
    const changed = content !== message.content || attachments.length !== (message.attachments || []).length;
    if (changed && (content || attachments.length)) emit("edit-message", { message, content, attachments, failed: begin });
  } } }, files.list, text, el("div", { class: "dialog-row" },
    el("button", { type: "button", class: "quiet", on: { click: cancel } }, t("common.cancel")),
    el("button", { class: "primary" }, t("common.send"))));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) { event.preventDefault(); cancel(); } // it stops no answer
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  begin();
}

export function createUser(message) {
  const root = fromTemplate("t-user");
  root.querySelector(".bubble").textContent = message.content;
  root.querySelector(".bubble").hidden = !message.content;
  drawFold(root, message);
  drawFiles(root.querySelector(".files"), message.attachments);
  root.querySelector(".act-copy").addEventListener("click", () => copyText(message.content));
  root.querySelector(".act-edit").addEventListener("click", () => startEdit(root, message));
  return { root };
}
