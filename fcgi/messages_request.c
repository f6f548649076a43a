/* messages.h: the request. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/chat_build.h"
#include "fcgi/messages.h"
#include "fcgi/request.h"
#include "fcgi/worker.h"

static const struct field_row fields[] = {
    {"model", FIELD_READ},
    {"messages", FIELD_READ},
    {"max_tokens", FIELD_READ},
    {"system", FIELD_READ},
    {"stop_sequences", FIELD_READ},
    {"stream", FIELD_READ},
    {"temperature", FIELD_READ},
    {"top_k", FIELD_READ},
    {"top_p", FIELD_READ},
    {"experts_per_token", FIELD_READ}, /* ours */
    {"tools", FIELD_READ},
    {"tool_choice", FIELD_READ},
    {"thinking", FIELD_READ},
    {"output_config", FIELD_READ},
    {"metadata", FIELD_INERT},
    {"service_tier", FIELD_INERT},
    {"cache_control", FIELD_INERT}, /* the prompt cache keeps every prompt */
    {NULL, FIELD_READ},
};
static const struct field_row count_fields[] = {
    {"model", FIELD_READ},         {"messages", FIELD_READ},      {"system", FIELD_READ},
    {"tools", FIELD_READ},         {"tool_choice", FIELD_READ},   {"thinking", FIELD_READ},
    {"output_config", FIELD_READ}, {"cache_control", FIELD_INERT},
    {NULL, FIELD_READ},
};

/* err_field with a formatted path, such as messages[2].content[0]. */
static bool bad(struct err *e, enum err_code code, const char *why, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
static bool bad(struct err *e, enum err_code code, const char *why, const char *path, ...)
{
    char field[64];
    va_list ap;
    va_start(ap, path);
    vsnprintf(field, sizeof field, path, ap);
    va_end(ap);
    return err_field(e, code, field, "%s", why);
}

static const char *text_of(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* The texts of a string or of a list of text blocks, added to `message`. */
static bool add_texts(struct chat_build *b, cJSON *message, const cJSON *content, const char *path, struct err *e)
{
    const cJSON *block;
    int i = 0;
    if (cJSON_IsString(content)) {
        chat_build_text(b, message, content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content))
        return bad(e, ERR_INPUT, "must be a string or a list of text blocks", "%s", path);
    cJSON_ArrayForEach(block, content)
    {
        const char *type = text_of(block, "type"), *text = text_of(block, "text");
        if (!type || !text || strcmp(type, "text"))
            return bad(e, type && strcmp(type, "text") ? ERR_UNSUPPORTED : ERR_INPUT,
                       "only text blocks are taken: this model reads text", "%s[%d]", path, i);
        chat_build_text(b, message, text);
        i++;
    }
    return true;
}

static bool add_result(struct chat_build *b, const cJSON *block, int m, int i, struct err *e)
{
    const char *id = text_of(block, "tool_use_id");
    const cJSON *content = json_member(block, "content"), *wrong = json_member(block, "is_error");
    char path[64];
    if (!id)
        return bad(e, ERR_INPUT, "must be a string", "messages[%d].content[%d].tool_use_id", m, i);
    if (wrong && !cJSON_IsBool(wrong))
        return bad(e, ERR_INPUT, "must be true or false", "messages[%d].content[%d].is_error", m, i);
    cJSON *message = chat_build_message(b, "tool");
    chat_build_refer(b, message, "tool_call_id", cJSON_GetObjectItemCaseSensitive(block, "tool_use_id"));
    if (cJSON_IsTrue(wrong)) /* templates know no failed results: the model reads it */
        chat_build_text(b, message, "Error:");
    snprintf(path, sizeof path, "messages[%d].content[%d].content", m, i);
    if (content && !add_texts(b, message, content, path, e))
        return false;
    if (!cJSON_HasObjectItem(message, "content"))
        chat_build_text(b, message, "");
    return true;
}

/* One block of the user's; *message: the text message under way, or NULL. */
static bool add_user_block(struct chat_build *b, cJSON **message, const cJSON *block, int m, int i, struct err *e)
{
    const char *type = text_of(block, "type");
    if (type && !strcmp(type, "tool_result")) {
        *message = NULL;
        return add_result(b, block, m, i, e);
    }
    if (!type || (!strcmp(type, "text") && !text_of(block, "text")))
        return bad(e, ERR_INPUT, "must be a block with a type and its text", "messages[%d].content[%d]", m, i);
    if (strcmp(type, "text"))
        return bad(e, ERR_UNSUPPORTED, "this model reads text blocks and tool results only",
                   "messages[%d].content[%d].type", m, i);
    if (!*message)
        *message = chat_build_message(b, "user");
    chat_build_text(b, *message, text_of(block, "text"));
    return true;
}

static bool add_use(struct chat_build *b, const cJSON *block, int m, int i, struct err *e)
{
    const char *id = text_of(block, "id"), *name = text_of(block, "name");
    const cJSON *input = json_member(block, "input");
    struct buf arguments = {0};
    if (!id || !name || (input && !cJSON_IsObject(input)))
        return bad(e, ERR_INPUT, "needs an id, a name and an input object", "messages[%d].content[%d]", m, i);
    bool ok = input ? json_write(&arguments, input) : buf_puts(&arguments, "{}");
    if (ok)
        chat_build_call(b, chat_build_assistant(b), id, name, arguments.data);
    else
        b->failed = true;
    buf_fini(&arguments);
    return true;
}

static bool add_assistant_block(struct chat_build *b, const cJSON *block, int m, int i, struct err *e)
{
    const char *type = text_of(block, "type");
    if (!type)
        return bad(e, ERR_INPUT, "must be a block with a type", "messages[%d].content[%d]", m, i);
    if (!strcmp(type, "tool_use"))
        return add_use(b, block, m, i, e);
    bool thinking = !strcmp(type, "thinking");
    if (!thinking && strcmp(type, "text"))
        return bad(e, ERR_UNSUPPORTED, "text, thinking and tool_use blocks are taken", "messages[%d].content[%d].type", m,
                   i);
    const char *text = text_of(block, type);
    if (!text)
        return bad(e, ERR_INPUT, "must be a string", "messages[%d].content[%d].%s", m, i, type);
    if (thinking)
        chat_build_reasoning(b, chat_build_assistant(b), text);
    else
        chat_build_text(b, chat_build_assistant(b), text);
    return true;
}

static bool add_message(struct chat_build *b, const cJSON *message, int m, struct err *e)
{
    const char *role = text_of(message, "role");
    const cJSON *content = json_member(message, "content"), *block;
    bool user = role && !strcmp(role, "user");
    cJSON *texts = NULL;
    int i = 0;
    if (role && !strcmp(role, "system")) {
        char path[64];
        snprintf(path, sizeof path, "messages[%d].content", m);
        return add_texts(b, chat_build_message(b, "system"), content, path, e);
    }
    if (!role || (!user && strcmp(role, "assistant")))
        return bad(e, ERR_INPUT, "must be user, assistant or system", "messages[%d].role", m);
    b->assistant = NULL;
    if (cJSON_IsString(content)) {
        chat_build_text(b, user ? chat_build_message(b, "user") : chat_build_assistant(b), content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content) || !content->child)
        return bad(e, ERR_INPUT, "must be a string or a list of blocks", "messages[%d].content", m);
    cJSON_ArrayForEach(block, content)
    {
        if (!(user ? add_user_block(b, &texts, block, m, i, e) : add_assistant_block(b, block, m, i, e)))
            return false;
        i++;
    }
    return true;
}

static bool add_messages(struct chat_build *b, const cJSON *body, struct err *e)
{
    const cJSON *system = json_member(body, "system"), *list = json_member(body, "messages"), *m, *last = NULL;
    int n = 0;
    if (system && !add_texts(b, chat_build_message(b, "system"), system, "system", e))
        return false;
    if (!cJSON_IsArray(list) || !list->child)
        return err_field(e, ERR_INPUT, "messages", "must be a list of at least one message");
    cJSON_ArrayForEach(m, list)
    {
        if (!add_message(b, m, n++, e))
            return false;
        last = m;
    }
    if (!strcmp(text_of(last, "role"), "assistant"))
        return err_field(e, ERR_UNSUPPORTED, "messages",
                         "end with the assistant's: an answer that is begun can't be continued here");
    return true;
}

/* {name, description, input_schema} as chat's {type, function}. */
static bool add_tool(struct chat_build *b, cJSON *tools, const cJSON *tool, int i, struct err *e)
{
    static const char *const taken[] = {"type", "name", "description", "input_schema",
                                        "strict", "cache_control", "eager_input_streaming", NULL};
    const cJSON *member;
    const char *type = text_of(tool, "type");
    if (!cJSON_IsObject(tool))
        return bad(e, ERR_INPUT, "must be an object", "tools[%d]", i);
    if (type && strcmp(type, "custom"))
        return bad(e, ERR_UNSUPPORTED, "this server runs no tools of its own: 'custom' ones are taken", "tools[%d].type", i);
    cJSON_ArrayForEach(member, tool)
    {
        int k = 0;
        while (taken[k] && strcmp(taken[k], member->string))
            k++;
        if (!taken[k] && !cJSON_IsNull(member))
            return bad(e, ERR_UNSUPPORTED, "is not done here", "tools[%d].%.40s", i, member->string);
    }
    if (!json_member(tool, "input_schema"))
        return bad(e, ERR_INPUT, "is needed", "tools[%d].input_schema", i);
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
            return cJSON_AddStringToObject(o, "tool_choice", names[i][1]) != NULL || (b->failed = true);
    if (!type || strcmp(type, "tool") || !name)
        return err_field(e, ERR_INPUT, "tool_choice", "must be auto, any, none, or tool with its name");
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
static bool read_output(struct chat_request *c, struct request *r, struct chat_build *b, const cJSON *body, struct err *e)
{
    const cJSON *tools = NULL, *tool, *config = NULL, *format = NULL;
    cJSON *o = cJSON_AddObjectToObject(c->owned, "output");
    int i = 0;
    if (!json_get_array(body, "tools", &tools, e) || !json_get_object(body, "output_config", &config, e) ||
        !json_get_object(config, "format", &format, e) || !add_choice(b, o, body, e))
        return false;
    cJSON *list = tools ? cJSON_AddArrayToObject(o, "tools") : NULL;
    cJSON_ArrayForEach(tool, tools) if (!add_tool(b, list, tool, i++, e)) return false;
    if (format) {
        cJSON *f = cJSON_AddObjectToObject(o, "response_format");
        chat_build_refer(b, f, "type", json_member(format, "type"));
        cJSON *schema = cJSON_AddObjectToObject(f, "json_schema");
        cJSON_AddStringToObject(schema, "name", "output");
        chat_build_refer(b, schema, "schema", json_member(format, "schema"));
    }
    return chat_read_output(c, r, o, e) || messages_rename(e);
}

static bool read_thinking(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const cJSON *thinking = NULL, *config = NULL;
    const char *type = "disabled", *effort = NULL;
    int64_t budget = 0;
    const struct chat_template *t = r->worker->text->chat_template;
    if (!json_get_object(body, "thinking", &thinking, e) || !json_get_object(body, "output_config", &config, e) ||
        !json_get_string(thinking, "type", &type, e) || !json_get_string(config, "effort", &effort, e))
        return false;
    if (effort && !chat_set_effort(c, r, effort, "output_config.effort", e))
        return false;
    if (!thinking) /* off where the template has a switch; else as the model is */
        return !t || !chat_template_traits(t)->thinking_switch || chat_set_thinking(c, r, false, "thinking", e);
    bool enabled = !strcmp(type, "enabled");
    if (!enabled && strcmp(type, "adaptive") && strcmp(type, "disabled"))
        return err_field(e, ERR_INPUT, "thinking.type", "must be enabled, adaptive or disabled");
    if (json_member(thinking, "display"))
        return err_field(e, ERR_UNSUPPORTED, "thinking.display", "is not done here: thinking is shown as it is");
    if (!json_get_int(thinking, "budget_tokens", 1024, INT32_MAX, &budget, e))
        return chat_build_rename(e, "budget_tokens", "thinking.budget_tokens");
    if (enabled && !budget)
        return err_field(e, ERR_INPUT, "thinking.budget_tokens", "is needed");
    if (budget && c->settings.max_tokens > 0 && budget >= c->settings.max_tokens)
        return err_field(e, ERR_INPUT, "thinking.budget_tokens", "must be less than max_tokens");
    return chat_set_thinking(c, r, strcmp(type, "disabled") != 0, "thinking", e);
}

static bool read_settings(struct chat_request *c, struct request *r, struct chat_build *b, const cJSON *body,
                          struct err *e)
{
    static const char *const same[] = {"temperature", "top_p", "top_k", "max_tokens", "experts_per_token", NULL};
    cJSON *o = cJSON_AddObjectToObject(c->owned, "settings");
    if (!json_member(body, "max_tokens"))
        return err_field(e, ERR_INPUT, "max_tokens", "is needed");
    for (int i = 0; same[i]; i++)
        chat_build_refer(b, o, same[i], json_member(body, same[i]));
    const cJSON *stop = NULL;
    if (!json_get_array(body, "stop_sequences", &stop, e))
        return false;
    chat_build_refer(b, o, "stop", stop);
    return settings_read(&c->settings, o, r->worker->text, r->arena, e) || chat_build_rename(e, "stop", "stop_sequences");
}

static bool check_version(const struct request *r, struct err *e)
{
    const char *version = request_header(r, "anthropic-version");
    return !version || (strlen(version) == 10 && strcmp(version, "2023-06-01") >= 0) ||
           err_field(e, ERR_INPUT, "anthropic-version", "'%.20s' is not spoken here; 2023-06-01 and later are", version);
}

bool messages_read(struct chat_request *c, struct request *r, bool counts, struct err *e)
{
    chat_request_init(c, r, "messages");
    cJSON *body = request_json(r, e);
    if (!check_version(r, e) || !body || !fields_take(r, body, counts ? count_fields : fields, e) ||
        !field_model(r, body, e) || !json_get_bool(body, "stream", &c->streaming.stream, e))
        return false;
    c->owned = cJSON_CreateObject();
    c->messages = cJSON_AddArrayToObject(c->owned, "messages");
    struct chat_build b = {.messages = c->messages};
    if ((!counts && !read_settings(c, r, &b, body, e)) || !add_messages(&b, body, e) ||
        !read_output(c, r, &b, body, e) || !read_thinking(c, r, body, e))
        return false;
    return !b.failed || err_set(e, ERR_NOMEM, "no memory for the messages");
}
