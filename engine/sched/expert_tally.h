/* What the status page and each answer say about experts that stay on disk. Loop thread. */
#pragma once
#include <stdint.h>

#include "engine/experts/expert_store.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct expert_tally { /* the store's counters at the end of the last step */
    uint64_t asked, hits, bytes, wait_ns, read_ns;
    double waited_ms, reading_ms; /* in the last step: it waited for experts; reads were under way */
};

/* One step was run for these jobs: each gets its share by rows. */
void expert_tally_step(struct expert_tally *t, const struct expert_store *store, struct job *const *members,
                       const struct step_sequence *sequences, int32_t n);
void expert_tally_publish(const struct expert_store *store, struct status_page *page);
