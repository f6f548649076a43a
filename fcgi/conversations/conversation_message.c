/* conversation.h: a message as the page sees it, written without a tree, since lists hold
 * thousands. */
#include <string.h>

#include "engine/base/buf.h"
#include "fcgi/conversations/conversation.h"
#include "sql/chats/store_conversations.h"

static void put_json(struct buf *out, const char *name, const char *json)
{
    buf_printf(out, ",\"%s\":%s", name, json ? json : "null");
}

void conversation_message_json(struct buf *out, const struct store_message *m)
{
    buf_printf(out, "{\"id\":\"%lld\",\"conversation_id\":\"%lld\"", (long long)m->id,
               (long long)m->conversation_id);
    if (m->parent_id)
        buf_printf(out, ",\"parent_id\":\"%lld\"", (long long)m->parent_id);
    else
        put_json(out, "parent_id", NULL);
    buf_json_member(out, "role", store_role_name(m->role));
    buf_json_member(out, "content", m->content);
    buf_json_member(out, "reasoning", m->reasoning);
    put_json(out, "tool_calls", m->tool_calls);
    if (m->runs && strcmp(m->runs, "[]"))
        put_json(out, "runs", m->runs);
    if (m->tool_call_id)
        buf_json_member(out, "tool_call_id", m->tool_call_id);
    buf_json_member(out, "status", store_status_name(m->status));
    if (m->sources)
        put_json(out, "sources", m->sources);
    buf_json_member(out, "error", m->error);
    put_json(out, "error_detail", m->error_detail);
    buf_json_member(out, "model", m->model);
    buf_printf(out, ",\"created_at\":%lld", (long long)m->created_at);
    if (m->finished_at)
        buf_printf(out, ",\"finished_at\":%lld", (long long)m->finished_at);
    else
        put_json(out, "finished_at", NULL);
    if (m->has_usage)
        buf_printf(
            out,
            ",\"usage\":{\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"completion_tokens\":%lld}",
            (long long)m->prompt_tokens, (long long)m->cached_tokens,
            (long long)m->completion_tokens);
    else
        put_json(out, "usage", NULL);
    put_json(out, "timings", m->timings);
    put_json(out, "attachments", m->attachments && *m->attachments ? m->attachments : "[]");
    buf_putc(out, '}');
}

bool conversation_message_list_item(void *context, const struct store_message *m)
{
    struct buf *out = context;
    if (out->failed)
        return false;
    if (!buf_ends_with(out, '['))
        buf_putc(out, ',');
    conversation_message_json(out, m);
    return !out->failed;
}
