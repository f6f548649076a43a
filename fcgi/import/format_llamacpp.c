/* The export of llama.cpp's page: {conv, messages}. The tree hangs on a root message that shows
 * nothing. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/import/formats.h"

static bool is(const cJSON *item)
{
    return cJSON_IsObject(json_member(item, "conv")) &&
           cJSON_IsArray(json_member(item, "messages"));
}

static bool read_extra(struct draft *d, const cJSON *o, struct store_import_message *m,
                       struct err *e)
{
    const cJSON *extra;
    cJSON_ArrayForEach (extra, json_member(o, "extra")) {
        const char *text = import_text(extra, "content"), *name = import_text(extra, "name");
        if (*text) {
            text = draft_file_text(d, name, text, e);
        } else {
            d->n_missing++;
            text = arena_printf(d->arena, "[file: %.200s]", name);
        }
        if (!text || !(m->content = draft_join(d, m->content, "\n\n", text, e)))
            return draft_no_memory(e);
    }
    return true;
}

/* toolCalls is JSON text: an array in OpenAI's form. */
static void read_calls(const cJSON *o, struct store_import_message *m)
{
    const char *calls = import_text(o, "toolCalls");
    cJSON *list = *calls ? json_parse(calls, strlen(calls), NULL, NULL) : NULL;
    if (cJSON_IsArray(list) && cJSON_GetArraySize(list) && *calls == '[' &&
        calls[strlen(calls) - 1] == ']')
        m->tool_calls = calls;
    cJSON_Delete(list);
}

static bool read_message(struct draft *d, struct draft_node *n, const cJSON *o, struct err *e)
{
    struct store_import_message *m = &n->message;
    const cJSON *at = json_member(o, "timestamp");
    const char *model = import_text(o, "model"), *call = import_text(o, "toolCallId");
    n->hidden = !strcmp(import_text(o, "type"), "root");
    m->created_at =
        cJSON_IsNumber(at)
            ? draft_seconds(&(cJSON){.type = cJSON_Number, .valuedouble = at->valuedouble / 1000})
            : 0;
    if (n->hidden)
        return true;
    if (!import_role(import_text(o, "role"), &m->role))
        return err_field(e, ERR_INPUT, n->id, "role '%.20s' is not known", import_text(o, "role"));
    m->content = import_text(o, "content");
    m->reasoning = *import_text(o, "reasoningContent") ? import_text(o, "reasoningContent")
                                                       : import_text(o, "thinking");
    if (m->role == ROLE_ASSISTANT) {
        m->model = *model ? model : NULL;
        read_calls(o, m);
    }
    m->tool_call_id = m->role == ROLE_TOOL && *call ? call : NULL;
    return read_extra(d, o, m, e);
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *conversation = json_member(item, "conv"),
                *at = json_member(conversation, "lastModified"), *o;
    (void)text;
    d->source_id = import_text(conversation, "id");
    d->shown = import_text(conversation, "currNode");
    d->one_root = true;
    if (cJSON_IsNumber(at))
        d->out.updated_at =
            draft_seconds(&(cJSON){.type = cJSON_Number, .valuedouble = at->valuedouble / 1000});
    if (!draft_title(d, import_text(conversation, "name"), e))
        return false;
    cJSON_ArrayForEach (o, json_member(item, "messages")) {
        struct draft_node *n = draft_add(d, import_text(o, "id"), import_text(o, "parent"), e);
        if (!n || !read_message(d, n, o, e))
            return false;
    }
    return true;
}

const struct import_format format_llamacpp = {.name = "llamacpp", .is = is, .read = read};
