/* What the status page and each answer say about experts that are not all in one memory. Loop thread. */
#pragma once
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct expert_stats { /* at the end of the last step */
    uint64_t total[ENGINE_EXPERT__N];
    uint64_t wait_ns, read_ns;
    double waited_ms, reading_ms; /* in the last step: it waited for experts; reads were under way */
};

/* Totals since the start. cache NULL: no experts on disk. */
void expert_stats_read(struct expert_stats *t, const struct expert_cache *cache, const struct backend_counters *backend);
/* One step was run for these jobs: each gets its share, by rows, of what was counted since `t`; then t is now. */
void expert_stats_step(struct expert_stats *t, const struct expert_stats *now, struct job *const *members,
                       const struct step_sequence *sequences, int32_t n);
void expert_stats_publish(const struct expert_cache *cache, struct status_page *page);
