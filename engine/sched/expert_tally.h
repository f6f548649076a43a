/* What the status page and each answer say about experts that are not all in one memory. Loop thread. */
#pragma once
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/experts/cache/expert_store.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct expert_tally { /* at the end of the last step */
    uint64_t total[ENGINE_EXPERT__N];
    uint64_t wait_ns, read_ns;
    double waited_ms, reading_ms; /* in the last step: it waited for experts; reads were under way */
};

/* Totals since the start. store NULL: no experts on disk. */
void expert_tally_read(struct expert_tally *t, const struct expert_store *store, const struct backend_counters *backend);
/* One step was run for these jobs: each gets its share, by rows, of what was counted since `t`; then t is now. */
void expert_tally_step(struct expert_tally *t, const struct expert_tally *now, struct job *const *members,
                       const struct step_sequence *sequences, int32_t n);
void expert_tally_publish(const struct expert_store *store, struct status_page *page);
