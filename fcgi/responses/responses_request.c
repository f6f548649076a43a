/* responses.h: reads the request into a chat's own request, and what its answer repeats of it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/responses/responses.h"

#define MAX_METADATA 16

static const struct field_row fields[] = {
    {"model", FIELD_READ},
    {"input", FIELD_READ},
    {"instructions", FIELD_READ},
    {"previous_response_id", FIELD_READ},
    {"conversation", FIELD_READ},
    {"store", FIELD_READ},
    {"stream", FIELD_READ},
    {"stream_options", FIELD_READ},
    {"max_output_tokens", FIELD_READ},
    FIELD_ROWS_OF_SAMPLING,
    FIELD_ROWS_OF_LENGTH,
    {"stop", FIELD_READ},
    {"top_logprobs", FIELD_READ},
    {"include", FIELD_READ},
    {"tools", FIELD_READ},
    {"tool_choice", FIELD_READ},
    {"parallel_tool_calls", FIELD_READ},
    FIELD_ROWS_OF_FORMS,
    {"text", FIELD_READ},
    {"reasoning", FIELD_READ},
    {"truncation", FIELD_READ},
    {"metadata", FIELD_READ},
    {"background", FIELD_READ},
    {"enable_thinking", FIELD_READ},
    {"reasoning_effort", FIELD_READ}, /* chat's, beside reasoning.effort */
    {"thinking", FIELD_READ},
    {"think", FIELD_READ},
    {"chat_template_kwargs", FIELD_READ},
    {"cache_salt", FIELD_READ},
    {"user", FIELD_INERT},
    {"safety_identifier", FIELD_INERT},
    {"service_tier", FIELD_INERT},
    {"prompt_cache_key", FIELD_READ},
    {"prompt_cache_options", FIELD_INERT},
    {"prompt_cache_retention", FIELD_READ},
    {"max_tool_calls", FIELD_INERT}, /* of built-in tools: there are none */
    {NULL, FIELD_READ},
};

static bool read_include(struct responses_request *q, struct request *r, const cJSON *body,
                         struct err *e)
{
    const cJSON *list = NULL, *item;
    int64_t top = 0;
    if (!json_get_array(body, "include", &list, e) ||
        !json_get_int(body, "top_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &top, e))
        return false;
    cJSON_ArrayForEach (item, list) {
        const char *name = cJSON_GetStringValue(item);
        if (name && !strcmp(name, "message.output_text.logprobs"))
            q->logprobs = true;
        else if (!name)
            return err_field(e, ERR_INPUT, "include", "must be a list of strings");
        else if (strcmp(name,
                        "reasoning.encrypted_content") && /* reasoning is in the item, plainly */
                 !ignored_add(r, "include", "of its values message.output_text.logprobs is done",
                              e))
            return false;
    }
    q->logprobs |= top > 0;
    q->chat.top_logprobs = q->logprobs ? (int)top : -1;
    return true;
}

bool responses_metadata(const cJSON *metadata, struct err *e)
{
    const cJSON *item;
    if (cJSON_GetArraySize(metadata) > MAX_METADATA)
        return err_field(e, ERR_INPUT, "metadata", "has at most %d members", MAX_METADATA);
    cJSON_ArrayForEach (item, metadata)
        if (!cJSON_IsString(item) || strlen(item->valuestring) > 512 || strlen(item->string) > 64)
            return err_field(e, ERR_INPUT, "metadata",
                             "holds strings of at most 512 bytes under names of at most 64");
    return true;
}

/* There is no second model that would summarise: the reasoning itself is given where clients look
 * for a summary. */
static bool read_reasoning(struct responses_request *q, struct request *r, const cJSON *body,
                           struct err *e)
{
    static const char *const members[] = {"summary", "generate_summary"};
    const cJSON *reasoning = NULL;
    if (!json_get_object(body, "reasoning", &reasoning, e))
        return false;
    for (int i = 0; i < 2; i++) {
        const char *summary = NULL;
        if (!json_get_string(reasoning, members[i], &summary, e))
            return chat_build_rename(e, members[i],
                                     i ? "reasoning.generate_summary" : "reasoning.summary");
        if (summary && strcmp(summary, "auto") && strcmp(summary, "concise") &&
            strcmp(summary, "detailed") && strcmp(summary, "none"))
            return err_field(e, ERR_INPUT, "reasoning.summary",
                             "must be auto, concise or detailed");
        q->summary |= summary && strcmp(summary, "none");
    }
    return chat_read_reasoning(&q->chat, r, reasoning, e);
}

static bool read_switches(struct responses_request *q, struct request *r, const cJSON *body,
                          struct err *e)
{
    const char *truncation = "disabled";
    bool background = false;
    q->store = true;
    if (!json_get_bool(body, "store", &q->store, e) ||
        !json_get_bool(body, "background", &background, e) ||
        !json_get_string(body, "truncation", &truncation, e) ||
        !field_stream(r, body, &q->chat.streaming, e))
        return false;
    if (background && !ignored_add(r, "background", fields_foreign_reason("background"), e))
        return false;
    q->truncate = !strcmp(truncation, "auto");
    if (!q->truncate && strcmp(truncation, "disabled"))
        return err_field(e, ERR_INPUT, "truncation", "must be auto or disabled");
    return true;
}

static bool read_verbosity(struct responses_request *q, struct request *r, const cJSON *body,
                           struct err *e)
{
    const char *verbosity = NULL;
    if (!json_get_string(json_member(body, "text"), "verbosity", &verbosity, e))
        return chat_build_rename(e, "verbosity", "text.verbosity");
    return !verbosity || chat_set_verbosity(&q->chat, r, verbosity, "text.verbosity", e);
}

/* Sampling, under chat's names. */
static bool read_settings(struct responses_request *q, struct request *r, struct chat_build *b,
                          const cJSON *body, struct err *e)
{
    static const char *const same[] = {"stop", "n_predict", "num_predict", NULL};
    cJSON *o = cJSON_AddObjectToObject(q->chat.owned, "settings");
    for (int i = 0; same[i]; i++)
        chat_build_refer(b, o, same[i], json_member(body, same[i]));
    for (int i = 0; settings_names[i]; i++)
        chat_build_refer(b, o, settings_names[i], json_member(body, settings_names[i]));
    chat_build_refer(b, o, "max_tokens", json_member(body, "max_output_tokens"));
    return chat_request_settings(&q->chat, r, o, e) ||
           chat_build_rename(e, "max_tokens", "max_output_tokens");
}

/* Tools that a server of OpenAI's would run, and the client's own that are no functions. */
static bool is_other_tool(const cJSON *tool)
{
    const char *type = json_text(tool, "type");
    return cJSON_IsObject(tool) && type && *type && strcmp(type, "function");
}

/* {type: function, name, ...} as chat's {type, function: {name, ...}}. */
static void add_function(struct chat_build *b, cJSON *list, const cJSON *tool)
{
    static const char *const members[] = {"name", "description", "parameters", "strict", NULL};
    const char *type = json_text(tool, "type");
    cJSON *out = cJSON_CreateObject();
    chat_build_refer(b, out, "type", json_member(tool, "type"));
    cJSON *function =
        type && !strcmp(type, "function") ? cJSON_AddObjectToObject(out, "function") : NULL;
    for (int i = 0; function && members[i]; i++)
        chat_build_refer(b, function, members[i], json_member(tool, members[i]));
    if (!cJSON_AddItemToArray(list, out))
        b->failed = true;
}

static bool add_tools(struct chat_build *b, struct request *r, cJSON *list, const cJSON *tools,
                      struct err *e)
{
    const cJSON *tool;
    char field[IGNORED_FIELD_BYTES];
    int i = 0;
    cJSON_ArrayForEach (tool, tools) {
        const char *name = json_text(tool, "name");
        snprintf(field, sizeof field, "tools[%d] (%.30s%s%.20s)", i++, json_text(tool, "type"),
                 name ? " " : "", name ? name : "");
        if (!is_other_tool(tool))
            add_function(b, list, tool);
        else if (!ignored_add(r, field, "functions are taken; the server runs no tools of its own",
                              e))
            return false;
    }
    return true;
}

static bool add_choice(struct chat_build *b, struct request *r, cJSON *o, const cJSON *choice,
                       struct err *e)
{
    const char *type = json_text(choice, "type");
    const cJSON *tool;
    if (type && !strcmp(type, "function")) {
        cJSON *named = cJSON_AddObjectToObject(o, "tool_choice");
        cJSON_AddStringToObject(named, "type", "function");
        chat_build_refer(b, cJSON_AddObjectToObject(named, "function"), "name",
                         json_member(choice, "name"));
    } else if (type && !strcmp(type, "allowed_tools")) {
        cJSON *named = cJSON_AddObjectToObject(o, "tool_choice");
        cJSON_AddStringToObject(named, "type", "allowed_tools");
        cJSON *allowed = cJSON_AddObjectToObject(named, "allowed_tools");
        chat_build_refer(b, allowed, "mode", json_member(choice, "mode"));
        cJSON *list = cJSON_AddArrayToObject(allowed, "tools");
        cJSON_ArrayForEach (tool, json_member(choice, "tools"))
            if (!is_other_tool(tool))
                add_function(b, list, tool);
    } else if (is_other_tool(choice)) {
        return ignored_add(r, "tool_choice",
                           "functions are taken; the server runs no tools of its own", e);
    } else {
        chat_build_refer(b, o, "tool_choice", choice);
    }
    return true;
}

static void add_format(struct chat_build *b, cJSON *o, const cJSON *format)
{
    static const char *const members[] = {"name", "description", "schema", "strict", NULL};
    const char *type = json_text(format, "type");
    cJSON *out = cJSON_AddObjectToObject(o, "response_format");
    chat_build_refer(b, out, "type", json_member(format, "type"));
    cJSON *schema =
        type && !strcmp(type, "json_schema") ? cJSON_AddObjectToObject(out, "json_schema") : NULL;
    for (int i = 0; schema && members[i]; i++)
        chat_build_refer(b, schema, members[i], json_member(format, members[i]));
}

bool responses_rename(struct err *e)
{
    chat_build_rename(e, ".function", "");
    chat_build_rename(e, ".allowed_tools", "");
    chat_build_rename(e, "response_format.json_schema", "response_format");
    return chat_build_rename(e, "response_format", "text.format");
}

static bool read_output(struct responses_request *q, struct request *r, struct chat_build *b,
                        const cJSON *body, struct err *e)
{
    const cJSON *tools = NULL, *text = NULL, *format = NULL;
    cJSON *o = cJSON_AddObjectToObject(q->chat.owned, "output");
    if (!json_get_array(body, "tools", &tools, e) || !json_get_object(body, "text", &text, e) ||
        !json_get_object(text, "format", &format, e))
        return false;
    cJSON *list = tools ? cJSON_AddArrayToObject(o, "tools") : NULL;
    if (!add_tools(b, r, list, tools, e) ||
        (json_member(body, "tool_choice") &&
         !add_choice(b, r, o, json_member(body, "tool_choice"), e)))
        return false;
    chat_build_refer(b, o, "parallel_tool_calls", json_member(body, "parallel_tool_calls"));
    if (format)
        add_format(b, o, format);
    for (int i = 0; constraint_field(i); i++)
        chat_build_refer(b, o, constraint_field(i), json_member(body, constraint_field(i)));
    return chat_read_output(&q->chat, r, o, e) || responses_rename(e);
}

static bool add_items(struct responses_reader *rd, const cJSON *items, struct err *e)
{
    const cJSON *item;
    int i = 0;
    cJSON_ArrayForEach (item, items)
        if (!responses_add_item(rd, item, i++, e))
            return false;
    return true;
}

/* What came before, into q->chain, and the input into q->input. */
static bool read_lists(struct responses_request *q, struct request *r, const cJSON *body,
                       struct err *e)
{
    const cJSON *input = json_member(body, "input");
    if (input && !cJSON_IsString(input) && !cJSON_IsArray(input))
        return err_field(e, ERR_INPUT, "input", "must be a string or a list of items");
    q->chain = cJSON_CreateArray();
    q->input = responses_input_items(r, input, e);
    if (!q->input || !json_get_string(body, "previous_response_id", &q->previous, e) ||
        !responses_conversation_read(q, r, body, e) ||
        (q->previous && !responses_chain(r, q->previous, q->chain, e)))
        return false;
    return q->previous || q->input->child || q->chain->child ||
           err_field(e, ERR_INPUT, "input", "is needed");
}

bool responses_read_items(struct responses_request *q, struct request *r, struct chat_build *b,
                          const cJSON *body, struct err *e)
{
    const char *instructions = NULL;
    struct responses_reader before = {.r = r, .build = b, .before = true};
    if (!json_get_string(body, "instructions", &instructions, e) || !read_lists(q, r, body, e))
        return false;
    if (instructions)
        chat_build_text(b, chat_build_message(b, "system"), instructions);
    if (!add_items(&before, q->chain, e))
        return false;
    struct responses_reader own = {
        .r = r, .build = b, .files = before.files, .before = q->compacts};
    if (!add_items(&own, q->input, e))
        return false;
    if (q->conversation)
        q->rows = responses_conversation_rows(r, q->conversation, q->input, "input", e);
    return q->rows || !q->conversation;
}

static void echo_member(struct buf *b, const cJSON *body, const char *name, const char *otherwise)
{
    const cJSON *v = json_member(body, name);
    buf_printf(b, ",\"%s\":", name);
    if (v)
        json_write(b, v);
    else
        buf_puts(b, otherwise);
}

static void write_echo(struct responses_request *q, const cJSON *body)
{
    static const char *const rows[][2] = {
        {"instructions", "null"},        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},      {"metadata", "{}"},
        {"parallel_tool_calls", "true"}, {"previous_response_id", "null"},
        {"prompt_cache_key", "null"},    {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"safety_identifier", "null"},   {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""},     {"tools", "[]"},
        {"truncation", "\"disabled\""},  {"user", "null"}};
    const struct engine_sampling *s = &q->chat.settings.sampling;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        echo_member(&q->echo, body, rows[i][0], rows[i][1]);
    buf_printf(
        &q->echo,
        ",\"service_tier\":\"default\",\"temperature\":%.7g,\"top_p\":%.7g,\"top_logprobs\":%d",
        (double)s->temperature, (double)s->top_p,
        q->chat.top_logprobs < 0 ? 0 : q->chat.top_logprobs);
}

bool responses_read(struct responses_request *q, struct request *r, bool counts, struct err *e)
{
    chat_request_init(&q->chat, r, "input");
    cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, fields, e) || !chat_request_model(&q->chat, r, body, e))
        return false;
    q->chat.owned = cJSON_CreateObject();
    q->chat.messages = cJSON_AddArrayToObject(q->chat.owned, "messages");
    struct chat_build b = {.messages = q->chat.messages};
    const cJSON *metadata = NULL;
    if (!read_switches(q, r, body, e) || !read_settings(q, r, &b, body, e) ||
        !read_include(q, r, body, e) || !json_get_object(body, "metadata", &metadata, e) ||
        !responses_metadata(metadata, e) || !read_output(q, r, &b, body, e) ||
        !chat_read_thinking(&q->chat, r, body, e) || !read_reasoning(q, r, body, e) ||
        !read_verbosity(q, r, body, e) || !chat_read_cache(&q->chat, body, e) ||
        !responses_read_items(q, r, &b, body, e))
        return false;
    if (!counts)
        write_echo(q, body);
    return !(b.failed || q->echo.failed) || err_set(e, ERR_NOMEM, "no memory for the input");
}

void responses_request_fini(struct responses_request *q)
{
    chat_request_fini(&q->chat);
    cJSON_Delete(q->input);
    cJSON_Delete(q->chain);
    buf_fini(&q->echo);
}
