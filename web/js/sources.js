// The sources under an answer in a project: files and passages with their numbers, each of which opens the file at its place. Loaded
// with the first such answer.

import { call, text as fetchText } from "./api.js";
import { el, icon } from "./dom.js";
import { openFile } from "./files_view.js";
import { t } from "./i18n.js";
import { plainText } from "./list_row.js";
import "./project_style.js";
import { state } from "./state.js";

const BEFORE = 60, SNIPPET = 240; // characters
const AROUND = 60_000; // bytes of a long text on either side of a passage

/** Those of the answer, or of the one before the calls that it follows. */
function sourcesOf(message) {
  for (let m = message; m && m.role !== "user"; m = state.current?.messages.get(m.parent_id)) {
    const { files = [], passages = [] } = m.sources || {};
    if (files.length || passages.length) return m.sources;
  }
  return null;
}

/** The project's file with the content that the answer was given; undefined: it is there no more. */
async function fileOf(source) {
  const id = state.current?.project_id;
  if (!id) return undefined;
  try { return (await call("GET", `/api/projects/${id}`)).files.find((f) => f.sha256 === source.sha256); } catch (error) {
    if (error.status !== 404) throw error;
    return undefined;
  }
}

/** The file's text with the passage marked. */
async function place(source, file) {
  const pre = el("pre", { dir: "auto" });
  if (source.start === undefined) {
    pre.textContent = (await fetchText(`/api/attachments/${file.id}/text`)).slice(0, 4 * AROUND);
    return pre;
  }
  const all = new TextEncoder().encode(await fetchText(`/api/attachments/${file.id}/text`));
  const part = (from, to) => new TextDecoder().decode(all.slice(Math.max(0, from), to)).replace(/^\ufffd+|\ufffd+$/g, "");
  const mark = el("mark", {}, part(source.start, source.end));
  pre.append(source.start > AROUND ? "…" : "", part(source.start - AROUND, source.start), mark, part(source.end, source.end + AROUND), source.end + AROUND < all.length ? "…" : "");
  requestAnimationFrame(() => mark.scrollIntoView({ block: "center" }));
  return pre;
}

function show(source) {
  openFile({ name: source.name }, async () => {
    const file = await fileOf(source);
    if (file) return { about: file, node: await place(source, file) };
    return { node: el("div", {}, el("p", { class: "muted source-gone" }, t(source.text ? "sources.gone" : "sources.goneWhole")), source.text ? el("pre", { dir: "auto" }, source.text) : null) };
  });
}

/** "[2]" in the text becomes a button, unless it stands in code or a link. */
function link(answer, byNumber) {
  const walker = document.createTreeWalker(answer, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walker.nextNode());) if (/\[\d{1,4}\]/.test(node.data) && !node.parentElement.closest("pre, code, a, button, .katex")) found.push(node);
  for (const node of found) {
    const parts = node.data.split(/\[(\d{1,4})\]/);
    if (!parts.some((n, i) => i % 2 && byNumber.has(Number(n)))) continue;
    node.replaceWith(...parts.map((part, i) => {
      const source = i % 2 ? byNumber.get(Number(part)) : null;
      if (!source) return i % 2 ? `[${part}]` : part;
      return el("button", { class: "cite", type: "button", title: source.name, ariaLabel: t("sources.open", { n: source.n, name: source.name }), on: { click: () => show(source) } }, String(source.n));
    }));
  }
}

/** The passage's text from shortly before the longest word of the question that stands in it. */
function snippet(text, question) {
  const line = plainText(text).trim();
  const words = (question.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) || []).sort((a, b) => b.length - a.length);
  const at = Math.max(0, ...words.map((word) => line.toLowerCase().indexOf(word)).filter((i) => i >= 0).slice(0, 1));
  const from = at > BEFORE ? line.indexOf(" ", at - BEFORE) + 1 : 0;
  return (from ? "…" : "") + line.slice(from, from + SNIPPET);
}

function questionOf(message) {
  let m = message;
  while (m && m.role !== "user") m = state.current?.messages.get(m.parent_id);
  return m?.content || "";
}

function row(source, question) {
  return el("li", {}, el("button", { class: "source", type: "button", ariaLabel: t("sources.open", { n: source.n, name: source.name }), on: { click: () => show(source) } },
    el("span", { class: "source-number" }, String(source.n)), el("bdi", { class: "source-name" }, source.name),
    source.text ? el("span", { class: "source-text", dir: "auto" }, snippet(source.text, question)) : null));
}

/** Under an answer that has ended; again, when it is drawn again. */
export function drawSources(root, message) {
  const sources = sourcesOf(message);
  root.querySelector(".sources")?.remove();
  if (!sources || message.status === "running" || !message.content) return;
  const all = [...sources.files, ...sources.passages];
  link(root.querySelector(".answer"), new Map(all.map((s) => [s.n, s])));
  root.querySelector(".answer").after(el("details", { class: "sources" },
    el("summary", {}, icon("chevron"), t(sources.passages.length ? "sources.passages" : "sources.files", { n: all.length }), sources.indexing ? ` · ${t("project.indexing")}` : ""),
    el("ol", {}, ...all.map((s) => row(s, questionOf(message))))));
}
