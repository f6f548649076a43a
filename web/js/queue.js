// A message that is sent as soon as the answer before it has ended: one for each chat, shown over the message box, taken back by its
// buttons. It goes only after an answer that ended well; after a stop or an error it returns to the box.

import { giveBackFiles, takeFiles } from "./attach.js";
import { giveBackText } from "./composer.js";
import { announce, $ } from "./dom.js";
import { t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const waiting = new Map(); // id of a chat -> {content, files}

function draw() {
  const held = state.current && waiting.get(state.current.id);
  $("queued").hidden = !held;
  $("queued-text").textContent = held?.content || (held ? held.files.map((f) => f.name).join(", ") : "");
}

/** Back into the box of its chat. */
function giveBack(id) {
  const held = waiting.get(id);
  if (!held) return;
  waiting.delete(id);
  giveBackText(id, held.content);
  giveBackFiles(id, held.files);
  draw();
}

on("queue", (content) => {
  const { id } = state.current;
  const before = waiting.get(id);
  const files = takeFiles();
  waiting.set(id, { content: [before?.content, content].filter(Boolean).join("\n\n"), files: [...(before?.files || []), ...files] });
  announce(t("composer.queued"));
  draw();
});

on("answer-end", (message) => {
  const id = message.conversation_id;
  const held = waiting.get(id);
  if (!held) return;
  if (message.status !== "done" || state.current?.id !== id) { giveBack(id); return; } // it might have been meant otherwise
  waiting.delete(id);
  draw();
  emit("send-queued", held);
});

$("queued-edit").addEventListener("click", () => { giveBack(state.current.id); $("composer-text").focus(); });
$("queued-drop").addEventListener("click", () => { waiting.delete(state.current.id); draw(); $("composer-text").focus(); });
on("thread-drawn", draw);
