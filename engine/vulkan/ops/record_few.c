/* Products of few rows, whose weights go straight to the matrix units' registers. */
#include "engine/vulkan/ops/record_matmul.h"
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
