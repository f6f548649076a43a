/* GET /api/admin/history: the rows of fcgi/status/history.h as columns, null where nobody watched.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/history.h"

#define SECONDS_DEFAULT 3600

typedef double (*value_fn)(const struct history_view *v, const struct history_row *row,
                           int which); /* negative: none */

static double covered(const struct history_view *v, const struct history_row *row, int which)
{
    return row->covered_s;
}

static double sum(const struct history_view *v, const struct history_row *row, int which)
{
    return (double)row->sums[which];
}

static double mean(const struct history_view *v, const struct history_row *row, int which)
{
    return row->areas[which] / row->covered_s;
}

static double highest(const struct history_view *v, const struct history_row *row, int which)
{
    return row->highest[which];
}

static double quantile(const struct history_view *v, const struct history_row *row, int which)
{
    static const double q[] = {0.5, 0.95, 0.99};
    return history_quantile(v, row, (enum history_times)(which / 3), q[which % 3]);
}

static void column(struct buf *b, const struct history_view *v, const char *name, value_fn value,
                   int which)
{
    buf_printf(b, "%s\"%s\":[", buf_ends_with(b, '{') ? "" : ",", name);
    for (int i = 0; i < v->n; i++) {
        double x = v->rows[i].at ? value(v, &v->rows[i], which) : -1;
        if (x < 0)
            buf_printf(b, "%snull", i ? "," : "");
        else
            buf_printf(b, "%s%.12g", i ? "," : "", x);
    }
    buf_putc(b, ']');
}

static void columns(struct buf *b, const struct history_view *v)
{
    static const char *const times[] = {"first_token_p50", "first_token_p95", "first_token_p99",
                                        "per_token_p50",   "per_token_p95",   "per_token_p99"};
    column(b, v, "covered_s", covered, 0);
    for (int i = 0; i < HISTORY_SUM__N; i++)
        column(b, v, history_sum_names[i], sum, i);
    for (int i = 0; i < HISTORY_GAUGE__N; i++)
        column(b, v, history_gauge_names[i], mean, i);
    column(b, v, "running_max", highest, HISTORY_RUNNING);
    column(b, v, "waiting_max", highest, HISTORY_WAITING);
    for (int i = 0; i < 6; i++)
        column(b, v, times[i], quantile, i);
}

static bool history(struct request *r, struct err *e)
{
    int64_t seconds = SECONDS_DEFAULT;
    char path[4096];
    struct buf b = {0};
    if (!request_query_int(r, "seconds", HISTORY_FINE_S,
                           (int64_t)HISTORY_COARSE_S * HISTORY_COARSE_ROWS, &seconds, e) ||
        !file_join(path, sizeof path, r->worker->state_dir, STATE_HISTORY, e))
        return false;
    struct history_view *v = malloc(sizeof *v);
    bool ok = v || err_set(e, ERR_NOMEM, "no memory for the history");
    ok = ok && history_read(path, clock_wall_s(), seconds, v, e);
    if (ok) {
        buf_printf(&b, "{\"from\":%lld,\"step_s\":%lld,\"n\":%d,\"columns\":{", (long long)v->from,
                   (long long)v->step_s, v->n);
        if (!b.failed)
            columns(&b, v);
        buf_puts(&b, "}}");
        reply_json_buf(r, 200, &b);
    }
    buf_fini(&b);
    free(v);
    return ok;
}

const struct route api_history_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/history",
     .polled = true,
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = history,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "What the server did over time, for charts",
             .query = "HistoryQuery",
             .reply = "History",
             .statuses = "200"}},
    {0},
};
