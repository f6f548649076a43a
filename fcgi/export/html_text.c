/* Escapes text for HTML, so that nothing a message says is read as a tag. */
#include "fcgi/export/html_text.h"

static const char *escape_of(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return NULL;
    default:
        return c < ' ' || c == 0x7f ? "\xef\xbf\xbd" : NULL;
    }
}

void html_text(struct buf *out, const char *text, size_t len)
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
