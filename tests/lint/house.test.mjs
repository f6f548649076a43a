// The house rules that a machine can check: sizes, who may include what, nothing left that must not be there.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const top = join(dirname(fileURLToPath(import.meta.url)), "../..");
const files = execFileSync("git", ["-C", top, "ls-files", "-co", "--exclude-standard"], { encoding: "utf8" })
  .split("\n").filter((f) => f && existsSync(join(top, f)));
const read = (f) => readFileSync(join(top, f), "utf8");
const ending = (re) => files.filter((f) => re.test(f));
const sources = ending(/\.(c|h)$/);

// What these rules found when they were made and is not mended yet: the lists only ever shrink.
const LEFT = JSON.parse(read("tests/lint/left.json"));
const GENERATED = new Set(["engine/base/unicode_table.c"]); // exempt from the limits of size, by name
const COLUMNS = 100; // of a line of C, as .clang-format has it
const product = (f) => !f.startsWith("tests/");
const stem = (f) => f.split("/").pop().replace(/\.\w+$/, "");
const without_comments = (text) => text.replace(/\/\*[^]*?\*\//g, "");

/** Those of `found` that are not excused; says which excuses are of no use any more. */
function unexcused(t, found, left, key = (x) => x) {
  const excused = new Set(left), seen = new Set(found.map(key));
  const done = left.filter((x) => !seen.has(x));
  if (done.length) t.diagnostic(`mended, may leave tests/lint/left.json: ${done.join(", ")}`);
  return found.filter((x) => !excused.has(key(x)));
}

test("no file is longer than its kind allows", (t) => {
  const limits = [[/\.(c|h)$/, 500], [/\.(comp|glsl)$/, 250], [/^web\/.*\.(js|css|html)$/, 300], [/\.mjs$/, 800]];
  const bad = [];
  for (const [re, limit] of limits) for (const f of ending(re)) {
    const n = read(f).split("\n").length - 1;
    if (n > limit && !GENERATED.has(f)) bad.push(`${f}: ${n} lines, limit ${limit}`);
  }
  assert.deepEqual(unexcused(t, bad, LEFT.long_files, (x) => x.split(":")[0]), []);
});

test("no folder of the product holds more than 40 sources", () => {
  const count = {};
  for (const f of ending(/\.(c|h|comp|glsl)$/).filter(product)) count[dirname(f)] = (count[dirname(f)] || 0) + 1;
  assert.deepEqual(Object.entries(count).filter(([, n]) => n > 40), []);
});

test("no function is longer than 60 lines", (t) => {
  const bad = [];
  for (const f of ending(/\.c$/)) {
    let start = -1, name = "";
    read(f).split("\n").forEach((line, i) => {
      name = line.match(/^\w.*?(\w+)\(/)?.[1] || name;
      if (line === "{") start = i;
      else if (line === "}" && start >= 0) {
        if (i - start > 60) bad.push(`${f} ${name}: ${i - start} lines`);
        start = -1;
      }
    });
  }
  assert.deepEqual(unexcused(t, bad, LEFT.long_functions, (x) => x.split(":")[0]), []);
});

test("no line of C is wider than the page", () => {
  const bad = [];
  for (const f of sources.filter((s) => !GENERATED.has(s))) {
    read(f).split("\n").forEach((line, i) => { if ([...line].length > COLUMNS) bad.push(`${f}:${i + 1}`); });
  }
  assert.deepEqual(bad, []);
});

// A limit of its own is what fails on a slow machine: eventually() and PATIENCE of tests/api/harness.mjs, PATIENCE_MS of tests/unit/support.
test("a test waits as long as all tests do", (t) => {
  const clock = /\b(end|until) = (Date\.now|clock_ms)\(\) \+ [\d_]{4,}/;
  const bad = ending(/^tests\/(api|web|cli|sdk|unit)\/.*\.(mjs|c)$/).filter((f) => clock.test(read(f)));
  assert.deepEqual(unexcused(t, bad, LEFT.own_patience), []);
});

// What made tests fail on busy machines, as far as a pattern finds it: [what, instead].
const HASTY = [
  [/waitForFunction/, "until(), which needs no eval"],
  [/goto\([^\n]*#\/c\/\$\{[^\n]*\n(?:[^\n]*\n)?\s*await (?:say|ask|send)\(/, "openChat(): what is sent while a chat is read is given back"],
  [/querySelectorAll\('\.message\.assistant'\)\.length === \d\);\n[^\n]*\banswered\(\w+\)/, "answered(page, n)"],
  [/until\([^\n]*(?:&&[^\n]*\.toast\b|\.toast\b[^\n]*&&)/, "a wait of its own for a toast, which goes by itself"],
  [/until\((?![^\n]*length)[^\n]*\.every\(/, "a length too: all of none are as wanted"],
  [/^(?![^\n]*eventually)[^\n]*assert\.\w+\(await \w+\.evaluate\(\(\) => (?:navigator\.clipboard|document\.fonts)/m, "eventually() or until(): both come a moment later"],
];
test("a test of the page waits for what it asserts", () => {
  const bad = ending(/^tests\/web\/.*\.test\.mjs$|^tests\/web\/scenes\.mjs$/).flatMap((f) => HASTY.flatMap(([what, instead]) => {
    const found = what.exec(read(f));
    return found ? [`${f}:${read(f).slice(0, found.index).split("\n").length}: use ${instead}`] : [];
  }));
  assert.deepEqual(bad, []);
});

test("no two files of the product have the same name", (t) => {
  const by = new Map();
  for (const f of sources.filter(product)) by.set(f.split("/").pop(), [...(by.get(f.split("/").pop()) || []), f]);
  const twice = [...by].filter(([, at]) => at.length > 1).map(([name, at]) => `${name}: ${at.join(", ")}`);
  assert.deepEqual(unexcused(t, twice, ["main.c", ...LEFT.same_file_names], (x) => x.split(":")[0]), []);
});

test("each source file opens with a sentence that says what it is for", (t) => {
  const bad = ending(/\.c$/).filter((f) => {
    const comment = (read(f).match(/^\/\*([^]*?)\*\//) || ["", ""])[1].replace(/^ \*/gm, " ");
    const said = comment.replace(/\bSee [\w/.]+\.h\b[.:]?|^\s*[\w/.]+\.[ch]\b[.:]?/g, "").trim();
    return said.split(/\s+/).length < 5 || !/[.:)]/.test(said);
  });
  assert.deepEqual(unexcused(t, bad, LEFT.without_purpose), []);
});

/** Types that a header defines, or promises and defines in its own folder. */
function types_of(header, definitions) {
  const text = without_comments(read(header)), names = new Set();
  for (const [, name, then] of text.matchAll(/\b(?:struct|enum|union) (\w+)\s*([{;])/g)) {
    if (then === "{" || (definitions.get(name) || []).includes(dirname(header))) names.add(name);
  }
  for (const [, name] of text.matchAll(/^typedef [^;]*?\b(\w+)(?:\)\([^;]*\))?;/gm)) names.add(name);
  return names;
}

test("an exported function begins with the name of its file, its folder or its type", (t) => {
  const definitions = new Map(), declared = new Map(), bad = [];
  for (const f of sources.filter(product)) {
    const text = without_comments(read(f));
    for (const [, name] of text.matchAll(/\bstruct (\w+)\s*\{/g)) definitions.set(name, [...(definitions.get(name) || []), dirname(f)]);
    if (f.endsWith(".h")) for (const [, name] of text.matchAll(/^\w[\w \*]*?\b(\w+)\(/gm)) declared.set(name, [...(declared.get(name) || []), f]);
  }
  for (const f of sources.filter(product).filter((s) => s.endsWith(".c"))) {
    for (const [, before, name] of without_comments(read(f)).matchAll(/^(\w[\w \*]*?[ \*])(\w+)\((?:[^;{}()]|\([^()]*\))*\)\n\{/gm)) {
      if (/\bstatic\b/.test(before) || name === "main" || name.startsWith("__")) continue;
      const headers = declared.get(name) || [], prefixes = new Set();
      for (const at of [f, ...headers]) {
        const thing = stem(at).replace(/^(api|cli|cmd)_/, ""); // these words say what kind of file it is
        for (const word of [stem(at), stem(at).split("_")[0], thing, thing.split("_")[0], ...dirname(at).split("/")]) prefixes.add(word).add(word.replace(/s$/, ""));
      }
      for (const h of headers) for (const type of types_of(h, definitions)) prefixes.add(type);
      if (![...prefixes].some((p) => name.startsWith(p) && /^(_|\d|$)/.test(name.slice(p.length)))) bad.push(`${f} ${name}`);
    }
  }
  assert.deepEqual(unexcused(t, bad, LEFT.without_prefix, (x) => x.split(" ")[1]), []);
});

test("each source is as clang-format 18 writes it", (t) => {
  const tool = join(dirname(process.env.SLUICE_PYTHON || join(top, "build/python/bin/python")), "clang-format"); // of tests/sdk/requirements.txt
  if (!existsSync(tool)) return t.skip("clang-format is not installed");
  const bad = [];
  for (let i = 0; i < sources.length; i += 100) {
    const { stderr } = spawnSync(tool, ["--dry-run", "--ferror-limit=1", ...sources.slice(i, i + 100)], { cwd: top, encoding: "utf8" });
    for (const [, f] of stderr.matchAll(/^([^\s:]+):\d+:\d+: /gm)) bad.push(f);
  }
  assert.deepEqual([...new Set(bad)], []);
});

test("no symbol is defined twice", (t) => {
  const built = join(process.env.SLUICE_PREFIX || join(top, "build/root"), "../release");
  if (!existsSync(built)) return t.skip("nothing is built");
  const known = new Set(ending(/\.c$/).filter(product)), folders = new Set([...known].map(dirname));
  const objects = new Map(); // object -> its source; a program's or library's own objects are called NAME-x.o
  for (const d of folders) for (const o of existsSync(join(built, d)) ? readdirSync(join(built, d)) : []) {
    const source = o.endsWith(".o") && `${d}/${o.replace(/^.*-/, "").replace(/o$/, "c")}`;
    const is_fresh = known.has(source) && statSync(join(built, d, o)).mtimeMs >= statSync(join(top, source)).mtimeMs;
    if (is_fresh) objects.set(join(built, d, o), source);
  }
  if (!objects.size) return t.skip("nothing is built");
  const by = new Map();
  const lines = execFileSync("nm", ["--print-file-name", "--extern-only", "--defined-only", ...objects.keys()], { encoding: "utf8", maxBuffer: 1 << 26 });
  for (const [, file, symbol] of lines.matchAll(/^(.*):[0-9a-f]* [A-TX-Z] (\w+)$/gm)) by.set(symbol, (by.get(symbol) || new Set()).add(objects.get(file)));
  assert.ok(by.size > 1000, "nm names the symbols");
  assert.deepEqual([...by].filter(([symbol, at]) => at.size > 1 && symbol !== "main").map(([symbol, at]) => `${symbol}: ${[...at].join(", ")}`), []);
});

test("every header has #pragma once and opens with a comment", () => {
  const bad = ending(/\.h$/).filter((f) => !/^\/\*/.test(read(f)) || !/#pragma once/.test(read(f)));
  assert.deepEqual(bad, []);
});

// room -> what it may include, beside itself and engine/base: rooms, or single headers
const WORKER = ["reader/reader.h", "reader/unzip.h", "engine/confine", "engine/engine.h", "engine/grammar", "engine/wire/status.h", "engine/chat", "engine/text", "engine/tokenizer", "sql"];
const MAY = {
  "engine/base": [],
  "engine/confine": [],
  "engine/format": [],
  "engine/jinja": [],
  "engine/tokenizer": ["engine/format"],
  "engine/chat": ["engine/jinja"],
  "engine/text": ["engine/chat", "engine/format", "engine/tokenizer"],
  "engine/grammar": ["engine/chat/chat_parser.h", "engine/tokenizer"],
  "engine/model": ["engine/format"],
  "engine/backend": ["engine/model"],
  "engine/experts": ["engine/backend", "engine/model"],
  "engine/cpu": ["engine/backend", "engine/experts", "engine/format", "engine/model"],
  "engine/vulkan": ["engine/backend", "engine/experts", "engine/format", "engine/model"],
  "engine/wire": ["engine/engine.h"],
  "engine/cache": ["engine/backend", "engine/wire/prompt_cache.h"],
  "engine/memory": ["engine/backend", "engine/experts", "engine/model"],
  "engine/draft": ["engine/backend", "engine/memory", "engine/model", "engine/tokenizer", "engine/engine.h"],
  "engine/sched": [
    "engine/backend", "engine/cache", "engine/chat", "engine/confine", "engine/draft", "engine/experts", "engine/grammar", "engine/memory", "engine/model",
    "engine/text", "engine/tokenizer", "engine/wire", "engine/engine.h",
  ],
  sql: [],
  reader: ["engine/confine/landlock.h"],
  toolhost: ["engine/confine"],
  "fcgi/process": [...WORKER],
  "fcgi/http": [...WORKER, "fcgi/process"],
  "fcgi/webauthn": ["sql"],
  "fcgi/config": [...WORKER, "fcgi/http", "fcgi/process", "fcgi/webauthn"],
  "fcgi/openapi": [...WORKER, "fcgi/http"],
  "fcgi/status": [...WORKER, "fcgi/http", "fcgi/process"],
  "fcgi/auth": [...WORKER, "fcgi/config", "fcgi/http", "fcgi/process", "fcgi/webauthn"],
  "fcgi/account": [...WORKER, "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/process", "fcgi/status", "fcgi/webauthn"],
  "fcgi/oidc": [...WORKER, "fcgi/account", "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/process"],
  "fcgi/oauth": ["fcgi/config", "fcgi/oidc", "sql"],
  "fcgi/attachments": [...WORKER, "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/process"],
  "fcgi/inference": [...WORKER, "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/process", "fcgi/status"],
  "fcgi/openai": [...WORKER, "fcgi/attachments", "fcgi/config", "fcgi/http", "fcgi/inference", "fcgi/process", "fcgi/status"],
  "fcgi/llamacpp": [...WORKER, "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/status"],
  "fcgi/ollama": [...WORKER, "fcgi/admin", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/status"],
  "fcgi/responses": [...WORKER, "fcgi/attachments", "fcgi/auth", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/status"],
  "fcgi/anthropic": [...WORKER, "fcgi/attachments", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process"],
  "fcgi/tools": [...WORKER, "fcgi/config", "fcgi/http", "fcgi/oauth", "fcgi/oidc", "fcgi/openai", "fcgi/process", "toolhost/toolhost.h"],
  "fcgi/admin": [...WORKER, "fcgi/account", "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/status", "fcgi/upstreams"],
  "fcgi/relay": [...WORKER, "fcgi/process", "engine/wire"],
  "fcgi/upstreams": [...WORKER, "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process"],
  "fcgi/recorder": [...WORKER, "fcgi/auth", "fcgi/config", "fcgi/inference", "fcgi/process", "fcgi/status"],
  "fcgi/projects": [...WORKER, "fcgi/attachments", "fcgi/auth", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/status"],
  "fcgi/conversations": [...WORKER, "fcgi/attachments", "fcgi/auth", "fcgi/config", "fcgi/http", "fcgi/inference", "fcgi/openai", "fcgi/process", "fcgi/projects", "fcgi/recorder", "fcgi/status", "fcgi/tools"],
  "fcgi/export": [...WORKER, "fcgi/auth/usage_ledger.h", "fcgi/conversations", "fcgi/http", "fcgi/process"],
  "fcgi/import": [...WORKER, "fcgi/attachments", "fcgi/auth", "fcgi/config", "fcgi/conversations", "fcgi/http", "fcgi/process", "fcgi/projects"],
};
const room = (f) => {
  if (f.startsWith("fcgi/cli/") || /^(engine|fcgi)\/[^/]+$/.test(f) || f.startsWith("tests/")) return null; // may use every room
  const parts = f.split("/");
  return ["engine", "fcgi"].includes(parts[0]) ? parts.slice(0, 2).join("/") : parts[0];
};

test("no two rooms include each other, nor do more of them in a circle", () => {
  const rooms = Object.keys(MAY), left = new Set(rooms);
  const below = (r) => rooms.filter((b) => b !== r && (MAY[r] || []).some((m) => m === b || m.startsWith(`${b}/`)));
  for (let free; (free = [...left].filter((r) => !below(r).some((b) => left.has(b)))).length;) free.forEach((r) => left.delete(r));
  assert.deepEqual([...left], []);
  assert.deepEqual(sources.map(room).filter((r) => r && !(r in MAY)), [], "a room without a row in the table");
});

test("a room includes only from the rooms below it", () => {
  const bad = [];
  for (const f of sources) {
    const own = room(f);
    if (!own) continue;
    for (const [, target] of read(f).matchAll(/^#include "([^"]+)"/gm)) {
      const to = target.includes("/") ? target : join(dirname(f), target);
      if (target === "config.h" || to.endsWith(".gen.h") || to.endsWith(".spv.h")) continue;
      const ok = to.startsWith(`${own}/`) || to.startsWith("engine/base/") || (MAY[own] || []).some((m) => to === m || to.startsWith(`${m}/`));
      if (!ok) bad.push(`${f} includes ${target}`);
    }
  }
  assert.deepEqual(bad, []);
});

test("the rooms stand in an order, without circles", () => {
  const below = (from, path) => {
    assert.ok(!path.includes(from), `circle: ${[...path, from].join(" -> ")}`);
    for (const to of MAY[from] || []) below(room(`${to}/x.c`) || to, [...path, from]);
  };
  for (const r of Object.keys(MAY)) below(r, []);
});

test("folders of the engine and the store include each other in one direction", () => {
  const to = new Map();
  for (const f of sources.filter((s) => /^(engine|sql)\/.*\//.test(s))) {
    for (const [, target] of read(f).matchAll(/^#include "([^"]+\/[^"]+)"/gm)) {
      if (existsSync(join(top, target)) && dirname(target) !== dirname(f)) to.set(dirname(f), (to.get(dirname(f)) || new Set()).add(dirname(target)));
    }
  }
  const done = new Set();
  const below = (from, path) => {
    assert.ok(!path.includes(from), `circle: ${[...path, from].join(" -> ")}`);
    if (done.has(from)) return;
    for (const next of to.get(from) || []) below(next, [...path, from]);
    done.add(from);
  };
  for (const from of to.keys()) below(from, []);
});

test("each foreign library is seen by one room", () => {
  const owners = { "sqlite3.h": /^sql\//, "vulkan/vulkan": /^engine\/vulkan\//, "fcgiapp.h": /^fcgi\//, "sodium.h": /^(sql\/|engine\/cache\/disk\/record_seal\.c$|engine\/wire\/prompt_key\.c$)/, "liboath/": /^sql\//, "qrencode.h": /^fcgi\/account\/qr\.c$/, "fido": /^fcgi\/webauthn\//, "pcre2.h": /^engine\/tokenizer\//, "curl/curl.h": /^fcgi\/(cli|oidc|relay|tools)\//, "openssl/": /^fcgi\/oidc\//, "archive": /^engine\/base\/zip_(reader|writer)\.c$/, "magic.h": /^reader\//, "expat.h": /^reader\//, "md4c.h": /^fcgi\/export\//, "xxhash.h": /^engine\/base\//, "seccomp.h": /^(reader|engine\/confine)\//, "linux/landlock.h": /^engine\/confine\// };
  const bad = [];
  for (const f of sources) for (const [, name] of read(f).matchAll(/^#include <([^>]+)>/gm)) {
    for (const [header, where] of Object.entries(owners)) {
      if (name.startsWith(header) && !where.test(f) && !f.startsWith("tests/")) bad.push(`${f} includes <${name}>`);
    }
  }
  assert.deepEqual(bad, []);
});

test("archives of strangers are unpacked in sluice-reader alone", () => {
  const bad = ending(/^(fcgi|sql|engine)\/.*\.[ch]$/).filter((f) => !f.startsWith("engine/base/zip_") && /zip_reader\.h"/.test(read(f)));
  assert.deepEqual(bad, []);
});

test("no environment variable decides anything", () => {
  const bad = sources.filter((f) => !f.startsWith("tests/") && /\bgetenv\s*\(/.test(read(f)) && !/NOTIFY_SOCKET/.test(read(f)));
  assert.deepEqual(bad, []);
});

test("the page never parses HTML by itself", () => {
  const bad = ending(/^web\/js\/.*\.js$/).filter((f) => /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/.test(read(f)));
  assert.deepEqual(bad, []);
});

test("every source file is built", () => {
  const lists = ending(/\.mk$|^Makefile\.am$/).map(read).join("\n");
  const bad = ending(/\.(c|comp)$/).filter((f) => {
    const name = f.split("/").pop();
    if (f.startsWith("tests/fuzz/")) return false; // built by tests/fuzz/run
    return !lists.includes(name) && !(f.endsWith(".comp") && read("engine/vulkan/shaders/variants.list").includes(name.replace(".comp", "")));
  });
  assert.deepEqual(bad, []);
});

test("nothing points outside the repository", () => {
  const words = ["../sha" + "red", "/wo" + "rk/", "registry.npm" + "js.org", "pypi" + ".org/simple", "deb.debian" + ".org"];
  const bad = [];
  for (const f of files) {
    if (/\.(safetensors|gguf|xz|png|gz)$/.test(f) || f.startsWith("tests/data/")) continue;
    const text = read(f);
    for (const w of words) if (text.includes(w)) bad.push(`${f}: ${w}`);
  }
  assert.deepEqual(bad, []);
});

test("ARCHITECTURE names every room", () => {
  const text = read("docs/ARCHITECTURE.md");
  const rooms = new Set(ending(/\.c$/).filter((f) => !f.startsWith("tests/")).map((f) => dirname(f)));
  assert.deepEqual([...rooms].filter((r) => !text.includes(r)), []);
});

test("each setting of the server is read where it counts", () => {
  const names = [...read("fcgi/config/server_settings.h").matchAll(/^ {4}(SETTING_\w+),/gm)].map((m) => m[1]).filter((n) => !n.startsWith("SETTING_TYPE"));
  const readers = ending(/^fcgi\/.*\.c$/).filter((f) => f !== "fcgi/config/server_settings.c").map(read).join("\n");
  assert.ok(names.length > 10);
  assert.deepEqual(names.filter((n) => !new RegExp(`setting_(bool|int|number|text|secret)\\([^;]*\\b${n}\\b|overlay\\(r, ${n}\\b`).test(readers)), []);
});
