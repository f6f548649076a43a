/* Ollama's own API: one object a line, settings in `options`, arguments of calls as objects. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/relay/relay_dialect.h"

/* ---- the request */

static void add_parts(cJSON *out, const cJSON *parts)
{
    const cJSON *part;
    struct buf text = {0};
    cJSON *images = NULL;
    cJSON_ArrayForEach (part, parts) {
        const cJSON *v = json_member(part, "image_url");
        const char *url = cJSON_IsString(v) ? v->valuestring : json_text(v, "url"),
                   *piece = json_text(part, "text"), *data = url ? strstr(url, ";base64,") : NULL;
        if (piece)
            buf_puts(&text, piece);
        if (!data)
            continue;
        if (!images)
            images = cJSON_AddArrayToObject(out, "images");
        cJSON_AddItemToArray(images, cJSON_CreateString(data + 8));
    }
    cJSON_AddStringToObject(out, "content", text.data ? text.data : "");
    buf_fini(&text);
}

static void add_calls(cJSON *out, const cJSON *calls)
{
    const cJSON *call;
    cJSON *list = calls ? cJSON_AddArrayToObject(out, "tool_calls") : NULL;
    cJSON_ArrayForEach (call, calls) {
        const cJSON *f = json_member(call, "function"), *v = json_member(f, "arguments");
        const char *name = json_text(f, "name");
        cJSON *o = cJSON_CreateObject(), *function = cJSON_AddObjectToObject(o, "function");
        cJSON *object = cJSON_IsString(v)
                            ? json_parse(v->valuestring, strlen(v->valuestring), NULL, NULL)
                            : cJSON_Duplicate(v, true);
        cJSON_AddStringToObject(function, "name", name ? name : "");
        cJSON_AddItemToObject(function, "arguments", object ? object : cJSON_CreateObject());
        cJSON_AddItemToArray(list, o);
    }
}

/* Results are named by their function here, not by the call. */
static const char *function_of(const cJSON *messages, const char *id)
{
    const cJSON *m, *call;
    cJSON_ArrayForEach (m, messages)
        cJSON_ArrayForEach (call, json_member(m, "tool_calls")) {
            const char *own = json_text(call, "id");
            if (own && id && !strcmp(own, id))
                return json_text(json_member(call, "function"), "name");
        }
    return NULL;
}

static void add_message(cJSON *list, const cJSON *messages, const cJSON *m)
{
    const cJSON *content = json_member(m, "content");
    const char *role = json_text(m, "role"), *thinking = json_text(m, "reasoning_content"),
               *name = function_of(messages, json_text(m, "tool_call_id"));
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(list, o);
    cJSON_AddStringToObject(o, "role", role && strcmp(role, "developer") != 0 ? role : "system");
    if (cJSON_IsArray(content))
        add_parts(o, content);
    else
        cJSON_AddStringToObject(o, "content", cJSON_IsString(content) ? content->valuestring : "");
    if (thinking)
        cJSON_AddStringToObject(o, "thinking", thinking);
    if (name)
        cJSON_AddStringToObject(o, "tool_name", name);
    add_calls(o, json_member(m, "tool_calls"));
}

static void add_options(cJSON *out, const cJSON *chat)
{
    static const struct {
        const char *from, *to;
    } names[] = {{"temperature", "temperature"},
                 {"top_p", "top_p"},
                 {"top_k", "top_k"},
                 {"min_p", "min_p"},
                 {"seed", "seed"},
                 {"stop", "stop"},
                 {"repetition_penalty", "repeat_penalty"},
                 {"presence_penalty", "presence_penalty"},
                 {"frequency_penalty", "frequency_penalty"},
                 {"max_tokens", "num_predict"},
                 {"max_completion_tokens", "num_predict"}};
    cJSON *o = cJSON_AddObjectToObject(out, "options");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cJSON *v = json_member(chat, names[i].from);
        if (!v)
            continue;
        if (!strcmp(names[i].from, "stop") && cJSON_IsString(v))
            cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "stop"),
                                 cJSON_CreateString(v->valuestring));
        else
            cJSON_AddItemToObject(o, names[i].to, cJSON_Duplicate(v, true));
    }
}

static void add_format(cJSON *out, const cJSON *chat)
{
    const cJSON *format = json_member(chat, "response_format"),
                *schema = json_member(json_member(format, "json_schema"), "schema");
    const char *effort = json_text(chat, "reasoning_effort");
    if (schema)
        cJSON_AddItemToObject(out, "format", cJSON_Duplicate(schema, true));
    else if (format)
        cJSON_AddStringToObject(out, "format", "json");
    if (effort && strcmp(effort, "none") != 0)
        cJSON_AddStringToObject(out, "think", effort);
    else if (effort)
        cJSON_AddBoolToObject(out, "think", false);
}

static bool names_address(const cJSON *messages)
{
    const cJSON *m, *part;
    cJSON_ArrayForEach (m, messages)
        cJSON_ArrayForEach (part, json_member(m, "content")) {
            const cJSON *v = json_member(part, "image_url");
            const char *url = cJSON_IsString(v) ? v->valuestring : json_text(v, "url");
            if (v && (!url || !strstr(url, ";base64,")))
                return true;
        }
    return false;
}

static bool put_request(struct buf *out, const cJSON *chat, const char *remote, struct err *e)
{
    const cJSON *messages = json_member(chat, "messages"), *m, *tools = json_member(chat, "tools");
    if (!relay_dialect_foreign(chat, e))
        return false;
    if (names_address(messages))
        return err_field(e, ERR_UNSUPPORTED, "messages",
                         "this model's upstream takes no addresses of images");
    if (json_member(chat, "tool_choice"))
        return err_field(e, ERR_UNSUPPORTED, "tool_choice",
                         "this model's upstream can't be told which function to call");
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", remote);
    cJSON_AddBoolToObject(o, "stream", true);
    cJSON *list = cJSON_AddArrayToObject(o, "messages");
    cJSON_ArrayForEach (m, messages)
        add_message(list, messages, m);
    if (tools)
        cJSON_AddItemToObject(o, "tools", cJSON_Duplicate(tools, true));
    add_format(o, chat);
    add_options(o, chat);
    bool ok = json_write(out, o) || err_set(e, ERR_NOMEM, "no memory for the upstream's request");
    cJSON_Delete(o);
    return ok;
}

/* ---- the stream */

/* Calls come whole, each of them once. */
static void take_calls(struct relay_answer *a, const cJSON *calls)
{
    const cJSON *call;
    cJSON_ArrayForEach (call, calls) {
        const cJSON *f = json_member(call, "function");
        const char *name = json_text(f, "name");
        struct buf text = {0};
        json_write(&text, json_member(f, "arguments"));
        relay_answer_call(a, a->n_calls, name ? name : "", text.data ? text.data : "{}",
                          text.data ? text.len : 2);
        buf_fini(&text);
    }
}

static bool take(struct relay_answer *a, const cJSON *o, bool *over, struct err *e)
{
    const cJSON *m = json_member(o, "message");
    const char *error = json_text(o, "error"), *text = json_text(m, "content"),
               *thinking = json_text(m, "thinking"), *reason = json_text(o, "done_reason");
    if (error)
        return !err_set(&a->failed, ERR_UNAVAILABLE, "%.200s", error);
    if (!m && !json_member(o, "done"))
        return err_set(e, ERR_FORMAT, "a line without a message");
    if (thinking)
        relay_answer_text(a, true, thinking, strlen(thinking));
    if (text)
        relay_answer_text(a, false, text, strlen(text));
    take_calls(a, json_member(m, "tool_calls"));
    if (!cJSON_IsTrue(json_member(o, "done")))
        return true;
    relay_answer_usage(a, relay_answer_figure(o, "prompt_eval_count"), -1,
                       relay_answer_figure(o, "eval_count"));
    relay_answer_finish(a, reason && !strcmp(reason, "length") ? ENGINE_LENGTH : ENGINE_STOP_EOS);
    return *over = true;
}

const struct relay_dialect relay_ollama = {.name = "ollama",
                                           .path = "/api/chat",
                                           .models_path = "/api/tags",
                                           .key_header = "Authorization: Bearer ",
                                           .put_request = put_request,
                                           .take = take,
                                           .lines = true};
