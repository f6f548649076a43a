/* Markdown: what is said stands as it was written; who says it is a heading over it. The branch that is shown. */
#include <stdlib.h>
#include <string.h>

#include "fcgi/export/format.h"

/* "> " before each line: a quotation of whatever Markdown it is. */
static void put_quoted(struct buf *out, const char *text, size_t len)
{
    const char *end = text + len;
    while (text < end) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        const size_t n = (size_t)((nl ? nl : end) - text);
        buf_puts(out, n ? "> " : ">");
        buf_append(out, text, n);
        buf_putc(out, '\n');
        text += n + (nl ? 1 : 0);
    }
    buf_putc(out, '\n');
}

/* A fence longer than any row of backquotes in the text. */
static void put_fenced(struct buf *out, const char *kind, const char *text)
{
    size_t longest = 2, row = 0;
    for (const char *p = text; *p; p++) {
        row = *p == '`' ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        buf_putc(out, '`');
    buf_printf(out, "%s\n%s\n", kind, text);
    for (size_t i = 0; i <= longest; i++)
        buf_putc(out, '`');
    buf_puts(out, "\n\n");
}

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c, const struct export_tree *t)
{
    char time[EXPORT_TIME_SIZE];
    char *system = export_system(c->settings);
    buf_puts(&w->out, w->n_conversations > 1 ? "\n---\n\n# " : "# ");
    export_line(&w->out, *c->title ? c->title : "Untitled");
    buf_printf(&w->out, "\n\n*%s*\n\n", export_time(c->created_at, time));
    if (system) {
        buf_puts(&w->out, "## System\n\n");
        put_quoted(&w->out, system, strlen(system));
    }
    free(system);
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_export_message *m)
{
    char time[EXPORT_TIME_SIZE];
    struct buf *out = &w->out;
    buf_printf(out, "## %s\n\n*%s", export_role(m->node.role), export_time(m->created_at, time));
    if (m->model) {
        buf_puts(out, ", ");
        export_line(out, m->model);
    }
    if (m->node.status != MESSAGE_DONE)
        buf_printf(out, ", %s", store_status_name(m->node.status));
    buf_puts(out, "*\n\n");
    struct buf names = {0};
    export_file_names(&names, m->attachments);
    if (names.len)
        buf_printf(out, "*Attached: %s*\n\n", names.data);
    buf_fini(&names);
    if (m->reasoning_len) {
        buf_puts(out, "> *Reasoning*\n>\n");
        put_quoted(out, m->reasoning, m->reasoning_len);
    }
    if (m->content_len) {
        buf_append(out, m->content, m->content_len);
        buf_puts(out, "\n\n");
    }
    if (m->tool_calls)
        put_fenced(out, "json", m->tool_calls);
    if (m->error) {
        buf_puts(out, "> *Error:* ");
        export_line(out, m->error);
        buf_puts(out, "\n\n");
    }
}

const struct export_format export_markdown = {
    .name = "markdown",
    .media = "text/markdown; charset=utf-8",
    .suffix = ".md",
    .shown_only = true,
    .open = open_conversation,
    .message = put_message,
};
