/* Converts messages from the form that clients send to the form that a template expects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/hash.h"
#include "engine/base/json/json.h"
#include "engine/chat/chat_template_internal.h"

static bool no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "memory ran out for the messages");
}

static bool set_string(cJSON *o, const char *name, const char *text, struct err *e)
{
    cJSON *v = cJSON_CreateString(text);
    bool ok = v && (cJSON_GetObjectItemCaseSensitive(o, name)
                        ? cJSON_ReplaceItemInObjectCaseSensitive(o, name, v)
                        : cJSON_AddItemToObject(o, name, v));
    if (!ok)
        cJSON_Delete(v);
    return ok || no_memory(e);
}

/* All parts are text: their texts, a line each, as the servers that clients know do it. */
static bool join_parts(cJSON *message, const cJSON *parts, struct err *e)
{
    struct buf b = {0};
    for (const cJSON *p = parts->child; p; p = p->next) {
        const cJSON *text = cJSON_IsString(p) ? p : cJSON_GetObjectItemCaseSensitive(p, "text");
        if (!cJSON_IsString(text)) { /* an image: the template must deal with it */
            buf_fini(&b);
            return true;
        }
        if (b.len)
            buf_putc(&b, '\n');
        buf_puts(&b, text->valuestring);
    }
    bool ok =
        (!b.failed || no_memory(e)) && set_string(message, "content", b.data ? b.data : "", e);
    buf_fini(&b);
    return ok;
}

static bool normalize_content(const struct chat_template *t, cJSON *message, struct err *e)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (!content || cJSON_IsNull(content))
        return set_string(message, "content", "", e);
    if (cJSON_IsArray(content) && !t->takes_parts)
        return join_parts(message, content, e);
    return true;
}

/* The reasoning under each name that the template asks for. */
static bool normalize_reasoning(const struct chat_template *t, cJSON *message, struct err *e)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !text; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(message, names[i]);
        if (cJSON_IsString(v) && v->valuestring[0])
            text = v->valuestring;
    }
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    bool says_more = cJSON_IsString(content) && content->valuestring[0];
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++) {
        const cJSON *there = cJSON_GetObjectItemCaseSensitive(message, names[i]);
        if ((cJSON_IsString(there) && there->valuestring[0]) || !jinja_mentions(t->jinja, names[i]))
            continue;
        /* gpt-oss refuses a call with both a preamble and its reasoning: the preamble was shown, it
         * stays */
        if (!strcmp(t->traits.format, "harmony") && says_more &&
            cJSON_HasObjectItem(message, "tool_calls"))
            continue;
        if (!set_string(message, names[i], text, e))
            return false;
    }
    return true;
}

static bool arguments_to_object(cJSON *function, const cJSON *arguments, struct err *e)
{
    const char *text = arguments->valuestring;
    cJSON *o = text[strspn(text, " \t\r\n")] ? json_parse(text, strlen(text), NULL, NULL)
                                             : cJSON_CreateObject();
    if (!cJSON_IsObject(o)) { /* not JSON: it stays what it was */
        cJSON_Delete(o);
        return true;
    }
    if (cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", o))
        return true;
    cJSON_Delete(o);
    return no_memory(e);
}

static bool arguments_to_text(cJSON *function, const cJSON *arguments, struct err *e)
{
    struct buf b = {0};
    bool ok = (json_write_spaced(&b, arguments) || no_memory(e)) &&
              set_string(function, "arguments", b.data, e);
    buf_fini(&b);
    return ok;
}

/* Nine letters and digits that follow from the id, so that calls and results still find each other.
 */
static bool shorten_id(cJSON *o, const char *name, struct err *e)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(o, name);
    char out[10];
    if (!cJSON_IsString(id) ||
        (strlen(id->valuestring) == 9 && strspn(id->valuestring, letters) == 9))
        return true;
    uint64_t h = hash64(id->valuestring, strlen(id->valuestring), 0);
    for (int i = 0; i < 9; i++, h /= 36)
        out[i] = letters[h % 36];
    out[9] = 0;
    return set_string(o, name, out, e);
}

static bool normalize_calls(const struct chat_template *t, cJSON *message, struct err *e)
{
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    if (calls && (cJSON_IsNull(calls) || (cJSON_IsArray(calls) && !calls->child))) {
        cJSON_DeleteItemFromObjectCaseSensitive(
            message, "tool_calls"); /* none: some templates ask only `in` */
        return true;
    }
    for (cJSON *call = calls ? calls->child : NULL; call; call = call->next) {
        cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        if (cJSON_IsObject(function) && !json_member(function, "arguments") &&
            !set_string(function, "arguments", "{}", e)) /* a call of a function that takes none */
            return false;
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
        if (cJSON_IsString(arguments) && !t->arguments_as_text &&
            !arguments_to_object(function, arguments, e))
            return false;
        if (cJSON_IsObject(arguments) && t->arguments_as_text &&
            !arguments_to_text(function, arguments, e))
            return false;
        if (t->short_ids && !shorten_id(call, "id", e))
            return false;
    }
    return true;
}

bool chat_messages_normalize(const struct chat_template *t, cJSON *messages, struct err *e)
{
    for (cJSON *m = messages ? messages->child : NULL; m; m = m->next) {
        const cJSON *role = cJSON_GetObjectItemCaseSensitive(m, "role");
        if (!cJSON_IsObject(m))
            continue;
        if (cJSON_IsString(role) && !strcmp(role->valuestring, "developer") &&
            !t->knows_developer && !set_string(m, "role", "system", e))
            return false;
        if (!normalize_content(t, m, e) || !normalize_calls(t, m, e) ||
            !normalize_reasoning(t, m, e) || (t->short_ids && !shorten_id(m, "tool_call_id", e)))
            return false;
    }
    return true;
}
