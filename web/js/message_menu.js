// What can be done with a message beside copying: go on with an answer that ended early, fork the chat from here, delete
// from here on, walk its versions by keyboard.

import { ask } from "./answer.js";
import { call } from "./api.js";
import { announce, confirmDialog, el, icon, $, openMenu, toast } from "./dom.js";
import { date, t } from "./i18n.js";
import { canSpeak, isSpeaking, speak } from "./speak.js";
import { branch, emit, isRunning, ofItsModel, siblings, state, versionsIn } from "./state.js";

const EARLY = ["stopped", "length", "error"];

/** Does the conversation end with this answer, before the answer had ended? */
export function canContinue(message) {
  return message.role === "assistant" && EARLY.includes(message.status) && state.current?.leaf_id === message.id && !state.current.temporary && !isRunning(state.current)
    && ![...state.current.messages.values()].some((m) => m.parent_id === message.id);
}

/** Would it be taken? An answer that is held to a schema begins anew, and where nothing was written there is nothing to continue. */
function offersContinue(message) {
  return canContinue(message) && Boolean(message.content || message.reasoning) && !state.current.settings?.json_schema;
}

export async function continueAnswer(message) {
  if (!canContinue(message)) return;
  try { await ask(state.current, { continue: message.id, ...ofItsModel(message) }); } catch (error) { toast(error.message, 5000); }
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

/** Alone may go what stands between two others; a call goes with its results. */
function canTakeOut(message) {
  return message.parent_id && message.role !== "tool" && !message.tool_calls?.length && state.current.leaf_id !== message.id;
}

/** Only this one: what stands below it hangs on what stands above it from then on. */
async function removeOne(message) {
  if (!await confirmDialog(t("answer.removeTitle"), t("answer.removeText"))) return;
  try {
    await call("DELETE", `/api/messages/${message.id}?below=keep`);
    emit("reload-conversation");
  } catch (error) { toast(error.message, 5000); }
}

function openMore(button, root, message) {
  const answer = message.role === "assistant";
  const { temporary } = state.current;
  openMenu(button, [
    ...(answer && message.status === "error" ? [{ label: t("thread.again"), icon: "again", run: () => emit("regenerate", message) }] : []),
    ...(offersContinue(message) ? [{ label: t("thread.continue"), icon: "right", run: () => continueAnswer(message) }] : []),
    ...(answer && canSpeak() ? [{ label: t(isSpeaking(message.id) ? "answer.hush" : "answer.speak"), icon: isSpeaking(message.id) ? "stop" : "speaker", run: () => speak(message) }] : []),
    ...(answer && siblings(state.current, message).length > 1 && !root.closest(".beside") ? [{ label: t("answer.compare"), icon: "columns", run: () => { (state.current.sideBySide ??= new Set()).add(message.parent_id); emit("thread-changed"); } }] : []),
    ...(temporary ? [] : [
      ...(answer ? [{ label: t("answer.edit"), icon: "edit", run: async () => (await import("./edit_answer.js")).editAnswer(root, message) }] : []),
      { label: t("thread.fork"), icon: "fork", run: () => forkFrom(message) },
      { line: true },
      ...(canTakeOut(message) ? [{ label: t("answer.remove"), icon: "trash", bad: true, run: () => removeOne(message) }] : []),
      { label: t("thread.cut"), icon: "trash", bad: true, run: () => removeFrom(message) },
    ]),
  ]);
}

/** Adds the buttons to a message's row of actions. */
export function addActions(root, message) {
  const actions = root.querySelector(".actions");
  const more = el("button", { class: "icon-button act-more", type: "button", ariaLabel: t("thread.more"), ariaHasPopup: "menu",
    on: { click: () => openMore(more, root, message) } }, icon("more"));
  const stats = actions.querySelector(".stats");
  if (message.role === "assistant") {
    actions.insertBefore(el("button", { class: "act-continue", type: "button", hidden: true, on: { click: () => continueAnswer(message) } },
      t("thread.continue")), stats);
  }
  actions.insertBefore(more, stats);
  if (message.role === "assistant") actions.insertBefore(el("span", { class: "about muted" }), stats);
  else actions.prepend(el("span", { class: "about muted" }));
}

/** Which model wrote it, and when. */
function drawAbout(root, message) {
  const about = root.querySelector(".about");
  if (!about || !message.created_at) return;
  const today = new Date(message.created_at).toDateString() === new Date().toDateString();
  const time = el("time", { dateTime: new Date(message.created_at).toISOString(), title: date(message.created_at, { dateStyle: "full", timeStyle: "medium" }) },
    date(message.created_at, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" }));
  about.replaceChildren(...(message.role === "assistant" && message.model ? [el("span", { class: "about-model" }, message.model), el("span", { class: "about-dot" }, " · ")] : []), time);
}

export function drawActions(root, message) {
  drawAbout(root, message);
  const button = root.querySelector(".act-continue");
  if (!button) return;
  button.hidden = !offersContinue(message);
  // One way on for an answer that failed: to continue what is there, else to try again. The other one is in the menu.
  root.querySelector(".act-retry").hidden = !button.hidden;
  root.querySelector(".act-copy").hidden = !message.content;
  root.querySelector(".act-again").hidden = message.status === "error";
}

/** The version before or after: of the message that has the focus, else of the last one that has versions. */
export function walk(step) {
  const id = document.activeElement?.closest?.(".message")?.dataset.id;
  const path = branch(state.current);
  const versions = versionsIn(state.current);
  const message = path.find((m) => m.id === id) || path.findLast((m) => versions(m).length > 1);
  const all = message ? versions(message) : [];
  const next = all[all.indexOf(message) + step];
  if (!next) return;
  chooseVersion(next, step);
}

/** Shows a version in place of its sibling, and goes on where the keyboard was: at the button of the same direction. */
export function chooseVersion(message, step) {
  emit("choose-version", message);
  const all = siblings(state.current, message);
  announce(t("thread.versionOf", { at: all.indexOf(message) + 1, n: all.length }));
  requestAnimationFrame(() => {
    const box = $("thread").querySelector(`[data-id="${message.id}"] .versions`);
    (box?.querySelector(`${step < 0 ? ".older" : ".newer"}:not(:disabled)`) || box?.querySelector("button:not(:disabled)"))?.focus({ preventScroll: true });
  });
}
