// Every shortcut, and other keys for it: press them, and what stands against them is said. Whether single letters are some.

import { call } from "../api.js";
import { announce, el, icon, toast } from "../dom.js";
import { t } from "../i18n.js";
import { isSingle, keysFor, keysOfEvent, namesOf, partsOf, shortcuts, shownKeysOf, singleKeys } from "../shortcuts.js";
import { emit, state } from "../state.js";

// What is no page's: the browser acts before a page hears of it, or its users would miss it; texts are edited by it; the page is walked by it.
const BROWSERS = new Set(["mod t", "mod n", "mod w", "mod q", "mod r", "mod l", "mod p", "mod s", "mod d", "mod h", "mod j", "mod u", "mod Tab", "mod Shift Tab", "mod Shift t", "mod Shift n", "mod Shift w", "mod Shift q",
  "mod Shift r", "mod Shift i", "mod Shift j", "mod Shift p", "mod Shift Delete", "mod +", "mod -", "mod =", "mod Shift +", "mod F4", "Alt F4", "Alt d", "Alt ArrowLeft", "Alt ArrowRight", "Alt Home", "Alt Tab", "Alt Space",
  "F1", "F3", "F5", "F6", "F7", "F10", "F11", "F12", "Shift F10", ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => `mod ${n}`)]);
const EDITING = new Set(["mod a", "mod c", "mod v", "mod x", "mod z", "mod y", "mod Shift z", "mod Shift v", "mod Backspace", "mod Delete", "mod Enter", "mod ArrowLeft", "mod ArrowRight", "mod ArrowUp", "mod ArrowDown", "mod Home", "mod End"]);
const WALKING = /^(Tab|Enter|Space|Arrow\w+|Home|End|PageUp|PageDown|ContextMenu|Insert|Escape)$/;

/** Why these keys cannot be an action's, as a key of words; "": they can. Escape stops an answer, and nothing else. */
function reserved(keys, run) {
  const { mod, alt, key } = partsOf(keys);
  if (BROWSERS.has(keys)) return "keyboard.browser";
  if (EDITING.has(keys)) return "keyboard.editing";
  if (!mod && !alt && WALKING.test(key) && !(key === "Escape" && run === "stop")) return "keyboard.walking";
  return "";
}

let saved = Promise.resolve(); // one change after the other reaches the server, so that the last one holds

function use(preferences) {
  state.preferences = preferences;
  emit("preferences");
}

/** Keys count from the moment they are chosen; where the server refuses them, what was before counts again. null: the page's own, for all. */
async function save(change) {
  const before = state.preferences;
  const chosen = { ...before };
  for (const [name, value] of Object.entries(change)) { if (value === null) delete chosen[name]; else chosen[name] = value; }
  use(chosen);
  const mine = saved.then(() => call("PATCH", "/api/preferences", change));
  saved = mine.catch(() => {});
  try {
    const stored = await mine;
    if (state.preferences === chosen) use(stored);
  } catch (error) {
    if (state.preferences === chosen) use(before);
    throw error;
  }
}

class Keys {
  constructor(list, resetAll) {
    this.list = list;
    this.resetAll = resetAll;
    this.rows = shortcuts().map((s) => this.row(s));
    this.list.append(...this.rows.map((r) => r.node));
    this.draw();
  }

  row(shortcut) {
    const r = { shortcut, what: t(shortcut.what) };
    r.label = el("dd", {}, r.what);
    r.note = el("dd", { class: "key-note", role: "alert", hidden: true });
    r.button = el("button", { class: "key-button", type: "button", data: { run: shortcut.run || "" }, on: { click: () => this.listen(r), keydown: (event) => this.pressed(r, event), blur: () => { if (this.listening === r) this.listen(null); } } });
    r.reset = el("button", { class: "icon-button key-reset", type: "button", ariaLabel: t("keyboard.reset", { action: r.what }), title: t("keyboard.resetShort"), on: { click: () => this.give(r, null) } }, icon("restore"));
    r.keys = el("dt", {}, ...(shortcut.shown ? [] : [r.reset, r.button]));
    r.node = el("div", {}, r.label, r.keys, r.note);
    return r;
  }

  draw() {
    for (const r of this.rows) {
      const keys = keysFor(r.shortcut);
      if (r.shortcut.shown) { r.keys.replaceChildren(...shownKeysOf(keys)); continue; }
      const listening = this.listening === r;
      r.button.replaceChildren(...(listening ? [t("keyboard.press")] : keys ? shownKeysOf(keys) : [t("keyboard.none")]));
      r.button.toggleAttribute("data-listening", listening);
      r.button.ariaLabel = listening ? t("keyboard.press") : t("keyboard.change", { action: r.what, keys: namesOf(keys).join(" + ") || t("keyboard.none") });
      r.reset.hidden = keys === r.shortcut.keys;
    }
    this.resetAll.disabled = !Object.keys(state.preferences.shortcuts || {}).length;
  }

  listen(r) {
    this.listening = r;
    if (r) { this.say(r, ""); announce(t("keyboard.hint")); }
    this.draw();
  }

  /** Below the action: why not, with what can be done. */
  say(r, text, ...buttons) {
    r.note.hidden = !text;
    r.note.classList.remove("is-info");
    r.note.replaceChildren(text, ...buttons);
  }

  pressed(r, event) {
    if (this.listening !== r || event.isComposing) return;
    if (event.key === "Tab" && !event.ctrlKey && !event.altKey && !event.metaKey) return; // on to the next, and nothing is changed
    event.preventDefault();
    event.stopPropagation();
    const keys = keysOfEvent(event);
    if (!keys) return; // more is coming
    this.listen(null);
    if (keys === "Escape" && r.shortcut.run !== "stop") return;
    if (keys === "Backspace" || keys === "Delete") { this.give(r, ""); return; }
    const why = reserved(keys, r.shortcut.run);
    if (why) { this.say(r, t(why, { keys: namesOf(keys).join(" + ") })); return; }
    const other = this.rows.find((x) => x !== r && keysFor(x.shortcut) === keys);
    if (!other) { this.give(r, keys); return; }
    if (other.shortcut.shown) { this.say(r, t("keyboard.fixed", { keys: namesOf(keys).join(" + "), action: other.what })); return; }
    const take = el("button", { class: "quiet", type: "button", on: { click: () => this.give(r, keys, other) } }, t("keyboard.take"));
    this.say(r, t("keyboard.taken", { keys: namesOf(keys).join(" + "), action: other.what }), take);
    take.focus();
  }

  /** keys null: the action's own again; from: the action that loses them. */
  async give(r, keys, from = null) {
    const own = { ...state.preferences.shortcuts };
    const put = (row, value) => { if (value === null || value === row.shortcut.keys) delete own[row.shortcut.run]; else own[row.shortcut.run] = value; };
    const back = keys === null && this.rows.find((x) => x !== r && keysFor(x.shortcut) === r.shortcut.keys);
    if (from || back) put(from || back, "");
    put(r, keys);
    const stored = await this.store(own);
    r.button.focus();
    if (!stored) return;
    this.say(r, back ? t("keyboard.took", { action: back.what }) : keys && isSingle(keys) && !singleKeys() ? t("keyboard.needsSingle") : "");
    r.note.classList.add("is-info");
    announce(t("keyboard.change", { action: r.what, keys: namesOf(keysFor(r.shortcut)).join(" + ") || t("keyboard.none") }));
  }

  /** Resolves to whether the server has them. */
  async store(own) {
    let stored = true;
    try { await save({ shortcuts: Object.keys(own).length ? own : null }); } catch (error) {
      toast(error.message, 5000);
      stored = false;
    }
    this.draw();
    return stored;
  }
}

export function draw(panel) {
  const single = el("input", { id: "help-single", type: "checkbox", class: "switch", checked: singleKeys(), on: { change: async () => {
    try { await save({ single_keys: single.checked }); } catch (error) { single.checked = singleKeys(); toast(error.message, 5000); }
  } } });
  single.setAttribute("role", "switch");
  const list = el("dl", { id: "help-list", class: "help" });
  const resetAll = el("button", { id: "keys-reset", class: "quiet", type: "button", on: { click: async () => { if (!await keys.store({})) return; for (const r of keys.rows) keys.say(r, ""); announce(t("keyboard.allReset")); list.querySelector("button").focus(); } } }, t("keyboard.resetAll"));
  panel.append(el("div", { class: "pref" }, el("div", { class: "pref-words" }, el("label", { htmlFor: "help-single" }, t("help.single")), el("p", { class: "muted" }, t("settingsWindow.singleText"))), single),
    el("div", { class: "pref" }, el("div", { class: "pref-words" }, el("span", { class: "pref-label" }, t("keyboard.title")), el("p", { class: "muted" }, t("keyboard.intro"))), resetAll), list);
  const keys = new Keys(list, resetAll);
}
