/* chat_reply.h: the answer as chunks. One id; role first; finish_reason exactly once per choice;
 * usage last with empty choices; [DONE] always. What one wake-up brought leaves in one flush. */
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
    buf_clear(&s->stream.line);
    buf_append(&s->stream.line, s->head.data, s->head.len);
    buf_printf(&s->stream.line, ",\"choices\":[{\"index\":%d,\"delta\":{", choice);
}

static int reasoning_tokens(const struct chat_stream *s)
{
    int n = 0;
    for (int i = 0; i < s->stream.x->n; i++)
        n += s->stream.x->generations[i].n_reasoning;
    return n;
}

static void end_chunk(struct chat_stream *s, int choice, const char *finish)
{
    struct buf *items = &s->logprobs[choice];
    buf_puts(&s->stream.line, "},\"logprobs\":");
    if (!items->len)
        buf_puts(&s->stream.line, "null");
    else
        buf_printf(&s->stream.line, "{\"content\":[%s],\"refusal\":null}", items->data);
    buf_puts(&s->stream.line, ",\"finish_reason\":");
    if (finish)
        buf_printf(&s->stream.line, "\"%s\"", finish);
    else
        buf_puts(&s->stream.line, "null");
    buf_puts(&s->stream.line, "}]");
    openai_usage_so_far(&s->stream.line, &s->c->streaming, s->stream.x, reasoning_tokens(s));
    answer_stream_warnings(&s->stream);
    buf_putc(&s->stream.line, '}');
    s->stream.line.failed |= items->failed;
    answer_stream_event(&s->stream, NULL);
    buf_clear(items);
}

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct chat_stream *s = context;
    if (s->c->top_logprobs >= 0)
        openai_event_logprobs(&s->logprobs[choice], s->stream.r, ev);
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    struct chat_stream *s = context;
    const struct generation *g = &s->stream.x->generations[choice];
    struct buf *line = &s->stream.line;
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
        buf_printf(line,
                   "\"tool_calls\":[{\"index\":%d,\"id\":\"%s\",\"type\":\"function\",\"function\":"
                   "{\"name\":",
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
    const struct generation *g = &s->stream.x->generations[0];
    if (g->state == GENERATION_QUEUED)
        sse_comment(&s->stream.sse, "queued %d", g->queue_position);
    else
        answer_stream_keep_alive(&s->stream);
}

/* A chunk without choices: how many of the prompt's tokens were read, how many of them the cache
 * held. */
static void send_progress(struct chat_stream *s, const struct generation *g)
{
    buf_clear(&s->stream.line);
    buf_append(&s->stream.line, s->head.data, s->head.len);
    buf_printf(&s->stream.line,
               ",\"choices\":[],\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,"
               "\"time_ms\":%.0f}}",
               g->total, g->cached, g->done, (double)(clock_ns() - s->stream.r->begin_ns) / 1e6);
    answer_stream_event(&s->stream, NULL);
}

static void take_progress(void *context, int choice)
{
    struct chat_stream *s = context;
    if (s->c->progress) {
        if (choice == 0)
            send_progress(s, &s->stream.x->generations[0]);
        return;
    }
    if (choice == 0 && clock_ns() - s->stream.sse.last_ns > PROGRESS_MS * 1000000ull)
        say_progress(s);
}

static void take_done(void *context, int choice)
{
    struct chat_stream *s = context;
    begin_chunk(s, choice);
    end_chunk(s, choice, generation_finish_reason(&s->stream.x->generations[choice]));
}

static void keep_alive(void *context)
{
    say_progress(context);
}

static void begin(void *context)
{
    struct chat_stream *s = context;
    char id[OPENAI_ID_SIZE];
    openai_id(id, "chatcmpl-", s->stream.r);
    openai_head(&s->head, id, "chat.completion.chunk", s->stream.r);
    answer_stream_begin(&s->stream);
    for (int i = 0; i < s->stream.x->n; i++) {
        begin_chunk(s, i);
        buf_puts(&s->stream.line, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
        end_chunk(s, i, NULL);
    }
}

/* The usage chunk, or the error; then [DONE]. */
static void end(void *context, const struct err *broken)
{
    struct chat_stream *s = context;
    if (broken) {
        buf_clear(&s->stream.line);
        reply_error_object(&s->stream.line, s->stream.r, broken);
        answer_stream_event(&s->stream, NULL);
    } else if (s->c->streaming.include_usage) {
        openai_usage_chunk(&s->stream.line, &s->head, s->stream.x, reasoning_tokens(s));
        answer_stream_event(&s->stream, NULL);
    }
    sse_event(&s->stream.sse, NULL, "[DONE]", 6);
    sse_flush(&s->stream.sse);
}

struct answer_view chat_stream_view(struct chat_stream *s, struct request *r,
                                    const struct chat_request *c, const struct inference *x)
{
    *s = (struct chat_stream){.stream = {.r = r, .x = x}, .c = c};
    return (struct answer_view){
        .listener = {.context = s,
                     .tokens = take_tokens,
                     .delta = take_delta,
                     .progress = take_progress,
                     .done = take_done,
                     .pause = answer_stream_pause,
                     .idle_ms = answer_stream_idle_ms,
                     .idle = keep_alive},
        .begin = begin,
        .end = end,
    };
}

void chat_stream_fini(struct chat_stream *s)
{
    answer_stream_fini(&s->stream);
    buf_fini(&s->head);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++)
        buf_fini(&s->logprobs[i]);
}
