/* Few rows between two attentions in one dispatch: conditions, constants and addresses of
 * resident_few.comp. */
#include <string.h>

#include "engine/vulkan/ops/dispatch.h"
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/ops/record_resident.h"

#define FEW_THREADS 512u      /* 128 registers each */
#define EMULATED_THREADS 256u /* of tests, whose products take shared memory */
#define FEW_UP_DEPTH 4u
#define FEW_DOWN_SLICES 8u  /* of a row of down at most */
#define EXPERT_BYTES 8u     /* of shared memory, for each expert */
#define PAIR_BYTES 24u      /* for each row and expert of it */
#define SHARED_RESERVE 320u /* zeros, factors */

_Static_assert(RESIDENT_USED_WORDS == USED_WORDS, "the shader finds the experts in use elsewhere");

static uint32_t threads_of(const struct backend *b)
{
    return b->tuning.few == WIDE_EMULATED ? EMULATED_THREADS : FEW_THREADS;
}

static bool is_dense(const struct backend *b, const struct device_layout *l)
{
    return !strcmp(l->kernel, "mxfp4") || !strcmp(l->kernel, "block") ||
           (!strcmp(l->kernel, "affine") && b->tuning.few == WIDE_UNITS);
}

static bool experts_fit(const struct moe_plan *m, const struct device_layer *l)
{
    return !m->has_shared && m->d_ff % 128 == 0 && m->d_ff / 128 <= (int32_t)FEW_DOWN_SLICES &&
           dispatch_by_logits(m) && !l->router_bias && l->router_mixed.n_matrix &&
           !l->mlp.b_gate_up && !l->mlp.b_down && !l->split_experts.table &&
           dispatch_by_masks(&l->mlp.gate_up) && dispatch_by_masks(&l->mlp.down);
}

static bool layer_fits(const struct backend *b, const struct layer_plan *p,
                       const struct device_layer *l)
{
    return p->mixer == MIXER_ATTENTION && p->ffn == FFN_MOE && p->activation == ACT_SWIGLU &&
           l->n_qkv == 1 && !l->b_qkv[0] && !l->bo && l->mixer_norm && l->ffn_norm &&
           experts_fit(&p->moe, l) && is_dense(b, &l->wo.layout) &&
           dispatch_same_format(&l->wo.layout, &l->qkv[0].layout) && l->wo.rows % 512 == 0 &&
           l->qkv[0].rows % 16 == 0 && p->attention.n_head * p->attention.d_head % 32 == 0;
}

/* One pipeline does all layers. */
static bool is_like_first(const struct backend *b, int index)
{
    const struct device_layer *l = &b->model.layers[index], *first = b->model.layers;
    const struct moe_plan *m = &b->plan->layers[index].moe, *other = &b->plan->layers[0].moe;
    return record_resident_same_shape(&l->wo, &first->wo) &&
           record_resident_same_shape(&l->qkv[0], &first->qkv[0]) &&
           record_resident_same_shape(&l->mlp.gate_up, &first->mlp.gate_up) &&
           m->n_expert == other->n_expert && m->n_used == other->n_used &&
           m->score == other->score && m->normalize == other->normalize;
}

/* Slices of a row of down: each is one step of four chunks, as a thread that has two in registers
 * is slower than dispatches. */
static uint32_t down_slices(const struct device_layer *l)
{
    return l->mlp.down.layout.n_chunk / 4;
}

static uint32_t most_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* As resident_few.comp declares it. */
static uint32_t shared_bytes(const struct backend *b)
{
    const struct device_layer *l = b->model.layers;
    const struct moe_plan *m = &b->plan->layers[0].moe;
    const bool emulated = b->tuning.few == WIDE_EMULATED;
    const uint32_t pairs = MATRIX_FEW * (uint32_t)m->n_used, lanes = b->gpu.caps.subgroup,
                   threads = threads_of(b);
    const uint32_t rows = MATRIX_FEW * (l->wo.rows / 8 + 4) * 16,
                   parts = down_slices(l) * pairs * 64, segments = l->wo.rows / (4 * lanes),
                   subgroups = threads / lanes;
    const uint32_t tile_sums = most_of(threads * 16, emulated ? 32 * 128 : 96 * 128),
                   row_sums = MATRIX_FEW * 4 * (segments + most_of(segments, subgroups));
    return most_of(rows, parts) + most_of(tile_sums, row_sums) + pairs * PAIR_BYTES +
           (uint32_t)m->n_expert * EXPERT_BYTES + (emulated ? threads * 24 : 0) + SHARED_RESERVE;
}

#define WORK 7 /* addresses of a push_resident_few that count from `work` */

static bool addresses_of(const struct backend *b, int index, struct push_resident_few *p)
{
    const struct workspace *w = &b->workspace;
    const VkDeviceAddress work[WORK] = {w->x_hi, w->x,    w->router,  w->h,
                                        w->qkv,  w->used, w->meetings};
    VkDeviceAddress weights[RECORD_RESIDENT_WEIGHTS];
    uint32_t u[RECORD_RESIDENT_WEIGHTS], k[WORK];
    record_resident_weights(b, index, weights);
    if (!record_resident_units(weights, u, RECORD_RESIDENT_WEIGHTS, &p->weights) ||
        !record_resident_units(work, k, WORK, &p->work))
        return false;
    p->wo_data = u[0], p->wo_scales = u[1], p->wo_biases = u[2], p->wo_extra = u[3];
    p->ffn_norm = u[4];
    p->up_data = u[5], p->up_scales = u[6];
    p->down_data = u[7], p->down_scales = u[8];
    p->mixer_norm = u[9];
    p->qkv_data = u[10], p->qkv_scales = u[11], p->qkv_biases = u[12], p->qkv_extra = u[13];
    p->mixed = k[0], p->x = k[1], p->logits = k[2], p->h = k[3], p->qkv = k[4];
    p->used = k[5], p->meetings = k[6];
    return true;
}

bool record_resident_few_fits(const struct recorder *r)
{
    const struct backend *b = r->b;
    const struct gpu_caps *c = &b->gpu.caps;
    struct push_resident_few unused;
    bool fits = b->tuning.resident_groups && b->tuning.few != WIDE_NONE && r->n_rows > 1 &&
                r->n_rows <= MATRIX_FEW && gemm_takes_experts(b, r->n_rows) &&
                b->plan->n_layer > 0 && !b->plan->n_recurrent && c->max_threads >= threads_of(b) &&
                c->subgroup >= MATRIX_FEW && c->subgroup <= 32;
    for (int i = 0; fits && i < b->plan->n_layer; i++)
        fits = layer_fits(b, &b->plan->layers[i], &b->model.layers[i]) && is_like_first(b, i) &&
               addresses_of(b, i, &unused);
    return fits && (uint32_t)b->plan->layers[0].moe.n_used <= c->subgroup &&
           shared_bytes(b) <= c->max_shared;
}

static void spec_shape(const struct recorder *r, const struct moe_plan *m,
                       const struct device_layer *l, uint32_t *spec)
{
    dispatch_spec_format(spec, &l->wo);
    dispatch_spec_route(spec, m);
    spec[SPEC_THREADS] = threads_of(r->b);
    spec[SPEC_LANES] = r->b->gpu.caps.subgroup;
    spec[SPEC_UNITS_D_MODEL] = l->wo.rows;
    spec[SPEC_FEW_MIXED] = l->wo.layout.n_chunk * 32;
    spec[SPEC_FEW_D_FF] = (uint32_t)m->d_ff;
    spec[SPEC_FEW_QKV_ROWS] = l->qkv[0].rows;
    spec[SPEC_FEW_QKV_STRIDE] = r->b->sizes.qkv;
    spec[SPEC_FEW_LOGIT_STRIDE] = r->b->sizes.expert;
    spec[SPEC_FEW_CODES] = l->mlp.gate_up.layout.block;
    spec[SPEC_FEW_DEPTH] = FEW_UP_DEPTH;
    spec[SPEC_FEW_SLICES] = down_slices(l);
    spec[SPEC_MATRIX_M] = spec[SPEC_MATRIX_K] = MATRIX_SIDE;
    spec[SPEC_MATRIX_N] = MATRIX_FEW;
}

void record_resident_few(struct recorder *r, const struct attention_op *attention)
{
    const struct backend *b = r->b;
    const int index = attention->layer;
    const struct device_layer *l = &b->model.layers[index];
    const struct moe_plan *m = &b->plan->layers[index].moe;
    struct push_resident_few push = {
        .token_rows = record_rows(r),
        .layer = (uint32_t)index,
        .n_layer = (uint32_t)b->plan->n_layer,
        .n_rows = r->n_rows,
        .eps = b->plan->norm_eps,
        .scale = m->scale,
    };
    addresses_of(b, index, &push); /* which record_resident_few_fits() tried */
    struct dispatch d = {.shader = b->tuning.few == WIDE_EMULATED ? "resident_few_emulated"
                                                                  : "resident_few",
                         .format = l->wo.layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = b->tuning.resident_groups,
                         .y = 1,
                         .z = 1};
    spec_shape(r, m, l, d.spec);
    if (attention->chained)
        d.spec[SPEC_ATTENDED] =
            record_attention_groups(r, &b->plan->layers[index].attention, attention);
    dispatch_op(r, &d);
    r->last = "wo to qkv";
}
