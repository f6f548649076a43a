// Opening a chat: its last messages at once, the texts of a long one's other messages in pieces afterwards, newest first.

import { call } from "./api.js";
import { emit, state } from "./state.js";

const AT_ONCE = 80; // messages that come with their texts
const PIECE = 500;

/** The conversation with its messages by id; `whole` resolves when every text has come. */
export async function readConversation(id) {
  const conversation = await call("GET", `/api/conversations/${id}?texts=${AT_ONCE}`);
  conversation.messages = new Map(conversation.messages.sort((a, b) => Number(a.id) - Number(b.id)).map((m) => [m.id, m]));
  conversation.settings ||= {};
  conversation.whole = null;
  return conversation;
}

async function readPieces(conversation) {
  const ids = [...conversation.messages.values()].filter((m) => m.partial).map((m) => m.id);
  for (let end = ids.length; end > 0; end -= PIECE) {
    const wanted = ids.slice(Math.max(0, end - PIECE), end);
    const { items } = await call("GET", `/api/conversations/${conversation.id}/texts?after=${Number(wanted[0]) - 1}&limit=${PIECE}`);
    if (state.current !== conversation) return;
    const came = [];
    for (const message of items) {
      const old = conversation.messages.get(message.id);
      if (!old?.partial) continue;
      delete old.partial;
      Object.assign(old, message);
      came.push(old.id);
    }
    emit("texts", came);
  }
}

/** Reads what is missing; asked twice it is read once. */
export function readTexts(conversation) {
  const missing = [...conversation.messages.values()].some((m) => m.partial);
  if (!missing) return Promise.resolve();
  conversation.whole ??= readPieces(conversation).catch(() => { conversation.whole = null; }); // asked again by whoever needs them
  return conversation.whole;
}
