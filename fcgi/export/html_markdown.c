/* Markdown to HTML: md4c parses and calls back; every tag and attribute that can come out stands in
 * this file. */
#include <md4c.h>
#include <string.h>
#include <strings.h>

#include "fcgi/export/html_text.h"
#include "fcgi/export/markdown_source.h"

#define FREE_GROWTH 4096 /* a short text may become this much longer */

struct page {
    struct buf *out;
    size_t most;     /* out->len may not pass it */
    bool link;       /* an <a> is open: none within it */
    int images;      /* open, one in another's words */
    bool image_link; /* the outermost image opened an <a> */
    size_t image_at; /* where its words begin */
    enum { CODE_NONE, CODE_BEGUN, CODE_TEXT, CODE_MATH } code; /* the code span that is open */
};

static int done(const struct page *p)
{
    return p->out->failed || p->out->len > p->most;
}

static bool is_entity(const char *text, size_t len)
{
    if (len < 3 || text[0] != '&' || text[len - 1] != ';')
        return false;
    for (size_t i = 1; i + 1 < len; i++)
        if (!strchr("#ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", text[i]))
            return false;
    return true;
}

static void put_entity(struct buf *out, const char *text, size_t len)
{
    if (is_entity(text, len))
        buf_append(out, text, len);
    else
        html_text(out, text, len);
}

/* ---- links */

/* By the letters as they stand: an entity in the scheme makes it no scheme of these. */
static bool is_safe(const MD_ATTRIBUTE *url)
{
    static const char *const schemes[] = {"http://", "https://", "mailto:"};
    if (!url->size || url->substr_types[0] != MD_TEXT_NORMAL)
        return false;
    const size_t plain = url->substr_offsets[1];
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (plain >= strlen(schemes[i]) && !strncasecmp(url->text, schemes[i], strlen(schemes[i])))
            return true;
    return false;
}

static void open_link(struct page *p, const MD_ATTRIBUTE *url)
{
    buf_puts(p->out, "<a href=\"");
    for (size_t i = 0; url->substr_offsets[i] < url->size; i++) {
        const char *part = url->text + url->substr_offsets[i];
        const size_t len = url->substr_offsets[i + 1] - url->substr_offsets[i];
        if (url->substr_types[i] == MD_TEXT_ENTITY)
            put_entity(p->out, part, len);
        else
            html_text(p->out, part, len);
    }
    buf_puts(p->out, "\" rel=\"noopener noreferrer nofollow ugc\">");
}

static void begin_image(struct page *p, const MD_SPAN_IMG_DETAIL *image)
{
    if (p->images++)
        return;
    p->image_link = !p->link && is_safe(&image->src);
    if (p->image_link)
        open_link(p, &image->src);
    p->image_at = p->out->len;
}

static void end_image(struct page *p)
{
    if (--p->images)
        return;
    if (p->out->len == p->image_at)
        buf_puts(p->out, "Image");
    if (p->image_link)
        buf_puts(p->out, "</a>");
}

/* ---- what md4c calls */

static int heading(unsigned level)
{
    return level + 2 < 6 ? (int)level + 2 : 6; /* h1 is the conversation, h2 the message */
}

static void put_cell(struct buf *out, const char *tag, MD_ALIGN align)
{
    static const char *const classes[] = {[MD_ALIGN_DEFAULT] = "",
                                          [MD_ALIGN_LEFT] = " class=\"left\"",
                                          [MD_ALIGN_CENTER] = " class=\"center\"",
                                          [MD_ALIGN_RIGHT] = " class=\"right\""};
    buf_printf(out, "<%s%s>", tag, classes[align]);
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *context)
{
    struct page *p = context;
    struct buf *out = p->out;
    const MD_BLOCK_LI_DETAIL *item = detail;
    switch (type) {
    case MD_BLOCK_QUOTE:
        buf_puts(out, "<blockquote>\n");
        break;
    case MD_BLOCK_UL:
        buf_puts(out, "<ul>\n");
        break;
    case MD_BLOCK_OL:
        buf_printf(out, "<ol start=\"%u\">\n", ((const MD_BLOCK_OL_DETAIL *)detail)->start);
        break;
    case MD_BLOCK_LI:
        buf_puts(out, !item->is_task           ? "<li>"
                      : item->task_mark == ' ' ? "<li class=\"task\">\xe2\x98\x90 "
                                               : "<li class=\"task\">\xe2\x98\x91 ");
        break;
    case MD_BLOCK_HR:
        buf_puts(out, "<hr>\n");
        break;
    case MD_BLOCK_H:
        buf_printf(out, "<h%d>", heading(((const MD_BLOCK_H_DETAIL *)detail)->level));
        break;
    case MD_BLOCK_CODE:
        buf_puts(out, "<pre><code>");
        break;
    case MD_BLOCK_P:
        buf_puts(out, "<p>");
        break;
    case MD_BLOCK_TABLE:
        buf_puts(out, "<table>\n");
        break;
    case MD_BLOCK_THEAD:
        buf_puts(out, "<thead>\n");
        break;
    case MD_BLOCK_TBODY:
        buf_puts(out, "<tbody>\n");
        break;
    case MD_BLOCK_TR:
        buf_puts(out, "<tr>");
        break;
    case MD_BLOCK_TH:
        put_cell(out, "th", ((const MD_BLOCK_TD_DETAIL *)detail)->align);
        break;
    case MD_BLOCK_TD:
        put_cell(out, "td", ((const MD_BLOCK_TD_DETAIL *)detail)->align);
        break;
    default:
        break;
    }
    return done(p);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *context)
{
    struct page *p = context;
    struct buf *out = p->out;
    switch (type) {
    case MD_BLOCK_QUOTE:
        buf_puts(out, "</blockquote>\n");
        break;
    case MD_BLOCK_UL:
        buf_puts(out, "</ul>\n");
        break;
    case MD_BLOCK_OL:
        buf_puts(out, "</ol>\n");
        break;
    case MD_BLOCK_LI:
        buf_puts(out, "</li>\n");
        break;
    case MD_BLOCK_H:
        buf_printf(out, "</h%d>\n", heading(((const MD_BLOCK_H_DETAIL *)detail)->level));
        break;
    case MD_BLOCK_CODE:
        buf_puts(out, "</code></pre>\n");
        break;
    case MD_BLOCK_P:
        buf_puts(out, "</p>\n");
        break;
    case MD_BLOCK_TABLE:
        buf_puts(out, "</table>\n");
        break;
    case MD_BLOCK_THEAD:
        buf_puts(out, "</thead>\n");
        break;
    case MD_BLOCK_TBODY:
        buf_puts(out, "</tbody>\n");
        break;
    case MD_BLOCK_TR:
        buf_puts(out, "</tr>\n");
        break;
    case MD_BLOCK_TH:
        buf_puts(out, "</th>");
        break;
    case MD_BLOCK_TD:
        buf_puts(out, "</td>");
        break;
    default:
        break;
    }
    return done(p);
}

static int enter_span(MD_SPANTYPE type, void *detail, void *context)
{
    struct page *p = context;
    switch (type) {
    case MD_SPAN_EM:
        buf_puts(p->out, "<em>");
        break;
    case MD_SPAN_STRONG:
        buf_puts(p->out, "<strong>");
        break;
    case MD_SPAN_DEL:
        buf_puts(p->out, "<s>");
        break;
    case MD_SPAN_CODE:
        p->code = CODE_BEGUN;
        break;
    case MD_SPAN_A:
        p->link = !p->images && is_safe(&((const MD_SPAN_A_DETAIL *)detail)->href);
        if (p->link)
            open_link(p, &((const MD_SPAN_A_DETAIL *)detail)->href);
        break;
    case MD_SPAN_IMG:
        begin_image(p, detail);
        break;
    case MD_SPAN_LATEXMATH:
        buf_puts(p->out, "<span class=\"math\">$");
        break;
    case MD_SPAN_LATEXMATH_DISPLAY:
        buf_puts(p->out, "<span class=\"math\">$$");
        break;
    default:
        break;
    }
    return done(p);
}

static int leave_span(MD_SPANTYPE type, void *detail, void *context)
{
    struct page *p = context;
    switch (type) {
    case MD_SPAN_EM:
        buf_puts(p->out, "</em>");
        break;
    case MD_SPAN_STRONG:
        buf_puts(p->out, "</strong>");
        break;
    case MD_SPAN_DEL:
        buf_puts(p->out, "</s>");
        break;
    case MD_SPAN_CODE:
        if (p->code >= CODE_TEXT)
            buf_puts(p->out, p->code == CODE_MATH ? "</span>" : "</code>");
        p->code = CODE_NONE;
        break;
    case MD_SPAN_A:
        if (p->link)
            buf_puts(p->out, "</a>");
        p->link = false;
        break;
    case MD_SPAN_IMG:
        end_image(p);
        break;
    case MD_SPAN_LATEXMATH:
        buf_puts(p->out, "$</span>");
        break;
    case MD_SPAN_LATEXMATH_DISPLAY:
        buf_puts(p->out, "$$</span>");
        break;
    default:
        break;
    }
    return done(p);
}

/* The first words of a code span say whether it is one, or a formula that was guarded. */
static void begin_code(struct page *p, const char **text, MD_SIZE *len)
{
    const size_t n = strlen(MATH_MARK);
    p->code = *len >= n && !memcmp(*text, MATH_MARK, n) ? CODE_MATH : CODE_TEXT;
    buf_puts(p->out, p->code == CODE_MATH ? "<span class=\"math\">" : "<code>");
    if (p->code == CODE_MATH) {
        *text += n;
        *len -= (MD_SIZE)n;
    }
}

static int put_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE len, void *context)
{
    struct page *p = context;
    if (p->code == CODE_BEGUN)
        begin_code(p, &text, &len);
    switch (type) {
    case MD_TEXT_NULLCHAR:
        buf_puts(p->out, "\xef\xbf\xbd");
        break;
    case MD_TEXT_BR:
        buf_puts(p->out, "<br>\n");
        break;
    case MD_TEXT_SOFTBR:
        buf_putc(p->out, '\n');
        break;
    case MD_TEXT_ENTITY:
        put_entity(p->out, text, len);
        break;
    default:
        html_text(p->out, text, len);
        break;
    }
    return done(p);
}

static bool parse(struct page *p, const char *text, size_t len)
{
    static const MD_PARSER parser = {
        .flags = MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                 MD_FLAG_PERMISSIVEURLAUTOLINKS | MD_FLAG_LATEXMATHSPANS,
        .enter_block = enter_block,
        .leave_block = leave_block,
        .enter_span = enter_span,
        .leave_span = leave_span,
        .text = put_text};
    struct buf guarded = {0};
    markdown_source(&guarded, text, len);
    bool ok = !guarded.failed &&
              md_parse(guarded.data ? guarded.data : "", (MD_SIZE)guarded.len, &parser, p) == 0 &&
              !p->out->failed;
    buf_fini(&guarded);
    return ok;
}

void html_markdown(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, "<div class=\"prose\" dir=\"auto\">\n");
    const size_t begin = out->len;
    struct page p = {.out = out, .most = begin + FREE_GROWTH + HTML_MARKDOWN_GROWTH * len};
    if (len > HTML_MARKDOWN_BYTES || !parse(&p, text, len)) {
        if (out->failed)
            return;
        out->len = begin; /* what it had made of it */
        buf_puts(out, "<div class=\"text\">");
        html_text(out, text, len);
        buf_puts(out, "</div>\n");
    }
    buf_puts(out, "</div>\n");
}
