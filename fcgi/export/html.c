/* A page that needs nothing and can do nothing: no script, no link, no picture; the policy at its top allows the style
 * below by its hash and nothing else. What was said is text, escaped; only fenced code gets a box of its own. */
#include <stdlib.h>
#include <string.h>

#include "fcgi/export/format.h"

/* STYLE's SHA-256, base64: tests/api/export.test.mjs reckons it anew. */
#define STYLE_HASH "D3dlDlKbDlhGC/ZsNbV7pzaigYOlwWZBq4TMpOAKd3c="
#define STYLE \
    ":root{color-scheme:light dark}" \
    "body{font:16px/1.55 system-ui,sans-serif;margin:0 auto;max-width:46rem;padding:2rem 1rem;overflow-wrap:anywhere}" \
    "h1{font-size:1.5rem;margin:2.5rem 0 .25rem}h2{font-size:.95rem;margin:2rem 0 .5rem}" \
    "time,.note{color:GrayText;font-size:.85rem;font-weight:400}" \
    ".text{white-space:pre-wrap}pre{border:1px solid GrayText;border-radius:.4rem;padding:.75rem;white-space:pre-wrap}" \
    "pre,code{font-family:ui-monospace,monospace;font-size:.9rem}" \
    "section.user .text{border-inline-start:3px solid GrayText;padding-inline-start:.75rem}" \
    "details{margin:.5rem 0}summary{cursor:pointer}" \
    "@media print{body{max-width:none;padding:0}article+article{break-before:page}}"

static const char *escape_of(unsigned char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case '\n':
    case '\t': return NULL;
    default: return c < ' ' || c == 0x7f ? "\xef\xbf\xbd" : NULL;
    }
}

static void put_escaped(struct buf *out, const char *text, size_t len)
{
    const char *plain = text, *end = text + len;
    buf_reserve(out, len);
    for (const char *p = text; p < end; p++) {
        const char *as = escape_of((unsigned char)*p);
        if (!as)
            continue;
        buf_append(out, plain, (size_t)(p - plain));
        buf_puts(out, as);
        plain = p + 1;
    }
    buf_append(out, plain, (size_t)(end - plain));
}

static void put_string(struct buf *out, const char *text)
{
    put_escaped(out, text, strlen(text));
}

/* How many of the fence's characters open this line; 0: it is no fence. */
static size_t fence_of(const char *line, size_t len, char *with)
{
    size_t at = 0, n = 0;
    while (at < len && at < 3 && line[at] == ' ')
        at++;
    if (at == len || (line[at] != '`' && line[at] != '~'))
        return 0;
    while (at + n < len && line[at + n] == line[at])
        n++;
    *with = line[at];
    return n >= 3 ? n : 0;
}

/* Runs of lines outside fences, and those inside. */
static void put_content(struct buf *out, const char *text, size_t len)
{
    const char *end = text + len, *run = text;
    size_t open = 0;
    char with = 0;
    for (const char *line = text; line < end;) {
        const char *nl = memchr(line, '\n', (size_t)(end - line));
        const char *next = nl ? nl + 1 : end;
        char found = 0;
        const size_t n = fence_of(line, (size_t)((nl ? nl : end) - line), &found);
        if (n && (!open || (n >= open && found == with))) {
            if (line > run || open) {
                buf_puts(out, open ? "<pre><code>" : "<div class=\"text\" dir=\"auto\">");
                put_escaped(out, run, (size_t)(line - run));
                buf_puts(out, open ? "</code></pre>\n" : "</div>\n");
            }
            open = open ? 0 : n;
            with = found;
            run = next;
        }
        line = next;
    }
    if (run < end) {
        buf_puts(out, open ? "<pre><code>" : "<div class=\"text\" dir=\"auto\">");
        put_escaped(out, run, (size_t)(end - run));
        buf_puts(out, open ? "</code></pre>\n" : "</div>\n");
    }
}

static void put_time(struct buf *out, int64_t ms)
{
    char time[EXPORT_TIME_SIZE];
    buf_printf(out, " <time>%s</time>", export_time(ms, time));
}

static void begin(struct export_writer *w)
{
    buf_puts(&w->out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-" STYLE_HASH
                      "'; base-uri 'none'; form-action 'none'\">\n"
                      "<meta name=\"referrer\" content=\"no-referrer\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<title>Sluice</title>\n<style>" STYLE "</style>\n");
}

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c, const struct export_tree *t)
{
    char *system = export_system(c->settings);
    buf_puts(&w->out, "<article>\n<h1 dir=\"auto\">");
    put_string(&w->out, *c->title ? c->title : "Untitled");
    buf_puts(&w->out, "</h1>\n");
    put_time(&w->out, c->created_at);
    buf_putc(&w->out, '\n');
    if (system) {
        buf_puts(&w->out, "<details><summary>System</summary>\n<div class=\"text\" dir=\"auto\">");
        put_string(&w->out, system);
        buf_puts(&w->out, "</div></details>\n");
    }
    free(system);
}

static void put_heading(struct buf *out, const struct store_export_message *m)
{
    buf_printf(out, "<section class=\"%s\">\n<h2>%s", store_role_name(m->node.role), export_role(m->node.role));
    put_time(out, m->created_at);
    if (m->model) {
        buf_puts(out, " <span class=\"note\">");
        put_string(out, m->model);
        buf_puts(out, "</span>");
    }
    if (m->node.status != MESSAGE_DONE)
        buf_printf(out, " <span class=\"note\">%s</span>", store_status_name(m->node.status));
    buf_puts(out, "</h2>\n");
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_export_message *m)
{
    struct buf *out = &w->out;
    struct buf names = {0};
    put_heading(out, m);
    export_file_names(&names, m->attachments);
    if (names.len) {
        buf_puts(out, "<p class=\"note\" dir=\"auto\">Attached: ");
        put_escaped(out, names.data, names.len);
        buf_puts(out, "</p>\n");
    }
    buf_fini(&names);
    if (m->reasoning_len) {
        buf_puts(out, "<details><summary>Reasoning</summary>\n<div class=\"text\" dir=\"auto\">");
        put_escaped(out, m->reasoning, m->reasoning_len);
        buf_puts(out, "</div></details>\n");
    }
    put_content(out, m->content, m->content_len);
    if (m->tool_calls) {
        buf_puts(out, "<pre><code>");
        put_string(out, m->tool_calls);
        buf_puts(out, "</code></pre>\n");
    }
    if (m->error) {
        buf_puts(out, "<p class=\"note\">");
        put_string(out, m->error);
        buf_puts(out, "</p>\n");
    }
    buf_puts(out, "</section>\n");
}

static void close_conversation(struct export_writer *w)
{
    buf_puts(&w->out, "</article>\n");
}

static void end(struct export_writer *w)
{
    buf_puts(&w->out, "</html>\n");
}

const struct export_format export_html = {
    .name = "html",
    .media = "text/html; charset=utf-8",
    .suffix = ".html",
    .shown_only = true,
    .begin = begin,
    .open = open_conversation,
    .message = put_message,
    .close = close_conversation,
    .end = end,
};
