/* Estimates the time of a layer with missing experts for both processors and picks the faster
 * one. The rates are measured elsewhere and kept in a small file. */
#include "engine/experts/policy/miss_policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/experts/io/rates_file.h"

#define RATES_FILE "expert-rates"

struct miss_shape miss_shape_of(const struct model_plan *plan, double slots)
{
    struct miss_shape s = {.missing = 1 - slots};
    for (int i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *m = &plan->layers[i].moe;
        if (plan->layers[i].ffn == FFN_MOE && m->n_expert > s.n_expert) {
            s.n_expert = m->n_expert;
            s.n_used = m->n_used;
        }
    }
    return s;
}

double miss_policy_distinct(const struct miss_shape *s, int32_t n_rows)
{
    return s->n_expert > 0 ? s->n_expert * (1 - pow(1 - (double)s->n_used / s->n_expert, n_rows))
                           : 0;
}

double miss_policy_bus_seconds(const struct miss_rates *r, const struct miss_shape *s,
                               int32_t n_rows)
{
    return miss_policy_distinct(s, n_rows) * s->missing * (double)s->expert_bytes / r->bus;
}

double miss_policy_cpu_seconds(const struct miss_rates *r, const struct miss_shape *s,
                               int32_t n_rows)
{
    const double experts = miss_policy_distinct(s, n_rows) * s->missing;
    const double pairs = (double)n_rows * s->n_used * s->missing;
    return r->sync_s + experts * r->expert_s + (pairs > experts ? pairs - experts : 0) * r->row_s;
}

bool miss_policy_on_cpu(const struct miss_rates *r, const struct miss_shape *s, int32_t n_rows)
{
    return n_rows <= r->rows && r->bus > 0 && r->sync_s > 0 && r->expert_s > 0 && r->row_s >= 0 &&
           miss_policy_bus_seconds(r, s, n_rows) >
               MISS_POLICY_MARGIN * miss_policy_cpu_seconds(r, s, n_rows);
}

bool miss_policy_range(const struct miss_rates *r, const struct miss_shape *s, int32_t *first,
                       int32_t *last)
{
    int32_t n = r->rows;
    while (n > 0 && !miss_policy_on_cpu(r, s, n))
        n--;
    *last = n;
    while (n > 1 && miss_policy_on_cpu(r, s, n - 1))
        n--;
    *first = n;
    return *last > 0;
}

const char *miss_policy_text(bool any, int32_t first, int32_t last, char text[64])
{
    if (!any)
        snprintf(text, 64, "read over the bus");
    else if (first <= 1)
        snprintf(text, 64, "computed on the cpu up to %d row%s", last, last == 1 ? "" : "s");
    else
        snprintf(text, 64, "computed on the cpu for %d to %d rows", first, last);
    return text;
}

uint64_t miss_policy_key(const struct model_plan *plan, int32_t n_threads, unsigned arithmetic)
{
    const uint64_t parts[3] = {plan->fingerprint, (uint64_t)n_threads, arithmetic};
    return hash64(parts, sizeof parts, 0);
}

/* Lines "device key bus meeting expert row cached rows time". */
bool miss_rates_load(const char *cache_dir, const char *device, uint64_t key, struct miss_rates *r)
{
    const uint64_t wanted = hash64(device, strlen(device), 0);
    struct buf b = {0};
    char *rest = NULL;
    bool found = false;
    if (!rates_file_read(cache_dir, RATES_FILE, &b)) {
        buf_fini(&b);
        return false;
    }
    for (char *line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct miss_rates at;
        uint64_t whose, what;
        int cached;
        int64_t when;
        if (sscanf(line, "%" SCNx64 " %" SCNx64 " %lf %lf %lf %lf %d %" SCNd32 " %" SCNd64, &whose,
                   &what, &at.bus, &at.sync_s, &at.expert_s, &at.row_s, &cached, &at.rows,
                   &when) == 9 &&
            whose == wanted && what == key && at.bus > 0 && at.sync_s > 0 && at.expert_s > 0 &&
            at.row_s >= 0 && rates_file_is_current(when)) {
            at.cached = cached != 0;
            *r = at;
            found = true;
        }
    }
    buf_fini(&b);
    return found;
}

void miss_rates_save(const char *cache_dir, const char *device, uint64_t key,
                     const struct miss_rates *r)
{
    char line[256];
    snprintf(line, sizeof line,
             "%016" PRIx64 " %016" PRIx64 " %.0f %.9f %.9f %.9f %d %" PRId32 " %" PRId64,
             hash64(device, strlen(device), 0), key, r->bus, r->sync_s, r->expert_s, r->row_s,
             r->cached, r->rows, clock_wall_s());
    rates_file_add(cache_dir, RATES_FILE, line);
}
