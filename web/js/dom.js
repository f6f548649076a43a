// Small DOM helpers. Text only ever enters by textContent or through markdown.js.

import { t } from "./i18n.js";

const listening = new WeakSet();

/** Whether el gave this node something that listens. */
export const listens = (node) => listening.has(node);

export const $ = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else if (name === "on") {
      listening.add(node);
      for (const [event, fn] of Object.entries(value)) node.addEventListener(event, fn);
    }
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

const sheets = new Map();

/** Styles that not every page needs, once they are here. */
export function sheet(name) {
  if (!sheets.has(name)) sheets.set(name, new Promise((done) => {
    document.head.append(el("link", { rel: "stylesheet", href: new URL(`../css/${name}.css`, import.meta.url).href, on: { load: done, error: done } }));
  }));
  return sheets.get(name);
}

export function fromTemplate(id) {
  return $(id).content.firstElementChild.cloneNode(true);
}

export function icon(name) {
  return el("span", { class: `i i-${name}` });
}

/** What is in a modal dialog is all that can be seen clearly, pressed and heard: texts for people go there while one is open. */
function bring(node) {
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  const home = dialog || document.body;
  if (node.parentElement === home) return node;
  home.append(node);
  dialog?.addEventListener("close", () => bring(node), { once: true });
  return node;
}
const toasts = $("toasts"); // kept: a dialog that is removed takes along what is in it
const live = $("live");

/** Something else is done now: what was done before is no longer taken back by a button. */
export function withdrawActions() {
  for (const node of document.querySelectorAll(".toast:has(.toast-action)")) node.remove();
}

/** action: {label, run} is a button in it, which is pressed by Ctrl-Z too: by Tab one might come too late. What is pointed at or has the
 *  focus stays. */
export function toast(text, ms = 2600, action = null) {
  const button = action && el("button", { class: "toast-action", type: "button", "aria-keyshortcuts": "Control+Z", on: { click: () => { node.remove(); action.run(); } } }, action.label);
  const node = el("div", { class: "toast" }, text, button);
  if (action) withdrawActions(); // one thing at a time is taken back
  bring(toasts).append(node);
  const end = () => { if (node.matches(":hover, :focus-within")) setTimeout(end, ms / 2); else node.remove(); };
  setTimeout(end, ms);
}
document.addEventListener("keydown", (event) => {
  const button = event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && document.querySelector(".toast-action");
  if (!button || event.target.matches?.("input, textarea, select, [contenteditable]")) return; // there it takes back what was typed
  event.preventDefault();
  button.click();
});

/** Of several rounds under way the newest counts: `const counts = begin()` at a round's beginning, and later asks it `counts()`. */
export function rounds() {
  let newest = 0;
  return () => {
    const mine = ++newest;
    return () => mine === newest;
  };
}

let painted = ""; // what there was to be read when the page was last drawn

/** Read to people who do not see the page. The same once more is read once more, also where something else stood between the two too
 *  shortly to be read. */
export function announce(text) {
  bring(live).textContent = [live.textContent, painted].includes(text) ? `${text}\u00a0` : text;
  requestAnimationFrame(() => { painted = live.textContent; });
}

export async function copyText(text, done = t("common.copied")) {
  try {
    await navigator.clipboard.writeText(text);
    toast(done);
  } catch {
    toast(t("common.copyRefused"));
  }
}

function menuItem(item, close) {
  if (item.head) return el("div", { class: "menu-head", role: "presentation" }, item.head);
  if (item.line) return el("div", { class: "menu-line", role: "separator" });
  const label = item.hint ? el("span", { class: "menu-words" }, item.label, el("small", {}, item.hint)) : item.label;
  return el("button", { type: "button", role: item.checked === undefined ? "menuitem" : item.many ? "menuitemcheckbox" : "menuitemradio", class: item.bad ? "bad" : "", disabled: Boolean(item.disabled),
    ...(item.checked === undefined ? {} : { ariaChecked: String(item.checked) }),
    on: { click: ({ currentTarget }) => {
      if (!item.stays) { close(true); item.run(); return; }
      const on = item.run();
      currentTarget.ariaChecked = String(on);
      currentTarget.firstChild.className = `i i-${on ? "check" : "none"}`;
    } } }, icon(item.icon || (item.checked ? "check" : "none")), label, item.keys ? el("small", { class: "menu-keys" }, ...item.keys) : null);
}

/** A menu at a button: items are {label, hint, keys (nodes), icon, bad, disabled, run}, in a choice also `checked` (`many`: of several; `stays`: the menu stays open, and run says whether it is checked now); {head} and {line} part them. Closes
 *  on choice, Escape, Tab, a click elsewhere. */
export function openMenu(button, items) {
  const menu = el("div", { class: "menu", role: "menu", ariaLabel: button.getAttribute("aria-label") || button.textContent.trim() });
  const close = (refocus) => {
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (refocus) button.focus();
  };
  const outside = (event) => { if (!menu.contains(event.target)) close(false); };
  menu.append(...items.map((item) => menuItem(item, close)));
  const choices = () => [...menu.querySelectorAll("button:not(:disabled)")];
  menu.addEventListener("keydown", (event) => {
    const all = choices();
    const at = all.indexOf(document.activeElement);
    if (event.key === "Tab") { close(true); return; } // from the button on
    if (event.key === "Escape") close(true);
    else if (event.key === "Home") all[0].focus();
    else if (event.key === "End") all.at(-1).focus();
    else if (event.key === "ArrowDown") all[(at + 1) % all.length].focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  (button.closest("dialog, aside, main") || document.body).append(menu); // in its landmark, and above an open dialog
  const at = button.getBoundingClientRect();
  const height = menu.offsetHeight;
  const below = at.bottom + height + 8 < innerHeight;
  const left = document.dir === "rtl" || at.left > innerWidth / 2 ? at.right - menu.offsetWidth : at.left; // it grows to where there is room
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
  menu.style.left = `${Math.max(8, Math.min(left, innerWidth - menu.offsetWidth - 8))}px`;
  button.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", outside, true);
  (menu.querySelector("[aria-checked=true]") || choices()[0]).focus();
}

document.addEventListener("click", ({ target }) => { if (target.closest?.("[data-close]")) target.closest("dialog").close(); });

/** Closes it as Escape does: who listens to "cancel" may keep it open. */
export function leave(dialog) {
  if (dialog.dispatchEvent(new Event("cancel", { cancelable: true }))) dialog.close();
}

/** Every dialog has a cross, last in the order of the keyboard. */
document.addEventListener("toggle", ({ target, newState }) => {
  if (newState !== "open" || !target.matches?.("dialog.dialog") || target.querySelector(":scope > .dialog-close")) return;
  target.append(el("button", { class: "icon-button dialog-close", type: "button", ariaLabel: t("common.close"), on: { click: () => leave(target) } }, icon("close")));
}, true);

/** Asks; resolves to true for yes, which `verb` names. safe: nothing is lost by it. field: what is filled in along with it. */
export function confirmDialog(title, text, verb = t("common.delete"), { safe = false, field = "" } = {}) {
  const dialog = $("confirm-dialog");
  $("confirm-title").textContent = title;
  $("confirm-text").replaceChildren(text);
  dialog.querySelector(".confirm-field")?.remove();
  if (field) $("confirm-text").after(el("div", { class: "confirm-field" }, field));
  dialog.querySelector("[value=ok]").textContent = verb;
  dialog.querySelector("[value=ok]").className = safe ? "primary" : "danger";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true });
  });
}
