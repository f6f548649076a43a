/* Statistics about experts that are not all in one memory, for the status page and for each answer.
 * Owner: the loop thread. */
#pragma once
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct expert_stats { /* at the end of the last step */
    uint64_t total[ENGINE_EXPERT__N];
    uint64_t wait_ns, read_ns;
    double waited_ms,
        reading_ms; /* in the last step: time waiting for experts; time with reads in flight */
};

/* Totals since the start. cache NULL: no experts on disk. */
void expert_stats_read(struct expert_stats *t, const struct expert_cache *cache,
                       const struct backend_counters *backend);
/* Divides what was counted since `t` among the jobs of a step, by their rows, then sets *t to *now.
 */
void expert_stats_step(struct expert_stats *t, const struct expert_stats *now,
                       struct job *const *members, const struct step_sequence *sequences,
                       int32_t n);
void expert_stats_publish(const struct expert_cache *cache, struct status_page *page);
