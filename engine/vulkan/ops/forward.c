/* One step of a plan as a list of ops: this file is the model, read from top to bottom. */
#include "engine/vulkan/ops/forward.h"

#include "engine/vulkan/ops/cpu_experts.h"
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/ops/host_sync.h"
#include "engine/vulkan/ops/delta_net_ops.h"

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
    cast_f16(f, b->workspace.x, l->mixer_norm, b->sizes.d, false);
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
                                     .eps = b->plan->norm_eps};
        product(f, &op, false);
        at += w[i].rows;
    }
    record_barrier(&f->r);
}

/* x += W mixed + bias; mixed stands in workspace.attn, `width` floats a row. */
static void output(struct forward *f, const struct device_layer *l, uint32_t width)
{
    struct backend *b = f->r.b;
    record_barrier(&f->r);
    cast_f16(f, b->workspace.attn, 0, width, false);
    const struct linear_op op = {.label = "wo",
                                 .w = &l->wo,
                                 .x = b->workspace.attn,
                                 .y = b->workspace.x,
                                 .bias = l->bo,
                                 .x_stride = width,
                                 .y_stride = b->sizes.d,
                                 .n_x = f->r.n_rows,
                                 .add = true};
    product(f, &op, false);
}

static void attention(struct forward *f, const struct attention_plan *a,
                      const struct device_layer *l)
{
    projections(f, l, l->qkv, l->n_qkv, l->b_qkv);
    if (!f->shape->one_row_each) {
        record_rope_kv(&f->r, a, l);
        record_barrier(&f->r);
    }
    if (f->shape->n_tiles)
        record_tiled_attention(&f->r, a, l, (uint32_t)f->shape->n_tiles);
    if (f->shape->has_untiled)
        record_attention(&f->r, a, l, f->shape->one_row_each, (uint32_t)f->shape->n_splits);
    if (f->shape->n_tiles && kv_type_packed(f->r.b->kv_type)) {
        record_barrier(&f->r);
        record_attention_rotate(&f->r, a);
    }
    output(f, l, (uint32_t)(a->n_head * a->d_head));
}

static void delta_net(struct forward *f, const struct delta_net_plan *p,
                      const struct device_layer *l)
{
    projections(f, l, l->delta_net.in, l->delta_net.n_in, NULL);
    delta_net_record(&f->r, p, l, (uint32_t)f->shape->n_sequences);
    output(f, l, (uint32_t)(p->n_v_head * p->d_v));
}

/* The logits have f32 precision on the matrix units as well: the choice of experts must not depend
 * on rounding. */
static void router(struct forward *f, const struct moe_plan *p, const struct device_layer *l,
                   int layer, bool fused)
{
    struct backend *b = f->r.b;
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
    cast_f16(f, b->workspace.x, l->ffn_norm, b->sizes.d, true);
    product(f, &op, true);
    if (l->shared_gate.n_matrix) {
        op.w = &l->shared_gate;
        op.y = b->workspace.shared_gate;
        op.y_stride = 1;
        op.bias = 0;
        product(f, &op, true);
    }
    complete(f, "router_logits", layer);
    if (!fused) {
        record_route(&f->r, p, l, layer);
        complete(f, "experts", layer);
        if (f->r.b->model.pooled)
            host_sync_load_experts(&f->r, layer);
    }
}

static void experts(struct forward *f, const struct layer_plan *p, const struct device_layer *l,
                    int layer)
{
    struct backend *b = f->r.b;
    const bool clamp = p->activation == ACT_SWIGLU_CLAMP;
    /* Each workgroup of `up` repeats the choice, which is worth it for few rows. It has a
     * dispatch of its own where something must see it before the experts run: an observer, a pool,
     * a trace, or the processor. */
    const bool fused = f->r.n_rows <= 8 && !f->observer && !b->model.pooled && !b->params.route &&
                       !f->r.offloads_misses;
    struct mlp_op routed = {.m = &l->mlp,
                            .moe = &p->moe,
                            .layer = l,
                            .index = layer,
                            .h = b->workspace.h,
                            .clamp = clamp,
                            .route = fused};
    struct mlp_op shared = {.m = &l->shared,
                            .layer = l,
                            .index = layer,
                            .h = b->workspace.h_shared,
                            .clamp = clamp,
                            .gate = l->shared_gate.n_matrix ? b->workspace.shared_gate : 0};
    router(f, &p->moe, l, layer, fused);
    if (gemm_wanted(&f->r)) {
        record_gemm_mlp(&f->r, &routed);
        if (p->moe.has_shared) {
            record_barrier(&f->r);
            record_gemm_mlp(&f->r, &shared);
        }
        return;
    }
    const bool on_cpu = f->r.offloads_misses && cpu_experts_begin(&f->r, layer);
    record_mlp_up(&f->r, &routed);
    if (p->moe.has_shared)
        record_mlp_up(&f->r, &shared);
    record_barrier(&f->r);
    record_mlp_down(&f->r, &routed);
    if (p->moe.has_shared) {
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
                                 .w = b->model.head.n_matrix ? &b->model.head : &b->model.embed,
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

void forward_record_ops(struct forward *f)
{
    struct backend *b = f->r.b;
    const struct model_plan *plan = b->plan;
    VkBuffer used;
    uint64_t offset, bytes = (uint64_t)plan->n_layer * USED_WORDS * 4;
    const bool counts = bytes && record_locate(&f->r, b->workspace.used, &used,
                                               &offset); /* a probe's step may have no layers */
    if (counts)
        vkCmdFillBuffer(f->r.c, used, offset, bytes, 0);
    if (b->profile)
        profile_begin(b->profile, f->r.c);
    record_embed(&f->r);
    complete(f, "embed", -1);
    for (int i = 0; i < plan->n_layer; i++) {
        const struct layer_plan *p = &plan->layers[i];
        const struct device_layer *l = &b->model.layers[i];
        if (p->mixer == MIXER_ATTENTION)
            attention(f, &p->attention, l);
        else
            delta_net(f, &p->delta_net, l);
        complete(f, "after_mixer", i);
        if (p->ffn == FFN_MOE)
            experts(f, p, l, i);
        else
            feed_forward(f, p, l, i);
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
