/* chat_reply.h: the answer as chunks. One id; role first; finish_reason exactly once per choice; usage last with empty
 * choices; [DONE] always. What one wake-up brought leaves in one flush. */
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_reply.h"
#include "fcgi/process/worker.h"

#define PROGRESS_MS 500 /* a long prefill says how far it is, without flooding */

/* ...,"choices":[{"index":0,"delta":{ */
static void begin_chunk(struct chat_stream *s, int choice)
{
    buf_clear(&s->line);
    buf_append(&s->line, s->head.data, s->head.len);
    buf_printf(&s->line, ",\"choices\":[{\"index\":%d,\"delta\":{", choice);
}

static int reasoning_tokens(const struct chat_stream *s)
{
    int n = 0;
    for (int i = 0; i < s->x->n; i++)
        n += s->x->generations[i].n_reasoning;
    return n;
}

static void put_usage_so_far(struct chat_stream *s)
{
    const struct stream_options *o = &s->c->streaming;
    if (o->continuous_usage) {
        struct engine_usage usage = inference_usage_so_far(s->x);
        buf_puts(&s->line, ",\"usage\":");
        openai_usage(&s->line, &usage, reasoning_tokens(s));
    } else if (o->include_usage) {
        buf_puts(&s->line, ",\"usage\":null");
    }
}

static void end_chunk(struct chat_stream *s, int choice, const char *finish)
{
    struct buf *items = &s->logprobs[choice];
    buf_puts(&s->line, "},\"logprobs\":");
    if (!items->len)
        buf_puts(&s->line, "null");
    else
        buf_printf(&s->line, "{\"content\":[%s],\"refusal\":null}", items->data);
    buf_puts(&s->line, ",\"finish_reason\":");
    if (finish)
        buf_printf(&s->line, "\"%s\"", finish);
    else
        buf_puts(&s->line, "null");
    buf_puts(&s->line, "}]");
    put_usage_so_far(s);
    if (!s->begun)
        ignored_write(&s->line, s->r);
    s->begun = true;
    buf_putc(&s->line, '}');
    if (s->line.failed || items->failed)
        s->sse.out.failed = true;
    else
        sse_event(&s->sse, NULL, s->line.data, s->line.len);
    buf_clear(items);
}

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct chat_stream *s = context;
    if (s->c->top_logprobs >= 0)
        openai_logprobs(&s->logprobs[choice], s->r->worker->text->vocab, ev->tokens, ev->n_tokens);
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    struct chat_stream *s = context;
    const struct generation *g = &s->x->generations[choice];
    struct buf *line = &s->line;
    if (d->type == CHAT_CALL_END || (d->type != CHAT_CALL && !d->len))
        return;
    begin_chunk(s, choice);
    switch (d->type) {
    case CHAT_REASONING:
        buf_puts(line, "\"reasoning_content\":");
        buf_json_string(line, d->text, d->len);
        break;
    case CHAT_CONTENT:
        buf_puts(line, "\"content\":");
        buf_json_string(line, d->text, d->len);
        break;
    case CHAT_CALL:
        buf_printf(line, "\"tool_calls\":[{\"index\":%d,\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
                   d->index, g->calls[d->index]->id);
        buf_json_string(line, d->name, strlen(d->name));
        buf_puts(line, ",\"arguments\":\"\"}}]");
        break;
    default:
        buf_printf(line, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", d->index);
        buf_json_string(line, d->text, d->len);
        buf_puts(line, "}}]");
    }
    end_chunk(s, choice, NULL);
}

static void say_progress(struct chat_stream *s)
{
    const struct generation *g = &s->x->generations[0];
    if (g->state == GENERATION_QUEUED)
        sse_comment(&s->sse, "queued %d", g->queue_position);
    else if (g->state == GENERATION_PREFILL)
        sse_comment(&s->sse, "prefill %d/%d", g->done, g->total);
    else
        sse_comment(&s->sse, "keepalive");
}

/* A chunk without choices: how many of the prompt's tokens were read, how many of them the cache held. */
static void send_progress(struct chat_stream *s, const struct generation *g)
{
    buf_clear(&s->line);
    buf_append(&s->line, s->head.data, s->head.len);
    buf_printf(&s->line, ",\"choices\":[],\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,\"time_ms\":%.0f}}",
               g->total, g->cached, g->done, (double)(clock_ns() - s->r->begin_ns) / 1e6);
    sse_event(&s->sse, NULL, s->line.data, s->line.len);
}

static void take_progress(void *context, int choice)
{
    struct chat_stream *s = context;
    if (s->c->progress) {
        if (choice == 0)
            send_progress(s, &s->x->generations[0]);
        return;
    }
    if (choice == 0 && clock_ns() - s->sse.last_ns > PROGRESS_MS * 1000000ull)
        say_progress(s);
}

static void take_done(void *context, int choice)
{
    struct chat_stream *s = context;
    begin_chunk(s, choice);
    end_chunk(s, choice, generation_finish_reason(&s->x->generations[choice]));
}

static void pause_stream(void *context)
{
    struct chat_stream *s = context;
    sse_flush(&s->sse);
}

static int idle_ms(void *context)
{
    struct chat_stream *s = context;
    return sse_idle_ms(&s->sse);
}

static void keep_alive(void *context)
{
    say_progress(context);
}

static void begin(void *context)
{
    struct chat_stream *s = context;
    char id[OPENAI_ID_SIZE];
    openai_id(id, "chatcmpl-", s->r);
    openai_head(&s->head, id, "chat.completion.chunk", s->r);
    sse_start(&s->sse, s->r);
    sse_enable_abort(&s->sse);
    for (int i = 0; i < s->x->n; i++) {
        begin_chunk(s, i);
        buf_puts(&s->line, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
        end_chunk(s, i, NULL);
    }
    sse_flush(&s->sse);
}

static void send_usage(struct chat_stream *s)
{
    struct engine_usage usage = inference_usage(s->x);
    buf_clear(&s->line);
    buf_append(&s->line, s->head.data, s->head.len);
    buf_puts(&s->line, ",\"choices\":[],\"usage\":");
    openai_usage(&s->line, &usage, reasoning_tokens(s));
    buf_puts(&s->line, ",\"timings\":");
    openai_timings(&s->line, &usage);
    buf_putc(&s->line, '}');
    sse_event(&s->sse, NULL, s->line.data, s->line.len);
}

/* The usage chunk, or the error; then [DONE]. */
static void end(void *context, const struct err *broken)
{
    struct chat_stream *s = context;
    if (broken) {
        buf_clear(&s->line);
        reply_error_object(&s->line, s->r, broken);
        sse_event(&s->sse, NULL, s->line.data, s->line.len);
    } else if (s->c->streaming.include_usage) {
        send_usage(s);
    }
    sse_event(&s->sse, NULL, "[DONE]", 6);
    sse_flush(&s->sse);
}

struct chat_view chat_stream_view(struct chat_stream *s, struct request *r, const struct chat_request *c,
                                  const struct inference *x)
{
    *s = (struct chat_stream){.r = r, .c = c, .x = x};
    return (struct chat_view){
        .listener = {.context = s, .tokens = take_tokens, .delta = take_delta, .progress = take_progress,
                     .done = take_done, .pause = pause_stream, .idle_ms = idle_ms, .idle = keep_alive},
        .begin = begin,
        .end = end,
    };
}

void chat_stream_fini(struct chat_stream *s)
{
    sse_end(&s->sse);
    buf_fini(&s->head);
    buf_fini(&s->line);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++)
        buf_fini(&s->logprobs[i]);
}
