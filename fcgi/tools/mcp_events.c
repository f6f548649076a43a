/* mcp_events.h: lines end with LF or CRLF; an empty one ends the event. */
#include "fcgi/tools/mcp_events.h"

#include <string.h>

static bool take_line(struct mcp_events *x)
{
    static const char name[] = "data:";
    const char *line = x->line.data ? x->line.data : "";
    size_t len = x->line.len, at = sizeof name - 1;
    if (len && line[len - 1] == '\r')
        len--;
    if (!len) {
        const bool more =
            !x->any || x->event(x->context, x->data.data ? x->data.data : "", x->data.len);
        buf_clear(&x->data);
        x->any = false;
        return more;
    }
    if (len < at || memcmp(line, name, at) != 0)
        return true;
    at += at < len && line[at] == ' ';
    if (x->any)
        buf_putc(&x->data, '\n');
    x->any = true;
    return buf_append(&x->data, line + at, len - at);
}

bool mcp_events_feed(struct mcp_events *x, const char *bytes, size_t len)
{
    while (len) {
        const char *end = memchr(bytes, '\n', len);
        const size_t n = end ? (size_t)(end - bytes) : len;
        if (!buf_append(&x->line, bytes, n))
            return false;
        if (!end)
            return true;
        const bool more = take_line(x);
        buf_clear(&x->line);
        if (!more)
            return false;
        bytes += n + 1;
        len -= n + 1;
    }
    return true;
}

void mcp_events_fini(struct mcp_events *x)
{
    buf_fini(&x->line);
    buf_fini(&x->data);
}
