/* What streaming a model's experts from disk did in a measured case, and what it could have done at
 * best. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/experts/cache/expert_cache.h"

struct bench_disk { /* of one case: differences of the store's counters, over the repeats that count
                     */
    uint64_t asked, hits, late, misses; /* (layer, expert) pairs */
    uint64_t read_bytes;                /* all that was asked of the disk, read ahead or not */
    uint64_t needed_bytes;              /* of them, what steps wanted */
    uint64_t read_ns, wait_ns;          /* with a read under way; with nothing to compute */
    double compute_ms; /* of one repeat with every expert resident; 0: not measured */
};

/* Adds what happened between two looks at the counters. */
void bench_disk_add(struct bench_disk *d, const struct expert_counters *before,
                    const struct expert_counters *after);
