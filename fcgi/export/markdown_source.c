/* Adapts a message's Markdown for the parser in one pass. It looks ahead a bounded distance only,
 * so that no text takes long. */
#include "fcgi/export/markdown_source.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST 4000 /* bytes of one formula or code span, as on the page */
#define INDENTED 4   /* spaces that make code of a line */

static size_t run_of(const char *p, const char *end, char c)
{
    size_t n = 0;
    while (p + n < end && p[n] == c)
        n++;
    return n;
}

/* Characters of the fence that opens or closes at this line; 0: none. */
static size_t fence_of(const char *line, const char *end)
{
    const size_t indent = run_of(line, end, ' ');
    const char *p = line + indent;
    if (indent >= INDENTED || p == end || (*p != '`' && *p != '~'))
        return 0;
    const size_t n = run_of(p, end, *p);
    return n >= 3 && !(*p == '`' && memchr(p + n, '`', (size_t)(end - p) - n)) ? n : 0;
}

static const char *near_end(const char *p, const char *end)
{
    const char *stop = end - p > LONGEST ? p + LONGEST : end;
    for (const char *nl = p; (nl = memchr(nl, '\n', (size_t)(stop - nl)));
         nl++) { /* a paragraph ends at an empty line */
        const char *next = nl + 1;
        while (next < stop && (*next == ' ' || *next == '\t'))
            next++;
        if (next == stop || *next == '\n')
            return nl;
    }
    return stop;
}

/* Behind the code span that begins at p; NULL: it is none. */
static const char *code_end(const char *p, const char *end)
{
    const size_t n = run_of(p, end, '`');
    const char *stop = near_end(p, end);
    for (const char *q = p + n; q < stop && (q = memchr(q, '`', (size_t)(stop - q)));) {
        const size_t k = run_of(q, end, '`');
        q += k;
        if (k == n)
            return q;
    }
    return NULL;
}

/* Behind the formula that begins at p; NULL: it is none. */
static const char *math_end(const char *p, const char *end)
{
    const char close = p[1] == '(' ? ')' : ']', *stop = near_end(p, end);
    bool blank = true;
    for (const char *q = p + 2; q + 1 < stop; q++) {
        if (*q == '\\' && q[1] == close)
            return blank ? NULL : q + 2;
        blank = blank && strchr(" \t\n", *q);
        q += *q == '\\' && q + 2 < stop;
    }
    return NULL;
}

static void put_math(struct buf *out, const char *p, const char *end)
{
    size_t longest = 0;
    for (const char *q = p; q < end; q++) {
        const size_t n = run_of(q, end, '`');
        longest = n > longest ? n : longest;
        q += n;
    }
    for (size_t i = 0; i <= longest; i++)
        buf_putc(out, '`');
    buf_puts(out, MATH_MARK);
    buf_append(out, p, (size_t)(end - p));
    for (size_t i = 0; i <= longest; i++)
        buf_putc(out, '`');
}

/* Reads a line outside fences and what continues from it over the next ones; returns where that
 * ended. */
static const char *guard_line(struct buf *out, const char *p, const char *line_end, const char *end)
{
    while (p < line_end) {
        const char *stop = NULL;
        if (*p == '`' && (stop = code_end(p, end))) {
            buf_append(out, p, (size_t)(stop - p));
        } else if (*p == '`') {
            stop = p + run_of(p, end, '`');
            buf_append(out, p, (size_t)(stop - p));
        } else if (*p == '\\' && p + 1 < end && (p[1] == '(' || p[1] == '[') &&
                   !buf_ends_with(out, '`') && (stop = math_end(p, end)) &&
                   (stop == end || *stop != '`')) {
            put_math(out, p, stop);
        } else {
            stop = p + (*p == '\\' && p + 1 < line_end ? 2 : 1);
            buf_append(out, p, (size_t)(stop - p));
        }
        p = stop;
        if (p > line_end) { /* it went over lines: on to the end of the one it ended in */
            const char *nl = memchr(p, '\n', (size_t)(end - p));
            line_end = nl ? nl : end;
        }
    }
    return p;
}

/* "|-|:-:|" and its like, each cell made wide enough; false: it is no such line, and nothing is
 * written. */
static bool put_table_line(struct buf *out, const char *line, const char *end)
{
    const size_t begin = out->len;
    bool bar = false, dash = false;
    for (const char *p = line; p < end;) {
        const size_t n = run_of(p, end, '-'),
                     colons = (p > line && p[-1] == ':') + (p + n < end && p[n] == ':');
        if (n) {
            if (dash) { /* two in one cell */
                out->len = begin;
                return false;
            }
            buf_append(out, p, n);
            for (size_t wide = n + colons; wide < 3; wide++)
                buf_putc(out, '-');
            dash = true;
            p += n;
        } else if (strchr(" \t\r:|", *p)) {
            bar = bar || *p == '|';
            dash = dash && *p != '|';
            buf_putc(out, *p++);
        } else {
            break;
        }
        if (p == end && bar)
            return true;
    }
    out->len = begin;
    return false;
}

void markdown_source(struct buf *out, const char *text, size_t len)
{
    const char *end = text + len;
    size_t open = 0;
    char with = 0;
    if (!memchr(text, '\\', len) && !memchr(text, '|', len)) {
        buf_append(out, text, len);
        return;
    }
    for (const char *line = text; line < end;) {
        const char *nl = memchr(line, '\n', (size_t)(end - line)), *line_end = nl ? nl : end;
        const size_t indent = run_of(line, line_end, ' '), n = fence_of(line, line_end);
        const bool turns = n && (!open || (n >= open && line[indent] == with));
        if (turns) {
            with = line[indent];
            open = open ? 0 : n;
        }
        if (turns || open || indent >= INDENTED || *line == '\t')
            buf_append(out, line, (size_t)(line_end - line));
        else if (!put_table_line(out, line, line_end))
            line_end = guard_line(out, line, line_end, end);
        if (line_end < end)
            buf_putc(out, '\n');
        line = line_end < end ? line_end + 1 : end;
    }
}
