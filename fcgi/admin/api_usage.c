/* GET /api/usage: what the caller used, by day and key. GET /api/admin/usage: what everyone did. */
#include <stdio.h>
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

static bool list_row(void *context, const struct store_usage *u)
{
    struct listing *l = context;
    time_t at = (time_t)(u->day * DAY_S);
    struct tm utc;
    char day[16] = "";
    if (gmtime_r(&at, &utc))
        strftime(day, sizeof day, "%Y-%m-%d", &utc);
    buf_printf(&l->out, "%s{\"day\":\"%s\",", buf_ends_with(&l->out, '[') ? "" : ",", day);
    if (l->all)
        buf_printf(&l->out, "\"user_id\":\"%lld\",", (long long)u->user_id);
    if (u->key_id)
        buf_printf(&l->out, "\"key_id\":\"%lld\",", (long long)u->key_id);
    else
        buf_puts(&l->out, "\"key_id\":null,");
    put_counts(&l->out, u);
    l->sum.requests += u->requests;
    l->sum.prompt_tokens += u->prompt_tokens;
    l->sum.cached_tokens += u->cached_tokens;
    l->sum.completion_tokens += u->completion_tokens;
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
    {0},
};
