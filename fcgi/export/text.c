/* Plain text: the branch that is shown, to be read or printed. */
#include <stdlib.h>
#include <string.h>

#include "fcgi/export/format.h"

static void put_rule(struct buf *out, char c)
{
    for (int i = 0; i < 72; i++)
        buf_putc(out, c);
    buf_putc(out, '\n');
}

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c, const struct export_tree *t)
{
    char time[EXPORT_TIME_SIZE];
    char *system = export_system(c->settings);
    if (w->n_conversations > 1)
        buf_puts(&w->out, "\n");
    put_rule(&w->out, '=');
    export_line(&w->out, *c->title ? c->title : "Untitled");
    buf_printf(&w->out, "\n%s\n", export_time(c->created_at, time));
    put_rule(&w->out, '=');
    if (system)
        buf_printf(&w->out, "\n[System]\n%s\n", system);
    free(system);
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_export_message *m)
{
    char time[EXPORT_TIME_SIZE];
    struct buf *out = &w->out;
    buf_printf(out, "\n[%s, %s", export_role(m->node.role), export_time(m->created_at, time));
    if (m->node.status != MESSAGE_DONE)
        buf_printf(out, ", %s", store_status_name(m->node.status));
    buf_puts(out, "]\n");
    struct buf names = {0};
    export_file_names(&names, m->attachments);
    if (names.len)
        buf_printf(out, "(attached) %s\n", names.data);
    buf_fini(&names);
    if (m->reasoning_len) {
        buf_puts(out, "(reasoning)\n");
        buf_append(out, m->reasoning, m->reasoning_len);
        buf_puts(out, "\n(answer)\n");
    }
    buf_append(out, m->content, m->content_len);
    buf_putc(out, '\n');
    if (m->tool_calls)
        buf_printf(out, "(tool calls) %s\n", m->tool_calls);
    if (m->error) {
        buf_puts(out, "(error) ");
        export_line(out, m->error);
        buf_putc(out, '\n');
    }
}

const struct export_format export_text = {
    .name = "text",
    .media = "text/plain; charset=utf-8",
    .suffix = ".txt",
    .shown_only = true,
    .open = open_conversation,
    .message = put_message,
};
