/* Records the ops of decoding: for each op it chooses the sizes, fills the push constants and
 * dispatches. */
#include "engine/vulkan/ops/dispatch.h"
#include "engine/vulkan/weights/device_block.h"

#include <stdio.h>
#include <string.h>

#define THREADS 256u
#define ROUTER_EACH 1u /* experts of a subgroup of router.comp */

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
    return (struct push_planes){.data = m->plane[0], .scales = m->plane[1], .biases = m->plane[2]};
}

void record_embed(struct recorder *r)
{
    const struct device_matrix *m = &r->b->model.embed;
    const struct push_embed push = {
        .w = dispatch_planes(m),
        .rows = r->b->step.at_rows,
        .x = r->b->workspace.x,
        .n_chunk = m->layout.n_chunk,
    };
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

/* How subgroups share a packed matrix, see shaders/include/tile.glsl. */
struct gemv_tiling {
    uint32_t
        rows; /* of W for a subgroup: more share one read of x, fewer fill more of the device */
    uint32_t cols;  /* rows of x */
    uint32_t steps; /* chunks of a tile for a thread: all of a row's where shared memory allows */
    uint32_t threads, groups; /* of a workgroup; workgroups over all rows of W */
};

#define SHARED_RESERVE 6144u /* of the shaders' other shared variables */
#define MAX_STEPS 8u

static struct gemv_tiling gemv_tiling_of(const struct recorder *r, uint32_t rows, uint32_t n_chunk,
                                         uint32_t n_x, uint32_t rows_each)
{
    const struct gpu_caps *c = &r->b->gpu.caps;
    struct gemv_tiling w = {.rows = rows_each,
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

static void spec_gemv_tiling(const struct recorder *r, uint32_t *spec, const struct gemv_tiling *w,
                             bool norm)
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
    /* A small matrix, as a router's, would leave most of the device idle. */
    const uint32_t cols = m->rows < 1024 && op->n_x > 2 ? 2 : op->n_x;
    struct gemv_tiling w = gemv_tiling_of(r, m->rows, m->layout.n_chunk, cols, rows_each);
    const struct push_linear push = {
        .w = dispatch_planes(m),
        .x = op->x,
        .norm = op->norm,
        .y = op->y,
        .bias = op->bias,
        .gather = op->gather,
        .extra = op->extra ? op->extra->plane[0] : 0,
        .extra_y = r->b->workspace.router,
        .groups = w.groups,
        .extra_stride = r->b->sizes.expert,
        .rows = m->rows,
        .n_chunk = m->layout.n_chunk,
        .x_stride = op->x_stride / 4,
        .y_stride = op->y_stride,
        .n_x = op->n_x,
        .eps = op->eps,
        .inverse_cols = 1.0f / (float)r->b->plan->d_model,
    };
    struct dispatch d = {.shader = "linear",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = w.groups + (op->extra ? op->extra->rows : 0),
                         .y = divide_up(op->n_x, w.cols),
                         .z = 1};
    spec_gemv_tiling(r, d.spec, &w, op->norm != 0);
    d.spec[SPEC_ADD] = op->add;
    d.spec[SPEC_BIAS] = op->bias != 0;
    d.spec[SPEC_GATHER] = op->gather != 0;
    d.spec[SPEC_EXTRA] = !op->extra ? 0 : op->extra_add ? 2 : 1;
    dispatch_spec_format(d.spec, m);
    dispatch_op(r, &d);
    r->last = op->label;
}

void dispatch_spec_route(uint32_t *spec, const struct moe_plan *p)
{
    spec[SPEC_N_EXPERT] = p ? (uint32_t)p->n_expert : 1;
    spec[SPEC_N_USED] = p ? (uint32_t)p->n_used : 1;
    spec[SPEC_SCORE] = p ? (uint32_t)p->score : 0;
    spec[SPEC_NORMALIZE] = p && p->normalize;
    spec[SPEC_N_GROUP] = p && p->n_group > 1 ? (uint32_t)p->n_group : 1;
    spec[SPEC_N_GROUP_USED] = p && p->n_group > 1 ? (uint32_t)p->n_group_used : 1;
    spec[SPEC_SELECT_BIAS] = p && p->select_bias.at;
}

bool record_mlp_up_folds(const struct recorder *r, const struct device_layer *l)
{
    const struct device_layout *in = &l->mlp.gate_up.layout;
    const struct gemv_tiling t =
        gemv_tiling_of(r, l->mlp.gate_up.rows, in->n_chunk, 1, r->b->tuning.up_rows);
    return t.steps * r->b->gpu.caps.subgroup >= in->n_chunk;
}

#define UP_GROUPS 128u /* workgroups that fill the device where each of them chooses experts */

/* Each workgroup repeats the choice of experts: as few as still fill the device. */
static void enlarge_up_groups(const struct recorder *r, struct gemv_tiling *w, uint32_t rows,
                              uint32_t n_used)
{
    const struct gpu_caps *c = &r->b->gpu.caps;
    for (uint32_t threads = 768; threads > w->threads; threads -= 256) {
        const uint32_t groups = divide_up(rows, w->rows * (threads / c->subgroup));
        if (threads <= c->max_threads && groups * n_used >= UP_GROUPS) {
            w->threads = threads;
            w->groups = groups;
        }
    }
}

void record_mlp_up(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *m = &op->m->gate_up;
    const struct workspace *w = &r->b->workspace;
    const struct device_layer *l = op->layer;
    uint32_t n_used = mlp_used(op);
    struct gemv_tiling tiling =
        gemv_tiling_of(r, m->rows, m->layout.n_chunk, 1, r->b->tuning.up_rows);
    if (op->route)
        enlarge_up_groups(r, &tiling, m->rows, n_used);
    const struct push_moe_up push = {
        .w = op->moe ? dispatch_expert_planes(r, l, m) : dispatch_planes(m),
        .x = w->x,
        .norm = l->ffn_norm,
        .h = op->h,
        .bias = op->m->b_gate_up,
        .logits = w->router,
        .select_bias = l->select_bias,
        .token_rows = record_rows(r),
        .ids = w->ids,
        .weights = w->weights,
        .used = dispatch_used(r, op->index),
        .rows = m->rows,
        .n_chunk = m->layout.n_chunk,
        .up_at = m->rows * m->n_matrix,
        .router_stride = r->b->sizes.expert,
        .eps = r->b->plan->norm_eps,
        .scale = op->moe ? op->moe->scale : 1,
    };
    struct dispatch d = {.shader = "moe_up",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = tiling.groups,
                         .y = r->n_rows * n_used,
                         .z = 1};
    spec_gemv_tiling(r, d.spec, &tiling, true);
    dispatch_spec_route(d.spec, op->moe);
    d.spec[SPEC_UP_CLAMP] = op->clamp;
    d.spec[SPEC_BIAS] = op->m->b_gate_up != 0;
    d.spec[SPEC_ROUTED] = op->moe != NULL;
    d.spec[SPEC_ROUTE] = op->route;
    d.spec[SPEC_FOLDED] = op->folded;
    d.spec[SPEC_SHARED_GATE] = l->shared_gate.n_matrix != 0;
    d.spec[SPEC_SPLIT_EXPERTS] = op->moe && l->split_experts.table;
    d.spec[SPEC_OFFLOADS_MISSES] = op->moe && r->offloads_misses;
    d.spec[SPEC_D_MODEL] = (uint32_t)r->b->plan->d_model;
    dispatch_spec_format(d.spec, m);
    row_units_up(r, op, &d);
    dispatch_op(r, &d);
    r->last = "moe_up";
}

static bool is_q8(const struct device_layout *l)
{
    return strcmp(l->kernel, "block") == 0 && l->block == BLOCK_Q8_0;
}

bool record_mlp_down_beside(const struct recorder *r, const struct mlp_op *routed,
                            const struct mlp_op *shared)
{
    const struct device_layout *l = &shared->m->down.layout, *w = &routed->m->down.layout;
    const uint32_t lanes = r->b->gpu.caps.subgroup, threads = r->b->tuning.threads;
    return (dispatch_same_format(l, w) || is_q8(l)) && !l->row_bytes[2] && !shared->m->b_down &&
           l->n_chunk <= lanes && l->n_chunk * 8 <= threads && !r->offloads_misses;
}

void record_mlp_down(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *m = &op->m->down;
    const struct workspace *w = &r->b->workspace;
    const struct mlp_op *s = op->shared;
    uint32_t n_used = mlp_used(op);
    struct gemv_tiling tiling =
        gemv_tiling_of(r, m->rows, m->layout.n_chunk * n_used, 1, r->b->tuning.down_rows);
    const struct push_moe_down push = {
        .down = op->moe ? dispatch_expert_planes(r, op->layer, m) : dispatch_planes(m),
        .h = op->h,
        .y = w->x,
        .bias = op->m->b_down,
        .weights = op->moe ? w->weights : op->gate,
        .ids = w->ids,
        .token_rows = record_rows(r),
        .rows = m->rows,
        .n_chunk = m->layout.n_chunk,
        .y_stride = r->b->sizes.d,
        .beside = s ? s->m->down.plane[0] : 0,
        .beside_scales = s ? s->m->down.plane[1] : 0,
        .beside_h = s ? s->h : 0,
        .beside_gate = s ? s->gate : 0,
        .gate_stride = r->b->sizes.expert,
    };
    struct dispatch d = {.shader = "moe_down",
                         .format = m->layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = tiling.groups,
                         .y = r->n_rows,
                         .z = 1};
    spec_gemv_tiling(r, d.spec, &tiling, false);
    d.spec[SPEC_K] = n_used;
    d.spec[SPEC_BIAS] = op->m->b_down != 0;
    d.spec[SPEC_WEIGHTS] = op->moe ? 0 : op->gate ? 2 : 1;
    d.spec[SPEC_BESIDE] = s ? s->m->down.layout.n_chunk : 0;
    d.spec[SPEC_BESIDE_Q8] = s && is_q8(&s->m->down.layout);
    d.spec[SPEC_SPLIT_EXPERTS] = op->moe && op->layer->split_experts.table;
    d.spec[SPEC_OFFLOADS_MISSES] = op->moe && r->offloads_misses;
    dispatch_spec_format(d.spec, m);
    row_units_down(r, op, &d);
    dispatch_op(r, &d);
    r->last = "moe_down";
}

void record_route(struct recorder *r, const struct moe_plan *p, const struct device_layer *l,
                  int layer, bool lists)
{
    const struct workspace *w = &r->b->workspace;
    const struct gpu_buffer *trace = &r->b->step.trace;
    const struct push_moe_route push = {
        .logits = w->router,
        .select_bias = l->select_bias,
        .rows = record_rows(r),
        .ids = w->ids,
        .weights = w->weights,
        .used = dispatch_used(r, layer),
        .trace = trace->address + (uint64_t)layer * workspace_trace_bytes(r->b),
        .counts = w->counts,
        .lists = w->sorted,
        .stride = r->b->sizes.expert,
        .scale = p->scale,
    };
    struct dispatch d = {.shader = "moe_route",
                         .spec = {[SPEC_THREADS] = 128},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = r->n_rows,
                         .y = 1,
                         .z = 1};
    dispatch_spec_route(d.spec, p);
    d.spec[SPEC_TRACE] = trace->address != 0;
    d.spec[SPEC_LIST_ROWS] = lists ? record_list_rows(r->n_rows) : 0;
    dispatch_op(r, &d);
}

void dispatch_router(struct recorder *r, struct dispatch *d, const struct device_layer *l,
                     const struct mlp_op *experts)
{
    const struct workspace *w = &r->b->workspace;
    const struct push_router push = {
        .w = l->router_x.plane[0],
        .x = w->x,
        .norm = l->ffn_norm,
        .outs = w->x_hi,
        .logits = w->router,
        .select_bias = l->select_bias,
        .rows = record_rows(r),
        .ids = w->ids,
        .weights = w->weights,
        .used = dispatch_used(r, experts->index),
        .arrived = w->arrived,
        .counts = w->counts,
        .lists = w->sorted,
        .quads = r->b->sizes.d / 4,
        .stride = r->b->sizes.expert,
        .scale = experts->moe->scale,
        .eps = r->b->plan->norm_eps,
        .inverse_cols = 1.0f / (float)r->b->plan->d_model,
    };
    d->push = &push;
    d->push_bytes = sizeof push;
    dispatch_spec_route(d->spec, experts->moe);
    d->spec[SPEC_SHARED_GATE] = l->shared_gate.n_matrix != 0;
    d->spec[SPEC_UNITS_X] = experts->units;
    d->spec[SPEC_LIST_ROWS] = experts->lists ? record_list_rows(r->n_rows) : 0;
    dispatch_op(r, d);
}

void record_router(struct recorder *r, const struct device_layer *l, const struct mlp_op *experts)
{
    const uint32_t subgroups = THREADS / r->b->gpu.caps.subgroup;
    struct dispatch d = {.shader = "router",
                         .spec = {[SPEC_THREADS] = THREADS, [SPEC_ROWS] = ROUTER_EACH},
                         .x = divide_up(l->router_x.rows, ROUTER_EACH * subgroups),
                         .y = r->n_rows,
                         .z = 1};
    dispatch_router(r, &d, l, experts);
}

void record_add_rows(struct recorder *r, VkDeviceAddress x)
{
    const uint32_t cols = (uint32_t)r->b->plan->d_model;
    const struct push_add_rows push = {
        .x = x,
        .y = r->b->workspace.x,
        .cols = cols,
        .y_stride = r->b->sizes.d,
    };
    struct dispatch d = {.shader = "add_rows",
                         .spec = {[SPEC_THREADS] = THREADS},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(cols, THREADS),
                         .y = r->n_rows,
                         .z = 1};
    dispatch_op(r, &d);
}

void record_topk(struct recorder *r, uint32_t first, uint32_t n)
{
    const struct workspace *w = &r->b->workspace;
    uint32_t vocab = (uint32_t)r->b->plan->n_vocab, slices = r->b->sizes.n_slices;
    uint64_t row_bytes = BACKEND_MAX_TOP * 4;
    struct push_topk push = {
        .values = w->logits,
        .stats = w->stats,
        .out_values = w->candidates,
        .out_ids = w->candidate_ids,
        .n_top_at = r->b->step.at_n_top,
        .n = vocab,
        .n_slices = slices,
    };
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
    push.log_sum_exp = r->b->result.at_lse + first * 4;
    d.spec[SPEC_MERGE] = true;
    d.x = 1;
    dispatch_op(r, &d);
}
