/* record_resident.h: conditions, constants and addresses of resident.comp. */
#include "engine/vulkan/ops/record_resident.h"

#include <stdlib.h>
#include <string.h>

#include "engine/vulkan/ops/delta_net_ops.h"
#include "engine/vulkan/ops/dispatch.h"

#define RESIDENT_THREADS 768u /* their registers fill a multiprocessor */
#define RESIDENT_SHARED 8192u /* bytes of its shared memory beside the tile */
#define CHUNK_BYTES 128u      /* of the tile */
#define SUMS_BYTES 8u         /* of each of its chunks, beside K-blocks */

_Static_assert(RESIDENT_USED_WORDS == USED_WORDS, "the shader finds the experts in use elsewhere");

static bool is_k_blocks(const struct device_matrix *m)
{
    return !strcmp(m->layout.kernel, "block") &&
           (m->layout.block == BLOCK_Q4_K || m->layout.block == BLOCK_Q5_K ||
            m->layout.block == BLOCK_Q6_K);
}

/* The layer that follows, or the last one itself. */
static int layer_after(const struct backend *b, int index)
{
    return index + 1 == b->plan->n_layer ? index : index + 1;
}

static bool is_dense(const struct device_layout *l)
{
    return !strcmp(l->kernel, "mxfp4") || !strcmp(l->kernel, "affine") ||
           !strcmp(l->kernel, "block");
}

static bool router_fits(const struct moe_plan *m, const struct device_layer *l)
{
    return l->router_mixed.n_matrix && dispatch_by_logits(m) && !l->router_bias &&
           (uint32_t)m->n_expert <= RESIDENT_THREADS;
}

/* What a layer multiplies norm(x) by, before its mixer. */
static const struct device_matrix *projections(const struct layer_plan *p,
                                               const struct device_layer *l)
{
    return p->mixer == MIXER_ATTENTION ? &l->qkv[0] : &l->delta_net.in[0];
}

static bool mixer_fits(const struct backend *b, const struct layer_plan *p,
                       const struct device_layer *l)
{
    const struct delta_net_plan *d = &p->delta_net;
    if (p->mixer == MIXER_ATTENTION)
        return !l->b_qkv[0] && !l->bo && p->attention.n_head * p->attention.d_head % 32 == 0;
    return b->delta_steps && l->delta_net.n_in == 1 && b->gpu.caps.subgroup >= DELTA_SHARE &&
           d->d_v / (4 * (int)DELTA_SHARE) * d->n_v_head <= (int)RESIDENT_ADVANCED_WORDS &&
           (2 * d->d_k + 4 * (int)DELTA_SHARE) / 4 <= (int)RESIDENT_THREADS;
}

/* Beside the routed experts, as one more of them. */
static bool shared_fits(const struct layer_plan *p, const struct device_layer *l)
{
    const struct device_mlp *s = &l->shared;
    return !p->moe.has_shared ||
           (l->shared_gate.n_matrix && s->gate_up.rows == l->mlp.gate_up.rows && !s->b_gate_up &&
            !s->b_down && dispatch_same_format(&s->gate_up.layout, &l->wo.layout) &&
            dispatch_same_format(&s->down.layout, &l->wo.layout));
}

/* Formats that a variant of the shader has together: experts' codes by masks and one format of all
 * else, or K-blocks, of which up, down and v have their own. */
static bool formats_fit(const struct layer_plan *p, const struct device_layer *l)
{
    const struct device_matrix *in = projections(p, l), *up = &l->mlp.gate_up, *down = &l->mlp.down;
    if (!is_dense(&l->wo.layout) || !dispatch_same_format(&l->wo.layout, &in->layout))
        return false;
    if (dispatch_by_masks(up) && dispatch_by_masks(down))
        return p->mixer != MIXER_ATTENTION || l->n_qkv == 1;
    return p->mixer == MIXER_ATTENTION && !p->moe.has_shared && is_k_blocks(&l->wo) &&
           is_k_blocks(up) && is_k_blocks(down) &&
           (l->n_qkv == 1 ||
            (l->n_qkv == 2 && !l->b_qkv[1] && l->qkv[0].rows % 2 == 0 && is_k_blocks(&l->qkv[1])));
}

static bool layer_fits(const struct backend *b, const struct layer_plan *p,
                       const struct device_layer *l)
{
    return p->ffn == FFN_MOE && mixer_fits(b, p, l) && shared_fits(p, l) &&
           p->activation == ACT_SWIGLU && !l->mlp.b_gate_up && !l->mlp.b_down && l->mixer_norm &&
           l->ffn_norm && router_fits(&p->moe, l) && !l->split_experts.table &&
           l->wo.rows % 32 == 0 && p->moe.d_ff % 32 == 0 && formats_fit(p, l);
}

bool record_resident_same_shape(const struct device_matrix *a, const struct device_matrix *b)
{
    return a->rows == b->rows && a->layout.n_chunk == b->layout.n_chunk &&
           dispatch_same_format(&a->layout, &b->layout);
}

/* The first recurrent layer, or NULL. */
static const struct delta_net_plan *recurrent_of(const struct model_plan *plan)
{
    for (int i = 0; i < plan->n_layer; i++)
        if (plan->layers[i].mixer == MIXER_DELTA_NET)
            return &plan->layers[i].delta_net;
    return NULL;
}

static bool same_heads(const struct delta_net_plan *a, const struct delta_net_plan *b)
{
    return a->n_k_head == b->n_k_head && a->n_v_head == b->n_v_head && a->d_k == b->d_k &&
           a->d_v == b->d_v && a->n_conv == b->n_conv && a->tiled_heads == b->tiled_heads;
}

/* One pipeline does all layers, of K-blocks one for each pair of formats of down and v. */
static bool is_like_others(const struct backend *b, int index)
{
    const struct layer_plan *p = &b->plan->layers[index];
    const struct device_layer *l = &b->model.layers[index], *first = b->model.layers;
    const struct moe_plan *m = &p->moe, *other = &b->plan->layers[0].moe;
    return record_resident_same_shape(&l->wo, &first->wo) &&
           record_resident_same_shape(&l->mlp.gate_up, &first->mlp.gate_up) &&
           m->n_expert == other->n_expert && m->n_used == other->n_used &&
           m->score == other->score && m->normalize == other->normalize &&
           m->has_shared == other->has_shared &&
           (p->mixer == MIXER_ATTENTION || same_heads(&p->delta_net, recurrent_of(b->plan)));
}

static uint32_t slots_of(const struct moe_plan *m)
{
    return (uint32_t)m->n_used + m->has_shared;
}

static uint32_t shared_bytes(const struct backend *b)
{
    const struct device_layer *l = b->model.layers;
    uint32_t most = slots_of(&b->plan->layers[0].moe) * l->mlp.down.layout.n_chunk;
    most = most > l->wo.layout.n_chunk ? most : l->wo.layout.n_chunk;
    most = most > l->mlp.gate_up.layout.n_chunk ? most : l->mlp.gate_up.layout.n_chunk;
    return (most + 1) * (CHUNK_BYTES + (is_k_blocks(&l->mlp.gate_up) ? SUMS_BYTES : 0)) +
           RESIDENT_SHARED;
}

/* addresses of a push_resident that count from `weights`, with the shared expert's planes */
#define WEIGHTS (RECORD_RESIDENT_WEIGHTS + 6)
#define WORK 9 /* and from `work`, in the order of SPEC_AT_MIXED and the next ones */

bool record_resident_units(const VkDeviceAddress *at, uint32_t *units, int n, uint64_t *base)
{
    uint64_t low = at[0];
    for (int i = 1; i < n; i++)
        low = at[i] && at[i] < low ? at[i] : low;
    *base = low;
    for (int i = 0; i < n; i++) {
        const uint64_t away = at[i] ? at[i] - low : 0;
        units[i] = (uint32_t)(away / RESIDENT_UNIT);
        if (away % RESIDENT_UNIT || away / RESIDENT_UNIT > UINT32_MAX)
            return false;
    }
    return true;
}

static bool work_of(const struct workspace *w, uint32_t units[WORK], uint64_t *base)
{
    const VkDeviceAddress work[WORK] = {w->attn, w->x,        w->router, w->h,    w->qkv,
                                        w->used, w->meetings, w->gates,  w->parts};
    return record_resident_units(work, units, WORK, base);
}

void record_resident_weights(const struct backend *b, int index,
                             VkDeviceAddress at[RECORD_RESIDENT_WEIGHTS])
{
    const int after = layer_after(b, index);
    const struct device_layer *l = &b->model.layers[index], *next = &b->model.layers[after];
    const struct device_matrix *qkv = projections(&b->plan->layers[after], next),
                               *up = &l->mlp.gate_up, *down = &l->mlp.down;
    const VkDeviceAddress weights[RECORD_RESIDENT_WEIGHTS] = {
        l->wo.plane[0], l->wo.plane[1], l->wo.plane[2], l->router_mixed.plane[0], l->ffn_norm,
        up->plane[0],   up->plane[1],   down->plane[0], down->plane[1],           next->mixer_norm,
        qkv->plane[0],  qkv->plane[1],  qkv->plane[2],  next->router_x.plane[0]};
    memcpy(at, weights, sizeof weights);
}

static bool weights_of(const struct backend *b, int index, struct push_resident *p)
{
    const int after = layer_after(b, index);
    const struct device_layer *l = &b->model.layers[index], *next = &b->model.layers[after];
    const bool blocks = is_k_blocks(&l->mlp.gate_up);
    VkDeviceAddress weights[WEIGHTS], *more = weights + RECORD_RESIDENT_WEIGHTS;
    record_resident_weights(b, index, weights);
    memcpy(more, l->shared.gate_up.plane, 3 * sizeof *more);
    memcpy(more + 3, blocks ? next->qkv[1].plane : l->shared.down.plane, 3 * sizeof *more);
    if (blocks)
        more[0] = l->mlp.gate_up.plane[2], more[1] = l->mlp.down.plane[2];
    uint32_t u[WEIGHTS];
    if (!record_resident_units(weights, u, WEIGHTS, &p->weights))
        return false;
    p->wo_data = u[0], p->wo_scales = u[1], p->wo_biases = u[2], p->wo_extra = u[3];
    p->ffn_norm = u[4];
    p->up_data = u[5], p->up_scales = u[6];
    p->down_data = u[7], p->down_scales = u[8];
    p->mixer_norm = u[9];
    p->qkv_data = u[10], p->qkv_scales = u[11], p->qkv_biases = u[12], p->qkv_extra = u[13];
    p->shared_up_data = u[14], p->shared_up_scales = u[15], p->shared_up_biases = u[16];
    p->shared_down_data = u[17], p->shared_down_scales = u[18], p->shared_down_biases = u[19];
    p->qkv_rows = projections(&b->plan->layers[after], next)->rows;
    if (blocks) {
        p->RESIDENT_V_AT = p->qkv_rows;
        p->qkv_rows += next->qkv[1].rows;
    }
    return true;
}

bool record_resident_fits(const struct recorder *r)
{
    const struct backend *b = r->b;
    const struct gpu_caps *c = &b->gpu.caps;
    struct push_resident unused;
    uint32_t units[WORK];
    uint64_t base;
    bool fits = b->tuning.resident_groups && r->n_rows == 1 && b->plan->n_layer > 0 &&
                work_of(&b->workspace, units, &base) && c->max_threads >= RESIDENT_THREADS &&
                c->subgroup >= 4;
    for (int i = 0; fits && i < b->plan->n_layer; i++)
        fits = layer_fits(b, &b->plan->layers[i], &b->model.layers[i]) && is_like_others(b, i) &&
               weights_of(b, i, &unused);
    return fits && shared_bytes(b) <= c->max_shared;
}

VkDeviceAddress record_resident_advanced(const struct backend *b, int index)
{
    const uint64_t words = (uint64_t)b->plan->n_layer * RESIDENT_MEETING_WORDS +
                           (uint64_t)index * RESIDENT_ADVANCED_WORDS;
    return b->workspace.meetings + words * 4;
}

struct mixer { /* as in resident_delta.glsl */
    VkDeviceAddress state, runs, conv, a_log, dt_bias, norm;
};
_Static_assert(sizeof(struct mixer) == RESIDENT_MIXER_WORDS * 4, "the shader has others");

/* What recurrent layers are computed with, `at` bytes into the buffer. */
static void record_mixers(struct recorder *r, VkBuffer buffer, uint64_t at)
{
    const struct backend *b = r->b;
    const size_t n = (size_t)b->plan->n_layer;
    struct mixer *m = calloc(n, sizeof *m);
    if (!m) {
        r->ok = err_set(r->e, ERR_NOMEM, "no memory for a step");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct device_layer *l = &b->model.layers[i];
        const struct device_delta_net *d = &l->delta_net;
        m[i] = (struct mixer){l->state, b->step.at_runs, d->conv, d->a_log, d->dt_bias, d->norm};
    }
    vkCmdUpdateBuffer(r->c, buffer, at, n * sizeof *m, m);
    free(m);
}

/* The first layer's state is advanced in every case, by a dispatch of its own. */
void record_resident_begin(struct recorder *r)
{
    const struct backend *b = r->b;
    VkBuffer buffer;
    uint64_t at;
    const uint64_t n = (uint64_t)b->plan->n_layer, meetings = n * RESIDENT_MEETING_WORDS * 4,
                   first = RESIDENT_ADVANCED_WORDS * 4, others = (n - 1) * first;
    if (!record_locate(r, b->workspace.meetings, &buffer, &at))
        return;
    vkCmdFillBuffer(r->c, buffer, at, meetings, 0);
    if (!b->plan->n_recurrent)
        return;
    vkCmdFillBuffer(r->c, buffer, at + meetings, first, 1);
    if (others)
        vkCmdFillBuffer(r->c, buffer, at + meetings + first, others, 0);
    record_mixers(r, buffer, at + meetings + first + others);
}

static void spec_resident(const struct recorder *r, uint32_t *spec, int index,
                          const uint32_t units[WORK])
{
    const struct backend *b = r->b;
    const struct device_layer *l = &b->model.layers[index],
                              *next = &b->model.layers[layer_after(b, index)];
    const bool blocks = is_k_blocks(&l->mlp.gate_up);
    const struct moe_plan *m = &b->plan->layers[index].moe;
    static const struct delta_net_plan none = {
        .n_k_head = 1, .n_v_head = 1, .d_k = 32, .d_v = 32, .n_conv = 4};
    const struct delta_net_plan *recurrent = recurrent_of(b->plan);
    dispatch_spec_format(spec, &l->wo);
    dispatch_spec_route(spec, m);
    delta_net_spec(r, spec, recurrent ? recurrent : &none);
    spec[SPEC_THREADS] = RESIDENT_THREADS;
    spec[SPEC_LANES] = b->gpu.caps.subgroup;
    spec[SPEC_D_MODEL] = l->wo.rows;
    spec[SPEC_MIXED_COLS] = l->wo.layout.n_chunk * 32;
    spec[SPEC_D_FF] = (uint32_t)m->d_ff;
    spec[SPEC_RESIDENT_CODES] = l->mlp.gate_up.layout.block;
    spec[SPEC_RESIDENT_LOGITS] = l->router_x.rows > b->tuning.resident_groups ? 2 : 1;
    spec[SPEC_RESIDENT_DOWN] = blocks ? l->mlp.down.layout.block : 0;
    spec[SPEC_RESIDENT_V] = blocks && next->n_qkv == 2 ? next->qkv[1].layout.block : 0;
    spec[SPEC_RESIDENT_SHARED] = m->has_shared;
    spec[SPEC_RESIDENT_DELTA] = recurrent != NULL;
    memcpy(spec + SPEC_AT_MIXED, units, WORK * sizeof *units);
}

void record_resident(struct recorder *r, const struct attention_op *attention)
{
    const struct backend *b = r->b;
    const int index = attention->layer;
    const struct layer_plan *p = &b->plan->layers[index];
    const bool last = index + 1 == b->plan->n_layer,
               lacks_norm = index && p->mixer == MIXER_DELTA_NET,
               next_delta = !last && p[1].mixer == MIXER_DELTA_NET;
    uint32_t units[WORK];
    struct push_resident push = {
        .token_rows = record_rows(r),
        .layer = (uint32_t)index,
        .n_layer = (uint32_t)b->plan->n_layer,
        .mixers = (lacks_norm ? RESIDENT_LACKS_NORM : 0) | (next_delta ? RESIDENT_NEXT_DELTA : 0),
        .eps = b->plan->norm_eps,
        .scale = p->moe.scale,
    };
    weights_of(b, index, &push); /* which record_resident_fits() tried */
    work_of(&b->workspace, units, &push.work);
    const bool blocks = is_k_blocks(&b->model.layers[index].mlp.gate_up);
    struct dispatch d = {.shader = blocks ? "resident_blocks" : "resident",
                         .format = blocks ? NULL : b->model.layers[index].wo.layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = b->tuning.resident_groups,
                         .y = 1,
                         .z = 1};
    spec_resident(r, d.spec, index, units);
    d.spec[SPEC_RESIDENT_MERGE] = attention->merge;
    if (attention->chained)
        d.spec[SPEC_ATTENDED] = record_attention_groups(r, &p->attention, attention);
    dispatch_op(r, &d);
    r->last = "wo to qkv";
}
