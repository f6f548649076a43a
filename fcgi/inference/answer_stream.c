/* answer_stream.h: the steps between a dialect's text and the connection. */
#include "fcgi/inference/answer_stream.h"

#include "fcgi/http/ignored.h"

void answer_stream_begin(struct answer_stream *s)
{
    sse_begin(&s->sse, s->r, SSE_EVENTS_TYPE);
    sse_enable_abort(&s->sse);
}

void answer_stream_begin_lines(struct answer_stream *s)
{
    sse_begin(&s->sse, s->r, SSE_LINES_TYPE);
    sse_enable_abort(&s->sse);
}

void answer_stream_event(struct answer_stream *s, const char *name)
{
    if (s->line.failed)
        s->sse.out.failed = true;
    else
        sse_event(&s->sse, name, s->line.data, s->line.len);
}

void answer_stream_line(struct answer_stream *s)
{
    if (s->line.failed)
        s->sse.out.failed = true;
    else
        sse_line(&s->sse, s->line.data, s->line.len);
}

void answer_stream_warnings(struct answer_stream *s)
{
    if (!s->warned)
        ignored_write(&s->line, s->r);
    s->warned = true;
}

void answer_stream_fini(struct answer_stream *s)
{
    sse_end(&s->sse);
    buf_fini(&s->line);
}

void answer_stream_pause(void *context)
{
    struct answer_stream *s = context;
    sse_wait(&s->sse);
}

int answer_stream_idle_ms(void *context)
{
    const struct answer_stream *s = context;
    return sse_idle_ms(&s->sse);
}

void answer_stream_keep_alive(void *context)
{
    struct answer_stream *s = context;
    const struct generation *g = &s->x->generations[0];
    if (g->state == GENERATION_PREFILL)
        sse_comment(&s->sse, "prefill %d/%d", g->done, g->total);
    else
        sse_comment(&s->sse, "keepalive");
}
