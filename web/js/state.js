// What the page knows. Views subscribe to names; events change it; nothing else holds state.

const listeners = new Map();

export const state = {
  user: null,
  preferences: {},       // how the user likes the page: GET /api/preferences
  status: null,          // GET /api/status
  reach: "",             // why the server is not reached: "offline", "unreachable"; "": it answers
  query: "",             // what is searched in the list
  found: null,           // {id, text} of the message that a click on a search result opens
  current: null,         // the open conversation, with messages: Map by id
  visit: 0,              // how often one went somewhere else: what was begun before acts there no more
  project: undefined,    // id of the project in which a new chat would begin
  draftSettings: {},     // for a chat that has no row yet
  choosing: null,        // while a choice for the next answer is on its way: a promise, of the visit in which one could not be kept
  temporary: false,      // the chat that is shown, or would begin, is kept nowhere
};

export function on(name, fn) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(fn);
}

export function emit(name, detail) {
  for (const fn of listeners.get(name) || []) fn(detail);
}

/** Does anyone answer to this name? */
export function hears(name) {
  return Boolean(listeners.get(name)?.size);
}

/** Messages from the first one to the leaf that is shown. */
export function branch(conversation) {
  const path = [];
  for (let m = conversation.messages.get(conversation.leaf_id); m; m = conversation.messages.get(m.parent_id)) path.push(m);
  return path.reverse();
}

/** Shows the branch that ends with this message. kept: a promise; until it ends, and of what was asked before, the server's word on
 *  the branch is an old one. */
export function showLeaf(conversation, id, kept = null) {
  const turned = () => { conversation.turn = (conversation.turn || 0) + 1; };
  conversation.leaf_id = id;
  turned();
  if (!kept) return;
  conversation.turning = (conversation.turning || 0) + 1;
  const end = () => { conversation.turning--; turned(); };
  kept.then(end, end);
}

/** Finds the versions of any message: same parent, same role, oldest first. One walk for however many are asked about; it holds until a message comes or goes. */
export function versionsIn(conversation) {
  const children = new Map(); // parent's id, or null -> messages
  for (const m of conversation.messages.values()) {
    const parent = m.parent_id || null;
    if (children.has(parent)) children.get(parent).push(m);
    else children.set(parent, [m]);
  }
  return (message) => (children.get(message.parent_id || null) ?? []).filter((m) => m.role === message.role).sort((a, b) => Number(a.id) - Number(b.id));
}

/** The versions of one message, itself among them. */
export function siblings(conversation, message) {
  return versionsIn(conversation)(message);
}

/** The newest leaf under a message. */
export function leafUnder(conversation, message) {
  const newest = new Map(); // parent's id -> its newest child
  for (const m of conversation.messages.values()) {
    const child = newest.get(m.parent_id);
    if (!child || Number(m.id) > Number(child.id)) newest.set(m.parent_id, m);
  }
  let leaf = message;
  while (newest.has(leaf.id)) leaf = newest.get(leaf.id);
  return leaf;
}

/** Do several models answer each message of this chat? */
export function comparing(conversation) {
  return Boolean(conversation?.settings?.compare?.length) && !conversation.temporary;
}

/** Where several models answer, each of them writes its own answer anew. */
export const ofItsModel = (message) => (comparing(state.current) && message.role === "assistant" && message.model ? { model: message.model } : {});

export function isRunning(conversation) {
  if (!conversation) return false;
  if (conversation.asking) return true; // further models are about to answer
  for (const m of conversation.messages.values()) if (m.status === "running") return true;
  return false;
}
