// Notes of the engine and of `sluice up` that have one of a few forms, in the reader's language. What has none of them, such as a
// driver's own error, stays as it was written.

import { has, t } from "../i18n.js";

// [the server's words, their key under "notes", the names of the parts]
const FORMS = [
  [/^needs (.+) of GPU memory \(weights (.+), KV (.+), the rest (.+)\), (.+) may be taken$/, "needsGpu", ["need", "weights", "kv", "rest", "limit"]],
  [/^needs (.+) of RAM \(weights (.+), KV (.+), the rest (.+)\), (.+) may be taken$/, "needsRam", ["need", "weights", "kv", "rest", "limit"]],
  [/^an expert cache of (.+) is too small, the least is (.+)$/, "cacheSmall", ["size", "least"]],
  [/^nothing is stored for now: .*No space left on device/, "cacheFull", []],
  [/^nothing is stored for now: (.*)$/, "cacheFailing", ["why"]],
  [/^`sluice up` does not run here: /, "noSluiceUp", []],
];

/** name: one of the engine's own words, such as "full_gpu" or "routed experts". */
export function named(name) {
  const key = `notes.name_${name.replace(/\W/g, "_")}`;
  return has(key) ? t(key) : name.replaceAll("_", " ");
}

/** "vulkan: needs 9.1 GiB of GPU memory ...": what it is about stays, the note is translated. */
export function noteOf(text) {
  if (!text) return text;
  const [, about, note] = /^(?:(\w+): )?([^]*)$/.exec(text);
  for (const [form, key, names] of FORMS) {
    const found = form.exec(note) || form.exec(text);
    if (!found) continue;
    const said = t(`notes.${key}`, Object.fromEntries(names.map((name, i) => [name, found[i + 1]])));
    return about && form.test(note) ? `${named(about)}: ${said}` : said;
  }
  return text;
}
