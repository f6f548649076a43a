/* Timestamps between barriers, summed by op. */
#include "engine/vulkan/device/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool profile_open(struct profile *p, struct gpu *g, struct err *e)
{
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = PROFILE_MAX};
    memset(p, 0, sizeof *p);
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

void profile_print(struct profile *p, struct gpu *g)
{
    static uint64_t at[PROFILE_MAX];
    if (p->n < 2 ||
        vkGetQueryPoolResults(g->device, p->pool, 0, (uint32_t)p->n, sizeof at, at, 8,
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) != VK_SUCCESS) {
        return;
    }
    double ns = g->caps.timestamp_ns;
    for (int i = 1; i < p->n; i++) {
        double sum = 0;
        int n = 0;
        bool first = true;
        for (int j = 1; j < p->n; j++) {
            if (!strcmp(p->label[j], p->label[i])) {
                first = first && j >= i;
                sum += (double)(at[j] - at[j - 1]) * ns / 1e3;
                n++;
            }
        }
        if (first)
            printf("  %-24s n=%-4d us=%9.1f each=%7.2f\n", p->label[i], n, sum, sum / n);
    }
    printf("  %-24s n=%-4d us=%9.1f\n", "whole", p->n - 1,
           (double)(at[p->n - 1] - at[0]) * ns / 1e3);
}
