/* GET /api/usage: what the caller used, by day and key. GET /api/admin/usage: what everyone did.
 * GET /api/admin/usage/daily: the same by user, one number for each day, for tables and charts. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/usage.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"

#define DAYS_DEFAULT 30
#define DAYS_MAX 3660
#define DAILY_MAX 366
#define DAY_S 86400

struct listing {
    struct buf out;
    bool all; /* of all users */
    struct store_usage sum;
};

static void put_counts(struct buf *b, const struct store_usage *u)
{
    buf_printf(b,
               "\"requests\":%lld,\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"completion_"
               "tokens\":%lld}",
               (long long)u->requests, (long long)u->prompt_tokens, (long long)u->cached_tokens,
               (long long)u->completion_tokens);
}

static void put_day(struct buf *b, const char *name, int64_t day)
{
    time_t at = (time_t)(day * DAY_S);
    struct tm utc;
    char text[16] = "";
    if (gmtime_r(&at, &utc))
        strftime(text, sizeof text, "%Y-%m-%d", &utc);
    buf_printf(b, "\"%s\":\"%s\",", name, text);
}

static void add(struct store_usage *sum, const struct store_usage *u)
{
    sum->requests += u->requests;
    sum->prompt_tokens += u->prompt_tokens;
    sum->cached_tokens += u->cached_tokens;
    sum->completion_tokens += u->completion_tokens;
}

static bool list_row(void *context, const struct store_usage *u)
{
    struct listing *l = context;
    buf_puts(&l->out, buf_ends_with(&l->out, '[') ? "{" : ",{");
    put_day(&l->out, "day", u->day);
    if (l->all)
        buf_printf(&l->out, "\"user_id\":\"%lld\",", (long long)u->user_id);
    if (u->key_id)
        buf_printf(&l->out, "\"key_id\":\"%lld\",", (long long)u->key_id);
    else
        buf_puts(&l->out, "\"key_id\":null,");
    put_counts(&l->out, u);
    add(&l->sum, u);
    return !l->out.failed;
}

static bool list(struct request *r, int64_t user_id, struct err *e)
{
    int64_t days = DAYS_DEFAULT;
    struct listing l = {.all = user_id == 0};
    if (!request_query_int(r, "days", 1, DAYS_MAX, &days, e))
        return false;
    usage_sweep(r->worker->shared, r->store);
    if (!buf_puts(&l.out, "{\"items\":["))
        return err_set(e, ERR_NOMEM, "no memory for the figures");
    bool ok =
        store_usage_list(r->store,
                         &(struct store_usage_filter){
                             .user_id = user_id, .first_day = clock_wall_s() / DAY_S - days + 1},
                         list_row, &l, e);
    if (ok) {
        buf_puts(&l.out, "],\"total\":{");
        put_counts(&l.out, &l.sum);
        buf_putc(&l.out, '}');
        reply_json_buf(r, 200, &l.out);
    }
    buf_fini(&l.out);
    return ok;
}

static bool own_usage(struct request *r, struct err *e)
{
    return list(r, r->who.user_id, e);
}

static bool all_usage(struct request *r, struct err *e)
{
    return list(r, 0, e);
}

struct daily {
    struct buf out;
    int64_t first, days, user_id; /* whose columns are being filled; 0: nobody's yet */
    int64_t requests[DAILY_MAX], prompt[DAILY_MAX], completion[DAILY_MAX];
    struct store_usage sum;
};

static void put_column(struct daily *d, const char *name, const int64_t *values)
{
    buf_printf(&d->out, ",\"%s\":[", name);
    for (int64_t i = 0; i < d->days; i++)
        buf_printf(&d->out, "%s%lld", i ? "," : "", (long long)values[i]);
    buf_putc(&d->out, ']');
}

/* The user whose rows have all come. */
static void put_user(struct daily *d)
{
    if (!d->user_id)
        return;
    buf_printf(&d->out, "%s{\"user_id\":\"%lld\"", buf_ends_with(&d->out, '[') ? "" : ",",
               (long long)d->user_id);
    put_column(d, "requests", d->requests);
    put_column(d, "prompt_tokens", d->prompt);
    put_column(d, "completion_tokens", d->completion);
    buf_putc(&d->out, '}');
}

static bool daily_row(void *context, const struct store_usage *u)
{
    struct daily *d = context;
    const int64_t at = u->day - d->first;
    if (at < 0 || at >= d->days)
        return true; /* of a clock that was ahead */
    if (u->user_id != d->user_id) {
        put_user(d);
        memset(d->requests, 0, sizeof d->requests);
        memset(d->prompt, 0, sizeof d->prompt);
        memset(d->completion, 0, sizeof d->completion);
        d->user_id = u->user_id;
    }
    d->requests[at] = u->requests;
    d->prompt[at] = u->prompt_tokens;
    d->completion[at] = u->completion_tokens;
    add(&d->sum, u);
    return !d->out.failed;
}

static bool daily(struct request *r, struct err *e)
{
    int64_t days = DAYS_DEFAULT, user_id = 0;
    if (!request_query_int(r, "days", 1, DAILY_MAX, &days, e) ||
        !request_query_int(r, "user_id", 1, INT64_C(1) << 52, &user_id, e))
        return false;
    usage_sweep(r->worker->shared, r->store);
    struct daily d = {.days = days, .first = clock_wall_s() / DAY_S - days + 1};
    buf_putc(&d.out, '{');
    put_day(&d.out, "from", d.first);
    buf_printf(&d.out, "\"days\":%lld,\"users\":[", (long long)days);
    bool ok = store_usage_days(
        r->store, &(struct store_usage_filter){.user_id = user_id, .first_day = d.first}, daily_row,
        &d, e);
    if (ok) {
        put_user(&d);
        buf_puts(&d.out, "],\"total\":{");
        put_counts(&d.out, &d.sum);
        buf_putc(&d.out, '}');
        reply_json_buf(r, 200, &d.out);
    }
    buf_fini(&d.out);
    return ok;
}

const struct route api_usage_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/usage",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = own_usage,
     .scope = SCOPE_ANY,
     .doc = {.summary = "What the caller used, by day and key",
             .query = "UsageQuery",
             .reply = "UsageList",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/admin/usage",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = all_usage,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "What everyone used",
             .query = "UsageQuery",
             .reply = "UsageList",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/admin/usage/daily",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = daily,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "What each user used on each day",
             .query = "UsageDailyQuery",
             .reply = "UsageDaily",
             .statuses = "200"}},
    {0},
};
