/* relay_error.h: one table from reasons to replies. What an upstream says of its key or of the
 * server behind it is never a client's 401 or 404. */
#include "fcgi/http/relay_error.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "fcgi/http/request.h"

static const struct {
    const char *reason;
    int status;
    const char *code;
    int retry_after_s;
} rows[] = {
    {"upstream_down", 503, "upstream_unavailable", 3},
    {"upstream_none", 503, "upstream_unavailable", 60},
    {"upstream_timeout", 504, "upstream_timeout", 0},
    {"upstream_broken", 502, "upstream_error", 0},
    {"upstream_error", 502, "upstream_error", 0},
    {"upstream_key", 502, "upstream_error", 0},
    {"upstream_model", 502, "upstream_error", 0},
    {"upstream_loop", 508, "upstream_loop", 0},
    {"upstream_refused", 400, "upstream_refused", 0},
    {"upstream_busy", 429, "rate_limit_exceeded", 2},
    {"upstream_queue", 408, "upstream_timeout", 5},
    {"context_too_long", 400, "context_length_exceeded", 0},
    {"server_restarting", 503, "upstream_unavailable", 3},
};

void relay_error_read(struct err *e)
{
    const size_t n = strlen(ENGINE_RELAY_REASON);
    char reason[sizeof e->reason];
    if (strncmp(e->field, ENGINE_RELAY_REASON, n) != 0)
        return;
    snprintf(reason, sizeof reason, "%.31s", e->field + n);
    e->field[0] = 0;
    err_reason(e, reason);
}

void relay_error_explain(struct request *r, struct err *e)
{
    relay_error_read(e);
    if (e->code == ERR_UNAVAILABLE && !e->reason[0]) { /* what the wire says is about the engine */
        err_set(e, ERR_UNAVAILABLE, "the relay to other servers does not answer");
        err_reason(e, "upstream_down");
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].reason, e->reason)) {
            r->error_override.status = rows[i].status;
            r->error_override.code = rows[i].code;
            r->error_override.retry_after_s = rows[i].retry_after_s;
        }
}
