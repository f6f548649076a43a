/* Decides which steps hand missing experts to the processor, and hands them over. */
#include "engine/vulkan/ops/expert_cpu_offload.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/log.h"
#include "engine/vulkan/experts/expert_views.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/record_gemm.h"

#define SHARE 0.02 /* weight of a step in the moving mean */
#define BUS_SLACK                                                                                  \
    0.95 /* memory cached by the processor is taken if the device reads it at this share of the    \
            other's rate */

static struct expert_rows_params rows_params(const struct backend *b)
{
    return (struct expert_rows_params){.max_rows = b->cpu_offload.max_rows,
                                       .n_threads = b->params.n_threads,
                                       .exact = b->params.exact};
}

void expert_cpu_offload_plan(struct backend *b)
{
    const struct backend_params *p = &b->params;
    b->model.offloads_misses =
        b->model.n_slots && !b->model.pooled && p->expert_rows && p->expert_way != EXPERTS_BUS;
    b->cpu_offload.max_rows = p->max_rows < EXPERT_ROWS_MAX ? p->max_rows : EXPERT_ROWS_MAX;
}

static uint64_t rates_key(const struct backend *b)
{
    return miss_policy_key(b->plan, b->params.n_threads, b->params.exact);
}

/* Steps of more rows go through gemm.c. */
static int32_t offload_max_rows(const struct backend *b)
{
    int32_t n = b->cpu_offload.max_rows;
    while (n > 0 && gemm_takes_experts(b, (uint32_t)n))
        n--;
    return n;
}

static uint64_t round_up_256(uint64_t n)
{
    return (n + 255) / 256 * 256;
}

/* Offsets in the input buffer; returns its size. */
static uint64_t input_layout(const struct backend *b, uint64_t *ids, uint64_t *weights)
{
    const uint64_t rows = (uint64_t)b->cpu_offload.max_rows,
                   pairs = round_up_256(rows * b->sizes.n_used * 4);
    *ids = round_up_256(rows * b->sizes.d * 4);
    *weights = *ids + pairs;
    return *weights + pairs;
}

static uint64_t sums_bytes(const struct backend *b)
{
    return (uint64_t)b->cpu_offload.max_rows * (uint64_t)b->plan->d_model * 4;
}

uint64_t expert_cpu_offload_bytes(const struct backend *b)
{
    const struct expert_rows_params p = rows_params(b);
    uint64_t ids, weights;
    return b->model.offloads_misses ? b->params.expert_rows->bytes(b->plan, &p) +
                                          input_layout(b, &ids, &weights) + sums_bytes(b)
                                    : 0;
}

enum gpu_memory expert_cpu_offload_memory(struct backend *b)
{
    struct miss_rates *r = &b->cpu_offload.rates;
    if (!b->model.offloads_misses)
        return GPU_UPLOAD;
    if (b->params.expert_way == EXPERTS_CPU)
        return GPU_SHARED;
    if (!miss_rates_load(b->params.cache_dir, b->gpu.caps.name, rates_key(b), r)) {
        const double plain = expert_cpu_offload_bus_rate(b, GPU_UPLOAD),
                     cached = expert_cpu_offload_bus_rate(b, GPU_SHARED);
        r->cached = cached >= BUS_SLACK * plain;
        r->bus = r->cached ? cached : plain;
    }
    return r->cached ? GPU_SHARED : GPU_UPLOAD;
}

static bool rows_open(struct backend *b, struct err *e)
{
    const struct expert_rows_params p = rows_params(b);
    struct expert_rows_layer *layers = calloc((size_t)b->plan->n_layer, sizeof *layers);
    bool ok = layers || err_set(e, ERR_NOMEM, "no memory for the list of layers");
    for (int i = 0; ok && i < b->plan->n_layer; i++)
        ok = expert_views_of(&b->model, i, &layers[i], e);
    ok = ok && (b->cpu_offload.rows = b->params.expert_rows->open(b->plan, layers, &p, e));
    free(layers);
    return ok;
}

static struct miss_shape shape_of(const struct backend *b)
{
    const int32_t most = device_model_most_experts(b->plan);
    struct miss_shape s = miss_shape_of(b->plan, (double)b->model.n_slots / most);
    for (int i = 0; i < b->plan->n_layer; i++)
        if (b->model.layers[i].split_experts.gate && b->plan->layers[i].moe.n_expert == most)
            s.expert_bytes = device_experts_record(&b->model.layers[i].split_experts);
    return s;
}

static void log_decision(const struct backend *b)
{
    const struct miss_rates *r = &b->cpu_offload.rates;
    int32_t first, last;
    char text[64];
    if (b->params.expert_way == EXPERTS_CPU) {
        log_info("experts without a slot: computed on the cpu, as asked for; rows_most=%d",
                 r->rows);
        return;
    }
    const bool any = miss_policy_range(r, &b->cpu_offload.shape, &first, &last);
    log_info("experts without a slot: %s; bus_gb_s=%.1f expert_us=%.1f row_us=%.2f meeting_us=%.1f",
             miss_policy_text(any, first, last, text), r->bus * 1e-9, r->expert_s * 1e6,
             r->row_s * 1e6, r->sync_s * 1e6);
}

bool expert_cpu_offload_open(struct backend *b, struct err *e)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    if (!b->model.offloads_misses)
        return true;
    const uint64_t input = input_layout(b, &o->ids_at, &o->weights_at);
    o->shape = shape_of(b);
    o->rates.rows = offload_max_rows(b);
    if (!rows_open(b, e) ||
        !gpu_buffer_create(&b->gpu,
                           &(struct gpu_buffer_params){.where = GPU_READBACK,
                                                       .size = input,
                                                       .name = "rows for the processor"},
                           &o->input, e) ||
        !gpu_buffer_create(&b->gpu,
                           &(struct gpu_buffer_params){.where = GPU_SHARED,
                                                       .size = sums_bytes(b),
                                                       .name = "sums of the processor"},
                           &o->sums, e)) {
        return false;
    }
    if (b->params.expert_way == EXPERTS_AUTO && o->rates.expert_s == 0) {
        if (!expert_cpu_offload_measure(b, e))
            return false;
        miss_rates_save(b->params.cache_dir, b->gpu.caps.name, rates_key(b), &o->rates);
    }
    log_decision(b);
    return true;
}

void expert_cpu_offload_close(struct backend *b)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    gpu_command_free(&b->gpu, &o->in_flight);
    gpu_buffer_destroy(&b->gpu, &o->input);
    gpu_buffer_destroy(&b->gpu, &o->sums);
    if (o->rows)
        b->params.expert_rows->close(&o->rows);
}

bool expert_cpu_offload_wanted(const struct backend *b, int32_t n_rows)
{
    const struct expert_cpu_offload *o = &b->cpu_offload;
    return b->model.offloads_misses &&
           (b->params.expert_way == EXPERTS_CPU ? n_rows <= o->rates.rows
                                                : miss_policy_on_cpu(&o->rates, &o->shape, n_rows));
}

bool expert_cpu_offload_select(struct backend *b, int32_t layer, int32_t n_rows)
{
    const struct moe_plan *m = &b->plan->layers[layer].moe;
    int32_t *ids = (int32_t *)(void *)((uint8_t *)b->cpu_offload.input.map + b->cpu_offload.ids_at);
    bool any = b->cpu_offload.measuring;
    for (int32_t i = 0; i < n_rows * m->n_used; i++) {
        /* The ids come from the device: they are checked before they index host memory. */
        if (ids[i] < 0 || ids[i] >= m->n_expert || device_slots_has(&b->slots, layer, ids[i]))
            ids[i] = -1;
        any = any || ids[i] >= 0;
    }
    return any;
}

void expert_cpu_offload_compute(struct backend *b, int32_t layer, int32_t n_rows)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    const uint8_t *input = o->input.map;
    o->computed += (uint64_t)b->params.expert_rows->run(
        o->rows,
        &(struct expert_rows_work){.layer = layer,
                                   .n_rows = n_rows,
                                   .x = (const float *)(const void *)input,
                                   .stride = b->sizes.d,
                                   .ids = (const int32_t *)(const void *)(input + o->ids_at),
                                   .weights = (const float *)(const void *)(input + o->weights_at),
                                   .out = o->sums.map});
}

void expert_cpu_offload_note(struct backend *b)
{
    struct expert_cpu_offload *o = &b->cpu_offload;
    const uint64_t hits = b->slots.hits - o->hits, misses = b->slots.misses - o->misses;
    if (b->model.offloads_misses && hits + misses)
        o->shape.missing += SHARE * ((double)misses / (double)(hits + misses) - o->shape.missing);
    o->hits = b->slots.hits;
    o->misses = b->slots.misses;
}
