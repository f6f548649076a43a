/* Markdown of the branch that is shown: each message stands as it was written, under a heading with
 * its role. */
#include <string.h>

#include "fcgi/export/text_parts.h"

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

static void put_title(struct buf *out, bool first, const char *title, const char *time)
{
    buf_printf(out, "%s# %s\n\n*%s*\n\n", first ? "" : "\n---\n\n", title, time);
}

static void put_system(struct buf *out, const char *text)
{
    buf_puts(out, "## System\n\n");
    put_quoted(out, text, strlen(text));
}

static void put_heading(struct buf *out, const char *role, const char *time, const char *model,
                        const char *status)
{
    buf_printf(out, "## %s\n\n*%s%s%s%s%s*\n\n", role, time, model ? ", " : "", model ? model : "",
               status ? ", " : "", status ? status : "");
}

static void put_files(struct buf *out, const char *names)
{
    buf_printf(out, "*Attached: %s*\n\n", names);
}

static void put_reasoning(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, "> *Reasoning*\n>\n");
    put_quoted(out, text, len);
}

static void put_content(struct buf *out, const char *text, size_t len)
{
    buf_append(out, text, len);
    buf_puts(out, "\n\n");
}

static void put_tool_calls(struct buf *out, const char *json)
{
    put_fenced(out, "json", json);
}

static void put_error(struct buf *out, const char *line)
{
    buf_printf(out, "> *Error:* %s\n\n", line);
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

const struct export_format export_markdown = {
    .name = "markdown",
    .media = "text/markdown; charset=utf-8",
    .suffix = ".md",
    .shown_only = true,
    .parts = &parts,
    .open = text_parts_open,
    .message = text_parts_message,
};
