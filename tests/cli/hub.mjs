// A hub on loopback that speaks the Hugging Face protocol, and one of another host that large files are redirected
// to; both do wrong on demand.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

export const sha256 = (data) => createHash("sha256").update(data).digest("hex");
// bytes that repeat nowhere, so that a part in the wrong place is seen
export function bytes(n, seed = 1) {
  const out = Buffer.alloc(n);
  let x = seed >>> 0 || 1;
  for (let i = 0; i < n; i++) {
    x ^= x << 13; x >>>= 0; x ^= x >>> 17; x ^= x << 5; x >>>= 0;
    out[i] = x & 255;
  }
  return out;
}

/** A model's folder as a repository has it: its own files, no documents, none of folders below (a draft model). */
export const modelFiles = (folder) => Object.fromEntries(readdirSync(folder, { withFileTypes: true }).filter((f) => !f.isDirectory() && !f.name.endsWith(".md"))
  .map((f) => [f.name, { data: readFileSync(join(folder, f.name)), lfs: f.name.endsWith(".safetensors") }]));

const listen = (server) => new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.unref().address().port))); // a test that fails may leave it open

// files: {name: {data, lfs, etag, sum, size}} of lab/tiny; others: {"lab/NAME": files} of further repositories. search: what a search answers
// (a function of its words), else every repository with the word in its name. fault(request) may answer by itself (true) or change how it's answered
// ({cut: n} bytes, {short: n}, {plain: true} no ranges, {data}).
export async function startHub(files, options = {}) {
  const hub = { files, log: [], fault: () => null, commit: "c0ffee".padEnd(40, "0"), open: 0, most: 0, ...options };
  const send = (req, res, file, extra = {}) => {
    const change = hub.fault(req, res, hub) || {};
    if (change === true) return;
    const data = change.data || file.data;
    const range = !change.plain && /^bytes=(\d+)-(\d+)$/.exec(req.headers.range || "");
    let from = 0, to = data.length;
    if (range) [from, to] = [Number(range[1]), Math.min(Number(range[2]) + 1, data.length)];
    const headers = { "content-length": to - from, etag: `"${file.etag || sha256(file.data).slice(0, 40)}"`, ...extra };
    if (range && from >= data.length) return res.writeHead(416, { "content-range": `bytes */${data.length}` }).end();
    if (range) headers["content-range"] = `bytes ${from}-${to - 1}/${data.length}`;
    if (change.headers) Object.assign(headers, change.headers);
    if (change.unsized) delete headers["content-length"];
    res.writeHead(range ? 206 : 200, headers);
    if (req.method === "HEAD") return res.end();
    const body = data.subarray(from, to);
    if (change.cut !== undefined) { // the connection breaks in the middle
      res.write(body.subarray(0, Math.min(change.cut, body.length - 1)), () => setTimeout(() => req.socket.destroy(), 5));
      return;
    }
    if (change.slow) {
      let at = 0;
      const timer = setInterval(() => {
        const piece = body.subarray(at, at += typeof change.slow === "function" ? change.slow() : change.slow);
        if (at < body.length && !res.destroyed) return res.write(piece);
        clearInterval(timer);
        return res.end(piece);
      }, 20);
      return;
    }
    res.end(body);
  };
  // As the real one: which members a list has is asked for, and what is gated is not said unasked.
  const shown = (model, url) => {
    const wanted = url.searchParams.getAll("expand"), members = wanted.length ? ["id", ...wanted] : ["id", "downloads", "likes", "tags"];
    return typeof model === "object" && model ? Object.fromEntries(Object.entries(model).filter(([name]) => members.includes(name))) : model;
  };
  const handler = (host) => (req, res) => {
    const url = new URL(req.url, "http://hub");
    hub.log.push({ host, method: req.method, path: decodeURIComponent(url.pathname), range: req.headers.range || "", token: req.headers.authorization || "" });
    if (host === "other") { // a redirect's answer may still be closing when the next request runs
      hub.most = Math.max(hub.most, ++hub.open);
      let counted = true;
      const down = () => { if (counted) hub.open--; counted = false; };
      res.on("finish", down);
      res.on("close", down);
    }
    if (host === "other") return send(req, res, (hub.others?.[url.searchParams.get("of")] ?? hub.files)[decodeURIComponent(url.pathname.slice(1))]);
    const repo = /^\/(?:api\/models\/)?([^/]+\/[^/]+)\//.exec(url.pathname)?.[1], its = repo === "lab/tiny" ? hub.files : hub.others?.[repo];
    if (hub.token && req.headers.authorization !== `Bearer ${hub.token}`) return res.writeHead(401).end("who are you");
    if (url.pathname === "/api/models") {
      if (hub.fault(req, res, hub) === true) return;
      const word = url.searchParams.get("search"), known = ["lab/tiny", ...Object.keys(hub.others ?? {})].filter((n) => n.includes(word));
      const found = hub.search ? hub.search(word) : known.map((id, i) => ({ id, downloads: 1000 - i, likes: 3, tags: ["gguf"], gated: false }));
      return res.writeHead(200, { "content-type": "application/json" }).end(typeof found === "string" ? found : JSON.stringify(Array.isArray(found) ? found.map((m) => shown(m, url)) : found));
    }
    if (url.pathname.startsWith("/api/models/")) {
      if (hub.fault(req, res, hub) === true) return;
      if (!its || !new RegExp(`/revision/(main|v1|${hub.commit})$`).test(url.pathname)) return res.writeHead(404).end("{}");
      const siblings = Object.entries(its).map(([rfilename, f]) => ({ rfilename,
        ...(hub.blobs ? { size: f.data.length, ...(f.lfs ? { lfs: { sha256: f.sum || sha256(f.data), size: f.data.length } } : {}) } : {}) }));
      return res.writeHead(200, { "content-type": "application/json" }).end(hub.list || JSON.stringify({ id: repo, sha: hub.commit, siblings }));
    }
    const name = decodeURIComponent(url.pathname).split(`/resolve/${hub.commit}/`)[1];
    const file = its?.[name];
    if (!file) return res.writeHead(404).end("no such file");
    if (!file.lfs) return send(req, res, file);
    const change = req.method === "HEAD" ? hub.fault(req, res, hub) : null;
    if (change === true) return;
    res.writeHead(302, { location: `http://localhost:${hub.otherPort}/${encodeURIComponent(name)}${repo === "lab/tiny" ? "" : `?of=${repo}`}`, "content-length": 0,
      "x-linked-etag": `"${file.sum || sha256(file.data)}"`, "x-linked-size": String(file.size ?? file.data.length) }).end();
  };
  const main = createServer(handler("hub")), other = createServer(handler("other"));
  hub.port = await listen(main);
  hub.otherPort = await listen(other);
  hub.url = `http://127.0.0.1:${hub.port}`;
  hub.loads = () => hub.log.filter((r) => r.method === "GET" && !r.path.startsWith("/api/"));
  hub.stop = () => { for (const s of [main, other]) { s.closeAllConnections(); s.close(); } };
  return hub;
}
