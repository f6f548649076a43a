/* How long the slow work of each owner has kept a process busy lately, so that who uses much gives
 * way to who uses little. It forgets: what was used counts half after WORK_USE_HALF_MS. A fixed
 * table; where it is full, the owner with the least use is forgotten. The caller locks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define WORK_USE_OWNERS 64
#define WORK_USE_HALF_MS 20000.0
#define WORK_USE_HEAVY_MS 4000.0 /* who has used more is heavy */

struct work_use {
    struct {
        int64_t owner; /* 0: none */
        double ms;     /* used, as it counted at `at_ms` */
        double at_ms;  /* clock_ms */
    } owners[WORK_USE_OWNERS];
};

void work_use_add(struct work_use *u, int64_t owner, double ms, double now_ms);
bool work_use_heavy(const struct work_use *u, int64_t owner, double now_ms);
