// Reading without a network: off until somebody turns it on for this device. The newest chats are then kept in this browser, beside
// the page itself (sw.js), until it is turned off or the user signs out.

import { call } from "./api.js";
import { confirmDialog, toast } from "./dom.js";
import { loadStrings, t } from "./i18n.js";

await loadStrings();

const NEWEST = 30; // chats that are kept without having been opened
const VERSION = new URL("..", import.meta.url).pathname; // where this version's files are
const NEEDED = ["/", ...["vendor/markdown-it.min.js", "vendor/purify.min.js", "vendor/highlight.min.js", "js/clean.js", "js/markdown.js"].map((path) => VERSION + path)];
const TEXTS = 80; // as history.js asks
const WANTED = "wanted"; // as in sw.js, with the next two
const READ = "read";
const READ_DAYS = 30;
const REFILL_MS = 3000; // after a deletion: often it is not the only one

let policy; // a name is given once only

/** Only where the page's origin is one that browsers trust, which is TLS or this machine. */
const canOffline = () => Boolean(navigator.serviceWorker);
export const isOffline = async () => canOffline() && Boolean(await navigator.serviceWorker.getRegistration("/"));

/** Asks for all that reading needs, so that it is kept: what this page has asked for, and the newest chats. */
async function fill() {
  const asked = performance.getEntriesByType("resource").map((r) => new URL(r.name)).filter((u) => u.origin === location.origin && !u.pathname.startsWith("/api/")).map((u) => u.pathname);
  await Promise.all([...new Set([...NEEDED, ...asked])].map((path) => fetch(path).then((r) => r.blob()).catch(() => {})));
  await call("GET", "/api/session");
  const { items } = await call("GET", `/api/conversations?limit=${NEWEST}`);
  for (const { id } of items) await call("GET", `/api/conversations/${id}?texts=${TEXTS}`).catch(() => {});
  await prune(new Set(items.map((x) => String(x.id))));
}

/** What is too old goes; older chats that somebody opened stay while they are there: sw.js drops those that are not. */
async function prune(newest) {
  if (!await caches.has(READ)) return;
  const cache = await caches.open(READ);
  const others = new Set();
  for (const request of await cache.keys()) {
    const at = Number((await cache.match(request))?.headers.get("x-kept-at"));
    const id = /^\/api\/conversations\/(\d+)/.exec(new URL(request.url).pathname)?.[1];
    if (Date.now() - at > READ_DAYS * 86400000) await cache.delete(request);
    else if (id && !newest.has(id)) others.add(id);
  }
  for (const id of others) await fetch(`/api/conversations/${id}?texts=1`, { headers: { "x-only-looks": "1" }, cache: "no-store" }).then((r) => r.blob()).catch(() => {});
}

async function ready() {
  const registration = await navigator.serviceWorker.ready;
  if (!navigator.serviceWorker.controller) await new Promise((done) => { navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }); });
  return registration;
}

async function turnOn() {
  if (!await confirmDialog(t("offlineChats.title"), t("offlineChats.text"), t("offlineChats.turnOn"), { safe: true })) return;
  try {
    policy ??= globalThis.trustedTypes?.createPolicy("sluice-worker", { createScriptURL: () => "/sw.js" });
    const url = policy?.createScriptURL("") ?? "/sw.js";
    await caches.open(WANTED);
    await navigator.serviceWorker.register(url);
    await ready();
    await fill();
    toast(t("offlineChats.on"));
  } catch (error) { toast(error.message, 5000); }
}

async function turnOff() {
  await caches.delete(WANTED);
  for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
  for (const name of await caches.keys()) await caches.delete(name);
  toast(t("offlineChats.off"));
}

export async function toggleOffline() {
  if (await isOffline()) await turnOff();
  else await turnOn();
}

let refill;
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  if (data !== "forgotten") return;
  clearTimeout(refill);
  refill = setTimeout(refreshOffline, REFILL_MS);
});

/** At the page's start, when the network is there: what is new since is kept too. */
export async function refreshOffline() {
  if (await isOffline() && navigator.onLine) fill().catch(() => {});
}
