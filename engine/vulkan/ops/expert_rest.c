/* See expert_rest.h. */
#include "engine/vulkan/ops/expert_rest.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/log.h"
#include "engine/vulkan/experts/expert_views.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/wide.h"

#define SHARE 0.02 /* of a step in the moving mean */
#define BUS_SLACK 0.95 /* memory that the processor caches may be so much slower for the device */

static struct expert_rows_params rows_params(const struct backend *b)
{
    return (struct expert_rows_params){.max_rows = b->rest.most, .n_threads = b->params.n_threads, .exact = b->params.exact};
}

void expert_rest_plan(struct backend *b)
{
    const struct backend_params *p = &b->params;
    b->model.leaves = b->model.n_slots && !b->model.pooled && p->expert_rows && p->expert_way != EXPERTS_BUS;
    b->rest.most = p->max_rows < EXPERT_ROWS_MOST ? p->max_rows : EXPERT_ROWS_MOST;
}

static uint64_t rates_key(const struct backend *b)
{
    return miss_policy_key(b->plan, b->params.n_threads, b->params.exact);
}

/* Steps of more are wide.c's. */
static int32_t rows_most(const struct backend *b)
{
    int32_t n = b->rest.most;
    while (n > 0 && wide_takes(b, (uint32_t)n)) {
        n--;
    }
    return n;
}

static uint64_t up_256(uint64_t n)
{
    return (n + 255) / 256 * 256;
}

/* Places in `seen`; returns its size. */
static uint64_t seen_places(const struct backend *b, uint64_t *ids, uint64_t *weights)
{
    const uint64_t rows = (uint64_t)b->rest.most, pairs = up_256(rows * b->sizes.n_used * 4);
    *ids = up_256(rows * b->sizes.d * 4);
    *weights = *ids + pairs;
    return *weights + pairs;
}

static uint64_t sums_bytes(const struct backend *b)
{
    return (uint64_t)b->rest.most * (uint64_t)b->plan->d_model * 4;
}

uint64_t expert_rest_bytes(const struct backend *b)
{
    const struct expert_rows_params p = rows_params(b);
    uint64_t ids, weights;
    return b->model.leaves ? b->params.expert_rows->bytes(b->plan, &p) + seen_places(b, &ids, &weights) + sums_bytes(b) : 0;
}

enum gpu_memory expert_rest_memory(struct backend *b)
{
    struct miss_rates *r = &b->rest.rates;
    if (!b->model.leaves) {
        return GPU_UPLOAD;
    }
    if (b->params.expert_way == EXPERTS_CPU) {
        return GPU_SHARED;
    }
    if (!miss_rates_load(b->params.cache_dir, b->gpu.caps.name, rates_key(b), r)) {
        const double plain = expert_rest_bus(b, GPU_UPLOAD), cached = expert_rest_bus(b, GPU_SHARED);
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
    for (int i = 0; ok && i < b->plan->n_layer; i++) {
        ok = expert_views_of(&b->model, i, &layers[i], e);
    }
    ok = ok && (b->rest.rows = b->params.expert_rows->open(b->plan, layers, &p, e));
    free(layers);
    return ok;
}

static struct miss_shape shape_of(const struct backend *b)
{
    const int32_t most = device_model_most_experts(b->plan);
    struct miss_shape s = miss_shape_of(b->plan, (double)b->model.n_slots / most);
    for (int i = 0; i < b->plan->n_layer; i++) {
        if (b->model.layers[i].apart.gate && b->plan->layers[i].moe.n_expert == most) {
            s.expert_bytes = device_experts_record(&b->model.layers[i].apart);
        }
    }
    return s;
}

static void say(const struct backend *b)
{
    const struct miss_rates *r = &b->rest.rates;
    int32_t first, last;
    char text[64];
    if (b->params.expert_way == EXPERTS_CPU) {
        log_info("experts without a slot: computed on the cpu, as asked for; rows_most=%d", r->rows);
        return;
    }
    const bool any = miss_policy_range(r, &b->rest.shape, &first, &last);
    log_info("experts without a slot: %s; bus_gb_s=%.1f expert_us=%.1f row_us=%.2f meeting_us=%.1f", miss_policy_text(any, first, last, text),
             r->bus * 1e-9, r->expert_s * 1e6, r->row_s * 1e6, r->sync_s * 1e6);
}

bool expert_rest_open(struct backend *b, struct err *e)
{
    struct expert_rest *r = &b->rest;
    if (!b->model.leaves) {
        return true;
    }
    const uint64_t seen = seen_places(b, &r->ids_at, &r->weights_at);
    r->shape = shape_of(b);
    r->rates.rows = rows_most(b);
    if (!rows_open(b, e) || !gpu_buffer_create(&b->gpu, GPU_READBACK, seen, "rows for the processor", &r->seen, e) ||
        !gpu_buffer_create(&b->gpu, GPU_SHARED, sums_bytes(b), "sums of the processor", &r->sums, e)) {
        return false;
    }
    if (b->params.expert_way == EXPERTS_AUTO && r->rates.expert_s == 0) {
        if (!expert_rest_measure(b, e)) {
            return false;
        }
        miss_rates_save(b->params.cache_dir, b->gpu.caps.name, rates_key(b), &r->rates);
    }
    say(b);
    return true;
}

void expert_rest_close(struct backend *b)
{
    struct expert_rest *r = &b->rest;
    gpu_command_free(&b->gpu, &r->running);
    gpu_buffer_destroy(&b->gpu, &r->seen);
    gpu_buffer_destroy(&b->gpu, &r->sums);
    if (r->rows) {
        b->params.expert_rows->close(&r->rows);
    }
}

bool expert_rest_wanted(const struct backend *b, int32_t n_rows)
{
    const struct expert_rest *r = &b->rest;
    return b->model.leaves && (b->params.expert_way == EXPERTS_CPU ? n_rows <= r->rates.rows : miss_policy_on_cpu(&r->rates, &r->shape, n_rows));
}

bool expert_rest_pick(struct backend *b, int32_t layer, int32_t n_rows)
{
    const struct moe_plan *m = &b->plan->layers[layer].moe;
    int32_t *ids = (int32_t *)(void *)((uint8_t *)b->rest.seen.map + b->rest.ids_at);
    bool any = b->rest.always;
    for (int32_t i = 0; i < n_rows * m->n_used; i++) {
        /* A device's word is not taken for an index unseen. */
        if (ids[i] < 0 || ids[i] >= m->n_expert || device_slots_has(&b->slots, layer, ids[i])) {
            ids[i] = -1;
        }
        any = any || ids[i] >= 0;
    }
    return any;
}

void expert_rest_compute(struct backend *b, int32_t layer, int32_t n_rows)
{
    struct expert_rest *r = &b->rest;
    const uint8_t *seen = r->seen.map;
    r->computed += (uint64_t)b->params.expert_rows->run(
        r->rows, &(struct expert_rows_work){.layer = layer, .n_rows = n_rows, .x = (const float *)(const void *)seen, .stride = b->sizes.d,
                                            .ids = (const int32_t *)(const void *)(seen + r->ids_at),
                                            .weights = (const float *)(const void *)(seen + r->weights_at), .out = r->sums.map});
}

void expert_rest_note(struct backend *b)
{
    struct expert_rest *r = &b->rest;
    const uint64_t hits = b->slots.hits - r->hits, misses = b->slots.misses - r->misses;
    if (b->model.leaves && hits + misses) {
        r->shape.missing += SHARE * ((double)misses / (double)(hits + misses) - r->shape.missing);
    }
    r->hits = b->slots.hits;
    r->misses = b->slots.misses;
}
