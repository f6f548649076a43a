/* Products of few rows, whose weights go straight to the matrix units' registers: as dispatches of
 * their own, and all of a layer in one. */
#include "engine/vulkan/ops/record_matmul.h"
#include "engine/vulkan/ops/record_resident.h"
#include "engine/vulkan/weights/device_block.h"

#include <string.h>

#define FEW_TILE 16u /* of matmul_few: rows of W of a workgroup */
#define MOE_FEW_THREADS 128u
#define HEAD_FEW_DEPTH 2u
/* Rows of a step whose router is folded, and logits of these, at most: each workgroup beside a
 * product reads all rows of X again. With 32 rows and 128 experts nothing was gained. */
#define ROUTER_FOLD_ROWS 16u
#define ROUTER_FOLD_LOGITS (ROUTER_FOLD_ROWS * 128u)

/* How matmul_few divides its work, see there; measured, docs/speed/vulkan.md. */
struct few_form {
    uint32_t tile_n; /* rows of X of a workgroup */
    uint32_t chunks, slices;
};

static struct few_form few_form_of(const struct recorder *r, const struct matmul *m)
{
    struct few_form f = {.tile_n = m->n_x <= 8 ? 8 : m->n_x <= 16 ? 16 : 32};
    f.chunks = f.tile_n == 8 ? 2 : 1;
    const uint32_t units = divide_up(m->w->layout.n_chunk, 4 * f.chunks),
                   wanted = f.tile_n == 8 ? 16 : 8, most = r->b->tuning.few_threads / 32;
    /* As even as can be. */
    f.slices = divide_up(units, divide_up(units, wanted < most ? wanted : most));
    return f;
}

static void record_matmul_few(struct recorder *r, const struct matmul *m)
{
    const struct few_form f = few_form_of(r, m);
    const struct beside *beside = m->beside;
    const uint32_t groups = divide_up(m->w->rows, FEW_TILE);
    const struct push_matmul_few push = {
        .w = dispatch_planes(m->w),
        .x = m->x,
        .y = m->y,
        .bias = m->bias,
        .beside = beside ? beside->w->plane[0] : 0,
        .beside_x = beside ? beside->x : 0,
        .beside_y = r->b->workspace.router,
        .rows = m->w->rows,
        .n_chunk = m->w->layout.n_chunk,
        .y_stride = m->y_stride,
        .n_x = m->n_x,
        .groups = groups,
        .beside_quads = beside ? beside->w->layout.n_chunk * 8 : 0,
        .beside_stride = r->b->sizes.expert,
    };
    const bool emulated = r->b->tuning.few == WIDE_EMULATED;
    struct dispatch d = {.shader = emulated ? "matmul_few_emulated" : "matmul_few",
                         .format = m->w->layout.kernel,
                         .spec = {[SPEC_THREADS] = 32 * f.slices,
                                  [SPEC_TILE_M] = FEW_TILE,
                                  [SPEC_TILE_N] = f.tile_n,
                                  [SPEC_CHUNKS] = f.chunks,
                                  [SPEC_SLICES] = f.slices},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = groups + (beside ? beside->w->rows : 0),
                         .y = divide_up(m->n_x, f.tile_n),
                         .z = 1};
    matmul_spec(d.spec, m);
    d.spec[SPEC_EXTRA] = !beside ? 0 : beside->add ? 2 : 1; /* where other products have a split */
    d.spec[SPEC_MATRIX_N] = MATRIX_FEW;
    dispatch_op(r, &d);
    r->last = m->label;
}

/* Products of routed experts. */
static void record_moe_few(struct recorder *r, const struct matmul *m)
{
    const bool emulated = r->b->tuning.few == WIDE_EMULATED;
    const uint32_t tile_m = MOE_FEW_THREADS / 2;
    struct push_matmul push = matmul_push(r, m);
    if (!m->lists)
        push.sorted = r->b->workspace.ids;
    struct dispatch d = {.shader = emulated ? "moe_few_emulated" : "moe_few",
                         .format = m->w->layout.kernel,
                         .spec = {[SPEC_THREADS] = MOE_FEW_THREADS},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(m->w->rows, m->mode == 1 ? tile_m / 2 : tile_m),
                         .y = m->max_tiles,
                         .z = 1};
    matmul_spec(d.spec, m);
    d.spec[SPEC_LIST_ROWS] = m->lists ? record_list_rows(r->n_rows) : 0;
    d.spec[SPEC_CHUNKS] = m->w->layout.n_chunk;
    /* More steps on their way take registers, and so threads; MXFP4 unpacks in few. Measured. */
    const bool few_registers = strcmp(m->w->layout.kernel, "mxfp4") == 0;
    d.spec[SPEC_DEPTH] = m->mode == 2 ? 1 + few_registers : few_registers && r->n_rows > 4 ? 4 : 2;
    d.spec[SPEC_AT_ONCE] = m->mode == 2 && few_registers && r->n_rows > 16 ? 2 : 1;
    d.spec[SPEC_UNITS_X] = m->units_x;
    d.spec[SPEC_UNITS_Y] = m->units_y;
    d.spec[SPEC_MATRIX_N] = MATRIX_FEW;
    dispatch_op(r, &d);
    r->last = m->label;
}

/* A large W with f32 precision, as the head's. */
static void record_head_few(struct recorder *r, const struct matmul *m)
{
    const struct push_matmul push = matmul_push(r, m);
    const bool emulated = r->b->tuning.few == WIDE_EMULATED;
    const uint32_t groups = m->n_x <= 8 ? 1 : HEAD_FEW_ROWS / 8;
    struct dispatch d = {
        .shader = emulated ? "head_few_emulated" : "head_few",
        .format = m->w->layout.kernel,
        .spec = {[SPEC_THREADS] = MOE_FEW_THREADS, [SPEC_CHUNKS] = m->w->layout.n_chunk},
        .push = &push,
        .push_bytes = sizeof push,
        .x = divide_up(m->n_x, 8 * groups),
        .y = divide_up(m->w->rows, MOE_FEW_THREADS / 2),
        .z = 1};
    matmul_spec(d.spec, m);
    d.spec[SPEC_GROUPS] = groups;
    d.spec[SPEC_DEPTH] = HEAD_FEW_DEPTH; /* where products of another kind have SPEC_ODD */
    d.spec[SPEC_MATRIX_N] = MATRIX_FEW;
    dispatch_op(r, &d);
    r->last = m->label;
}

void record_few(struct recorder *r, const struct matmul *m)
{
    if (m->split)
        record_head_few(r, m);
    else if (m->max_tiles)
        record_moe_few(r, m);
    else
        record_matmul_few(r, m);
}

bool record_few_fits(const struct backend *b, const struct device_matrix *w)
{
    const enum wide_products few = b->tuning.few;
    return few == WIDE_UNITS || (few == WIDE_EMULATED && (strcmp(w->layout.kernel, "mxfp4") == 0 ||
                                                          strcmp(w->layout.kernel, "block") == 0));
}

bool record_few_fits_head(const struct backend *b, const struct device_matrix *w)
{
    const uint32_t block = w->layout.block;
    return record_few_fits(b, w) && w->rows >= b->tuning.few_split_rows &&
           strcmp(w->layout.kernel, "block") == 0 &&
           (block == BLOCK_Q8_0 || block == BLOCK_Q4_0 || block == BLOCK_Q5_0);
}

bool record_gemm_takes_three(const struct backend *b)
{
    for (int i = 0; i < b->plan->n_layer; i++) {
        const struct device_mlp *m = &b->model.layers[i].mlp;
        const struct layer_plan *p = &b->plan->layers[i];
        if (p->ffn != FFN_MOE || p->moe.has_shared ||
            strcmp(m->gate_up.layout.kernel, "mxfp4") != 0 ||
            strcmp(m->down.layout.kernel, "mxfp4") != 0)
            return false;
    }
    return record_few_fits_head(b, device_model_head(&b->model));
}

bool record_gemm_folds(const struct recorder *r, const struct device_layer *l)
{
    const struct device_matrix *first = l->n_qkv ? &l->qkv[0] : &l->delta_net.in[0];
    return r->n_rows <= ROUTER_FOLD_ROWS && r->n_rows * l->router.rows <= ROUTER_FOLD_LOGITS &&
           gemm_takes_experts(r->b, r->n_rows) && l->router_mixed.n_matrix &&
           record_few_fits(r->b, first) && record_few_fits(r->b, &l->wo);
}

/* Few rows between two attentions in one dispatch: conditions, constants and addresses of
 * resident_few.comp. */
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

#define WEIGHTS 14 /* addresses of a push_resident_few that count from `weights` */
#define WORK 7     /* and from `work` */

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

static bool addresses_of(const struct backend *b, int index, struct push_resident_few *p)
{
    const struct workspace *w = &b->workspace;
    const struct device_layer *l = &b->model.layers[index],
                              *next = index + 1 == b->plan->n_layer ? l : l + 1;
    const struct device_matrix *qkv = &next->qkv[0], *up = &l->mlp.gate_up, *down = &l->mlp.down;
    const VkDeviceAddress weights[WEIGHTS] = {
        l->wo.plane[0], l->wo.plane[1], l->wo.plane[2], l->router_mixed.plane[0], l->ffn_norm,
        up->plane[0],   up->plane[1],   down->plane[0], down->plane[1],           next->mixer_norm,
        qkv->plane[0],  qkv->plane[1],  qkv->plane[2],  next->router_x.plane[0]};
    const VkDeviceAddress work[WORK] = {w->x_hi, w->x,    w->router,  w->h,
                                        w->qkv,  w->used, w->meetings};
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

void record_resident_few(struct recorder *r, int index)
{
    const struct backend *b = r->b;
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
    dispatch_op(r, &d);
    r->last = "wo to qkv";
}
