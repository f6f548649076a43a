/* Measured read bandwidth of the memory that holds the weights. */
#include "engine/vulkan/ops/device_bandwidth.h"

#include "engine/base/clock.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/shaders/push.h"

#define PASSES 4
#define MEASURE_NS                                                                                 \
    300000000ull /* after a long load the memory's clock is low and wants this long to rise */

double device_bandwidth_read(struct backend *b, const struct gpu_buffer *from, uint64_t ns,
                             struct err *e)
{
    const uint64_t bytes = from->size / 16 * 16;
    double best = 0;
    struct gpu *g = &b->gpu;
    const uint32_t spec[GPU_MAX_SPEC] = {[SPEC_THREADS] = 256};
    const struct push_read_bandwidth push = {
        .a = from->address,
        .sum = b->step.buffer.address,
        .n = (uint32_t)(bytes / 16),
    };
    VkPipeline p = gpu_pipeline(g, "read_bandwidth", spec, e);
    VkCommandBuffer c = p ? gpu_command_begin(g, true, e) : NULL;
    if (!c)
        return 0;
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p);
    vkCmdPushConstants(c, g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    for (int i = 0; i < PASSES; i++) {
        vkCmdDispatch(c, 2048, 1, 1);
        gpu_barrier(c);
    }
    bool ok = gpu_command_end(g, c, e);
    for (uint64_t start, end = clock_ns() + ns; ok && (start = clock_ns()) < end;) {
        ok = gpu_run(g, c, e);
        double rate = (double)bytes * PASSES / ((double)(clock_ns() - start) / 1e9);
        best = rate > best ? rate : best;
    }
    gpu_command_free(g, &c);
    return ok ? best : 0;
}

double device_bandwidth_of_weights(struct backend *b, uint64_t ns)
{
    struct err ignored = {0};
    const struct heap *h = &b->model.heap;
    const struct gpu_buffer *largest = &h->buffers[0];
    for (int i = 1; i < h->n_buffers; i++)
        largest = h->buffers[i].size > largest->size ? &h->buffers[i] : largest;
    return device_bandwidth_read(b, largest, ns, &ignored);
}

double device_bandwidth_of(struct backend *b)
{
    if (b->bandwidth == 0)
        b->bandwidth = device_bandwidth_of_weights(b, MEASURE_NS);
    return b->bandwidth;
}
