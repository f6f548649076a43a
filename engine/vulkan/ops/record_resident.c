/* record_resident.h: conditions, constants and addresses of resident.comp. */
#include "engine/vulkan/ops/record_resident.h"

#include <string.h>

#include "engine/vulkan/ops/dispatch.h"

#define RESIDENT_THREADS 768u /* their registers fill a multiprocessor */
#define RESIDENT_SHARED 6144u /* bytes of its shared memory beside the tile */
#define CHUNK_BYTES 128u      /* of the tile */

_Static_assert(RESIDENT_USED_WORDS == USED_WORDS, "the shader finds the experts in use elsewhere");

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

static bool layer_fits(const struct layer_plan *p, const struct device_layer *l)
{
    const bool biases = l->b_qkv[0] || l->bo || l->mlp.b_gate_up || l->mlp.b_down;
    return p->mixer == MIXER_ATTENTION && p->ffn == FFN_MOE && !p->moe.has_shared &&
           p->activation == ACT_SWIGLU && l->n_qkv == 1 && !biases && l->mixer_norm &&
           l->ffn_norm && router_fits(&p->moe, l) && !l->split_experts.table &&
           is_dense(&l->wo.layout) && dispatch_same_format(&l->wo.layout, &l->qkv[0].layout) &&
           l->wo.rows % 32 == 0 && p->moe.d_ff % 32 == 0 &&
           p->attention.n_head * p->attention.d_head % 32 == 0 &&
           dispatch_by_masks(&l->mlp.gate_up) && dispatch_by_masks(&l->mlp.down);
}

static bool same_shape(const struct device_matrix *a, const struct device_matrix *b)
{
    return a->rows == b->rows && a->layout.n_chunk == b->layout.n_chunk &&
           dispatch_same_format(&a->layout, &b->layout);
}

/* One pipeline does all layers. */
static bool is_like_first(const struct backend *b, int index)
{
    const struct device_layer *l = &b->model.layers[index], *first = b->model.layers;
    const struct moe_plan *m = &b->plan->layers[index].moe, *other = &b->plan->layers[0].moe;
    return same_shape(&l->wo, &first->wo) && same_shape(&l->qkv[0], &first->qkv[0]) &&
           same_shape(&l->mlp.gate_up, &first->mlp.gate_up) && m->n_expert == other->n_expert &&
           m->n_used == other->n_used && m->score == other->score &&
           m->normalize == other->normalize;
}

static uint32_t shared_bytes(const struct backend *b)
{
    const struct device_layer *l = b->model.layers;
    uint32_t most = (uint32_t)b->plan->layers[0].moe.n_used * l->mlp.down.layout.n_chunk;
    most = most > l->wo.layout.n_chunk ? most : l->wo.layout.n_chunk;
    most = most > l->qkv[0].layout.n_chunk ? most : l->qkv[0].layout.n_chunk;
    return (most + 1) * CHUNK_BYTES + RESIDENT_SHARED;
}

#define WEIGHTS 14 /* addresses of a push_resident that count from `weights` */
#define WORK 8     /* and from `work` */

/* The same addresses in units from the lowest of them; an absent one is 0. False: they are too far
 * apart. */
static bool to_units(const VkDeviceAddress *at, uint32_t *units, int n, uint64_t *base)
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

static bool addresses_of(const struct backend *b, int index, struct push_resident *p)
{
    const struct workspace *w = &b->workspace;
    const struct device_layer *l = &b->model.layers[index],
                              *next = index + 1 == b->plan->n_layer ? l : l + 1;
    const struct device_matrix *qkv = &next->qkv[0], *up = &l->mlp.gate_up, *down = &l->mlp.down;
    const VkDeviceAddress weights[WEIGHTS] = {
        l->wo.plane[0], l->wo.plane[1], l->wo.plane[2], l->router_mixed.plane[0], l->ffn_norm,
        up->plane[0],   up->plane[1],   down->plane[0], down->plane[1],           next->mixer_norm,
        qkv->plane[0],  qkv->plane[1],  qkv->plane[2],  next->router_x.plane[0]};
    const VkDeviceAddress work[WORK] = {w->attn, w->x,    w->router,   w->h,
                                        w->qkv,  w->used, w->meetings, w->parts};
    uint32_t u[WEIGHTS], k[WORK];
    if (!to_units(weights, u, WEIGHTS, &p->weights) || !to_units(work, k, WORK, &p->work))
        return false;
    p->wo_data = u[0], p->wo_scales = u[1], p->wo_biases = u[2], p->wo_extra = u[3];
    p->ffn_norm = u[4];
    p->up_data = u[5], p->up_scales = u[6];
    p->down_data = u[7], p->down_scales = u[8];
    p->mixer_norm = u[9];
    p->qkv_data = u[10], p->qkv_scales = u[11], p->qkv_biases = u[12], p->qkv_extra = u[13];
    p->mixed = k[0], p->x = k[1], p->logits = k[2], p->h = k[3], p->qkv = k[4];
    p->used = k[5], p->meetings = k[6], p->parts = k[7];
    return true;
}

bool record_resident_fits(const struct recorder *r)
{
    const struct backend *b = r->b;
    const struct gpu_caps *c = &b->gpu.caps;
    struct push_resident unused;
    bool fits = b->tuning.resident_groups && r->n_rows == 1 && b->plan->n_layer > 0 &&
                !b->plan->n_recurrent && c->max_threads >= RESIDENT_THREADS && c->subgroup >= 4;
    for (int i = 0; fits && i < b->plan->n_layer; i++)
        fits = layer_fits(&b->plan->layers[i], &b->model.layers[i]) && is_like_first(b, i) &&
               addresses_of(b, i, &unused);
    return fits && shared_bytes(b) <= c->max_shared;
}

void record_resident_begin(struct recorder *r)
{
    VkBuffer buffer;
    uint64_t offset;
    const uint64_t bytes = (uint64_t)r->b->plan->n_layer * RESIDENT_MEETING_WORDS * 4;
    if (record_locate(r, r->b->workspace.meetings, &buffer, &offset))
        vkCmdFillBuffer(r->c, buffer, offset, bytes, 0);
}

void record_resident(struct recorder *r, const struct attention_op *attention)
{
    const struct backend *b = r->b;
    const int index = attention->layer;
    const struct device_layer *l = &b->model.layers[index];
    const struct moe_plan *m = &b->plan->layers[index].moe;
    struct push_resident push = {
        .token_rows = record_rows(r),
        .layer = (uint32_t)index,
        .n_layer = (uint32_t)b->plan->n_layer,
        .eps = b->plan->norm_eps,
        .scale = m->scale,
    };
    addresses_of(b, index, &push); /* which record_resident_fits() tried */
    struct dispatch d = {.shader = "resident",
                         .format = l->wo.layout.kernel,
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = b->tuning.resident_groups,
                         .y = 1,
                         .z = 1};
    dispatch_spec_format(d.spec, &l->wo);
    dispatch_spec_route(d.spec, m);
    d.spec[SPEC_THREADS] = RESIDENT_THREADS;
    d.spec[SPEC_RESIDENT_MERGE] = attention->merge;
    d.spec[SPEC_ATTENDED] =
        attention->chained
            ? record_attention_groups(r, &b->plan->layers[index].attention, attention)
            : 0;
    d.spec[SPEC_LANES] = b->gpu.caps.subgroup;
    d.spec[SPEC_D_MODEL] = l->wo.rows;
    d.spec[SPEC_MIXED_COLS] = l->wo.layout.n_chunk * 32;
    d.spec[SPEC_D_FF] = (uint32_t)m->d_ff;
    d.spec[SPEC_QKV_ROWS] = l->qkv[0].rows;
    d.spec[SPEC_RESIDENT_CODES] = l->mlp.gate_up.layout.block;
    dispatch_op(r, &d);
    r->last = "wo to qkv";
}
