/* The form that OpenAI's fine-tuning takes: a line {"messages":[...]} per conversation, the branch
 * that is shown, up to its last answer that is done. Without such an answer a conversation gives no
 * line. Left out is what the form has no place for: reasoning, attachments, answers without text or
 * calls. */
#include <stdlib.h>
#include <string.h>

#include "fcgi/export/format.h"

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c,
                              const struct export_tree *t)
{
    char *system = t->last_answer ? export_system(c->settings) : NULL;
    if (!t->last_answer)
        return;
    buf_puts(&w->out, "{\"messages\":[");
    w->comma = system != NULL;
    if (system) {
        buf_puts(&w->out, "{\"role\":\"system\",\"content\":");
        buf_json_string(&w->out, system, strlen(system));
        buf_putc(&w->out, '}');
    }
    free(system);
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_message *m)
{
    struct buf *out = &w->out;
    const bool calls = m->tool_calls && strcmp(m->tool_calls, "[]") != 0;
    if (number <= t->last_answer && (m->content_len || calls || m->role == ROLE_TOOL)) {
        buf_printf(out, "%s{\"role\":\"%s\",\"content\":", w->comma ? "," : "",
                   store_role_name(m->role));
        w->comma = true;
        if (calls && !m->content_len)
            buf_puts(out, "null");
        else
            buf_json_string(out, m->content, m->content_len);
        if (calls) {
            buf_puts(out, ",\"tool_calls\":");
            buf_puts(out, m->tool_calls);
        }
        if (m->tool_call_id) {
            buf_puts(out, ",\"tool_call_id\":");
            buf_json_string(out, m->tool_call_id, strlen(m->tool_call_id));
        }
        buf_putc(out, '}');
    }
    if (number == t->last_answer)
        buf_puts(out, "]}\n");
}

const struct export_format export_jsonl = {
    .name = "jsonl",
    .media = "application/jsonl",
    .suffix = ".jsonl",
    .shown_only = true,
    .open = open_conversation,
    .message = put_message,
};
