/* What memory this machine can really give: the kernel's own counts, the limits of every control group on the way up
 * from ours (version 2 and the memory controller of version 1), swap, and how much may be locked.
 *
 * Read by the planner before a load, by the monitor each second. Pure reading; any thread. `root` is put before every
 * path: "" in service, a folder with a made-up /proc and /sys in tests. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

#define MACHINE_NO_LIMIT UINT64_MAX

struct machine { /* bytes */
    uint64_t total;            /* MemTotal, or the tightest group's limit where that is less */
    uint64_t available;        /* what can be taken without swapping: the least of the two below */
    uint64_t system_available; /* MemAvailable: free, and file pages that can be dropped */
    uint64_t group_available;  /* least over the groups of limit - used + droppable file pages; MACHINE_NO_LIMIT: none */
    uint64_t group_limit;      /* lowest limit on the way; MACHINE_NO_LIMIT: none */
    uint64_t swap_total, swap_free;
    uint64_t lock_limit;       /* RLIMIT_MEMLOCK; MACHINE_NO_LIMIT: none */
};

/* ERR_IO when /proc/meminfo says nothing. Groups that can't be read are taken as without limit. */
bool machine_read(const char *root, struct machine *m, struct err *e);

struct machine_stress { /* counts since the group was made; compare two readings */
    uint64_t limit_hits; /* memory.events high + max, or memory.failcnt */
    uint64_t kills;      /* memory.events oom_kill */
    double stalled;      /* percent of the last 10 s in which something waited for memory (PSI some avg10); 0: unknown */
};

/* Of our own group, else of the machine. */
void machine_stress_read(const char *root, struct machine_stress *s);
