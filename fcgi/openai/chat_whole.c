/* chat_reply.h: the whole answer as one object. */
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_reply.h"
#include "fcgi/process/worker.h"

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct chat_whole *w = context;
    if (w->c->top_logprobs >= 0)
        openai_event_logprobs(&w->logprobs[choice], w->r, ev);
}

static void put_text(struct buf *b, const struct buf *text)
{
    buf_json_string(b, text->data ? text->data : "", text->len);
}

static void put_calls(struct buf *b, const struct generation *g)
{
    buf_puts(b, ",\"tool_calls\":[");
    for (int i = 0; i < g->n_calls; i++) {
        const struct generation_call *call = g->calls[i];
        buf_printf(b,
                   "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", i ? "," : "",
                   call->id);
        put_text(b, &call->name);
        buf_puts(b, ",\"arguments\":");
        put_text(b, &call->arguments);
        buf_puts(b, "}}");
    }
    buf_putc(b, ']');
}

static void put_choice(struct buf *b, const struct chat_whole *w, const struct generation *g, int i)
{
    const struct buf *items = &w->logprobs[i];
    buf_printf(b, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i ? "," : "",
               i);
    if (g->n_calls && !g->content.len)
        buf_puts(b, "null");
    else
        put_text(b, &g->content);
    buf_puts(b, ",\"refusal\":null");
    if (g->reasoning.len) {
        buf_puts(b, ",\"reasoning_content\":");
        put_text(b, &g->reasoning);
    }
    if (g->n_calls)
        put_calls(b, g);
    buf_puts(b, "},\"logprobs\":");
    if (w->c->top_logprobs >= 0)
        buf_printf(b, "{\"content\":[%s],\"refusal\":null}", items->len ? items->data : "");
    else
        buf_puts(b, "null");
    buf_printf(b, ",\"finish_reason\":\"%s\"}", generation_finish_reason(g));
    if (items->failed || g->content.failed || g->reasoning.failed)
        b->failed = true;
}

/* All choices have the same prompt. */
static void take_scores(void *context, int choice, const struct engine_event *ev)
{
    struct chat_whole *w = context;
    for (int i = 0; choice == 0 && i < ev->n_tokens; i++)
        openai_prompt_logprob(&w->scores, w->r->worker->text->vocab, &ev->tokens[i],
                              w->c->prompt_logprobs);
}

static void send_reply(void *context, const struct err *broken)
{
    struct chat_whole *w = context;
    const struct inference *x = w->x;
    (void)broken;
    struct buf b = {0};
    char id[OPENAI_ID_SIZE];
    struct engine_usage usage = inference_usage(x);
    int reasoning = 0;
    openai_id(id, "chatcmpl-", w->r);
    openai_head(&b, id, "chat.completion", w->r);
    buf_puts(&b, ",\"choices\":[");
    for (int i = 0; i < x->n; i++) {
        put_choice(&b, w, &x->generations[i], i);
        reasoning += x->generations[i].n_reasoning;
    }
    buf_puts(&b, "],\"usage\":");
    openai_usage(&b, &usage, reasoning);
    buf_puts(&b, ",\"timings\":");
    openai_timings(&b, &usage);
    if (w->c->prompt_logprobs >= 0)
        buf_printf(&b, ",\"prompt_logprobs\":[null%s]", w->scores.len ? w->scores.data : "");
    b.failed |= w->scores.failed;
    ignored_write(&b, w->r);
    buf_putc(&b, '}');
    reply_json_buf(w->r, 200, &b);
    buf_fini(&b);
}

struct answer_view chat_whole_view(struct chat_whole *w, struct request *r,
                                   const struct chat_request *c, const struct inference *x)
{
    *w = (struct chat_whole){.r = r, .c = c, .x = x};
    return (struct answer_view){
        .listener = {.context = w, .tokens = take_tokens, .scores = take_scores},
        .end = send_reply};
}

void chat_whole_fini(struct chat_whole *w)
{
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++)
        buf_fini(&w->logprobs[i]);
    buf_fini(&w->scores);
}
