/* Products and attention of steps with many rows: tile sizes, dispatches, and the sort of rows by
 * expert. */
#include "engine/vulkan/ops/record_matmul.h"

#include <string.h>

#define TILE_M_FEW                                                                                 \
    16u /* rows of W of a workgroup where whole tiles would be few: then the columns are split     \
           over FEW_SPLIT subgroups */
#define FEW_SPLIT 4u
#define TILE_BYTES 16u       /* of an entry of a list of tiles */
#define FEW_GROUPS 128u      /* workgroups that do not fill a large device */
#define SHARED_RESERVE 2048u /* of matmul.comp's other shared variables */

struct tile { /* what a workgroup computes, see shaders/matmul.comp */
    uint32_t m, n, split,
        buffers; /* rows of W, rows of X, slices of the columns, tiles in shared memory */
};

static bool tile_fits(const struct recorder *r, const struct tile *t, bool two_halves)
{
    const uint32_t words = (t->m + t->n) * (two_halves ? 2 : 1) * 9,
                   results = t->n * (t->m / 4 + 1);
    const uint32_t slice = words * t->buffers > results ? words * t->buffers : results;
    return slice * t->split * 16 + SHARED_RESERVE <= r->b->gpu.caps.max_shared;
}

/* Where experts are routed, tile_n stays as it is, because the sort made groups of that size, and W
 * is not cut into more tiles, because each would load x again. */
static struct tile tile_of(const struct recorder *r, const struct matmul *m)
{
    const struct tuning *tuning = &r->b->tuning;
    const uint32_t wide = m->mode == 1 ? tuning->gemm_tile_m / 2 : tuning->gemm_tile_m;
    const bool few =
        !m->max_tiles && divide_up(m->w->rows, wide) * divide_up(m->n_x, m->tile_n) < FEW_GROUPS;
    struct tile t = few ? (struct tile){TILE_M_FEW, m->tile_n, FEW_SPLIT, 1}
                        : (struct tile){tuning->gemm_tile_m, m->tile_n, 1, tuning->gemm_buffers};
    while (few && t.n > 16 && divide_up(m->w->rows, t.m) * divide_up(m->n_x, t.n) < 2 * FEW_GROUPS)
        t.n /= 2; /* a small W may be loaded once more, as the router's */
    if (!tile_fits(r, &t, m->split))
        t.buffers = 1;
    while (t.split > 1 && !tile_fits(r, &t, m->split))
        t.split /= 2;
    while (t.n > 16 && !m->max_tiles && !tile_fits(r, &t, m->split))
        t.n /= 2;
    return t;
}

struct push_matmul matmul_push(const struct recorder *r, const struct matmul *m)
{
    const struct workspace *w = &r->b->workspace;
    return (struct push_matmul){
        .w = m->experts ? dispatch_expert_planes(r, m->experts, m->w) : dispatch_planes(m->w),
        .x = m->x,
        .rest = m->rest,
        .y = m->y,
        .bias = m->bias,
        .tiles = w->tiles + m->first_tile * TILE_BYTES,
        .n_tiles = m->lists ? w->counts : w->n_tiles + (m->first_tile ? sizeof(uint32_t) : 0),
        .sorted = w->sorted,
        .rows = m->w->rows,
        .n_chunk = m->w->layout.n_chunk,
        .y_stride = m->y_stride,
        .n_x = m->n_x,
        .up_at = m->up_at,
    };
}

void matmul_spec(uint32_t *spec, const struct matmul *m)
{
    spec[SPEC_MODE] = m->mode;
    spec[SPEC_TILES] = m->max_tiles != 0;
    spec[SPEC_ADD] = m->add;
    spec[SPEC_BIAS] = m->bias != 0;
    spec[SPEC_MATMUL_CLAMP] = m->clamp;
    spec[SPEC_PER_ROW] = m->per_row;
    spec[SPEC_ODD] = m->w->layout.n_chunk % 2;
    spec[SPEC_SPLIT_EXPERTS] = m->experts && m->experts->split_experts.table;
    spec[SPEC_MATRIX_M] = spec[SPEC_MATRIX_N] = spec[SPEC_MATRIX_K] = MATRIX_SIDE;
    dispatch_spec_format(spec, m->w);
}

static void record_wide(struct recorder *r, const struct matmul *m)
{
    const struct push_matmul push = matmul_push(r, m);
    struct dispatch d = {.shader = r->b->tuning.wide == WIDE_EMULATED ? "matmul_wide_emulated"
                                                                      : "matmul_wide",
                         .format = m->w->layout.kernel,
                         .spec = {[SPEC_THREADS] = 128, [SPEC_TILE_N] = m->tile_n},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(m->w->rows, m->mode == 1 ? WIDE_TILE_M / 2 : WIDE_TILE_M),
                         .y = m->max_tiles ? m->max_tiles : divide_up(m->n_x, m->tile_n),
                         .z = 1};
    matmul_spec(d.spec, m);
    dispatch_op(r, &d);
    r->last = m->label;
}

static void record_matmul(struct recorder *r, const struct matmul *m)
{
    if (m->wide || m->few) {
        (m->wide ? record_wide : record_few)(r, m);
        return;
    }
    const struct tile tile = tile_of(r, m);
    const uint32_t tile_rows = m->mode == 1 ? tile.m / 2 : tile.m;
    const struct push_matmul push = matmul_push(r, m);
    struct dispatch d = {.shader = r->b->gpu.caps.cooperative_matrix ? "matmul" : "matmul_plain",
                         .format = m->w->layout.kernel,
                         .spec = {[SPEC_THREADS] = 2 * tile.m * tile.split,
                                  [SPEC_TILE_M] = tile.m,
                                  [SPEC_TILE_N] = tile.n,
                                  [SPEC_MATMUL_SPLIT] = m->split,
                                  [SPEC_KSPLIT] = tile.split,
                                  [SPEC_BUFFERS] = tile.buffers},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = divide_up(m->w->rows, tile_rows),
                         .y = m->max_tiles ? m->max_tiles : divide_up(m->n_x, tile.n),
                         .z = 1};
    matmul_spec(d.spec, m);
    d.spec[SPEC_LIST_ROWS] = m->lists ? record_list_rows(r->n_rows) : 0;
    dispatch_op(r, &d);
    r->last = m->label;
}

/* Whether matmul_wide can do it: it writes four rows of a column at once. */
static bool wide_fits(const struct recorder *r, const struct device_matrix *w, uint32_t mode,
                      uint32_t y_stride)
{
    return r->b->tuning.wide != WIDE_NONE && w->rows % (mode == 1 ? 32 : 4) == 0 &&
           y_stride % 4 == 0;
}

/* Rows of X of a tile of matmul_wide where all rows are in order; 0: its tiles would not fill the
 * device. */
static uint32_t wide_tile_for(const struct recorder *r, const struct device_matrix *w,
                              uint32_t mode, uint32_t n_x)
{
    const uint32_t across = divide_up(w->rows, mode == 1 ? WIDE_TILE_M / 2 : WIDE_TILE_M);
    for (uint32_t n = 128; n >= 64; n /= 2)
        if (n_x > n / 2 && across * divide_up(n_x, n) >= r->b->tuning.wide_groups)
            return n;
    return 0;
}

static uint32_t tile_for(const struct recorder *r, uint32_t rows)
{
    uint32_t n = 16;
    while (n < rows && n < r->b->tuning.gemm_tile_n)
        n *= 2;
    return n;
}

void record_gemm_linear(struct recorder *r, const struct linear_op *op, bool split)
{
    const uint32_t wide = !split && wide_fits(r, op->w, 0, op->y_stride) && op->y % 16 == 0
                              ? wide_tile_for(r, op->w, 0, op->n_x)
                              : 0;
    const bool few = split ? op->n_x <= HEAD_FEW_ROWS && record_few_fits_head(r->b, op->w)
                           : record_few_fits(r->b, op->w) && op->n_x <= r->b->tuning.few_rows;
    const struct beside beside = {
        .w = op->extra, .x = op->extra_add ? r->b->workspace.x_hi : op->x, .add = op->extra_add};
    record_matmul(r, &(struct matmul){.w = op->w,
                                      .beside = op->extra ? &beside : NULL,
                                      .label = op->label,
                                      .x = r->b->workspace.x_hi,
                                      .rest = r->b->workspace.x_lo,
                                      .y = op->y,
                                      .bias = op->bias,
                                      .n_x = op->n_x,
                                      .y_stride = op->y_stride,
                                      .per_row = 1,
                                      .tile_n = wide ? wide : tile_for(r, op->n_x),
                                      .add = op->add,
                                      .split = split,
                                      .wide = wide != 0,
                                      .few = few});
}

struct grouping { /* of the pairs of rows and experts in tiles */
    uint32_t tile_n;
    uint32_t small;     /* tiles of at most so many rows have a list of their own; 0: none */
    uint32_t max_tiles; /* of the first list, and where the second begins; 0: not routed */
    uint32_t max_small;
    bool wide;
    bool lists; /* in place of tiles */
    bool few;   /* by moe_few; without lists it finds an expert's pairs itself */
};

/* Whether moe_few without lists has no more workgroups than with them. */
static bool few_finds(const struct moe_plan *p, uint32_t pairs)
{
    return pairs <= FEW_PAIRS && pairs <= (uint32_t)p->n_expert;
}

/* Whole tiles of 128 rows where most experts have as many, and what is left of an expert's rows in
 * tiles of half the size, so that few columns are empty. */
static struct grouping grouping_of(const struct recorder *r, const struct mlp_op *op,
                                   uint32_t pairs, uint32_t h_stride)
{
    const bool fits = wide_fits(r, &op->m->gate_up, 1, h_stride) &&
                      wide_fits(r, &op->m->down, 2, op->m->down.rows);
    if (!op->moe) {
        const uint32_t n = fits ? wide_tile_for(r, &op->m->gate_up, 1, r->n_rows) : 0;
        return (struct grouping){.tile_n = n ? n : tile_for(r, r->n_rows), .wide = n != 0};
    }
    const uint32_t n_expert = (uint32_t)op->moe->n_expert,
                   most = pairs < n_expert ? pairs : n_expert;
    const uint32_t expected = pairs * 3 / 2 / n_expert;
    struct grouping g = {.tile_n = tile_for(r, expected)};
    if (fits && expected >= r->b->tuning.wide_rows) {
        g.tile_n = expected > 64 ? 128 : 64;
        g.small = g.tile_n / 2;
        g.max_tiles = pairs / (g.small + 1) + 1;
        g.max_small = most;
        g.wide = true;
        return g;
    }
    const uint32_t places = record_list_rows(r->n_rows);
    g.lists = op->lists;
    g.max_tiles = most + pairs / g.tile_n;
    g.few = r->n_rows <= RECORD_LIST_ROWS && record_few_fits(r->b, &op->m->gate_up) &&
            record_few_fits(r->b, &op->m->down) && (op->lists || few_finds(op->moe, pairs));
    if (g.few)
        g.max_tiles = op->lists ? n_expert : pairs;
    else if (op->lists)
        g.max_tiles = n_expert * (places > LIST_SHORT_ROWS ? 1 : divide_up(places, g.tile_n));
    return g;
}

static struct grouping grouping_for(const struct recorder *r, const struct mlp_op *op)
{
    return grouping_of(r, op, r->n_rows * mlp_used(op), op->m->down.layout.n_chunk * 32);
}

/* Whether moe_few reads the halves that this matrix is multiplied by in the units' order. */
static bool in_units_order(const struct device_matrix *w)
{
    return strcmp(w->layout.kernel, "mxfp4") == 0 && w->layout.n_chunk % 4 == 0;
}

bool record_gemm_units(const struct recorder *r, const struct mlp_op *op)
{
    return grouping_for(r, op).few && in_units_order(&op->m->gate_up) &&
           op->m->gate_up.layout.n_chunk * 32 == r->b->sizes.d;
}

bool record_gemm_lists(const struct recorder *r, const struct mlp_op *op)
{
    const struct grouping g = grouping_for(r, op);
    return r->n_rows <= RECORD_LIST_ROWS && !g.wide && !g.few;
}

/* The tiles of both lists. */
static void record_grouped(struct recorder *r, struct matmul m, const struct grouping *g)
{
    m.tile_n = g->tile_n;
    m.max_tiles = g->max_tiles;
    m.wide = g->wide;
    m.lists = g->lists;
    m.few = g->few;
    record_matmul(r, &m);
    if (!g->small)
        return;
    m.tile_n = g->small;
    m.first_tile = g->max_tiles;
    m.max_tiles = g->max_small;
    record_matmul(r, &m);
}

static void record_ups(struct recorder *r, const struct mlp_op *op)
{
    const struct grouping g = grouping_for(r, op);
    record_grouped(r,
                   (struct matmul){.w = &op->m->gate_up,
                                   .experts = op->moe ? op->layer : NULL,
                                   .label = "gemm_up",
                                   .x = r->b->workspace.x_hi,
                                   .y = op->h,
                                   .bias = op->m->b_gate_up,
                                   .mode = 1,
                                   .n_x = r->n_rows * mlp_used(op),
                                   .y_stride = op->m->down.layout.n_chunk * 32,
                                   .per_row = mlp_used(op),
                                   .up_at = op->m->gate_up.rows * op->m->gate_up.n_matrix,
                                   .clamp = op->clamp,
                                   .units_x = op->units,
                                   .units_y = g.few && in_units_order(&op->m->down)},
                   &g);
}

static void record_downs(struct recorder *r, const struct mlp_op *op, VkDeviceAddress parts)
{
    const struct grouping g = grouping_for(r, op);
    record_grouped(r,
                   (struct matmul){.w = &op->m->down,
                                   .experts = op->moe ? op->layer : NULL,
                                   .label = "gemm_down",
                                   .x = op->h,
                                   .y = parts,
                                   .mode = 2,
                                   .n_x = r->n_rows * mlp_used(op),
                                   .y_stride = op->m->down.rows,
                                   .per_row = 1,
                                   .units_x = g.few && in_units_order(&op->m->down)},
                   &g);
}

/* Of few rows the shared expert comes first: its few workgroups take long and run beside the
 * others. Of many rows it would take the device from them. */
void record_gemm_mlp(struct recorder *r, const struct mlp_op *op)
{
    const VkDeviceAddress parts = r->b->workspace.parts_down;
    const uint32_t pairs = r->n_rows * mlp_used(op);
    const VkDeviceAddress behind =
        op->shared ? parts + (uint64_t)pairs * op->m->down.rows * sizeof(float) : 0;
    const struct grouping g = grouping_for(r, op);
    if (op->moe && !g.lists && !g.few) {
        record_sort(r, &(struct sort_op){(uint32_t)op->moe->n_expert, pairs, g.tile_n, g.small,
                                         g.max_tiles});
        record_barrier(r);
    }
    const bool first = op->shared && r->n_rows <= RECORD_LIST_ROWS;
    if (first)
        record_ups(r, op->shared);
    record_ups(r, op);
    if (op->shared && !first)
        record_ups(r, op->shared);
    record_barrier(r);
    if (first)
        record_downs(r, op->shared, behind);
    record_downs(r, op, parts);
    if (op->shared && !first)
        record_downs(r, op->shared, behind);
    record_barrier(r);
    record_moe_sum(r, op, behind);
}
