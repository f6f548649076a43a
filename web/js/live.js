// What happens elsewhere: another tab, another device, a title that the model found. Asks /api/changes every two seconds while
// the page is looked at (204 when nothing happened), every ten when nobody has touched it for a while; tabs of one browser
// tell each other at once.

import { isFollowed, resume } from "./answer.js";
import { call } from "./api.js";
import { emit, isRunning, on, state } from "./state.js";

const SOON_MS = 2000;
const LATER_MS = 10000;
const TITLE_MS = 30000; // then whoever computes is better left alone
const QUIET_MS = 300000; // then nobody waits for anything

const channel = "BroadcastChannel" in self ? new BroadcastChannel("sluice") : null;
let tag = "";
let tagOf = null; // the conversation that the tag is about
let listedAt = 0;
let timer = 0;
let asking = false;
let touched = Date.now();

function newest(conversation) {
  let id = "0";
  for (const key of conversation.messages.keys()) if (Number(key) > Number(id)) id = key;
  return id;
}

/** Puts what the server has into the open conversation; its word on the branch only where `newBranch`. Resolves to false when only
 *  reading it anew can tell. */
function merge(conversation, news, newBranch) {
  const before = conversation.messages.size;
  let fresh = 0;
  for (const m of news.messages) {
    if (conversation.messages.has(m.id)) continue;
    conversation.messages.set(m.id, m);
    fresh++;
  }
  const here = [...conversation.messages.values()].filter((m) => m.status === "running").map((m) => m.id);
  // Those that have ended while nobody read them are in `here` alone: their stream tells the end.
  const begun = [...new Set([...news.running, ...here])].filter((id) => !isFollowed(id));
  // Written in since, yet nothing is new: an older answer was continued, and has ended already.
  const written = [...conversation.messages.values()].reduce((at, m) => Math.max(at, m.created_at || 0), conversation.updated_at || 0);
  const missed = before > 0 && !fresh && !begun.length && news.updated_at > written;
  const whole = conversation.messages.size === news.count && !missed;
  conversation.updated_at = Math.max(conversation.updated_at || 0, news.updated_at);
  conversation.settings = news.settings;
  if (conversation.title !== news.title) {
    conversation.title = news.title;
    emit("title");
  }
  if (newBranch && news.leaf_id && conversation.leaf_id !== news.leaf_id && conversation.messages.has(news.leaf_id)) {
    conversation.leaf_id = news.leaf_id;
    fresh++;
  }
  if (fresh) emit("thread-changed");
  for (const id of begun) {
    const m = conversation.messages.get(id);
    if (m) resume(m);
  }
  return whole;
}

/** Asks once; resolves when what came is in the page. */
export async function checkNow() {
  const conversation = state.current;
  const id = conversation && !conversation.temporary ? conversation.id : null;
  if (!state.user || asking) return;
  asking = true;
  try {
    const query = new URLSearchParams();
    if (id) { query.set("conversation", id); query.set("after", newest(conversation)); }
    if (tag && tagOf === id) query.set("tag", tag);
    const turn = conversation?.turn;
    const news = await call("GET", `/api/changes?${query}`);
    if (!news || state.current !== conversation) return;
    const newBranch = !conversation?.turning && conversation?.turn === turn;
    // While an own answer begins the page knows more than what was asked for.
    const whole = !news.conversation || merge(conversation, news.conversation, newBranch);
    const busy = isRunning(conversation);
    if (!busy && !whole) emit("reload-conversation");
    if (listedAt && news.listed_at > listedAt) emit("list-changed");
    listedAt = Math.max(listedAt, news.listed_at);
    tag = newBranch && (whole || !busy) ? news.tag : ""; // else it is asked once more
    tagOf = id;
  } catch (error) {
    if (error.status === 404 && id && state.current?.id === id) emit("conversation-gone", id);
  } finally {
    asking = false;
  }
}

function plan() {
  clearTimeout(timer);
  if (document.hidden) return;
  timer = setTimeout(async () => { await checkNow(); plan(); }, Date.now() - touched > QUIET_MS ? LATER_MS : SOON_MS);
}

function wake() {
  touched = Date.now();
  if (!document.hidden) checkNow().then(plan);
}

/** Tells the other tabs that something was written. */
export function tell() {
  if (!state.current?.temporary) channel?.postMessage(state.current?.id ?? "");
}

/** After the open conversation was read whole. */
export function forgetTag() {
  tag = "";
}

export function startLive() {
  channel?.addEventListener("message", () => { if (!document.hidden) checkNow(); });
  document.addEventListener("visibilitychange", wake);
  addEventListener("online", wake);
  for (const name of ["keydown", "pointerdown"]) addEventListener(name, () => { touched = Date.now(); }, { passive: true });
  for (const name of ["answer-start", "answer-end", "title", "list-touched"]) on(name, tell);
  plan();
}

/** The model finds a title for a chat with its first answer. */
on("answer-end", async (message) => {
  const conversation = state.current;
  if (conversation?.id !== message.conversation_id || conversation.temporary || message.status === "error") return;
  const all = [...conversation.messages.values()];
  if (all.filter((m) => m.role === "user").length > 1 || all.some((m) => m.role === "assistant" && Number(m.id) < Number(message.id))) return;
  try {
    const { title, changed } = await call("POST", `/api/conversations/${conversation.id}/title`, {}, AbortSignal.timeout(TITLE_MS));
    if (!changed) return;
    conversation.title = title;
    emit("titled", conversation);
  } catch { /* the first line stays */ }
});
