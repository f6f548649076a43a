/* The size of the expert cache under memory pressure: it is the first thing to shrink when other
 * processes or a control group's limit leave less memory than planned. Pure arithmetic over
 * readings, which the monitor takes every second; it also applies the result. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/memory/machine.h"

#define PRESSURE_CALM_S                                                                            \
    10.0 /* time without pressure before the cache grows by a 32nd of the plan */

struct pressure {            /* bytes */
    uint64_t planned, least; /* of the cache: by the plan, and the smallest that works */
    uint64_t low;            /* memory that must stay available */
    uint64_t budget;         /* now */
    struct machine_stress last;
    double changed_s; /* when the budget last changed, or pressure was last seen */
    uint64_t shrinks; /* how often the budget was reduced */
};

void pressure_init(struct pressure *p, uint64_t planned, uint64_t least, uint64_t low,
                   const struct machine_stress *now);
/* resident: bytes that the cache holds. True: p->budget changed. */
bool pressure_step(struct pressure *p, uint64_t available, const struct machine_stress *stress,
                   uint64_t resident, double now_s);
