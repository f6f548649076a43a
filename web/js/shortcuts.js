// Every shortcut of the page in one table: the handler and the list in the settings both read it. None takes a key from the browser
// or from a screen reader: single letters count only outside of text fields, and the others have Ctrl (Command on a Mac). Each user may
// give the actions other keys (settings/keyboard.js), which the server keeps.

import { el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const mac = /Mac|iP(hone|ad)/.test(navigator.platform);

// mod: Ctrl or Command; shown: only in the help, others see to it. A letter or sign without it counts only where nothing is being typed.
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
  { keys: "/", what: "help.composer", run: "composer" },
  { keys: "e", what: "help.editLast", run: "edit-last" },
  { keys: "r", what: "help.again", run: "again" },
  { keys: "[", what: "thread.older", run: "older" },
  { keys: "]", what: "thread.newer", run: "newer" },
  { keys: "mod Shift c", what: "help.copyLast", run: "copy-last" },
  { keys: "p", what: "help.pin", run: "pin" },
  { keys: "a", what: "help.archive", run: "archive" },
  { keys: "t", what: "help.tags", run: "tags" },
  { keys: "s", what: "help.share", run: "share" },
  { keys: "F2", what: "help.rename", run: "rename" },
  { keys: "mod Shift Backspace", what: "help.trash", run: "trash" },
  { keys: "Escape", run: "close-list" },
  { keys: "Escape", what: "help.stop", run: "stop" },
  { keys: "mod ,", what: "help.settings", run: "settings" },
  { keys: "?", what: "help.this", run: "help" },
];

/** The keys that an action has: the user's, else its own; "": none. */
export const keysFor = (shortcut) => (shortcut.shown ? shortcut.keys : state.preferences.shortcuts?.[shortcut.run] ?? shortcut.keys);

export function partsOf(keys) {
  const words = keys.split(" ");
  return { mod: words.includes("mod"), shift: words.includes("Shift"), alt: words.includes("Alt"), key: words.at(-1) };
}

/** A letter or sign by itself? */
export function isSingle(keys) {
  const { mod, alt, key } = partsOf(keys);
  return !mod && !alt && key.length === 1;
}

/** Is the key held that many keyboards need for signs such as @ and €? Windows tells of it as Ctrl and Alt. On a Mac, whose Option key
 *  some browsers call so, it is Alt. */
const altGraph = (event) => !mac && event.getModifierState("AltGraph");

/** Is a key held that makes a command of a sign? The one that many keyboards need for signs such as [ is none. */
function commanded(event) {
  if (event.getModifierState("AltGraph") || (mac && event.altKey && !event.ctrlKey)) return event.metaKey;
  return event.ctrlKey || event.metaKey || event.altKey;
}

/** The key by the sign on it, also where Alt makes another sign of it. */
function signOf(event) {
  const [, sign] = (event.altKey && /^(?:Key|Digit)(.)$/.exec(event.code)) || [];
  return sign || event.key;
}

function matches(keys, event) {
  if (!keys) return false;
  const { mod, shift, alt, key } = partsOf(keys);
  if (isSingle(keys) && /^[^a-z]$/.test(key)) return event.key === key && !commanded(event); // a sign: where it stands on the keyboard differs
  if (altGraph(event)) return false; // something is being typed
  const held = mac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
  if (mod !== held || alt !== event.altKey || (!mod && (event.metaKey || event.ctrlKey))) return false;
  return shift === event.shiftKey && signOf(event).toLowerCase() === key.toLowerCase();
}

/** What is pressed, as the table writes it; "" while only Ctrl and the like are held. */
export function keysOfEvent(event) {
  if (/^(Control|Shift|Alt|Meta|AltGraph|CapsLock|Fn|Dead|Process|Unidentified|OS)$/.test(event.key)) return "";
  if (altGraph(event)) return /^[^a-z\s]$/.test(event.key) ? event.key : ""; // a sign by itself, else nothing
  const mod = mac ? event.metaKey : event.ctrlKey;
  const sign = signOf(event);
  const key = sign === " " ? event.code : sign.length === 1 ? sign.toLowerCase() : sign;
  const isSign = /^[^a-z]$/.test(key) && !mod && !event.altKey;
  return [mod ? "mod" : "", event.altKey ? "Alt" : "", event.shiftKey && !isSign ? "Shift" : "", key].filter(Boolean).join(" ");
}

const STORED = "single-keys"; // on this device, as it was once chosen there alone

/** Keys that are a single letter or sign are for those who turn them on: others type a message before they have clicked into the box,
 *  and who speaks to the page presses them by accident. */
export function singleKeys() {
  if (typeof state.preferences.single_keys === "boolean") return state.preferences.single_keys;
  try { return localStorage.getItem(STORED) === "1"; } catch { return false; } // private mode
}

function inText(target) {
  return target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

/** A sign that is typed where nothing has the focus is the beginning of a message. */
function startsText(event) {
  return event.key.length === 1 && event.key !== " " && !commanded(event) && (event.target === document.body || event.target === $("scroller"));
}

/** The keys that run an action now; "": none does. */
export function keysOf(run) {
  const found = TABLE.find((s) => s.run === run);
  const keys = found ? keysFor(found) : "";
  return isSingle(keys) && !singleKeys() ? "" : keys;
}

/** can(name): may this be done now? Runs by events `key-NAME`. */
export function initShortcuts(can) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || $("app").hidden || document.querySelector("dialog[open], .menu")) return;
    const found = TABLE.find((s) => s.run && matches(keysFor(s), event) && !(isSingle(keysFor(s)) && (inText(event.target) || !singleKeys())) && !s.unless?.() && can(s.run));
    if (!found) {
      if (startsText(event)) $("composer-text").focus(); // the browser puts the sign there
      return;
    }
    event.preventDefault();
    emit(`key-${found.run}`);
  });
}

/** Keys as the table writes them, by their names. */
export function namesOf(keys) {
  if (!keys) return [];
  const { mod, shift, alt, key } = partsOf(keys);
  const names = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: t("help.keyEscape"), Enter: t("help.keyEnter"), Backspace: "⌫" };
  return [mod ? (mac ? "⌘" : t("help.keyControl")) : "", alt ? (mac ? "⌥" : "Alt") : "", shift ? (mac ? "⇧" : t("help.keyShift")) : "",
    names[key] || (key.length === 1 ? key.toUpperCase() : key)].filter(Boolean);
}

/** The same as keycaps. */
export const shownKeysOf = (keys) => namesOf(keys).flatMap((name, i) => [i ? " " : "", el("kbd", {}, name)]);

const newKeys = el("kbd", {});
$("new-chat").append(newKeys);
const drawNewKeys = () => { newKeys.textContent = namesOf(keysOf("new")).map((name) => (name === t("help.keyShift") ? "⇧" : name)).join(" "); };
drawNewKeys();
on("preferences", drawNewKeys);

/** Those that are shown to people: {keys, run, shown, what: key of its words}. */
export const shortcuts = () => TABLE.filter((s) => s.what);
