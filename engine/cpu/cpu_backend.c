/* The cpu backend's table: opening, memory, counters, what it would need. The step is in step.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/cpu/cpu_content.h"
#include "engine/cpu/head.h"
#include "engine/cpu/interleave/interleaved_weights.h"
#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/layout.h"
#include "engine/cpu/mixer.h"
#include "engine/cpu/measure/bandwidth.h"
#include "engine/cpu/measure/speed.h"
#include "engine/cpu/open.h"
#include "engine/cpu/router.h"
#include "engine/cpu/step.h"
#include "engine/experts/cache/expert_cache.h"

/* Pages come zeroed and become real when first written: blocks that no sequence has used cost
 * nothing. */
static bool map_memory(void *at, size_t bytes, const char *what, struct err *e)
{
    void **p = at;
    if (!bytes)
        return true;
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (m == MAP_FAILED)
        return err_set(e, ERR_NOMEM, "no memory for %s (%zu bytes)", what, bytes);
    *p = m;
    return true;
}

static void unmap_memory(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

static bool check_params(const struct model_plan *plan, const struct backend_params *p,
                         struct err *e)
{
    if (p->max_rows < 1 || p->max_sequences < 1 || p->n_blocks < 0 || p->n_states < 0 ||
        p->provisional_rows < 0)
        return err_set(e, ERR_INPUT, "cpu: max_rows %d, max_sequences %d, n_blocks %d, n_states %d",
                       p->max_rows, p->max_sequences, p->n_blocks, p->n_states);
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct layer_plan *layer = &plan->layers[i];
        if (layer->mixer == MIXER_ATTENTION && layer->attention.d_head % 16)
            return err_set(e, ERR_UNSUPPORTED,
                           "layer %d: heads of %d dimensions, want a multiple of 16", i,
                           layer->attention.d_head);
        if (layer->mixer == MIXER_ATTENTION && kv_type_packed(p->kv_type) &&
            layer->attention.d_head > KV_MAX_D_HEAD)
            return err_field(e, ERR_UNSUPPORTED, "kv-type",
                             "layer %d: heads of %d dimensions, %s has at most %d", i,
                             layer->attention.d_head, kv_type_name(p->kv_type), KV_MAX_D_HEAD);
        const struct delta_net_plan *d = &layer->delta_net;
        if (layer->mixer == MIXER_DELTA_NET &&
            (d->d_k % 16 || d->d_v % 16 || d->n_conv < 2 || d->n_conv > CONVOLUTION_MAX_TAPS + 1))
            return err_set(e, ERR_UNSUPPORTED,
                           "layer %d: DeltaNet heads of %d and %d dimensions, a convolution of %d; "
                           "want multiples of 16, 2..%d",
                           i, d->d_k, d->d_v, d->n_conv, CONVOLUTION_MAX_TAPS + 1);
        if (layer->ffn == FFN_MOE && layer->moe.n_expert > ROUTER_MAX_EXPERTS)
            return err_set(e, ERR_UNSUPPORTED, "layer %d: %d experts, at most %d", i,
                           layer->moe.n_expert, ROUTER_MAX_EXPERTS);
    }
    return true;
}

static void place_views(struct backend *b)
{
    char *at = b->kv;
    for (int32_t i = 0; i < b->plan->n_layer; i++) {
        const struct layer_plan *layer = &b->plan->layers[i];
        if (layer->mixer != MIXER_ATTENTION)
            continue;
        const struct attention_plan *a = &layer->attention;
        const enum kv_type type = layout_kv_type(b->kernels, &b->params);
        size_t bytes = backend_block_bytes(a->n_kv_head, a->d_head, type);
        b->views[layer->kv_index] = (struct kv_view){.data = at,
                                                     .block_bytes = bytes,
                                                     .n_kv_head = a->n_kv_head,
                                                     .d_head = a->d_head,
                                                     .type = type};
        at += bytes * (size_t)b->params.n_blocks;
    }
}

static bool allocate(struct backend *b, struct err *e)
{
    const struct model_plan *plan = b->plan;
    struct layout l = {
        .plan = plan, .params = &b->params, .kernels = b->kernels, .n_workers = b->n_workers};
    b->workers = calloc((size_t)b->n_workers, sizeof *b->workers);
    b->views = calloc((size_t)plan->n_attention + 1, sizeof *b->views);
    b->state_at = calloc((size_t)plan->n_recurrent + 1, sizeof *b->state_at);
    if (!b->workers || !b->views || !b->state_at)
        return err_set(e, ERR_NOMEM, "no memory for the cpu backend");
    b->kv_bytes = layout_kv_bytes(&l);
    b->state_values = layout_state_values(&l, b->state_at);
    b->workspace_bytes = layout_workspace(&l, NULL, NULL);
    if (!map_memory(&b->kv, b->kv_bytes, "keys and values", e) ||
        !map_memory(&b->state, b->state_values * sizeof(float) * (size_t)b->params.n_states,
                    "recurrent states", e) ||
        !map_memory(&b->workspace, b->workspace_bytes, "work buffers", e))
        return false;
    /* Rows of activations lie pages apart: of small ones, a prompt's are more than the processor
     * has translations at hand. A kernel that refuses leaves them small. */
    madvise(b->workspace, b->workspace_bytes, MADV_HUGEPAGE);
    layout_workspace(&l, b, b->workspace);
    if (!head_reserve_decode(b, e))
        return false;
    place_views(b);
    for (int32_t i = 0; i < b->n_workers; i++) {
        b->workers[i].backend = b;
        b->workers[i].index = i;
    }
    return true;
}

static void cpu_close(struct backend **bb)
{
    struct backend *b = *bb;
    *bb = NULL;
    if (!b)
        return;
    if (!b->params.team)
        thread_pool_destroy(&b->pool);
    unmap_memory(b->kv, b->kv_bytes);
    unmap_memory(b->state, b->state_values * sizeof(float) * (size_t)b->params.n_states);
    unmap_memory(b->workspace, b->workspace_bytes);
    free(b->workers);
    free(b->views);
    free(b->state_at);
    free(b->logits);
    free(b->top_ids);
    free(b->top_logits);
    free(b->log_sum_exp);
    free(b);
}

static bool reads_interleaved(const struct kernels *k, const struct backend_params *p)
{
    return p->one_byte && !p->exact && k->reads_interleaved;
}

struct backend *cpu_open_with(const struct model_plan *plan, const struct backend_params *p,
                              const struct kernels *kernels, struct err *e)
{
    if (!check_params(plan, p, e))
        return NULL;
    if (p->one_byte && kernels->kinds == PANEL_F32) {
        err_set(e, ERR_INPUT,
                "activations of 8 bits need a processor with AVX2: the %s kernels "
                "compute with 32",
                kernels->name);
        return NULL;
    }
    const bool interleaved = interleaved_weights_any(plan);
    if (interleaved && !reads_interleaved(kernels, p)) {
        err_set(e, ERR_INTERNAL, "cpu: the plan's weights are interleaved for other kernels");
        return NULL;
    }
    struct backend *b = calloc(1, sizeof *b);
    if (!b) {
        err_set(e, ERR_NOMEM, "no memory for the cpu backend");
        return NULL;
    }
    b->plan = plan;
    b->params = *p;
    b->kernels = kernels;
    b->pool = p->team ? p->team : thread_pool_create(p->n_threads, e);
    if (b->pool)
        b->n_workers = thread_pool_threads(b->pool);
    if (!b->pool || !allocate(b, e))
        cpu_close(&b);
    else
        snprintf(b->device, sizeof b->device, "cpu, %d thread%s, %s kernels%s%s", b->n_workers,
                 b->n_workers == 1 ? "" : "s", kernels->name,
                 p->one_byte ? ", 8-bit activations" : "",
                 interleaved ? ", interleaved weights" : "");
    return b;
}

static struct backend *cpu_open(const struct model_plan *plan, const struct backend_params *p,
                                struct err *e)
{
    return cpu_open_with(plan, p, kernels_best(), e);
}

static bool copy_state(struct backend *b, int32_t from, int32_t to, struct err *e)
{
    if (from < 0 || to < 0 || from >= b->params.n_states || to >= b->params.n_states)
        return err_set(e, ERR_INTERNAL, "copy_state: %d to %d of %d", from, to, b->params.n_states);
    memmove(b->state + (size_t)to * b->state_values, b->state + (size_t)from * b->state_values,
            b->state_values * sizeof(float));
    return true;
}

static bool copy_blocks(struct backend *b, const int32_t (*pairs)[2], int32_t n, struct err *e)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t from = pairs[i][0], to = pairs[i][1];
        if (from < 0 || to < 0 || from >= b->params.n_blocks || to >= b->params.n_blocks)
            return err_set(e, ERR_INTERNAL, "copy_blocks: %d to %d of %d", from, to,
                           b->params.n_blocks);
        for (int32_t layer = 0; layer < b->plan->n_attention; layer++) {
            const struct kv_view *v = &b->views[layer];
            memmove((char *)v->data + (size_t)to * v->block_bytes,
                    (char *)v->data + (size_t)from * v->block_bytes, v->block_bytes);
        }
    }
    return true;
}

/* Streamed weights stay as they are. */
static struct interleaved_weights *interleave(const struct model *m, const struct backend_params *p)
{
    const struct kernels *k = kernels_best();
    if (!reads_interleaved(k, p) || p->streams || p->experts)
        return NULL;
    return interleaved_weights_open(
        &(struct interleaved_weights_params){.plan = model_plan(m),
                                             .model = m,
                                             .reads = k->reads_interleaved,
                                             .kernels = k->name,
                                             .team = p->team,
                                             .n_threads = p->n_threads});
}

/* All of the plan's; with a store its budget in place of the experts. */
static uint64_t weight_bytes(const struct model_plan *plan, const struct expert_cache *experts)
{
    struct expert_counters c;
    if (!experts)
        return layout_weight_bytes(plan);
    expert_cache_counters(experts, &c);
    return layout_dense_bytes(plan) + c.budget_bytes;
}

static void memory(const struct backend *b, struct backend_memory *m)
{
    size_t logits = (size_t)b->logits_rows * (size_t)b->plan->n_vocab * sizeof(float);
    size_t tops = (size_t)b->top_rows * (BACKEND_MAX_TOP * 8 + 4);
    *m = (struct backend_memory){.weights = weight_bytes(b->plan, b->params.experts),
                                 .kv = b->kv_bytes,
                                 .state =
                                     b->state_values * sizeof(float) * (size_t)b->params.n_states,
                                 .work = b->workspace_bytes + logits + tops,
                                 .kv_type = layout_kv_type(b->kernels, &b->params)};
    m->host = m->weights + m->kv + m->state + m->work;
}

static void counters(const struct backend *b, struct backend_counters *c)
{
    *c = b->counters;
}

static const char *device_name(const struct backend *b)
{
    return b->device;
}

static int32_t threads(const struct backend *b)
{
    return b->n_workers;
}

static struct thread_pool *team(const struct backend *b)
{
    return b->pool;
}

static double read_bandwidth(struct backend *b)
{
    return bandwidth_measure(b->pool);
}

static bool estimate(const struct model_plan *plan, const struct backend_params *p,
                     struct backend_memory *m, struct err *e)
{
    if (!check_params(plan, p, e))
        return false;
    struct layout l = {.plan = plan,
                       .params = p,
                       .kernels = kernels_best(),
                       .n_workers = thread_pool_size(p->n_threads)};
    size_t results = head_decode_bytes(plan, p->max_sequences);
    *m = (struct backend_memory){.weights = weight_bytes(plan, p->experts),
                                 .kv = layout_kv_bytes(&l),
                                 .state = layout_state_values(&l, NULL) * sizeof(float) *
                                          (size_t)p->n_states,
                                 .work = layout_workspace(&l, NULL, NULL) + results,
                                 .kv_type = layout_kv_type(l.kernels, p)};
    m->host = m->weights + m->kv + m->state + m->work;
    return true;
}

static bool device(const char *which, struct backend_device *d, struct err *e)
{
    *d = (struct backend_device){0};
    snprintf(d->name, sizeof d->name, "cpu, %s kernels", kernels_best()->name);
    return true;
}

static bool usable(struct err *e)
{
    return true;
}

static const struct backend_probe cpu_probe = {
    .usable = usable,
    .device = device,
    .estimate = estimate,
    .speed = speed_measure,
};

static const struct backend_interleaving cpu_interleaving = {
    .open = interleave,
    .plan = interleaved_weights_plan,
    .close = interleaved_weights_close,
};

const struct backend_ops cpu_backend = {
    .name = "cpu",
    .streams = true,
    .prefetches = true,
    .embeds = true,
    .hands_hidden = true,
    .probe = &cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .step = step_run,
    .keep_rows = delta_net_keep,
    .copy_state = copy_state,
    .copy_blocks = copy_blocks,
    .content = &cpu_content,
    .interleaving = &cpu_interleaving,
    .memory = memory,
    .counters = counters,
    .device_name = device_name,
    .threads = threads,
    .read_bandwidth = read_bandwidth,
    .team = team,
};
