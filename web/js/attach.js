// Files for the message that is being written: picked, dropped or pasted, uploaded at once, and kept beside the draft of their chat.

import { call, upload } from "./api.js";
import { announce, el, $, toast } from "./dom.js";
import { chip } from "./files_view.js";
import { bytes, isImage } from "./format.js";
import { t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const MOST = 20;           // of one message
const PASTE_AS_FILE = 6000; // characters; a shorter text is pasted into the box
let files = [];            // {name, bytes, state: uploading|ready|image|failed, id, ..., abort, progress}
let looks = 0;
let sees = false;          // the model that answers here takes pictures
let draftOf = null;        // whose files these are; null: before the first chat is shown
const list = $("files");

// --- what is there ----------------------------------------------------------------------------------------------------

const isReady = (f) => f.state === "ready" || (f.state === "image" && sees);

/** How many there are, and whether they could be sent as they are. */
export function attached() {
  return { n: files.length, ready: files.every(isReady) };
}

/** The ids of those that are there already. */
export function readyIds() {
  return files.filter((f) => f.state === "ready").map((f) => f.id);
}

/** Takes them out for sending: the records, whose ids go into the message. */
export function takeFiles() {
  const taken = files;
  set([]);
  return taken;
}

/** Back again to their chat, when the message was not sent. */
export function giveBackFiles(key, taken) {
  if (!taken.length) return;
  if (draftOf === key) set([...taken, ...files]);
  else store(key, [...taken, ...stored(key)]);
}

/** What is shown belongs to this chat from now on. */
export function moveFiles(key) {
  store(draftOf, []);
  draftOf = key;
}

export function forgetFiles() {
  for (const f of [...waiting.values(), files].flat()) f.abort?.abort();
  waiting.clear();
  draftOf = null;
  set([]);
}

function set(now) {
  files = now;
  draw();
  emit("files-changed");
}

/** Puts away the files of a chat's draft, and shows another's. Those that are still on their way go on and find their place. */
export function showFilesOf(key) {
  store(draftOf, files);
  draftOf = key;
  set(stored(key));
}

const waiting = new Map(); // drafts with uploads under way: they live as long as the page
function store(key, all) {
  if (key === null) return;
  if (all.some((f) => f.state === "uploading")) waiting.set(key, all);
  else waiting.delete(key);
  const done = all.filter((f) => f.id).map(({ id, name, bytes, type, tokens, model, note, state: s }) => ({ id, name, bytes, type, tokens, model, note, state: s }));
  try {
    if (done.length) sessionStorage.setItem(`files:${key}`, JSON.stringify(done));
    else sessionStorage.removeItem(`files:${key}`);
  } catch { /* private mode */ }
}

function stored(key) {
  if (waiting.has(key)) return waiting.get(key);
  try { return JSON.parse(sessionStorage.getItem(`files:${key}`)) || []; } catch { return []; }
}

// --- chips --------------------------------------------------------------------------------------------------------------

function draw() {
  list.replaceChildren(...files.map(chipOf));
}

function chipOf(f) {
  const words = f.state === "uploading" ? t("attach.uploading", { size: bytes(f.bytes) }) : f.state === "failed" ? f.problem
    : f.state === "image" && !sees ? t("attach.imageRefused") : undefined;
  const node = chip(f, { words, status: isReady(f) ? "ready" : f.state, remove: () => remove(f) });
  if (f.state === "uploading") node.append(f.bar = el("progress", { max: 1, value: f.progress || 0, ariaLabel: t("attach.progress", { name: f.name }) }));
  return node;
}

function remove(f) {
  const at = files.indexOf(f);
  f.abort?.abort();
  // A file that a message has, taken along for an edit, stays: the server says so.
  if (f.id) call("DELETE", `/api/attachments/${f.id}`).catch(() => {});
  set(files.filter((other) => other !== f));
  (list.children[Math.min(at, files.length - 1)]?.querySelector(".file-remove") || $("composer-text")).focus();
  announce(t("attach.removed", { name: f.name }));
}

/** Asks whether the chosen model takes pictures, where there are some: the server's own does not. */
async function look() {
  const mine = ++looks;
  const { model } = state.current?.settings || state.draftSettings;
  let now = false;
  if (model && files.some((f) => f.state === "image")) {
    try { now = Boolean((await call("GET", `/v1/models/${encodeURIComponent(model)}`)).sluice?.vision); } catch { /* it is gone */ }
  }
  if (mine !== looks || now === sees) return;
  sees = now;
  draw();
  emit("files-changed");
}
for (const name of ["thread-drawn", "settings-changed"]) on(name, look);

// --- uploading ------------------------------------------------------------------------------------------------------------

// The server reads a few files of a user at a time and refuses others: those that come together go two by two.
const line = [];
let going = 0;
function sendNext() {
  while (going < 2 && line.length) {
    going++;
    send(...line.shift()).finally(() => { going--; sendNext(); });
  }
}

async function send(f, blob) {
  if (f.abort.signal.aborted) return;
  const key = draftOf;
  try {
    const row = await upload(`/api/attachments?name=${encodeURIComponent(f.name)}`, blob, {
      signal: f.abort.signal,
      progress: (share) => { f.progress = share; if (f.bar) f.bar.value = share; },
    });
    Object.assign(f, row, { state: isImage(row) ? "image" : "ready" });
    await look();
    announce(t("attach.done", { name: f.name }));
  } catch (error) {
    if (error.name === "AbortError") return;
    f.state = "failed";
    f.problem = error.message.replace(/^file: /, "");
    announce(`${f.name}: ${f.problem}`);
  }
  f.abort = f.bar = null;
  if (draftOf === key || files.includes(f)) { store(draftOf, files); draw(); emit("files-changed"); } else store(key, stored(key));
}

export function addFiles(blobs) {
  const room = MOST - files.length;
  if (blobs.length > room) toast(t("attach.tooMany", { n: MOST }), 5000);
  const fresh = [...blobs].slice(0, Math.max(0, room)).map((blob) => [blob, {
    name: blob.name || t("attach.unnamed"), bytes: blob.size, state: "uploading", progress: 0, abort: new AbortController(),
  }]);
  set([...files, ...fresh.map(([, f]) => f)]);
  line.push(...fresh.map(([blob, f]) => [f, blob]));
  sendNext();
}

// --- ways in --------------------------------------------------------------------------------------------------------------

$("attach-input").addEventListener("change", (event) => {
  addFiles(event.target.files);
  event.target.value = ""; // so that the same file can be chosen again
  $("composer-text").focus();
});

$("composer-text").addEventListener("paste", (event) => {
  const data = event.clipboardData;
  const text = data.getData("text/plain");
  if (data.files.length && !text) {
    event.preventDefault();
    addFiles(data.files);
  } else if (text.length > PASTE_AS_FILE) {
    event.preventDefault();
    addFiles([new File([text], t("attach.pasted"), { type: "text/plain" })]);
    toast(t("attach.pastedAsFile"), 4000);
  }
});

let inside = 0; // elements under the pointer that were entered and not left
const carries = (event) => [...event.dataTransfer?.items || []].some((i) => i.kind === "file") && !$("app").hidden && !document.querySelector("dialog[open]");
const showDrop = (shown) => { $("drop").hidden = !shown; };
addEventListener("dragenter", (event) => { if (carries(event)) { inside++; showDrop(true); } });
addEventListener("dragleave", (event) => { if (carries(event) && --inside <= 0) { inside = 0; showDrop(false); } });
addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } });
addEventListener("drop", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  inside = 0;
  showDrop(false);
  addFiles([...event.dataTransfer.items].filter((i) => i.kind === "file" && !i.webkitGetAsEntry?.()?.isDirectory).map((i) => i.getAsFile()).filter(Boolean));
  $("composer-text").focus();
});
addEventListener("pagehide", () => store(draftOf, files));
