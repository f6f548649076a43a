/* A chat as OpenAI's API and its fine-tuning files have it: {"messages": [{role, content, ...}]},
 * one after the other. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/import/formats.h"

static bool is(const cJSON *item)
{
    const cJSON *messages = json_member(item, "messages"), *first = cJSON_GetArrayItem(messages, 0);
    return cJSON_IsArray(messages) && *import_text(first, "role");
}

static bool read_calls(struct draft *d, const cJSON *o, struct store_import_message *m,
                       struct err *e)
{
    const cJSON *calls = json_member(o, "tool_calls");
    struct buf b = {0};
    if (!cJSON_IsArray(calls) || !cJSON_GetArraySize(calls))
        return true;
    m->tool_calls = json_write(&b, calls) ? arena_copy(d->arena, b.data, b.len) : NULL;
    buf_fini(&b);
    return m->tool_calls || draft_no_memory(e);
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *o;
    const char *last = NULL;
    (void)text;
    if (!draft_title(d, import_text(item, "title"), e))
        return false;
    cJSON_ArrayForEach (o, json_member(item, "messages")) {
        const char *id = arena_printf(d->arena, "messages[%d]", d->n_nodes),
                   *call = import_text(o, "tool_call_id");
        struct draft_node *n = id ? draft_add(d, id, last, e) : NULL;
        if (!n)
            return draft_no_memory(e);
        struct store_import_message *m = &n->message;
        if (!import_role(import_text(o, "role"), &m->role))
            return err_field(e, ERR_INPUT, id, "role '%.20s' is not known", import_text(o, "role"));
        if (!(m->content = import_content(d, json_member(o, "content"), e)) ||
            !read_calls(d, o, m, e))
            return false;
        m->reasoning = import_text(o, "reasoning_content");
        m->tool_call_id = m->role == ROLE_TOOL && *call ? call : NULL;
        last = id;
    }
    return true;
}

const struct import_format format_openai = {.name = "openai", .is = is, .read = read};
