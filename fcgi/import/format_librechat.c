/* LibreChat's export of a chat: `messages` is a list by parentMessageId, or, exported as a tree,
 * `messagesTree` holds them with their `children`. Newer answers have parts: text, thoughts and
 * calls with what these gave; such a message becomes a chain of ours. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/import/chain.h"
#include "fcgi/import/formats.h"

#define NO_PARENT "00000000-0000-0000-0000-000000000000"
#define AGENT "agent_" /* an agent's id in the place of a model: its name says more */

static bool is(const cJSON *item)
{
    return *import_text(item, "conversationId") &&
           (cJSON_IsArray(json_member(item, "messages")) ||
            cJSON_IsArray(json_member(item, "messagesTree")));
}

/* A member that is text, or an object with text in `value`. */
static const char *text_or_value(const cJSON *o, const char *name)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsObject(v) ? import_text(v, "value") : import_text(o, name);
}

static bool add_call(struct chain *c, const cJSON *call, struct err *e)
{
    const cJSON *function = json_member(call, "function"), *o = function ? function : call,
                *args = json_member(o, function ? "arguments" : "args");
    const char *id = import_text(call, "id"), *output = import_text(o, "output");
    struct buf arguments = {0};
    if (cJSON_IsString(args) ? !buf_puts(&arguments, *args->valuestring ? args->valuestring : "{}")
        : args               ? !json_write(&arguments, args)
                             : !buf_puts(&arguments, "{}")) {
        buf_fini(&arguments);
        return draft_no_memory(e);
    }
    bool ok = chain_call(c, id, import_text(o, "name"), arguments.data, e);
    buf_fini(&arguments);
    /* A call that has no id is known by its place. */
    return ok && chain_result(c, *id ? id : c->d->nodes[c->at].id, output, e);
}

static bool add_file(struct chain *c, const cJSON *file, struct err *e)
{
    const char *name = import_text(file, "filename"),
               *text = arena_printf(c->d->arena, *name ? "[file: %.200s]" : "[file]", name);
    c->d->n_missing++;
    return text ? chain_text(c, text, e) : draft_no_memory(e);
}

static bool add_part(struct chain *c, const cJSON *part, struct err *e)
{
    const char *type = import_text(part, "type");
    if (!strcmp(type, "text"))
        return chain_text(c, text_or_value(part, "text"), e);
    if (!strcmp(type, "think"))
        return chain_thoughts(c, text_or_value(part, "think"), e);
    if (!strcmp(type, "tool_call"))
        return add_call(c, json_member(part, "tool_call"), e);
    if (!strcmp(type, "image_file"))
        return add_file(c, json_member(part, "image_file"), e);
    if (!strcmp(type, "error"))
        return chain_text(c,
                          *text_or_value(part, "text") ? text_or_value(part, "text")
                                                       : text_or_value(part, "error"),
                          e);
    if (!*type) /* a place that was left empty */
        return true;
    c->d->n_missing++;
    return chain_text(c, "[file]", e);
}

/* How an answer ended belongs to its last piece. */
static bool set_end(struct chain *c, const cJSON *o, struct err *e)
{
    const bool failed = cJSON_IsTrue(json_member(o, "error")),
               cut = cJSON_IsTrue(json_member(o, "unfinished"));
    struct draft_node *n =
        c->role == ROLE_ASSISTANT && (failed || cut) ? chain_speaker(c, e) : NULL;
    if (!n)
        return c->role != ROLE_ASSISTANT || !(failed || cut);
    n->message.status = failed ? MESSAGE_ERROR : MESSAGE_STOPPED;
    if (failed) {
        n->message.error = *n->message.content ? n->message.content : "failed";
        n->message.content = "";
    }
    return true;
}

static bool read_content(struct chain *c, const cJSON *o, struct err *e)
{
    const cJSON *part, *file;
    const char *member;
    cJSON_ArrayForEach (part, json_member(o, "content"))
        if (!add_part(c, part, e))
            return false;
    if (!c->n && !chain_text(c, import_text(o, "text"), e))
        return false;
    for (int i = 0; i < 2; i++) {
        member = i ? "attachments" : "files";
        cJSON_ArrayForEach (file, json_member(o, member))
            if (cJSON_IsObject(file) && !add_file(c, file, e))
                return false;
    }
    return set_end(c, o, e);
}

static bool read_message(struct draft *d, const cJSON *o, const char *parent, struct err *e)
{
    const char *model = import_text(o, "model"), *sender = import_text(o, "sender");
    struct chain c = {.d = d,
                      .id = import_text(o, "messageId"),
                      .parent = *parent && strcmp(parent, NO_PARENT) ? parent : NULL,
                      .at = -1,
                      .role = cJSON_IsTrue(json_member(o, "isCreatedByUser")) ? ROLE_USER
                                                                              : ROLE_ASSISTANT,
                      .created_at = draft_iso_time(import_text(o, "createdAt"))};
    if (!cJSON_IsObject(o) || !*c.id)
        return err_field(e, ERR_INPUT, "messageId", "is missing");
    if (!strncmp(model, AGENT, strlen(AGENT)) && *sender)
        model = sender;
    c.model = *model ? model : NULL;
    return read_content(&c, o, e) && chain_end(&c, e);
}

/* As deep as the file is nested, which IMPORT_TREE_DEPTH bounds. */
static bool read_tree(struct draft *d, const cJSON *messages, const char *parent, struct err *e)
{
    const cJSON *o;
    cJSON_ArrayForEach (o, messages)
        if (!read_message(d, o, parent, e) ||
            !read_tree(d, json_member(o, "children"), import_text(o, "messageId"), e))
            return false;
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of a branch that was exported alone the first message's parent is not there: it is the first. */
static bool read_list(struct draft *d, const cJSON *messages, struct err *e)
{
    const cJSON *o;
    const size_t n = (size_t)cJSON_GetArraySize(messages);
    size_t i = 0;
    const char **ids = arena_alloc(d->arena, (n + 1) * sizeof *ids);
    if (!ids)
        return draft_no_memory(e);
    cJSON_ArrayForEach (o, messages)
        ids[i++] = import_text(o, "messageId");
    qsort(ids, n, sizeof *ids, by_text);
    cJSON_ArrayForEach (o, messages) {
        const char *parent = import_text(o, "parentMessageId");
        if (!bsearch(&parent, ids, n, sizeof *ids, by_text))
            parent = "";
        if (!read_message(d, o, parent, e))
            return false;
    }
    return true;
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *tree = json_member(item, "messagesTree"), *list = json_member(item, "messages"),
                *first = tree ? tree : list;
    (void)text;
    d->source_id = import_text(item, "conversationId");
    d->system = import_text(json_member(item, "options"), "promptPrefix");
    if (!draft_title(d, import_text(item, "title"), e))
        return false;
    if (cJSON_GetArraySize(json_member(cJSON_GetArrayItem(first, 0), "children")) ||
        !cJSON_IsArray(list))
        return read_tree(d, first, "", e);
    return read_list(d, list, e);
}

const struct import_format format_librechat = {
    .name = "librechat", .is = is, .read = read, .deep = true};
