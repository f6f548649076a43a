/* chat_build.h: the tree grows message by message; texts of the request are referred to, not
 * copied. */
#include "fcgi/openai/chat_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"

static cJSON *add(struct chat_build *b, cJSON *o, const char *name, cJSON *v)
{
    if (o && v && (name ? cJSON_AddItemToObject(o, name, v) : cJSON_AddItemToArray(o, v)))
        return v;
    cJSON_Delete(v);
    b->failed = true;
    return NULL;
}

static cJSON *text_part(struct chat_build *b, const char *text)
{
    cJSON *part = cJSON_CreateObject();
    add(b, part, "type", cJSON_CreateString("text"));
    add(b, part, "text", cJSON_CreateStringReference(text));
    return part;
}

cJSON *chat_build_message(struct chat_build *b, const char *role)
{
    cJSON *m = cJSON_CreateObject();
    b->assistant = NULL;
    add(b, m, "role", cJSON_CreateString(role));
    return add(b, b->messages, NULL, m);
}

cJSON *chat_build_assistant(struct chat_build *b)
{
    if (!b->assistant)
        b->assistant = chat_build_message(b, "assistant");
    return b->assistant;
}

void chat_build_text(struct chat_build *b, cJSON *message, const char *text)
{
    cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (!content) {
        add(b, message, "content", cJSON_CreateStringReference(text));
        return;
    }
    if (cJSON_IsString(content)) {
        cJSON *parts = cJSON_CreateArray();
        add(b, parts, NULL, text_part(b, content->valuestring));
        if (!cJSON_ReplaceItemInObjectCaseSensitive(message, "content", parts))
            b->failed = true;
        content = cJSON_GetObjectItemCaseSensitive(message, "content");
    }
    add(b, content, NULL, text_part(b, text));
}

void chat_build_reasoning(struct chat_build *b, cJSON *message, const char *text)
{
    static const char name[] = "reasoning_content";
    const cJSON *there = cJSON_GetObjectItemCaseSensitive(message, name);
    if (!there) {
        add(b, message, name, cJSON_CreateStringReference(text));
        return;
    }
    struct buf joined = {0};
    buf_puts(&joined, there->valuestring);
    buf_puts(&joined, text);
    cJSON *v = joined.failed ? NULL : cJSON_CreateString(joined.data ? joined.data : "");
    if (!v || !cJSON_ReplaceItemInObjectCaseSensitive(message, name, v))
        b->failed = true;
    buf_fini(&joined);
}

void chat_build_call(struct chat_build *b, cJSON *message, const char *id, const char *name,
                     const char *arguments)
{
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    if (!calls)
        calls = add(b, message, "tool_calls", cJSON_CreateArray());
    cJSON *call = add(b, calls, NULL, cJSON_CreateObject());
    add(b, call, "id", cJSON_CreateStringReference(id));
    add(b, call, "type", cJSON_CreateString("function"));
    cJSON *function = add(b, call, "function", cJSON_CreateObject());
    add(b, function, "name", cJSON_CreateStringReference(name));
    add(b, function, "arguments", cJSON_CreateString(arguments));
}

void chat_build_refer(struct chat_build *b, cJSON *o, const char *name, const cJSON *value)
{
    if (!value)
        return;
    bool list = cJSON_IsArray(value), object = cJSON_IsObject(value);
    cJSON *v = list     ? cJSON_CreateArrayReference(value->child)
               : object ? cJSON_CreateObjectReference(value->child)
                        : cJSON_Duplicate(value, true);
    add(b, o, name, v);
}

/* Finds `from` in the path as whole names: "stop" is in "stop[1]", not in "stop_token_ids".
 */
static const char *find_names(const char *path, const char *from)
{
    const size_t n = strlen(from);
    for (const char *at = path; (at = strstr(at, from)); at++)
        if ((at == path || *from == '.' || at[-1] == '.') &&
            (!at[n] || at[n] == '.' || at[n] == '['))
            return at;
    return NULL;
}

bool chat_build_rename(struct err *e, const char *from, const char *to)
{
    char field[sizeof e->field];
    const char *at = find_names(e->field, from);
    if (!at)
        return false;
    snprintf(field, sizeof field, "%.*s%s%s", (int)(at - e->field), e->field, to,
             at + strlen(from));
    memcpy(e->field, field, sizeof field);
    return false;
}

bool chat_build_copy(struct chat_build *b, struct arena *a, cJSON *message, const struct buf *text,
                     struct err *e)
{
    char *copy = text->failed ? NULL : arena_copy(a, text->data ? text->data : "", text->len);
    if (!copy)
        return err_set(e, ERR_NOMEM, "no memory for the messages");
    chat_build_text(b, message, copy);
    return true;
}

bool chat_build_fail(struct err *e, enum err_code code, const char *why, const char *path, ...)
{
    char field[64];
    va_list ap;
    va_start(ap, path);
    vsnprintf(field, sizeof field, path, ap);
    va_end(ap);
    return err_field(e, code, field, "%s", why);
}
