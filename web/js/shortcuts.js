// Every shortcut of the page in one table: the handler and the list in the settings both read it. None takes a key from the browser
// or from a screen reader: single letters count only outside of text fields, and the others have Ctrl (Command on a Mac).

import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { emit } from "./state.js";

const mac = /Mac|iP(hone|ad)/.test(navigator.platform);

// mod: Ctrl or Command; alone: only where nothing is being typed; shown: only in the help, others see to it.
const TABLE = [
  { keys: "Enter", what: "help.send", shown: true },
  { keys: "Shift Enter", what: "help.newLine", shown: true },
  { keys: "mod Shift o", what: "help.newChat", run: "new" },
  { keys: "mod k", what: "help.palette", run: "palette" },
  { keys: "mod Shift f", what: "help.search", run: "search" },
  { keys: "mod f", what: "help.find", run: "find", unless: () => $("find").contains(document.activeElement) },
  { keys: "mod b", what: "help.list", run: "toggle-list" },
  { keys: "Alt ArrowDown", what: "help.next", run: "next" },
  { keys: "Alt ArrowUp", what: "help.previous", run: "previous" },
  { keys: "/", what: "help.composer", run: "composer", alone: true },
  { keys: "e", what: "help.editLast", run: "edit-last", alone: true },
  { keys: "r", what: "help.again", run: "again", alone: true },
  { keys: "[", what: "thread.older", run: "older", alone: true },
  { keys: "]", what: "thread.newer", run: "newer", alone: true },
  { keys: "mod Shift c", what: "help.copyLast", run: "copy-last" },
  { keys: "p", what: "help.pin", run: "pin", alone: true },
  { keys: "a", what: "help.archive", run: "archive", alone: true },
  { keys: "t", what: "help.tags", run: "tags", alone: true },
  { keys: "s", what: "help.share", run: "share", alone: true },
  { keys: "F2", what: "help.rename", run: "rename" },
  { keys: "mod Shift Backspace", what: "help.trash", run: "trash" },
  { keys: "Escape", run: "close-list" },
  { keys: "Escape", what: "help.stop", run: "stop" },
  { keys: "mod ,", what: "help.settings", run: "settings" },
  { keys: "?", what: "help.this", run: "help", alone: true },
];

function parts(shortcut) {
  const words = shortcut.keys.split(" ");
  return { mod: words.includes("mod"), shift: words.includes("Shift"), alt: words.includes("Alt"), key: words.at(-1) };
}

/** Is a key held that makes a command of a sign? The one that many keyboards need for signs such as [ is none. */
function commanded(event) {
  if (event.getModifierState("AltGraph") || (mac && event.altKey && !event.ctrlKey)) return event.metaKey;
  return event.ctrlKey || event.metaKey || event.altKey;
}

function matches(shortcut, event) {
  const { mod, shift, alt, key } = parts(shortcut);
  if (shortcut.alone && /^[^a-z]$/.test(key)) return event.key === key && !commanded(event); // a sign: where it stands on the keyboard differs
  const held = mac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
  if (mod !== held || alt !== event.altKey || (!mod && (event.metaKey || event.ctrlKey))) return false;
  return shift === event.shiftKey && event.key.toLowerCase() === key.toLowerCase();
}

const STORED = "single-keys"; // kept on this device, as the theme is

/** Keys that are a single letter or sign are for those who turn them on: others type a message before they have clicked into the box,
 *  and who speaks to the page presses them by accident. */
export function singleKeys() {
  try { return localStorage.getItem(STORED) === "1"; } catch { return false; } // private mode
}

function inText(target) {
  return target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

/** A sign that is typed where nothing has the focus is the beginning of a message. */
function startsText(event) {
  return event.key.length === 1 && event.key !== " " && !commanded(event) && (event.target === document.body || event.target === $("scroller"));
}

/** The keys of an action, or undefined. */
export function keysOf(run) {
  return TABLE.find((s) => s.run === run)?.keys;
}

/** can(name): may this be done now? Runs by events `key-NAME`. */
export function initShortcuts(can) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || $("app").hidden || document.querySelector("dialog[open], .menu")) return;
    const found = TABLE.find((s) => s.run && matches(s, event) && !(s.alone && (inText(event.target) || !singleKeys())) && !s.unless?.() && can(s.run));
    if (!found) {
      if (startsText(event)) $("composer-text").focus(); // the browser puts the sign there
      return;
    }
    event.preventDefault();
    emit(`key-${found.run}`);
  });
}

/** Keys as the table writes them, as keycaps. */
export function shownKeysOf(keys) {
  const { mod, shift, alt, key } = parts({ keys });
  const names = { ArrowDown: "↓", ArrowUp: "↑", Escape: t("help.keyEscape"), Enter: t("help.keyEnter"), Backspace: "⌫" };
  const all = [mod ? (mac ? "⌘" : t("help.keyControl")) : "", alt ? (mac ? "⌥" : "Alt") : "", shift ? (mac ? "⇧" : t("help.keyShift")) : "",
    names[key] || (key.length === 1 ? key.toUpperCase() : key)];
  return all.filter(Boolean).flatMap((name, i) => [i ? " " : "", el("kbd", {}, name)]);
}

const { key: newKey } = parts(TABLE.find((s) => s.run === "new"));
$("new-chat").append(el("kbd", {}, `${mac ? "⌘" : t("help.keyControl")} ⇧ ${newKey.toUpperCase()}`));

/** Those that are shown to people: {keys, what: key of its words}. */
export const shortcuts = () => TABLE.filter((s) => s.what);

export function chooseSingleKeys(wanted) {
  try { localStorage.setItem(STORED, wanted ? "1" : "0"); } catch { /* private mode */ }
}
