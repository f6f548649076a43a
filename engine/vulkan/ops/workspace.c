/* Memory beside the weights: activations, KV, the step's variables, results. Sizes follow the plan
 * and max_rows. */
#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/delta_net_ops.h"
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/shaders/interface.h"

#include <string.h>

#define TOP_SLICE 2048 /* rows of logits that a workgroup of top.comp sorts, SPEC_SLICE */

static uint32_t pad32(int64_t n)
{
    return (uint32_t)((n + 31) / 32 * 32);
}

static void widen(uint32_t *most, int64_t n)
{
    uint32_t padded = pad32(n);
    if (padded > *most)
        *most = padded;
}

static void sizes_of_layer(const struct layer_plan *l, struct workspace_sizes *s)
{
    const struct attention_plan *a = &l->attention;
    if (l->mixer == MIXER_ATTENTION) {
        widen(&s->qkv, (int64_t)a->wq.rows + a->wk.rows + a->wv.rows);
        widen(&s->attn, (int64_t)a->n_head * a->d_head);
        uint32_t group = (uint32_t)(a->n_head / a->n_kv_head);
        s->n_kv_head =
            (uint32_t)a->n_kv_head > s->n_kv_head ? (uint32_t)a->n_kv_head : s->n_kv_head;
        s->d_head = (uint32_t)a->d_head > s->d_head ? (uint32_t)a->d_head : s->d_head;
        s->group = group > s->group ? group : s->group;
        /* As many as record_attention.c can make of them: it takes 8, 4, 2 or 1 at a time. */
        uint32_t each = group > 4 ? 8 : group > 2 ? 4 : group;
        uint32_t heads = (group + each - 1) / each * each;
        s->heads = heads > s->heads ? heads : s->heads;
    }
    if (l->mixer == MIXER_DELTA_NET) {
        const struct delta_net_plan *p = &l->delta_net;
        widen(&s->qkv, (int64_t)p->w_qkv.rows + p->w_z.rows + p->w_a.rows + p->w_b.rows);
        widen(&s->attn, (int64_t)p->n_v_head * p->d_v);
        widen(&s->channels, delta_net_channels(p));
        widen(&s->gates, (int64_t)p->n_v_head * 2);
    }
    if (l->ffn == FFN_DENSE) {
        widen(&s->h, l->dense.d_ff);
        return;
    }
    widen(&s->expert, (int64_t)l->moe.n_expert + (l->moe.shared_gate.type != WEIGHT_NONE));
    widen(&s->h, (int64_t)pad32(l->moe.d_ff) * l->moe.n_used);
    if (l->moe.has_shared)
        widen(&s->h_shared, l->moe.shared.d_ff);
    s->n_used = (uint32_t)l->moe.n_used > s->n_used ? (uint32_t)l->moe.n_used : s->n_used;
}

void workspace_sizes_of(const struct model_plan *plan, const struct backend_params *p,
                        struct workspace_sizes *s)
{
    *s = (struct workspace_sizes){
        .d = pad32(plan->d_model), .n_used = 1, .expert = 32, .max_splits = 64};
    for (int i = 0; i < plan->n_layer; i++)
        sizes_of_layer(&plan->layers[i], s);
    s->n_slices = (uint32_t)(plan->n_vocab + TOP_SLICE - 1) / TOP_SLICE;
    s->decode_rows = (uint32_t)(p->max_rows < 64 ? p->max_rows : 64);
}

static bool plan_clear(struct heap *h, VkDeviceAddress *address, uint64_t floats, struct err *e)
{
    struct heap_part part = {.address = address, .bytes = (floats ? floats : 1) * 4};
    return heap_plan(h, &part, e);
}

/* Room for the splits of attention: all of them for a decode step's rows, few for each of many. */
static uint64_t part_floats(const struct workspace_sizes *s, uint64_t rows)
{
    uint64_t each = (uint64_t)s->n_kv_head * s->heads * (s->d_head + 2);
    uint64_t few = each * rows * ATTENTION_FEW_SPLITS, all = each * s->decode_rows * s->max_splits;
    return few > all ? few : all;
}

bool workspace_plan(struct backend *b, struct err *e)
{
    const struct workspace_sizes *s = &b->sizes;
    struct workspace *w = &b->workspace;
    struct heap *h = &w->heap;
    uint64_t rows = (uint64_t)pad32(b->params.max_rows), heads = STEP_HEAD_ROWS,
             slices = s->n_slices;
    bool ok = plan_clear(h, &w->x, rows * s->d, e) && plan_clear(h, &w->qkv, rows * s->qkv, e) &&
              plan_clear(h, &w->attn, rows * s->attn, e) &&
              plan_clear(h, &w->convolved, rows * s->channels, e) &&
              plan_clear(h, &w->gates, rows * s->gates, e) &&
              plan_clear(h, &w->parts, part_floats(s, rows), e) &&
              plan_clear(h, &w->router, rows * s->expert, e) &&
              plan_clear(h, &w->ids, rows * s->n_used, e) &&
              plan_clear(h, &w->weights, rows * s->n_used, e) &&
              plan_clear(h, &w->h, rows * s->h + 64, e) &&
              plan_clear(h, &w->h_shared, rows * s->h_shared + 64, e) &&
              plan_clear(h, &w->used, (uint64_t)b->plan->n_layer * USED_WORDS + 1, e) &&
              plan_clear(h, &w->meetings, (uint64_t)b->plan->n_layer * RESIDENT_WORDS, e) &&
              plan_clear(h, &w->logits, heads * (uint64_t)b->plan->n_vocab, e) &&
              plan_clear(h, &w->candidates, heads * slices * BACKEND_MAX_TOP, e) &&
              plan_clear(h, &w->candidate_ids, heads * slices * BACKEND_MAX_TOP, e) &&
              plan_clear(h, &w->stats, heads * slices * 2, e);
    if (ok && !b->params.exact) {
        /* 64 floats more: a tile's last loads may reach past its row. */
        uint64_t widest = s->d > s->attn ? s->d : s->attn, pairs = rows * s->n_used,
                 parts = pairs + (s->h_shared ? rows : 0),
                 lists = (uint64_t)s->expert * RECORD_LIST_ROWS;
        ok = plan_clear(h, &w->x_hi, rows * widest / 2 + 64, e) &&
             plan_clear(h, &w->x_lo, rows * widest / 2 + 64, e) &&
             plan_clear(h, &w->parts_down, parts * s->d, e) &&
             plan_clear(h, &w->sorted, pairs > lists ? pairs : lists, e) &&
             plan_clear(h, &w->counts, s->expert, e) &&
             plan_clear(h, &w->arrived, RECORD_LIST_ROWS, e) &&
             plan_clear(h, &w->tiles, (s->expert + pairs / 16 + 1) * 4, e) &&
             plan_clear(h, &w->n_tiles, 4, e);
    }
    for (int i = 0; ok && i < b->plan->n_layer; i++) {
        const struct layer_plan *l = &b->plan->layers[i];
        if (l->mixer == MIXER_ATTENTION) {
            b->kv_block_bytes =
                backend_block_bytes(l->attention.n_kv_head, l->attention.d_head, b->kv_type);
            ok = plan_clear(&b->kv_heap, &b->model.layers[i].kv,
                            b->kv_block_bytes / 4 * (uint64_t)b->params.n_blocks, e);
        } else {
            ok = plan_clear(&b->state_heap, &b->model.layers[i].state,
                            delta_net_state_bytes(&l->delta_net) / 4 * (uint64_t)b->params.n_states,
                            e);
        }
    }
    return ok;
}

struct step_places { /* offsets in the step's buffer, and its size */
    uint64_t rows, tiles, last_rows, last_tiles, sequences, runs, outs, tables, bytes;
    int32_t table_cap, tile_cap, tile_rows;
};

/* The places depend on the plan alone, so that the size is known without a device: tiles have their
 * room also where the device can't run the attention that uses them. */
static struct step_places step_places(const struct backend *b)
{
    struct step_places s;
    uint64_t rows = pad32(b->params.max_rows);
    int64_t per_sequence =
        ((int64_t)b->plan->n_ctx + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS + 1;
    /* No sequence has more blocks than the context or the pool. */
    if (per_sequence > b->params.n_blocks)
        per_sequence = b->params.n_blocks;
    s.table_cap = (int32_t)(per_sequence * b->params.max_sequences + 1);
    s.tile_rows = b->sizes.group && b->sizes.group <= 64 ? 64 / (int32_t)b->sizes.group : 0;
    s.tile_cap = s.tile_rows ? (int32_t)rows / s.tile_rows + b->params.max_sequences + 8 : 1;
    s.rows = 16;
    s.tiles = s.rows + rows * 16;
    s.last_rows = s.tiles + (uint64_t)s.tile_cap * 16;
    s.last_tiles = s.last_rows + rows * 16;
    s.sequences = s.last_tiles + (uint64_t)s.tile_cap * 16;
    s.runs = s.sequences + (uint64_t)b->params.max_sequences * 16;
    s.outs = s.runs + rows * 8;
    s.tables = s.outs + rows * 4;
    s.bytes = s.tables + (uint64_t)s.table_cap * 4;
    return s;
}

static bool step_open(struct backend *b, struct err *e)
{
    struct step_memory *s = &b->step;
    struct step_places at = step_places(b);
    s->table_cap = at.table_cap;
    s->tile_rows = record_tiled_attention_fits(b) ? at.tile_rows : 0;
    s->tile_cap = s->tile_rows ? at.tile_cap : 1;
    if (!gpu_buffer_create(
            &b->gpu,
            &(struct gpu_buffer_params){.where = GPU_STEP, .size = at.bytes, .name = "step"},
            &s->buffer, e)) {
        return false;
    }
    uint8_t *map = s->buffer.map;
    memset(map, 0, s->buffer.size);
    s->n_top = (int32_t *)(void *)map;
    s->rows = (int32_t(*)[4])(void *)(map + at.rows);
    s->tiles = (int32_t(*)[4])(void *)(map + at.tiles);
    s->last_rows = (int32_t(*)[4])(void *)(map + at.last_rows);
    s->last_tiles = (int32_t(*)[4])(void *)(map + at.last_tiles);
    s->sequences = (int32_t(*)[4])(void *)(map + at.sequences);
    s->runs = (int32_t(*)[2])(void *)(map + at.runs);
    s->outs = (int32_t *)(void *)(map + at.outs);
    s->tables = (int32_t *)(void *)(map + at.tables);
    s->at_n_top = s->buffer.address;
    s->at_rows = s->buffer.address + at.rows;
    s->at_tiles = s->buffer.address + at.tiles;
    s->at_last_rows = s->buffer.address + at.last_rows;
    s->at_last_tiles = s->buffer.address + at.last_tiles;
    s->at_sequences = s->buffer.address + at.sequences;
    s->at_runs = s->buffer.address + at.runs;
    s->at_outs = s->buffer.address + at.outs;
    s->at_tables = s->buffer.address + at.tables;
    return true;
}

uint64_t workspace_trace_bytes(const struct backend *b)
{
    return (uint64_t)pad32(b->params.max_rows) * b->sizes.n_used * 4;
}

/* Rows that only pad a batch are dead: what stands in their places is never used. */
static bool trace_open(struct backend *b, struct err *e)
{
    return !b->params.route ||
           gpu_buffer_create(&b->gpu,
                             &(struct gpu_buffer_params){.where = GPU_STEP,
                                                         .size = workspace_trace_bytes(b) *
                                                                 (uint64_t)b->plan->n_layer,
                                                         .name = "trace"},
                             &b->step.trace, e);
}

static uint64_t result_bytes(const struct backend *b, uint64_t *top, uint64_t *used)
{
    uint64_t rows = pad32(b->params.max_rows);
    *top = rows * BACKEND_MAX_TOP * 4;
    *used = 2 * *top + rows * 4;
    return *used + ((uint64_t)b->plan->n_layer * USED_WORDS + 1) * 4;
}

uint64_t workspace_host_bytes(const struct backend *b)
{
    uint64_t top, used;
    return step_places(b).bytes + result_bytes(b, &top, &used);
}

static bool result_open(struct backend *b, struct err *e)
{
    struct result_memory *r = &b->result;
    uint64_t top, bytes = result_bytes(b, &top, &r->used_offset);
    if (!gpu_buffer_create(
            &b->gpu,
            &(struct gpu_buffer_params){.where = GPU_READBACK, .size = bytes, .name = "results"},
            &r->buffer, e)) {
        return false;
    }
    uint8_t *map = r->buffer.map;
    r->ids = (int32_t *)(void *)map;
    r->logits = (float *)(void *)(map + top);
    r->lse = (float *)(void *)(map + 2 * top);
    r->used = (uint32_t *)(void *)(map + r->used_offset);
    r->at_ids = r->buffer.address;
    r->at_logits = r->buffer.address + top;
    r->at_lse = r->buffer.address + 2 * top;
    return true;
}

/* delta_step takes several threads for each value of a head. */
static bool delta_steps_fit(const struct backend *b)
{
    bool fit = true;
    for (int i = 0; i < b->plan->n_layer; i++) {
        const struct layer_plan *l = &b->plan->layers[i];
        fit = fit &&
              (l->mixer != MIXER_DELTA_NET ||
               DELTA_SHARE * (uint32_t)l->delta_net.d_v / DELTA_COLUMNS <= b->gpu.caps.max_threads);
    }
    return fit;
}

bool workspace_open(struct backend *b, struct err *e)
{
    b->delta_steps = delta_steps_fit(b);
    return heap_commit(&b->workspace.heap, &b->gpu, GPU_LOCAL, "work", e) &&
           (b->kv_heap.n_parts == 0 || heap_commit(&b->kv_heap, &b->gpu, GPU_LOCAL, "kv", e)) &&
           (b->state_heap.n_parts == 0 ||
            heap_commit(&b->state_heap, &b->gpu, GPU_LOCAL, "states", e)) &&
           step_open(b, e) && trace_open(b, e) && result_open(b, e);
}

bool workspace_reserve_full_logits(struct backend *b, int32_t rows, struct err *e)
{
    struct gpu_buffer *w = &b->result.full_logits;
    uint64_t need = (uint64_t)pad32(rows) * (uint64_t)b->plan->n_vocab * 4;
    if (w->size >= need)
        return true;
    gpu_buffer_destroy(&b->gpu, w);
    /* Recorded steps hold the old buffer: they are dropped by the caller's eviction. */
    for (int i = 0; i < b->n_recorded; i++) {
        if (b->recorded[i].shape.full_logits) {
            gpu_command_free(&b->gpu, &b->recorded[i].command);
            b->recorded[i--] = b->recorded[--b->n_recorded];
            b->recorded[b->n_recorded].command = VK_NULL_HANDLE; /* it lives at i now */
        }
    }
    return gpu_buffer_create(
        &b->gpu,
        &(struct gpu_buffer_params){.where = GPU_READBACK, .size = need, .name = "whole logits"}, w,
        e);
}

void workspace_close(struct backend *b)
{
    gpu_buffer_destroy(&b->gpu, &b->result.full_logits);
    gpu_buffer_destroy(&b->gpu, &b->result.buffer);
    gpu_buffer_destroy(&b->gpu, &b->step.trace);
    gpu_buffer_destroy(&b->gpu, &b->step.buffer);
    heap_fini(&b->kv_heap, &b->gpu);
    heap_fini(&b->state_heap, &b->gpu);
    heap_fini(&b->workspace.heap, &b->gpu);
}
