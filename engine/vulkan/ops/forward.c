/* One step of a plan as a list of ops: this file is the model, read from top to bottom. */
#include "engine/vulkan/ops/forward.h"

#include "engine/vulkan/ops/delta_net.h"
#include "engine/vulkan/ops/meet.h"
#include "engine/vulkan/ops/wide.h"

static void after(struct forward *f, const char *what, int layer)
{
    record_barrier(&f->r);
    if (f->after && f->r.ok) {
        f->after(f->after_context, what, layer);
    }
}

/* A product with norm(x): on the matrix units for many rows, where the caller has recorded record_halves. */
static void product(struct forward *f, const struct linear_op *op, bool wide, bool split)
{
    if (wide) {
        record_wide_linear(&f->r, op, split);
    } else {
        record_linear(&f->r, op);
    }
}

/* Halves of norm(x), or of x where norm is 0, for the products that follow. */
static void halves(struct forward *f, VkDeviceAddress x, VkDeviceAddress norm, uint32_t n, bool split)
{
    record_halves(&f->r, &(struct halves_op){.x = x, .norm = norm, .x_stride = n, .n_chunk = n / 32, .n_x = f->r.n_rows,
                                             .eps = f->r.b->plan->norm_eps, .split = split});
    record_barrier(&f->r);
}

/* Side by side into work.qkv; biases: one for each matrix, or NULL. */
static void projections(struct forward *f, const struct device_layer *l, const struct device_matrix *w, int n,
                        const VkDeviceAddress *biases, bool wide)
{
    struct backend *b = f->r.b;
    uint32_t at = 0;
    if (wide) {
        halves(f, b->work.x, l->mixer_norm, b->sizes.d, false);
    }
    for (int i = 0; i < n; i++) {
        product(f, &(struct linear_op){.label = "qkv", .w = &w[i], .x = b->work.x, .norm = l->mixer_norm, .y = b->work.qkv + at * 4,
                                       .bias = biases ? biases[i] : 0, .x_stride = b->sizes.d, .y_stride = b->sizes.qkv,
                                       .n_x = f->r.n_rows, .eps = b->plan->norm_eps}, wide, false);
        at += w[i].rows;
    }
    record_barrier(&f->r);
}

/* x += W mixed + bias, mixed being `width` wide in work.attn. */
static void output(struct forward *f, const struct device_layer *l, uint32_t width, bool wide)
{
    struct backend *b = f->r.b;
    record_barrier(&f->r);
    if (wide) {
        halves(f, b->work.attn, 0, width, false);
    }
    product(f, &(struct linear_op){.label = "wo", .w = &l->wo, .x = b->work.attn, .y = b->work.x, .bias = l->bo, .x_stride = width,
                                   .y_stride = b->sizes.d, .n_x = f->r.n_rows, .add = true}, wide, false);
}

static void attention(struct forward *f, const struct attention_plan *a, const struct device_layer *l)
{
    const bool wide = wide_wanted(&f->r);
    projections(f, l, l->qkv, l->n_qkv, l->b_qkv, wide);
    if (!f->shape->alone) {
        record_rope_kv(&f->r, a, l);
        record_barrier(&f->r);
    }
    if (f->shape->n_tiles) {
        record_wide_attention(&f->r, a, l, (uint32_t)f->shape->n_tiles);
    }
    if (f->shape->singles) {
        record_attention(&f->r, a, l, f->shape->alone);
    }
    output(f, l, (uint32_t)(a->n_head * a->d_head), wide);
}

static void delta_net(struct forward *f, const struct delta_net_plan *p, const struct device_layer *l)
{
    const bool wide = wide_wanted(&f->r);
    projections(f, l, l->delta_net.in, l->delta_net.n_in, NULL, wide);
    record_delta_net(&f->r, p, l, (uint32_t)f->shape->n_sequences);
    output(f, l, (uint32_t)(p->n_v_head * p->d_v), wide);
}

/* The choice of experts goes by logits of f32 precision also on the matrix units. */
static void router(struct forward *f, const struct moe_plan *p, const struct device_layer *l, int layer, bool in_experts)
{
    struct backend *b = f->r.b;
    const bool wide = wide_wanted(&f->r);
    struct linear_op op = {.label = "router", .w = &l->router, .x = b->work.x, .norm = l->ffn_norm, .y = b->work.router,
                           .bias = l->router_bias, .x_stride = b->sizes.d, .y_stride = b->sizes.expert, .n_x = f->r.n_rows,
                           .eps = b->plan->norm_eps};
    if (wide) {
        halves(f, b->work.x, l->ffn_norm, b->sizes.d, true);
    }
    product(f, &op, wide, true);
    if (l->shared_gate.n_matrix) {
        op.w = &l->shared_gate;
        op.y = b->work.shared_gate;
        op.y_stride = 1;
        op.bias = 0;
        product(f, &op, wide, true);
    }
    after(f, "router_logits", layer);
    if (!in_experts) {
        record_route(&f->r, p, l, layer);
        after(f, "experts", layer);
        if (f->r.b->model.pooled) {
            meet_pool(&f->r, layer);
        }
    }
}

static void experts(struct forward *f, const struct layer_plan *p, const struct device_layer *l, int layer)
{
    struct backend *b = f->r.b;
    const bool clamp = p->activation == ACT_SWIGLU_CLAMP;
    /* Each workgroup of `up` repeats the choice: worth it while there are few rows. A trace comes in between. */
    const bool route = f->r.n_rows <= 8 && !f->after && !b->model.pooled && !b->params.route && !f->r.leaves;
    struct mlp_op routed = {.m = &l->mlp, .moe = &p->moe, .layer = l, .index = layer, .h = b->work.h, .clamp = clamp, .route = route};
    struct mlp_op shared = {.m = &l->shared, .layer = l, .index = layer, .h = b->work.h_shared, .clamp = clamp,
                            .gate = l->shared_gate.n_matrix ? b->work.shared_gate : 0};
    router(f, &p->moe, l, layer, route);
    if (wide_wanted(&f->r)) {
        record_wide_mlp(&f->r, &routed);
        if (p->moe.has_shared) {
            record_barrier(&f->r);
            record_wide_mlp(&f->r, &shared);
        }
        return;
    }
    const bool rest = f->r.leaves && meet_rest(&f->r, layer);
    record_mlp_up(&f->r, &routed);
    if (p->moe.has_shared) {
        record_mlp_up(&f->r, &shared);
    }
    record_barrier(&f->r);
    record_mlp_down(&f->r, &routed);
    if (p->moe.has_shared) {
        record_barrier(&f->r);
        record_mlp_down(&f->r, &shared);
    }
    if (rest) {
        meet_sum(&f->r, layer);
    }
}

static void feed_forward(struct forward *f, const struct layer_plan *p, const struct device_layer *l, int layer)
{
    struct mlp_op op = {.m = &l->mlp, .layer = l, .index = layer, .h = f->r.b->work.h, .clamp = p->activation == ACT_SWIGLU_CLAMP};
    if (wide_wanted(&f->r)) {
        halves(f, f->r.b->work.x, l->ffn_norm, f->r.b->sizes.d, false);
        record_wide_mlp(&f->r, &op);
        return;
    }
    record_mlp_up(&f->r, &op);
    record_barrier(&f->r);
    record_mlp_down(&f->r, &op);
}

static void head_rows(struct forward *f, uint32_t first, uint32_t n)
{
    struct backend *b = f->r.b;
    const struct device_matrix *w = b->model.head.n_matrix ? &b->model.head : &b->model.embed;
    uint32_t vocab = (uint32_t)b->plan->n_vocab;
    record_linear(&f->r, &(struct linear_op){.label = "head", .w = w, .x = b->work.x, .norm = b->model.final_norm, .y = b->work.logits,
                                             .gather = b->step.at_outs + first * 4, .x_stride = b->sizes.d, .y_stride = vocab,
                                             .n_x = n, .eps = b->plan->norm_eps});
    record_barrier(&f->r);
    VkBuffer from;
    uint64_t offset, bytes = (uint64_t)n * vocab * 4;
    if (f->shape->whole && record_locate(&f->r, b->work.logits, &from, &offset)) {
        vkCmdCopyBuffer(f->r.c, from, b->result.whole.buffer, 1,
                        &(VkBufferCopy){.srcOffset = offset, .dstOffset = (uint64_t)first * vocab * 4, .size = bytes});
    }
    record_top(&f->r, first, n);
    record_barrier(&f->r);
}

void forward_walk(struct forward *f)
{
    struct backend *b = f->r.b;
    const struct model_plan *plan = b->plan;
    VkBuffer used;
    uint64_t offset, bytes = (uint64_t)plan->n_layer * USED_WORDS * 4;
    const bool counts = bytes && record_locate(&f->r, b->work.used, &used, &offset); /* a probe's step may have no layers */
    if (counts) {
        vkCmdFillBuffer(f->r.c, used, offset, bytes, 0);
    }
    if (b->profile) {
        profile_begin(b->profile, f->r.c);
    }
    record_embed(&f->r);
    after(f, "embed", -1);
    for (int i = 0; i < plan->n_layer; i++) {
        const struct layer_plan *p = &plan->layers[i];
        const struct device_layer *l = &b->model.layers[i];
        if (p->mixer == MIXER_ATTENTION) {
            attention(f, &p->attention, l);
        } else {
            delta_net(f, &p->delta_net, l);
        }
        after(f, "after_mixer", i);
        if (p->ffn == FFN_MOE) {
            experts(f, p, l, i);
        } else {
            feed_forward(f, p, l, i);
        }
        after(f, "after_ffn", i);
    }
    for (int32_t first = 0; first < f->shape->n_out; first += STEP_HEAD_ROWS) {
        int32_t n = f->shape->n_out - first;
        head_rows(f, (uint32_t)first, (uint32_t)(n < STEP_HEAD_ROWS ? n : STEP_HEAD_ROWS));
    }
    if (counts && f->r.ok) {
        vkCmdCopyBuffer(f->r.c, used, b->result.buffer.buffer, 1,
                        &(VkBufferCopy){.srcOffset = offset, .dstOffset = b->result.used_offset, .size = bytes});
    }
}

VkCommandBuffer forward_record(struct backend *b, const struct shape *s, struct err *e)
{
    VkCommandBuffer c = gpu_command_begin(&b->gpu, true, e);
    if (!c) {
        return NULL;
    }
    struct forward f = {.r = {.b = b, .c = c, .n_rows = (uint32_t)s->n_rows, .ok = true, .e = e}, .shape = s};
    forward_walk(&f);
    meet_barrier(c);
    if (!f.r.ok || !gpu_command_end(&b->gpu, c, e)) {
        gpu_command_free(&b->gpu, &c);
        return NULL;
    }
    return c;
}

bool forward_stopping(struct backend *b, const struct shape *s, bool leaves, struct err *e)
{
    struct forward f = {.r = {.b = b, .n_rows = (uint32_t)s->n_rows, .ok = true, .leaves = leaves, .e = e}, .shape = s};
    if (!(f.r.c = gpu_command_begin(&b->gpu, false, e))) {
        return false;
    }
    forward_walk(&f);
    meet_host(&f.r);
    bool ok = f.r.ok && f.r.c;
    gpu_command_free(&b->gpu, &f.r.c);
    if (!ok) {
        meet_give_up(&f.r);
    }
    return ok;
}
