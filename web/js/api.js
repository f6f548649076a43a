// The server, as the page sees it: JSON calls and answer streams. Every failure is an ApiError with a text for people.

import { says } from "./errors.js";
import { t } from "./i18n.js";

let csrf = "";
let onSignedOut = () => {};
let ahead = null; // answers to what the page asked before this module was here

export class ApiError extends Error {
  constructor(status, error) {
    super(says(error) || (status ? t("errors.status", { status: String(status) }) : t(navigator.onLine === false ? "errors.noNetwork" : "errors.unreachable")));
    this.status = status;
    this.code = error?.code || "";
    this.reason = error?.reason || "";
    this.param = error?.param || "";
  }
}

export function setCsrf(token) { csrf = token; }
export const hasCsrf = () => Boolean(csrf);
export function setSignedOutHandler(fn) { onSignedOut = fn; }
/** path -> Promise of a Response: what was asked already; null: no more. */
export function setAhead(answers) { ahead = answers; }

/** Each is taken once. */
function takeAhead(method, path) {
  const answer = method === "GET" ? ahead?.get(path) : null;
  ahead?.delete(path);
  return answer;
}

async function request(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  let response;
  try {
    response = await (takeAhead(method, path) || fetch(path, { method, headers, signal, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body) }));
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new ApiError(0);
  }
  if (response.ok) return response;
  let error = null;
  try { error = (await response.json()).error; } catch { /* not JSON: the status says enough */ }
  if (error?.code === "confirmation_required" && await (await import("./confirm.js")).confirmSession()) return request(method, path, body, signal);
  if (response.status === 401 && !path.startsWith("/api/login") && path !== "/api/session") onSignedOut();
  throw new ApiError(response.status, error);
}

export async function call(method, path, body, signal) {
  const response = await request(method, path, body, signal);
  return response.status === 204 || response.status === 202 ? null : response.json();
}

export async function text(path) {
  return (await request("GET", path)).text();
}

/** Sends a file as the body; progress(0..1) while it goes. The reply is JSON, or with onEvent a stream of {event, data} that is
 *  told as it comes and ends as stream() does. By XMLHttpRequest, since fetch tells nothing of what was sent. */
export function upload(path, blob, { signal, progress, onEvent } = {}) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    let read = 0;
    let last = "";
    const fail = (error) => reject(error instanceof Error ? error : new ApiError(x.status, error));
    const reply = () => { try { return JSON.parse(x.responseText); } catch { return null; } };
    const follow = () => {
      for (let end; (end = x.responseText.indexOf("\n\n", read)) >= 0; read = end + 2) {
        const message = parseEvent(x.responseText.slice(read, end));
        if (message) last = message.event;
        if (message?.event === "error") fail(message.data.error);
        else if (message) onEvent(message);
      }
    };
    x.open("POST", path);
    x.setRequestHeader("Accept", onEvent ? "text/event-stream" : "application/json");
    x.setRequestHeader("Content-Type", "application/octet-stream");
    x.setRequestHeader("X-CSRF-Token", csrf);
    x.upload.addEventListener("progress", (event) => { if (event.lengthComputable) progress?.(event.loaded / event.total); });
    x.addEventListener("progress", () => { if (onEvent && x.status === 200) follow(); });
    x.addEventListener("load", () => {
      if (x.status === 401) onSignedOut();
      if (x.status < 200 || x.status >= 300) return fail(reply()?.error);
      if (!onEvent) return resolve(reply());
      follow();
      return last === "done" ? resolve(null) : fail({ message: t("errors.broken") });
    });
    x.addEventListener("error", () => fail(null));
    x.addEventListener("abort", () => fail(new DOMException("", "AbortError")));
    signal?.addEventListener("abort", () => x.abort());
    x.send(blob);
  });
}

/** Yields {event, data} of a server-sent stream, in order. Throws ApiError(0) when it ends without `done` or `error`. */
export async function* stream(method, path, body, signal) {
  const response = await request(method, path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let last = "";
  try {
    for (;;) {
      let chunk;
      try { chunk = await reader.read(); } catch (cause) {
        if (cause.name === "AbortError") throw cause;
        break;
      }
      if (chunk.done) break;
      held += chunk.value;
      for (let end; (end = held.indexOf("\n\n")) >= 0; held = held.slice(end + 2)) {
        const message = parseEvent(held.slice(0, end));
        if (!message) continue;
        last = message.event;
        yield message;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (last !== "done" && last !== "error") throw new ApiError(0, { message: t("errors.broken") });
}

function parseEvent(text) {
  let event = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trimStart();
  }
  return data && data !== "[DONE]" ? { event, data: JSON.parse(data) } : null;
}
