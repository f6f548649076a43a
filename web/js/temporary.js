// A temporary chat: its messages live in this page alone. They go to the model by the API that programs use, which keeps no
// conversation, and the server is asked not to store the prompt either. Reloading or leaving forgets them.

import { call, stream } from "./api.js";
import { t } from "./i18n.js";
import { branch, emit, on, showLeaf, state } from "./state.js";

const SAMPLING = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "max_tokens", "seed", "stop",
  "tools", "reasoning_effort", "model"];
let control = null; // of the answer under way
let newest = 0;     // the last message's number

export function newTemporary() {
  return { id: "temporary", temporary: true, title: t("header.temporary"), messages: new Map(), leaf_id: null, settings: { ...state.draftSettings } };
}

function requestOf(conversation, settings) {
  const messages = branch(conversation).filter((m) => m.status !== "running").map((m) => ({ role: m.role, content: m.content }));
  if (settings.system) messages.unshift({ role: "system", content: settings.system });
  const body = { messages, stream: true, stream_options: { include_usage: true }, prompt_cache_retention: "in_memory" };
  for (const name of SAMPLING) if (settings[name] !== undefined && settings[name] !== null) body[name] = settings[name];
  if (typeof settings.thinking === "boolean") body.enable_thinking = settings.thinking;
  if (settings.json_schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: settings.json_schema } };
  return body;
}

function add(conversation, message) {
  const whole = { id: String(++newest), conversation_id: conversation.id, created_at: Date.now(), attachments: [], ...message };
  conversation.messages.set(whole.id, whole);
  showLeaf(conversation, whole.id);
  return whole;
}

function take(answer, data) {
  const choice = data.choices?.[0];
  const delta = { content: choice?.delta?.content || "", reasoning: choice?.delta?.reasoning_content || choice?.delta?.reasoning || "" };
  if (data.model) answer.model = data.model;
  if (data.usage) answer.usage = { ...data.usage, cached_tokens: data.usage.prompt_tokens_details?.cached_tokens ?? 0 };
  if (!delta.content && !delta.reasoning) return;
  answer.content += delta.content;
  answer.reasoning += delta.reasoning;
  answer.tokens += 1;
  emit("answer-delta", { message: answer, data: delta });
}

async function run(conversation, answer, body) {
  let ended = "error";
  try {
    for await (const { data } of stream("POST", "/v1/chat/completions", body, control.signal)) {
      if (data.error) throw new Error(data.error.message);
      take(answer, data);
      const why = data.choices?.[0]?.finish_reason;
      if (why) ended = why === "length" ? "length" : "done";
    }
  } catch (error) {
    if (error.name === "AbortError") ended = "stopped";
    else if (ended === "error") answer.error = error.message; // else the stream has ended as it does, without our own last word
  }
  Object.assign(answer, { status: ended, finished_at: Date.now() });
  control = null;
  emit("answer-end", answer);
}

/** As ask() of answer.js does for a chat that is kept: posts and follows; resolves when the answer has begun. */
export async function askTemporary(conversation, body) {
  const settings = Object.keys(conversation.settings).length ? conversation.settings : await call("GET", "/api/defaults");
  const again = body.regenerate && conversation.messages.get(body.regenerate);
  if (again) conversation.leaf_id = again.parent_id;
  else { conversation.leaf_id = body.parent_id ?? null; add(conversation, { role: "user", content: body.content, status: "done", parent_id: conversation.leaf_id }); }
  const request = requestOf(conversation, settings);
  const answer = add(conversation, { role: "assistant", content: "", reasoning: "", status: "running", tokens: 0, parent_id: conversation.leaf_id, model: settings.model || state.status?.model?.name });
  control = new AbortController();
  emit("answer-start", { message: answer, fresh: true });
  run(conversation, answer, request);
}

on("stop-temporary", () => control?.abort());
