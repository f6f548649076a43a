// The guards against memory errors are in every installed program: what configure asked for, the linker has kept.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { prefix, top } from "./sluice.mjs";

const run = (command, args) => execFileSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28, env: { ...process.env, LC_ALL: "C" } });
const readelf = (...args) => run("readelf", args);
const helpers = join(prefix, "libexec/sluice");
const programs = [join(prefix, "bin/sluice"), ...readdirSync(helpers).map((name) => join(helpers, name))];
const sanitized = Boolean(process.env.SLUICE_TEST_SANITIZED);
const x86 = process.arch === "x64";

// A property of the whole program is there only when every object has it, those of the C library's start-up too.
function startFilesHaveCet() {
  const file = run("cc", ["-print-file-name=Scrt1.o"]).trim();
  return existsSync(file) && /IBT, SHSTK/.test(readelf("-n", file));
}

test("no program says where it was built", { skip: sanitized }, () => {
  for (const program of programs) {
    const text = readFileSync(program, "latin1").replaceAll(prefix, "");
    const at = text.indexOf(`${top}/`);
    assert.equal(at, -1, `${program}: ${text.slice(at, at + 100)}`);
  }
});

test("the programs of an installation are all looked at", () => {
  const names = programs.map((p) => p.slice(p.lastIndexOf("/") + 1)).sort();
  assert.deepEqual(names, ["sluice", "sluice-engine", "sluice-reader", "sluice-toolhost", "sluice-worker"]);
});

for (const program of programs) {
  const name = program.slice(program.lastIndexOf("/") + 1);

  test(`${name} loads anywhere, and its tables are read-only before main`, () => {
    assert.match(readelf("-h", program), /Type:\s+DYN/, "position-independent");
    const segments = readelf("-lW", program);
    assert.match(segments, /GNU_RELRO/);
    assert.match(readelf("-dW", program), /FLAGS.*BIND_NOW|FLAGS_1.*NOW/, "every symbol is bound at the start");
    assert.match(readelf("-dW", program), /FLAGS_1.*PIE/);
  });

  test(`${name} has no memory that is both written and run`, () => {
    const segments = readelf("-lW", program).split("\n");
    const stack = segments.find((l) => l.includes("GNU_STACK"));
    assert.match(stack ?? "", / RW +0x/, "the stack is not run");
    for (const l of segments) assert.ok(!/ RWE +0x/.test(l), l);
  });

  test(`${name} checks its stack and the sizes of its copies`, () => {
    const symbols = readelf("--dyn-syms", "-W", program);
    assert.match(symbols, / __stack_chk_fail\b/);
    if (!sanitized) assert.match(symbols, / __(mem|str|f?printf|v?s?n?printf|read|f)\w*_chk\b/);
  });

  test(`${name} marks where jumps may land`, { skip: !x86 && "x86-64 only" }, () => {
    assert.match(run("objdump", ["-d", "--no-show-raw-insn", "--disassemble=main", program]), /<main>:\n[^\n]*\bendbr64\b/);
    if (startFilesHaveCet()) assert.match(readelf("-n", program), /IBT, SHSTK/);
  });
}
