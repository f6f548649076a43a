/* ollama.h: the answer, whole or by lines. Each line is an object that could stand alone: the
 * model, the time, the next piece of a message or text, and whether it was the last; the last one
 * has the figures. Lines know no comments, so that what keeps a silent connection alive is a line
 * with an empty piece. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/reduced_top_k.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"

static void put_string(struct buf *b, const char *text, size_t len)
{
    buf_json_string(b, text ? text : "", len);
}

/* {"model":..,"created_at":..  (no closing brace) */
static void put_head(struct buf *b, const struct request *r)
{
    char now[OLLAMA_TIME_BYTES];
    const char *model = model_name_of(r);
    ollama_time(now, clock_wall_ms());
    buf_puts(b, "{\"model\":");
    put_string(b, model, strlen(model));
    buf_printf(b, ",\"created_at\":\"%s\"", now);
}

/* ,"tool_calls":[..] of those that were not shown yet. */
static void put_calls(struct ollama_view *v, int until)
{
    struct buf *b = &v->stream.line;
    if (v->n_calls >= until)
        return;
    const struct generation *g = &v->stream.x->generations[0];
    buf_puts(b, ",\"tool_calls\":[");
    for (int first = v->n_calls; v->n_calls < until; v->n_calls++) {
        const struct generation_call *call = g->calls[v->n_calls];
        buf_printf(b, "%s{\"id\":\"%s\",\"function\":{\"index\":%d,\"name\":",
                   v->n_calls > first ? "," : "", call->id, v->n_calls);
        put_string(b, call->name.data, call->name.len);
        buf_puts(b, ",\"arguments\":");
        generation_put_arguments(b, call->arguments.data, call->arguments.len);
        buf_puts(b, "}}");
    }
    buf_putc(b, ']');
}

struct piece {
    const char *content, *thinking;
    size_t content_len, thinking_len;
    int n_calls; /* so many calls are shown by now */
};

/* ..., up to where `done` goes */
static void put_piece(struct ollama_view *v, const struct piece *p)
{
    struct buf *b = &v->stream.line;
    buf_clear(b);
    put_head(b, v->stream.r);
    buf_puts(b, v->o->generates ? ",\"response\":"
                                : ",\"message\":{\"role\":\"assistant\",\"content\":");
    put_string(b, p->content, p->content_len);
    if (p->thinking_len) {
        buf_puts(b, ",\"thinking\":");
        put_string(b, p->thinking, p->thinking_len);
    }
    put_calls(v, p->n_calls);
    if (!v->o->generates)
        buf_putc(b, '}');
    if (v->logprobs.len)
        buf_printf(b, ",\"logprobs\":[%s]", v->logprobs.data);
    b->failed |= v->logprobs.failed;
    buf_clear(&v->logprobs);
    answer_stream_warnings(&v->stream);
}

/* Nanoseconds. Clients divide by it: what took some time is never 0. */
static void put_duration(struct buf *b, const char *name, double ms)
{
    const double ns = ms * 1e6;
    buf_printf(b, ",\"%s\":%.0f", name, ns < 1 ? 1 : ns);
}

/* load_duration is 0: no request loads the model. */
static void put_end(struct ollama_view *v)
{
    struct buf *b = &v->stream.line;
    const struct generation *g = &v->stream.x->generations[0];
    const struct engine_usage *u = &g->usage;
    buf_printf(b, ",\"done\":true,\"done_reason\":\"%s\"",
               g->finish == ENGINE_LENGTH ? "length" : "stop");
    put_duration(b, "total_duration", (double)(clock_ns() - v->stream.r->begin_ns) / 1e6);
    buf_printf(b, ",\"load_duration\":0,\"prompt_eval_count\":%d", (int)u->prompt_tokens);
    put_duration(b, "prompt_eval_duration", u->prefill_ms);
    buf_printf(b, ",\"eval_count\":%d", (int)u->completion_tokens);
    put_duration(b, "eval_duration", u->decode_ms);
    reduced_top_k_put(b, u);
    buf_putc(b, '}');
}

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct ollama_view *v = context;
    (void)choice;
    if (v->o->chat.top_logprobs >= 0)
        openai_event_logprobs(&v->logprobs, v->stream.r, ev);
}

/* ---- whole */

static void send_reply(void *context, const struct err *broken)
{
    struct ollama_view *v = context;
    const struct generation *g = &v->stream.x->generations[0];
    (void)broken;
    put_piece(v, &(struct piece){.content = g->content.data,
                                 .content_len = g->content.len,
                                 .thinking = g->reasoning.data,
                                 .thinking_len = g->reasoning.len,
                                 .n_calls = g->n_calls});
    put_end(v);
    reply_json_buf(v->stream.r, 200, &v->stream.line);
}

/* ---- by lines */

static void send_piece(struct ollama_view *v, const struct piece *p)
{
    put_piece(v, p);
    buf_puts(&v->stream.line, ",\"done\":false}");
    answer_stream_line(&v->stream);
}

/* A call comes when it is whole, since its arguments are an object. */
static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    struct ollama_view *v = context;
    struct piece p = {.n_calls = v->n_calls};
    (void)choice;
    if (d->type == CHAT_REASONING)
        p = (struct piece){.thinking = d->text, .thinking_len = d->len, .n_calls = v->n_calls};
    else if (d->type == CHAT_CONTENT)
        p = (struct piece){.content = d->text, .content_len = d->len, .n_calls = v->n_calls};
    else if (d->type == CHAT_CALL_END)
        p.n_calls = d->index + 1;
    if (p.thinking_len || p.content_len || p.n_calls > v->n_calls)
        send_piece(v, &p);
}

static void keep_alive(void *context)
{
    struct ollama_view *v = context;
    send_piece(v, &(struct piece){.n_calls = v->n_calls});
}

static void begin(void *context)
{
    struct ollama_view *v = context;
    answer_stream_begin_lines(&v->stream);
}

static void end(void *context, const struct err *broken)
{
    struct ollama_view *v = context;
    if (broken) {
        buf_clear(&v->stream.line);
        ollama_error(&v->stream.line, v->stream.r, broken);
    } else {
        put_piece(
            v,
            &(struct piece){
                .n_calls = v->stream.x->generations[0].n_calls}); /* with a call that was cut off */
        put_end(v);
    }
    answer_stream_line(&v->stream);
    sse_flush(&v->stream.sse);
}

struct answer_view ollama_view(struct ollama_view *v, struct request *r,
                               const struct ollama_request *o, const struct inference *x)
{
    *v = (struct ollama_view){.stream = {.r = r, .x = x}, .o = o};
    if (!o->chat.streaming.stream)
        return (struct answer_view){.listener = {.context = v, .tokens = take_tokens},
                                    .end = send_reply};
    return (struct answer_view){
        .listener = {.context = v,
                     .tokens = take_tokens,
                     .delta = take_delta,
                     .pause = answer_stream_pause,
                     .idle_ms = answer_stream_idle_ms,
                     .idle = keep_alive},
        .begin = begin,
        .end = end,
    };
}

void ollama_view_fini(struct ollama_view *v)
{
    answer_stream_fini(&v->stream);
    buf_fini(&v->logprobs);
}

bool ollama_say_loaded(struct request *r, const struct ollama_request *o)
{
    struct ollama_view v = {.stream = {.r = r}, .o = o};
    put_piece(&v, &(struct piece){0});
    buf_puts(&v.stream.line, ",\"done\":true,\"done_reason\":\"load\"}");
    if (o->chat.streaming.stream)
        buf_putc(&v.stream.line, '\n');
    if (v.stream.line.failed)
        reply_json_buf(r, 200, &v.stream.line);
    else
        reply_bytes(r, 200, o->chat.streaming.stream ? SSE_LINES_TYPE : "application/json",
                    v.stream.line.data, v.stream.line.len);
    ollama_view_fini(&v);
    return true;
}
