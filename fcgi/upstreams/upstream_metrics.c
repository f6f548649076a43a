/* upstream_metrics.h: one row a figure, one line an upstream. */
#include "fcgi/upstreams/upstream_metrics.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/upstreams/upstream_status.h"

static const struct {
    const char *member, *name, *type, *help;
} rows[] = {
    {"in_flight", "upstream_streams", "gauge", "answers that an upstream gives now"},
    {"requests", "upstream_requests_total", "counter", "requests to an upstream"},
    {"errors", "upstream_errors_total", "counter", "requests and probes that failed there"},
    {"prompt_tokens", "upstream_prompt_tokens_total", "counter", "as the upstream counted"},
    {"completion_tokens", "upstream_generation_tokens_total", "counter", "as the upstream counted"},
    {"first_byte_ms", "upstream_first_byte_ms", "gauge",
     "mean time to the first piece of an answer, the newest counting most"},
};

/* Names of upstreams have neither quotes nor blanks (api_upstreams.c); others are left out. */
static void put_line(struct buf *out, const char *name, const cJSON *u, double value)
{
    const char *upstream = json_text(u, "name");
    if (!upstream || strpbrk(upstream, "\"\\\n"))
        return;
    buf_printf(out, "sluice_%s{upstream=\"%s\"} ", name, upstream);
    buf_json_number(out, value);
    buf_putc(out, '\n');
}

void upstream_metrics_put(struct buf *out, const char *run_dir)
{
    cJSON *status = upstream_status_read(run_dir);
    const cJSON *list = json_member(status, "upstreams"), *u;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_printf(out, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", rows[i].name, rows[i].help,
                   rows[i].name, rows[i].type);
        cJSON_ArrayForEach (u, list) {
            const cJSON *v = json_member(u, rows[i].member);
            put_line(out, rows[i].name, u, cJSON_IsNumber(v) ? v->valuedouble : 0);
        }
    }
    buf_puts(out, "# HELP sluice_upstream_up 1: the upstream gets requests\n"
                  "# TYPE sluice_upstream_up gauge\n");
    cJSON_ArrayForEach (u, list) {
        const char *state = json_text(u, "state");
        put_line(out, "upstream_up", u, state && (!strcmp(state, "ok") || !strcmp(state, "busy")));
    }
    cJSON_Delete(status);
}
