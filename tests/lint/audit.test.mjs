// Known holes in locked packages: where the registries answer, none is high; and what docs/audit.mjs makes of their answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const top = join(dirname(fileURLToPath(import.meta.url)), "../..");

function audit(...args) {
  return new Promise((done) => {
    const child = spawn(process.execPath, [join(top, "docs/audit.mjs"), ...args], { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (d) => { text += d; });
    child.on("close", (status) => done({ status, text }));
  });
}

/** A registry and an OSV that say what `answer` says of a path: {status, body}. */
async function source(answer, run) {
  const asked = [];
  const server = http.createServer((request, reply) => {
    let body = "";
    request.on("data", (d) => { body += d; }).on("end", () => {
      asked.push({ path: request.url, body: body && JSON.parse(body) });
      const { status = 200, body: text } = answer(request.url, body && JSON.parse(body));
      reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(text));
    });
  });
  await new Promise((done) => { server.listen(0, "127.0.0.1", done); });
  const url = `http://127.0.0.1:${server.address().port}`;
  try { return { ...await run("--registry", `${url}/mirror/`, "--osv", url), asked }; } finally { server.close(); }
}

const advisory = (severity) => ({ id: 1, url: "https://example.org/GHSA-1", title: "a hole", severity, vulnerable_versions: "*" });
const none = (path, body) => ({ body: path.startsWith("/v1/") ? { results: body.queries.map(() => ({})) } : {} });

test("every locked package is asked about, in its locked version", async () => {
  const r = await source(none, audit);
  assert.equal(r.status, 0, r.text);
  assert.equal(r.text.match(/0 advisories, 0 of them high/g).length, 3, r.text);
  const [web, , osv] = r.asked;
  assert.equal(web.path, "/mirror/-/npm/v1/security/advisories/bulk");
  const lock = JSON.parse(readFileSync(join(top, "web/package-lock.json"), "utf8")).packages;
  assert.deepEqual(web.body.dompurify, [lock["node_modules/dompurify"].version]);
  assert.equal(Object.values(web.body).flat().length, Object.keys(lock).length - 1);
  assert.equal(osv.body.queries.length, readFileSync(join(top, "tests/sdk/requirements.txt"), "utf8").match(/^[^#\s].*==/gm).length);
});

test("a high advisory fails, a low one is told", async () => {
  const of = (severity) => (path, body) => (path.startsWith("/v1/") ? none(path, body) : { body: body.katex ? { katex: [advisory(severity)] } : {} });
  const low = await source(of("low"), audit), high = await source(of("high"), audit), critical = await source(of("critical"), audit);
  assert.deepEqual([low.status, high.status, critical.status], [0, 1, 1]);
  assert.match(low.text, /1 advisories, 0 of them high\n {2}low: katex [\d.]+: a hole https:\/\/example\.org\/GHSA-1/);
  const python = await source((path, body) => (path === "/v1/querybatch" ? { body: { results: body.queries.map((_, i) => (i ? {} : { vulns: [{ id: "PYSEC-1" }] })) } }
    : path === "/v1/vulns/PYSEC-1" ? { body: { summary: "bad", database_specific: { severity: "HIGH" } } } : none(path, body)), audit);
  assert.equal(python.status, 1);
  assert.match(python.text, /HIGH: \S+ \S+: bad PYSEC-1/);
});

test("a source that can't be asked is skipped, with that word, and fails nothing", async () => {
  const refusing = await source(() => ({ status: 405, body: {} }), audit);
  assert.equal(refusing.status, 0);
  assert.equal(refusing.text.match(/: skipped: 405 /g).length, 3, refusing.text);
  const closed = http.createServer();
  await new Promise((done) => { closed.listen(0, "127.0.0.1", done); });
  const url = `http://127.0.0.1:${closed.address().port}`;
  await new Promise((done) => { closed.close(done); });
  const gone = await audit("--registry", url, "--osv", url);
  assert.deepEqual([gone.status, gone.text.match(/: skipped: ECONNREFUSED/g)?.length], [0, 3]);
});

test("no locked package has a high advisory", async (t) => {
  const r = await audit();
  assert.equal(r.status, 0, r.text);
  const skipped = r.text.match(/^.*: skipped: .*$/gm) ?? [];
  for (const line of skipped) t.diagnostic(line);
  if (skipped.length === 3) t.skip("no source of advisories can be asked from here");
});
