/* Packs activations, and runs several products as one parallel loop over tiles. */
#include "engine/cpu/matmul.h"

#include <string.h>

/* Rows of a panel, or of the products with it, that have forms of their own. */
#define FEW_ROWS 16
/* Rows up to which one call takes as many tiles of an expert as it has room for: what it costs then
 * is shared, and gate and up are read by turns in fewer and longer runs, whose beginnings wait for
 * memory. Other matrices are one run, and go TILES_TOGETHER at a time. */
#define FEW_IN_A_RUN 8
/* Tiles that many rows of activations meet one after the other while they lie in the second cache;
 * tile by tile all of them would come from the third. */
#define TILES_TOGETHER 8
/* Rows of activations that kernels take together, of many. */
#define ROWS_TOGETHER 4

unsigned matmul_kinds(const struct worker *w, const struct weight *weight)
{
    const struct backend *b = w->backend;
    return kernels_panel_kinds(b->kernels, weight, b->params.exact, b->params.one_byte);
}

static void pack_row(struct worker *w, const struct pack *p, struct panel *panel, int32_t row)
{
    const struct backend *b = w->backend;
    const float *x = p->x + (size_t)row * p->stride;
    if (p->norm) {
        b->kernels->rms_norm(x, p->norm, b->plan->norm_eps, p->cols, w->row);
        x = w->row;
    }
    b->kernels->pack(panel, row, x);
}

struct panel matmul_panel(const struct worker *w, const struct pack *p)
{
    struct panel panel;
    const int32_t rows = w->backend->rows.n;
    const bool own = worker_private(w->backend), few = p->n <= FEW_ROWS ||
                                                       (p->lone_rows && rows <= PART_ROWS) ||
                                                       p->kinds & PANEL_ONE_BYTE;
    panel_place(&panel, p->n, p->cols, p->kinds & ~(few ? 0u : (unsigned)PANEL_FEW_FORMS),
                own ? w->panels[p->slot] : w->backend->panels[p->slot]);
    return panel;
}

void matmul_pack_rows(struct worker *w, const struct pack *p, struct panel *panel, int32_t from,
                      int32_t to)
{
    int32_t first = 0, end = to - from;
    if (!worker_private(w->backend))
        worker_share(w, to - from, &first, &end);
    for (int32_t row = from + first; row < from + end; row++)
        pack_row(w, p, panel, row);
}

struct panel matmul_pack(struct worker *w, const struct pack *p)
{
    struct panel panel = matmul_panel(w, p);
    matmul_pack_rows(w, p, &panel, 0, p->n);
    if (!worker_private(w->backend))
        worker_barrier(w);
    return panel;
}

int32_t matmul_tiles(const struct worker *w, int32_t rows)
{
    int32_t lanes = w->backend->kernels->lanes;
    return (rows + lanes - 1) / lanes;
}

int32_t matmul_at_once(int32_t n, int32_t left)
{
    const int32_t most = n <= FEW_IN_A_RUN ? KERNEL_MAX_TILE_ROWS / n : 1;
    return left < most ? left : most;
}

int32_t matmul_rows_at_once(int32_t left)
{
    const int32_t calls = (left + KERNEL_MAX_TILE_ROWS - 1) / KERNEL_MAX_TILE_ROWS,
                  share = (left + calls - 1) / calls;
    return calls == 1 ? left : (share + ROWS_TOGETHER - 1) / ROWS_TOGETHER * ROWS_TOGETHER;
}

void matmul_columns(float *row, int32_t cols, const struct tile *t, const float *acc, int32_t lanes)
{
    float *to = row + t->row;
    for (int32_t i = 0; i <= t->more; i++, to += lanes, acc += t->n * lanes) {
        const int32_t left = cols - t->row - i * lanes;
        if (left >= KERNEL_MAX_LANES && lanes == KERNEL_MAX_LANES) /* known here: no call */
            memcpy(to, acc, KERNEL_MAX_LANES * sizeof *acc);
        else
            memcpy(to, acc, (size_t)(left < lanes ? left : lanes) * sizeof *acc);
    }
}

static void store(const struct worker *w, const struct product *p, const struct tile *t)
{
    const struct kernels *k = w->backend->kernels;
    const int32_t left = p->weight->rows - t->row, all = (t->more + 1) * k->lanes,
                  count = left < all ? left : all;
    for (int32_t i = 0; i < t->n; i++) {
        const size_t at = (size_t)(t->first + i) * p->stride;
        float *to = p->out + at + t->row;
        matmul_columns(p->out + at, p->weight->rows, t, w->tile[0] + i * k->lanes, k->lanes);
        if (p->bias)
            k->add_scaled(to, p->bias + t->row, 1, count);
        if (p->residual)
            k->add_scaled(p->residual + at + t->row, to, 1, count);
    }
}

/* `count` tiles, as many as matmul_at_once() says, times rows first <= row < first + n. */
static void run_tiles(struct worker *w, const struct product *p, int32_t tile, int32_t count,
                      int32_t first, int32_t n)
{
    const struct kernels *k = w->backend->kernels;
    const struct tile t = {.weight = p->weight,
                           .matrix = p->matrix,
                           .row = tile * k->lanes,
                           .panel = p->panel,
                           .first = first,
                           .n = n,
                           .more = count - 1};
    k->tile(&t, w->backend->params.exact, w->tile[0]);
    store(w, p, &t);
}

void matmul_run_tiles(struct worker *w, const struct product *p, int32_t from, int32_t to)
{
    for (int32_t end; from < to; from = end) {
        end = to - from < TILES_TOGETHER ? to : from + TILES_TOGETHER;
        for (int32_t first = 0, n; first < p->n; first += n) {
            n = matmul_rows_at_once(p->n - first);
            for (int32_t t = from, count; t < end; t += count) {
                count = matmul_at_once(p->n, end - t);
                run_tiles(w, p, t, count, first, n);
            }
        }
    }
}

void matmul_run(struct worker *w, const struct product *products, int32_t n)
{
    int32_t total = 0, from, to;
    uint64_t bytes = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint64_t one = weight_matrix_bytes(products[i].weight);
        total += matmul_tiles(w, products[i].weight->rows);
        bytes += one * (uint64_t)products[i].n;
        if (w->index == 0)
            w->weight_bytes += one;
    }
    worker_loop_begin(w, total, bytes);
    while (worker_next_chunk(w, &from, &to))
        for (int32_t i = 0, at = 0; i < n && at < to; i++) {
            const int32_t tiles = matmul_tiles(w, products[i].weight->rows);
            matmul_run_tiles(w, &products[i], from > at ? from - at : 0,
                             to - at < tiles ? to - at : tiles);
            at += tiles;
        }
}
