/* A page that needs nothing and loads nothing: no script, no picture; the policy at its top allows
 * the style below by its hash and nothing else. Answers are Markdown as on the page
 * (html_markdown.c), what people wrote is text. */
#include <stdlib.h>
#include <string.h>

#include "fcgi/export/format.h"
#include "fcgi/export/html_text.h"

/* STYLE's SHA-256, base64: tests/api/export.test.mjs reckons it anew. */
#define STYLE_HASH "6A6VN+M3HrjaLmrJx1YxaYdESlb7iOJy6coBDJSAFTs="
#define STYLE                                                                                      \
    ":root{color-scheme:light dark}"                                                               \
    "body{font:16px/1.55 system-ui,sans-serif;margin:0 auto;max-width:46rem;padding:2rem "         \
    "1rem;overflow-wrap:anywhere}"                                                                 \
    "h1{font-size:1.5rem;margin:2.5rem 0 .25rem}h2{font-size:.95rem;margin:2rem 0 .5rem}"          \
    "h3,h4,h5,h6{font-size:1.05rem;margin:1.25rem 0 .5rem}h3{font-size:1.25rem}"                   \
    "time,.note{color:GrayText;font-size:.85rem;font-weight:400}"                                  \
    ".text{white-space:pre-wrap}pre{border:1px solid "                                             \
    "GrayText;border-radius:.4rem;padding:.75rem;white-space:pre-wrap}"                            \
    "pre,code,.math{font-family:ui-monospace,monospace;font-size:.9rem}.math{white-space:pre-"     \
    "wrap}"                                                                                        \
    "table{border-collapse:collapse;display:block;overflow-x:auto}th,td{border:1px solid "         \
    "GrayText;padding:.3rem .6rem;text-align:start}"                                               \
    ".left{text-align:left}.center{text-align:center}.right{text-align:right}.task{list-style:"    \
    "none}"                                                                                        \
    "blockquote{border-inline-start:3px solid "                                                    \
    "GrayText;margin-inline:0;padding-inline-start:.75rem}"                                        \
    "section.user .text{border-inline-start:3px solid GrayText;padding-inline-start:.75rem}"       \
    "details{margin:.5rem 0}summary{cursor:pointer}"                                               \
    "@media print{body{max-width:none;padding:0}article+article{break-before:page}}"

static void put_string(struct buf *out, const char *text)
{
    html_text(out, text, strlen(text));
}

/* As it was written. */
static void put_plain(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, "<div class=\"text\" dir=\"auto\">");
    html_text(out, text, len);
    buf_puts(out, "</div>\n");
}

static void put_time(struct buf *out, int64_t ms)
{
    char time[EXPORT_TIME_SIZE];
    buf_printf(out, " <time>%s</time>", export_time(ms, time));
}

static void begin(struct export_writer *w)
{
    buf_puts(&w->out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'sha256-" STYLE_HASH "'; base-uri 'none'; form-action 'none'\">\n"
                      "<meta name=\"referrer\" content=\"no-referrer\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<title>Sluice</title>\n<style>" STYLE "</style>\n");
}

static void open_conversation(struct export_writer *w, const struct store_export_conversation *c,
                              const struct export_tree *t)
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

static void put_heading(struct buf *out, const struct store_message *m)
{
    buf_printf(out, "<section class=\"%s\">\n<h2>%s", store_role_name(m->role),
               export_role(m->role));
    put_time(out, m->created_at);
    if (m->model) {
        buf_puts(out, " <span class=\"note\">");
        put_string(out, m->model);
        buf_puts(out, "</span>");
    }
    if (m->status != MESSAGE_DONE)
        buf_printf(out, " <span class=\"note\">%s</span>", store_status_name(m->status));
    buf_puts(out, "</h2>\n");
}

static void put_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_message *m)
{
    struct buf *out = &w->out;
    struct buf names = {0};
    put_heading(out, m);
    export_file_names(&names, m->attachments);
    if (names.len) {
        buf_puts(out, "<p class=\"note\" dir=\"auto\">Attached: ");
        html_text(out, names.data, names.len);
        buf_puts(out, "</p>\n");
    }
    buf_fini(&names);
    if (m->reasoning_len) {
        buf_puts(out, "<details><summary>Reasoning</summary>\n");
        html_markdown(out, m->reasoning, m->reasoning_len);
        buf_puts(out, "</details>\n");
    }
    if (m->content_len && m->role == ROLE_ASSISTANT)
        html_markdown(out, m->content, m->content_len);
    else if (m->content_len)
        put_plain(out, m->content, m->content_len);
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
