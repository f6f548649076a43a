// What an installation is made of beside its own code, as CycloneDX 1.5 JSON: `node docs/sbom.mjs PREFIX >sbom.json`.
// The page's packages are those of npm's lock; the libraries are those that the installed programs name as NEEDED, with
// the version that pkg-config knows on this machine. There is no time in it: the same installation gives the same text.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = join(dirname(fileURLToPath(import.meta.url)), "..");
// The C library's own parts, whose version is the system's.
const LIBC = /^(lib(c|m|dl|rt|pthread|resolv)\.so\.|ld-linux)/;

const run = (command, args) => execFileSync(command, args, { encoding: "utf8", env: { ...process.env, LC_ALL: "C" }, stdio: ["ignore", "pipe", "pipe"] });

function packageComponent([path, entry]) {
  const name = entry.name || path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
  const purl = `pkg:npm/${name.replace(/^@/, "%40")}@${entry.version}`;
  const hashes = (entry.integrity || "").split(" ").filter((i) => i.startsWith("sha512-"))
    .map((i) => ({ alg: "SHA-512", content: Buffer.from(i.slice("sha512-".length), "base64").toString("hex") }));
  return { type: "library", "bom-ref": `${purl}#${path}`, name, version: entry.version, hashes, purl };
}

export function packages(lock) {
  return Object.entries(lock.packages).filter(([path, entry]) => path && !entry.link).map(packageComponent);
}

const programs = (prefix) => {
  const helpers = join(prefix, "libexec/sluice");
  return [join(prefix, "bin/sluice"), ...readdirSync(helpers).map((name) => join(helpers, name))].sort();
};

// null: pkg-config knows no such library under its own name.
function version(library) {
  const stem = library.replace(/\.so.*$/, "");
  for (const name of [stem, stem.replace(/^lib/, "")]) {
    try {
      return run("pkg-config", ["--modversion", name]).trim();
    } catch (e) {
      if (e.code === "ENOENT") throw new Error("pkg-config is not installed, so no library's version can be found");
    }
  }
  return null;
}

function libraryComponent([name, users]) {
  const found = version(name);
  const properties = users.map((program) => ({ name: "sluice:needed-by", value: program }));
  if (!found) properties.push({ name: "sluice:version", value: "unknown" });
  return { type: "library", "bom-ref": `so:${name}`, name, ...(found && { version: found }), properties };
}

function libraries(prefix) {
  const users = new Map();
  for (const program of programs(prefix)) {
    for (const [, name] of run("readelf", ["-dW", program]).matchAll(/\(NEEDED\).*\[(.+)\]/g)) {
      if (!LIBC.test(name)) users.set(name, [...(users.get(name) || []), program.slice(program.lastIndexOf("/") + 1)]);
    }
  }
  return [...users].sort(([a], [b]) => (a < b ? -1 : 1)).map(libraryComponent);
}

export function sbom(prefix) {
  const [name, release] = run(join(prefix, "bin/sluice"), ["--version"]).trim().split(" ");
  const lock = JSON.parse(readFileSync(join(top, "web/package-lock.json"), "utf8"));
  return {
    bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
    metadata: { component: { type: "application", "bom-ref": name, name, version: release } },
    components: [...packages(lock), ...libraries(prefix)],
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.length !== 3) {
    console.error("usage: node docs/sbom.mjs PREFIX (where Sluice is installed, for example /usr/local)");
    process.exit(2);
  }
  console.log(JSON.stringify(sbom(process.argv[2]), null, 2));
}
