/* work_use.h: a table that is walked, as it is small and asked for slow work only. */
#include "fcgi/process/work_use.h"

#include <math.h>

static double counts(const struct work_use *u, int i, double now_ms)
{
    const double age = now_ms - u->owners[i].at_ms;
    return u->owners[i].ms * exp2(-(age > 0 ? age : 0) / WORK_USE_HALF_MS);
}

void work_use_add(struct work_use *u, int64_t owner, double ms, double now_ms)
{
    int at = 0;
    double least = INFINITY;
    for (int i = 0; i < WORK_USE_OWNERS; i++) {
        if (u->owners[i].owner == owner) {
            at = i;
            break;
        }
        const double used = u->owners[i].owner ? counts(u, i, now_ms) : -1;
        if (used < least) {
            least = used;
            at = i;
        }
    }
    const double before = u->owners[at].owner == owner ? counts(u, at, now_ms) : 0;
    u->owners[at].owner = owner;
    u->owners[at].ms = before + ms;
    u->owners[at].at_ms = now_ms;
}

bool work_use_heavy(const struct work_use *u, int64_t owner, double now_ms)
{
    for (int i = 0; i < WORK_USE_OWNERS; i++)
        if (u->owners[i].owner == owner)
            return counts(u, i, now_ms) > WORK_USE_HEAVY_MS;
    return false;
}
