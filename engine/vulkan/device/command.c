/* Command buffers: recorded, submitted one at a time, waited for on a timeline. */
#include "engine/vulkan/device/gpu.h"

#include "engine/base/clock.h"

/* Longer than a decode step of a fast GPU, shorter than a person notices one core spin. */
#define SPIN_NS 4000000u

VkCommandBuffer gpu_command_begin(struct gpu *g, bool reusable, struct err *e)
{
    VkCommandBuffer c = VK_NULL_HANDLE;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = g->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = reusable ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VKTRY(vkAllocateCommandBuffers(g->device, &info, &c));
    VKTRY(vkBeginCommandBuffer(c, &begin));
    return c;
fail:
    gpu_command_free(g, &c);
    return NULL;
}

bool gpu_command_end(struct gpu *g, VkCommandBuffer c, struct err *e)
{
    VKTRY(vkEndCommandBuffer(c));
    return true;
fail:
    return false;
}

void gpu_command_free(struct gpu *g, VkCommandBuffer *c)
{
    if (*c) {
        vkFreeCommandBuffers(g->device, g->pool, 1, c);
        *c = VK_NULL_HANDLE;
    }
}

void gpu_barrier(VkCommandBuffer c)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    vkCmdPipelineBarrier(c, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Polls for a while, then sleeps in the driver. */
static bool wait_for(struct gpu *g, uint64_t value, struct err *e)
{
    uint64_t until = clock_ns() + SPIN_NS, now = 0;
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &g->timeline,
                                .pValues = &value};
    while (!g->caps.software && clock_ns() < until) {
        VKTRY(vkGetSemaphoreCounterValue(g->device, g->timeline, &now));
        if (now >= value)
            return true;
    }
    VKTRY(vkWaitSemaphores(g->device, &wait, UINT64_MAX));
    return true;
fail:
    return false;
}

bool gpu_submit(struct gpu *g, VkCommandBuffer c, struct err *e)
{
    if (g->lost)
        return err_set(e, ERR_DEVICE, "the GPU was lost");
    uint64_t value = g->submitted + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType =
                                                  VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &value};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .pNext = &timeline,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &c,
                           .signalSemaphoreCount = 1,
                           .pSignalSemaphores = &g->timeline};
    VKTRY(vkQueueSubmit(g->queue, 1, &submit, VK_NULL_HANDLE));
    g->submitted = value;
    return true;
fail:
    return false;
}

bool gpu_run(struct gpu *g, VkCommandBuffer c, struct err *e)
{
    return gpu_submit(g, c, e) && wait_for(g, g->submitted, e);
}
