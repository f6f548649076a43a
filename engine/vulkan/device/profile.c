/* Writes timestamps between barriers, and says how long it was from each to the next. */
#include "engine/vulkan/device/profile.h"

#include <string.h>

bool profile_open(struct profile *p, struct gpu *g, struct err *e)
{
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = PROFILE_MAX};
    memset(p, 0, sizeof *p);
    if (!(g->caps.timestamp_ns > 0))
        return err_set(e, ERR_UNSUPPORTED, "%s has no clock for what it computes", g->caps.name);
    VKTRY(vkCreateQueryPool(g->device, &info, NULL, &p->pool));
    return true;
fail:
    return false;
}

void profile_close(struct profile *p, struct gpu *g)
{
    if (p->pool)
        vkDestroyQueryPool(g->device, p->pool, NULL);
    memset(p, 0, sizeof *p);
}

void profile_begin(struct profile *p, VkCommandBuffer c)
{
    p->n = 0;
    vkCmdResetQueryPool(c, p->pool, 0, PROFILE_MAX);
    profile_mark(p, c, "start");
}

void profile_mark(struct profile *p, VkCommandBuffer c, const char *label)
{
    if (p->n < PROFILE_MAX) {
        vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->pool, (uint32_t)p->n);
        p->label[p->n++] = label;
    }
}

int profile_read(struct profile *p, struct gpu *g, double us[PROFILE_MAX], struct err *e)
{
    static uint64_t at[PROFILE_MAX];
    if (p->n < 2) {
        err_set(e, ERR_INTERNAL, "nothing was recorded between two timestamps");
        return 0;
    }
    VKTRY(vkGetQueryPoolResults(g->device, p->pool, 0, (uint32_t)p->n, sizeof at, at, 8,
                                VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    for (int i = 1; i < p->n; i++)
        us[i - 1] = (double)(at[i] - at[i - 1]) * g->caps.timestamp_ns / 1e3;
    return p->n - 1;
fail:
    return 0;
}
