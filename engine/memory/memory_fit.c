/* Fits one strategy onto one target: weights first, then the KV pool, then caches and device
 * slots with what is left. */
#include "engine/memory/memory_fit.h"

#include <stdio.h>

#include "engine/base/size_text.h"
#include "engine/memory/memory_text.h"

#define STAGING_BYTES                                                                              \
    ((uint64_t)256 << 20) /* for experts on their way to the device: enough for the disk's queue   \
                           */
#define ROUNDINGS 8       /* attempts, because slots of several sizes may round up past the limit */
#define LARGE_CHUNK                                                                                \
    2048 /* prompt tokens of a step while streaming, where each expert is read once per chunk, and \
            on GPUs, which fewer do not fill. Steps beside answers stay short, see                 \
            prefill_budget.h */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sub_or_zero(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t ram_limit(const struct memory_input *in)
{
    uint64_t limit = sub_or_zero(in->machine.available,
                                 memory_reserve(in->machine.total) + MEMORY_PROCESS_BYTES);
    if (in->request.ram_budget)
        limit = min_u64(limit, sub_or_zero((uint64_t)in->request.ram_budget, MEMORY_PROCESS_BYTES));
    return sub_or_zero(limit, in->request.beside_host);
}

static uint64_t gpu_limit(const struct memory_input *in, const struct memory_target *at)
{
    const uint64_t limit = in->request.gpu_budget
                               ? min_u64(at->available, (uint64_t)in->request.gpu_budget)
                               : at->available;
    return limit == UINT64_MAX ? limit : sub_or_zero(limit, in->request.beside_device);
}

static bool on_gpu(const struct memory_input *in, const struct memory_plan *p)
{
    return in->targets[p->target].gpu;
}

static bool streams(const struct memory_plan *p)
{
    return p->strategy == STRATEGY_SSD_STREAMING;
}

/* True if experts are stored separately from the other weights, some in slots on the device. */
static bool has_slots(const struct memory_input *in, const struct memory_plan *p)
{
    return p->strategy == STRATEGY_HYBRID || (streams(p) && on_gpu(in, p));
}

/* Nothing where no step verifies drafts, or no prefix is kept. */
static uint64_t recall_of(const struct memory_input *in, const struct memory_plan *p)
{
    const bool keeps = !in->model.recurrent || p->size.n_checkpoints;
    if (!in->request.speculates || in->request.no_recall || !in->targets[p->target].verifies)
        return 0;
    return keeps ? (uint64_t)p->size.n_blocks * MEMORY_RECALL_BYTES : 0;
}

bool memory_fit_parts(const struct memory_input *in, struct memory_plan *p, struct err *e)
{
    const struct memory_target *at = &in->targets[p->target];
    struct backend_params params = memory_plan_params(p, &in->request);
    struct backend_memory m;
    if (!at->estimate(at->context, &params, &m, e))
        return false;
    uint64_t once = m.weights; /* each expert counted once */
    if (has_slots(in, p)) {
        struct backend_memory whole;
        params.device_experts = params.host_experts = 0;
        if (!at->estimate(at->context, &params, &whole, e))
            return false;
        once = whole.weights;
    }
    p->dense = sub_or_zero(once, in->model.experts);
    if (p->strategy == STRATEGY_HYBRID)
        p->expert_cache = sub_or_zero(m.weights, once);
    else if (has_slots(in, p))
        p->expert_cache = sub_or_zero(m.weights, p->dense) + p->staging;
    p->experts = streams(p) ? 0 : m.weights - p->dense - p->expert_cache;
    p->kv = m.kv;
    p->kv_stored = m.kv_type;
    p->kv_per_token = in->model.kv_per_token[m.kv_type];
    p->state = m.state;
    p->work = m.work;
    p->device = m.device;
    p->recall = recall_of(in, p);
    p->host = m.host + p->staging + p->recall;
    if (streams(p) && !has_slots(in, p)) /* the estimate has all experts in RAM */
        p->host += p->expert_cache - (m.weights - p->dense);
    p->total = once + m.kv + m.state + m.work + p->recall;
    return true;
}

/* Measures the bytes of one KV block and one state as this backend stores them. It uses the
 * difference between two pool sizes, since a pool has fixed parts. */
static bool measure_pools(const struct memory_input *in, const struct memory_plan *p,
                          struct sizing_model *out, struct err *e)
{
    enum { FEW = 64, MANY = 128 };
    struct memory_plan a = *p, b;
    a.size = (struct sizing){
        .n_slots = 1, .n_blocks = FEW, .max_rows = 64, .n_states = in->model.recurrent ? 1 : 0};
    b = a;
    b.size.n_blocks = MANY;
    if (!memory_fit_parts(in, &a, e) || !memory_fit_parts(in, &b, e))
        return false;
    *out = (struct sizing_model){.n_ctx = in->model.n_ctx,
                                 .block_bytes = (b.kv - a.kv) / (MANY - FEW),
                                 .state_bytes = a.state};
    return true;
}

static uint64_t taken(const struct memory_plan *p, bool device)
{
    return device ? p->device : p->host;
}

static uint64_t ram_taken(const struct memory_input *in, const struct memory_plan *p)
{
    return p->host + (in->targets[p->target].in_ram ? p->device : 0);
}

/* Chooses sizes for the memory left beside weights and workspace, and shrinks those that were not
 * requested. p->size may still be too large in the end: the caller checks. */
static bool fit_sizes(const struct memory_input *in, struct memory_plan *p, uint64_t limit,
                      struct sizing_request request, struct err *e)
{
    struct sizing_model pools;
    bool device = on_gpu(in, p);
    if (!measure_pools(in, p, &pools, e) || !sizing_choose(&pools, &request, 0, &p->size, e))
        return false;
    struct memory_plan one = *p; /* the minimum: one context, no checkpoints */
    one.size.n_blocks = sizing_one_context(&p->size);
    one.size.n_states -= one.size.n_checkpoints;
    if (!memory_fit_parts(in, &one, e))
        return false;
    uint64_t rest = sub_or_zero(limit, sub_or_zero(taken(&one, device), one.kv));
    if (rest >= one.kv && !request.kv_bytes && !sizing_choose(&pools, &request, rest, &p->size, e))
        return false;
    if (!memory_fit_parts(in, p, e))
        return false;
    while (taken(p, device) > limit && !request.kv_bytes && sizing_shrink(&p->size))
        if (!memory_fit_parts(in, p, e))
            return false;
    return true;
}

/* A larger chunk is better where its buffers stay small beside the rest, and no smaller pool of KV
 * pays for it. */
static bool fit_large_chunk(const struct memory_input *in, struct memory_plan *p, uint64_t limit,
                            struct sizing_request request, struct err *e)
{
    struct memory_plan large = *p;
    const int32_t blocks = streams(p) ? 0 : p->size.n_blocks;
    request.prefill_chunk = LARGE_CHUNK;
    if (!fit_sizes(in, &large, limit, request, e))
        return false;
    if (taken(&large, on_gpu(in, p)) <= limit && large.work <= limit / 8 &&
        large.size.n_blocks >= blocks)
        *p = large;
    return true;
}

static bool fit_pools(const struct memory_input *in, struct memory_plan *p, uint64_t limit,
                      struct err *e)
{
    const struct sizing_request request = in->request.size;
    const struct memory_target *t = &in->targets[p->target];
    if (in->request.fixed.n_blocks) {
        p->size = in->request.fixed;
        return memory_fit_parts(in, p, e);
    }
    if (!fit_sizes(in, p, limit, request, e))
        return false;
    return request.prefill_chunk || !(streams(p) || (on_gpu(in, p) && !t->in_ram)) ||
           fit_large_chunk(in, p, limit, request, e);
}

static bool too_much(struct memory_fit *fit, bool device, uint64_t need, uint64_t limit,
                     const struct memory_plan *p)
{
    char a[24], b[24], c[24], d[24], f[24];
    fit->no_memory = true;
    fit->on_device = device;
    fit->need = need;
    fit->limit = limit;
    snprintf(fit->why, sizeof fit->why,
             "needs %s of %s (weights %s, KV %s, the rest %s), %s may be taken",
             size_text((double)need, a), device ? "GPU memory" : "RAM",
             size_text((double)(p->dense + p->experts + p->expert_cache), b),
             size_text((double)p->kv, c), size_text((double)(p->state + p->work), d),
             size_text((double)limit, f));
    return false;
}

/* The smallest cache in RAM: a device needs all experts of a layer that a step uses at once, beside
 * the staging memory. */
static uint64_t cache_least(const struct memory_input *in, const struct memory_plan *p)
{
    return has_slots(in, p) ? in->model.layer_most + in->model.layer_most / 8 + p->staging
                            : in->model.cache_least;
}

/* Plans a cache of this many bytes in RAM for the device, or somewhat less: each size of record
 * gets whole slots. */
static bool fit_host_experts(const struct memory_input *in, struct memory_plan *p, uint64_t bytes,
                             uint64_t limit, struct memory_fit *fit)
{
    const uint64_t minimum = cache_least(in, p) - p->staging;
    p->host_experts = bytes;
    for (int i = 0; i < ROUNDINGS; i++) {
        if (!memory_fit_parts(in, p, &fit->refused))
            return false;
        if (p->host <= limit || p->host - limit > sub_or_zero(p->host_experts, minimum))
            break;
        p->host_experts -= p->host - limit;
    }
    return p->host <= limit || too_much(fit, false, p->host, limit, p);
}

/* The cache in RAM gets what is left, or what was requested. */
static bool fit_cache(const struct memory_input *in, struct memory_plan *p, uint64_t limit,
                      struct memory_fit *fit)
{
    char a[24], b[24];
    const bool device = has_slots(in, p);
    const uint64_t request = (uint64_t)in->request.expert_cache,
                   cache_now = device ? p->host_experts + p->staging : p->expert_cache;
    const uint64_t minimum = cache_least(in, p), beside = sub_or_zero(p->host, cache_now);
    if (request && request < minimum) {
        fit->no_memory = true;
        snprintf(fit->why, sizeof fit->why, "an expert cache of %s is too small, the least is %s",
                 size_text((double)request, a), size_text((double)minimum, b));
        return false;
    }
    uint64_t cache = request ? request : sub_or_zero(limit, beside);
    cache = min_u64(cache < minimum ? minimum : cache,
                    in->model.cache_most > minimum ? in->model.cache_most : minimum);
    if (device)
        return fit_host_experts(in, p, cache - p->staging, limit, fit);
    p->expert_cache = cache;
    p->host = beside + p->expert_cache;
    return p->host <= limit || too_much(fit, false, p->host, limit, p);
}

/* Slots get what the device has left, or what was requested, but never room for all experts: that
 * would be full_gpu. */
static bool fit_slots(const struct memory_input *in, struct memory_plan *p, struct memory_fit *fit)
{
    if ((in->request.expert_cache && !streams(p)) || taken(p, true) >= p->gpu_limit)
        return true;
    p->device_experts = min_u64(p->device_experts + p->gpu_limit - taken(p, true),
                                in->model.experts - in->model.experts / 8);
    return memory_fit_parts(in, p, &fit->refused);
}

static void describe(const struct memory_input *in, struct memory_plan *p)
{
    const struct memory_target *at = &in->targets[p->target];
    snprintf(p->backend, sizeof p->backend, "%s", at->backend);
    snprintf(p->gpu_name, sizeof p->gpu_name, "%s", at->device ? at->device : "");
    snprintf(p->gpu_id, sizeof p->gpu_id, "%s", at->device_id ? at->device_id : "");
    p->reserve = memory_reserve(in->machine.total) + MEMORY_PROCESS_BYTES;
    p->ram_total = in->machine.total;
    p->ram_available = in->machine.available;
    p->gpu_total = at->total;
    p->gpu_available = at->available;
    p->expert_way = p->strategy == STRATEGY_HYBRID ? in->request.expert_way : EXPERTS_AUTO;
    if (p->strategy == STRATEGY_HYBRID)
        snprintf(p->expert_text, sizeof p->expert_text, "%s",
                 p->expert_way == EXPERTS_BUS   ? "read over the bus"
                 : p->expert_way == EXPERTS_CPU ? "computed on the cpu"
                                                : "by rates measured at the load");
    p->n_layer = in->model.n_layer;
    p->gpu_layers = at->gpu ? in->model.n_layer : 0;
    p->cpu_layers = p->n_layer - p->gpu_layers;
}

/* With KV of this type. */
static bool fit_type(const struct memory_input *in, enum kv_type type, struct memory_fit *fit,
                     struct memory_plan *out)
{
    struct memory_plan p = {.strategy = fit->strategy, .target = fit->target, .kv_type = type};
    p.ram_limit = ram_limit(in);
    p.gpu_limit = gpu_limit(in, &in->targets[p.target]);
    if (in->targets[p.target].in_ram) {
        p.ram_limit = sub_or_zero(p.ram_limit, in->request.beside_device);
        p.gpu_limit = min_u64(p.gpu_limit, p.ram_limit);
    }
    bool device = on_gpu(in, &p);
    uint64_t limit = device ? p.gpu_limit : p.ram_limit;
    if (has_slots(in, &p)) /* what the pools must leave free; fit_slots adds the rest */
        p.device_experts = in->request.expert_cache && !streams(&p)
                               ? (uint64_t)in->request.expert_cache
                               : in->model.slots_least;
    if (streams(&p) && device) {
        p.staging = min_u64(STAGING_BYTES, in->model.cache_most / 8);
        p.staging = p.staging < in->model.cache_least ? in->model.cache_least : p.staging;
        p.host_experts = cache_least(in, &p) - p.staging;
    } else if (streams(&p)) {
        p.expert_cache =
            in->request.expert_cache ? (uint64_t)in->request.expert_cache : in->model.cache_least;
    }
    if (!fit_pools(in, &p, limit, &fit->refused) ||
        (has_slots(in, &p) && !fit_slots(in, &p, fit))) {
        fit->no_memory = fit->refused.code == ERR_LIMIT;
        snprintf(fit->why, sizeof fit->why, "%.191s", fit->refused.text);
        return false;
    }
    if (streams(&p) && !fit_cache(in, &p, p.ram_limit, fit))
        return false;
    if (taken(&p, device) > limit)
        return too_much(fit, device, taken(&p, device), limit, &p);
    if (ram_taken(in, &p) > p.ram_limit)
        return too_much(fit, false, ram_taken(in, &p), p.ram_limit, &p);
    describe(in, &p);
    *out = p;
    return true;
}

/* True if the pool is what was asked for, or what is chosen where memory is no matter. */
static bool pool_is_whole(const struct memory_input *in, const struct memory_plan *p)
{
    const int32_t one = sizing_one_context(&p->size);
    return in->request.fixed.n_blocks || in->request.size.kv_bytes ||
           p->size.n_blocks >= sizing_chosen_blocks(one, p->size.n_slots);
}

bool memory_fit_try(const struct memory_input *in, struct memory_fit *fit, struct memory_plan *out)
{
    const bool chosen = in->request.kv_type == KV_AUTO && !in->request.exact;
    struct memory_plan packed;
    struct memory_fit less = *fit;
    const bool fits = fit_type(in, chosen ? KV_F16 : in->request.kv_type, fit, out);
    if (!chosen || (fits && pool_is_whole(in, out)) || (!fits && !fit->no_memory))
        return fits;
    const bool fits_packed = fit_type(in, KV_Q8, &less, &packed);
    if (fits_packed)
        *out = packed;
    else if (!fits && less.no_memory)
        *fit = less; /* it says what is needed at least */
    return fits || fits_packed;
}
