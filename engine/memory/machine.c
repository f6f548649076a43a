/* Combines /proc/meminfo with the limits of every control group above us, because the tightest
 * one decides what can be taken. */
#include "engine/memory/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/memory/cgroup.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool read_meminfo(const char *root, struct machine *m)
{
    char path[600], line[256];
    const struct {
        const char *format;
        uint64_t *to;
    } fields[] = {{"MemTotal: %llu kB", &m->total},
                  {"MemAvailable: %llu kB", &m->system_available},
                  {"SwapTotal: %llu kB", &m->swap_total},
                  {"SwapFree: %llu kB", &m->swap_free}};
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            unsigned long long kib;
            if (sscanf(line, fields[i].format, &kib) == 1)
                *fields[i].to = kib * 1024;
        }
    if (f)
        fclose(f);
    return m->total && m->system_available;
}

/* File pages that the kernel reclaims before the group hits its limit. Pages of shared memory are
 * not among them. */
static uint64_t reclaimable(const struct cgroup *g, const char *path)
{
    const char *const v2[] = {"inactive_file", "active_file", "slab_reclaimable"};
    const char *const v1[] = {"total_inactive_file", "total_active_file"};
    uint64_t sum = 0;
    for (size_t i = 0; i < (g->v2 ? sizeof v2 / sizeof *v2 : sizeof v1 / sizeof *v1); i++)
        sum += cgroup_field(g, path, "memory.stat", g->v2 ? v2[i] : v1[i]);
    return sum;
}

static void read_groups(const char *root, struct machine *m)
{
    struct cgroup g;
    m->group_available = m->group_limit = MACHINE_NO_LIMIT;
    if (!cgroup_find(root, &g))
        return;
    char path[512];
    memcpy(path, g.path, sizeof path);
    do {
        uint64_t max = UINT64_MAX, high = UINT64_MAX, used = 0;
        cgroup_number(&g, path, g.v2 ? "memory.max" : "memory.limit_in_bytes", &max);
        if (g.v2)
            cgroup_number(&g, path, "memory.high", &high);
        uint64_t limit = min_u64(max, high);
        if (limit == UINT64_MAX ||
            !cgroup_number(&g, path, g.v2 ? "memory.current" : "memory.usage_in_bytes", &used))
            continue;
        used -= min_u64(used, reclaimable(&g, path));
        m->group_limit = min_u64(m->group_limit, limit);
        m->group_available = min_u64(m->group_available, limit > used ? limit - used : 0);
    } while (cgroup_parent(path));
}

bool machine_read(const char *root, struct machine *m, struct err *e)
{
    struct rlimit lock;
    *m = (struct machine){0};
    if (!read_meminfo(root, m))
        return err_set(e, ERR_IO, "%s/proc/meminfo does not say how much memory there is", root);
    read_groups(root, m);
    m->total = min_u64(m->total, m->group_limit);
    m->available = min_u64(m->system_available, m->group_available);
    m->lock_limit = MACHINE_NO_LIMIT;
    if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY)
        m->lock_limit = lock.rlim_cur;
    return true;
}

/* "some avg10=1.23 avg60=..." */
static bool read_stall(const char *mount, const char *path, const char *file, double *percent)
{
    char name[1200], line[256];
    bool ok = false;
    snprintf(name, sizeof name, "%s%s/%s", mount, path, file);
    FILE *f = fopen(name, "re");
    if (!f)
        return false;
    while (!ok && fgets(line, sizeof line, f))
        ok = sscanf(line, "some avg10=%lf", percent) == 1;
    fclose(f);
    return ok;
}

void machine_stress_read(const char *root, struct machine_stress *s)
{
    struct cgroup g;
    *s = (struct machine_stress){0};
    bool found = cgroup_find(root, &g);
    if (found && g.v2) {
        s->limit_hits = cgroup_field(&g, g.path, "memory.events", "high") +
                        cgroup_field(&g, g.path, "memory.events", "max");
        s->kills = cgroup_field(&g, g.path, "memory.events", "oom_kill");
    } else if (found) {
        cgroup_number(&g, g.path, "memory.failcnt", &s->limit_hits);
        s->kills = cgroup_field(&g, g.path, "memory.oom_control", "oom_kill");
    }
    if (!found || !g.v2 || !read_stall(g.mount, g.path, "memory.pressure", &s->stalled))
        read_stall(root, "/proc/pressure", "memory", &s->stalled);
}
