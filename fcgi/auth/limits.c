/* limits.h: a request meets the limits of its key and those of its user; what one refuses is given
 * back to the other. */
#include "fcgi/auth/limits.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/users/store_limits.h"

#define DAY_S 86400
#define USED_FRESH_MS 5.0   /* as long as a small body takes */
#define NEAR_TOKENS 1000000 /* more than a user's answers use while one waits to be counted */

static int64_t now_us(void)
{
    return clock_wall_ms() * 1000;
}

bool limits_any(const struct request *r)
{
    const struct store_key_terms *t = &r->who.terms;
    return t->requests_per_minute || t->tokens_per_minute || t->max_jobs;
}

/* The key or the user whose limits apply to a request. */
struct holder {
    int64_t row; /* of shared memory: the key's id, or the user's with a minus */
    const char *who;
    int64_t requests, tokens, jobs;
};

static int holders(const struct request *r, struct holder out[2])
{
    const struct store_key_terms *k = &r->who.terms;
    const struct store_user_limits *u = &r->who.limits;
    int n = 0;
    if (k->requests_per_minute || k->tokens_per_minute || k->max_jobs)
        out[n++] = (struct holder){r->who.key_id, "this key", k->requests_per_minute,
                                   k->tokens_per_minute, k->max_jobs};
    if (u->requests_per_minute || u->tokens_per_minute || u->max_jobs)
        out[n++] = (struct holder){-r->who.user_id, "you", u->requests_per_minute,
                                   u->tokens_per_minute, u->max_jobs};
    return n;
}

bool limits_of_user(struct request *r, int64_t user_id, struct store_user_limits *out, bool *own,
                    struct err *e)
{
    struct store_limits_given given;
    if (!limits_given(r, user_id, &given, e))
        return false;
    *out = given.limits;
    *own = given.own;
    return true;
}

bool limits_given(struct request *r, int64_t user_id, struct store_limits_given *out, struct err *e)
{
    const struct store_user_limits everyone = {
        .tokens_per_day = server_setting_int(r, SETTING_USER_TOKENS_PER_DAY),
        .storage_bytes = server_setting_int(r, SETTING_USER_STORAGE_BYTES),
        .max_jobs = server_setting_int(r, SETTING_USER_MAX_JOBS)};
    struct store_user_limits of_all = everyone;
    if (!store_limits_given(r->store, user_id, out, e))
        return false;
    for (int i = 0; i < STORE_LIMITS; i++)
        if (*store_limit_at(&out->limits, i) == STORE_LIMIT_UNSAID)
            *store_limit_at(&out->limits, i) = *store_limit_at(&of_all, i);
    return true;
}

bool limits_load(struct request *r, struct err *e)
{
    bool own;
    if (!limits_of_user(r, r->who.user_id, &r->who.limits, &own, e))
        return false;
    r->who.used_day = clock_wall_s() / DAY_S;
    if (r->who.limits.tokens_per_day && r->route->pool == POOL_STREAM &&
        store_used_tokens(r->store, r->who.user_id, r->who.used_day, &r->who.used_today, NULL))
        r->who.used_ms = clock_ms();
    return true;
}

struct refusal {
    enum limit_kind kind;
    int64_t wait_us;
    const struct holder *holder;
    const char *what; /* "requests per minute" */
    int64_t limit;
};

static bool refuse(struct request *r, const struct refusal *f, struct err *e)
{
    atomic_fetch_add_explicit(&r->worker->shared->limited[f->kind], 1, memory_order_relaxed);
    r->error_override.status = 429;
    r->error_override.code = "rate_limit_exceeded";
    r->error_override.retry_after_s = (int)((f->wait_us + 999999) / 1000000);
    if (r->error_override.retry_after_s < 1)
        r->error_override.retry_after_s = 1;
    err_set(e, ERR_BUSY, "%s may have %lld %s; try again in %d s", f->holder->who,
            (long long)f->limit, f->what, r->error_override.retry_after_s);
    err_reason(e, f->kind == LIMIT_TOKENS ? "tokens_per_minute"
                  : f->kind == LIMIT_JOBS ? "answers_at_once"
                                          : "requests_per_minute");
    err_param(e, "limit", f->limit);
    return err_param(e, "seconds", r->error_override.retry_after_s);
}

static struct shared_limit *row_of(const struct request *r, const struct holder *h)
{
    return shared_limit_row(r->worker->shared, h->row);
}

/* A holder's limit in a minute, 0: none. Of a user only requests that run the model are counted:
 * the page also counts tokens while the user types. */
static int64_t minute_limit(const struct request *r, const struct holder *h, enum limit_kind kind)
{
    if (kind == LIMIT_TOKENS)
        return h->tokens;
    return h->row > 0 || r->route->pool == POOL_STREAM ? h->requests : 0;
}

static bool minute_take(const struct request *r, const struct holder *h, enum limit_kind kind,
                        const struct shared_minute_units *u, struct shared_minute *out)
{
    struct shared_limit *row = row_of(r, h);
    return shared_minute_take(kind == LIMIT_TOKENS ? &row->tokens_full_us : &row->requests_full_us,
                              u, now_us(), out);
}

/* Takes n requests or tokens from the current minute of every holder, or from none. */
static bool take_from_all(struct request *r, enum limit_kind kind, int64_t n, struct err *e)
{
    struct holder h[2];
    struct shared_minute m, unused;
    const int n_holders = holders(r, h);
    for (int i = 0; i < n_holders; i++) {
        struct shared_minute_units u = {.per_minute = minute_limit(r, &h[i], kind), .n = n};
        if (!u.per_minute || minute_take(r, &h[i], kind, &u, &m))
            continue;
        const struct refusal f = {.kind = kind,
                                  .wait_us = m.wait_us,
                                  .holder = &h[i],
                                  .limit = u.per_minute,
                                  .what = kind == LIMIT_TOKENS ? "tokens per minute"
                                                               : "requests per minute"};
        for (int j = 0; j < i; j++) {
            u = (struct shared_minute_units){
                .per_minute = minute_limit(r, &h[j], kind), .n = -n, .force = true};
            if (u.per_minute)
                minute_take(r, &h[j], kind, &u, &unused);
        }
        return refuse(r, &f, e);
    }
    return true;
}

bool limits_request(struct request *r, struct err *e)
{
    return take_from_all(r, LIMIT_REQUESTS, 1, e);
}

/* What was read with the limits counts for the job that follows at once. */
static bool read_used(struct request *r, int64_t day, int64_t *used, struct err *e)
{
    const bool fresh =
        r->who.used_ms > 0 && clock_ms() - r->who.used_ms < USED_FRESH_MS && r->who.used_day == day;
    r->who.used_ms = 0;
    if (!fresh)
        return store_used_tokens(r->store, r->who.user_id, day, used, e);
    *used = r->who.used_today;
    return true;
}

/* Where the day's tokens may end, those count too that are not in the database yet. */
static bool read_near(struct request *r, int64_t day, int64_t *used, struct err *e)
{
    const struct usage_of mine = {r->who.user_id, day};
    const int64_t due = usage_ledger_due(r->worker->shared, &mine);
    if (r->who.limits.tokens_per_day - *used - due > NEAR_TOKENS)
        return true;
    return usage_ledger_used(r->worker->shared, r->store, &mine, used, e);
}

/* How much of the day's tokens is used; the day ends at midnight, UTC. */
static bool check_day(struct request *r, int64_t prompt_tokens, struct err *e)
{
    const int64_t limit = r->who.limits.tokens_per_day, now = clock_wall_s();
    int64_t used = 0;
    if (!limit)
        return true;
    if (!read_used(r, now / DAY_S, &used, e) || !read_near(r, now / DAY_S, &used, e))
        return false;
    r->who.used_today = used;
    if (used + (prompt_tokens ? prompt_tokens : 1) <= limit) /* not known yet: at least one */
        return true;
    atomic_fetch_add_explicit(&r->worker->shared->limited[LIMIT_DAY], 1, memory_order_relaxed);
    r->error_override.status = 429;
    r->error_override.code = "insufficient_quota";
    r->error_override.retry_after_s = (int)(DAY_S - now % DAY_S);
    err_set(e, ERR_BUSY,
            "%lld of today's %lld tokens are used, and this needs at least %lld; the limit resets "
            "in %d min (midnight UTC)",
            (long long)used, (long long)limit, (long long)prompt_tokens,
            r->error_override.retry_after_s / 60 + 1);
    err_reason(e, used >= limit ? "day_used" : "day_short");
    err_param(e, "used", used);
    err_param(e, "limit", limit);
    err_param(e, "needed", prompt_tokens);
    return err_param(e, "seconds", r->error_override.retry_after_s);
}

static bool refuse_storage(struct request *r, int64_t used, struct err *e)
{
    atomic_fetch_add_explicit(&r->worker->shared->limited[LIMIT_STORAGE], 1, memory_order_relaxed);
    r->error_override.status = 413;
    r->error_override.code = "storage_quota_exceeded";
    err_set(e, ERR_LIMIT, "%lld of your %lld bytes are used; delete chats or files to make room",
            (long long)used, (long long)r->who.limits.storage_bytes);
    err_param(e, "used", used);
    return err_param(e, "limit", r->who.limits.storage_bytes);
}

bool limits_storage(struct request *r, int64_t more, struct err *e)
{
    const int64_t limit = r->who.limits.storage_bytes;
    int64_t used = 0;
    if (!limit)
        return true;
    return store_used_bytes(r->store, r->who.user_id, &used, e) &&
           (used + more <= limit || refuse_storage(r, used, e));
}

bool limits_storage_refused(struct request *r, struct err *e)
{
    int64_t used = 0;
    if (e->code == ERR_LIMIT && !strcmp(e->field, STORE_QUOTA_FIELD) &&
        store_used_bytes(r->store, r->who.user_id, &used, e))
        refuse_storage(r, used, e);
    return false;
}

static bool refuse_jobs(struct request *r, const char *who, int64_t max, struct err *e)
{
    return refuse(r,
                  &(struct refusal){.kind = LIMIT_JOBS,
                                    .wait_us = 1000000,
                                    .holder = &(struct holder){.who = who},
                                    .what = "jobs at one time",
                                    .limit = max},
                  e);
}

/* The user's answers elsewhere: of other processes' requests, and those that no request holds. */
static bool check_user_jobs(struct request *r, int jobs, struct err *e)
{
    const int64_t max = r->who.limits.max_jobs;
    int64_t detached = 0;
    if (!max || !r->slot)
        return true;
    if (!store_running_count(r->store, r->who.user_id, &detached, e))
        return false;
    if (shared_jobs_of_user(r->worker->shared, r->slot) + detached + jobs <= max)
        return true;
    return refuse_jobs(r, "you", max, e);
}

bool limits_enter(struct request *r, int64_t prompt_tokens, int jobs, struct err *e)
{
    const struct shared_jobs_claim claim = {.key_id = r->who.key_id,
                                            .user_id = r->who.user_id,
                                            .jobs = jobs,
                                            .key_max = r->who.terms.max_jobs};
    if (!check_day(r, prompt_tokens, e))
        return false;
    if ((!jobs || claim.key_max || r->who.limits.max_jobs) && r->slot &&
        !shared_jobs_enter(r->worker->shared, r->slot, &claim))
        return jobs ? refuse_jobs(r, "this key", claim.key_max, e) : refuse_jobs(r, "you", 1, e);
    if (check_user_jobs(r, jobs, e) && take_from_all(r, LIMIT_TOKENS, prompt_tokens, e))
        return true;
    limits_leave(r);
    return false;
}

bool limits_take(struct request *r, int64_t prompt_tokens, struct err *e)
{
    return check_day(r, prompt_tokens, e) && take_from_all(r, LIMIT_TOKENS, prompt_tokens, e);
}

void limits_spend(struct request *r, int64_t tokens)
{
    struct holder h[2];
    struct shared_minute m;
    const int n = tokens ? holders(r, h) : 0;
    for (int i = 0; i < n; i++)
        if (h[i].tokens)
            minute_take(r, &h[i], LIMIT_TOKENS,
                        &(struct shared_minute_units){
                            .per_minute = h[i].tokens, .n = tokens, .force = true},
                        &m);
}

void limits_spend_user(struct shared *s, struct store *store, int64_t user_id, int64_t tokens)
{
    struct store_limits_given given;
    struct shared_minute m;
    if (!tokens || !store_limits_given(store, user_id, &given, NULL))
        return;
    const struct store_user_limits u = given.limits;
    if (u.tokens_per_minute > 0)
        shared_minute_take(&shared_limit_row(s, -user_id)->tokens_full_us,
                           &(struct shared_minute_units){
                               .per_minute = u.tokens_per_minute, .n = tokens, .force = true},
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

static void put_headers(struct request *r, const char *unit, int64_t limit,
                        _Atomic int64_t *full_us)
{
    struct shared_minute m;
    char name[48], value[32];
    if (!limit)
        return;
    /* Taking nothing only reads the state. */
    shared_minute_take(full_us, &(struct shared_minute_units){.per_minute = limit, .force = true},
                       now_us(), &m);
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
    struct holder h[2];
    if (!holders(r, h) || (!h[0].requests && !h[0].tokens))
        return;
    struct shared_limit *row = row_of(r, &h[0]);
    put_headers(r, "requests", h[0].requests, &row->requests_full_us);
    put_headers(r, "tokens", h[0].tokens, &row->tokens_full_us);
}

void limits_put(cJSON *o, const struct store_user_limits *l)
{
    struct store_user_limits of = *l;
    for (int i = 0; i < STORE_LIMITS; i++)
        cJSON_AddNumberToObject(o, store_limit_names[i], (double)*store_limit_at(&of, i));
}

void limits_put_given(cJSON *o, const struct store_limits_given *given, const cJSON *groups)
{
    const cJSON *g;
    limits_put(cJSON_AddObjectToObject(o, "effective"), &given->limits);
    cJSON *from = cJSON_AddObjectToObject(o, "limit_sources");
    for (int i = 0; i < STORE_LIMITS; i++) {
        const char *group = NULL;
        int64_t id;
        cJSON_ArrayForEach (g, groups)
            if (path_id_parse(json_text(g, "id"), &id) && id == given->group[i])
                group = json_text(g, "name");
        cJSON *source = cJSON_AddObjectToObject(from, store_limit_names[i]);
        cJSON_AddStringToObject(source, "from",
                                given->own        ? "own"
                                : given->group[i] ? "group"
                                                  : "server");
        if (group)
            cJSON_AddStringToObject(source, "group", group);
    }
}
