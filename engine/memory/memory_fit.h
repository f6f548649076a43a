/* Fits one strategy onto one target: the sizes that fit, or what is missing. Private to
 * engine/memory. */
#pragma once
#include "engine/memory/memory_plan.h"

struct memory_fit {
    enum strategy strategy;
    int target;
    /* when it does not fit */
    char why[192];
    uint64_t need, limit; /* bytes, of RAM or of the device */
    bool no_memory;       /* memory is what is missing ... */
    bool on_device;       /* ... on the device */
    struct err refused;   /* an invalid request, or the backend's own refusal; code 0: neither */
};

/* Fills *out except `reason`. */
bool memory_fit_try(const struct memory_input *in, struct memory_fit *fit, struct memory_plan *out);
/* Computes the parts for the sizes and strategy of p; p->expert_cache is taken as given. */
bool memory_fit_parts(const struct memory_input *in, struct memory_plan *p, struct err *e);
