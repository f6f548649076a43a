// Every visible string, in the reader's language. The catalogues are strings/LANGUAGE.json: sections of keys; a page with
// data-strings="admin" has strings/admin/LANGUAGE.json beside it; strings/later/ is for what is loaded when it is wanted. A value is a text with {names} in it, or, where a number decides, one text for each plural form ({"one": ..., "other": ...}).
// Importing this module waits until the catalogue is here, so t() may be used anywhere, also at a module's top level.

const LANGUAGES = { // each in its own words
  en: "English",
  de: "Deutsch",
  fr: "Français",
};
const STORED = "language";

/** "system", or one of languages(). Kept on this device, as the theme is. */
export const chosen = remembered();

/** The language that is shown. */
export const language = chosen !== "system" ? chosen
  : (navigator.languages || [navigator.language]).map((tag) => tag.slice(0, 2).toLowerCase()).find((l) => l in LANGUAGES) || "en";

/** Dates and numbers as the reader's region has them, where the region speaks the language that is shown. */
const locale = navigator.languages?.find((tag) => tag.slice(0, 2).toLowerCase() === language) || language;
const plain = new Intl.NumberFormat(locale);
const plurals = new Intl.PluralRules(locale);
const formatters = new Map(); // kind and options -> formatter
const strings = await load();

function remembered() {
  try {
    const stored = localStorage.getItem(STORED);
    return stored in LANGUAGES ? stored : "system";
  } catch { return "system"; } // private mode
}

async function catalogue(file) {
  const response = await fetch(new URL(`../strings/${file}.json`, import.meta.url));
  return response.ok ? response.json() : Promise.reject(new Error(file));
}

let later = null; // the catalogue of what no first chat needs, once it was asked for

/** For modules that are loaded when they are wanted: waits for the texts in strings/later/. */
export function loadStrings() {
  later ??= catalogue(`later/${language}`).catch(() => catalogue("later/en")).then((more) => { Object.assign(strings, more); });
  return later;
}

async function load() {
  const further = document.documentElement.dataset.strings;
  for (const name of language === "en" ? ["en"] : [language, "en"]) {
    try {
      return Object.assign({}, ...await Promise.all([name, ...(further ? [`${further}/${name}`] : [])].map(catalogue)));
    } catch { /* the next one, then the bare keys */ }
  }
  return {};
}

function find(key) {
  return key.split(".").reduce((part, name) => part?.[name], strings);
}

/** Whether the catalogue knows the key (for texts that the server names by a code). */
export function has(key) {
  return find(key) !== undefined;
}

/** The text of a key. values: what stands for the {names}; numbers are written the reader's way; `n` chooses the plural. */
export function t(key, values = {}) {
  let text = find(key);
  if (text && typeof text === "object") text = text[plurals.select(values.n)] ?? text.other;
  if (typeof text !== "string") {
    console.error(`no string for ${key}`);
    return key;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return typeof value === "number" ? plain.format(value) : value ?? whole;
  });
}

/** An Intl formatter of these options, made once: making one takes some 70 us, using it one. */
function formatter(Kind, options) {
  const key = Kind.name + JSON.stringify(options);
  if (!formatters.has(key)) formatters.set(key, new Kind(locale, options));
  return formatters.get(key);
}

/** A number the reader's way; options are Intl.NumberFormat's. */
export function number(n, options) {
  return options ? formatter(Intl.NumberFormat, options).format(n) : plain.format(n);
}

/** A moment (milliseconds) the reader's way; options are Intl.DateTimeFormat's. */
export function date(ms, options = { dateStyle: "medium" }) {
  return formatter(Intl.DateTimeFormat, options).format(ms);
}

/** "5 minutes ago", "yesterday": n of a unit, negative for what is past. */
export function relativeTime(n, unit) {
  const key = "relative";
  if (!formatters.has(key)) formatters.set(key, new Intl.RelativeTimeFormat(locale, { numeric: "auto" }));
  return formatters.get(key).format(n, unit);
}

/** [[code, name in its own words], ...] */
export function languages() {
  return Object.entries(LANGUAGES);
}

/** Remembers the choice and shows the page in it. */
export function chooseLanguage(name) {
  try {
    if (name === "system") localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, name);
  } catch { /* private mode: as the system says */ }
  location.reload();
}

const ATTRIBUTES = { label: "aria-label", placeholder: "placeholder", title: "title" };

/** Fills in what the HTML leaves to the catalogue: data-t is the text, data-t-label, -placeholder, -title an attribute. */
export function translate(root) {
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const [name, attribute] of Object.entries(ATTRIBUTES)) {
    for (const node of root.querySelectorAll(`[data-t-${name}]`)) node.setAttribute(attribute, t(node.getAttribute(`data-t-${name}`)));
  }
  for (const template of root.querySelectorAll("template")) translate(template.content);
}

/** The whole page: its language, its direction, its texts. Once, before anything is drawn. */
export function translatePage() {
  document.documentElement.lang = language;
  document.documentElement.dir = find("language.direction") || "ltr";
  translate(document);
}
