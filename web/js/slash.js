// "/" in the message box: commands of the page, and the own prompts by name. A list above the box, by arrow keys, Enter or Tab,
// Escape; what is typed after a command's name is its text.

import { setText } from "./composer.js";
import { announce, el, $ } from "./dom.js";
import { t } from "./i18n.js";
import { prompts, usePrompt } from "./prompts.js";
import { emit, hears } from "./state.js";

const COMMANDS = [
  ["new", "slash.new"], ["settings", "slash.settings"], ["system", "slash.system"], ["prompts", "slash.prompts"], ["continue", "slash.continue"],
  ["again", "slash.again"], ["fork", "slash.fork"], ["export", "slash.export"], ["import", "slash.import"], ["help", "slash.help"],
];
const MOST = 50;
const text = $("composer-text");
const list = el("ul", { id: "slash-list", class: "slash-list", role: "listbox", ariaLabel: t("slash.label"), tabIndex: 0, hidden: true });
$("composer").prepend(list);
let items = [];
let at = 0;
let put = ""; // the text for which the list was closed by Escape

/** What is typed after the slash, or null when the box holds no command. */
function typed() {
  return /^\/(\S*)$/.exec(text.value)?.[1].toLowerCase() ?? null;
}

async function find(word) {
  const own = await prompts();
  return [
    ...COMMANDS.filter(([name]) => hears(`command-${name}`)).map(([name, label]) => ({ name, hint: t(label), run: () => { setText(""); emit(`command-${name}`, ""); } })),
    ...own.map((p) => ({ name: p.name, hint: p.text.replace(/\s+/g, " ").slice(0, 80), prompt: true, run: () => { setText(""); usePrompt(p); } })),
  ].filter((item) => item.name.toLowerCase().startsWith(word)).slice(0, MOST);
}

function close() {
  list.hidden = true;
  items = [];
  for (const name of ["aria-autocomplete", "aria-controls", "aria-activedescendant"]) text.removeAttribute(name);
}

function mark(n) {
  at = (n + items.length) % items.length;
  [...list.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === at)));
  text.setAttribute("aria-activedescendant", `slash-${at}`);
  list.children[at].scrollIntoView({ block: "nearest" });
}

async function draw() {
  const word = typed();
  if (word === null || text.value === put) { close(); return; }
  const found = await find(word);
  if (typed() !== word) return; // typed on meanwhile
  if (!found.length) { close(); return; }
  items = found;
  list.replaceChildren(...items.map((item, i) => el("li", { id: `slash-${i}`, role: "option",
    on: { pointerdown: (event) => { event.preventDefault(); choose(i); } } },
  el("span", { class: "slash-name" }, `/${item.name}`), el("span", { class: "slash-hint muted", dir: "auto" }, item.hint))));
  list.hidden = false;
  // A textarea may not be a combobox; it may say which option of which list is the active one, and the rest is spoken.
  text.setAttribute("aria-autocomplete", "list");
  text.setAttribute("aria-controls", "slash-list");
  announce(t("slash.found", { n: items.length }));
  mark(0);
}

function choose(i) {
  const item = items[i];
  close();
  item.run();
  if (!document.querySelector("dialog[open]")) text.focus();
}

/** A command with its text, such as "/system Be brief.": run instead of sent. */
export function runCommand(content) {
  const [, name, rest] = /^\/(\w+)(?:\s+([^]*))?$/.exec(content) || [];
  if (!name || !COMMANDS.some(([known]) => known === name) || !hears(`command-${name}`)) return false;
  emit(`command-${name}`, (rest || "").trim());
  return true;
}

text.addEventListener("input", () => { put = ""; draw(); });
text.addEventListener("blur", close);
text.addEventListener("keydown", (event) => {
  if (list.hidden || event.isComposing) return;
  if (event.key === "ArrowDown") mark(at + 1);
  else if (event.key === "ArrowUp") mark(at - 1);
  else if (event.key === "Enter" || event.key === "Tab") choose(at);
  else if (event.key === "Escape") { put = text.value; close(); } else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, { capture: true });
