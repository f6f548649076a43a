// A project's window: name, colour, instructions, files. What is typed is saved by its button; files come and go at once.

import { call, upload } from "./api.js";
import { announce, el, icon, toast } from "./dom.js";
import { chip } from "./files_view.js";
import { bytes } from "./format.js";
import { t } from "./i18n.js";
import { sharedBy, sharingSection } from "./project_sharing.js";
import { whileLoading } from "./skeleton.js";
import { state } from "./state.js";

const COLOURS = 8;

class Window {
  constructor(project, doors) {
    this.project = project;
    this.own = project.access === "owner";
    this.sharing = el("div", { hidden: !this.own });
    this.doors = doors;
    this.sending = [];
    this.may = project.access !== "reader";
    this.name = el("input", { type: "text", maxLength: 64, required: true, value: project.name, dir: "auto", readOnly: !this.may });
    this.instructions = el("textarea", { rows: 5, maxLength: 16384, dir: "auto", readOnly: !this.may, value: project.instructions, placeholder: t("project.instructionsExample") });
    this.problem = el("p", { class: "form-error", role: "alert", hidden: true });
    this.list = el("ul", { class: "files", ariaLabel: t("project.files") });
    this.about = el("p", { class: "muted", role: "status" });
    this.picker = el("input", { type: "file", multiple: true, hidden: true });
    this.picker.addEventListener("change", () => { this.add([...this.picker.files]); this.picker.value = ""; });
    this.dialog = this.build();
  }

  build() {
    const colour = (n) => el("label", { data: { colour: String(n) } }, el("input", { type: "radio", name: "colour", value: String(n), checked: this.project.colour === n, disabled: !this.may, ariaLabel: t("project.colourN", { n: n + 1 }) }), el("span", { class: "i i-folder folder" }));
    const files = el("section", { class: "project-files", ariaLabel: t("project.files") }, el("h3", {}, t("project.files")), this.about, this.list,
      el("button", { type: "button", class: "quiet project-files-add", hidden: !this.may, on: { click: () => this.picker.click() } }, icon("plus"), t("project.addFiles")), this.picker);
    const carries = (event) => this.may && [...event.dataTransfer?.items || []].some((i) => i.kind === "file");
    files.addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); files.classList.add("is-target"); } });
    files.addEventListener("dragleave", () => files.classList.remove("is-target"));
    files.addEventListener("drop", (event) => { files.classList.remove("is-target"); if (carries(event)) { event.preventDefault(); this.add([...event.dataTransfer.files]); } });
    const form = el("form", { on: { submit: (event) => { event.preventDefault(); this.save(); } } },
      el("h2", { id: "project-title" }, t("project.edit")), this.own ? null : sharedBy(this.project),
      el("label", {}, el("span", {}, t("project.name")), this.name),
      el("fieldset", { class: "project-colours" }, el("legend", {}, t("project.colour")), ...Array.from({ length: COLOURS }, (_, n) => colour(n))),
      el("label", {}, el("span", {}, t("project.instructions")), this.instructions),
      files, this.sharing, this.problem,
      el("div", { class: "dialog-row" },
        el("button", { type: "button", class: "quiet danger", on: { click: async () => { if (await this.doors.remove(this.project)) this.dialog.close(); } } }, t(this.own ? "project.delete" : "projectSharing.leave")),
        el("button", { type: "button", class: "quiet", on: { click: () => this.dialog.close() } }, t("common.close")), this.may ? el("button", { class: "primary" }, t("common.save")) : null));
    const dialog = el("dialog", { id: "project-dialog", class: "dialog project-dialog" }, form);
    dialog.setAttribute("aria-labelledby", "project-title");
    dialog.addEventListener("close", () => { clearTimeout(this.timer); dialog.remove(); this.doors.changed().catch(() => {}); });
    return dialog;
  }

  open() {
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.draw();
    if (this.own) sharingSection(this.project, (error) => this.complain(error)).then((node) => this.sharing.replaceChildren(node), (error) => this.complain(error));
    (this.project.instructions ? this.name : this.instructions).focus();
  }

  complain(error) {
    this.problem.textContent = error?.message || "";
    this.problem.hidden = !error;
  }

  draw() {
    const { files } = this.project;
    const remove = (f) => async () => {
      try {
        await call("DELETE", `/api/projects/${this.project.id}/files/${f.id}`);
        announce(t("attach.removed", { name: f.name }));
        await this.read();
      } catch (error) { this.complain(error); }
    };
    this.list.replaceChildren(...files.map((f) => chip(f, { words: f.indexing ? t("project.indexing") : undefined, remove: this.may ? remove(f) : undefined })), ...this.sending.map((f) => chip(f, { words: f.problem || t("attach.uploading", { size: bytes(f.bytes) }), status: f.problem ? "failed" : "uploading", remove: f.problem ? () => { this.sending = this.sending.filter((x) => x !== f); this.draw(); } : undefined })));
    const tokens = files.reduce((n, f) => n + (f.tokens || 0), 0);
    const room = (state.status?.model?.n_ctx || 0) / 2;
    const searched = files.length && room && tokens > room ? ` ${this.searchWords()}` : "";
    this.about.textContent = (!files.length ? t("project.filesNone") : !room ? t("project.filesN", { n: files.length }) : t(tokens <= room ? "project.filesWhole" : "project.filesSearched", { n: tokens })) + searched;
    clearTimeout(this.timer);
    if (files.some((f) => f.indexing) || this.project.meaning_waiting) this.timer = setTimeout(() => this.read().catch(() => {}), 1000);
  }

  /** By what passages are found, and which are not yet. */
  searchWords() {
    const { search, meaning_waiting: n } = this.project;
    return search !== "meaning" ? t("project.byWords") : n ? `${t("project.byMeaning")} ${t("project.meaningWaiting", { n })}` : t("project.byMeaning");
  }

  async read() {
    this.project = await call("GET", `/api/projects/${this.project.id}`);
    this.draw();
  }

  async add(blobs) {
    this.complain(null);
    for (const blob of blobs) {
      const f = { name: blob.name, bytes: blob.size };
      this.sending.push(f);
      this.draw();
      try {
        const row = await upload(`/api/attachments?name=${encodeURIComponent(f.name)}`, blob, {});
        this.project = await call("POST", `/api/projects/${this.project.id}/files`, { attachment_id: row.id });
        this.sending = this.sending.filter((x) => x !== f);
        announce(t("attach.done", { name: f.name }));
      } catch (error) { f.problem = error.message.replace(/^(file|attachment_id): /, ""); announce(`${f.name}: ${f.problem}`); }
      this.draw();
    }
  }

  async save() {
    const colour = Number(new FormData(this.dialog.querySelector("form")).get("colour"));
    try {
      await call("PATCH", `/api/projects/${this.project.id}`, { name: this.name.value.trim(), instructions: this.instructions.value.trim(), colour });
      toast(t("project.saved"));
      this.dialog.close();
    } catch (error) { this.complain(error); }
  }
}

/** doors: {changed(), remove(project)}. */
export async function projectWindow(id, doors) {
  const waiting = el("dialog", { class: "dialog project-dialog is-coming", ariaLabel: t("project.edit") });
  document.body.append(waiting);
  let left = false;
  waiting.addEventListener("close", () => { left = true; });
  let project;
  try { project = await whileLoading(waiting, "lines", call("GET", `/api/projects/${id}`), () => waiting.showModal()); } finally { waiting.remove(); }
  if (!left) new Window(project, doors).open();
}
