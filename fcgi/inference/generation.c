/* generation.h: the chat parser between the engine's events and whoever wants the answer. */
#include "fcgi/inference/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/http/relay_error.h"

static struct generation_call *add_call(struct generation *g)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned char random[24] = {0};
    if (g->n_calls == GENERATION_MAX_CALLS ||
        getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return NULL;
    struct generation_call *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    memcpy(c->id, "call_", 5);
    for (size_t i = 0; i < sizeof random; i++)
        c->id[5 + i] = letters[random[i] % 62];
    g->calls[g->n_calls++] = c;
    return c;
}

/* Keeps the sums, then tells the listener: it can look at the state that the delta made. */
static void take_delta(void *context, const struct chat_delta *d)
{
    struct generation *g = context;
    struct generation_call *call = NULL;
    if (d->type == CHAT_REASONING) {
        g->reasons = true;
        buf_append(&g->reasoning, d->text, d->len);
    } else {
        g->reasons = false;
    }
    if (d->type == CHAT_CONTENT)
        buf_append(&g->content, d->text, d->len);
    if (d->type == CHAT_CALL && d->index == g->n_calls) {
        call = add_call(g);
        if (call)
            buf_puts(&call->name, d->name);
    } else if (d->type == CHAT_CALL || d->type == CHAT_ARGUMENTS || d->type == CHAT_CALL_END) {
        call = d->index >= 0 && d->index < g->n_calls ? g->calls[d->index] : NULL;
    }
    if (d->type >= CHAT_CALL &&
        !call) { /* over the limit, or no memory: the answer would have a hole */
        g->content.failed = true;
        return;
    }
    if (d->type == CHAT_ARGUMENTS)
        buf_append(&call->arguments, d->text, d->len);
    else if (d->type == CHAT_CALL_END)
        call->whole = true;
    if (g->on_delta)
        g->on_delta(g->context, g, d);
}

bool generation_init(struct generation *g, const struct generation_params *p, struct err *e)
{
    *g = (struct generation){
        .on_delta = p->on_delta, .context = p->context, .reasons = p->opens_reasoning};
    if (!p->format)
        return true;
    g->parser =
        chat_parser_create(&(struct chat_parser_params){.format = p->format,
                                                        .opens_reasoning = p->opens_reasoning,
                                                        .tools = p->tools,
                                                        .stream_calls = p->stream_calls,
                                                        .on_delta = take_delta,
                                                        .context = g},
                           e);
    return g->parser != NULL;
}

static bool push_text(struct generation *g, const char *text, size_t len, struct err *e)
{
    if (!len)
        return true;
    if (g->parser)
        return chat_parser_push(g->parser, text, len, e);
    take_delta(g, &(struct chat_delta){.type = CHAT_CONTENT, .text = text, .len = len});
    return true;
}

static bool take_tokens(struct generation *g, const struct engine_event *ev, struct err *e)
{
    if (ev->n_tokens) {
        g->decode_ms = ev->decode_ms;
        g->last_ms = clock_ms();
        if (!g->n_tokens)
            g->first_ms = g->last_ms;
    }
    g->state = GENERATION_RUNNING;
    g->n_tokens += ev->n_tokens;
    bool reasoned = g->reasons;
    bool ok = push_text(g, ev->text, ev->text_len, e);
    if (reasoned || g->reasons) {
        g->n_reasoning += ev->n_tokens;
        g->reasoning_ms = g->reasoning.len ? g->decode_ms : 0;
    }
    return ok;
}

bool generation_resume(struct generation *g, const char *text, size_t len, struct err *e)
{
    return push_text(g, text, len, e) && ((!g->content.failed && !g->reasoning.failed) ||
                                          err_set(e, ERR_NOMEM, "no memory for the answer"));
}

static bool finish(struct generation *g, struct err *e)
{
    return !g->parser || chat_parser_finish(g->parser, e);
}

bool generation_event(struct generation *g, const struct engine_event *ev, struct err *e)
{
    bool ok = true;
    switch (ev->type) {
    case ENGINE_ACCEPTED:
        g->queue_position = ev->queue_position;
        break;
    case ENGINE_PROGRESS:
        g->state = GENERATION_PREFILL;
        g->done = ev->done;
        g->total = ev->total;
        g->cached = ev->cached;
        break;
    case ENGINE_PROMPT_SCORES:
    case ENGINE_VECTORS: /* of other jobs */
        break;
    case ENGINE_TOKENS:
        ok = take_tokens(g, ev, e);
        break;
    case ENGINE_DONE:
        ok = finish(g, e);
        g->finish = ev->finish;
        if (ev->stop_string)
            buf_puts(&g->stop_string, ev->stop_string);
        g->usage = ev->usage;
        g->state = GENERATION_DONE;
        break;
    case ENGINE_FAILED:
        ok = finish(g, e);
        g->error = ev->error;
        relay_error_read(&g->error);
        g->state = GENERATION_FAILED;
        break;
    }
    if (g->content.failed || g->reasoning.failed)
        return err_set(e, ERR_NOMEM, "no memory for the answer");
    return ok;
}

void generation_break(struct generation *g, const struct err *why)
{
    if (g->state >= GENERATION_DONE)
        return;
    finish(g, NULL);
    g->error = *why;
    g->state = GENERATION_FAILED;
}

void generation_fini(struct generation *g)
{
    chat_parser_destroy(&g->parser);
    buf_fini(&g->reasoning);
    buf_fini(&g->content);
    buf_fini(&g->stop_string);
    for (int i = 0; i < g->n_calls; i++) {
        buf_fini(&g->calls[i]->name);
        buf_fini(&g->calls[i]->arguments);
        free(g->calls[i]);
    }
    g->n_calls = 0;
}

bool generation_was_asked(const struct generation *g)
{
    static const char *const unasked[] = {"upstream_queue", "upstream_down", "upstream_none"};
    for (size_t i = 0; g->state == GENERATION_FAILED && i < sizeof unasked / sizeof *unasked; i++)
        if (!g->n_tokens && !strcmp(g->error.reason, unasked[i]))
            return false;
    return true;
}

int64_t generation_spent(const struct generation *g)
{
    if (!g->prompt_estimate || g->state != GENERATION_DONE)
        return g->n_tokens;
    return (int64_t)g->usage.completion_tokens + g->usage.prompt_tokens - g->prompt_estimate;
}

double generation_rate(const struct generation *g)
{
    return g->n_tokens > 1 && g->decode_ms > 0 ? (g->n_tokens - 1) * 1000.0 / g->decode_ms : 0;
}

const char *generation_finish_reason(const struct generation *g)
{
    if (g->state != GENERATION_DONE)
        return NULL;
    if (g->finish == ENGINE_LENGTH)
        return "length";
    return g->n_calls ? "tool_calls" : "stop";
}

void generation_put_arguments(struct buf *out, const char *text, size_t len)
{
    const struct json_limits limits = {.max_depth = 128, .allow_duplicates = true};
    cJSON *v = json_parse(text ? text : "", len, &limits, NULL);
    if (cJSON_IsObject(v)) {
        json_write(out, v);
    } else {
        buf_puts(out, "{\"INVALID_JSON\":");
        buf_json_string(out, text ? text : "", len);
        buf_putc(out, '}');
    }
    cJSON_Delete(v);
}

cJSON *generation_calls_json(const struct generation *g)
{
    if (!g->n_calls)
        return NULL;
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < g->n_calls; i++) {
        const struct generation_call *c = g->calls[i];
        cJSON *call = cJSON_CreateObject(), *function;
        cJSON_AddItemToArray(list, call);
        cJSON_AddStringToObject(call, "id", c->id);
        cJSON_AddStringToObject(call, "type", "function");
        function = cJSON_AddObjectToObject(call, "function");
        cJSON_AddStringToObject(function, "name", c->name.data ? c->name.data : "");
        cJSON_AddStringToObject(function, "arguments", c->arguments.data ? c->arguments.data : "");
    }
    return list;
}
