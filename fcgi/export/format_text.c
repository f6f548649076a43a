/* Plain text: the branch that is shown, to be read or printed. */
#include "fcgi/export/text_parts.h"

static void put_rule(struct buf *out, char c)
{
    for (int i = 0; i < 72; i++)
        buf_putc(out, c);
    buf_putc(out, '\n');
}

static void put_title(struct buf *out, bool first, const char *title, const char *time)
{
    if (!first)
        buf_putc(out, '\n');
    put_rule(out, '=');
    buf_printf(out, "%s\n%s\n", title, time);
    put_rule(out, '=');
}

static void put_system(struct buf *out, const char *text)
{
    buf_printf(out, "\n[System]\n%s\n", text);
}

static void put_heading(struct buf *out, const char *role, const char *time, const char *model,
                        const char *status)
{
    buf_printf(out, "\n[%s, %s%s%s]\n", role, time, status ? ", " : "", status ? status : "");
}

static void put_files(struct buf *out, const char *names)
{
    buf_printf(out, "(attached) %s\n", names);
}

static void put_reasoning(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, "(reasoning)\n");
    buf_append(out, text, len);
    buf_puts(out, "\n(answer)\n");
}

static void put_content(struct buf *out, const char *text, size_t len)
{
    buf_append(out, text, len);
    buf_putc(out, '\n');
}

static void put_tool_calls(struct buf *out, const char *json)
{
    buf_printf(out, "(tool calls) %s\n", json);
}

static void put_error(struct buf *out, const char *line)
{
    buf_printf(out, "(error) %s\n", line);
}

static const struct text_parts parts = {
    .title = put_title,
    .system = put_system,
    .heading = put_heading,
    .files = put_files,
    .reasoning = put_reasoning,
    .content = put_content,
    .tool_calls = put_tool_calls,
    .error = put_error,
};

const struct export_format export_text = {
    .name = "text",
    .media = "text/plain; charset=utf-8",
    .suffix = ".txt",
    .shown_only = true,
    .parts = &parts,
    .open = text_parts_open,
    .message = text_parts_message,
};
