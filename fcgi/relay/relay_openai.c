/* OpenAI's chat completions, as OpenAI, vLLM, SGLang, llama.cpp, LiteLLM and Sluice itself speak
 * them. Reasoning comes as reasoning_content or as reasoning; usage in a chunk of its own. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/relay/relay_dialect.h"

static void put_begin(struct buf *out, const char *remote)
{
    buf_puts(out, "{\"model\":");
    buf_json_string(out, remote, strlen(remote));
    buf_puts(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true},");
}

static void take_usage(struct relay_answer *a, const cJSON *u)
{
    if (cJSON_IsObject(u))
        relay_answer_usage(
            a, relay_answer_figure(u, "prompt_tokens"),
            relay_answer_figure(json_member(u, "prompt_tokens_details"), "cached_tokens"),
            relay_answer_figure(u, "completion_tokens"));
}

static void take_finish(struct relay_answer *a, const char *reason)
{
    if (reason)
        relay_answer_finish(a, !strcmp(reason, "length") ? ENGINE_LENGTH : ENGINE_STOP_EOS);
}

static void take_text(struct relay_answer *a, bool reasoning, const char *text)
{
    if (text)
        relay_answer_text(a, reasoning, text, strlen(text));
}

static void take_calls(struct relay_answer *a, const cJSON *calls)
{
    const cJSON *call;
    int64_t place = 0;
    cJSON_ArrayForEach (call, calls) {
        const cJSON *f = json_member(call, "function");
        const char *arguments = json_text(f, "arguments");
        const int64_t index = relay_answer_figure(call, "index");
        relay_answer_call(a, index >= 0 ? index : place, json_text(f, "name"),
                          arguments ? arguments : "", arguments ? strlen(arguments) : 0);
        place++;
    }
}

/* Some send {"error": ...} in the stream, as an object or as a text. */
static bool refused(struct relay_answer *a, const cJSON *error)
{
    const char *text = cJSON_IsString(error) ? error->valuestring : json_text(error, "message");
    err_field(&a->failed, ERR_UNAVAILABLE, ENGINE_RELAY_REASON "upstream_error",
              "the upstream broke off: %.200s", text ? text : "it does not say why");
    return true;
}

static bool take(struct relay_answer *a, const cJSON *o, bool *over, struct err *e)
{
    const cJSON *choices = json_member(o, "choices"), *error = json_member(o, "error");
    (void)over;
    if (error)
        return refused(a, error);
    take_usage(a, json_member(o, "usage"));
    if (choices && !cJSON_IsArray(choices))
        return err_set(e, ERR_FORMAT, "choices is no list");
    if (!choices && !json_member(o, "usage") && !json_member(o, "object"))
        return err_set(e, ERR_FORMAT, "a chunk without choices");
    const cJSON *choice = choices ? choices->child : NULL;
    const cJSON *delta = json_member(choice, "delta");
    const cJSON *progress = json_member(o, "prompt_progress"); /* llama.cpp's */
    if (progress)
        relay_answer_progress(a, relay_answer_figure(progress, "processed"),
                              relay_answer_figure(progress, "total"),
                              relay_answer_figure(progress, "cache"));
    const cJSON *logprobs = json_member(json_member(choice, "logprobs"), "content");
    const char *reasoning = json_text(delta, "reasoning_content"),
               *content = json_text(delta, "content");
    if (a->wants_logprobs)
        relay_answer_logprobs(a, logprobs);
    /* One event's items go with its first delta: a later piece without any is no lack of them. */
    if (a->wants_logprobs && !a->had_logprobs && content && *content && !cJSON_IsArray(logprobs))
        return !(a->lacks_logprobs = true);
    take_text(a, true, reasoning ? reasoning : json_text(delta, "reasoning"));
    take_text(a, false, content);
    take_text(a, false, json_text(choice, "text")); /* of a text that goes on */
    take_text(a, false, json_text(delta, "refusal"));
    take_calls(a, json_member(delta, "tool_calls"));
    take_finish(a, json_text(choice, "finish_reason"));
    return true;
}

const struct relay_dialect relay_openai = {.name = "openai",
                                           .path = "/chat/completions",
                                           .text_path = "/completions",
                                           .models_path = "/models",
                                           .key_header = "Authorization: Bearer ",
                                           .put_begin = put_begin,
                                           .take = take};
