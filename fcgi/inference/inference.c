/* inference.h: one loop waits for whichever job has an event and hands it to the job's generation.
 */
#include "fcgi/inference/inference.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/http/relay_error.h"
#include "fcgi/inference/speculation_usage.h"
#include "fcgi/inference/usage.h"
#include "fcgi/inference/watch.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

static void take_delta(void *context, const struct generation *g, const struct chat_delta *d)
{
    struct inference_choice *c = context;
    struct inference *x = c->x;
    (void)g;
    if (c->cut)
        return;
    if (x->listener.delta)
        x->listener.delta(x->listener.context, c->index, d);
    if (x->one_call && d->type == CHAT_CALL_END) {
        c->cut = true;
        engine_cancel(x->jobs[c->index], NULL);
    }
}

static bool submit(struct inference *x, const struct inference_params *p, int i, struct err *e)
{
    struct generation_params gp = p->generation;
    struct engine_job_params job = p->job;
    x->choices[i] = (struct inference_choice){.x = x, .index = i};
    gp.on_delta = take_delta;
    gp.context = &x->choices[i];
    job.sampling.seed += (uint64_t)i;
    if (p->prompts) {
        job.prompt = p->prompts[i / p->per_prompt].at;
        job.n_prompt = (int32_t)p->prompts[i / p->per_prompt].n;
    }
    x->n_prompt[i] = job.n_prompt;
    if (!generation_init(&x->generations[i], &gp, e))
        return false;
    uint64_t began = clock_ns();
    x->jobs[i] = x->relayed
                     ? engine_relay(x->r->worker->relay_socket, &p->relay, &x->r->relay_kept, e)
                     : model_gate_submit(x->r, &job, e);
    x->r->engine_ns += clock_ns() - began;
    if (!x->jobs[i])
        return false;
    x->n_running++;
    return true;
}

/* Each prompt once. */
static int64_t count_prompts(const struct inference_params *p)
{
    int64_t sum = 0;
    if (!p->prompts)
        return p->job.n_prompt;
    for (int i = 0; i < p->n; i += p->per_prompt)
        sum += (int64_t)p->prompts[i / p->per_prompt].n;
    return sum;
}

/* Clients look for the words of OpenAI and Anthropic before they compact a conversation: both need
 * the two numbers. */
static void explain_limit(struct request *r, int32_t prompt_tokens, struct err *e)
{
    struct status_page page;
    r->error_override.code = "context_length_exceeded";
    engine_status_read(r, &page);
    if (page.n_ctx <= 0 || prompt_tokens < page.n_ctx)
        return; /* the engine's own words say what was too long */
    r->error_override.prompt_tokens = prompt_tokens;
    r->error_override.context_tokens = page.n_ctx;
    snprintf(e->text, sizeof e->text,
             "This model's maximum context length is %d tokens. However, your messages resulted in "
             "%d tokens. "
             "Please reduce the length of the messages.",
             (int)page.n_ctx, (int)prompt_tokens);
}

bool inference_start(struct inference *x, struct request *r, const struct inference_params *p,
                     struct err *e)
{
    *x = (struct inference){.r = r,
                            .listener = p->listener,
                            .one_call = p->one_call,
                            .relayed = p->relay.request != NULL,
                            .per_prompt = p->prompts ? p->per_prompt : p->n};
    x->generations = arena_alloc(r->arena, (size_t)p->n * sizeof *x->generations);
    if (!x->generations)
        return err_set(e, ERR_NOMEM, "no memory for %d answers", p->n);
    x->n = p->n;
    int64_t prompt_tokens = count_prompts(p);
    if (!limits_enter(r, prompt_tokens, p->aside ? 0 : p->n, e))
        return false;
    for (int i = 0; i < p->n; i++)
        if (!submit(x, p, i, e)) {
            limits_spend(r, -prompt_tokens); /* nothing of it was read */
            if (x->relayed)
                relay_error_explain(r, e);
            else if (e->code == ERR_LIMIT)
                explain_limit(r, x->n_prompt[i], e);
            else if (e->code == ERR_BUSY)
                model_gate_explain_busy(r, e);
            return false;
        }
    r->job = engine_job_id(x->jobs[0]);
    x->started = true;
    usage_track(x);
    return true;
}

/* An upstream tells at the end what was an estimate until then. */
static void settle(struct inference *x, int i)
{
    const struct generation *g = &x->generations[i];
    int64_t more = g->usage.completion_tokens - g->n_tokens;
    if (i % x->per_prompt == 0)
        more += g->usage.prompt_tokens - x->n_prompt[i];
    limits_spend(x->r, more);
}

static bool take_event(struct inference *x, int i, struct engine_event *ev, struct err *e)
{
    struct generation *g = &x->generations[i];
    const struct inference_listener *l = &x->listener;
    if (ev->type == ENGINE_TOKENS && l->tokens && !x->choices[i].cut)
        l->tokens(l->context, i, ev);
    if (ev->type == ENGINE_PROMPT_SCORES && l->scores)
        l->scores(l->context, i, ev);
    if (!generation_event(g, ev, e))
        return false;
    if (ev->type == ENGINE_TOKENS)
        limits_spend(x->r, ev->n_tokens);
    if (ev->type == ENGINE_PROGRESS && l->progress)
        l->progress(l->context, i);
    if (ev->type == ENGINE_FAILED) {
        *e = g->error;
        if (x->relayed)
            relay_error_explain(x->r, e);
        return false;
    }
    if (ev->type == ENGINE_DONE) {
        engine_close(&x->jobs[i]);
        x->n_running--;
        if (x->relayed)
            settle(x, i);
        if (l->done)
            l->done(l->context, i);
    }
    return true;
}

/* All events of one job that one read brought: the next wait reports what came meanwhile. */
static bool drain(struct inference *x, int i, struct err *e)
{
    struct engine_event ev;
    do {
        int n = engine_next(x->jobs[i], &ev, 0, e);
        if (n == 0)
            return true;
        if (n < 0) {
            atomic_fetch_add_explicit(&x->r->worker->shared->engine_lost, 1, memory_order_relaxed);
            generation_break(&x->generations[i], e); /* gives out what was held back */
            return false;
        }
        if (!take_event(x, i, &ev, e))
            return false;
    } while (x->jobs[i] && engine_pending(x->jobs[i]));
    return true;
}

static bool any_pending(const struct inference *x)
{
    for (int i = 0; i < x->n; i++)
        if (x->jobs[i] && engine_pending(x->jobs[i]))
            return true;
    return false;
}

bool inference_run(struct inference *x, struct err *e)
{
    const struct inference_listener *l = &x->listener;
    if (l->pause && !any_pending(x))
        l->pause(l->context); /* a stream's beginning waits for nothing */
    while (x->n_running) {
        int which = 0, timeout = l->idle_ms ? l->idle_ms(l->context) : -1;
        switch (watch_jobs(x->r, x->jobs, x->n, timeout, &which)) {
        case WATCH_EVENT:
            if (!drain(x, which, e))
                return false;
            usage_track(x);
            break;
        case WATCH_TIMEOUT:
            if (l->idle && l->idle_ms(l->context) == 0)
                l->idle(l->context);
            break;
        case WATCH_GONE:
            return err_set(e, ERR_CANCELLED, "the client closed the connection");
        case WATCH_SHUTDOWN:
            return err_set(e, ERR_UNAVAILABLE, "the server is restarting") ||
                   err_reason(e, "server_restarting");
        }
        if (l->pause && x->n_running) /* what is last leaves with the answer's end */
            l->pause(l->context);
        if (x->r->client_gone)
            return err_set(e, ERR_CANCELLED, "the client closed the connection");
    }
    return true;
}

void inference_end(struct inference *x)
{
    if (x->r)
        usage_note(x);
    for (int i = 0; i < x->n; i++) {
        engine_close(&x->jobs[i]);
        generation_fini(&x->generations[i]);
    }
    x->n = 0;
    if (x->r)
        limits_leave(x->r);
}

struct engine_usage inference_usage(const struct inference *x)
{
    struct engine_usage sum = x->generations[0].usage;
    for (int i = 1; i < x->n; i++) {
        const struct engine_usage *u = &x->generations[i].usage;
        sum.completion_tokens += u->completion_tokens;
        speculation_usage_add(&sum.speculation, &u->speculation);
        if (i % x->per_prompt == 0) {
            sum.prompt_tokens += u->prompt_tokens;
            sum.cached_tokens += u->cached_tokens;
            sum.cached_from_ram += u->cached_from_ram;
            sum.cached_from_disk += u->cached_from_disk;
            sum.cache_bytes += u->cache_bytes;
            sum.cache_ms += u->cache_ms;
        }
    }
    return sum;
}

struct engine_usage inference_usage_so_far(const struct inference *x)
{
    struct engine_usage sum = {0};
    for (int i = 0; i < x->n; i++) {
        sum.completion_tokens += x->generations[i].n_tokens;
        if (i % x->per_prompt == 0) {
            sum.prompt_tokens += x->n_prompt[i];
            sum.cached_tokens += x->generations[i].cached;
        }
    }
    return sum;
}
