/* limits.h */
#include "fcgi/limits.h"

#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/shared.h"
#include "fcgi/worker.h"

static int64_t now_us(void)
{
    return clock_wall_ms() * 1000;
}

bool limits_any(const struct request *r)
{
    const struct store_key_terms *t = &r->who.terms;
    return t->requests_per_minute || t->tokens_per_minute || t->max_jobs;
}

static bool refuse(struct request *r, enum limit_kind kind, int64_t wait_us, const char *what, int64_t limit,
                   struct err *e)
{
    atomic_fetch_add_explicit(&r->worker->shared->limited[kind], 1, memory_order_relaxed);
    r->hint.status = 429;
    r->hint.code = "rate_limit_exceeded";
    r->hint.retry_after_s = (int)((wait_us + 999999) / 1000000);
    if (r->hint.retry_after_s < 1)
        r->hint.retry_after_s = 1;
    return err_set(e, ERR_BUSY, "this key may have %lld %s; try again in %d s", (long long)limit, what,
                   r->hint.retry_after_s);
}

bool limits_request(struct request *r, struct err *e)
{
    int64_t limit = r->who.terms.requests_per_minute;
    struct shared_minute m;
    if (!limit)
        return true;
    struct shared_limit *row = shared_limit_row(r->worker->shared, r->who.key_id);
    return shared_minute_take(&row->requests_full_us, limit, 1, false, now_us(), &m) ||
           refuse(r, LIMIT_REQUESTS, m.wait_us, "requests per minute", limit, e);
}

bool limits_enter(struct request *r, int64_t prompt_tokens, int jobs, struct err *e)
{
    const struct store_key_terms *t = &r->who.terms;
    struct shared *s = r->worker->shared;
    struct shared_minute m;
    if (t->max_jobs && r->slot && !shared_jobs_enter(s, r->slot, r->who.key_id, jobs, t->max_jobs))
        return refuse(r, LIMIT_JOBS, 1000000, "jobs at one time", t->max_jobs, e);
    if (!t->tokens_per_minute ||
        shared_minute_take(&shared_limit_row(s, r->who.key_id)->tokens_full_us, t->tokens_per_minute, prompt_tokens,
                           false, now_us(), &m))
        return true;
    limits_leave(r);
    return refuse(r, LIMIT_TOKENS, m.wait_us, "tokens per minute", t->tokens_per_minute, e);
}

void limits_spend(struct request *r, int64_t tokens)
{
    int64_t limit = r->who.terms.tokens_per_minute;
    struct shared_minute m;
    if (limit && tokens)
        shared_minute_take(&shared_limit_row(r->worker->shared, r->who.key_id)->tokens_full_us, limit, tokens, true,
                           now_us(), &m);
}

void limits_leave(struct request *r)
{
    if (r->slot && r->slot->ticket)
        shared_jobs_leave(r->slot);
}

/* OpenAI's way to write a time: "120ms", "1s", "6m0s". */
static void put_time(char out[32], int64_t us)
{
    int64_t ms = (us + 999) / 1000, s = (ms + 999) / 1000;
    if (ms < 1000)
        snprintf(out, 32, "%lldms", (long long)ms);
    else if (s < 60)
        snprintf(out, 32, "%llds", (long long)s);
    else
        snprintf(out, 32, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
}

static void put_headers(struct request *r, const char *unit, int64_t limit, _Atomic int64_t *full_us)
{
    struct shared_minute m;
    char name[48], value[32];
    if (!limit)
        return;
    shared_minute_take(full_us, limit, 0, true, now_us(), &m); /* nothing: only looks */
    snprintf(name, sizeof name, "x-ratelimit-limit-%s", unit);
    snprintf(value, sizeof value, "%lld", (long long)limit);
    reply_header(r, name, value);
    snprintf(name, sizeof name, "x-ratelimit-remaining-%s", unit);
    snprintf(value, sizeof value, "%lld", (long long)m.remaining);
    reply_header(r, name, value);
    snprintf(name, sizeof name, "x-ratelimit-reset-%s", unit);
    put_time(value, m.reset_us);
    reply_header(r, name, value);
}

void limits_headers(struct request *r)
{
    const struct store_key_terms *t = &r->who.terms;
    if (!t->requests_per_minute && !t->tokens_per_minute)
        return;
    struct shared_limit *row = shared_limit_row(r->worker->shared, r->who.key_id);
    put_headers(r, "requests", t->requests_per_minute, &row->requests_full_us);
    put_headers(r, "tokens", t->tokens_per_minute, &row->tokens_full_us);
}
