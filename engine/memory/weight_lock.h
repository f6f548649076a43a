/* Weights that are used where they lie, in the mapped files (cpu_only), held in memory: locked pages are neither dropped
 * nor swapped when memory gets short, so what the plan counted on stays true. Locking reads them from the disk as well.
 *
 * What the system does not allow (RLIMIT_MEMLOCK) stays page cache; `locked` says how much that leaves. One thread; the
 * model outlives it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/model/plan.h"

struct weight_range { /* whole pages */
    uintptr_t start, end;
};

struct weight_lock {
    struct weight_range *ranges; /* [n] rising, apart */
    size_t n, cap;
    uint64_t bytes;  /* of the ranges */
    uint64_t locked; /* of these, from the first on */
};

/* Locks as much as may be locked, and logs it when that is not all. */
void weight_lock_init(struct weight_lock *l, const struct model_plan *plan);
void weight_lock_fini(struct weight_lock *l); /* accepts a zeroed struct */
