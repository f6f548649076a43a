/* Records the ops of decoding: for each op it chooses the sizes, fills the push constants and
 * dispatches. */
#include "engine/vulkan/ops/dispatch.h"

#include <stdio.h>
#include <string.h>

#define THREADS 256u

void dispatch_op(struct recorder *r, const struct dispatch *d)
{
    char name[64];
    if (!r->ok)
        return;
    snprintf(name, sizeof name, d->format ? "%s_%s" : "%s", d->shader, d->format);
    VkPipeline p = gpu_pipeline(&r->b->gpu, name, d->spec, r->e);
    if (!p) {
        r->ok = err_prefix(r->e, "%s", name);
        return;
    }
    vkCmdBindPipeline(r->c, VK_PIPELINE_BIND_POINT_COMPUTE, p);
    vkCmdPushConstants(r->c, r->b->gpu.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d->push_bytes,
                       d->push);
    vkCmdDispatch(r->c, d->x, d->y, d->z);
    r->last = d->shader;
}

void record_barrier(struct recorder *r)
{
    if (r->ok) {
        gpu_barrier(r->c);
        if (r->b->profile)
            profile_mark(r->b->profile, r->c, r->last);
    }
}

bool record_locate(struct recorder *r, VkDeviceAddress a, VkBuffer *buffer, uint64_t *offset)
{
    r->ok = r->ok && (heap_locate(&r->b->workspace.heap, a, buffer, offset) ||
                      err_set(r->e, ERR_INTERNAL, "an address outside the work memory"));
    return r->ok;
}

void dispatch_spec_format(uint32_t *spec, const struct device_matrix *m)
{
    spec[SPEC_BITS] = m->layout.bits;
    spec[SPEC_GROUP_CHUNKS] = m->layout.group_chunks;
    spec[SPEC_SCALE_TYPE] = m->layout.scale_type;
    spec[SPEC_BLOCK] = m->layout.block;
}

struct push_planes dispatch_planes(const struct device_matrix *m)
{
    return (struct push_planes){{m->plane[0], m->plane[1], m->plane[2]}};
}

void record_embed(struct recorder *r)
{
    const struct device_matrix *m = &r->b->model.embed;
    struct {
        struct push_planes w;
        uint64_t rows, x;
        uint32_t n_chunk, pad;
    } push = {dispatch_planes(m), r->b->step.at_rows, r->b->workspace.x, m->layout.n_chunk, 0};
    struct dispatch d = {.shader = "embed",
                         .format = m->layout.kernel,
                         .spec = {[SPEC_THREADS] = 64},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(m->layout.n_chunk, 64),
                         .y = r->n_rows,
                         .z = 1};
    dispatch_spec_format(d.spec, m);
    dispatch_op(r, &d);
}

/* How subgroups share a packed matrix, see shaders/tile.glsl. */
struct walk {
    uint32_t
        rows; /* of W for a subgroup: more share one read of x, fewer fill more of the device */
    uint32_t cols;  /* rows of x */
    uint32_t steps; /* chunks of a tile for a thread: all of a row's where shared memory allows */
    uint32_t threads, groups; /* of a workgroup; workgroups over all rows of W */
};

#define SHARED_RESERVE 6144u /* of the shaders' other shared variables */
#define MAX_STEPS 8u

static struct walk walk_of(const struct recorder *r, uint32_t rows, uint32_t n_chunk, uint32_t n_x,
                           uint32_t rows_each)
{
    const struct gpu_caps *c = &r->b->gpu.caps;
    struct walk w = {.rows = rows_each,
                     .cols = n_x >= 4   ? 4
                             : n_x >= 2 ? 2
                                        : 1,
                     .threads = r->b->tuning.threads};
    uint32_t want = divide_up(n_chunk, c->subgroup),
             room = (c->max_shared - SHARED_RESERVE) / (128 * w.cols);
    w.steps = want < MAX_STEPS ? want : MAX_STEPS;
    while (w.steps > 1 && w.steps * c->subgroup + 1 > room)
        w.steps--;
    w.groups = divide_up(rows, w.rows * (w.threads / c->subgroup));
    return w;
}

static void spec_walk(const struct recorder *r, uint32_t *spec, const struct walk *w, bool norm)
{
    spec[SPEC_THREADS] = w->threads;
    spec[SPEC_ROWS] = w->rows;
    spec[SPEC_COLS] = w->cols;
    spec[SPEC_STEPS] = w->steps;
    spec[SPEC_NORM] = norm;
    spec[SPEC_LANES] = r->b->gpu.caps.subgroup;
}

void record_linear(struct recorder *r, const struct linear_op *op)
{
    const struct device_matrix *m = op->w;
    const struct tuning *tuning = &r->b->tuning;
    uint32_t rows_each = m->rows >= 65536  ? tuning->head_rows
                         : m->rows >= 1024 ? tuning->linear_rows
                                           : 1;
    struct walk w = walk_of(r, m->rows, m->layout.n_chunk, op->n_x, rows_each);
    struct {
        struct push_planes w;
        uint64_t x, norm, y, bias, gather;
        uint32_t rows, n_chunk, x_stride, y_stride, n_x;
        float eps, inverse_cols;
        uint32_t pad;
    } push = {dispatch_planes(m),
              op->x,
              op->norm,
              op->y,
              op->bias,
              op->gather,
              m->rows,
              m->layout.n_chunk,
              op->x_stride / 4,
              op->y_stride,
              op->n_x,
              op->eps,
              1.0f / (float)r->b->plan->d_model,
              0};
    struct dispatch d = {.shader = "linear",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = w.groups,
                         .y = divide_up(op->n_x, w.cols),
                         .z = 1};
    spec_walk(r, d.spec, &w, op->norm != 0);
    d.spec[SPEC_ADD] = op->add;
    d.spec[SPEC_BIAS] = op->bias != 0;
    d.spec[SPEC_GATHER] = op->gather != 0;
    dispatch_spec_format(d.spec, m);
    dispatch_op(r, &d);
    r->last = op->label;
}

static void spec_route(uint32_t *spec, const struct moe_plan *p)
{
    spec[SPEC_N_EXPERT] = p ? (uint32_t)p->n_expert : 1;
    spec[SPEC_N_USED] = p ? (uint32_t)p->n_used : 1;
    spec[SPEC_SCORE] = p ? (uint32_t)p->score : 0;
    spec[SPEC_NORMALIZE] = p && p->normalize;
    spec[SPEC_N_GROUP] = p && p->n_group > 1 ? (uint32_t)p->n_group : 1;
    spec[SPEC_N_GROUP_USED] = p && p->n_group > 1 ? (uint32_t)p->n_group_used : 1;
    spec[SPEC_SELECT_BIAS] = p && p->select_bias.at;
}

static uint64_t used_of(const struct recorder *r, int layer)
{
    return r->b->workspace.used + (uint64_t)layer * USED_WORDS * 4;
}

void record_mlp_up(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *m = &op->m->gate_up;
    const struct workspace *w = &r->b->workspace;
    const struct device_layer *l = op->layer;
    uint32_t n_used = op->moe ? (uint32_t)op->moe->n_used : 1;
    struct walk walk = walk_of(r, m->rows, m->layout.n_chunk, 1, r->b->tuning.up_rows);
    struct {
        struct push_planes w;
        uint64_t x, norm, h, bias, logits, select_bias, rows_at, ids, weights, used;
        uint32_t rows, n_chunk, up_at, router_stride;
        float eps, scale;
    } push = {op->moe ? dispatch_expert_planes(r, l, m) : dispatch_planes(m),
              w->x,
              l->ffn_norm,
              op->h,
              op->m->b_gate_up,
              w->router,
              l->select_bias,
              r->b->step.at_rows,
              w->ids,
              w->weights,
              used_of(r, op->index),
              m->rows,
              m->layout.n_chunk,
              m->rows * m->n_matrix,
              r->b->sizes.expert,
              r->b->plan->norm_eps,
              op->moe ? op->moe->scale : 1};
    struct dispatch d = {.shader = "moe_up",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = walk.groups,
                         .y = r->n_rows * n_used,
                         .z = 1};
    spec_walk(r, d.spec, &walk, true);
    spec_route(d.spec, op->moe);
    d.spec[SPEC_UP_CLAMP] = op->clamp;
    d.spec[SPEC_BIAS] = op->m->b_gate_up != 0;
    d.spec[SPEC_ROUTED] = op->moe != NULL;
    d.spec[SPEC_ROUTE] = op->route;
    d.spec[SPEC_SPLIT_EXPERTS] = op->moe && l->split_experts.table;
    d.spec[SPEC_OFFLOADS_MISSES] = op->moe && r->offloads_misses;
    d.spec[SPEC_D_MODEL] = (uint32_t)r->b->plan->d_model;
    dispatch_spec_format(d.spec, m);
    dispatch_op(r, &d);
}

void record_mlp_down(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *m = &op->m->down;
    const struct workspace *w = &r->b->workspace;
    uint32_t n_used = op->moe ? (uint32_t)op->moe->n_used : 1;
    struct walk walk = walk_of(r, m->rows, m->layout.n_chunk * n_used, 1, r->b->tuning.down_rows);
    struct {
        struct push_planes down;
        uint64_t h, y, bias, weights, ids, token_rows;
        uint32_t rows, n_chunk, y_stride, weights_stride;
    } push = {op->moe ? dispatch_expert_planes(r, op->layer, m) : dispatch_planes(m),
              op->h,
              w->x,
              op->m->b_down,
              op->moe ? w->weights : op->gate,
              w->ids,
              r->b->step.at_rows,
              m->rows,
              m->layout.n_chunk,
              r->b->sizes.d,
              n_used};
    struct dispatch d = {.shader = "moe_down",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = walk.groups,
                         .y = r->n_rows,
                         .z = 1};
    spec_walk(r, d.spec, &walk, false);
    d.spec[SPEC_K] = n_used;
    d.spec[SPEC_BIAS] = op->m->b_down != 0;
    d.spec[SPEC_WEIGHTS] = op->moe ? 0 : op->gate ? 2 : 1;
    d.spec[SPEC_SPLIT_EXPERTS] = op->moe && op->layer->split_experts.table;
    d.spec[SPEC_OFFLOADS_MISSES] = op->moe && r->offloads_misses;
    dispatch_spec_format(d.spec, m);
    dispatch_op(r, &d);
}

void record_route(struct recorder *r, const struct moe_plan *p, const struct device_layer *l,
                  int layer)
{
    const struct workspace *w = &r->b->workspace;
    const struct gpu_buffer *trace = &r->b->step.trace;
    struct {
        uint64_t logits, select_bias, rows, ids, weights, used, trace;
        uint32_t stride;
        float scale;
    } push = {w->router,
              l->select_bias,
              r->b->step.at_rows,
              w->ids,
              w->weights,
              used_of(r, layer),
              trace->address + (uint64_t)layer * workspace_trace_bytes(r->b),
              r->b->sizes.expert,
              p->scale};
    struct dispatch d = {.shader = "moe_route",
                         .spec = {[SPEC_THREADS] = 128},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = r->n_rows,
                         .y = 1,
                         .z = 1};
    spec_route(d.spec, p);
    d.spec[SPEC_TRACE] = trace->address != 0;
    dispatch_op(r, &d);
}

void record_add_rows(struct recorder *r, VkDeviceAddress x)
{
    const uint32_t cols = (uint32_t)r->b->plan->d_model;
    struct {
        uint64_t x, y;
        uint32_t cols, y_stride;
    } push = {x, r->b->workspace.x, cols, r->b->sizes.d};
    struct dispatch d = {.shader = "add_rows",
                         .spec = {[SPEC_THREADS] = THREADS},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(cols, THREADS),
                         .y = r->n_rows,
                         .z = 1};
    dispatch_op(r, &d);
}

static void spec_rope(const struct recorder *r, uint32_t *spec, const struct attention_plan *a)
{
    spec[SPEC_D_HEAD] = (uint32_t)a->d_head;
    spec[SPEC_N_ROPE] = (uint32_t)a->rope.n_dims;
    spec[SPEC_INTERLEAVED] = a->rope.interleaved;
    spec[SPEC_HEAD_NORM] = a->q_norm.at != NULL;
    spec[SPEC_KV_F32] = r->b->params.exact;
}

void record_rope_kv(struct recorder *r, const struct attention_plan *a,
                    const struct device_layer *l)
{
    struct {
        uint64_t qkv, q_norm, k_norm, inv_freq, rows, tables, kv;
        uint32_t stride, n_head, n_kv_head, q_step;
        float eps, rope_scale;
    } push = {r->b->workspace.qkv,
              l->q_norm,
              l->k_norm,
              l->inv_freq,
              r->b->step.at_rows,
              r->b->step.at_tables,
              l->kv,
              r->b->sizes.qkv,
              (uint32_t)a->n_head,
              (uint32_t)a->n_kv_head,
              (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
              r->b->plan->norm_eps,
              a->rope.scale};
    struct dispatch d = {.shader = "rope_kv",
                         .spec = {[SPEC_THREADS] = r->b->gpu.caps.subgroup},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = (uint32_t)(a->n_head + 2 * a->n_kv_head),
                         .y = r->n_rows,
                         .z = 1};
    spec_rope(r, d.spec, a);
    dispatch_op(r, &d);
}

void record_attention(struct recorder *r, const struct attention_plan *a,
                      const struct device_layer *l, bool prep)
{
    const struct workspace *w = &r->b->workspace;
    uint32_t splits = r->n_rows <= r->b->sizes.decode_rows ? r->b->sizes.max_splits : 4;
    struct {
        uint64_t qkv, q_norm, k_norm, inv_freq, sinks, outs, rows, tables, kv, split_parts,
            split_done;
        uint32_t stride, n_head, n_kv_head, q_step, window;
        float eps, rope_scale, scale;
    } push = {w->qkv,
              l->q_norm,
              l->k_norm,
              l->inv_freq,
              l->sinks,
              w->attn,
              r->b->step.at_rows,
              r->b->step.at_tables,
              l->kv,
              w->parts,
              w->split_done,
              r->b->sizes.qkv,
              (uint32_t)a->n_head,
              (uint32_t)a->n_kv_head,
              (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
              (uint32_t)a->window,
              r->b->plan->norm_eps,
              a->rope.scale,
              a->scale};
    uint32_t group = (uint32_t)(a->n_head / a->n_kv_head),
             row4 = (uint32_t)a->d_head / (r->b->params.exact ? 4 : 8);
    uint32_t tokens = BACKEND_BLOCK_TOKENS, parts = 1;
    while (tokens > 8 && tokens * (row4 + 1) * 16 + (group + 1) * (uint32_t)a->d_head * 4 +
                                 group * tokens * 4 + 4096 >
                             r->b->gpu.caps.max_shared) {
        tokens /= 2;
    }
    while (parts * 2 * group * row4 <= THREADS && parts * 2 <= tokens)
        parts *= 2;
    struct dispatch d = {.shader = "attn",
                         .spec = {[SPEC_THREADS] = THREADS,
                                  [SPEC_GROUP] = group,
                                  [SPEC_PREP] = prep,
                                  [SPEC_GATE] = a->output_gate,
                                  [SPEC_SINKS] = a->sinks.at != NULL,
                                  [SPEC_ATTN_THREADS] = THREADS,
                                  [SPEC_MIN_BLOCKS] = 4,
                                  [SPEC_MAX_SPLITS] = splits},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = splits,
                         .y = (uint32_t)a->n_kv_head,
                         .z = r->n_rows};
    d.spec[SPEC_TOKENS] = tokens;
    d.spec[SPEC_PARTS] = parts;
    spec_rope(r, d.spec, a);
    dispatch_op(r, &d);
}

void record_topk(struct recorder *r, uint32_t first, uint32_t n)
{
    const struct workspace *w = &r->b->workspace;
    uint32_t vocab = (uint32_t)r->b->plan->n_vocab, slices = r->b->sizes.n_slices;
    uint64_t row_bytes = BACKEND_MAX_TOP * 4;
    struct {
        uint64_t values, ids, stats, out_values, out_ids, lse, n_top;
        uint32_t n, n_slices;
    } push = {w->logits,           0,     w->stats, w->candidates, w->candidate_ids, 0,
              r->b->step.at_n_top, vocab, slices};
    struct dispatch d = {.shader = "topk",
                         .spec = {[SPEC_THREADS] = THREADS,
                                  [SPEC_MERGE] = false,
                                  [SPEC_TOPK_THREADS] = THREADS,
                                  [SPEC_SLICE] = 2048},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = slices,
                         .y = n,
                         .z = 1};
    dispatch_op(r, &d);
    record_barrier(r);
    push.values = w->candidates;
    push.ids = w->candidate_ids;
    push.out_values = r->b->result.at_logits + first * row_bytes;
    push.out_ids = r->b->result.at_ids + first * row_bytes;
    push.lse = r->b->result.at_lse + first * 4;
    d.spec[SPEC_MERGE] = true;
    d.x = 1;
    dispatch_op(r, &d);
}
