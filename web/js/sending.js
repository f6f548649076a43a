// A message on its way: the chat is made with its first one, one goes at a time, and what the server does not take goes back to
// where it was typed, with the reason above it. A chat whose first message was refused goes again.

import { ask as askKept } from "./answer.js";
import { call } from "./api.js";
import { giveBackFiles } from "./attach.js";
import { drawComposer, giveBackText, moveDraft } from "./composer.js";
import { el, $, toast } from "./dom.js";
import { t } from "./i18n.js";
import { loadMarkdown } from "./markdown.js";
import { touchConversation } from "./sidebar.js";
import { comparing, emit, isRunning, on, state } from "./state.js";
import { trouble } from "./trouble.js";

/** #/c/ID, or #/c/ID/MESSAGE for a place in it. */
export function placeOf(hash) {
  const [, id, messageId] = /^#\/c\/([\w-]+)(?:\/(\d+))?$/.exec(hash) || [];
  return { id, messageId };
}

async function ensureConversation() {
  const mine = state.visit;
  if (state.temporary) {
    state.current = (await import("./temporary.js")).newTemporary();
    moveDraft(state.current.id);
    return state.current;
  }
  const row = await call("POST", "/api/conversations", { settings: state.draftSettings, project_id: state.project });
  const made = { ...row, settings: row.settings || {}, messages: new Map(), leaf_id: null };
  if (state.visit !== mine) return made; // it is written to all the same, but not shown
  state.current = made;
  history.replaceState(null, "", `#/c/${made.id}`);
  moveDraft(made.id);
  return made;
}

/** The first message was refused: without it there is no chat. Where it is not known whether the server has it, the chat stays. */
async function unmake(conversation) {
  try { await call("POST", "/api/conversations/bulk", { ids: [conversation.id], deleted: true }); } catch { return false; }
  if (state.current === conversation) {
    moveDraft("");
    state.current = null;
    history.replaceState(null, "", "#/");
  }
  emit("list-changed");
  return true;
}

// --- a refusal -------------------------------------------------------------------------------------------------------

const problem = el("p", { id: "composer-problem", class: "form-error composer-problem", role: "alert", hidden: true });
$("composer").prepend(problem);
let problemOf = ""; // the chat for which it stands there

function refuse(chat, text) {
  problemOf = chat;
  problem.textContent = text;
  problem.hidden = false;
}
function forgive() { problem.hidden = true; }
$("composer-text").addEventListener("input", forgive);
addEventListener("hashchange", () => { if (placeOf(location.hash).id !== (problemOf || undefined)) forgive(); });
on("answer-start", forgive);

/** Why nothing is sent now: what is typed stays where it is, and nothing is made that could not be answered. */
function blocked(conversation) {
  const why = trouble();
  if ((conversation?.settings || state.draftSettings).model && state.reach !== "offline") return ""; // another server answers
  return why && (state.reach === "offline" || /^model_/.test(why.reason || "")) ? why.long : "";
}

/** Where several models answer, until each of them has begun; those that could not be asked can be asked later. */
async function askOthers(conversation, answer) {
  const { stops = 0 } = conversation;
  conversation.asking = true;
  try { await (await import("./compare.js")).askOthers(answer, stops); } catch { /* without a network */ }
  conversation.asking = false;
  drawComposer();
  emit("asked-all", conversation.id);
}

const posting = new Set(); // ids of the chats ("": a new one) to which something is on its way

/** Sends; what was typed goes back into its chat's box when the server did not take it. Resolves to whether it did. */
export async function post(body, typed = "", files = []) {
  const { choosing, visit } = state;
  const here = () => state.current?.id || placeOf(location.hash).id || "";
  let chat = here(), open = state.current;
  const giveBack = () => { giveBackText(chat, typed); giveBackFiles(chat, files); };
  if (choosing) { // the model that was chosen just now is to answer, and no other
    const lost = await choosing;
    if (lost === visit || (state.visit !== visit && !(open && !open.temporary))) { giveBack(); return false; }
    if (!open) { chat = here(); open = state.current; } // it may have got its row
  }
  if (posting.has(chat) || (chat && !open)) { giveBack(); return false; } // a second Enter or click; a chat that is still being read
  const why = blocked(open);
  if (why) {
    giveBack();
    if (here() === chat) refuse(chat, why);
    else toast(why, 5000);
    return false;
  }
  posting.add(chat);
  const fresh = !open;
  let made = null;
  if (files.length) body.attachments = files.map((f) => f.id);
  try {
    const [conversation] = await Promise.all([open || ensureConversation(), loadMarkdown()]);
    posting.delete(chat);
    posting.add(chat = conversation.id);
    if (conversation.temporary && files.length) throw new Error(t("header.temporaryNoFiles"));
    if (conversation.temporary) { await (await import("./temporary.js")).askTemporary(conversation, body); emit("title"); return true; }
    if (fresh) made = conversation;
    const answer = await askKept(conversation, body);
    if (body.content !== undefined && comparing(conversation)) askOthers(conversation, answer);
    const untitled = !conversation.title;
    touchConversation(conversation, true);
    if (untitled) refreshTitle(conversation);
    return true;
  } catch (error) {
    if (made && error.status >= 400 && error.status < 500 && await unmake(made)) {
      posting.delete(chat);
      chat = "";
    }
    giveBack();
    if ((state.current?.id || "") === chat) refuse(chat, error.message);
    else toast(error.message, 5000);
    return false;
  } finally {
    posting.delete(chat);
    drawComposer();
  }
}

async function refreshTitle(conversation) {
  try {
    const row = await call("GET", `/api/conversations/${conversation.id}`);
    conversation.title = row.title;
    touchConversation(conversation, isRunning(conversation));
    emit("title");
  } catch { /* the next load shows it */ }
}
