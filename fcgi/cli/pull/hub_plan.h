/* What would run here, said before a model's weights are loaded from a hub: the same plan, by the
 * same code, as the one that is applied to the files when they are there. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/memory/memory_options.h"
#include "fcgi/cli/pull/pull.h"

struct hub_plan {
    const char *backend; /* as in backend_select */
    int64_t slots, ctx, prefill_chunk, kv_memory, threads;
    bool exact;
    struct memory_options memory;
    bool json; /* one object instead of a table */
    bool only; /* nothing is loaded after it */
};

/* pull's `before`; context: a struct hub_plan. What can't run here is an error. */
bool hub_plan_show(void *context, struct pull *p, bool *more, struct err *e);
