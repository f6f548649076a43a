/* The rates that expert_cpu_offload.c decides by, measured on the memory and the kernels that will
 * be used. */
#include "engine/vulkan/ops/expert_cpu_offload.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/device_bandwidth.h"

#define BUS_NS 60000000ull
#define CPU_NS 20000000ull
#define CPU_ROWS 8
#define PASSES 3
#define MIN_SYNC_S 20e-6 /* a lower figure is noise: no device was seen to synchronise in less */

double expert_cpu_offload_bus_rate(struct backend *b, enum gpu_memory kind)
{
    struct gpu_buffer buffer;
    struct err ignored = {0};
    double rate = 0;
    uint64_t bytes = heap_planned_bytes(&b->model.host) / 16 * 16;
    bytes = bytes < DEVICE_BANDWIDTH_BUS_BYTES ? bytes : DEVICE_BANDWIDTH_BUS_BYTES;
    if (gpu_buffer_create(
            &b->gpu, &(struct gpu_buffer_params){.where = kind, .size = bytes, .name = "bus probe"},
            &buffer, &ignored)) {
        memset(buffer.map, 0,
               bytes); /* touches every page; and the shader does not write a sum that is zero */
        rate = device_bandwidth_read(b, &buffer, BUS_NS, &ignored);
        gpu_buffer_destroy(&b->gpu, &buffer);
    }
    return rate;
}

/* Seconds of a layer's pass on the processor whose n rows all choose the same n_used experts. Each
 * pass takes other experts, since missing ones may lie anywhere in memory. */
static double time_cpu_pass(struct backend *b, int32_t n_rows)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    uint8_t *input = o->input.map;
    float *x = (float *)(void *)input, *weights = (float *)(void *)(input + o->weights_at);
    int32_t *ids = (int32_t *)(void *)(input + o->ids_at), layer = -1, passes = 0;
    uint64_t began = 0;
    for (uint32_t i = 0; i < (uint32_t)n_rows * b->sizes.d; i++)
        x[i] = (float)(i % 17) / 8 - 1;
    for (uint32_t expert = 0; passes < 2 || clock_ns() - began < CPU_NS; passes++) {
        do {
            layer = (layer + 1) % b->plan->n_layer;
        } while (b->plan->layers[layer].ffn != FFN_MOE);
        const struct moe_plan *m = &b->plan->layers[layer].moe;
        for (int32_t i = 0; i < n_rows * m->n_used; i++) {
            ids[i] = (int32_t)((expert + (uint32_t)(i % m->n_used)) % (uint32_t)m->n_expert);
            weights[i] = 1;
        }
        expert += (uint32_t)m->n_used;
        if (passes == 1) /* the first one wakes the threads */
            began = clock_ns();
        expert_cpu_offload_compute(b, layer, n_rows);
    }
    return (double)(clock_ns() - began) * 1e-9 / (passes - 1);
}

static void measure_cpu(struct backend *b)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    const int32_t rows = o->max_rows < CPU_ROWS ? o->max_rows : CPU_ROWS;
    const double one = time_cpu_pass(b, 1) / o->shape.n_used,
                 many = time_cpu_pass(b, rows) / o->shape.n_used;
    o->rates.expert_s = one;
    o->rates.row_s = rows == 1 ? one : many > one ? (many - one) / (rows - 1) : 0;
    o->computed = 0;
}

/* A step of one padding row both ways: the difference is the cost of synchronising once per MoE
 * layer. */
static bool measure_sync(struct backend *b, struct err *e)
{
    const struct step_shape s = {.n_rows = 1,
                                 .n_out = 1,
                                 .one_row_each = true,
                                 .has_untiled = true,
                                 .n_sequences = b->plan->n_recurrent && !b->delta_steps};
    const int32_t padding[4] = {0, STEP_PADDING, 0, 0};
    double best[2] = {0, 0};
    int32_t n_moe = 0;
    VkCommandBuffer c = forward_record(b, &s, e);
    bool ok = c != VK_NULL_HANDLE;
    for (int i = 0; i < b->plan->n_layer; i++)
        n_moe += b->plan->layers[i].ffn == FFN_MOE;
    memcpy(b->step.rows[0], padding, sizeof padding);
    memcpy(b->step.last_rows[0], padding, sizeof padding);
    b->step.n_top[0] = 1;
    b->cpu_offload.measuring = true;
    for (int i = 0; ok && i < 2 * PASSES; i++) {
        const uint64_t began = clock_ns();
        ok = i % 2 ? forward_run_by_layer(b, &s, true, e) : gpu_run(&b->gpu, c, e);
        const double took = (double)(clock_ns() - began) * 1e-9;
        best[i % 2] = i < 2 || took < best[i % 2] ? took : best[i % 2];
    }
    b->cpu_offload.measuring = false;
    gpu_command_free(&b->gpu, &c);
    const double sync = (best[1] - best[0]) / (n_moe ? n_moe : 1);
    b->cpu_offload.rates.sync_s = sync > MIN_SYNC_S ? sync : MIN_SYNC_S;
    return ok;
}

bool expert_cpu_offload_measure(struct backend *b, struct err *e)
{
    measure_cpu(b);
    return measure_sync(b, e);
}
