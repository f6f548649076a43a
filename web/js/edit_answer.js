// Changing an answer's text by hand: it becomes a version of its own, so what the model wrote stays.

import { call } from "./api.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";
import { emit, showLeaf, state } from "./state.js";

export function editAnswer(root, message) {
  if (root.querySelector(".edit")) return;
  const parts = [...root.children].filter((node) => !node.hidden && !node.matches("h2"));
  const text = el("textarea", { value: message.content, dir: "auto", ariaLabel: t("answer.edited") });
  const wrong = el("p", { class: "form-error", role: "alert", hidden: true });
  const end = () => { form.remove(); for (const node of parts) node.hidden = false; };
  const cancel = () => { end(); root.querySelector(".act-more").focus(); };
  const save = async () => {
    const conversation = state.current;
    const content = text.value.trim();
    if (!content || content === message.content) { cancel(); return; }
    try {
      const made = await call("POST", `/api/messages/${message.id}/versions`, { content });
      end();
      if (state.current !== conversation) return;
      conversation.messages.set(made.id, made);
      showLeaf(conversation, made.id);
      emit("thread-changed");
    } catch (error) { wrong.textContent = error.message; wrong.hidden = false; }
  };
  const form = el("form", { class: "edit", on: { submit: (event) => { event.preventDefault(); save(); } } }, text, wrong,
    el("p", { class: "edit-note" }, t("answer.editNote")),
    el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: cancel } }, t("common.cancel")), el("button", { class: "primary" }, t("common.save"))));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) { event.preventDefault(); event.stopPropagation(); cancel(); }
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  for (const node of parts) node.hidden = true;
  root.append(form);
  text.focus();
}
