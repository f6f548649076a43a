// Reading without a network, on devices where somebody asked for it (js/offline.js registers this, and takes it away again). The
// network is always asked first, for code too: what is kept answers only when nothing else does, so nobody runs stale code. When a
// file of the page has changed, all that is kept of the page is fetched anew, so that what is kept is of one version.

const PAGE = "page";
const READ = "read";
const WANTED = "wanted"; // while this cache is there, something is to be kept at all: this worker outlives its registration
const READ_DAYS = 30;
const PARTS = /^\/($|(v\/\w+\/)?(css|js|strings|vendor)\/(?!admin)|icon[\w-]*\.(svg|png)$|manifest\.webmanifest$)/;
const FORGETS = /^\/api\/(conversations\/bulk|trash|messages\/\d+)$/; // what is changed there may delete chats, or parts of them
const CHAT = /^\/api\/conversations\/(\d+)(?!\d)/;
const READS = /^\/api\/(session$|conversations($|\/\d+(\/texts)?$)|conversation-tags$|projects$)/;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

const nameOf = (url) => (PARTS.test(url.pathname) ? PAGE : READS.test(url.pathname) ? READ : "");
const keyOf = (url) => (nameOf(url) === PAGE ? url.pathname : url.pathname + url.search);

/** What is kept says when it came; of a session no token is kept. */
async function copyOf(response, key) {
  const headers = { "content-type": response.headers.get("content-type") || "", etag: response.headers.get("etag") || "", "x-kept-at": String(Date.now()) };
  for (const name of ["content-security-policy", "cross-origin-opener-policy"]) if (response.headers.has(name)) headers[name] = response.headers.get(name);
  const body = key === "/api/session" ? JSON.stringify({ ...await response.json(), csrf: "" }) : await response.blob();
  return new Response(body, { headers });
}

let renewing = null;
let sessions = 0; // that ended, and deletions: what was asked for before is not kept

/** Where another version is there by now, an address of one gives what there is, and nobody is to keep it as that (nginx/server.conf.in). */
const isOther = (url, response) => /\/v\/\w+\//.test(url) && !/immutable/.test(response.headers.get("cache-control"));

/** Files have the address of their version (web/version.sh), which the page at / names: that one is the first. */
async function renew(cache) {
  let version;
  try {
    const first = await fetch("/", { cache: "no-cache" });
    if (first.status !== 200) throw new Error();
    version = /\/v\/\w+\//.exec(await first.clone().text())?.[0];
    await cache.put("/", await copyOf(first, ""));
  } catch { await caches.delete(PAGE); return; }
  for (const { url } of await cache.keys()) {
    if (new URL(url).pathname === "/") continue;
    try {
      const now = version ? url.replace(/\/v\/\w+\//, version) : url;
      const response = await fetch(now, { cache: "no-cache" });
      if (isOther(now, response)) throw new Error();
      if (response.status === 200) await cache.put(now, await copyOf(response, ""));
      if (response.status !== 200 || now !== url) await cache.delete(url);
      if (!await caches.has(WANTED)) { await caches.delete(PAGE); return; }
    } catch { await cache.delete(url); } // better none than one of another version
  }
}

async function keep(name, key, response, session) {
  if (name === PAGE && isOther(key, response)) return;
  const copy = await copyOf(response, key);
  if (!await caches.has(WANTED) || session !== sessions) return;
  const cache = await caches.open(name);
  const old = await cache.match(key);
  await cache.put(key, copy);
  if (!await caches.has(WANTED)) await caches.delete(name); // turned off meanwhile
  if (name === PAGE && old && old.headers.get("etag") !== response.headers.get("etag")) await (renewing ??= renew(cache).finally(() => { renewing = null; }));
}

async function answer(event, name, key) {
  const session = sessions;
  let response;
  try {
    response = await fetch(event.request);
  } catch (cause) {
    const kept = await (await caches.open(name)).match(key);
    if (kept && (name === PAGE || Date.now() - Number(kept.headers.get("x-kept-at")) < READ_DAYS * 86400000)) return kept;
    throw cause;
  }
  const looks = event.request.headers.has("x-only-looks"); // js/offline.js: is it there still?
  if (response.status === 200 && !looks) event.waitUntil(keep(name, key, response.clone(), session).catch(() => {})); // the disk may be full
  else if (response.status === 401) { sessions++; event.waitUntil(caches.delete(READ)); } // nobody is signed in
  else if (name === READ && response.status === 404) event.waitUntil(forget(CHAT.exec(key)?.[1]));
  return response;
}

/** A chat that is gone goes from what is kept. */
async function forget(id) {
  const cache = await caches.open(READ);
  for (const { url } of await cache.keys()) if (id && CHAT.exec(new URL(url).pathname)?.[1] === id) await cache.delete(url);
}

/** What was deleted stands in lists and in chats: all goes, and pages are told, which ask for what is left. Once more behind the answer,
 *  since what was asked for meanwhile may still have had it. */
async function deleting(request) {
  const forgetAll = () => { sessions++; return caches.delete(READ); };
  await forgetAll();
  try { return await fetch(request); } finally {
    await forgetAll();
    for (const client of await self.clients.matchAll()) client.postMessage("forgotten");
  }
}

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== self.location.origin) return;
  const { method } = event.request;
  if (method !== "GET" && (FORGETS.test(url.pathname) || (method === "DELETE" && /^\/api\/(conversations|projects)\/\d+/.test(url.pathname)))) {
    event.respondWith(deleting(event.request));
    return;
  }
  const name = method === "GET" ? nameOf(url) : "";
  if (name) event.respondWith(answer(event, name, keyOf(url)));
});
