/* The backend's table: opening, closing, copies, numbers. */
#include "engine/base/size_text.h"
#include "engine/vulkan/device/backend_kept.h"
#include "engine/vulkan/ops/device_content.h"
#include "engine/vulkan/ops/backend_state.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/vulkan/ops/matrix_places.h"
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/measure/vulkan_speed.h"
#include "engine/vulkan/ops/device_bandwidth.h"
#include "engine/vulkan/ops/delta_net_ops.h"
#include "engine/vulkan/ops/router_fold.h"
#include "engine/vulkan/ops/step_profile.h"
#include "engine/vulkan/ops/vulkan_step.h"

static uint64_t mlp_bytes(const struct mlp_plan *m)
{
    return weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
           weight_matrix_bytes(&m->down);
}

/* Packed bytes that every step reads whatever its rows are. The embedding gives single rows, unless
 * it is the head. */
static uint64_t dense_bytes(const struct model_plan *p)
{
    uint64_t sum = weight_matrix_bytes(&p->head);
    for (int i = 0; i < p->n_layer; i++) {
        const struct layer_plan *l = &p->layers[i];
        const struct attention_plan *a = &l->attention;
        const struct delta_net_plan *r = &l->delta_net;
        if (l->mixer == MIXER_ATTENTION) {
            sum += weight_matrix_bytes(&a->wq) + weight_matrix_bytes(&a->wk) +
                   weight_matrix_bytes(&a->wv) + weight_matrix_bytes(&a->wo);
        } else {
            sum += weight_matrix_bytes(&r->w_qkv) + weight_matrix_bytes(&r->w_z) +
                   weight_matrix_bytes(&r->w_a) + weight_matrix_bytes(&r->w_b) +
                   weight_matrix_bytes(&r->w_out);
        }
        sum += l->ffn == FFN_DENSE ? mlp_bytes(&l->dense)
                                   : weight_matrix_bytes(&l->moe.router) +
                                         (l->moe.has_shared ? mlp_bytes(&l->moe.shared) : 0);
    }
    return sum;
}

/* All but the device. */
static void close_memory(struct backend *b)
{
    if (b->gpu.device) {
        vkDeviceWaitIdle(b->gpu.device);
        for (int i = 0; i < b->n_recorded; i++)
            gpu_command_free(&b->gpu, &b->recorded[i].command);
        expert_cpu_offload_close(b);
        device_slots_close(&b->slots, &b->gpu);
        expert_pool_close(&b->pool, &b->gpu);
        workspace_close(b);
        gpu_buffer_destroy(&b->gpu, &b->content_staging);
    }
    heap_fini(&b->workspace.heap, &b->gpu);
    heap_fini(&b->kv_heap, &b->gpu);
    heap_fini(&b->state_heap, &b->gpu);
    device_model_fini(&b->model, &b->gpu);
}

void backend_close(struct backend **b)
{
    if (!*b)
        return;
    close_memory(*b);
    gpu_close(&(*b)->gpu);
    free(*b);
    *b = NULL;
}

void backend_leave(struct backend **b, struct backend_kept **kept)
{
    close_memory(*b);
    gpu_pipelines_keep(&(*b)->gpu);
    backend_kept_put(kept, &(*b)->gpu);
    free(*b);
    *b = NULL;
}

/* Packed heads are grouped by 16 at least; attn.comp divides a head among a power of two of
 * threads, by eights, of which one has 16 at most. */
static bool check_heads(const struct model_plan *plan, enum kv_type type, struct err *e)
{
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const int32_t d = plan->layers[i].attention.d_head;
        if (plan->layers[i].mixer != MIXER_ATTENTION)
            continue;
        if (d % 8 || d / (d & -d) > 16 || d > KV_MAX_D_HEAD)
            return err_set(e, ERR_UNSUPPORTED,
                           "layer %d: heads of %d dimensions; the GPU takes multiples of 8 up to "
                           "%d whose odd factor is at most 16",
                           i, d, KV_MAX_D_HEAD);
        if (kv_type_packed(type) && d % KV_SMALL_GROUP)
            return err_field(e, ERR_UNSUPPORTED, "kv-type",
                             "layer %d: heads of %d dimensions, %s has multiples of %d up to %d", i,
                             d, kv_type_name(type), KV_SMALL_GROUP, KV_MAX_D_HEAD);
    }
    return true;
}

/* All that can be known without a device: sizes and the list of parts. */
static struct backend *backend_plan(const struct model_plan *plan, const struct backend_params *p,
                                    struct err *e)
{
    struct backend *b = calloc(1, sizeof *b);
    if (!b) {
        err_set(e, ERR_NOMEM, "no memory for the backend");
        return NULL;
    }
    if (plan->encoder) {
        err_set(e, ERR_UNSUPPORTED, "encoders have no kernels on the GPU yet");
        backend_close(&b);
        return NULL;
    }
    b->plan = plan;
    b->params = *p;
    b->kv_type = kv_type_stored(p->kv_type, !p->exact);
    workspace_sizes_of(plan, p, &b->sizes);
    b->tuning = (struct tuning){.threads = 256,
                                .linear_rows = 1,
                                .head_rows = 2,
                                .up_rows = 2,
                                .down_rows = 1,
                                .choice_rows = 4,
                                .gemm_min_rows = UINT32_MAX, /* until the device is known */
                                .gemm_expert_rows = UINT32_MAX,
                                .gemm_head_rows = UINT32_MAX,
                                .gemm_tile_m = 64,
                                .gemm_tile_n = 64,
                                .gemm_buffers = 1};
    b->dense_bytes = dense_bytes(plan);
    b->model.folds_routers = !p->exact && !p->dump && !p->route && !p->host_experts;
    const int32_t n_expert = device_model_most_experts(plan);
    if (n_expert > USED_WORDS * 32) {
        err_set(e, ERR_UNSUPPORTED, "%d experts; the Vulkan kernels take %d", n_expert,
                USED_WORDS * 32);
        backend_close(&b);
    } else if (!check_heads(plan, b->kv_type, e)) {
        backend_close(&b);
    } else if (!device_model_plan(&b->model, plan, p->device_experts, p->host_experts > 0, e) ||
               (p->host_experts &&
                !expert_pool_plan(&b->pool, &b->model, plan, p->host_experts, e)) ||
               !workspace_plan(b, e)) {
        backend_close(&b);
    } else {
        expert_cpu_offload_plan(b);
    }
    return b;
}

static bool open_split_experts(struct backend *b, struct err *e)
{
    struct device_model *m = &b->model;
    if (m->n_slots == 0)
        return true;
    if (m->pooled) {
        return heap_commit(&m->slots, &b->gpu, GPU_LOCAL, "expert slots", e) &&
               device_slots_open(&b->slots, &b->gpu, m, b->plan, e) &&
               expert_pool_open(&b->pool, &b->gpu,
                                &(struct expert_pool_links){&b->slots, m, b->params.experts}, e);
    }
    return heap_commit(&m->host, &b->gpu, expert_cpu_offload_memory(b), "experts in host memory",
                       e) &&
           heap_commit(&m->slots, &b->gpu, GPU_LOCAL, "expert slots", e) &&
           device_slots_open(&b->slots, &b->gpu, m, b->plan, e);
}

/* Sets from how many rows on attention works by tiles and products go through record_gemm.c. The
 * numbers are measured, see docs/speed/vulkan.md. */
static void tune(struct backend *b, bool places_known)
{
    /* Tiles share what they read, but a few of them leave most of the device idle; rows alone
     * spread their context over it. */
    b->tuning.split_blocks = 4;
    b->tuning.deep_splits = 56;
    b->tuning.unit_splits = 8;
    b->tuning.router_rows = 64;
    const bool small = b->plan->d_model < 1024; /* does not fill the matrix units, or a device */
    b->tuning.resident_groups = small ? 0 : b->gpu.caps.multiprocessors;
    b->tuning.tiled_rows = b->gpu.caps.software ? 8 : b->gpu.caps.cooperative_matrix ? 80 : 160;
    if (b->gpu.caps.cooperative_matrix) {
        b->tuning.wide = b->gpu.caps.max_shared >= 40 << 10 ? WIDE_UNITS : WIDE_NONE;
        b->tuning.few = places_known ? WIDE_UNITS : WIDE_NONE;
        b->tuning.few_rows = 64;
        b->tuning.few_split_rows = 8192;
        b->tuning.few_threads = b->gpu.caps.max_threads < 512 ? b->gpu.caps.max_threads : 512;
        b->tuning.wide_groups = 130;
        b->tuning.wide_rows = 32;
        const bool few = places_known && !b->model.n_slots;
        const uint32_t least = record_gemm_takes_three(b) ? 3 : 4;
        b->tuning.gemm_min_rows = small ? UINT32_MAX : few ? least : 5;
        /* Split experts: up to here the processor may compute those without a slot. */
        b->tuning.gemm_expert_rows = small ? UINT32_MAX : few ? least : 9;
        b->tuning.gemm_head_rows = small ? UINT32_MAX : few ? least : 4;
        return;
    }
    b->tuning.gemm_min_rows = 16;
    for (int i = 0; i < b->plan->n_layer; i++) {
        const struct layer_plan *l = &b->plan->layers[i];
        const uint32_t rows = l->ffn == FFN_MOE
                                  ? 4 * (uint32_t)l->moe.n_expert / (uint32_t)l->moe.n_used
                                  : 0; /* 4 for each expert */
        b->tuning.gemm_min_rows = rows > b->tuning.gemm_min_rows ? rows : b->tuning.gemm_min_rows;
    }
    b->tuning.gemm_head_rows = b->tuning.gemm_expert_rows = b->tuning.gemm_min_rows;
}

struct backend *vulkan_backend_create(const struct model_plan *plan, const struct backend_params *p,
                                      struct err *e)
{
    struct backend *b = backend_plan(plan, p, e);
    uint64_t available, total;
    if (!b)
        return NULL;
    if (!p->experts != !p->host_experts) {
        err_set(e, ERR_INTERNAL, "a store of experts and memory for them come together");
        goto fail;
    }
    if (!backend_kept_take(p, &b->gpu, e))
        goto fail;
    bool places_known;
    if (!matrix_places_check(&b->gpu, &places_known, e))
        goto fail;
    tune(b, places_known);
    uint64_t need = heap_planned_bytes(&b->model.heap) + heap_planned_bytes(&b->model.slots) +
                    heap_planned_bytes(&b->workspace.heap) + heap_planned_bytes(&b->kv_heap) +
                    heap_planned_bytes(&b->state_heap);
    gpu_memory_free(&b->gpu, &available, &total);
    if (need > available) {
        char want[SIZE_TEXT], have[SIZE_TEXT], all[SIZE_TEXT];
        err_set(e, ERR_NOMEM, "%s: %s are needed, %s of %s are free", b->gpu.caps.name,
                size_text((double)need, want), size_text((double)available, have),
                size_text((double)total, all));
        goto fail;
    }
    if (!heap_commit(&b->model.heap, &b->gpu, GPU_LOCAL, "weights", e) ||
        !open_split_experts(b, e) || !workspace_open(b, e) || !expert_cpu_offload_open(b, e) ||
        !router_fold_make(b, e)) {
        goto fail;
    }
    return b;
fail:
    backend_close(&b);
    return NULL;
}

static struct backend *backend_open(const struct model_plan *plan, const struct backend_params *p,
                                    struct err *e)
{
    uint64_t start = clock_ns();
    struct backend *b = vulkan_backend_create(plan, p, e);
    if (!b)
        return NULL;
    log_info("device=\"%s\" weights_mb=%.1f kv_mb=%.1f state_mb=%.1f work_mb=%.1f ms=%.0f",
             b->gpu.caps.name, (double)b->model.heap.bytes / 1e6, (double)b->kv_heap.bytes / 1e6,
             (double)b->state_heap.bytes / 1e6, (double)b->workspace.heap.bytes / 1e6,
             (double)(clock_ns() - start) / 1e6);
    if (!b->gpu.caps.cooperative_matrix)
        log_info("prefill on plain arithmetic: this device has no VK_KHR_cooperative_matrix");
    else if (b->tuning.few == WIDE_NONE)
        log_info("few rows by tiles: this device keeps matrices in registers in another order");
    return b;
}

static bool backend_copy_blocks(struct backend *b, const int32_t (*pairs)[2], int32_t n,
                                struct err *e)
{
    struct gpu *g = &b->gpu;
    VkCommandBuffer c = gpu_command_begin(g, false, e);
    if (!c)
        return false;
    for (int i = 0; i < b->plan->n_layer; i++) {
        VkBuffer buffer;
        uint64_t at;
        if (!b->model.layers[i].kv ||
            !heap_locate(&b->kv_heap, b->model.layers[i].kv, &buffer, &at)) {
            continue;
        }
        for (int32_t k = 0; k < n; k++) {
            VkBufferCopy copy = {.srcOffset = at + (uint64_t)pairs[k][0] * b->kv_block_bytes,
                                 .dstOffset = at + (uint64_t)pairs[k][1] * b->kv_block_bytes,
                                 .size = b->kv_block_bytes};
            vkCmdCopyBuffer(c, buffer, buffer, 1, &copy);
        }
    }
    gpu_barrier(c);
    bool ok = gpu_command_end(g, c, e) && gpu_run(g, c, e);
    gpu_command_free(g, &c);
    return ok;
}

static bool backend_copy_state(struct backend *b, int32_t from, int32_t to, struct err *e)
{
    struct gpu *g = &b->gpu;
    if (from < 0 || to < 0 || from >= b->params.n_states || to >= b->params.n_states)
        return err_set(e, ERR_INTERNAL, "copy_state: %d to %d of %d", from, to, b->params.n_states);
    if (from == to)
        return true;
    VkCommandBuffer c = gpu_command_begin(g, false, e);
    if (!c)
        return false;
    for (int i = 0; i < b->plan->n_layer; i++) {
        VkBuffer buffer;
        uint64_t at, bytes = delta_net_state_bytes(&b->plan->layers[i].delta_net);
        if (b->model.layers[i].state &&
            heap_locate(&b->state_heap, b->model.layers[i].state, &buffer, &at)) {
            vkCmdCopyBuffer(c, buffer, buffer, 1,
                            &(VkBufferCopy){.srcOffset = at + (uint64_t)from * bytes,
                                            .dstOffset = at + (uint64_t)to * bytes,
                                            .size = bytes});
        }
    }
    gpu_barrier(c);
    bool ok = gpu_command_end(g, c, e) && gpu_run(g, c, e);
    gpu_command_free(g, &c);
    return ok;
}

/* The store's own memory, for experts on their way from the disk. */
static uint64_t host_cache_bytes(const struct backend *b)
{
    struct expert_counters c = {0};
    if (b->params.experts) {
        expert_cache_counters(b->params.experts, &c);
        c.budget_bytes -= expert_cache_device_share(b->params.experts);
    }
    return c.budget_bytes;
}

static void memory_of(const struct backend *b, bool planned, struct backend_memory *m)
{
    *m = (struct backend_memory){0};
    const uint64_t slots = planned ? heap_planned_bytes(&b->model.slots) : b->model.slots.bytes;
    const uint64_t split_experts =
        planned ? heap_planned_bytes(&b->model.host) + expert_pool_planned_bytes(&b->pool)
                : b->model.host.bytes + expert_pool_bytes(&b->pool) + host_cache_bytes(b);
    const uint64_t table = device_slots_table_bytes(&b->model, b->plan);
    m->weights = slots + (planned ? heap_planned_bytes(&b->model.heap) : b->model.heap.bytes);
    m->kv_type = b->kv_type;
    m->kv = planned ? heap_planned_bytes(&b->kv_heap) : b->kv_heap.bytes;
    m->state = planned ? heap_planned_bytes(&b->state_heap) : b->state_heap.bytes;
    m->work = planned ? heap_planned_bytes(&b->workspace.heap) : b->workspace.heap.bytes;
    m->device = m->weights + m->kv + m->state + m->work;
    m->host = planned ? workspace_host_bytes(b)
                      : b->step.buffer.size + b->result.buffer.size + b->result.full_logits.size;
    m->host += table + expert_cpu_offload_bytes(b) + device_content_staging_bytes(b);
    m->work += m->host;
    m->weights += split_experts;
    m->host += split_experts;
}

static void backend_memory(const struct backend *b, struct backend_memory *m)
{
    memory_of(b, false, m);
}

static bool backend_estimate(const struct model_plan *plan, const struct backend_params *p,
                             struct backend_memory *m, struct err *e)
{
    struct backend *b = backend_plan(plan, p, e);
    if (!b)
        return false;
    memory_of(b, true, m);
    backend_close(&b);
    return true;
}

static void backend_counters(const struct backend *b, struct backend_counters *c)
{
    *c = b->counters;
    c->expert_hits = b->slots.hits;
    c->expert_misses = b->slots.misses;
    c->expert_evictions = b->slots.evictions;
    c->expert_bus_bytes = b->slots.bus_bytes;
    c->expert_copied_bytes = b->slots.copied_bytes;
    c->expert_on_cpu = b->cpu_offload.computed;
}

static const char *backend_device_name(const struct backend *b)
{
    return b->gpu.caps.name;
}

static int32_t backend_threads(const struct backend *b)
{
    return b->cpu_offload.rows ? b->params.expert_rows->threads(b->cpu_offload.rows) : 0;
}

static double backend_read_bandwidth(struct backend *b)
{
    return device_bandwidth_of(b);
}

static bool pick_only(bool *software, struct err *e)
{
    struct gpu g = {0};
    bool ok = gpu_instance_open(&g, e) && gpu_pick(&g, e);
    *software = g.caps.software;
    gpu_instance_close(&g);
    return ok;
}

static bool backend_device(const char *which, struct backend_device *d, struct err *e)
{
    struct gpu g = {.wanted = which};
    bool ok = gpu_instance_open(&g, e) && gpu_pick(&g, e);
    *d = (struct backend_device){.in_ram = g.caps.in_ram,
                                 .slow_prefill = !g.caps.cooperative_matrix};
    if (ok) {
        memcpy(d->name, g.caps.name, sizeof d->name - 1);
        memcpy(d->id, g.caps.id, sizeof d->id);
        gpu_memory_free(&g, &d->available, &d->total);
    }
    gpu_instance_close(&g);
    return ok;
}

static bool backend_means(const char *which, const char *id)
{
    struct gpu g = {0};
    struct err ignored;
    const bool is = gpu_instance_open(&g, &ignored) && gpu_is_named(&g, which, id);
    gpu_instance_close(&g);
    return is;
}

static bool backend_usable(struct err *e)
{
    bool software;
    return pick_only(&software, e);
}

bool vulkan_is_software(void)
{
    bool software = false;
    struct err ignored;
    return pick_only(&software, &ignored) && software;
}

static const struct backend_probe vulkan_probe = {
    .usable = backend_usable,
    .device = backend_device,
    .means = backend_means,
    .estimate = backend_estimate,
    .speed = vulkan_speed,
    .drop = backend_kept_drop,
};

const struct backend_ops vulkan_backend = {
    .name = "vulkan",
    .splits = true,
    .streams = true,
    .probe = &vulkan_probe,
    .open = backend_open,
    .close = backend_close,
    .step = vulkan_step_run,
    .profile = step_profile_run,
    .copy_state = backend_copy_state,
    .copy_blocks = backend_copy_blocks,
    .content = &vulkan_content,
    .memory = backend_memory,
    .counters = backend_counters,
    .device_name = backend_device_name,
    .threads = backend_threads,
    .read_bandwidth = backend_read_bandwidth,
};
