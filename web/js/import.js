// The import dialog: a file is picked or dropped, looked through without writing (what is new, what is known, what is wrong),
// and only then imported, with its progress. Loaded when it is opened.

import { upload } from "./api.js";
import { $, announce, el, icon, sheet, toast } from "./dom.js";
import { number, loadStrings, t } from "./i18n.js";
import { emit } from "./state.js";

await Promise.all([loadStrings(), sheet("import")]);

const SENT = 0.3; // of the bar: the way up; the rest is the reading

const NAMES = { sluice: "import.sluice", chatgpt: "import.chatgpt", claude: "import.claude", openwebui: "import.openwebui", librechat: "import.librechat", llamacpp: "import.page",
  openai: "import.openaiChat", mixed: "import.mixed" };

function formatName(format) {
  return NAMES[format] ? t(NAMES[format]) : "–";
}

function percent(part) {
  return number(part, { style: "percent", maximumFractionDigits: 0 });
}

/** One way through the file; resolves with its report. */
async function run(dialog, file, dryRun) {
  const stop = new AbortController();
  const bar = dialog.querySelector("progress");
  const say = (text) => { dialog.querySelector(".import-state").textContent = text; };
  let report = null;
  dialog.addEventListener("close", () => stop.abort(), { once: true });
  dialog.querySelector(".import-stop").onclick = () => stop.abort();
  dialog.dataset.busy = "";
  bar.value = 0;
  say(t("import.sending", { part: percent(0) }));
  try {
    await upload(`/api/import?events=1&dry_run=${dryRun ? 1 : 0}`, file, {
      signal: stop.signal,
      progress: (part) => {
        bar.value = SENT * part;
        say(t("import.sending", { part: percent(part) }));
      },
      onEvent: ({ event, data }) => {
        if (event === "done") { report = data; return; }
        bar.value = SENT + (1 - SENT) * data.bytes / data.total_bytes;
        say(dryRun ? t("import.reading", { n: data.conversations }) : t("import.importing", { n: data.imported }));
      },
    });
    return report;
  } finally {
    delete dialog.dataset.busy;
    say("");
  }
}

function row(label, value, bad) {
  return value ? [el("dt", {}, label), el("dd", { class: bad ? "bad" : "" }, value)] : [];
}

function problems(report) {
  const n = report.problems.length + report.problems_left_out;
  if (!n) return null;
  const list = report.problems.map((p) => el("li", {}, el("code", {}, p.path ? `${p.item} ${p.path}` : p.item), ` ${/^this is not a conversation/.test(p.reason) ? t("import.notChat") : p.reason}`)); // others name what is wrong with a field, as the file writes it
  if (report.problems_left_out) list.push(el("li", {}, t("import.more", { n: report.problems_left_out })));
  return el("details", { class: "import-problems", open: n <= 5 }, el("summary", {}, t("import.problems", { n })), el("ul", {}, ...list));
}

function show(report) {
  const nothing = report.imported === 0;
  if (!report.format) return el("p", { class: "form-error" }, t(report.stopped ? "import.cut" : "serverErrors.import_unknown")); // nothing in it was understood
  return el("div", {},
    el("p", {}, t("import.look")),
    el("dl", { class: "import-counts" },
      ...row(t("import.format"), formatName(report.format)),
      ...row(t("import.new"), nothing ? "" : `${t("import.found", { n: report.imported })}, ${t("import.messages", { n: report.messages })}`),
      ...row(t("import.known"), report.duplicates ? t("import.found", { n: report.duplicates }) : ""),
      ...row(t("import.failed"), report.failed ? t("import.found", { n: report.failed }) : "", true),
      ...row(t("import.missing"), report.attachments_missing ? number(report.attachments_missing) : ""),
      ...row(t("import.replaced"), report.replaced_characters ? number(report.replaced_characters) : "")),
    report.stopped ? el("p", { class: "form-error" }, t("import.cut")) : null,
    problems(report),
    nothing && !report.stopped && !report.failed ? el("p", {}, t("import.nothing")) : null);
}

function fail(dialog, text) {
  const problem = dialog.querySelector(".form-error[role=alert]");
  problem.textContent = text;
  problem.hidden = !text;
}

/** Looks through the file and offers to import what is new. */
async function look(dialog, file) {
  const start = dialog.querySelector(".import-start");
  const out = dialog.querySelector(".import-report");
  fail(dialog, "");
  out.replaceChildren();
  start.hidden = true;
  dialog.querySelector(".import-name").textContent = file.name;
  try {
    const report = await run(dialog, file, true);
    out.replaceChildren(show(report));
    announce(out.innerText);
    start.hidden = report.imported === 0;
    if (start.hidden) return;
    start.textContent = t("import.start", { n: report.imported });
    start.onclick = () => write(dialog, file);
    start.focus();
  } catch (error) {
    if (error.name !== "AbortError") fail(dialog, error.message);
  }
}

async function write(dialog, file) {
  fail(dialog, "");
  dialog.querySelector(".import-start").hidden = true;
  try {
    const report = await run(dialog, file, false);
    emit("imported", report);
    if (report.stopped) {
      fail(dialog, t("import.stoppedAt", { n: report.imported }));
      return;
    }
    dialog.close();
    toast([t("import.done", { n: report.imported }), report.without_project ? t("import.withoutProject", { n: report.without_project }) : ""].filter(Boolean).join(" "), 7000);
  } catch (error) {
    emit("imported", null); // some may have come in
    fail(dialog, error.name === "AbortError" ? "" : error.message);
  }
}

function build() {
  const input = el("input", { type: "file", class: "import-input", "aria-label": t("import.file"), accept: ".json,.jsonl,.zip,application/json,application/zip" });
  const zone = el("label", { class: "import-zone" }, icon("import"), el("span", {}, t("import.drop")), el("span", { class: "import-pick" }, t("import.pick")),
    el("span", { class: "import-name muted" }), input);
  const dialog = el("dialog", { id: "import-dialog", class: "dialog import", "aria-labelledby": "import-title" },
    el("h2", { id: "import-title" }, t("import.title")),
    el("p", { class: "muted" }, t("import.intro")), zone,
    el("p", { class: "form-error", role: "alert", hidden: true }),
    el("div", { class: "import-progress" }, el("progress", { max: 1, ariaLabel: t("import.progress") }), el("span", { class: "import-state muted", role: "status" }),
      el("button", { type: "button", class: "quiet import-stop" }, t("common.cancel"))),
    el("div", { class: "import-report" }),
    el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, t("common.close")),
      el("button", { type: "button", class: "primary import-start", hidden: true })));
  const take = (files) => { if (files?.length && dialog.dataset.busy === undefined) look(dialog, files[0]); };
  input.addEventListener("change", () => { take(input.files); });
  input.addEventListener("click", () => { input.value = ""; }); // the same file again is a change, too
  dialog.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  dialog.addEventListener("dragleave", (event) => { if (!dialog.contains(event.relatedTarget)) zone.classList.remove("over"); });
  dialog.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer.files);
  });
  return dialog;
}

export function importDialog() {
  $("import-dialog")?.remove();
  const dialog = build();
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus?.(); });
  dialog.showModal();
}
