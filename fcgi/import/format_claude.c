/* Claude's conversations.json: a list of messages, in newer exports with their parents. One message
 * may hold text, thoughts, tool calls and their results in turn: such a message becomes a chain of
 * ours. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/import/formats.h"

#define NO_PARENT "00000000-0000-4000-8000-000000000000"

struct chain { /* what one of Claude's messages becomes */
    struct draft *d;
    const char *id, *parent; /* of the next node */
    int at;                  /* index of the node being filled; -1: none */
    int n;
    bool human;
    int64_t created_at;
};

static bool is(const cJSON *item)
{
    return cJSON_IsArray(json_member(item, "chat_messages"));
}

/* Nodes of a chain have names of their own; the message's id stands at the end of it
 * (read_message). */
static struct draft_node *new_node(struct chain *c, enum store_role role, struct err *e)
{
    const char *id = arena_printf(c->d->arena, "%s#%d", c->id, c->n++);
    if (!id) {
        draft_no_memory(e);
        return NULL;
    }
    struct draft_node *n = draft_add(c->d, id, c->parent, e);
    if (!n)
        return NULL;
    c->at = c->d->n_nodes - 1;
    c->parent = id;
    n->message.role = role;
    n->message.created_at = c->created_at;
    return n;
}

static struct draft_node *speaker(struct chain *c, struct err *e)
{
    struct draft_node *n = c->at >= 0 ? &c->d->nodes[c->at] : NULL;
    const enum store_role role = c->human ? ROLE_USER : ROLE_ASSISTANT;
    return n && n->message.role == role && !n->message.tool_calls ? n : new_node(c, role, e);
}

static bool add_text(struct chain *c, const char *text, struct err *e)
{
    struct draft_node *n = *text ? speaker(c, e) : NULL;
    return n ? (n->message.content = draft_join(c->d, n->message.content, "\n\n", text, e)) != NULL
             : !*text;
}

static bool add_thoughts(struct chain *c, const char *text, struct err *e)
{
    struct draft_node *n = *text ? speaker(c, e) : NULL;
    return n ? (n->message.reasoning = draft_join(c->d, n->message.reasoning, "\n\n", text, e)) !=
                   NULL
             : !*text;
}

static bool add_call(struct chain *c, const cJSON *block, struct err *e)
{
    struct buf arguments = {0};
    const cJSON *input = json_member(block, "input");
    const char *id = import_text(block, "id"), *name = import_text(block, "name");
    struct draft_node *n = speaker(c, e);
    if (!n)
        return false;
    if (!input ? !buf_puts(&arguments, "{}") : !json_write(&arguments, input)) {
        buf_fini(&arguments);
        return draft_no_memory(e);
    }
    n->message.tool_calls =
        draft_call(c->d, *id ? id : n->id, *name ? name : "tool", arguments.data, e);
    buf_fini(&arguments);
    return n->message.tool_calls != NULL;
}

static bool add_result(struct chain *c, const cJSON *block, struct err *e)
{
    const char *text = import_content(c->d, json_member(block, "content"), e),
               *call = import_text(block, "tool_use_id");
    struct draft_node *n = text ? new_node(c, ROLE_TOOL, e) : NULL;
    if (!n)
        return false;
    n->message.content = text;
    n->message.tool_call_id = *call ? call : NULL;
    return true;
}

static bool add_block(struct chain *c, const cJSON *block, struct err *e)
{
    const char *type = import_text(block, "type");
    if (!strcmp(type, "thinking"))
        return add_thoughts(c, import_text(block, "thinking"), e);
    if (!strcmp(type, "tool_use"))
        return add_call(c, block, e);
    if (!strcmp(type, "tool_result"))
        return add_result(c, block, e);
    return add_text(c, import_text(block, "text"), e);
}

/* Texts of attached files stand below what was typed; files without text are told by name. */
static bool add_files(struct chain *c, const cJSON *message, struct err *e)
{
    const cJSON *file;
    cJSON_ArrayForEach (file, json_member(message, "attachments")) {
        const char *name = import_text(file, "file_name"),
                   *text = import_text(file, "extracted_content");
        if (!(text = draft_file_text(c->d, name, text, e)) || !add_text(c, text, e))
            return false;
    }
    cJSON_ArrayForEach (file, json_member(message, "files")) {
        const char *text =
            arena_printf(c->d->arena, "[file: %.200s]", import_text(file, "file_name"));
        c->d->n_missing++;
        if (!text || !add_text(c, text, e))
            return text ? false : draft_no_memory(e);
    }
    return true;
}

static bool read_message(struct draft *d, const cJSON *message, const char **last, struct err *e)
{
    const cJSON *content = json_member(message, "content"), *block;
    const cJSON *parent = cJSON_GetObjectItemCaseSensitive(
        message, "parent_message_uuid"); /* absent: older exports, a list */
    const char *sender = import_text(message, "sender");
    struct chain c = {.d = d,
                      .id = import_text(message, "uuid"),
                      .at = -1,
                      .human = !strcmp(sender, "human") || !strcmp(sender, "user")};
    c.created_at = draft_iso_time(import_text(message, "created_at"));
    c.parent = cJSON_IsString(parent) ? parent->valuestring : parent ? "" : *last;
    if (!c.human && strcmp(sender, "assistant") != 0)
        return err_field(e, ERR_INPUT, "sender", "'%.20s' is neither human nor assistant", sender);
    if (!*c.id && !(c.id = arena_printf(d->arena, "message %d", d->n_nodes)))
        return draft_no_memory(e);
    if (c.parent && !strcmp(c.parent, NO_PARENT))
        c.parent = NULL;
    cJSON_ArrayForEach (block, content) {
        if (!add_block(&c, block, e))
            return false;
    }
    if (!c.n && !add_text(&c, import_text(message, "text"), e))
        return false;
    if (!add_files(&c, message, e))
        return false;
    /* What answers this message names its id: a hidden node at the chain's end carries it. */
    struct draft_node *end = draft_add(d, c.id, c.parent, e);
    if (!end)
        return false;
    end->hidden = true;
    end->message.created_at = c.created_at;
    *last = c.id;
    return true;
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *message;
    const char *last = NULL;
    (void)text;
    d->source_id = import_text(item, "uuid");
    d->shown = import_text(item, "current_leaf_message_uuid");
    d->out.created_at = draft_iso_time(import_text(item, "created_at"));
    d->out.updated_at = draft_iso_time(import_text(item, "updated_at"));
    d->out.pinned = cJSON_IsTrue(json_member(item, "is_starred"));
    if (!draft_title(d, import_text(item, "name"), e))
        return false;
    cJSON_ArrayForEach (message, json_member(item, "chat_messages")) {
        if (!read_message(d, message, &last, e))
            return false;
    }
    return true;
}

const struct import_format format_claude = {.name = "claude", .is = is, .read = read};
