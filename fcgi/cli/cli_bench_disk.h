/* What streaming a model's experts from disk did in a measured case, and what it could have done at best. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/expert_layout.h"
#include "engine/experts/expert_store.h"

struct bench_disk { /* of one case: differences of the store's counters, over the repeats that count */
    uint64_t asked, hits, late, misses; /* (layer, expert) pairs */
    uint64_t read_bytes;                /* all that was asked of the disk, read ahead or not */
    uint64_t needed_bytes;              /* of them, what steps wanted */
    uint64_t read_ns, wait_ns;          /* with a read under way; with nothing to compute */
    double compute_ms;                  /* of one repeat with every expert resident; 0: not measured */
};

/* Bytes/s at which the disk gives records in random order, many at once, with nothing else going on: for about half a second,
 * by the store's own reader. 0: it could not be measured, *e says why. */
double bench_disk_bandwidth(const struct expert_layout *l, uint64_t seed, struct err *e);
/* Adds what happened between two looks at the counters. */
void bench_disk_add(struct bench_disk *d, const struct expert_counters *before, const struct expert_counters *after);
