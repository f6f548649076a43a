/* Claude's conversations.json: a list of messages, in newer exports with their parents. One message
 * may hold text, thoughts, tool calls and their results in turn: such a message becomes a chain of
 * ours (chain.h). */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/import/chain.h"
#include "fcgi/import/formats.h"

#define NO_PARENT "00000000-0000-4000-8000-000000000000"

static bool is(const cJSON *item)
{
    return cJSON_IsArray(json_member(item, "chat_messages"));
}

static bool add_call(struct chain *c, const cJSON *block, struct err *e)
{
    struct buf arguments = {0};
    const cJSON *input = json_member(block, "input");
    if (!input ? !buf_puts(&arguments, "{}") : !json_write(&arguments, input)) {
        buf_fini(&arguments);
        return draft_no_memory(e);
    }
    bool ok =
        chain_call(c, import_text(block, "id"), import_text(block, "name"), arguments.data, e);
    buf_fini(&arguments);
    return ok;
}

static bool add_result(struct chain *c, const cJSON *block, struct err *e)
{
    const char *text = import_content(c->d, json_member(block, "content"), e);
    return text && chain_result(c, import_text(block, "tool_use_id"), text, e);
}

static bool add_block(struct chain *c, const cJSON *block, struct err *e)
{
    const char *type = import_text(block, "type");
    if (!strcmp(type, "thinking"))
        return chain_thoughts(c, import_text(block, "thinking"), e);
    if (!strcmp(type, "tool_use"))
        return add_call(c, block, e);
    if (!strcmp(type, "tool_result"))
        return add_result(c, block, e);
    return chain_text(c, import_text(block, "text"), e);
}

/* Texts of attached files stand below what was typed; files without text are told by name. */
static bool add_files(struct chain *c, const cJSON *message, struct err *e)
{
    const cJSON *file;
    cJSON_ArrayForEach (file, json_member(message, "attachments")) {
        const char *name = import_text(file, "file_name"),
                   *text = import_text(file, "extracted_content");
        if (!(text = draft_file_text(c->d, name, text, e)) || !chain_text(c, text, e))
            return false;
    }
    cJSON_ArrayForEach (file, json_member(message, "files")) {
        const char *text =
            arena_printf(c->d->arena, "[file: %.200s]", import_text(file, "file_name"));
        c->d->n_missing++;
        if (!text || !chain_text(c, text, e))
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
                      .role = !strcmp(sender, "human") || !strcmp(sender, "user") ? ROLE_USER
                                                                                  : ROLE_ASSISTANT};
    c.created_at = draft_iso_time(import_text(message, "created_at"));
    c.parent = cJSON_IsString(parent) ? parent->valuestring : parent ? "" : *last;
    if (c.role != ROLE_USER && strcmp(sender, "assistant") != 0)
        return err_field(e, ERR_INPUT, "sender", "'%.20s' is neither human nor assistant", sender);
    if (!*c.id && !(c.id = arena_printf(d->arena, "message %d", d->n_nodes)))
        return draft_no_memory(e);
    if (c.parent && !strcmp(c.parent, NO_PARENT))
        c.parent = NULL;
    cJSON_ArrayForEach (block, content) {
        if (!add_block(&c, block, e))
            return false;
    }
    if (!c.n && !chain_text(&c, import_text(message, "text"), e))
        return false;
    if (!add_files(&c, message, e))
        return false;
    if (!chain_end(&c, e))
        return false;
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
