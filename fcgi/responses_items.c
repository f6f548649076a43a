/* responses.h: items of the input. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/request.h"
#include "fcgi/responses.h"

#define FIRST_INPUT 0x10000 /* the input's items are numbered apart from the output's */

/* err_field at input[i]... */
static bool bad(struct err *e, enum err_code code, int i, const char *member, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static bool bad(struct err *e, enum err_code code, int i, const char *member, const char *fmt, ...)
{
    char field[64], why[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(field, sizeof field, "input[%d]%s%.40s", i, *member ? "." : "", member);
    return err_field(e, code, field, "%s", why);
}

static const char *text_of(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static const char *type_of(const cJSON *item)
{
    const char *type = text_of(item, "type");
    return type ? type : "message";
}

void responses_item_id(char out[RESPONSES_ID_SIZE], const char *prefix, const struct request *r, int n)
{
    snprintf(out, RESPONSES_ID_SIZE, "%s_%s%04x", prefix, r->id + strlen("req_"), n);
}

/* The text of a content part; NULL: *e. */
static const char *part_words(const cJSON *part, int i, const char *member, struct err *e)
{
    static const char *const taken[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text", NULL};
    const char *type = text_of(part, "type"), *text;
    int k = 0;
    if (!type) {
        bad(e, ERR_INPUT, i, member, "holds parts with a type");
        return NULL;
    }
    while (taken[k] && strcmp(taken[k], type))
        k++;
    bool refusal = !strcmp(type, "refusal");
    if (!taken[k] && !refusal) {
        bad(e, ERR_UNSUPPORTED, i, member, "'%.40s' is not taken: this model reads text only", type);
        return NULL;
    }
    text = text_of(part, refusal ? "refusal" : "text");
    if (!text)
        bad(e, ERR_INPUT, i, member, "a part's text must be a string");
    return text;
}

/* A string or a list of parts. */
static bool add_content(struct chat_build *b, cJSON *message, const cJSON *content, int i, const char *member,
                        struct err *e)
{
    const cJSON *part;
    if (cJSON_IsString(content)) {
        chat_build_text(b, message, content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content))
        return bad(e, ERR_INPUT, i, member, "must be a string or a list of text parts");
    cJSON_ArrayForEach(part, content)
    {
        const char *text = part_words(part, i, member, e);
        if (!text)
            return false;
        chat_build_text(b, message, text);
    }
    return true;
}

/* The assistant's message that takes reasoning or text: those come before its calls. */
static cJSON *assistant_before_calls(struct chat_build *b, bool reasoning)
{
    const cJSON *m = b->assistant;
    if (m && (cJSON_HasObjectItem(m, "tool_calls") || (reasoning && cJSON_HasObjectItem(m, "content"))))
        b->assistant = NULL;
    return chat_build_assistant(b);
}

static bool add_message(struct chat_build *b, const cJSON *item, int i, struct err *e)
{
    static const char *const roles[] = {"user", "system", "developer", NULL};
    const char *role = text_of(item, "role");
    int k = 0;
    if (role && !strcmp(role, "assistant"))
        return add_content(b, assistant_before_calls(b, false), json_member(item, "content"), i, "content", e);
    while (roles[k] && (!role || strcmp(roles[k], role)))
        k++;
    if (!roles[k])
        return bad(e, ERR_INPUT, i, "role", "must be user, assistant, system or developer");
    return add_content(b, chat_build_message(b, role), json_member(item, "content"), i, "content", e);
}

static bool add_call(struct chat_build *b, const cJSON *item, int i, struct err *e)
{
    const char *id = text_of(item, "call_id"), *name = text_of(item, "name"), *arguments = text_of(item, "arguments");
    if (!id || !name || !arguments)
        return bad(e, ERR_INPUT, i, !id ? "call_id" : !name ? "name" : "arguments", "must be a string");
    chat_build_call(b, chat_build_assistant(b), id, name, arguments);
    return true;
}

static bool add_output(struct chat_build *b, const cJSON *item, int i, struct err *e)
{
    const cJSON *id = json_member(item, "call_id");
    if (!cJSON_IsString(id))
        return bad(e, ERR_INPUT, i, "call_id", "must be a string");
    cJSON *message = chat_build_message(b, "tool");
    chat_build_refer(b, message, "tool_call_id", id);
    return add_content(b, message, json_member(item, "output"), i, "output", e);
}

static bool add_reasoning(struct chat_build *b, const cJSON *item, int i, struct err *e)
{
    const char *member = json_member(item, "content") ? "content" : "summary";
    const cJSON *list = json_member(item, member), *part;
    if (!cJSON_IsArray(list))
        return bad(e, ERR_INPUT, i, member, "must be a list");
    if (!list->child && json_member(item, "encrypted_content"))
        return bad(e, ERR_UNSUPPORTED, i, "encrypted_content", "can't be read here; this server's own reasoning is plain");
    cJSON *message = assistant_before_calls(b, true);
    cJSON_ArrayForEach(part, list)
    {
        const char *text = part_words(part, i, member, e);
        if (!text)
            return false;
        chat_build_reasoning(b, message, text);
    }
    return true;
}

bool responses_add_item(struct chat_build *b, const cJSON *item, int i, struct err *e)
{
    static const struct {
        const char *type;
        bool (*add)(struct chat_build *, const cJSON *, int, struct err *);
    } rows[] = {{"message", add_message}, {"function_call", add_call}, {"function_call_output", add_output},
                {"reasoning", add_reasoning}};
    static const char *const strings[] = {"type", "id", "status", NULL};
    if (!cJSON_IsObject(item))
        return bad(e, ERR_INPUT, i, "", "must be an object");
    for (int k = 0; strings[k]; k++)
        if (json_member(item, strings[k]) && !text_of(item, strings[k]))
            return bad(e, ERR_INPUT, i, strings[k], "must be a string");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (!strcmp(rows[k].type, type_of(item)))
            return rows[k].add(b, item, i, e);
    return bad(e, ERR_UNSUPPORTED, i, "type", "'%.40s' is not taken", type_of(item));
}

/* A message's string content as a list of one part. */
static bool spread_content(cJSON *item)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const char *role = text_of(item, "role");
    bool assistant = role && !strcmp(role, "assistant");
    if (!cJSON_IsString(content))
        return true;
    cJSON *list = cJSON_CreateArray(), *part = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(part, "type", assistant ? "output_text" : "input_text") &&
              cJSON_AddStringToObject(part, "text", content->valuestring) &&
              (!assistant || cJSON_AddArrayToObject(part, "annotations")) && cJSON_AddItemToArray(list, part);
    return ok && cJSON_ReplaceItemInObjectCaseSensitive(item, "content", list);
}

/* The member, where it is absent or null. */
static bool fill(cJSON *item, const char *name, const char *value)
{
    if (json_member(item, name))
        return true;
    cJSON_DeleteItemFromObjectCaseSensitive(item, name);
    return cJSON_AddStringToObject(item, name, value) != NULL;
}

/* id, and what an "easy" message leaves out. */
static bool complete_item(const struct request *r, cJSON *item, int n)
{
    static const char *const prefixes[][2] = {{"message", "msg"}, {"function_call", "fc"}, {"reasoning", "rs"}, {NULL, "item"}};
    const char *type = type_of(item);
    char id[RESPONSES_ID_SIZE];
    int k = 0;
    while (prefixes[k][0] && strcmp(prefixes[k][0], type))
        k++;
    responses_item_id(id, prefixes[k][1], r, FIRST_INPUT + n);
    bool message = k == 0;
    return fill(item, "id", id) && fill(item, "type", "message") && (!message || fill(item, "status", "completed")) &&
           (!message || spread_content(item));
}

cJSON *responses_input_items(const struct request *r, const cJSON *input, struct err *e)
{
    cJSON *items = cJSON_IsArray(input) ? cJSON_Duplicate(input, true) : cJSON_CreateArray(), *item;
    bool ok = items != NULL;
    int n = 0;
    if (ok && cJSON_IsString(input)) {
        item = cJSON_CreateObject();
        ok = cJSON_AddStringToObject(item, "role", "user") && cJSON_AddStringToObject(item, "content", input->valuestring) &&
             cJSON_AddItemToArray(items, item);
    }
    cJSON_ArrayForEach(item, items) ok = ok && (!cJSON_IsObject(item) || complete_item(r, item, n++));
    if (ok)
        return items;
    cJSON_Delete(items);
    err_set(e, ERR_NOMEM, "no memory for the input");
    return NULL;
}
