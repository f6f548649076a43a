/* sse.h: events are gathered in `out`; a flush writes them as one FastCGI record, one nginx write,
 * one segment. */
#include "fcgi/http/sse.h"

#include <fcgiapp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "fcgi/http/dialect.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/reply_head.h"
#include "fcgi/http/request.h"
#include "fcgi/process/child.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/stream_abort.h"

void sse_begin(struct sse *s, struct request *r, const char *content_type)
{
    *s = (struct sse){.r = r, .last_ns = clock_ns(), .head_waits = true};
    reply_header(r, "Cache-Control", "no-cache, no-transform");
    reply_header(r, "X-Accel-Buffering", "no");
    if (!reply_head(r, 200, content_type))
        r->client_gone = true;
}

bool sse_start(struct sse *s, struct request *r)
{
    sse_begin(s, r, SSE_EVENTS_TYPE);
    return sse_flush(s);
}

/* What the master finds when this process dies: nothing, unless it has the connection. */
static void mark(struct sse *s, enum stream_state state)
{
    if (s->abort_enabled && s->r->slot && (state == STREAM_NONE || s->r->handed_over))
        atomic_store(&s->r->slot->stream, (int32_t)state);
}

/* The master wakes for it, so not before the first bytes have left, and not for an answer that is
 * over with them. */
static void hand_over(struct sse *s)
{
    struct request *r = s->r;
    if (s->abort_enabled && r->child && !r->handed_over)
        r->handed_over = stream_abort_hand_over(r->child->stream_abort_fd, r->child->slot_index,
                                                r->fcgx->ipcFd, r->fcgx->requestId);
    mark(s, STREAM_OPEN);
}

void sse_enable_abort(struct sse *s)
{
    s->abort_enabled = true;
    if (s->r->slot)
        atomic_store(&s->r->slot->dialect, (int32_t)dialect_index(dialect_of(s->r)));
    if (!s->head_waits) /* an event can't stand before the head */
        hand_over(s);
}

void sse_event(struct sse *s, const char *event, const char *data, size_t len)
{
    if (event)
        buf_printf(&s->out, "event: %s\n", event);
    buf_puts(&s->out, "data: ");
    buf_append(&s->out, data, len);
    buf_append(&s->out, "\n\n", 2);
}

void sse_line(struct sse *s, const char *data, size_t len)
{
    buf_append(&s->out, data, len);
    buf_putc(&s->out, '\n');
}

void sse_comment(struct sse *s, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_printf(&s->out, ": %s\n\n", text);
}

bool sse_flush(struct sse *s)
{
    struct request *r = s->r;
    if (!r)
        return false; /* never started */
    if (s->out.failed)
        r->client_gone = true; /* no memory: better an ended stream than one with a hole */
    if (!r->client_gone && (s->out.len || s->head_waits)) {
        int n = (int)s->out.len;
        if (!s->head_waits)
            mark(s, STREAM_WRITING);
        if ((n && FCGX_PutStr(s->out.data, n, r->fcgx->out) != n) || FCGX_FFlush(r->fcgx->out) != 0)
            r->client_gone = true;
        mark(s, STREAM_OPEN);
        if (s->head_waits)
            r->first_byte_ns = clock_ns();
        s->head_waits = false;
        r->bytes_out += s->out.len;
        s->last_ns = clock_ns();
    }
    buf_clear(&s->out);
    return !r->client_gone;
}

bool sse_wait(struct sse *s)
{
    const bool there = sse_flush(s);
    if (there && !s->head_waits)
        hand_over(s);
    return there;
}

int sse_idle_ms(const struct sse *s)
{
    int64_t quiet = (int64_t)((clock_ns() - s->last_ns) / 1000000);
    return quiet >= SSE_KEEPALIVE_MS ? 0 : (int)(SSE_KEEPALIVE_MS - quiet);
}

void sse_end(struct sse *s)
{
    sse_flush(s);
    mark(s, STREAM_NONE);
    buf_fini(&s->out);
}
