// The command palette (Ctrl-K): chats by name or text, what can be done here, settings. One field, one list, arrow keys and Enter. Loaded when
// it is first opened.

import { call } from "./api.js";
import { el, $, announce, icon, rounds } from "./dom.js";
import { dayGroup } from "./format.js";
import { loadStrings, t } from "./i18n.js";
import { titleOf } from "./list_row.js";
import { shownKeysOf } from "./shortcuts.js";

await loadStrings();

const MOST = 8;       // chats
const PAUSE_MS = 120; // after a key, before the server is asked
let actions = [];

const matches = (label, words) => words.every((word) => label.toLowerCase().includes(word));

async function chats(typed) {
  const query = new URLSearchParams({ limit: String(MOST), ...(typed ? { q: typed, archived: "any" } : {}) });
  const { items } = await call("GET", `/api/conversations?${query}`);
  return items.map((c) => ({ label: titleOf(c), icon: "chat", note: dayGroup(c.updated_at), run: () => { location.hash = `#/c/${c.id}`; } }));
}

async function projects() {
  const { items } = await call("GET", "/api/projects");
  return items.map((p) => ({ label: p.name, icon: "folder", run: () => { location.hash = `#/p/${p.id}`; } }));
}

class Palette {
  constructor() {
    this.field = el("input", { type: "text", role: "combobox", autocomplete: "off", placeholder: t("palette.placeholder"), ariaLabel: t("palette.title"), ariaExpanded: "true",
      "aria-controls": "palette-list", "aria-autocomplete": "list" });
    this.list = el("ul", { id: "palette-list", class: "palette-list", role: "listbox", ariaLabel: t("palette.title") });
    this.dialog = el("dialog", { id: "palette", class: "dialog palette", ariaLabel: t("palette.title") },
      el("div", { class: "palette-field" }, icon("search"), this.field), this.list);
    this.found = [];
    this.projects = [];
    this.timer = 0;
    this.begin = rounds();
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener("close", () => { clearTimeout(this.timer); this.begin(); this.dialog.remove(); });
  }

  open() {
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.field.focus();
    this.list.ariaBusy = "true";
    this.draw([]);
    this.ask("");
    projects().then((all) => { this.projects = all; if (this.dialog.open && all.length) this.draw(this.chats); }, () => {});
  }

  get typed() { return this.field.value.trim(); }
  get words() { return this.typed.toLowerCase().split(/\s+/).filter(Boolean); }

  search() {
    clearTimeout(this.timer);
    this.begin(); // what the server still answers was asked for other words
    this.list.ariaBusy = "true";
    this.draw(this.chats.filter((c) => matches(c.label, this.words))); // until the server has looked: none that Enter would open by mistake
    this.timer = setTimeout(() => this.ask(this.typed), PAUSE_MS);
  }

  async ask(typed) {
    const counts = this.begin();
    let found = [], failed = "";
    try { found = await chats(typed); } catch (error) { failed = error.message; } // the actions are there without the server
    if (!counts()) return;
    this.list.removeAttribute("aria-busy");
    this.draw(found, failed);
  }

  /** failed: why the chats could not be searched. */
  draw(found, failed = "") {
    this.chats = found;
    const { words } = this;
    const can = actions.filter((a) => (!a.can || a.can()) && matches(a.label, words));
    const groups = [["palette.chats", words.length ? found : found.slice(0, 4)], ["palette.projects", this.projects.filter((p) => matches(p.label, words)).slice(0, MOST)], ["palette.actions", can.filter((a) => a.group !== "settings")], ["palette.settings", can.filter((a) => a.group === "settings")]];
    this.found = groups.flatMap(([, items]) => items);
    let i = 0;
    this.list.replaceChildren(...groups.filter(([, items]) => items.length).flatMap(([name, items]) => [
      el("li", { role: "presentation" }, t(name)),
      ...items.map((item) => this.option(item, i++)),
    ]));
    const busy = this.list.ariaBusy === "true"; // that there is nothing is not known yet
    if (!this.found.length || failed) this.list.append(el("li", { class: "palette-empty", role: "presentation" }, failed || t(busy ? "palette.searching" : "palette.nothing")));
    if (failed || !busy) announce(failed || t("palette.found", { n: this.found.length }));
    this.mark(0);
  }

  option(item, i) {
    return el("li", { id: `palette-${i}`, role: "option", on: { click: () => this.choose(i), pointermove: () => { if (this.at !== i) this.mark(i, false); } } },
      icon(item.icon), el("span", { class: "palette-words", dir: "auto" }, item.label), item.keys ? el("small", {}, ...shownKeysOf(item.keys)) : item.note ? el("small", {}, item.note) : null);
  }

  mark(i, scroll = true) {
    const all = [...this.list.querySelectorAll("[role=option]")];
    this.at = all.length ? (i + all.length) % all.length : -1;
    all.forEach((node, k) => node.setAttribute("aria-selected", String(k === this.at)));
    if (this.at < 0) { this.field.removeAttribute("aria-activedescendant"); return; }
    this.field.setAttribute("aria-activedescendant", `palette-${this.at}`);
    if (scroll) all[this.at].scrollIntoView({ block: "nearest" });
  }

  choose(i) {
    const item = this.found[i];
    if (!item) return;
    this.dialog.close();
    item.run();
  }

  key(event) {
    if (event.isComposing) return;
    const last = this.found.length - 1;
    if (event.key === "ArrowDown") this.mark(this.at + 1);
    else if (event.key === "ArrowUp") this.mark(this.at - 1);
    else if (event.key === "Home" && !this.field.value) this.mark(0);
    else if (event.key === "End" && !this.field.value) this.mark(last);
    else if (event.key === "Enter") this.choose(this.at);
    else return;
    event.preventDefault();
  }
}

/** all: what can be done, {label, icon, group, keys, can(), run()}. */
export function openPalette(all) {
  actions = all;
  if ($("palette")?.open) return;
  $("palette")?.remove(); // one that was closed stays until the browser says so
  new Palette().open();
}
