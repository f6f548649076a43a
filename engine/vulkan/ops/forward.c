/* One step of a plan as a list of ops: this file is the model, read from top to bottom. */
#include "engine/vulkan/ops/forward.h"

#include "engine/vulkan/ops/cpu_experts.h"
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/ops/host_sync.h"
#include "engine/vulkan/ops/delta_net_ops.h"
#include "engine/vulkan/ops/record_resident.h"
#include "engine/vulkan/ops/router_fold.h"

/* Ends an intermediate: what follows may read it, and the observer sees it. */
static void complete(struct forward *f, const char *what, int layer)
{
    record_barrier(&f->r);
    if (f->observer && f->r.ok)
        f->observer(f->observer_context, what, layer);
}

/* A product with norm(x), or for many rows with what cast_f16 recorded before. split: see
 * record_cast_f16. */
static void product(struct forward *f, const struct linear_op *op, bool split)
{
    if (gemm_wanted(&f->r))
        record_gemm_linear(&f->r, op, split);
    else
        record_linear(&f->r, op);
}

/* norm(x) of all rows rounded to 16 bits. */
static void record_norm_cast(struct forward *f, VkDeviceAddress norm)
{
    struct backend *b = f->r.b;
    record_cast_f16(&f->r, &(struct cast_f16_op){.x = b->workspace.x,
                                                 .norm = norm,
                                                 .x_stride = b->sizes.d,
                                                 .n_chunk = b->sizes.d / 32,
                                                 .n_x = f->r.n_rows,
                                                 .eps = b->plan->norm_eps});
}

/* For many rows: norm(x), or x where norm is 0, rounded to 16 bits for the products that follow. */
static void cast_f16(struct forward *f, VkDeviceAddress x, VkDeviceAddress norm, uint32_t n,
                     bool split)
{
    if (!gemm_wanted(&f->r))
        return;
    record_cast_f16(&f->r, &(struct cast_f16_op){.x = x,
                                                 .norm = norm,
                                                 .x_stride = n,
                                                 .n_chunk = n / 32,
                                                 .n_x = f->r.n_rows,
                                                 .eps = f->r.b->plan->norm_eps,
                                                 .split = split});
    record_barrier(&f->r);
}

/* Side by side into workspace.qkv; biases: one for each matrix, or NULL. */
static void projections(struct forward *f, const struct device_layer *l,
                        const struct device_matrix *w, int n, const VkDeviceAddress *biases)
{
    struct backend *b = f->r.b;
    uint32_t at = 0;
    if (!f->x_cast) /* by the layer before */
        cast_f16(f, b->workspace.x, l->mixer_norm, b->sizes.d, false);
    f->x_cast = false;
    for (int i = 0; i < n; i++) {
        const struct linear_op op = {.label = "qkv",
                                     .w = &w[i],
                                     .x = b->workspace.x,
                                     .norm = l->mixer_norm,
                                     .y = b->workspace.qkv + at * 4,
                                     .bias = biases ? biases[i] : 0,
                                     .x_stride = b->sizes.d,
                                     .y_stride = b->sizes.qkv,
                                     .n_x = f->r.n_rows,
                                     .eps = b->plan->norm_eps,
                                     .extra = f->folded && !i ? &l->router_x : NULL};
        product(f, &op, false);
        at += w[i].rows;
    }
    record_barrier(&f->r);
}

/* x += W mixed + bias; mixed stands in workspace.attn, `width` floats a row, or as halves in x_hi.
 */
static void output(struct forward *f, const struct device_layer *l, uint32_t width, bool halves)
{
    struct backend *b = f->r.b;
    record_barrier(&f->r);
    if (!halves)
        cast_f16(f, b->workspace.attn, 0, width, false);
    const struct linear_op op = {.label = "wo",
                                 .w = &l->wo,
                                 .x = b->workspace.attn,
                                 .y = b->workspace.x,
                                 .bias = l->bo,
                                 .x_stride = width,
                                 .y_stride = b->sizes.d,
                                 .n_x = f->r.n_rows,
                                 .add = true,
                                 .extra = f->folded ? &l->router_mixed : NULL,
                                 .extra_add = true};
    product(f, &op, false);
}

/* Attention of the rows in no tile; of a recurrent layer its number alone. */
static struct attention_op row_attention(const struct forward *f, int layer)
{
    const struct layer_plan *p = &f->r.b->plan->layers[layer];
    const struct attention_plan *a = &p->attention;
    const uint32_t n_splits = (uint32_t)f->shape->n_splits;
    if (p->mixer != MIXER_ATTENTION)
        return (struct attention_op){.layer = layer};
    return (struct attention_op){
        .prep = f->shape->one_row_each,
        .halves = gemm_wanted(&f->r) && !f->shape->n_tiles && a->n_head * a->d_head % 32 == 0,
        .n_splits = n_splits,
        .layer = layer,
        .merge = f->resident && f->r.n_rows == 1 ? record_merge_inside(&f->r, a, n_splits) : 0,
        .chained = f->chained,
    };
}

static void attention(struct forward *f, const struct attention_op *rows)
{
    const struct attention_plan *a = &f->r.b->plan->layers[rows->layer].attention;
    const struct device_layer *l = &f->r.b->model.layers[rows->layer];
    if (!f->projected)
        projections(f, l, l->qkv, l->n_qkv, l->b_qkv);
    if (!f->shape->one_row_each) {
        record_rope_kv(&f->r, a, l);
        record_barrier(&f->r);
    }
    if (f->shape->n_tiles)
        record_tiled_attention(&f->r, a, l, (uint32_t)f->shape->n_tiles);
    if (f->shape->has_untiled)
        record_attention(&f->r, a, l, rows);
    if (f->shape->n_tiles && kv_type_packed(f->r.b->kv_type)) {
        record_barrier(&f->r);
        record_attention_rotate(&f->r, a);
    }
    if (!f->resident)
        output(f, l, (uint32_t)(a->n_head * a->d_head), rows->halves);
}

static void delta_net(struct forward *f, const struct delta_net_plan *p,
                      const struct device_layer *l)
{
    const struct backend *b = f->r.b;
    const bool halves = gemm_wanted(&f->r);
    if (f->projected) /* and what follows of the mixer is done too */
        return;
    projections(f, l, l->delta_net.in, l->delta_net.n_in, NULL);
    delta_net_record(&f->r, p, l, (uint32_t)f->shape->n_sequences, halves,
                     f->shape->again ? record_resident_advanced(b, (int)(l - b->model.layers)) : 0);
    if (!f->resident)
        output(f, l, (uint32_t)(p->n_v_head * p->d_v), halves);
}

/* The first row's logit of the shared expert's gate, behind those of the experts. */
static VkDeviceAddress shared_gate_at(const struct backend *b, const struct moe_plan *p)
{
    return b->workspace.router + (uint64_t)p->n_expert * sizeof(float);
}

/* Whether record_router does all that comes before the routed experts. */
static bool router_fits(const struct forward *f, const struct device_layer *l,
                        const struct mlp_op *experts)
{
    return experts->tiled && l->router_x.n_matrix && f->r.n_rows <= RECORD_LIST_ROWS;
}

/* The logits have f32 precision on the matrix units as well: the choice of experts must not depend
 * on rounding. */
static void router(struct forward *f, const struct moe_plan *p, const struct device_layer *l,
                   int layer, const struct mlp_op *experts)
{
    struct backend *b = f->r.b;
    if (router_fits(f, l, experts)) {
        record_router(&f->r, l, experts);
        complete(f, "experts", layer);
        return; /* no pool: its models have no router_x */
    }
    struct linear_op op = {.label = "router",
                           .w = &l->router,
                           .x = b->workspace.x,
                           .norm = l->ffn_norm,
                           .y = b->workspace.router,
                           .bias = l->router_bias,
                           .x_stride = b->sizes.d,
                           .y_stride = b->sizes.expert,
                           .n_x = f->r.n_rows,
                           .eps = b->plan->norm_eps};
    /* So few rows are faster one by one, beside the cast, which then only the experts wait for. */
    const bool beside =
        !experts->tiled || (gemm_wanted(&f->r) && f->r.n_rows <= b->tuning.router_rows);
    if (beside && experts->tiled)
        record_norm_cast(f, l->ffn_norm);
    if (!beside)
        cast_f16(f, b->workspace.x, l->ffn_norm, b->sizes.d, true);
    for (int i = 0; i < 1 + (l->shared_gate.n_matrix > 0); i++) {
        if (beside)
            record_linear(&f->r, &op);
        else
            product(f, &op, true);
        op.w = &l->shared_gate;
        op.y = shared_gate_at(b, p);
        op.bias = 0;
    }
    complete(f, "router_logits", layer);
    if (!experts->route) {
        record_route(&f->r, p, l, layer, experts->lists);
        complete(f, "experts", layer);
        if (f->r.b->model.pooled)
            host_sync_load_experts(&f->r, layer);
    }
}

/* Whether `up` chooses the experts. Each of its workgroups repeats the choice, which is worth it
 * for few rows. It has a dispatch of its own where something must see it before the experts run: an
 * observer, a pool, a trace, or the processor. */
static bool choice_fits(const struct forward *f)
{
    const struct backend *b = f->r.b;
    return f->r.n_rows <= b->tuning.choice_rows && !gemm_wanted(&f->r) && !f->observer &&
           !b->model.pooled && !b->params.route && !f->r.offloads_misses;
}

/* Whether the router stands beside the products around the mixer, see router_fold.h. */
static bool fold_fits(const struct forward *f, const struct device_layer *l)
{
    return gemm_wanted(&f->r) ? record_gemm_folds(&f->r, l) && !f->observer
                              : choice_fits(f) && router_fold_fits(&f->r, l);
}

/* The same of several rows by record_resident_few(). */
static bool resident_few_fits(const struct forward *f)
{
    const struct backend *b = f->r.b;
    return !f->observer && !b->params.route && !b->model.pooled && !f->shape->n_tiles &&
           record_resident_few_fits(&f->r) && record_gemm_folds(&f->r, b->model.layers);
}

/* Whether the layers go by record_resident(). The first one's logits still come from its own
 * projections, the others' only from there. */
static bool resident_fits(const struct forward *f)
{
    if (gemm_wanted(&f->r))
        return resident_few_fits(f);
    return choice_fits(f) && record_resident_fits(&f->r) &&
           router_fold_fits(&f->r, f->r.b->model.layers);
}

/* A layer from wo on with the projections of the one that follows. */
static void joined(struct forward *f, const struct attention_op *rows)
{
    if (f->r.n_rows > 1)
        record_resident_few(&f->r, rows);
    else
        record_resident(&f->r, rows);
}

/* Whether barriers stand between attention and record_resident(). A profile tells operations apart
 * by them, also where they need none. */
static bool stands_apart(const struct forward *f)
{
    return !f->chained || f->r.b->profile;
}

/* The norm of the layer that follows, whose cast the last sum of this one does with it. */
static VkDeviceAddress next_norm(struct forward *f, int layer)
{
    f->x_cast = layer + 1 < f->r.b->plan->n_layer && !f->observer;
    return f->x_cast ? f->r.b->model.layers[layer + 1].mixer_norm : 0;
}

static void experts(struct forward *f, const struct layer_plan *p, const struct device_layer *l,
                    int layer)
{
    struct backend *b = f->r.b;
    const bool clamp = p->activation == ACT_SWIGLU_CLAMP;
    const bool fused = choice_fits(f);
    struct mlp_op routed = {.m = &l->mlp,
                            .moe = &p->moe,
                            .layer = l,
                            .index = layer,
                            .h = b->workspace.h,
                            .clamp = clamp,
                            .route = fused,
                            .folded = f->folded};
    struct mlp_op shared = {.m = &l->shared,
                            .layer = l,
                            .index = layer,
                            .h = b->workspace.h_shared,
                            .clamp = clamp,
                            .gate = l->shared_gate.n_matrix ? shared_gate_at(b, &p->moe) : 0};
    routed.tiled = gemm_takes_experts(b, f->r.n_rows);
    routed.lists = routed.tiled && record_gemm_lists(&f->r, &routed);
    routed.units =
        !p->moe.has_shared && router_fits(f, l, &routed) && record_gemm_units(&f->r, &routed);
    if (f->folded && routed.tiled) {
        router_fold_choose(&f->r, l, &routed);
        complete(f, "experts", layer);
    } else if (!f->folded) {
        router(f, &p->moe, l, layer, &routed);
    }
    if (routed.tiled) {
        routed.shared = p->moe.has_shared ? &shared : NULL;
        routed.next_norm = next_norm(f, layer);
        record_gemm_mlp(&f->r, &routed);
        return;
    }
    const bool on_cpu = f->r.offloads_misses && cpu_experts_begin(&f->r, layer);
    record_mlp_up(&f->r, &routed);
    if (p->moe.has_shared)
        record_mlp_up(&f->r, &shared);
    record_barrier(&f->r);
    if (p->moe.has_shared && record_mlp_down_beside(&f->r, &routed, &shared))
        routed.shared = &shared;
    record_mlp_down(&f->r, &routed);
    if (p->moe.has_shared && !routed.shared) {
        record_barrier(&f->r);
        record_mlp_down(&f->r, &shared);
    }
    if (on_cpu)
        cpu_experts_add(&f->r, layer);
}

static void feed_forward(struct forward *f, const struct layer_plan *p,
                         const struct device_layer *l, int layer)
{
    struct mlp_op op = {.m = &l->mlp,
                        .layer = l,
                        .index = layer,
                        .h = f->r.b->workspace.h,
                        .clamp = p->activation == ACT_SWIGLU_CLAMP};
    if (gemm_wanted(&f->r)) {
        cast_f16(f, f->r.b->workspace.x, l->ffn_norm, f->r.b->sizes.d, false);
        op.next_norm = next_norm(f, layer);
        record_gemm_mlp(&f->r, &op);
        return;
    }
    record_mlp_up(&f->r, &op);
    record_barrier(&f->r);
    record_mlp_down(&f->r, &op);
}

/* Logits of n wanted rows. Many go over the matrix units, in f32 precision as the router's do: a
 * token must not depend on rounding. */
static void head_product(struct forward *f, uint32_t first, uint32_t n)
{
    struct backend *b = f->r.b;
    const struct linear_op op = {.label = "head",
                                 .w = device_model_head(&b->model),
                                 .x = b->workspace.x,
                                 .norm = b->model.final_norm,
                                 .y = b->workspace.logits,
                                 .gather = b->step.at_outs + first * 4,
                                 .x_stride = b->sizes.d,
                                 .y_stride = (uint32_t)b->plan->n_vocab,
                                 .n_x = n,
                                 .eps = b->plan->norm_eps};
    if (!gemm_takes_head(b, n)) {
        record_linear(&f->r, &op);
        return;
    }
    record_cast_f16(&f->r, &(struct cast_f16_op){.x = op.x,
                                                 .norm = op.norm,
                                                 .gather = op.gather,
                                                 .x_stride = op.x_stride,
                                                 .n_chunk = op.x_stride / 32,
                                                 .n_x = n,
                                                 .eps = op.eps,
                                                 .split = true});
    record_barrier(&f->r);
    record_gemm_linear(&f->r, &op, true);
}

static void head_rows(struct forward *f, uint32_t first, uint32_t n)
{
    struct backend *b = f->r.b;
    uint32_t vocab = (uint32_t)b->plan->n_vocab;
    head_product(f, first, n);
    record_barrier(&f->r);
    VkBuffer from;
    uint64_t offset, bytes = (uint64_t)n * vocab * 4;
    if (f->shape->full_logits && record_locate(&f->r, b->workspace.logits, &from, &offset)) {
        vkCmdCopyBuffer(f->r.c, from, b->result.full_logits.buffer, 1,
                        &(VkBufferCopy){.srcOffset = offset,
                                        .dstOffset = (uint64_t)first * vocab * 4,
                                        .size = bytes});
    }
    record_topk(&f->r, first, n);
    record_barrier(&f->r);
}

/* The sum over experts empties their lists for the next layer. A step that ended before it, because
 * an expert could not be read, has left them as they were. */
static void empty_lists(struct forward *f)
{
    const struct backend *b = f->r.b;
    const struct workspace *w = &b->workspace;
    VkBuffer lists;
    uint64_t offset;
    if (w->counts && record_locate(&f->r, w->counts, &lists, &offset))
        vkCmdFillBuffer(f->r.c, lists, offset, (uint64_t)b->sizes.expert * 4, 0);
    if (w->arrived && record_locate(&f->r, w->arrived, &lists, &offset))
        vkCmdFillBuffer(f->r.c, lists, offset, RECORD_LIST_ROWS * 4, 0);
}

void forward_record_ops(struct forward *f)
{
    struct backend *b = f->r.b;
    const struct model_plan *plan = b->plan;
    VkBuffer used;
    uint64_t offset, bytes = ((uint64_t)plan->n_layer * USED_WORDS + 1) * 4;
    const bool counts = record_locate(&f->r, b->workspace.used, &used, &offset);
    if (counts)
        vkCmdFillBuffer(f->r.c, used, offset, bytes, 0);
    empty_lists(f);
    if (b->profile)
        profile_begin(b->profile, f->r.c);
    if ((f->resident = resident_fits(f)))
        record_resident_begin(&f->r);
    f->chained = f->resident && f->shape->one_row_each &&
                 record_chain_fits(&f->r, (uint32_t)f->shape->n_splits);
    record_embed(&f->r);
    complete(f, "embed", -1);
    for (int i = 0; i < plan->n_layer; i++) {
        const struct layer_plan *p = &plan->layers[i];
        const struct device_layer *l = &b->model.layers[i];
        f->r.wanted_alone = i + 1 == plan->n_layer && !f->observer;
        f->folded = p->ffn == FFN_MOE && fold_fits(f, l);
        const struct attention_op rows = row_attention(f, i);
        if (p->mixer == MIXER_ATTENTION)
            attention(f, &rows);
        else
            delta_net(f, &p->delta_net, l);
        if (stands_apart(f) && (!f->projected || p->mixer == MIXER_ATTENTION))
            complete(f, "after_mixer", i);
        if ((f->projected = f->resident))
            joined(f, &rows);
        else if (p->ffn == FFN_MOE)
            experts(f, p, l, i);
        else
            feed_forward(f, p, l, i);
        if (stands_apart(f) || i + 1 == plan->n_layer)
            complete(f, "after_ffn", i);
    }
    for (int32_t first = 0; first < f->shape->n_out; first += STEP_HEAD_ROWS) {
        int32_t n = f->shape->n_out - first;
        head_rows(f, (uint32_t)first, (uint32_t)(n < STEP_HEAD_ROWS ? n : STEP_HEAD_ROWS));
    }
    if (counts && f->r.ok) {
        vkCmdCopyBuffer(f->r.c, used, b->result.buffer.buffer, 1,
                        &(VkBufferCopy){.srcOffset = offset,
                                        .dstOffset = b->result.used_offset,
                                        .size = bytes});
    }
}

VkCommandBuffer forward_record(struct backend *b, const struct step_shape *s, struct err *e)
{
    VkCommandBuffer c = gpu_command_begin(&b->gpu, true, e);
    if (!c)
        return NULL;
    struct forward f = {.r = {.b = b, .c = c, .n_rows = (uint32_t)s->n_rows, .ok = true, .e = e},
                        .shape = s};
    forward_record_ops(&f);
    host_sync_barrier(c);
    if (!f.r.ok || !gpu_command_end(&b->gpu, c, e)) {
        gpu_command_free(&b->gpu, &c);
        return NULL;
    }
    return c;
}

bool forward_run_by_layer(struct backend *b, const struct step_shape *s, bool offload,
                          struct err *e)
{
    struct forward f = {.r = {.b = b,
                              .n_rows = (uint32_t)s->n_rows,
                              .ok = true,
                              .offloads_misses = offload,
                              .e = e},
                        .shape = s};
    if (!(f.r.c = gpu_command_begin(&b->gpu, false, e)))
        return false;
    forward_record_ops(&f);
    host_sync_wait(&f.r);
    bool ok = f.r.ok && f.r.c;
    gpu_command_free(&b->gpu, &f.r.c);
    if (!ok)
        host_sync_abort(&f.r);
    return ok;
}
