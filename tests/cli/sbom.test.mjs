// The list of parts leaves none out: every package of npm's lock, and every library that the installed programs name.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { prefix, top } from "./sluice.mjs";

const script = join(top, "docs/sbom.mjs");
const make = () => execFileSync(process.execPath, [script, prefix], { encoding: "utf8" });
const bom = JSON.parse(make());
const sorted = (list) => [...list].sort();

test("it is CycloneDX 1.5, names this release, and is the same each time", () => {
  assert.equal(bom.bomFormat, "CycloneDX");
  assert.equal(bom.specVersion, "1.5");
  const { name, version } = bom.metadata.component;
  assert.equal(`${name} ${version}`, execFileSync(join(prefix, "bin/sluice"), ["--version"], { encoding: "utf8" }).trim());
  assert.deepEqual(JSON.parse(make()), bom);
  const refs = bom.components.map((c) => c["bom-ref"]);
  assert.equal(new Set(refs).size, refs.length, "each part has a reference of its own");
});

test("every package of the page's lock is listed with its version, hash and purl", () => {
  const lock = JSON.parse(readFileSync(join(top, "web/package-lock.json"), "utf8")).packages;
  const want = Object.entries(lock).filter(([path]) => path).map(([path, p]) => {
    const name = path.split("node_modules/").pop();
    return { name, version: p.version, purl: `pkg:npm/${name.replace("@", "%40")}@${p.version}`, integrity: p.integrity };
  });
  const have = bom.components.filter((c) => c.purl).map(({ name, version, purl, hashes }) => {
    assert.equal(hashes[0].alg, "SHA-512");
    return { name, version, purl, integrity: `sha512-${Buffer.from(hashes[0].content, "hex").toString("base64")}` };
  });
  assert.ok(want.length >= 4);
  assert.deepEqual(have, want);
});

test("every library that an installed program needs is listed, with a version or as unknown", () => {
  const helpers = join(prefix, "libexec/sluice"), needed = new Set();
  for (const program of [join(prefix, "bin/sluice"), ...readdirSync(helpers).map((n) => join(helpers, n))]) {
    const text = execFileSync("readelf", ["-dW", program], { encoding: "utf8", env: { ...process.env, LC_ALL: "C" } });
    for (const line of text.split("\n").filter((l) => l.includes("(NEEDED)"))) needed.add(line.slice(line.indexOf("[") + 1, -1));
  }
  const libc = new Set(["libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "ld-linux-x86-64.so.2"]);
  const listed = bom.components.filter((c) => !c.purl);
  assert.deepEqual(sorted(listed.map((c) => c.name)), sorted([...needed].filter((n) => !libc.has(n))));
  for (const c of listed) {
    const unknown = c.properties.some((p) => p.name === "sluice:version" && p.value === "unknown");
    assert.ok(Boolean(c.version) !== unknown, `${c.name}: a version, or unknown`);
  }
  const versionOf = (name) => listed.find((c) => c.name.startsWith(name)).version;
  const sqlite = execFileSync("pkg-config", ["--modversion", "sqlite3"], { encoding: "utf8" }).trim();
  assert.equal(versionOf("libsqlite3.so"), sqlite);
});

test("a library that pkg-config does not know is named as unknown", () => {
  const env = { ...process.env, PKG_CONFIG_LIBDIR: "/nowhere", PKG_CONFIG_PATH: "" };
  const listed = JSON.parse(execFileSync(process.execPath, [script, prefix], { encoding: "utf8", env })).components.filter((c) => !c.purl);
  assert.ok(listed.length > 0);
  for (const c of listed) {
    assert.ok(!("version" in c));
    assert.ok(c.properties.some((p) => p.name === "sluice:version" && p.value === "unknown"), c.name);
  }
});
