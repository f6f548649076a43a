// A message on its way: the chat is made with its first one, one goes at a time, and what the server does not take goes back to
// where it was typed.

import { ask } from "./answer.js";
import { call } from "./api.js";
import { giveBackFiles } from "./attach.js";
import { drawComposer, giveBackText, moveDraft } from "./composer.js";
import { toast } from "./dom.js";
import { loadMarkdown } from "./markdown.js";
import { touchConversation } from "./sidebar.js";
import { emit, isRunning, state } from "./state.js";

/** #/c/ID, or #/c/ID/MESSAGE for a place in it. */
export function placeOf(hash) {
  const [, id, messageId] = /^#\/c\/([\w-]+)(?:\/(\d+))?$/.exec(hash) || [];
  return { id, messageId };
}

async function ensureConversation() {
  if (state.current) return state.current;
  const mine = state.visit;
  const row = await call("POST", "/api/conversations", { settings: state.draftSettings });
  const made = { ...row, settings: row.settings || {}, messages: new Map(), leaf_id: null };
  if (state.visit !== mine) return made; // it is written to all the same, but not shown
  state.current = made;
  history.replaceState(null, "", `#/c/${made.id}`);
  moveDraft(made.id);
  return made;
}

const posting = new Set(); // ids of the chats ("": a new one) to which something is on its way

/** Sends; what was typed goes back into its chat's box when the server did not take it. Resolves to whether it did. */
export async function post(body, typed = "", files = []) {
  let chat = state.current?.id || placeOf(location.hash).id || "";
  const giveBack = () => { giveBackText(chat, typed); giveBackFiles(chat, files); };
  if (posting.has(chat) || (chat && !state.current)) { giveBack(); return false; } // a second Enter or click; a chat that is still being read
  posting.add(chat);
  if (files.length) body.attachments = files.map((f) => f.id);
  try {
    const [conversation] = await Promise.all([ensureConversation(), loadMarkdown()]);
    posting.delete(chat);
    posting.add(chat = conversation.id);
    await ask(conversation, body);
    const fresh = !conversation.title;
    touchConversation(conversation, true);
    if (fresh) refreshTitle(conversation);
    return true;
  } catch (error) {
    giveBack();
    toast(error.message, 5000);
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
