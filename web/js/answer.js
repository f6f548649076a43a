// One running answer: reads its stream, keeps the message up to date, reconnects after a broken connection.

import { ApiError, call, stream } from "./api.js";
import { says } from "./errors.js";
import { t } from "./i18n.js";
import { emit, showLeaf, state } from "./state.js";

const running = new Map(); // message id -> AbortController

const RETRY_MS = [300, 700, 1500, 3000, 5000];

function put(message) {
  const conversation = state.current;
  if (!conversation || conversation.id !== message.conversation_id) return null;
  const old = conversation.messages.get(message.id);
  const merged = old ? Object.assign(old, message) : message;
  if ("content" in message) delete merged.partial;
  conversation.messages.set(merged.id, merged);
  return merged;
}

/** An answer is read by one stream. Its own POST may be late, and a look at what is new has taken it up meanwhile: then the POST goes
 *  on. False: another reads it. */
function claim(context) {
  const { id } = context.message;
  const other = running.get(id);
  if (other && other !== context.control) {
    (context.fresh ? other : context.control).abort();
    if (!context.fresh) return false;
  }
  running.set(id, context.control);
  return true;
}

function handle(event, data, context) {
  switch (event) {
    case "start": {
      context.message = data.message;
      if (!claim(context)) return;
      if (data.user_message) put(data.user_message);
      const message = put({ ...data.message, tokens: 0 }); // its text is that of the deltas to come, or whole where it has ended
      context.message = message || data.message;
      const shown = context.fresh && context.shows;
      if (message && shown) showLeaf(state.current, message.id);
      context.started?.(context.message);
      context.started = null;
      emit("answer-start", { message: context.message, fresh: shown });
      context.fresh = false;
      break;
    }
    case "progress":
      Object.assign(context.message, { progress: data, prompt_tokens: data.total || context.message.prompt_tokens });
      emit("answer-progress", context.message);
      break;
    case "delta": {
      const m = context.message;
      m.progress = null;
      m.first_ms ??= performance.now() - context.asked;
      if (data.reasoning) m.reasoning = (m.reasoning || "") + data.reasoning;
      if (data.content) m.content = (m.content || "") + data.content;
      m.tokens = data.n ?? m.tokens;
      m.rate = data.tokens_per_second ?? m.rate;
      m.reasoning_ms = data.reasoning_ms ?? m.reasoning_ms;
      emit("answer-delta", { message: m, data });
      break;
    }
    case "done":
    case "error": {
      const final = { ...data.message, progress: null };
      if (event === "error") Object.assign(final, { status: final.status === "running" ? "error" : final.status || "error", said: final.error_detail ? "" : says(data.error) || t("thread.failed") });
      context.message = put({ ...context.message, ...final }) || context.message;
      context.finished = true;
      emit("answer-end", context.message);
      break;
    }
  }
}

/** Of several results only the last comes with the stream. */
async function fetchBefore(message) {
  const conversation = state.current;
  if (conversation?.id !== message.conversation_id || conversation.messages.has(message.parent_id)) return;
  const whole = await call("GET", `/api/conversations/${conversation.id}`);
  for (const m of whole.messages) if (m.role === "tool") put(m);
}

async function follow(context, method, path, body) {
  for await (const { event, data } of stream(method, path, body, context.control.signal)) {
    if (event === "error" && data.message?.status === "running") throw new ApiError(0); // the answer continues without this stream
    if (event === "start" && data.user_message?.role === "tool") await fetchBefore(data.user_message);
    if (context.control.signal.aborted) return; // what had come already is nobody's any more
    handle(event, data, context);
    if (context.finished) return;
  }
}

/** Streams until the answer's end; a broken connection is taken up again where the server has the answer. */
async function run(context, method, path, body) {
  let attempt = 0;
  for (;;) {
    try {
      await follow(context, method, path, body);
      return;
    } catch (error) {
      if (error.name === "AbortError") return;
      const lost = error instanceof ApiError && (error.status === 0 || error.status === 503 || error.status === 502);
      // 503: the server says to come back; an answer of a hanging engine continues when the engine does.
      if (!context.message || !lost || (attempt >= RETRY_MS.length && error.status !== 503)) {
        if (!context.message) throw error;
        handle("error", { error: { message: error.message }, message: { ...context.message } }, context);
        return;
      }
      await new Promise((wake) => setTimeout(wake, RETRY_MS[Math.min(attempt++, RETRY_MS.length - 1)]));
      method = "GET";
      path = `/api/messages/${context.message.id}/stream`;
      body = undefined;
    } finally {
      const over = context.finished || context.control.signal.aborted;
      if (over && running.get(context.message?.id) === context.control) running.delete(context.message.id);
    }
  }
}

function newContext(fresh, shows = true) {
  return { control: new AbortController(), message: null, fresh, shows, asked: performance.now(), finished: false, started: null };
}

/** Posts and follows; resolves to the answer when the server has it on disk, rejects when it did not take it. shows: the chat goes to
 *  its branch. */
export function ask(conversation, body, shows = true) {
  const context = newContext(true, shows);
  return new Promise((resolve, reject) => {
    context.started = resolve;
    run(context, "POST", `/api/conversations/${conversation.id}/messages`, body).catch(reject);
  });
}

/** Is this answer being read here? */
export function isFollowed(id) {
  return running.has(id);
}

/** Takes up an answer that runs already (reload, second tab). */
export function resume(message) {
  if (running.has(message.id)) return;
  const context = newContext(false);
  context.message = message;
  running.set(message.id, context.control);
  run(context, "GET", `/api/messages/${message.id}/stream`).catch(() => {});
}

/** Stops reading (the answer itself continues). */
export function leaveAll() {
  for (const control of running.values()) control.abort();
  running.clear();
}

export async function stopAnswer(message) {
  await call("POST", `/api/messages/${message.id}/stop`);
}
