/* Hybrid and streamed steps synchronise with the host once per MoE layer, so they cannot be
 * replayed from one recorded command buffer: each piece is recorded, submitted and freed. */
#include "engine/vulkan/ops/host_sync.h"

void host_sync_barrier(VkCommandBuffer c)
{
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask =
                                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void host_sync_resume(struct recorder *r)
{
    r->c = gpu_command_begin(&r->b->gpu, false, r->e);
    r->ok = r->ok && r->c;
}

void host_sync_wait(struct recorder *r)
{
    struct gpu *g = &r->b->gpu;
    if (!r->c)
        return;
    host_sync_barrier(r->c);
    r->ok = r->ok && gpu_command_end(g, r->c, r->e) && gpu_run(g, r->c, r->e);
    gpu_command_free(g, &r->c);
    if (r->ok) /* the queue runs in order, so what was submitted before has finished as well */
        gpu_command_free(g, &r->b->cpu_offload.in_flight);
    host_sync_resume(r);
}

void host_sync_abort(struct recorder *r)
{
    struct backend *b = r->b;
    if (b->cpu_offload.in_flight) {
        b->gpu.lost = vkDeviceWaitIdle(b->gpu.device) != VK_SUCCESS || b->gpu.lost;
        gpu_command_free(&b->gpu, &b->cpu_offload.in_flight);
    }
}

void host_sync_copy(struct recorder *r, VkDeviceAddress from, const struct gpu_buffer *to,
                    uint64_t at, uint64_t bytes)
{
    VkBuffer buffer;
    uint64_t offset;
    if (record_locate(r, from, &buffer, &offset)) {
        const VkBufferCopy copy = {.srcOffset = offset, .dstOffset = at, .size = bytes};
        vkCmdCopyBuffer(r->c, buffer, to->buffer, 1, &copy);
    }
}

void host_sync_load_experts(struct recorder *r, int layer)
{
    struct backend *b = r->b;
    const uint64_t bytes = (uint64_t)USED_WORDS * 4, at = (uint64_t)layer * bytes;
    if (!r->ok)
        return;
    host_sync_copy(r, b->workspace.used + at, &b->result.buffer, b->result.used_offset + at, bytes);
    host_sync_wait(r);
    r->ok = r->ok && expert_pool_bring(&b->pool, layer, b->result.used + layer * USED_WORDS,
                                       (int32_t)r->n_rows, r->e);
}
