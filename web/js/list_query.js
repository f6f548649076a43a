// What is typed into the search box, as the server's filters: words are searched, `tag:work` (several: all of them), `is:pinned`, `is:archived`,
// `in:trash`, `before:2026-01-31`, `after:2026-01-01` narrow the list. One text says all of it, so that typing and the
// filter menu are the same thing.

import { fold } from "./fold.js";

const FILTERS = {
  is: { pinned: ["pinned", "1"], archived: ["archived", "1"] },
  in: { trash: ["trash", "1"], archive: ["archived", "1"], all: ["archived", "any"] },
};
const SINGLE = ["before", "after"]; // a second one takes the place of the first
const PART = /([a-z]+):(?:"([^"]*)"|(\S+))|"([^"]*)"|(\S+)/gi;

/** Midnight of a day written YYYY-MM-DD (or YYYY-MM, YYYY) in the reader's time, moved by whole days; NaN: no day. */
function midnight(text, days) {
  const parts = /^(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?$/.exec(text);
  if (!parts) return NaN;
  const [year, month, day] = [Number(parts[1]), Number(parts[2] || 1), Number(parts[3] || 1)];
  const date = new Date(year, month - 1, day + days);
  return new Date(year, month - 1, day).getMonth() === month - 1 ? date.getTime() : NaN;
}

function filter(name, value, out) {
  const values = Object.hasOwn(FILTERS, name) ? FILTERS[name] : {};
  const known = Object.hasOwn(values, value.toLowerCase()) && values[value.toLowerCase()];
  if (known) [, out.params[known[0]]] = known;
  else if (name === "tag" && value) (out.params.tag ??= []).push(value);
  else if (name === "before" && midnight(value, 0) >= 0) out.params.to = String(midnight(value, 0));
  else if (name === "after" && midnight(value, 0) >= 0) out.params.from = String(midnight(value, 0));
  else return false;
  return true;
}

/** {text: what is searched, params: the server's filters, plain: nothing is asked for}. */
export function parseQuery(typed) {
  const out = { params: {}, text: "" };
  const words = [];
  for (const [whole, name, quoted, bare, phrase, word] of typed.matchAll(PART)) {
    if (name && filter(name.toLowerCase(), quoted ?? bare, out)) continue;
    words.push(phrase ?? word ?? whole);
  }
  out.text = words.join(" ");
  if (out.text && !out.params.archived) out.params.archived = "any"; // what is searched is searched everywhere but in the trash
  out.plain = !out.text && !Object.keys(out.params).length;
  return out;
}

const write = (name, value) => `${name}:${/\s/.test(value) ? `"${value}"` : value}`;

/** The typed text with one filter put in, or taken out where it stands already. */
export function toggleFilter(typed, name, value) {
  const written = write(name, value);
  const parts = [...typed.matchAll(PART)].map(([whole]) => whole);
  const rest = parts.filter((p) => fold(p) !== fold(written) && fold(p) !== fold(`${name}:"${value}"`));
  if (rest.length === parts.length) return [...rest.filter((p) => !(SINGLE.includes(name) && p.toLowerCase().startsWith(`${name}:`))), written].join(" ");
  return rest.join(" ");
}

/** Stands this filter in the typed text? */
export function hasFilter(typed, name, value) {
  const { params } = parseQuery(typed);
  const alone = parseQuery(write(name, value)).params;
  const has = (key, wanted) => [params[key] ?? []].flat().some((x) => fold(x) === fold(wanted));
  return Object.entries(alone).every(([key, wanted]) => [wanted].flat().every((one) => has(key, one)));
}
