/* The processor's part of a MoE layer in a hybrid step: its input comes from the device, its sum
 * goes back to it. */
#include "engine/vulkan/ops/cpu_experts.h"

#include "engine/vulkan/ops/host_sync.h"

bool cpu_experts_begin(struct recorder *r, int layer)
{
    struct backend *b = r->b;
    const struct gpu_buffer *input = &b->cpu_offload.input;
    const uint64_t pairs = (uint64_t)r->n_rows * (uint64_t)b->plan->layers[layer].moe.n_used * 4;
    if (!r->ok)
        return false;
    host_sync_copy(r, b->workspace.x, input, 0, (uint64_t)r->n_rows * b->sizes.d * 4);
    host_sync_copy(r, b->workspace.ids, input, b->cpu_offload.ids_at, pairs);
    host_sync_copy(r, b->workspace.weights, input, b->cpu_offload.weights_at, pairs);
    host_sync_wait(r);
    return r->ok && expert_cpu_offload_select(b, layer, (int32_t)r->n_rows);
}

void cpu_experts_add(struct recorder *r, int layer)
{
    struct backend *b = r->b;
    if (!r->ok ||
        !(r->ok = gpu_command_end(&b->gpu, r->c, r->e) && gpu_submit(&b->gpu, r->c, r->e))) {
        return;
    }
    b->cpu_offload.in_flight = r->c;
    expert_cpu_offload_compute(b, layer, (int32_t)r->n_rows);
    host_sync_resume(r);
    if (r->ok) {
        gpu_barrier(r->c); /* the resident experts have added theirs */
        record_add_rows(r, b->cpu_offload.sums.address);
    }
}
