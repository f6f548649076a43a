/* GET /api/admin/log: the last lines of all processes' logs (engine/base/log_ring.h). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log_ring.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"

#define MAX_LINES 500

static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_printf(b, ",\"%s\":", name);
    buf_json_string(b, text, strlen(text));
}

static void put_lines(struct buf *b, const struct log_ring_line *lines, int n)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < n; i++) {
        const struct log_ring_line *l = &lines[i];
        buf_printf(b, "%s{\"sequence\":%llu,\"at\":%lld,\"pid\":%d,\"level\":\"%s\"", i ? "," : "",
                   (unsigned long long)l->sequence, (long long)l->at_ms, (int)l->pid,
                   levels[l->level >= 0 && l->level <= LOG_DEBUG ? l->level : LOG_DEBUG]);
        put_text(b, "program", l->program);
        put_text(b, "module", l->module);
        put_text(b, "text", l->text);
        buf_putc(b, '}');
    }
}

static bool read_log(struct request *r, struct err *e)
{
    int64_t after = 0, limit = MAX_LINES;
    uint64_t next = 0;
    struct buf b = {0};
    const char *name = request_query(r, "level");
    int level = name ? log_level_from_name(name) : LOG_DEBUG;
    if (level < 0)
        return err_field(e, ERR_INPUT, "level", "must be error, warn, info or debug");
    if (!request_query_int(r, "after", 0, INT64_MAX, &after, e) ||
        !request_query_int(r, "limit", 1, MAX_LINES, &limit, e))
        return false;
    /* the newest `limit` at first: a ring's worth is read, what is older is let go */
    const int room = LOG_RING_LINES;
    struct log_ring_line *lines = malloc((size_t)room * sizeof *lines);
    if (!lines)
        return err_set(e, ERR_NOMEM, "no memory for the log");
    const struct log_ring_query query = {.path = r->worker->log_path,
                                         .after = (uint64_t)after,
                                         .level = (enum log_level)level,
                                         .max = room};
    int n = log_ring_read(&query, lines, &next);
    int from = n > (int)limit ? n - (int)limit : 0;
    buf_puts(&b, "{\"items\":[");
    put_lines(&b, lines + from, n - from);
    buf_printf(&b, "],\"next\":%llu}", (unsigned long long)next);
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    free(lines);
    return true;
}

const struct route api_log_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/log",
     .polled = true,
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = read_log,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "The newest lines of the server's log",
             .query = "LogQuery",
             .reply = "Log",
             .statuses = "200"}},
    {0},
};
