/* What expert_rest decides by, measured on the memory and the kernels that will be used. See expert_rest.h. */
#include "engine/vulkan/ops/expert_rest.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/bandwidth.h"

#define BUS_NS 60000000ull
#define CPU_NS 20000000ull
#define CPU_ROWS 8
#define PASSES 3
#define MEETING_LEAST_S 20e-6 /* what a busy machine measures must not make it look free: no device was seen to do it in less */

double expert_rest_bus(struct backend *b, enum gpu_memory kind)
{
    struct gpu_buffer buffer;
    struct err ignored = {0};
    double rate = 0;
    uint64_t bytes = heap_planned_bytes(&b->model.host) / 16 * 16;
    bytes = bytes < BANDWIDTH_BUS_BYTES ? bytes : BANDWIDTH_BUS_BYTES;
    if (gpu_buffer_create(&b->gpu, kind, bytes, "bus probe", &buffer, &ignored)) {
        memset(buffer.map, 0, bytes); /* pages that are there; and the shader writes no sum of zeros */
        rate = bandwidth_read(b, &buffer, BUS_NS, &ignored);
        gpu_buffer_destroy(&b->gpu, &buffer);
    }
    return rate;
}

/* Seconds of a layer's pass on the processor whose n rows all choose the same n_used experts: others in each pass, as what
 * is missed lies anywhere. */
static double time_rows(struct backend *b, int32_t n_rows)
{
    struct expert_rest *r = &b->rest;
    uint8_t *seen = r->seen.map;
    float *x = (float *)(void *)seen, *weights = (float *)(void *)(seen + r->weights_at);
    int32_t *ids = (int32_t *)(void *)(seen + r->ids_at), layer = -1, passes = 0;
    uint64_t began = 0;
    for (uint32_t i = 0; i < (uint32_t)n_rows * b->sizes.d; i++) {
        x[i] = (float)(i % 17) / 8 - 1;
    }
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
        if (passes == 1) { /* the first one wakes the threads */
            began = clock_ns();
        }
        expert_rest_compute(b, layer, n_rows);
    }
    return (double)(clock_ns() - began) * 1e-9 / (passes - 1);
}

static void measure_cpu(struct backend *b)
{
    struct expert_rest *r = &b->rest;
    const int32_t rows = r->most < CPU_ROWS ? r->most : CPU_ROWS;
    const double one = time_rows(b, 1) / r->shape.n_used, many = time_rows(b, rows) / r->shape.n_used;
    r->rates.expert_s = one;
    r->rates.row_s = rows == 1 ? one : many > one ? (many - one) / (rows - 1) : 0;
    r->computed = 0;
}

/* A step of one dead row by both ways: what they differ in is the stops. */
static bool measure_meeting(struct backend *b, struct err *e)
{
    const struct shape s = {.n_rows = 1, .n_out = 1, .alone = true, .singles = true,
                            .n_sequences = b->plan->n_recurrent && !b->delta_steps};
    const int32_t dead[4] = {0, STEP_DEAD, 0, 0};
    double best[2] = {0, 0};
    int32_t n_moe = 0;
    VkCommandBuffer c = forward_record(b, &s, e);
    bool ok = c != VK_NULL_HANDLE;
    for (int i = 0; i < b->plan->n_layer; i++) {
        n_moe += b->plan->layers[i].ffn == FFN_MOE;
    }
    memcpy(b->step.rows[0], dead, sizeof dead);
    b->step.n_top[0] = 1;
    b->rest.always = true;
    for (int i = 0; ok && i < 2 * PASSES; i++) {
        const uint64_t began = clock_ns();
        ok = i % 2 ? forward_stopping(b, &s, true, e) : gpu_run(&b->gpu, c, e);
        const double took = (double)(clock_ns() - began) * 1e-9;
        best[i % 2] = i < 2 || took < best[i % 2] ? took : best[i % 2];
    }
    b->rest.always = false;
    gpu_command_free(&b->gpu, &c);
    const double stops = (best[1] - best[0]) / (n_moe ? n_moe : 1);
    b->rest.rates.sync_s = stops > MEETING_LEAST_S ? stops : MEETING_LEAST_S;
    return ok;
}

bool expert_rest_measure(struct backend *b, struct err *e)
{
    measure_cpu(b);
    return measure_meeting(b, e);
}
