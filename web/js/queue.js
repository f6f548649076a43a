// A message that is sent as soon as the answer before it has ended: one for each chat, shown over the message box, taken back by its
// buttons. It goes only after an answer that ended well; after a stop or an error it returns to the box.

import { giveBackFiles, takeFiles } from "./attach.js";
import { giveBackText } from "./composer.js";
import { announce, $ } from "./dom.js";
import { t } from "./i18n.js";
import { emit, isRunning, on, state } from "./state.js";

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

function send(id) {
  const held = waiting.get(id);
  if (!held) return;
  const here = state.current?.id === id;
  if (here && isRunning(state.current)) return; // of several models that answer
  const last = here && state.current.messages.get(state.current.leaf_id);
  if (last?.status !== "done") { giveBack(id); return; } // it might have been meant otherwise
  waiting.delete(id);
  draw();
  emit("send-queued", held);
}
on("answer-end", (message) => send(message.conversation_id));
on("asked-all", send);

$("queued-edit").addEventListener("click", () => { giveBack(state.current.id); $("composer-text").focus(); });
$("queued-drop").addEventListener("click", () => { waiting.delete(state.current.id); draw(); $("composer-text").focus(); });
on("thread-drawn", draw);
