// Attached files as they are shown: chips in the composer and in messages, and a dialog with what is inside.

import { call, text as fetchText } from "./api.js";
import { el, icon, $ } from "./dom.js";
import { bytes, isImage } from "./format.js";
import { t } from "./i18n.js";
import { state } from "./state.js";

const SHOWN = 200_000; // characters of a text in the dialog; all of it is a download

const content = (file) => `/api/attachments/${file.id}/content`;

/** Size and tokens; those only while they are the present model's. */
function about(file) {
  const counted = Number.isInteger(file.tokens) && (!file.model || file.model === (state.status?.model?.id ?? file.model));
  return [file.bytes === undefined ? "" : bytes(file.bytes), counted ? t("thread.tokens", { n: file.tokens }) : ""].filter(Boolean).join(" · ");
}

/** One file. words: instead of size and tokens. remove: what its button does; none without. */
export function chip(file, { words, remove, status = "ready" } = {}) {
  const known = Boolean(file.id);
  const picture = known && isImage(file);
  const open = el("button", { type: "button", class: "file-open", disabled: !known, title: file.note || file.name,
    on: { click: () => openFile(file) } },
  picture ? el("img", { class: "file-thumb", src: content(file), alt: "", loading: "lazy", width: 38, height: 38 }) : icon("file"),
  el("span", { class: "file-words" }, el("bdi", { class: "file-name" }, file.name), el("span", { class: "file-about" }, words || about(file))));
  return el("li", { class: "file", data: { state: status } }, open,
    remove && el("button", { type: "button", class: "icon-button file-remove", ariaLabel: t("attach.remove", { name: file.name }), on: { click: remove } }, icon("close")));
}

/** The files of a message. */
export function drawFiles(list, files) {
  list.replaceChildren(...(files || []).map((f) => chip(f)));
}

/** The same to be edited: {list, ids()}. */
export function editableFiles(files) {
  const kept = new Map((files || []).map((f) => [f.id, f]));
  const list = el("ul", { class: "files", ariaLabel: t("attach.list") });
  const draw = () => list.replaceChildren(...[...kept.values()].map((f) => chip(f, { remove: () => { kept.delete(f.id); draw(); } })));
  draw();
  return { list, ids: () => [...kept.keys()] };
}

async function inside(file) {
  if (isImage(file)) return el("img", { src: content(file), alt: file.name });
  const all = await fetchText(`/api/attachments/${file.id}/text`);
  const pre = el("pre", { dir: "auto" });
  pre.textContent = all.length > SHOWN ? `${all.slice(0, SHOWN)}…` : all;
  return pre;
}

async function lookAt(file) {
  const now = await call("GET", `/api/attachments/${file.id}`); // is it still there, and what was it read as?
  return { about: now, node: await inside(file) };
}

let previews = 0; // how often one was opened

/** look: what is shown of it, {about, node}; else what the server has. */
export async function openFile(file, look = lookAt) {
  const mine = ++previews;
  const dialog = $("file-dialog");
  $("file-title").textContent = file.name;
  $("file-about").textContent = [about(file), file.note].filter(Boolean).join(" · ");
  const download = (f) => Object.assign($("file-download"), { href: content(f), download: f.name, hidden: !f.id });
  download(file);
  $("file-body").replaceChildren(el("p", { class: "muted" }, t("attach.loading")));
  dialog.showModal();
  try {
    const { about: now, node } = await look(file);
    if (!dialog.open || mine !== previews) return;
    if (now) download(now);
    if (now) $("file-about").textContent = [about(now), now.type, now.note].filter(Boolean).join(" · ");
    $("file-body").replaceChildren(node);
  } catch (error) {
    if (mine === previews) $("file-body").replaceChildren(el("p", { class: "form-error", role: "alert" }, error.message));
  }
}
