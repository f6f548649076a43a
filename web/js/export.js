// The export dialog: this chat, those selected, or all, in one of six forms, with its true progress. Loaded when it is opened.

import { ApiError } from "./api.js";
import { $, el, sheet, toast } from "./dom.js";
import { bytes } from "./format.js";
import { loadStrings, t } from "./i18n.js";
import { state } from "./state.js";

await Promise.all([loadStrings(), sheet("export")]);

const FORMATS = [["json", "export.json", "export.jsonHint"], ["markdown", "export.markdown", "export.markdownHint"],
  ["html", "export.html", "export.htmlHint"], ["text", "export.text", "export.textHint"],
  ["jsonl", "export.jsonl", "export.jsonlHint"], ["zip", "export.zip", "export.zipHint"]];
const LARGE = 256 << 20; // what is larger goes straight to the browser's downloads, not through this page's memory
const MANY = 200000; // messages, where the length is not known
const ENTRY = [0x50, 0x4b, 3, 4]; // begins each file in a ZIP

function radio(name, value, label, checked, hint) {
  return el("label", { class: "export-choice" }, el("input", { type: "radio", name, value, checked }),
    el("span", {}, label, hint ? el("small", { class: "muted" }, hint) : null));
}

function group(label, ...choices) {
  return el("fieldset", { class: "export-group" }, el("legend", {}, label), ...choices);
}

function fileName(response) {
  const encoded = /filename\*=UTF-8''(\S+)/.exec(response.headers.get("content-disposition") || "")?.[1];
  return encoded ? decodeURIComponent(encoded) : "sluice-export";
}

/** A file that is there, or a path of the server, into the browser's downloads. */
function save(url, name = "") {
  const link = el("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
}

/** How many files of a ZIP have begun in the bytes so far; `held` are the last three of the piece before. */
function countEntries(held, piece) {
  let n = 0;
  const at = (i) => (i < held.length ? held[i] : piece[i - held.length]);
  for (let i = 0; i < held.length; i++) if (i + 3 < held.length + piece.length && ENTRY.every((b, k) => at(i + k) === b)) n++;
  for (let i = piece.indexOf(0x50); i >= 0 && i + 3 < piece.length; i = piece.indexOf(0x50, i + 1)) if (ENTRY.every((b, k) => piece[i + k] === b)) n++;
  return n;
}

/** A ZIP without its directory was cut off; nothing else tells. */
async function hasEnd(blob) {
  const end = new Uint8Array(await blob.slice(-22).arrayBuffer());
  return [0x50, 0x4b, 5, 6].every((b, i) => end[i] === b);
}

/** Reads all of it; onProgress(part of 1, bytes). */
async function receive(response, onProgress) {
  const length = Number(response.headers.get("content-length")) || 0;
  const files = Number(response.headers.get("x-export-files")) || 0;
  const reader = response.body.getReader();
  let parts = [];
  let bytes = 0;
  let entries = 0;
  let held = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    bytes += value.length;
    if (!length) {
      entries += countEntries(held, value);
      held = [...held, ...value.subarray(-3)].slice(-3);
    }
    if (parts.length > 256) parts = [new Blob(parts)]; // the browser keeps blobs where it likes, also on the disk
    onProgress(length ? bytes / length : files ? Math.min(1, entries / files) : 0, bytes);
  }
  const blob = new Blob(parts, { type: response.headers.get("content-type") });
  if ((length && bytes !== length) || (blob.type === "application/zip" && !await hasEnd(blob))) throw new ApiError(0);
  return blob;
}

async function begin(query, signal) {
  let response;
  try { response = await fetch(`/api/export?${query}`, { signal, credentials: "same-origin", cache: "no-store" }); } catch (cause) {
    throw cause.name === "AbortError" ? cause : new ApiError(0);
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await response.json().then((b) => b.error, () => null));
}

function isLarge(response) {
  return Number(response.headers.get("content-length")) > LARGE || Number(response.headers.get("x-export-messages")) > MANY;
}

/** One export at work: its bar, its end. */
async function run(dialog, query) {
  const stop = new AbortController();
  const bar = dialog.querySelector("progress");
  const say = (text) => { dialog.querySelector(".export-state").textContent = text; };
  dialog.querySelector(".form-error").hidden = true;
  dialog.dataset.busy = "";
  dialog.addEventListener("close", () => stop.abort(), { once: true });
  dialog.querySelector(".export-stop").onclick = () => stop.abort();
  bar.removeAttribute("value");
  say(t("export.preparing"));
  try {
    const response = await begin(query, stop.signal);
    if (isLarge(response)) {
      stop.abort();
      setTimeout(() => save(`/api/export?${query}`), 300); // once the server has seen that this one ended
      dialog.close();
      toast(t("export.byBrowser"), 5000);
      return;
    }
    const name = fileName(response);
    const blob = await receive(response, (part, got) => { bar.value = part; say(bytes(got)); });
    const url = URL.createObjectURL(blob);
    save(url, name);
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    dialog.close();
    toast(t("export.done", { name, size: bytes(blob.size) }), 5000);
  } catch (error) {
    if (error.name === "AbortError") { say(""); return; }
    const problem = dialog.querySelector(".form-error");
    problem.textContent = error.message;
    problem.hidden = false;
  } finally {
    delete dialog.dataset.busy;
  }
}

function build(selected) {
  const here = state.current?.id;
  const what = [
    ...(selected.length ? [radio("what", selected.join(","), t("export.selected", { n: selected.length }), true)] : []),
    ...(here ? [radio("what", here, t("export.this"), !selected.length)] : []),
    radio("what", "all", t("export.all"), !selected.length && !here, t("export.allHint")),
  ];
  const trash = el("label", { class: "export-choice" }, el("input", { type: "checkbox", name: "trash" }), el("span", {}, t("export.trash")));
  const form = el("form", {},
    el("h2", { id: "export-title" }, t("export.title")),
    group(t("export.what"), ...what, trash),
    group(t("export.format"), ...FORMATS.map(([name, key, hint], i) => radio("format", name, t(key), i === 0, t(hint)))),
    el("p", { class: "form-error", role: "alert", hidden: true }),
    el("div", { class: "export-progress" }, el("progress", { max: 1, ariaLabel: t("export.progress") }), el("span", { class: "export-state muted", role: "status" }),
      el("button", { type: "button", class: "quiet export-stop" }, t("common.cancel"))),
    el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, t("common.close")),
      el("button", { class: "primary export-start", type: "submit" }, t("export.start"))));
  const dialog = el("dialog", { id: "export-dialog", class: "dialog export", "aria-labelledby": "export-title" }, form);
  const all = () => form.elements.what.value === "all" || form.querySelector("[name=what]:checked")?.value === "all";
  form.addEventListener("change", () => { trash.hidden = !all(); });
  trash.hidden = !all();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if ("busy" in dialog.dataset) return; // Enter, while one is under way
    const data = new FormData(form);
    const query = new URLSearchParams({ format: data.get("format"), conversation: data.get("what") });
    if (data.get("what") === "all" && data.get("trash")) query.set("trash", "any");
    run(dialog, query);
  });
  return dialog;
}

/** selected: ids that were chosen in the list. */
export function exportDialog({ selected = [] } = {}) {
  $("export-dialog")?.remove();
  const dialog = build(selected);
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus?.(); });
  dialog.showModal();
}

/** All that belongs to the account, by the browser's own download. */
export function exportAccount() {
  save("/api/account/export");
  toast(t("export.byBrowser"), 5000);
}
