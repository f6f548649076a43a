// Everything that a user can set, in one window: sections at the left, as tabs; a search that finds a setting by its words. On a phone
// the sections are a list, and each of them a page with a way back. Loaded when it is first opened; other modules and the address
// (#settings/SECTION) open it by openSettings().

import { announce, el, icon, rounds, sheet } from "../dom.js";
import { fold } from "../fold.js";
import { loadStrings, t } from "../i18n.js";
import { whileLoading } from "../skeleton.js";
import { SECTIONS } from "./sections.js";

await loadStrings();

const MOST = 12; // results
const PHONE = matchMedia("(max-width: 700px)");
const plain = (text) => fold(text).normalize("NFD").replace(/\p{M}/gu, ""); // found without its accents too
let shown = null; // the window that is open

class Window {
  constructor() {
    this.begin = rounds();
    this.field = el("input", { type: "search", autocomplete: "off", placeholder: t("settingsWindow.search"), ariaLabel: t("settingsWindow.search"), on: {
      input: () => this.search(), keydown: (event) => this.fieldKey(event) } });
    this.tabs = SECTIONS.map((s) => el("button", { id: `settings-tab-${s.id}`, type: "button", role: "tab", class: "settings-tab", tabIndex: -1, "aria-controls": "settings-panel", data: { section: s.id },
      on: { click: () => this.open(s.id) } }, icon(s.icon), el("span", {}, t(s.title)), icon("right")));
    this.list = el("div", { class: "settings-tabs", role: "tablist", ariaLabel: t("settingsWindow.sections"), "aria-orientation": "vertical", on: { keydown: (event) => this.tabKey(event) } }, ...this.tabs);
    this.found = el("ul", { class: "settings-found", ariaLabel: t("settingsWindow.results"), hidden: true });
    this.panel = el("div", { id: "settings-panel", class: "settings-panel", role: "tabpanel", tabIndex: 0 });
    this.title = el("h3", { id: "settings-section", tabIndex: -1 });
    this.back = el("button", { class: "icon-button settings-back", type: "button", ariaLabel: t("settingsWindow.back"), on: { click: () => this.goBack() } }, icon("left"));
    this.dialog = el("dialog", { id: "settings-window", class: "dialog settings-window", "aria-labelledby": "settings-window-title", on: { close: () => { this.begin(); if (shown === this) shown = null; this.dialog.remove(); } } },
      el("div", { class: "settings-side" }, el("h2", { id: "settings-window-title", tabIndex: -1, autofocus: true }, t("settingsWindow.title")),
        el("div", { class: "settings-search" }, icon("search"), this.field), this.list, this.found),
      el("div", { class: "settings-main" }, el("div", { class: "settings-head" }, this.back, this.title), this.panel));
    this.dialog.addEventListener("pointerdown", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  /** at: the setting in it that is wanted. */
  async open(id, at = "", focus = true) {
    const section = SECTIONS.find((s) => s.id === id) || SECTIONS[0];
    const counts = this.begin();
    for (const tab of this.tabs) {
      const here = tab.dataset.section === section.id;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
    }
    this.dialog.dataset.view = "section";
    this.dialog.dataset.section = section.id;
    this.title.textContent = t(section.title);
    this.panel.setAttribute("aria-labelledby", `settings-tab-${section.id}`);
    const body = el("div", { class: `settings-body settings-${section.id}` });
    this.panel.replaceChildren(body);
    this.panel.scrollTop = 0;
    if (focus && PHONE.matches) this.title.focus();
    try {
      const drawn = async () => {
        const module = await section.load();
        if (counts()) await module.draw(body, { close: () => this.dialog.close(), open: (other) => this.open(other) });
      };
      await whileLoading(this.panel, "lines", drawn());
      body.dataset.drawn = "";
    } catch (error) { if (counts()) body.replaceChildren(el("p", { class: "form-error", role: "alert" }, error.status === undefined ? t("errors.unreachable") : error.message)); }
    if (counts() && at) this.pointAt(body.querySelector(at));
  }

  /** What was searched for: seen, marked, with the keyboard in it. */
  pointAt(node) {
    if (!node) return;
    const folded = node.closest("details");
    if (folded) folded.open = true;
    const line = node.closest(".pref, label, .security-part") || node;
    line.scrollIntoView({ block: "center" });
    line.classList.add("is-found");
    const target = node.matches("input, select, textarea, button") ? node : node.querySelector("input, select, textarea, button");
    if (target) target.focus({ preventScroll: true });
    else this.title.focus();
  }

  goBack() {
    this.dialog.dataset.view = "list";
    this.tabs.find((tab) => tab.tabIndex === 0)?.focus();
  }

  tabKey(event) {
    const at = this.tabs.indexOf(document.activeElement);
    const last = this.tabs.length - 1;
    const to = { ArrowDown: at < last ? at + 1 : 0, ArrowUp: at > 0 ? at - 1 : last, Home: 0, End: last }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    this.tabs[to].focus();
    if (!PHONE.matches) this.open(this.tabs[to].dataset.section);
  }

  /** Every word must stand in the setting's own words or in its section's name; those in whose label they stand come first. */
  find(words) {
    const all = SECTIONS.flatMap((section) => section.entries.map((entry) => {
      const label = plain(t(entry.label));
      const text = [label, ...[section.title, ...entry.more].map((key) => plain(t(key)))].join(" ");
      return { section, entry, rank: words.every((w) => label.includes(w)) ? 0 : words.every((w) => text.includes(w)) ? 1 : 2 };
    }));
    return all.filter((x) => x.rank < 2).sort((a, b) => a.rank - b.rank).slice(0, MOST);
  }

  search() {
    const words = plain(this.field.value).split(/\s+/).filter(Boolean);
    this.list.hidden = words.length > 0;
    this.found.hidden = !words.length;
    if (!words.length) return;
    const results = this.find(words);
    this.found.replaceChildren(...results.map(({ section, entry }) => el("li", {}, el("button", { type: "button", class: "settings-result", on: {
      click: () => { this.field.value = ""; this.search(); this.open(section.id, entry.at); }, keydown: (event) => this.resultKey(event) } },
    el("b", {}, t(entry.label)), el("small", { class: "muted" }, t(section.title))))));
    if (!results.length) this.found.append(el("li", { class: "muted settings-none" }, t("palette.nothing")));
    announce(t("settingsWindow.found", { n: results.length }));
  }

  resultButtons() { return [...this.found.querySelectorAll("button")]; }

  fieldKey(event) {
    const results = this.resultButtons();
    if (event.key === "Escape" && this.field.value) { event.preventDefault(); event.stopPropagation(); this.field.value = ""; this.search(); return; }
    if (!results.length || this.found.hidden) return;
    if (event.key === "ArrowDown") results[0].focus();
    else if (event.key === "Enter") results[0].click();
    else return;
    event.preventDefault();
  }

  resultKey(event) {
    const results = this.resultButtons();
    const at = results.indexOf(document.activeElement);
    if (event.key === "ArrowDown") results[Math.min(at + 1, results.length - 1)].focus();
    else if (event.key === "ArrowUp") (results[at - 1] || this.field).focus();
    else return;
    event.preventDefault();
  }
}

/** section: one of sections.js; none: the first, on a phone the list of them. at: a setting in it. */
export async function openSettings(section = "", at = "") {
  await Promise.all([sheet("settings"), sheet("bars")]);
  if (shown?.dialog.open) { await shown.open(section, at); return; } // one that was closed a moment ago is about to go
  const now = shown = new Window();
  document.body.append(now.dialog);
  now.dialog.showModal();
  const opened = now.open(section, at, Boolean(section));
  if (!section && PHONE.matches) now.dialog.dataset.view = "list";
  await opened;
}
