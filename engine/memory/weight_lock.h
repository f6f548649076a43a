/* Locks weights that are used where they are, in the mapped files or in copies (cpu_only): locked
 * pages are neither dropped nor swapped when memory runs short, so the plan stays true. Locking
 * also reads those of files from disk.
 *
 * What the system does not allow to be locked (RLIMIT_MEMLOCK) stays as other pages do; `locked`
 * says how much was locked. One thread; the model outlives it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/model/plan.h"

struct weight_range { /* whole pages */
    uintptr_t start, end;
};

struct weight_lock {
    struct weight_range *ranges; /* [n] ascending, disjoint */
    size_t n, cap;
    uint64_t bytes;  /* of the ranges */
    uint64_t locked; /* of these, from the first range on */
};

/* Locks as much as may be locked, and logs it when that is not all. */
void weight_lock_init(struct weight_lock *l, const struct model_plan *plan);
void weight_lock_fini(struct weight_lock *l); /* accepts a zeroed struct */
