// The page's texts: every visible one is in the catalogues, the catalogues say the same things, and nothing is left over.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "../../web");
const read = (f) => readFileSync(join(web, f), "utf8");
const catalogues = (dir) => readdirSync(join(web, dir)).filter((f) => f.endsWith(".json")).map((f) => f.replace(".json", ""));
const whole = catalogues("languages"); // in one file, which the build splits
const names = [...catalogues("strings"), ...whole];
const further = readdirSync(join(web, "strings"), { withFileTypes: true }).filter((f) => f.isDirectory()).map((f) => f.name); // of other pages than the chat
const files = (name) => (whole.includes(name) ? [`languages/${name}.json`] : parts(name));
const parts = (name) => [name, ...further.map((page) => `${page}/${name}`)].map((f) => `strings/${f}.json`);
const scripts = readdirSync(join(web, "js"), { recursive: true }).filter((f) => f.endsWith(".js")).map((f) => join("js", f));
const pages = readdirSync(web).filter((f) => f.endsWith(".html"));

/** {"section.key": text or {plural form: text}} */
function flat(name) {
  const out = {};
  const walk = (node, path) => {
    for (const [key, value] of Object.entries(node)) {
      if (typeof value === "object" && !("other" in value)) walk(value, [...path, key]);
      else out[[...path, key].join(".")] = value;
    }
  };
  for (const f of files(name)) walk(JSON.parse(read(f)), []);
  return out;
}
const texts = (value) => (typeof value === "string" ? [value] : Object.values(value));
const placeholders = (text) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]))].sort().join(" ");
const english = flat("en");

test("the catalogues have the same keys, in the same order", () => {
  for (const name of names) assert.deepEqual(Object.keys(flat(name)), Object.keys(english), name);
});

test("a language in one file is split into the parts that English has, and nothing of it is lost", () => {
  for (const name of whole) {
    for (const part of parts("en")) {
      const made = execFileSync("awk", ["-f", join(web, "languages/split.awk"), join(web, part), join(web, `languages/${name}.json`)], { encoding: "utf8", maxBuffer: 1 << 24 });
      const all = JSON.parse(read(`languages/${name}.json`));
      assert.deepEqual(JSON.parse(made), Object.fromEntries(Object.keys(JSON.parse(read(part))).map((section) => [section, all[section]])), `${name} ${part}`);
    }
  }
});

test("each language has its name in the page and its line in the build", () => {
  const known = /const LANGUAGES = \{([^}]*)\}/.exec(read("js/i18n.js"))[1];
  const built = /^web_languages = (.*)$/m.exec(read("local.mk"))[1].split(/\s+/);
  assert.deepEqual([...known.matchAll(/^ {2}(\w+): /gm)].map((m) => m[1]).sort(), [...names].sort());
  assert.deepEqual(built.sort(), whole.sort());
});

test("no section and no key stands twice", () => {
  for (const name of names) { // JSON.parse keeps the last one and says nothing
    let section = "";
    const seen = [];
    const sections = [];
    for (const line of files(name).map(read).join("\n").split("\n")) {
      const opened = /^ {2}"(\w+)": \{/.exec(line)?.[1];
      if (opened) sections.push(section = opened);
      const key = /^ {4}"(\w+)":/.exec(line)?.[1];
      if (key) seen.push(`${section}.${key}`);
    }
    assert.deepEqual(sections.filter((s, i) => sections.indexOf(s) !== i || !seen.some((k) => k.startsWith(`${s}.`))), [],
      `${name}: sections that stand twice or hold nothing`);
    assert.deepEqual(seen.filter((k, i) => seen.indexOf(k) !== i), [], name);
    assert.deepEqual(seen, Object.keys(flat(name)), `${name}: one key a line, sections at the left`);
  }
});

test("a text has the same placeholders in each language, and each plural form that the language needs", () => {
  const bad = [];
  for (const name of names) {
    const forms = new Intl.PluralRules(name).resolvedOptions().pluralCategories;
    for (const [key, value] of Object.entries(flat(name))) {
      const wanted = [...new Set(texts(english[key] ?? "").map(placeholders))];
      for (const text of texts(value)) {
        if (!text.trim()) bad.push(`${name} ${key}: empty`);
        if (!wanted.includes(placeholders(text))) bad.push(`${name} ${key}: {${placeholders(text)}}, in English {${wanted}}`);
      }
      if (typeof value === "object") for (const form of forms) if (!(form in value)) bad.push(`${name} ${key}: no form "${form}"`);
    }
  }
  assert.deepEqual(bad, []);
});

test("no line of a French text begins with the sign that ends the one before", () => {
  const bad = Object.entries(flat("fr")).filter(([, value]) => texts(value).some((text) => / [:;?!»]|« /.test(text)));
  assert.deepEqual(bad, []);
});

/** A script without its comments; strings stay. */
const code = (f) => read(f).replace(/^\s*\/\/.*$|(?<=[\s;,{(])\/\/ .*$|\/\*[^]*?\*\//gm, "");
const literals = (text) => [...text.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map((m) => m[1]);

test("each key that is used exists, and each that exists is used", () => {
  const used = new Set();
  const missing = [];
  const need = (key, where) => { used.add(key); if (!(key in english)) missing.push(`${where}: ${key}`); };
  for (const f of pages) for (const [, key] of read(f).matchAll(/data-t(?:-\w+)?="([^"]*)"/g)) need(key, f);
  for (const f of scripts) {
    const text = code(f);
    for (const [, key] of text.matchAll(/\bt\(\s*"([^"]+)"/g)) need(key, f);
    for (const key of literals(text)) if (key in english) used.add(key); // a table of keys
    for (const [, prefix] of text.matchAll(/`([\w]+\.[\w.]*)\$\{/g)) { // `theme.${mode}`
      for (const key of Object.keys(english)) if (key.startsWith(prefix)) used.add(key);
    }
    for (const [, prefix] of text.matchAll(/\bt\(\s*`([^$`]*)/g)) {
      if (!Object.keys(english).some((key) => key.startsWith(prefix))) missing.push(`${f}: ${prefix}...`);
    }
  }
  assert.deepEqual(missing, []);
  assert.deepEqual(Object.keys(english).filter((k) => !used.has(k) && k !== "language.direction"), []);
});

test("each error that the server can name has a text", () => {
  const top = join(web, "..");
  const codes = new Set();
  const take = (text) => { for (const code of literals(text)) if (/^[a-z_]+$/.test(code)) codes.add(code); };
  for (const room of ["fcgi", "sql", "engine/base"]) {
    for (const f of readdirSync(join(top, room), { recursive: true }).filter((name) => name.endsWith(".c"))) {
      const text = readFileSync(join(top, room, f), "utf8");
      for (const [, code] of text.matchAll(/err_reason\([^,;]*,([^;]*?)\)/g)) take(code);
      for (const [, code] of text.matchAll(/error_override\.code = ([^;]*);/g)) take(code);
    }
  }
  take(/error_rows\[ERR__N\] = \{[^]*?\n\};/.exec(readFileSync(join(top, "fcgi/http/reply.c"), "utf8"))[0].replace(/"\w+",(?= ("|NULL))/g, "")); // the codes, not the types
  take(/reason_of\([^]*?^\}[^]*?model_gate_reason[^]*?^\}/m.exec(readFileSync(join(top, "fcgi/inference/model_gate.c"), "utf8"))[0]);
  assert.ok(codes.size > 80, `${codes.size} codes are found`);
  assert.deepEqual([...codes].filter((code) => !(`serverErrors.${code}` in english)), []);
});

test("each finding of the checks has words in the page, and so has the way to mend it", () => {
  const found = [...read("../fcgi/admin/diagnostics.c").matchAll(/\(struct diagnostics_finding\)\{([^]*?)\}\);/g)].map(([, block]) => block).filter((block) => /\.code = /.test(block));
  assert.ok(found.length > 14, `${found.length} findings`);
  for (const block of found) {
    const part = (name) => literals(new RegExp(`\\.${name} =([^]*?)(?:, *\\.\\w+ =|$)`).exec(`${block.replace(/\s+/g, " ")}`)?.[1] ?? "");
    const codes = /\.code = code,/.test(block) ? ["engine"] : part("code");
    const [what] = part("what");
    const all = codes.map((code) => `checks.${code}`);
    if (what !== "SQLite") assert.ok(`checks.name_${what.replace(/\W/g, "_")}` in english, what);
    for (const key of all) assert.ok(key in english || /\.text =/.test(block), key);
    if (part("fix").length) assert.ok(all.some((key) => `${key}_fix` in english), `${all}: no way to mend it`);
  }
});

test("the pages hold no text of their own", () => {
  const bad = [];
  for (const f of pages) {
    const html = read(f).replace(/<!--[^]*?-->|<title>[^<]*<\/title>|<kbd>[^<]*<\/kbd>/g, "");
    for (const [, text] of html.matchAll(/>([^<]*)</g)) if (/\p{L}/u.test(text.replace("Sluice", ""))) bad.push(`${f}: ${text.trim()}`);
    for (const [whole] of html.matchAll(/ (aria-label|placeholder|title|alt)="[^"]*"/g)) bad.push(`${f}:${whole}`);
  }
  assert.deepEqual(bad, []);
});

// What looks like a text for people (a capital letter, then small ones) and is none.
const NAMES = new Set(["Edge", "Opera", "Mac OS X", "Content-Type", "Content-Disposition", "Accept", "Sluice", "Content-Encoding",
  "Enter", "Escape", "Esc", "Tab", "Home", "End", "Delete", "Backspace", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "PageUp", "PageDown",
  "Shift Enter", "noopener noreferrer nofollow ugc", "Anthropic", "Ollama"]);

test("the scripts hold no text of their own", () => {
  const bad = [];
  for (const f of scripts) {
    if (f === "js/i18n.js") continue; // names languages in their own words
    const text = code(f);
    const all = [...literals(text), ...[...text.matchAll(/`((?:[^`\\]|\\.)*)`/g)].map((m) => m[1].replace(/\$\{[^}]*\}/g, ""))];
    for (const s of all) {
      if (NAMES.has(s) || /^(Ctrl|Shift|Alt)( |$)|^X-|^\w+(Error|Event)$/.test(s)) continue;
      if (/^\p{Lu}\p{Ll}+([ ,.…!?]|$)/u.test(s) || /^\p{Ll}+( \p{Ll}+){2,}[.…]?$/u.test(s)) bad.push(`${f}: ${s}`);
    }
    for (const [whole] of text.matchAll(/\b(ariaLabel|placeholder|title|alt|textContent|label)\s*[:=]\s*"[^"]*\p{L}[^"]*"/gu)) {
      const key = /"([^"]*)"/.exec(whole)[1];
      if (!(key in english)) bad.push(`${f}: ${whole}`); // a key in a table is looked up later
    }
  }
  assert.deepEqual(bad, []);
});
