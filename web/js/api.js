// The server, as the page sees it: JSON calls and answer streams. Every failure is an ApiError with a text for people.

import { has, t } from "./i18n.js";

let csrf = "";
let onSignedOut = () => {};

/** The catalogue's words for what can befall anybody; the server's own where it names a field, a size or a time. */
function says(error) {
  return error?.code && has(`serverErrors.${error.code}`) ? t(`serverErrors.${error.code}`) : error?.message;
}

export class ApiError extends Error {
  constructor(status, error) {
    super(says(error) || (status ? t("errors.status", { status: String(status) }) : t("errors.unreachable")));
    this.status = status;
    this.code = error?.code || "";
    this.param = error?.param || "";
  }
}

export function setCsrf(token) { csrf = token; }
export function setSignedOutHandler(fn) { onSignedOut = fn; }

async function request(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new ApiError(0);
  }
  if (response.ok) return response;
  let error = null;
  try { error = (await response.json()).error; } catch { /* not JSON: the status says enough */ }
  if (response.status === 401 && path !== "/api/login" && path !== "/api/session") onSignedOut();
  throw new ApiError(response.status, error);
}

export async function call(method, path, body, signal) {
  const response = await request(method, path, body, signal);
  return response.status === 204 || response.status === 202 ? null : response.json();
}

export async function text(path) {
  return (await request("GET", path)).text();
}

/** Sends a file as the body; progress(0..1) while it goes. By XMLHttpRequest, since fetch tells nothing of what was sent. */
export function upload(path, blob, { signal, progress } = {}) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    const fail = (error) => reject(error instanceof Error ? error : new ApiError(x.status, error));
    x.open("POST", path);
    x.responseType = "json";
    x.setRequestHeader("Accept", "application/json");
    x.setRequestHeader("Content-Type", "application/octet-stream");
    x.setRequestHeader("X-CSRF-Token", csrf);
    x.upload.addEventListener("progress", (event) => { if (event.lengthComputable) progress?.(event.loaded / event.total); });
    x.addEventListener("load", () => {
      if (x.status >= 200 && x.status < 300) return resolve(x.response);
      if (x.status === 401) onSignedOut();
      return fail(x.response?.error);
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

/** Sends a file and follows the stream that answers it: onSent(bytes) as it goes up, onEvent({event, data}) as they come.
 *  Rejects as stream() throws, and with what an `error` event says. XMLHttpRequest, since fetch does not tell how much of a body has gone. */
export function uploadAndFollow(path, file, { onSent = () => {}, onEvent = () => {}, signal } = {}) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    let read = 0;
    let last = "";
    const follow = () => {
      for (let end; (end = x.responseText.indexOf("\n\n", read)) >= 0; read = end + 2) {
        const message = parseEvent(x.responseText.slice(read, end));
        if (!message) continue;
        last = message.event;
        if (last === "error") reject(new ApiError(x.status, message.data.error));
        else onEvent(message);
      }
    };
    x.open("POST", path);
    x.setRequestHeader("Content-Type", "application/octet-stream");
    x.setRequestHeader("X-CSRF-Token", csrf);
    x.upload.onprogress = (event) => onSent(event.loaded);
    x.onprogress = () => { if (x.status === 200) follow(); };
    x.onload = () => {
      if (x.status !== 200) {
        let error = null;
        try { error = JSON.parse(x.responseText).error; } catch { /* not JSON: the status says enough */ }
        if (x.status === 401) onSignedOut();
        reject(new ApiError(x.status, error));
        return;
      }
      follow();
      if (last === "done") resolve();
      else reject(new ApiError(0, { message: t("errors.broken") }));
    };
    x.onerror = () => reject(new ApiError(0));
    x.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal?.addEventListener("abort", () => x.abort(), { once: true });
    x.send(file);
  });
}

function parseEvent(text) {
  let event = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trimStart();
  }
  return data ? { event, data: JSON.parse(data) } : null;
}
