/* See speed.h. Small kernels reach a fraction of the device's bandwidth, which differs by shape,
 * format and device; so nothing is calculated from bandwidth: the backend's own steps are timed on
 * a proxy model, kind of layer by kind of layer, and differences between steps tell what its parts
 * cost. */
#include "engine/vulkan/measure/vulkan_speed.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/median.h"
#include "engine/model/model_stats.h"
#include "engine/vulkan/measure/proxy_model.h"
#include "engine/vulkan/measure/repack_bandwidth.h"
#include "engine/vulkan/device/backend_kept.h"
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/device_bandwidth.h"
#include "engine/vulkan/ops/vulkan_step.h"

#define LAYER_BYTES ((uint64_t)96 << 20) /* past the caches of most devices, where the model is */
#define LINK_NS 60000000u
#define WARM_NS 300000000u /* an idle device's clocks are low and want this long to rise */
#define TIME_NS 15000000u  /* of one figure */
#define LEAST_RUNS 5
#define SOFTWARE_RUNS 3 /* nobody waits for its answers, but for its start */
#define MOST_RUNS 64
#define DEPTH                                                                                      \
    4096 /* tokens in KV where attention's share is taken: a GPU reads few of them at a fraction   \
            of its rate */
#define SOFTWARE_DEPTH 1024
#define N_BLOCKS (DEPTH / BACKEND_BLOCK_TOKENS)

struct probe {
    struct proxy_model proxy;
    struct layer_plan *layers; /* all of the proxy's, in the plan and on the device */
    struct device_layer *on_device;
    struct backend *b;
    double bandwidth; /* of the device's memory, bytes per second; 0: a processor's */
    int32_t depth;
    struct err *e;
    bool ok;
};

struct wanted {        /* a step */
    int32_t kind;      /* its layers; -1: none at all */
    int32_t n_layers;  /* so many of them; 0: all that the proxy has */
    int32_t n_experts; /* as step_sequence.n_experts */
    int32_t position;
    bool head;
};

/* The backend runs layers of one kind: they take the first places. */
static void choose(struct probe *p, int32_t kind, int32_t n_layers)
{
    struct backend *b = p->b;
    const struct proxy_model_kind *k = kind < 0 ? NULL : &p->proxy.kinds[kind];
    p->proxy.plan.n_layer = !k ? 0 : n_layers ? n_layers : k->n;
    for (int32_t i = 0; i < p->proxy.plan.n_layer; i++) {
        p->proxy.plan.layers[i] = p->layers[k->first + i];
        b->model.layers[i] = p->on_device[k->first + i];
    }
    while (b->n_recorded) /* of other layers */
        gpu_command_free(&b->gpu, &b->recorded[--b->n_recorded].command);
}

/* Returns the median of the seconds. */
static double time_step(struct probe *p, const struct wanted *w)
{
    static const int32_t token = 0;
    int32_t blocks[N_BLOCKS];
    double runs[MOST_RUNS];
    int n = 0;
    for (int32_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = i;
    struct step_sequence q = {.tokens = &token,
                              .n_tokens = 1,
                              .start = w->position,
                              .blocks = blocks,
                              .state = p->proxy.plan.n_recurrent ? 0 : -1,
                              .n_out = w->head,
                              .n_experts = w->n_experts};
    struct step step = {.sequences = &q, .n_sequences = 1, .n_top = 1};
    struct step_row row;
    const int least = p->b->gpu.caps.software ? SOFTWARE_RUNS : LEAST_RUNS;
    choose(p, w->kind, w->n_layers);
    for (int i = 0; p->ok && i < 2; i++) /* recorded, compiled, warm */
        p->ok = vulkan_step_run(p->b, &step, &row, p->e);
    for (uint64_t began = clock_ns(), at = began;
         p->ok && n < MOST_RUNS && (n < least || at - began < TIME_NS);) {
        p->ok = vulkan_step_run(p->b, &step, &row, p->e);
        uint64_t now = clock_ns();
        runs[n++] = (double)(now - at) * 1e-9;
        at = now;
    }
    return n ? median_of(runs, (size_t)n) : 0;
}

struct times {    /* seconds of a token */
    double begin; /* before its first layer: what a step costs that has layers at all */
    double dense, experts;
    double kv; /* of probe.depth tokens in KV */
};

/* Times one layer of a kind by how much longer a step with more of them takes. `base` is what a
 * step without layers takes. */
static struct times time_kind(struct probe *p, int32_t kind, double base)
{
    const struct proxy_model_kind *k = &p->proxy.kinds[kind];
    const struct layer_plan *l = &p->layers[k->first];
    const int32_t n_used = l->ffn == FFN_MOE ? l->moe.n_used : 0;
    double all = time_step(p, &(struct wanted){.kind = kind}), each = 0;
    if (k->n > 1)
        each = (all - time_step(p, &(struct wanted){.kind = kind, .n_layers = 1})) / (k->n - 1);
    if (!(each > 0)) /* the only one, or a disturbed clock */
        each = all > base ? (all - base) / k->n : 0;
    struct times t = {.begin = all - each * k->n, .dense = each};
    if (n_used > 1) { /* what is left with one expert, less that expert */
        double one = time_step(p, &(struct wanted){.kind = kind, .n_experts = 1});
        t.experts = (all - one) / k->n / (n_used - 1) * n_used;
    }
    if (n_used && !(t.experts > 0 &&
                    t.experts < each)) { /* one expert, or a disturbed clock: by their bytes */
        t.experts = each * (double)k->expert_bytes / (double)k->bytes;
    }
    t.dense -= t.experts;
    if (l->mixer == MIXER_ATTENTION) {
        double deep = time_step(p, &(struct wanted){.kind = kind, .position = p->depth - 1});
        t.kv = deep > all ? (deep - all) / k->n : 0;
    }
    return t;
}

/* The vocabulary's matrix is timed behind layers, which occupy the caches as they do in a model.
 * The proxy's is a part of it: a processor takes as much longer for the whole as it is larger, a
 * GPU only reads the remainder. */
static double time_head(struct probe *p, const struct model_plan *plan)
{
    double with = time_step(p, &(struct wanted){.kind = 0, .head = true}),
           without = time_step(p, &(struct wanted){.kind = 0});
    double part = with > without ? with - without : 0;
    if (!(p->bandwidth > 0))
        return part / p->proxy.head_share;
    return part +
           (1 - p->proxy.head_share) * (double)weight_matrix_bytes(&plan->head) / p->bandwidth;
}

static struct times time_token(struct probe *p, const struct model_plan *plan)
{
    struct times sum = {0};
    if (!p->b->gpu.caps.software)
        p->bandwidth = device_bandwidth_of_weights(p->b, WARM_NS);
    double base = time_step(p, &(struct wanted){.kind = -1});
    for (int32_t i = 0; p->ok && i < p->proxy.n_kinds; i++) {
        struct times t = time_kind(p, i, base);
        sum.begin = t.begin > sum.begin ? t.begin : sum.begin;
        sum.dense += p->proxy.kinds[i].count * t.dense;
        sum.experts += p->proxy.kinds[i].count * t.experts;
        sum.kv += p->proxy.kinds[i].count * t.kv;
    }
    sum.dense += sum.begin + time_head(p, plan);
    return sum;
}

/* Bytes of a layer's experts: of those that a token uses, or of all. */
static uint64_t expert_bytes(const struct layer_plan *l, bool all)
{
    const struct moe_plan *m = &l->moe;
    if (l->ffn != FFN_MOE)
        return 0;
    return (uint64_t)(all ? m->n_expert : m->n_used) *
           (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
            weight_matrix_bytes(&m->down));
}

static uint64_t all_experts(const struct model_plan *plan)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_layer; i++)
        sum += expert_bytes(&plan->layers[i], true);
    return sum;
}

static uint64_t active_experts(const struct model_plan *plan, int32_t *n_moe)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_layer; i++) {
        sum += expert_bytes(&plan->layers[i], false);
        *n_moe += plan->layers[i].ffn == FFN_MOE;
    }
    return sum;
}

/* Shaders reading memory of the host, bytes per second; no more of it than the model's experts will
 * take there. */
static double time_link(struct probe *p, const struct model_plan *plan)
{
    struct gpu_buffer host = {0};
    uint64_t bytes = all_experts(plan);
    bytes = bytes < DEVICE_BANDWIDTH_BUS_BYTES ? bytes : DEVICE_BANDWIDTH_BUS_BYTES;
    p->ok = p->ok &&
            gpu_buffer_create(&p->b->gpu,
                              &(struct gpu_buffer_params){.where = GPU_UPLOAD,
                                                          .size = bytes,
                                                          .name = "probe of the host's memory"},
                              &host, p->e);
    if (p->ok)
        memset(host.map, 0, bytes); /* pages that are there */
    double rate = p->ok ? device_bandwidth_read(p->b, &host, LINK_NS, p->e) : 0;
    gpu_buffer_destroy(&p->b->gpu, &host);
    return rate;
}

/* A layer of streamed experts: its share of recording the step, and a wait for the device in its
 * middle. */
static double time_stop(struct probe *p)
{
    struct backend *b = p->b;
    struct gpu *g = &b->gpu;
    const struct step_shape shape = {.n_rows = 1,
                                     .one_row_each = true,
                                     .has_untiled = true,
                                     .n_sequences = b->plan->n_recurrent && !b->delta_steps};
    double runs[MOST_RUNS];
    b->tuning.resident_groups = 0; /* split experts have a dispatch for each operation */
    choose(p, 0, 0);
    for (int i = 0; p->ok && i < MOST_RUNS; i++) {
        uint64_t began = clock_ns();
        VkCommandBuffer c = forward_record(b, &shape, p->e);
        double recorded = (double)(clock_ns() - began) * 1e-9 / p->proxy.plan.n_layer;
        p->ok = c != VK_NULL_HANDLE;
        gpu_command_free(g, &c);
        began = clock_ns();
        p->ok = p->ok && (c = gpu_command_begin(g, false, p->e)) && gpu_command_end(g, c, p->e) &&
                gpu_run(g, c, p->e);
        gpu_command_free(g, &c);
        runs[i] = recorded + (double)(clock_ns() - began) * 1e-9;
    }
    return p->ok ? median_of(runs, MOST_RUNS) : 0;
}

static const struct moe_plan *some_experts(const struct probe *p)
{
    for (int32_t i = 0; i < p->proxy.n_kinds; i++) {
        const struct layer_plan *l = &p->layers[p->proxy.kinds[i].first];
        if (l->ffn == FFN_MOE)
            return &l->moe;
    }
    return NULL;
}

static void measure(struct probe *p, const struct model_plan *plan,
                    const struct backend_params *params, struct backend_speed *s)
{
    struct model_stats stats = {0};
    int32_t n_moe = 0;
    uint64_t experts = active_experts(plan, &n_moe);
    model_stats_from_plan(&stats, plan);
    struct times t = time_token(p, plan);
    if (!p->ok)
        return;
    *s = (struct backend_speed){.dense = (double)(stats.active_bytes - experts) / t.dense};
    s->experts = t.experts > 0 ? (double)experts / t.experts : 0;
    const enum kv_type stored = kv_type_stored(params->kv_type, !params->exact);
    s->memory = t.kv > 0 ? (double)kv_token_bytes(plan, stored) * p->depth / t.kv : s->dense;
    if (params->device_experts)
        s->link = time_link(p, plan);
    if (params->host_experts) {
        s->waits = true;
        s->layer_s = time_stop(p) * n_moe / plan->n_layer;
        s->unpack = p->ok ? repack_bandwidth(&p->b->gpu, some_experts(p), p->e) : 0;
        p->ok = s->unpack > 0;
    }
}

/* On a device that is open, which is left there, or dropped where it was lost. */
static bool time_device(struct backend_kept **kept, const struct model_plan *plan,
                        const struct backend_params *params, struct backend_speed *s, struct err *e)
{
    struct probe p = {.e = e};
    const uint64_t layers = (*kept)->gpu.caps.software ? 0 : LAYER_BYTES;
    if (!proxy_model_init(&p.proxy, plan, layers, e))
        return false;
    const size_t n = (size_t)p.proxy.plan.n_layer;
    p.proxy.plan.n_ctx = DEPTH;
    p.b = vulkan_backend_create(&p.proxy.plan,
                                &(struct backend_params){.n_blocks = N_BLOCKS,
                                                         .n_states = p.proxy.plan.n_recurrent > 0,
                                                         .max_rows = 1,
                                                         .max_sequences = 1,
                                                         .exact = params->exact,
                                                         .kv_type = params->kv_type,
                                                         .device = params->device,
                                                         .cache_dir = params->cache_dir,
                                                         .kept = kept},
                                e);
    p.layers = malloc(n * sizeof *p.layers);
    p.on_device = malloc(n * sizeof *p.on_device);
    p.ok = p.b && (p.layers && p.on_device
                       ? true
                       : err_set(e, ERR_NOMEM, "no memory for a probe of %zu layers", n));
    if (p.ok) {
        p.depth = p.b->gpu.caps.software ? SOFTWARE_DEPTH : DEPTH;
        memcpy(p.layers, p.proxy.plan.layers, n * sizeof *p.layers);
        memcpy(p.on_device, p.b->model.layers, n * sizeof *p.on_device);
        struct backend_speed found = {0};
        measure(&p, plan, params, &found);
        if (p.ok)
            *s = found;
    }
    if (p.b) {
        /* choose() put some layers into several places, so nothing may loop over them any more. */
        p.proxy.plan.n_layer = 0;
        if (p.b->gpu.lost)
            backend_close(&p.b);
        else
            backend_leave(&p.b, kept);
    }
    free(p.layers);
    free(p.on_device);
    proxy_model_fini(&p.proxy);
    return p.ok;
}

bool vulkan_speed(const struct model_plan *plan, const struct backend_params *params,
                  struct backend_speed *s, struct err *e)
{
    struct backend_kept *own = NULL, **kept = params->kept ? params->kept : &own;
    if (!*kept && !backend_kept_open(kept, params, e))
        return false;
    const bool ok = time_device(kept, plan, params, s, e);
    backend_kept_drop(&own);
    return ok;
}
