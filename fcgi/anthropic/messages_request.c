/* messages.h: reads the request, but for the messages' content, into a chat's own request. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/anthropic/messages.h"
#include "fcgi/anthropic/messages_content.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_build.h"
#include "fcgi/process/worker.h"

static const struct field_row fields[] = {
    {"model", FIELD_READ},
    {"messages", FIELD_READ},
    {"max_tokens", FIELD_READ},
    {"system", FIELD_READ},
    {"stop_sequences", FIELD_READ},
    {"stream", FIELD_READ},
    FIELD_ROWS_OF_SAMPLING, /* but for temperature, top_k and top_p extensions of ours */
    {"tools", FIELD_READ},
    {"tool_choice", FIELD_READ},
    {"thinking", FIELD_READ},
    {"output_config", FIELD_READ},
    {"metadata", FIELD_INERT},
    {"service_tier", FIELD_INERT},
    {"cache_control", FIELD_READ}, /* messages_cache.c */
    {NULL, FIELD_READ},
};

/* {name, description, input_schema} as chat's {type, function}. */
static bool add_tool(struct messages_reader *m, cJSON *tools, const cJSON *tool, int i,
                     struct err *e)
{
    struct request *r = m->r;
    struct chat_build *b = &m->build;
    static const char *const taken[] = {
        "type",   "name",          "description",           "input_schema",
        "strict", "cache_control", "eager_input_streaming", NULL};
    const cJSON *member;
    const char *type = json_text(tool, "type");
    char field[IGNORED_FIELD_BYTES];
    if (!cJSON_IsObject(tool))
        return chat_build_fail(e, ERR_INPUT, "must be an object", "tools[%d]", i);
    if (json_member(tool, "type") && !type)
        return chat_build_fail(e, ERR_INPUT, "must be a string", "tools[%d].type", i);
    if (type && strcmp(type, "custom")) {
        snprintf(field, sizeof field, "tools[%d] (%.40s)", i, type);
        return ignored_add(
            r, field, "the server runs no tools of its own; tools with an input_schema are taken",
            e);
    }
    cJSON_ArrayForEach (member, tool) {
        int k = 0;
        while (taken[k] && strcmp(taken[k], member->string))
            k++;
        snprintf(field, sizeof field, "tools[].%.40s", member->string);
        if (!taken[k] && !cJSON_IsNull(member) &&
            !ignored_add(r, field, "the model is shown a tool's name, description and schema", e))
            return false;
    }
    if (!json_member(tool, "input_schema"))
        return chat_build_fail(e, ERR_INPUT, "is needed", "tools[%d].input_schema", i);
    cJSON *out = cJSON_CreateObject(), *function = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "type", "function");
    chat_build_refer(b, function, "name", json_member(tool, "name"));
    chat_build_refer(b, function, "description", json_member(tool, "description"));
    chat_build_refer(b, function, "parameters", json_member(tool, "input_schema"));
    chat_build_refer(b, function, "strict", json_member(tool, "strict"));
    if (!cJSON_AddItemToObject(out, "function", function) || !cJSON_AddItemToArray(tools, out))
        b->failed = true;
    return true;
}

static bool add_choice(struct chat_build *b, cJSON *o, const cJSON *body, struct err *e)
{
    static const char *const names[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    const cJSON *choice = NULL;
    const char *type = NULL, *name = NULL;
    bool single = false;
    if (!json_get_object(body, "tool_choice", &choice, e) || !choice)
        return json_member(body, "tool_choice") == NULL;
    if (!json_get_string(choice, "type", &type, e) || !json_get_string(choice, "name", &name, e) ||
        !json_get_bool(choice, "disable_parallel_tool_use", &single, e))
        return false;
    if (single)
        cJSON_AddFalseToObject(o, "parallel_tool_calls");
    for (int i = 0; type && i < 3; i++)
        if (!strcmp(type, names[i][0]))
            return cJSON_AddStringToObject(o, "tool_choice", names[i][1]) != NULL ||
                   (b->failed = true);
    if (!type || strcmp(type, "tool") || !name)
        return err_field(e, ERR_INPUT, "tool_choice",
                         "must be auto, any, none, or tool with its name");
    cJSON *named = cJSON_AddObjectToObject(o, "tool_choice");
    cJSON_AddStringToObject(named, "type", "function");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(named, "function"), "name", name);
    return true;
}

bool messages_rename(struct err *e)
{
    chat_build_rename(e, ".function.parameters", ".input_schema");
    chat_build_rename(e, ".function", "");
    chat_build_rename(e, "response_format.json_schema", "response_format");
    return chat_build_rename(e, "response_format", "output_config.format");
}

/* tools, tool_choice and output_config.format in chat's form. */
static bool read_output(struct chat_request *c, struct messages_reader *m, const cJSON *body,
                        struct err *e)
{
    struct request *r = m->r;
    struct chat_build *b = &m->build;
    const cJSON *tools = NULL, *tool, *config = NULL, *format = NULL;
    cJSON *o = cJSON_AddObjectToObject(c->owned, "output");
    int i = 0;
    if (!json_get_array(body, "tools", &tools, e) ||
        !json_get_object(body, "output_config", &config, e) ||
        !json_get_object(config, "format", &format, e) || !add_choice(b, o, body, e))
        return false;
    cJSON *list = tools ? cJSON_AddArrayToObject(o, "tools") : NULL;
    cJSON_ArrayForEach (tool, tools)
        if (!add_tool(m, list, tool, i++, e))
            return false;
    if (format) {
        cJSON *f = cJSON_AddObjectToObject(o, "response_format");
        chat_build_refer(b, f, "type", json_member(format, "type"));
        cJSON *schema = cJSON_AddObjectToObject(f, "json_schema");
        cJSON_AddStringToObject(schema, "name", "output");
        chat_build_refer(b, schema, "schema", json_member(format, "schema"));
    }
    return chat_read_output(c, r, o, e) || messages_rename(e);
}

static bool read_thinking(struct chat_request *c, struct request *r, const cJSON *body,
                          struct err *e)
{
    const cJSON *thinking = NULL, *config = NULL;
    const char *type = "disabled", *effort = NULL, *display = NULL;
    int64_t budget = 0;
    const struct chat_template *t = r->worker->text->chat_template;
    if (!json_get_object(body, "thinking", &thinking, e) ||
        !json_get_object(body, "output_config", &config, e) ||
        !json_get_string(thinking, "type", &type, e) ||
        !json_get_string(config, "effort", &effort, e))
        return false;
    if (effort && !chat_set_effort(c, r, effort, "output_config.effort", e))
        return false;
    if (!thinking) /* off where the template has a switch and no effort was asked for; else as the
                      model is */
        return effort || r->model || !t || !chat_template_traits(t)->thinking_switch ||
               chat_set_thinking(c, r, false, "thinking", e);
    bool on = !strcmp(type, "enabled") || !strcmp(type, "adaptive");
    if (!on && strcmp(type, "disabled"))
        return err_field(e, ERR_INPUT, "thinking.type", "must be enabled, adaptive or disabled");
    if (!json_get_int(thinking, "budget_tokens", 1, INT32_MAX, &budget, e))
        return chat_build_rename(e, "budget_tokens", "thinking.budget_tokens");
    if (!json_get_string(thinking, "display", &display, e))
        return chat_build_rename(e, "display", "thinking.display");
    if (budget)
        ignored_warn(r, "thinking.budget_tokens", "ignored: the model decides how long it thinks",
                     true);
    if (display &&
        !ignored_add(r, "thinking.display", "thinking is shown as the model writes it", e))
        return false;
    return chat_set_thinking(c, r, on, "thinking", e);
}

static bool read_settings(struct chat_request *c, struct request *r, struct chat_build *b,
                          const cJSON *body, struct err *e)
{
    cJSON *o = cJSON_AddObjectToObject(c->owned, "settings");
    if (!json_member(body, "max_tokens"))
        return err_field(e, ERR_INPUT, "max_tokens", "is needed");
    for (int i = 0; settings_names[i]; i++)
        chat_build_refer(b, o, settings_names[i], json_member(body, settings_names[i]));
    chat_build_refer(b, o, "max_tokens", json_member(body, "max_tokens"));
    const cJSON *stop = NULL;
    if (!json_get_array(body, "stop_sequences", &stop, e))
        return false;
    chat_build_refer(b, o, "stop", stop);
    return chat_request_settings(c, r, o, e) || chat_build_rename(e, "stop", "stop_sequences");
}

static bool check_version(const struct request *r, struct err *e)
{
    const char *version = request_header(r, "anthropic-version");
    return !version || (strlen(version) == 10 && strcmp(version, "2023-06-01") >= 0) ||
           err_field(e, ERR_INPUT, "anthropic-version",
                     "'%.20s' is not spoken here; 2023-06-01 and later are", version);
}

/* Threads are kept by Anthropic's own servers; its SDK continues without one when it reads these
 * details. */
static bool refuse_thread(struct request *r, const cJSON *body, struct err *e)
{
    if (!json_member(body, "thread"))
        return true;
    r->error_override.details =
        "{\"error_code\":\"thread_unsupported_request\",\"unsupported\":[\"thread\"]}";
    return err_field(e, ERR_UNSUPPORTED, "thread",
                     "conversations are not kept on this server; send the messages");
}

bool messages_read(struct chat_request *c, struct request *r, bool counts, struct err *e)
{
    chat_request_init(c, r, "messages");
    cJSON *body = field_body(r, e);
    if (!check_version(r, e) || !body || !refuse_thread(r, body, e) ||
        !fields_take(r, body, fields, e) || !chat_request_model(c, r, body, e) ||
        !json_get_bool(body, "stream", &c->streaming.stream, e) || !messages_read_cache(c, body, e))
        return false;
    c->owned = cJSON_CreateObject();
    c->messages = cJSON_AddArrayToObject(c->owned, "messages");
    struct messages_reader m = {.r = r, .build = {.messages = c->messages}};
    if ((!counts && !read_settings(c, r, &m.build, body, e)) || !messages_add(&m, body, e) ||
        !read_output(c, &m, body, e) || !read_thinking(c, r, body, e))
        return false;
    return !m.build.failed || err_set(e, ERR_NOMEM, "no memory for the messages");
}
