/* The memory that this machine can really give: the kernel's counts, the limits of our control
 * group and all groups above it (version 2, or the memory controller of version 1), swap, and how
 * much may be locked.
 *
 * The planner reads it before a load, the monitor every second. It only reads; any thread. `root`
 * is prefixed to every path: "" in service, a folder with a fake /proc and /sys in tests. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

#define MACHINE_NO_LIMIT UINT64_MAX

struct machine {        /* bytes */
    uint64_t total;     /* MemTotal, or the tightest group's limit where that is less */
    uint64_t available; /* what can be taken without swapping: the smaller of the two below */
    uint64_t system_available; /* MemAvailable: free, and file pages that can be dropped */
    uint64_t group_available;  /* smallest limit - used + reclaimable file pages of the groups;
                                  MACHINE_NO_LIMIT: none */
    uint64_t group_limit;      /* the lowest limit of the groups; MACHINE_NO_LIMIT: none */
    uint64_t swap_total, swap_free;
    uint64_t lock_limit; /* RLIMIT_MEMLOCK; MACHINE_NO_LIMIT: none */
};

/* ERR_IO when /proc/meminfo cannot be read. Groups that cannot be read count as unlimited. */
bool machine_read(const char *root, struct machine *m, struct err *e);

struct machine_stress {  /* counts since the group was made; compare two readings */
    uint64_t limit_hits; /* memory.events high + max, or memory.failcnt */
    uint64_t kills;      /* memory.events oom_kill */
    double stalled;      /* percent of the last 10 s in which something waited for memory (PSI some
                            avg10); 0: unknown */
};

/* Reads the counts of our own group, or of the machine if there is none. */
void machine_stress_read(const char *root, struct machine_stress *s);
