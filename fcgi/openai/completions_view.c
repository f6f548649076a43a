/* completions.h: the answer, whole or streamed. */
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/completions.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"

static size_t count_characters(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (s[i] & 0xC0) != 0x80;
    return n;
}

static void put_token(struct buf *b, const struct vocab *v, int32_t id)
{
    size_t len = 0;
    const char *bytes = vocab_bytes(v, id, &len);
    buf_json_string(b, bytes ? bytes : "", len);
}

/* Each token's text and the offset at which it begins. */
static const char *note_place(struct completions_logprobs *l, const struct vocab *v, int32_t id)
{
    size_t len = 0;
    const char *comma = l->tokens.len ? "," : "", *bytes = vocab_bytes(v, id, &len);
    buf_puts(&l->tokens, comma);
    put_token(&l->tokens, v, id);
    buf_printf(&l->offsets, "%s%zu", comma, l->offset);
    l->offset += bytes ? count_characters(bytes, len) : 0;
    return comma;
}

/* A prompt's first token: nothing stands before it that would foretell it. */
static void note_first(struct completions_logprobs *l, const struct vocab *v, int32_t id)
{
    note_place(l, v, id);
    buf_puts(&l->logprobs, "null");
    buf_puts(&l->top, "null");
}

static void note_token(struct completions_logprobs *l, const struct vocab *v,
                       const struct engine_token *t, int n_top)
{
    const char *comma = note_place(l, v, t->id);
    buf_puts(&l->logprobs, comma);
    openai_logprob(&l->logprobs, t->logprob);
    buf_printf(&l->top, "%s{", comma);
    for (int k = 0; k < t->n_top && k < n_top; k++) {
        if (k)
            buf_putc(&l->top, ',');
        put_token(&l->top, v, t->top[k].id);
        buf_putc(&l->top, ':');
        openai_logprob(&l->top, t->top[k].logprob);
    }
    buf_putc(&l->top, '}');
}

static void put_logprobs(struct buf *b, struct completions_logprobs *l)
{
    if (!l->tokens.len) {
        buf_puts(b, "null");
        return;
    }
    buf_printf(
        b, "{\"tokens\":[%s],\"token_logprobs\":[%s],\"top_logprobs\":[%s],\"text_offset\":[%s]}",
        l->tokens.data, l->logprobs.data, l->top.data, l->offsets.data);
    b->failed |= l->tokens.failed || l->logprobs.failed || l->top.failed || l->offsets.failed;
    buf_clear(&l->tokens);
    buf_clear(&l->logprobs);
    buf_clear(&l->top);
    buf_clear(&l->offsets);
}

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct completions_view *v = context;
    for (int i = 0; v->c->logprobs >= 0 && i < ev->n_tokens; i++)
        note_token(&v->logprobs[choice], v->stream.r->worker->text->vocab, &ev->tokens[i],
                   v->c->logprobs);
}

static bool echoes_scores(const struct completions_request *c)
{
    return c->echo && c->logprobs >= 0;
}

static const struct ids *prompt_of(const struct completions_view *v, int choice)
{
    return &v->c->prompts[choice / v->c->n];
}

static void send_echo(struct completions_view *v, int choice);

static void take_scores(void *context, int choice, const struct engine_event *ev)
{
    struct completions_view *v = context;
    const struct vocab *vocab = v->stream.r->worker->text->vocab;
    for (int i = 0; i < ev->n_tokens; i++) {
        if (echoes_scores(v->c))
            note_token(&v->logprobs[choice], vocab, &ev->tokens[i], v->c->logprobs);
        if (v->c->prompt_logprobs >= 0)
            openai_prompt_logprob(&v->scores[choice], vocab, &ev->tokens[i], v->c->prompt_logprobs);
    }
    if (v->c->streaming.stream && echoes_scores(v->c) &&
        (size_t)(ev->done + ev->n_tokens) == prompt_of(v, choice)->n)
        send_echo(v, choice);
}

static void send_chunk(struct completions_view *v, int choice, const char *text, size_t len,
                       const char *finish)
{
    buf_clear(&v->stream.line);
    buf_append(&v->stream.line, v->head.data, v->head.len);
    buf_printf(&v->stream.line, ",\"choices\":[{\"index\":%d,\"text\":", choice);
    buf_json_string(&v->stream.line, text, len);
    buf_puts(&v->stream.line, ",\"logprobs\":");
    put_logprobs(&v->stream.line, &v->logprobs[choice]);
    buf_puts(&v->stream.line, ",\"finish_reason\":");
    if (finish)
        buf_printf(&v->stream.line, "\"%s\"", finish);
    else
        buf_puts(&v->stream.line, "null");
    buf_puts(&v->stream.line, "}]");
    openai_usage_so_far(&v->stream.line, &v->c->streaming, v->stream.x, -1);
    answer_stream_warnings(&v->stream);
    buf_putc(&v->stream.line, '}');
    answer_stream_event(&v->stream, NULL);
}

static void send_echo(struct completions_view *v, int choice)
{
    const struct buf *echo = &v->c->echoes[choice / v->c->n];
    send_chunk(v, choice, echo->data ? echo->data : "", echo->len, NULL);
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    if (d->len)
        send_chunk(context, choice, d->text, d->len, NULL);
}

static void take_done(void *context, int choice)
{
    struct completions_view *v = context;
    send_chunk(v, choice, "", 0, generation_finish_reason(&v->stream.x->generations[choice]));
}

static void send_reply(void *context, const struct err *broken)
{
    struct completions_view *v = context;
    (void)broken;
    struct buf b = {0}, text = {0};
    char id[OPENAI_ID_SIZE];
    struct engine_usage usage = inference_usage(v->stream.x);
    openai_id(id, "cmpl-", v->stream.r);
    openai_head(&b, id, "text_completion", v->stream.r);
    buf_puts(&b, ",\"choices\":[");
    for (int i = 0; i < v->stream.x->n; i++) {
        const struct generation *g = &v->stream.x->generations[i];
        const struct buf *echo = &v->c->echoes[i / v->c->n];
        buf_clear(&text);
        buf_append(&text, echo->data, echo->len);
        buf_append(&text, g->content.data, g->content.len);
        buf_printf(&b, "%s{\"index\":%d,\"text\":", i ? "," : "", i);
        buf_json_string(&b, text.data ? text.data : "", text.len);
        buf_puts(&b, ",\"logprobs\":");
        put_logprobs(&b, &v->logprobs[i]);
        if (v->c->prompt_logprobs >= 0)
            buf_printf(&b, ",\"prompt_logprobs\":[null%s]",
                       v->scores[i].len ? v->scores[i].data : "");
        buf_printf(&b, ",\"finish_reason\":\"%s\"}", generation_finish_reason(g));
        b.failed |= g->content.failed || text.failed || v->scores[i].failed;
    }
    buf_puts(&b, "],\"usage\":");
    openai_usage(&b, &usage, -1);
    buf_puts(&b, ",\"timings\":");
    openai_timings(&b, &usage);
    ignored_write(&b, v->stream.r);
    buf_putc(&b, '}');
    reply_json_buf(v->stream.r, 200, &b);
    buf_fini(&text);
    buf_fini(&b);
}

static void begin(void *context)
{
    struct completions_view *v = context;
    char id[OPENAI_ID_SIZE];
    openai_id(id, "cmpl-", v->stream.r);
    openai_head(&v->head, id, "text_completion", v->stream.r);
    answer_stream_begin(&v->stream);
    for (int i = 0; v->c->echo && i < v->stream.x->n; i++)
        if (!echoes_scores(v->c) ||
            prompt_of(v, i)->n == 1) /* else it comes with the prompt's scores */
            send_echo(v, i);
}

static void end(void *context, const struct err *broken)
{
    struct completions_view *v = context;
    buf_clear(&v->stream.line);
    if (broken)
        reply_error_object(&v->stream.line, v->stream.r, broken);
    else if (v->c->streaming.include_usage)
        openai_usage_chunk(&v->stream.line, &v->head, v->stream.x, -1);
    if (v->stream.line.len)
        answer_stream_event(&v->stream, NULL);
    sse_event(&v->stream.sse, NULL, "[DONE]", 6);
    sse_flush(&v->stream.sse);
}

struct answer_view completions_view(struct completions_view *v, struct request *r,
                                    const struct completions_request *c, const struct inference *x)
{
    *v = (struct completions_view){.stream = {.r = r, .x = x}, .c = c};
    for (int i = 0; i < c->n_prompts * c->n; i++) {
        const struct buf *echo = &c->echoes[i / c->n];
        if (echoes_scores(c))
            note_first(&v->logprobs[i], r->worker->text->vocab, prompt_of(v, i)->at[0]);
        else
            v->logprobs[i].offset = echo->len ? count_characters(echo->data, echo->len) : 0;
    }
    if (!c->streaming.stream)
        return (struct answer_view){
            .listener = {.context = v, .tokens = take_tokens, .scores = take_scores},
            .end = send_reply};
    return (struct answer_view){
        .listener = {.context = v,
                     .tokens = take_tokens,
                     .scores = take_scores,
                     .delta = take_delta,
                     .done = take_done,
                     .pause = answer_stream_pause,
                     .idle_ms = answer_stream_idle_ms,
                     .idle = answer_stream_keep_alive},
        .begin = begin,
        .end = end,
    };
}

void completions_view_fini(struct completions_view *v)
{
    answer_stream_fini(&v->stream);
    buf_fini(&v->head);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++) {
        buf_fini(&v->logprobs[i].tokens);
        buf_fini(&v->logprobs[i].logprobs);
        buf_fini(&v->logprobs[i].top);
        buf_fini(&v->logprobs[i].offsets);
        buf_fini(&v->scores[i]);
    }
}
