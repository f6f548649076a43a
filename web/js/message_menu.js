// What can be done with a message beside copying: go on with an answer that ended early, fork the chat from here, delete
// from here on, walk its versions by keyboard.

import { ask } from "./answer.js";
import { call } from "./api.js";
import { confirmDialog, el, icon, $, openMenu, toast } from "./dom.js";
import { t } from "./i18n.js";
import { branch, emit, isRunning, siblings, state } from "./state.js";

const EARLY = ["stopped", "length", "error"];

/** Does the conversation end with this answer, before the answer had ended? */
export function canContinue(message) {
  return message.role === "assistant" && EARLY.includes(message.status) && state.current?.leaf_id === message.id && !isRunning(state.current)
    && ![...state.current.messages.values()].some((m) => m.parent_id === message.id);
}

export async function continueAnswer(message) {
  if (!canContinue(message)) return;
  try { await ask(state.current, { continue: message.id }); } catch (error) { toast(error.message, 5000); }
}

export async function forkFrom(message) {
  try {
    const made = await call("POST", `/api/conversations/${message.conversation_id}/fork`, { from_message_id: message.id });
    emit("conversation-made", made);
    location.hash = `#/c/${made.id}`;
    toast(t("thread.forked"));
  } catch (error) { toast(error.message, 5000); }
}

/** How many messages stand below this one, with itself. */
function below(message) {
  const children = Map.groupBy?.(state.current.messages.values(), (m) => m.parent_id);
  let n = 0;
  for (const stack = [message]; stack.length; n++) {
    const m = stack.pop();
    stack.push(...(children?.get(m.id) ?? [...state.current.messages.values()].filter((x) => x.parent_id === m.id)));
  }
  return n;
}

async function removeFrom(message) {
  if (!await confirmDialog(t("thread.cutTitle"), t("thread.cutText", { n: below(message) }))) return;
  try {
    await call("DELETE", `/api/messages/${message.id}`);
    emit("reload-conversation");
  } catch (error) { toast(error.message, 5000); }
}

function openMore(button, message) {
  openMenu(button, [
    ...(canContinue(message) ? [{ label: t("thread.continue"), icon: "right", run: () => continueAnswer(message) }] : []),
    { label: t("thread.fork"), icon: "fork", run: () => forkFrom(message) },
    { label: t("thread.cut"), icon: "trash", bad: true, run: () => removeFrom(message) },
  ]);
}

/** Adds the buttons to a message's row of actions. */
export function addActions(root, message) {
  const actions = root.querySelector(".actions");
  const more = el("button", { class: "icon-button act-more", type: "button", ariaLabel: t("thread.more"), ariaHasPopup: "menu",
    on: { click: () => openMore(more, message) } }, icon("more"));
  const stats = actions.querySelector(".stats");
  if (message.role === "assistant") {
    actions.insertBefore(el("button", { class: "act-continue", type: "button", hidden: true, on: { click: () => continueAnswer(message) } },
      t("thread.continue")), stats);
  }
  actions.insertBefore(more, stats);
}

export function drawActions(root, message) {
  const button = root.querySelector(".act-continue");
  if (button) button.hidden = !canContinue(message);
}

/** The version before or after: of the message that has the focus, else of the last one that has versions. */
export function walk(step) {
  const id = document.activeElement?.closest?.(".message")?.dataset.id;
  const path = branch(state.current);
  const message = path.find((m) => m.id === id) || path.findLast((m) => siblings(state.current, m).length > 1);
  const all = message ? siblings(state.current, message) : [];
  const next = all[all.indexOf(message) + step];
  if (!next) return;
  emit("choose-version", next);
  requestAnimationFrame(() => $("thread").querySelector(`[data-id="${next.id}"] .versions button:not(:disabled)`)?.focus());
}
