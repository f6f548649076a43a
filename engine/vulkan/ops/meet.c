/* See meet.h. */
#include "engine/vulkan/ops/meet.h"

void meet_barrier(VkCommandBuffer c)
{
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
                         1, &barrier, 0, NULL, 0, NULL);
}

static void begin(struct recorder *r)
{
    r->c = gpu_command_begin(&r->b->gpu, false, r->e);
    r->ok = r->ok && r->c;
}

void meet_host(struct recorder *r)
{
    struct gpu *g = &r->b->gpu;
    if (!r->c) {
        return;
    }
    meet_barrier(r->c);
    r->ok = r->ok && gpu_command_end(g, r->c, r->e) && gpu_run(g, r->c, r->e);
    gpu_command_free(g, &r->c);
    if (r->ok) { /* what was submitted before has run as well */
        gpu_command_free(g, &r->b->rest.running);
    }
    begin(r);
}

void meet_give_up(struct recorder *r)
{
    struct backend *b = r->b;
    if (b->rest.running) {
        b->gpu.lost = vkDeviceWaitIdle(b->gpu.device) != VK_SUCCESS || b->gpu.lost;
        gpu_command_free(&b->gpu, &b->rest.running);
    }
}

static void copy_out(struct recorder *r, VkDeviceAddress from, const struct gpu_buffer *to, uint64_t at, uint64_t bytes)
{
    VkBuffer buffer;
    uint64_t offset;
    if (record_locate(r, from, &buffer, &offset)) {
        vkCmdCopyBuffer(r->c, buffer, to->buffer, 1, &(VkBufferCopy){.srcOffset = offset, .dstOffset = at, .size = bytes});
    }
}

void meet_pool(struct recorder *r, int layer)
{
    struct backend *b = r->b;
    const uint64_t bytes = (uint64_t)USED_WORDS * 4;
    if (!r->ok) {
        return;
    }
    copy_out(r, b->work.used + (uint64_t)layer * bytes, &b->result.buffer, b->result.used_offset + (uint64_t)layer * bytes, bytes);
    meet_host(r);
    r->ok = r->ok && expert_pool_bring(&b->pool, &b->slots, &b->model, layer, b->result.used + layer * USED_WORDS, (int32_t)r->n_rows, r->e);
}

bool meet_rest(struct recorder *r, int layer)
{
    struct backend *b = r->b;
    const uint64_t pairs = (uint64_t)r->n_rows * (uint64_t)b->plan->layers[layer].moe.n_used * 4;
    if (!r->ok) {
        return false;
    }
    copy_out(r, b->work.x, &b->rest.seen, 0, (uint64_t)r->n_rows * b->sizes.d * 4);
    copy_out(r, b->work.ids, &b->rest.seen, b->rest.ids_at, pairs);
    copy_out(r, b->work.weights, &b->rest.seen, b->rest.weights_at, pairs);
    meet_host(r);
    return r->ok && expert_rest_pick(b, layer, (int32_t)r->n_rows);
}

void meet_sum(struct recorder *r, int layer)
{
    struct gpu *g = &r->b->gpu;
    if (!r->ok || !(r->ok = gpu_command_end(g, r->c, r->e) && gpu_submit(g, r->c, r->e))) {
        return;
    }
    r->b->rest.running = r->c;
    expert_rest_compute(r->b, layer, (int32_t)r->n_rows);
    begin(r);
    if (r->ok) {
        gpu_barrier(r->c); /* the experts in slots have added theirs */
        record_add_rows(r, r->b->rest.sums.address);
    }
}
