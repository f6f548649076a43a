/* Anthropic's messages: system texts stand apart, a tool's results are a user's blocks, the length
 * must be said. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/relay/relay_dialect.h"

#define DEFAULT_TOKENS 8192 /* where the request says none: the API wants a number */

/* ---- the request */

static cJSON *add_block(cJSON *list, const char *type)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", type);
    cJSON_AddItemToArray(list, o);
    return o;
}

static void add_text(cJSON *list, const char *text)
{
    if (text && *text) /* the API refuses empty ones */
        cJSON_AddStringToObject(add_block(list, "text"), "text", text);
}

/* data:image/png;base64,... or an address. */
static void add_image(cJSON *list, const cJSON *part)
{
    const cJSON *v = json_member(part, "image_url");
    const char *url = cJSON_IsString(v) ? v->valuestring : json_text(v, "url");
    const char *comma = url ? strstr(url, ";base64,") : NULL;
    if (!url)
        return;
    cJSON *source = cJSON_AddObjectToObject(add_block(list, "image"), "source");
    if (strncmp(url, "data:", 5) || !comma) {
        cJSON_AddStringToObject(source, "type", "url");
        cJSON_AddStringToObject(source, "url", url);
        return;
    }
    char media[64] = "";
    const size_t n = (size_t)(comma - url - 5);
    if (n < sizeof media)
        memcpy(media, url + 5, n);
    cJSON_AddStringToObject(source, "type", "base64");
    cJSON_AddStringToObject(source, "media_type", media);
    cJSON_AddStringToObject(source, "data", comma + 8);
}

static void add_content(cJSON *list, const cJSON *content)
{
    const cJSON *part;
    if (cJSON_IsString(content))
        add_text(list, content->valuestring);
    if (!cJSON_IsArray(content))
        return;
    cJSON_ArrayForEach (part, content) {
        const char *type = json_text(part, "type");
        if (type && !strcmp(type, "image_url"))
            add_image(list, part);
        else
            add_text(list, json_text(part, "text"));
    }
}

static void add_calls(cJSON *list, const cJSON *calls)
{
    const cJSON *call;
    cJSON_ArrayForEach (call, calls) {
        const cJSON *f = json_member(call, "function"), *v = json_member(f, "arguments");
        const char *id = json_text(call, "id"), *name = json_text(f, "name");
        cJSON *o = add_block(list, "tool_use");
        cJSON *input = cJSON_IsString(v)
                           ? json_parse(v->valuestring, strlen(v->valuestring), NULL, NULL)
                           : cJSON_Duplicate(v, true);
        cJSON_AddStringToObject(o, "id", id ? id : "");
        cJSON_AddStringToObject(o, "name", name ? name : "");
        if (!cJSON_IsObject(input)) {
            cJSON_Delete(input);
            input = cJSON_CreateObject();
        }
        cJSON_AddItemToObject(o, "input", input);
    }
}

/* The list of blocks of the last message where it has this role, else of a new one: roles must
 * alternate. */
static cJSON *blocks_of(cJSON *messages, const char *role)
{
    cJSON *last = cJSON_GetArrayItem(messages, cJSON_GetArraySize(messages) - 1);
    if (last && !strcmp(json_text(last, "role"), role))
        return cJSON_GetObjectItemCaseSensitive(last, "content");
    cJSON *m = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "role", role);
    cJSON_AddItemToArray(messages, m);
    return cJSON_AddArrayToObject(m, "content");
}

static void add_message(cJSON *system, cJSON *messages, const cJSON *m)
{
    const char *role = json_text(m, "role");
    const cJSON *content = json_member(m, "content");
    if (!role)
        return;
    if (!strcmp(role, "system") || !strcmp(role, "developer")) {
        add_content(system, content);
    } else if (!strcmp(role, "tool")) {
        const char *id = json_text(m, "tool_call_id");
        cJSON *o = add_block(blocks_of(messages, "user"), "tool_result");
        cJSON_AddStringToObject(o, "tool_use_id", id ? id : "");
        add_content(cJSON_AddArrayToObject(o, "content"), content);
    } else {
        cJSON *list = blocks_of(messages, role);
        add_content(list, content);
        add_calls(list, json_member(m, "tool_calls"));
    }
}

static void add_tools(cJSON *out, const cJSON *chat)
{
    const cJSON *tools = json_member(chat, "tools"), *tool, *choice;
    if (!tools)
        return;
    cJSON *list = cJSON_AddArrayToObject(out, "tools");
    cJSON_ArrayForEach (tool, tools) {
        const cJSON *f = json_member(tool, "function"), *schema = json_member(f, "parameters");
        const char *name = json_text(f, "name"), *about = json_text(f, "description");
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddStringToObject(o, "name", name ? name : "");
        if (about)
            cJSON_AddStringToObject(o, "description", about);
        cJSON *input = schema ? cJSON_Duplicate(schema, true) : cJSON_CreateObject();
        if (!json_member(input, "type"))
            cJSON_AddStringToObject(input, "type", "object");
        cJSON_AddItemToObject(o, "input_schema", input);
    }
    if (!(choice = json_member(chat, "tool_choice")))
        return;
    const char *named = json_text(json_member(choice, "function"), "name");
    cJSON *o = cJSON_AddObjectToObject(out, "tool_choice");
    cJSON_AddStringToObject(o, "type", named ? "tool" : "any");
    if (named)
        cJSON_AddStringToObject(o, "name", named);
}

static void add_settings(cJSON *out, const cJSON *chat)
{
    static const char *const same[] = {"temperature", "top_p", "top_k"};
    const cJSON *max = json_member(chat, "max_tokens"), *stop = json_member(chat, "stop");
    if (!max)
        max = json_member(chat, "max_completion_tokens");
    cJSON_AddNumberToObject(out, "max_tokens",
                            cJSON_IsNumber(max) && max->valuedouble > 0 ? max->valuedouble
                                                                        : DEFAULT_TOKENS);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (json_member(chat, same[i]))
            cJSON_AddItemToObject(out, same[i], cJSON_Duplicate(json_member(chat, same[i]), true));
    if (cJSON_IsString(stop))
        cJSON_AddItemToArray(cJSON_AddArrayToObject(out, "stop_sequences"),
                             cJSON_CreateString(stop->valuestring));
    else if (stop)
        cJSON_AddItemToObject(out, "stop_sequences", cJSON_Duplicate(stop, true));
}

static bool put_request(struct buf *out, const cJSON *chat, const char *remote, struct err *e)
{
    const cJSON *m;
    if (!relay_dialect_foreign(chat, e))
        return false;
    if (json_member(chat, "response_format"))
        return err_field(e, ERR_UNSUPPORTED, "response_format",
                         "this model's upstream takes no form of the answer");
    cJSON *o = cJSON_CreateObject(), *system = cJSON_CreateArray();
    cJSON_AddStringToObject(o, "model", remote);
    cJSON_AddBoolToObject(o, "stream", true);
    cJSON *messages = cJSON_AddArrayToObject(o, "messages");
    cJSON_ArrayForEach (m, json_member(chat, "messages"))
        add_message(system, messages, m);
    if (system->child)
        cJSON_AddItemToObject(o, "system", system);
    else
        cJSON_Delete(system);
    add_tools(o, chat);
    add_settings(o, chat);
    bool ok = json_write(out, o) || err_set(e, ERR_NOMEM, "no memory for the upstream's request");
    cJSON_Delete(o);
    return ok;
}

/* ---- the stream */

/* Anthropic counts what came from a cache apart from the input. */
static void take_input(struct relay_answer *a, const cJSON *u)
{
    const int64_t input = relay_answer_figure(u, "input_tokens"),
                  read = relay_answer_figure(u, "cache_read_input_tokens"),
                  made = relay_answer_figure(u, "cache_creation_input_tokens");
    if (input >= 0)
        relay_answer_usage(a, input + (read > 0 ? read : 0) + (made > 0 ? made : 0), read, -1);
}

static void take_delta(struct relay_answer *a, const cJSON *o)
{
    const cJSON *delta = json_member(o, "delta");
    const char *text = json_text(delta, "text"), *thinking = json_text(delta, "thinking"),
               *json = json_text(delta, "partial_json");
    if (text)
        relay_answer_text(a, false, text, strlen(text));
    if (thinking)
        relay_answer_text(a, true, thinking, strlen(thinking));
    if (json)
        relay_answer_call(a, relay_answer_figure(o, "index"), NULL, json, strlen(json));
}

static bool take(struct relay_answer *a, const cJSON *o, bool *over, struct err *e)
{
    const char *type = json_text(o, "type");
    if (!type)
        return err_set(e, ERR_FORMAT, "an event without a type");
    if (!strcmp(type, "message_start")) {
        take_input(a, json_member(json_member(o, "message"), "usage"));
    } else if (!strcmp(type, "content_block_start")) {
        const cJSON *block = json_member(o, "content_block");
        const char *kind = json_text(block, "type"), *name = json_text(block, "name"),
                   *text = json_text(block, "text");
        if (name && kind && !strcmp(kind, "tool_use")) /* not what the server calls itself */
            relay_answer_call(a, relay_answer_figure(o, "index"), name, "", 0);
        else if (text)
            relay_answer_text(a, false, text, strlen(text));
    } else if (!strcmp(type, "content_block_delta")) {
        take_delta(a, o);
    } else if (!strcmp(type, "message_delta")) {
        const char *reason = json_text(json_member(o, "delta"), "stop_reason");
        const cJSON *usage = json_member(o, "usage");
        take_input(a, usage);
        relay_answer_usage(a, -1, -1, relay_answer_figure(usage, "output_tokens"));
        if (reason)
            relay_answer_finish(a, strcmp(reason, "max_tokens") ? ENGINE_STOP_EOS : ENGINE_LENGTH);
    } else if (!strcmp(type, "error")) {
        const char *text = json_text(json_member(o, "error"), "message");
        err_set(&a->failed, ERR_UNAVAILABLE, "%.200s", text ? text : "it does not say why");
    } else if (!strcmp(type, "message_stop")) {
        *over = true;
    }
    return true;
}

const struct relay_dialect relay_anthropic = {.name = "anthropic",
                                              .path = "/messages",
                                              .models_path = "/models",
                                              .key_header = "x-api-key: ",
                                              .header = "anthropic-version: 2023-06-01",
                                              .put_request = put_request,
                                              .take = take};
