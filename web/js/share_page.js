// The page behind a read-only link, /s/TOKEN: one branch of a chat, without account, menu or anything that writes.

import { BlockWindow } from "./block_window.js";
import { handleCodeClick } from "./code.js";
import { copyText, el, $, icon } from "./dom.js";
import { bytes, isImage } from "./format.js";
import { date, loadStrings, t, translatePage } from "./i18n.js";
import { followFootnotes } from "./footnotes.js";
import { loadMarkdown, MarkdownView } from "./markdown.js";
import { whileLoading } from "./skeleton.js";
import { initTheme } from "./theme.js";

await loadStrings();

function reasoning(message) {
  if (!message.reasoning?.trim()) return null;
  const prose = el("div", { class: "prose" });
  const box = el("details", { class: "reasoning" }, el("summary", {}, t("shared.reasoning")), prose);
  box.addEventListener("toggle", () => { if (box.open && !prose.hasChildNodes()) new MarkdownView(prose).finish(message.reasoning); });
  return box;
}

function calls(message) {
  return (message.tool_calls || []).map((c) => el("div", { class: "call" }, el("div", { class: "call-name" }, c.function?.name || t("thread.call")),
    el("pre", { tabIndex: 0 }, String(c.function?.arguments ?? ""))));
}

const token = location.pathname.split("/").pop();

function file(f) {
  const href = `/api/shared/${token}/attachments/${f.sha256}`;
  return el("li", { class: "file" }, el("a", { class: "file-open", href, download: f.name, title: f.name },
    isImage(f) ? el("img", { class: "file-thumb", src: href, alt: "", loading: "lazy", width: 38, height: 38 }) : icon("file"),
    el("span", { class: "file-words" }, el("bdi", { class: "file-name" }, f.name), el("span", { class: "file-about" }, bytes(f.bytes)))));
}

function question(message) {
  const files = message.attachments?.length ? el("ul", { class: "files", ariaLabel: t("shared.files") }, ...message.attachments.map(file)) : null;
  return el("li", { class: "message user" }, el("h2", { class: "sr" }, t("shared.question")), files,
    message.content ? el("div", { class: "bubble", dir: "auto" }, message.content) : null);
}

/** What a tool gave: a text as it is, nobody's answer. */
function result(message) {
  return el("li", { class: "message" }, el("h2", { class: "sr" }, t("calls.result")),
    el("div", { class: "call" }, el("div", { class: "call-name" }, t("calls.result")), el("pre", { tabIndex: 0, dir: "auto" }, message.content)));
}

function block(message) {
  if (message.role === "user") return question(message);
  if (message.role === "tool") return result(message);
  const prose = el("div", { class: "prose answer", dir: "auto" });
  new MarkdownView(prose).finish(message.content);
  return el("li", { class: "message assistant" }, el("h2", { class: "sr" }, t("shared.answer")), reasoning(message), prose, ...calls(message));
}

function problem(text) {
  $("shared-problem").textContent = text;
  $("shared-problem").hidden = false;
}

async function load() {
  const [response] = await Promise.all([fetch(`/api/shared/${token}`, { credentials: "omit", cache: "no-store" }), loadMarkdown()]);
  if (!response.ok) return problem(response.status === 404 ? t("shared.gone") : response.status === 429 ? t("shared.busy") : t("shared.failed"));
  const shared = await response.json();
  const day = (ms) => date(ms, { dateStyle: "long" });
  $("shared-title").textContent = shared.title || t("shared.untitled");
  document.title = `${shared.title || t("shared.untitled")} · Sluice`;
  $("shared-when").textContent = [t("shared.when", { date: day(shared.shared_at) }), shared.expires_at ? t("shared.until", { date: day(shared.expires_at) }) : ""].join(" ").trim();
  const thread = new BlockWindow({ list: $("thread"), scroller: $("shared"), key: (m) => m.at, make: block });
  thread.set(shared.messages.map((m, at) => ({ ...m, at })));
  return undefined;
}

translatePage();
initTheme();
followFootnotes($("thread"));
$("thread").addEventListener("click", (event) => handleCodeClick(event, (text) => copyText(text)));
whileLoading($("shared"), "lines", load()).catch(() => problem(t("shared.failed")));
