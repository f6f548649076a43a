/* One strategy on one target: the sizes that fit, or what is missing. Private to engine/memory. */
#pragma once
#include "engine/memory/memory_plan.h"

struct memory_fit {
    enum strategy strategy;
    int target;
    /* when it does not fit */
    char why[192];
    uint64_t need, limit; /* bytes, of RAM or of the device */
    bool short_of;        /* memory is what is missing */
    bool on_device;       /* of the device */
    struct err refused;   /* a request is wrong in itself, or the backend's own refusal; code 0: neither */
};

/* Fills *out but `reason`. */
bool memory_fit_try(const struct memory_input *in, struct memory_fit *fit, struct memory_plan *out);
/* The parts of p's sizes under p's strategy; p->expert_cache is taken as it is. */
bool memory_fit_parts(const struct memory_input *in, struct memory_plan *p, struct err *e);
