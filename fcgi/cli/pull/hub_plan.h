/* What would run here, said before a model's weights are loaded from a hub: the same plan, by the
 * same code, as the one that is applied to the files when they are there. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/memory/memory_load.h"
#include "engine/memory/memory_options.h"
#include "fcgi/cli/pull/pull.h"

enum hub_verdict {
    HUB_UNKNOWN,     /* its files could not be asked for */
    HUB_UNSUPPORTED, /* of a kind that Sluice does not run */
    HUB_TOO_LARGE,   /* this machine has no room for it in any way */
    HUB_STREAMS,     /* it runs with experts that stay on the disk */
    HUB_FITS,
    HUB_VERDICT__N
};

const char *hub_verdict_name(enum hub_verdict v);

struct hub_plan {
    const char *backend; /* as in backend_select */
    int64_t slots, ctx, prefill_chunk, kv_memory, threads;
    bool exact, speculates;
    struct memory_options memory;
    uint64_t ram_returned, gpu_returned; /* of the model that runs now and ends before */
    const char *cache_dir;               /* measured rates are kept there; NULL: not kept */
    bool only;                           /* nothing is loaded after it */
    /* Says what came of it; NULL: a table on standard output. l: the plan, measured. */
    void (*say)(struct hub_plan *h, const struct pull *p, const struct memory_load *l);
    void *say_context;
    /* its own */
    enum hub_verdict verdict;
    int64_t bytes, fetched;
};

/* pull's `before`; context: a struct hub_plan. What can't run here is an error, and the verdict
 * says which. */
bool hub_plan_show(void *context, struct pull *p, bool *more, struct err *e);
/* Another `say`: one JSON object on standard output. */
void hub_plan_say_json(struct hub_plan *h, const struct pull *p, const struct memory_load *l);
