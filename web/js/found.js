// To a message of the open chat: its branch is shown, it is brought to the screen, and what was searched is marked in it.

import { call } from "./api.js";
import { readTexts } from "./history.js";
import { branch, leafUnder, showLeaf, state } from "./state.js";
import { drawThread, showMessage } from "./thread.js";

/** Every place of `text` in an element, letter case aside, as ranges. */
function places(root, text) {
  const out = [];
  const wanted = text.toLowerCase();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const held = node.data.toLowerCase();
    if (held.length !== node.data.length) continue; // a letter that grows when it is folded: places would be wrong
    for (let at = held.indexOf(wanted); at >= 0; at = held.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      out.push(range);
    }
  }
  return out;
}

export function clearMarks() {
  globalThis.CSS?.highlights?.delete("found");
}

function mark(root, text) {
  clearMarks();
  root.classList.add("found");
  setTimeout(() => root.classList.remove("found"), 2500);
  if (!text || !globalThis.CSS?.highlights) return;
  const ranges = places(root, text);
  if (!ranges.length) return;
  CSS.highlights.set("found", new Highlight(...ranges));
  ranges[0].startContainer.parentElement?.scrollIntoView({ block: "center", behavior: "instant" });
}

/** Resolves to whether the message is there. */
export async function goToMessage(id, text = "") {
  const conversation = state.current;
  const message = conversation?.messages.get(id);
  if (!message) return false;
  if (message.partial) await readTexts(conversation);
  if (state.current !== conversation) return false;
  if (!branch(conversation).includes(message)) {
    const leaf = leafUnder(conversation, message).id;
    showLeaf(conversation, leaf, call("PATCH", `/api/conversations/${conversation.id}`, { leaf_id: leaf })); // else kept by the next message
    drawThread();
  }
  const root = showMessage(id);
  if (root) mark(root, text);
  return Boolean(root);
}
