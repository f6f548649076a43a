/* Hands a device from one backend to the next. */
#include "engine/vulkan/device/backend_kept.h"

#include <stdlib.h>
#include <string.h>

/* Also since nobody was looking. */
static bool is_lost(struct gpu *g)
{
    g->lost |= vkDeviceWaitIdle(g->device) == VK_ERROR_DEVICE_LOST;
    return g->lost;
}

bool backend_kept_take(const struct backend_params *p, struct gpu *g, struct err *e)
{
    *g = (struct gpu){.wanted = p->device};
    if (p->kept && *p->kept && is_lost(&(*p->kept)->gpu))
        backend_kept_drop(p->kept);
    if (!p->kept || !*p->kept)
        return gpu_open(g, p->cache_dir, e);
    *g = (*p->kept)->gpu;
    free(*p->kept);
    *p->kept = NULL;
    return true;
}

void backend_kept_put(struct backend_kept **kept, struct gpu *g)
{
    struct backend_kept *k = calloc(1, sizeof *k);
    if (k) {
        k->gpu = *g;
        k->gpu.wanted = NULL; /* the caller's, and no longer asked for */
        memset(g, 0, sizeof *g);
    }
    gpu_close(g);
    *kept = k;
}

bool backend_kept_open(struct backend_kept **kept, const struct backend_params *p, struct err *e)
{
    struct gpu g = {.wanted = p->device};
    if (!gpu_open(&g, p->cache_dir, e))
        return false;
    backend_kept_put(kept, &g);
    return *kept || err_set(e, ERR_NOMEM, "no memory for the device");
}

void backend_kept_drop(struct backend_kept **kept)
{
    if (*kept)
        gpu_close(&(*kept)->gpu);
    free(*kept);
    *kept = NULL;
}
