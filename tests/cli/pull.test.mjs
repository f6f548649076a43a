// sluice pull against a hub on loopback, faults included.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { bytes, sha256, startHub } from "./hub.mjs";
import { command, folder, sluice, start } from "./sluice.mjs";

const repository = () => ({
  "config.json": { data: Buffer.from('{"a":1}\n') },
  "empty.txt": { data: Buffer.alloc(0) },
  "sub dir/täg #1?.json": { data: bytes(3000, 7) },
  "model-00001-of-00002.safetensors": { data: bytes(300000, 2), lfs: true },
  "model-00002-of-00002.safetensors": { data: bytes(70001, 3), lfs: true },
  ".gitattributes": { data: Buffer.from("x") },
});
const BIG = "model-00001-of-00002.safetensors";

async function setup(t, options) {
  const hub = await startHub(repository(), options);
  t.after(() => hub.stop());
  const out = join(folder(t), "tiny");
  const pull = (...more) => sluice(["pull", "lab/tiny", "--endpoint", hub.url, "--out", out, "--segment", "32K", ...more]);
  return { hub, out, pull };
}
function assertWhole(hub, out, names = Object.keys(hub.files).filter((n) => !n.startsWith(".git"))) {
  for (const n of names) assert.equal(sha256(readFileSync(join(out, n))), sha256(hub.files[n].data), n);
  assert.ok(!existsSync(`${out}.part`), "the stage is gone");
}
const assertNotThere = (out) => assert.ok(!existsSync(out), "nothing that looks complete");

for (const blobs of [false, true]) {
  test(`a repository is loaded whole, in ranges, from the commit (blobs ${blobs})`, async (t) => {
    const { hub, out, pull } = await setup(t, { blobs });
    hub.fault = (req) => (req.method === "GET" && req.headers.range ? { slow: 8000 } : null);
    const r = await pull("--jobs", "4");
    assert.equal(r.code, 0, r.err);
    assertWhole(hub, out);
    assert.ok(!existsSync(join(out, ".gitattributes")));
    assert.match(r.out, /is whole: 373\.\d kB/);
    assert.ok(!r.out.includes("\r"), "no bar where there is no terminal");
    const ranges = hub.loads().filter((q) => q.host === "other" && q.path === `/${BIG}`);
    assert.equal(ranges.length, 10);
    assert.ok(hub.most > 1 && hub.most <= 4, `requests at once: ${hub.most}`);
    assert.ok(hub.loads().filter((q) => q.host === "hub").every((q) => q.path.includes(`/resolve/${hub.commit}/`)));
  });
}

test("a second pull loads nothing and shows no bar", async (t) => {
  const { hub, out, pull } = await setup(t);
  assert.equal((await pull()).code, 0);
  hub.log.length = 0;
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assert.match(r.out, /all 5 files are there/);
  assert.equal(r.out.split("\n").length, 2);
  assert.deepEqual(hub.loads(), []);
  assertWhole(hub, out);
});

test("a file that changed on the hub is loaded into the folder that is there", async (t) => {
  const { hub, out, pull } = await setup(t);
  assert.equal((await pull()).code, 0);
  hub.files["config.json"] = { data: Buffer.from('{"a":2}\n') };
  hub.files[BIG] = { data: bytes(300000, 99), lfs: true };
  hub.log.length = 0;
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(hub.loads().every((q) => q.path.includes("config.json") || q.path.includes("00001")));
});

test("files put there by hand are kept when their hash is right", async (t) => {
  const { hub, out, pull } = await setup(t);
  mkdirSync(out);
  writeFileSync(join(out, BIG), hub.files[BIG].data);
  writeFileSync(join(out, "model-00002-of-00002.safetensors"), Buffer.alloc(70001));
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(!hub.loads().some((q) => q.path.includes("00001")));
});

test("--include chooses by name; nothing that matches is an error", async (t) => {
  const { hub, out, pull } = await setup(t);
  assert.equal((await pull("--include", "*.json,*00002-of*")).code, 0);
  assertWhole(hub, out, ["config.json", "sub dir/täg #1?.json", "model-00002-of-00002.safetensors"]);
  assert.ok(!existsSync(join(out, BIG)));
  const none = await pull("--include", "*.gguf");
  assert.equal(none.code, 1);
  assert.match(none.err, /no file matches/);
});

test("the token goes to the endpoint's host and to no other", async (t) => {
  const { hub, out, pull } = await setup(t, { token: "hf_secret" });
  const refused = await pull();
  assert.equal(refused.code, 1);
  assert.match(refused.err, /401.*--token-file/);
  const file = join(folder(t), "token");
  writeFileSync(file, "hf_secret\n");
  const r = await pull("--token-file", file);
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  const there = hub.log.filter((q) => q.host === "other");
  assert.ok(there.length > 10);
  assert.ok(there.every((q) => q.token === ""), "another host saw the token");
  assert.ok(!(r.out + r.err).includes("hf_secret"));
  const far = await sluice(["pull", "lab/tiny", "--endpoint", "http://hub.invalid", "--token-file", file]);
  assert.equal(far.code, 1);
  assert.match(far.err, /plain HTTP/);
});

test("5xx, 429 with Retry-After and cut connections are passed over", async (t) => {
  const { hub, out, pull } = await setup(t);
  let n = 0, waited = 0, refusedAt = 0;
  hub.fault = (req, res) => {
    n++;
    if (refusedAt && !waited) waited = Date.now() - refusedAt;
    if (n === 1) { res.writeHead(503).end("later"); return true; }
    if (n === 4) { res.writeHead(500).end(); return true; }
    if (n === 9) { refusedAt = Date.now(); res.writeHead(429, { "retry-after": "1" }).end(); return true; }
    if (req.method === "GET" && n % 4 === 0) return { cut: 1000 + n };
    return null;
  };
  const r = await pull("--jobs", "1");
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(waited >= 950, `Retry-After was kept: ${waited} ms`);
});

test("a cut range goes on where it was cut", async (t) => {
  const { hub, out, pull } = await setup(t);
  let once = true;
  hub.fault = (req) => (once && req.method === "GET" && req.headers.range?.startsWith("bytes=32768-") ? ((once = false), { cut: 5000 }) : null);
  assert.equal((await pull("--jobs", "1")).code, 0);
  assertWhole(hub, out);
  assert.ok(hub.loads().some((q) => /^bytes=(3[3-7]\d\d\d)-65535$/.test(q.range)), "resumed within the range");
});

test("a hub that never recovers ends the pull, and nothing looks complete", async (t) => {
  const { hub, out, pull } = await setup(t);
  hub.fault = (req, res) => (req.method === "GET" && req.url.includes("00001") ? (res.writeHead(404).end(), true) : null);
  const r = await pull();
  assert.equal(r.code, 1);
  assert.match(r.err, /404/);
  assert.match(r.err, /the same command resumes it/);
  assertNotThere(out);
  hub.fault = () => null;
  assert.equal((await pull()).code, 0);
  assertWhole(hub, out);
});

test("a wrong hash is loaded again, then refused", async (t) => {
  const { hub, out, pull } = await setup(t);
  let bad = 1;
  const wrong = Buffer.from(hub.files[BIG].data);
  wrong[123456] ^= 1;
  hub.fault = (req) => (req.url.includes("00001") && req.method === "GET" && bad > 0 && /bytes=98304-/.test(req.headers.range) ? (bad--, { data: wrong }) : null);
  wrong[100000] ^= 1;
  const once = await pull();
  assert.equal(once.code, 0, once.err);
  assert.match(once.out, /wrong sha256: loading it again/);
  assertWhole(hub, out);
});

test("a hash that stays wrong is an error", async (t) => {
  const { hub, out, pull } = await setup(t);
  hub.files[BIG].sum = "0".repeat(64);
  const r = await pull();
  assert.equal(r.code, 1);
  assert.match(r.err, /sha256 is not the one/);
  assertNotThere(out);
  assert.ok(!existsSync(join(`${out}.part`, BIG)));
});

test("416 and a size that changed under way start the file anew", async (t) => {
  const { hub, out, pull } = await setup(t);
  let n = 0;
  hub.fault = (req, res) => (req.headers.range?.startsWith("bytes=65536-") && n++ === 0 ? (res.writeHead(416).end(), true) : null);
  assert.equal((await pull()).code, 0);
  assertWhole(hub, out);
  const other = await setup(t);
  const longer = bytes(310000, 5);
  let moved = false;
  other.hub.fault = (req) => {
    if (!moved && req.headers.range?.startsWith("bytes=131072-")) { moved = true; other.hub.files[BIG] = { data: longer, lfs: true }; return { data: longer }; }
    return null;
  };
  const r = await other.pull("--jobs", "2");
  assert.equal(r.code, 0, r.err);
  assertWhole(other.hub, other.out);
});

test("a hub whose said size is a lie is found out", async (t) => {
  const { hub, out, pull } = await setup(t);
  hub.files[BIG].size = 400000;
  const r = await pull();
  assert.equal(r.code, 1);
  assert.match(r.err, /size|part/);
  assertNotThere(out);
});

test("a hub without ranges is loaded in whole files", async (t) => {
  const { hub, out, pull } = await setup(t);
  hub.fault = (req) => (req.method === "GET" ? { plain: true } : null);
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
});

test("an answer without length that ends early is not taken for whole", async (t) => {
  const { hub, out, pull } = await setup(t);
  let n = 0;
  hub.fault = (req) => (req.method === "GET" && req.url.includes("sub%20dir") && n++ < 2 ? { data: hub.files["sub dir/täg #1?.json"].data.subarray(0, 1000), unsized: true } : null);
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(n >= 2);
});

async function interrupt(t, signal) {
  const s = await setup(t);
  s.hub.fault = (req) => (req.method === "GET" && s.hub.loads().length > 3 ? { slow: 500 } : null);
  const child = start(["pull", "lab/tiny", "--endpoint", s.hub.url, "--out", s.out, "--segment", "32K", "--jobs", "2"]);
  let err = "";
  child.stderr.on("data", (d) => (err += d));
  const ended = new Promise((r) => child.on("exit", (c) => r(c)));
  while (s.hub.loads().length < 7 && child.exitCode === null) await new Promise((r) => setTimeout(r, 20));
  assert.equal(child.exitCode, null, err);
  child.kill(signal);
  const code = await ended;
  assertNotThere(s.out);
  assert.ok(existsSync(join(`${s.out}.part`, ".sluice-pull.json")));
  s.hub.fault = () => null;
  s.hub.log.length = 0;
  return { ...s, code, err };
}

test("SIGINT keeps what came; the next pull loads the rest only", async (t) => {
  const { hub, out, pull, code, err } = await interrupt(t, "SIGINT");
  assert.equal(code, 1);
  assert.match(err, /stopped/);
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(!hub.loads().some((q) => q.range === "bytes=0-32767" && q.path.includes("00001")), "the first part was there");
});

test("kill -9 leaves nothing that looks complete, and the next pull succeeds", async (t) => {
  const { hub, out, pull } = await interrupt(t, "SIGKILL");
  assert.equal((await pull()).code, 0);
  assertWhole(hub, out);
});

test("a resumed file whose hash is another now starts at its first byte", async (t) => {
  const { hub, out, pull } = await interrupt(t, "SIGINT");
  hub.files[BIG] = { data: bytes(300000, 41), lfs: true };
  const r = await pull();
  assert.equal(r.code, 0, r.err);
  assertWhole(hub, out);
  assert.ok(hub.loads().some((q) => q.range === "bytes=0-32767" && q.path.includes("00001")));
});

test("a resumed file whose ETag changed, of a hub without hashes, starts anew", async (t) => {
  const hub = await startHub({ "a.bin": { data: bytes(200000, 3), etag: "one" } });
  t.after(() => hub.stop());
  const out = join(folder(t), "tiny"), args = ["pull", "lab/tiny", "--endpoint", hub.url, "--out", out, "--segment", "32K", "--jobs", "1"];
  hub.fault = (req, res) => (req.headers.range?.startsWith("bytes=98304-") ? (res.writeHead(403).end(), true) : null);
  assert.equal((await sluice(args)).code, 1);
  hub.files["a.bin"] = { data: bytes(200000, 4), etag: "two" };
  hub.fault = () => null;
  assert.equal((await sluice(args)).code, 0);
  assertWhole(hub, out);
});

test("a damaged manifest costs a download, not a wrong file", async (t) => {
  const { hub, out, pull } = await interrupt(t, "SIGINT");
  const manifest = join(`${out}.part`, ".sluice-pull.json");
  truncateSync(manifest, readFileSync(manifest).length - 20);
  assert.equal((await pull()).code, 0);
  assertWhole(hub, out);
});

test("names that leave the folder, deceive or collide are refused", async (t) => {
  const { hub, out, pull } = await setup(t);
  for (const name of ["../evil", "a/../../evil", "/etc/evil", "a//b", "./a", "a\\b", "a\u001b[2J", "x.part", ".sluice-pull.json", "a".repeat(600), ""]) {
    hub.list = JSON.stringify({ sha: hub.commit, siblings: [{ rfilename: "config.json" }, { rfilename: name }] });
    const r = await pull();
    assert.equal(r.code, 1, name);
    assert.match(r.err, /refused here|without a name/, name);
  }
  for (const list of ["", "[]", '{"siblings":3}', '{"siblings":[3]}', "<html>", `{"sha":"a","siblings":[${'{"rfilename":"a"},'.repeat(2)}{"rfilename":"b"}]}`,
    JSON.stringify({ siblings: Array.from({ length: 10001 }, (_, i) => ({ rfilename: `f${i}` })) })]) {
    hub.list = list || " ";
    assert.equal((await pull()).code, 1, list.slice(0, 40));
  }
  assert.deepEqual(hub.loads(), []);
  assertNotThere(out);
});

test("no space is said before a byte is loaded", async (t) => {
  const { hub, out, pull } = await setup(t);
  hub.files[BIG].size = 2 ** 43;
  const r = await pull(); // a size that is only claimed costs no memory
  assert.equal(r.code, 1);
  assert.match(r.err, /are missing, but .* free/);
  assert.deepEqual(hub.loads(), []);
  hub.files[BIG].size = 2 ** 50;
  assert.match((await pull()).err, /size/);
  assertNotThere(out);
});

test("a full disk ends the pull with its reason; more room and it goes on", async (t) => {
  const { hub, out, pull } = await setup(t);
  const r = await new Promise((done) => execFile("sh", ["-c", 'ulimit -f 200; exec "$@"', "sh", command, "pull", "lab/tiny", "--endpoint", hub.url,
    "--out", out, "--segment", "32K"], (e, o, err) => done({ code: e?.code ?? 0, err })));
  assert.equal(r.code, 1);
  assert.match(r.err, /writing model-00001.*too large/i);
  assertNotThere(out);
  assert.equal((await pull()).code, 0);
  assertWhole(hub, out);
});

test("two pulls of one folder don't meet", async (t) => {
  const { hub, out, pull } = await setup(t);
  let rate = 1, over = false; // bytes at a time: the first does not end before the second has been refused
  hub.fault = (req) => (req.method === "GET" && req.url.includes("00002") ? { slow: () => rate } : null);
  const first = pull().finally(() => { over = true; });
  while (!hub.loads().length && !over) await new Promise((r) => setTimeout(r, 10));
  const second = await pull();
  rate = 1 << 20;
  assert.equal(second.code, 1);
  assert.match(second.err, /another pull/);
  assert.equal((await first).code, 0);
  assertWhole(hub, out);
});

test("wrong use exits with 2, unknown repositories with 1", async (t) => {
  const { hub, pull } = await setup(t);
  for (const args of [[], ["a", "b"], ["a/b/c"], ["../x"], ["a/b@"], ["a/b", "--endpoint", "ftp://x"], ["a/b", "--endpoint", "http://me:pw@x"], ["a/b", "--jobs", "0"], ["a/b", "--bad"]])
    assert.equal((await sluice(["pull", ...args])).code, 2, args.join(" "));
  const r = await sluice(["pull", "lab/none", "--endpoint", hub.url], { cwd: folder(t) });
  assert.equal(r.code, 1);
  assert.match(r.err, /no such repository or revision/);
  hub.stop();
  const gone = await pull("--timeout", "1");
  assert.equal(gone.code, 1);
  assert.match(gone.err, /connect/i);
});

test("on a terminal there is a bar with bytes, rate and time left", async (t) => {
  const { hub, out } = await setup(t);
  hub.fault = (req) => (req.method === "GET" && req.url.includes("00001") ? { slow: 1000 } : null);
  const args = ["pull", "lab/tiny", "--endpoint", hub.url, "--out", out, "--segment", "64K", "--jobs", "2"];
  const quote = (s) => `'${s}'`;
  const r = await new Promise((done) => execFile("script", ["-qec", [command, ...args].map(quote).join(" "), "/dev/null"], (e, o) => done({ code: e?.code ?? 0, out: o })));
  if (r.code === "ENOENT") return t.skip("no script(1) here");
  assert.equal(r.code, 0, r.out);
  const drawn = [...r.out.matchAll(/\r([\d.]+ \w+) of 373\.\d kB {2}\s*(\d+) % {2}[\d.]+ \w+\/s {2}([^\r]*?)\d of 5 files/g)];
  assert.ok(drawn.length >= 3, r.out);
  const shares = drawn.map((m) => Number(m[2]));
  assert.deepEqual([...shares].sort((a, b) => a - b), shares, "never backwards");
  assert.ok(drawn.some((m) => / s left/.test(m[3])));
  assertWhole(hub, out);
  assert.ok(readdirSync(out).includes("config.json"));
});
