/* Sluice's own form: docs/export.schema.json. Stored JSON goes out byte for byte. */
#include <string.h>

#include "fcgi/export/format.h"

static void put_json(struct buf *out, const char *name, const char *json)
{
    buf_printf(out, ",\"%s\":", name);
    buf_puts(out, json ? json : "null");
}

static void put_number(struct buf *out, const char *name, int64_t v)
{
    buf_printf(out, v ? ",\"%s\":%lld" : ",\"%s\":null", name, (long long)v);
}

static void put_bool(struct buf *out, const char *name, bool v)
{
    buf_printf(out, ",\"%s\":%s", name, v ? "true" : "false");
}

static void begin(struct export_writer *w)
{
    buf_printf(
        &w->out,
        "{\"schema\":\"sluice-export\",\"version\":1,\"exported_at\":%lld,\"conversations\":[",
        (long long)w->exported_at);
}

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c,
                              const struct export_tree *t)
{
    struct buf *out = &w->out;
    buf_puts(out, w->n_conversations > 1 ? ",\n{\"key\":" : "\n{\"key\":");
    buf_json_string(out, c->key, strlen(c->key));
    buf_json_member(out, "title", c->title);
    buf_printf(out, ",\"created_at\":%lld,\"updated_at\":%lld", (long long)c->created_at,
               (long long)c->updated_at);
    put_bool(out, "pinned", c->pinned);
    put_bool(out, "archived", c->archived);
    put_number(out, "trashed_at", c->trashed_at);
    buf_json_member(out, "fork_of", c->fork_of);
    put_json(out, "tags", c->tags);
    put_json(out, "settings", c->settings);
    put_number(out, "leaf", t->leaf);
    if (c->project)
        put_json(out, "project", c->project);
    buf_puts(out, ",\"messages\":[");
}

static void put_usage(struct buf *out, const struct store_message *m)
{
    if (!m->has_usage) {
        put_json(out, "usage", NULL);
        return;
    }
    buf_printf(
        out,
        ",\"usage\":{\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"completion_tokens\":%lld}",
        (long long)m->prompt_tokens, (long long)m->cached_tokens, (long long)m->completion_tokens);
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_message *m)
{
    struct buf *out = &w->out;
    const bool running = m->status == MESSAGE_RUNNING;
    buf_printf(out, "%s\n {\"id\":%lu", w->n_messages > 1 ? "," : "", (unsigned long)number);
    put_number(out, "parent", t->places[number - 1].parent);
    buf_json_member(out, "role", store_role_name(m->role));
    buf_json_member(out, "status", store_status_name(running ? MESSAGE_STOPPED : m->status));
    buf_puts(out, ",\"content\":");
    buf_json_string(out, m->content, m->content_len);
    buf_puts(out, ",\"reasoning\":");
    buf_json_string(out, m->reasoning, m->reasoning_len);
    put_json(out, "tool_calls", m->tool_calls);
    buf_json_member(out, "tool_call_id", m->tool_call_id);
    buf_json_member(out, "error", m->error);
    buf_json_member(out, "model", m->model);
    put_usage(out, m);
    put_json(out, "timings", m->timings);
    buf_printf(out, ",\"created_at\":%lld,\"finished_at\":%lld", (long long)m->created_at,
               (long long)(running ? w->exported_at : m->finished_at));
    put_json(out, "attachments", m->attachments);
    if (m->sources)
        put_json(out, "sources", m->sources);
    buf_putc(out, '}');
}

static void close_conversation(struct export_writer *w)
{
    buf_puts(&w->out, "]}");
}

static void end(struct export_writer *w)
{
    buf_puts(&w->out, "]}\n");
}

const struct export_format export_json = {
    .name = "json",
    .media = "application/json",
    .suffix = ".json",
    .begin = begin,
    .open = open_conversation,
    .message = put_message,
    .close = close_conversation,
    .end = end,
};
