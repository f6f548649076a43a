/* A plan's bytes by part and by format: what `sluice info` and the status page show. */
#pragma once
#include <stdint.h>

#include "engine/model/plan.h"

enum plan_part { PART_ENDS, PART_MIXERS, PART_ROUTERS, PART_DENSE, PART_EXPERTS, PART__N };

struct plan_part_format { /* one weight format within a part */
    char text[24];
    uint64_t bytes;
};

#define PART_MAX_FORMATS 8

struct plan_parts {
    uint64_t bytes[PART__N];
    struct plan_part_format formats[PART__N]
                                   [PART_MAX_FORMATS]; /* by falling bytes; "" after the last */
};

void plan_parts_of(struct plan_parts *p, const struct model_plan *plan);
const char *plan_part_name(enum plan_part part); /* "experts", ... */
