// Which locked packages have known holes: `node docs/audit.mjs`. npm's are asked of the registry that npm is set to, Python's (of the
// tests' clients) of OSV. Ends with 1 where one is high or critical. A source that can't be asked is skipped, and said to be.
//   node docs/audit.mjs [--registry URL] [--osv URL]
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = join(dirname(fileURLToPath(import.meta.url)), "..");
const WAIT_MS = 20000;
const HIGH = /^(high|critical)$/i;

const argument = (name) => { const at = process.argv.indexOf(name); return at > 0 ? process.argv[at + 1] : undefined; };
const registry = () => argument("--registry") ?? execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8", cwd: top }).trim();
const osv = argument("--osv") ?? "https://api.osv.dev";

async function ask(url, body) {
  const r = await fetch(url, { method: body ? "POST" : "GET", signal: AbortSignal.timeout(WAIT_MS),
    headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
  if (!r.ok) throw new Error(`${r.status} ${r.statusText}`);
  return r.json();
}

/** {name: [versions]} of a lock of npm's. */
function locked(file) {
  const out = {};
  for (const [path, entry] of Object.entries(JSON.parse(readFileSync(join(top, file), "utf8")).packages)) {
    if (!path || entry.link) continue;
    (out[entry.name || path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)] ??= []).push(entry.version);
  }
  return out;
}

async function npm(file) {
  const packages = locked(file);
  const found = await ask(new URL("-/npm/v1/security/advisories/bulk", registry().replace(/\/?$/, "/")), packages);
  return { n: Object.keys(packages).length, advisories: Object.entries(found).flatMap(([name, list]) =>
    list.map((a) => ({ severity: a.severity, text: `${name} ${packages[name]?.join(", ")}: ${a.title} ${a.url}` }))) };
}

async function python(file) {
  const pins = [...readFileSync(join(top, file), "utf8").matchAll(/^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)/gm)].map(([, name, version]) => ({ name, version }));
  const { results } = await ask(`${osv}/v1/querybatch`, { queries: pins.map(({ name, version }) => ({ package: { name, ecosystem: "PyPI" }, version })) });
  const advisories = [];
  for (const [i, { vulns = [] }] of results.entries()) for (const { id } of vulns) {
    const v = await ask(`${osv}/v1/vulns/${encodeURIComponent(id)}`);
    advisories.push({ severity: v.database_specific?.severity ?? "unknown", text: `${pins[i].name} ${pins[i].version}: ${v.summary ?? ""} ${id}` });
  }
  return { n: pins.length, advisories };
}

let high = 0;
for (const [file, look] of [["web/package-lock.json", npm], ["tests/package-lock.json", npm], ["tests/sdk/requirements.txt", python]]) {
  try {
    const { n, advisories } = await look(file);
    const bad = advisories.filter((a) => HIGH.test(a.severity)).length;
    high += bad;
    console.log(`${file}: ${n} packages, ${advisories.length} advisories, ${bad} of them high`);
    for (const a of advisories) console.log(`  ${a.severity}: ${a.text}`);
  } catch (e) {
    console.log(`${file}: skipped: ${e.cause?.code ?? e.message}`);
  }
}
process.exitCode = high ? 1 : 0;
