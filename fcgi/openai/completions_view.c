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

/* Its text and where it begins. */
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

static void note_token(struct completions_logprobs *l, const struct vocab *v, const struct engine_token *t, int n_top)
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
    buf_printf(b, "{\"tokens\":[%s],\"token_logprobs\":[%s],\"top_logprobs\":[%s],\"text_offset\":[%s]}",
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
        note_token(&v->logprobs[choice], v->r->worker->text->vocab, &ev->tokens[i], v->c->logprobs);
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
    const struct vocab *vocab = v->r->worker->text->vocab;
    for (int i = 0; i < ev->n_tokens; i++) {
        if (echoes_scores(v->c))
            note_token(&v->logprobs[choice], vocab, &ev->tokens[i], v->c->logprobs);
        if (v->c->prompt_logprobs >= 0)
            openai_prompt_logprob(&v->scores[choice], vocab, &ev->tokens[i], v->c->prompt_logprobs);
    }
    if (v->c->streaming.stream && echoes_scores(v->c) && (size_t)(ev->done + ev->n_tokens) == prompt_of(v, choice)->n)
        send_echo(v, choice);
}

static void put_usage_so_far(struct completions_view *v)
{
    const struct stream_options *o = &v->c->streaming;
    if (o->continuous_usage) {
        struct engine_usage usage = inference_usage_so_far(v->x);
        buf_puts(&v->line, ",\"usage\":");
        openai_usage(&v->line, &usage, -1);
    } else if (o->include_usage) {
        buf_puts(&v->line, ",\"usage\":null");
    }
}

static void send_chunk(struct completions_view *v, int choice, const char *text, size_t len, const char *finish)
{
    buf_clear(&v->line);
    buf_append(&v->line, v->head.data, v->head.len);
    buf_printf(&v->line, ",\"choices\":[{\"index\":%d,\"text\":", choice);
    buf_json_string(&v->line, text, len);
    buf_puts(&v->line, ",\"logprobs\":");
    put_logprobs(&v->line, &v->logprobs[choice]);
    buf_puts(&v->line, ",\"finish_reason\":");
    if (finish)
        buf_printf(&v->line, "\"%s\"", finish);
    else
        buf_puts(&v->line, "null");
    buf_puts(&v->line, "}]");
    put_usage_so_far(v);
    if (!v->begun)
        ignored_write(&v->line, v->r);
    v->begun = true;
    buf_putc(&v->line, '}');
    if (v->line.failed)
        v->sse.out.failed = true;
    else
        sse_event(&v->sse, NULL, v->line.data, v->line.len);
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
    send_chunk(v, choice, "", 0, generation_finish_reason(&v->x->generations[choice]));
}

static void pause_stream(void *context)
{
    sse_flush(&((struct completions_view *)context)->sse);
}

static int idle_ms(void *context)
{
    return sse_idle_ms(&((struct completions_view *)context)->sse);
}

static void keep_alive(void *context)
{
    struct completions_view *v = context;
    const struct generation *g = &v->x->generations[0];
    sse_comment(&v->sse, g->state == GENERATION_PREFILL ? "prefill %d/%d" : "keepalive", g->done, g->total);
}

struct inference_listener completions_listener(struct completions_view *v, struct request *r,
                                               const struct completions_request *c, const struct inference *x)
{
    *v = (struct completions_view){.r = r, .c = c, .x = x};
    for (int i = 0; i < c->n_prompts * c->n; i++) {
        const struct buf *echo = &c->echoes[i / c->n];
        if (echoes_scores(c))
            note_first(&v->logprobs[i], r->worker->text->vocab, prompt_of(v, i)->at[0]);
        else
            v->logprobs[i].offset = echo->len ? count_characters(echo->data, echo->len) : 0;
    }
    if (!c->streaming.stream)
        return (struct inference_listener){.context = v, .tokens = take_tokens, .scores = take_scores};
    return (struct inference_listener){.context = v, .tokens = take_tokens, .scores = take_scores, .delta = take_delta, .done = take_done,
                                       .pause = pause_stream, .idle_ms = idle_ms, .idle = keep_alive};
}

void completions_reply(struct completions_view *v)
{
    struct buf b = {0}, text = {0};
    char id[OPENAI_ID_SIZE];
    struct engine_usage usage = inference_usage(v->x);
    openai_id(id, "cmpl-", v->r);
    openai_head(&b, id, "text_completion", v->r);
    buf_puts(&b, ",\"choices\":[");
    for (int i = 0; i < v->x->n; i++) {
        const struct generation *g = &v->x->generations[i];
        const struct buf *echo = &v->c->echoes[i / v->c->n];
        buf_clear(&text);
        buf_append(&text, echo->data, echo->len);
        buf_append(&text, g->content.data, g->content.len);
        buf_printf(&b, "%s{\"index\":%d,\"text\":", i ? "," : "", i);
        buf_json_string(&b, text.data ? text.data : "", text.len);
        buf_puts(&b, ",\"logprobs\":");
        put_logprobs(&b, &v->logprobs[i]);
        if (v->c->prompt_logprobs >= 0)
            buf_printf(&b, ",\"prompt_logprobs\":[null%s]", v->scores[i].len ? v->scores[i].data : "");
        buf_printf(&b, ",\"finish_reason\":\"%s\"}", generation_finish_reason(g));
        b.failed |= g->content.failed || text.failed || v->scores[i].failed;
    }
    buf_puts(&b, "],\"usage\":");
    openai_usage(&b, &usage, -1);
    buf_puts(&b, ",\"timings\":");
    openai_timings(&b, &usage);
    ignored_write(&b, v->r);
    buf_putc(&b, '}');
    reply_json_buf(v->r, 200, &b);
    buf_fini(&text);
    buf_fini(&b);
}

void completions_stream_begin(struct completions_view *v)
{
    char id[OPENAI_ID_SIZE];
    openai_id(id, "cmpl-", v->r);
    openai_head(&v->head, id, "text_completion", v->r);
    sse_start(&v->sse, v->r);
    sse_enable_abort(&v->sse);
    for (int i = 0; v->c->echo && i < v->x->n; i++)
        if (!echoes_scores(v->c) || prompt_of(v, i)->n == 1) /* else it comes with the prompt's scores */
            send_echo(v, i);
    sse_flush(&v->sse);
}

void completions_stream_end(struct completions_view *v, const struct err *broken)
{
    struct engine_usage usage = inference_usage(v->x);
    buf_clear(&v->line);
    if (broken) {
        reply_error_object(&v->line, v->r, broken);
    } else if (v->c->streaming.include_usage) {
        buf_append(&v->line, v->head.data, v->head.len);
        buf_puts(&v->line, ",\"choices\":[],\"usage\":");
        openai_usage(&v->line, &usage, -1);
        buf_puts(&v->line, ",\"timings\":");
        openai_timings(&v->line, &usage);
        buf_putc(&v->line, '}');
    }
    if (v->line.len)
        sse_event(&v->sse, NULL, v->line.data, v->line.len);
    sse_event(&v->sse, NULL, "[DONE]", 6);
    sse_flush(&v->sse);
}

void completions_view_fini(struct completions_view *v)
{
    sse_end(&v->sse);
    buf_fini(&v->head);
    buf_fini(&v->line);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++) {
        buf_fini(&v->logprobs[i].tokens);
        buf_fini(&v->logprobs[i].logprobs);
        buf_fini(&v->logprobs[i].top);
        buf_fini(&v->logprobs[i].offsets);
        buf_fini(&v->scores[i]);
    }
}
