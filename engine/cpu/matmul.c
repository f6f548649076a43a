/* Packs activations, and runs several products as one parallel loop over tiles. */
#include "engine/cpu/matmul.h"

#include <string.h>

/* Rows of a panel, or of the products with it, that have forms of their own. */
#define FEW_ROWS 16

unsigned matmul_kinds(const struct worker *w, const struct weight *weight)
{
    const struct backend *b = w->backend;
    const unsigned kinds = b->kernels->panel_kinds(weight, b->params.exact);
    return b->params.one_byte && kinds != PANEL_F32 ? kinds | PANEL_ONE_BYTE : kinds;
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
    const bool own = rows <= PRIVATE_ROWS, few = p->n <= FEW_ROWS ||
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
    if (w->backend->rows.n > PRIVATE_ROWS)
        worker_share(w, to - from, &first, &end);
    for (int32_t row = from + first; row < from + end; row++)
        pack_row(w, p, panel, row);
}

struct panel matmul_pack(struct worker *w, const struct pack *p)
{
    struct panel panel = matmul_panel(w, p);
    matmul_pack_rows(w, p, &panel, 0, p->n);
    if (w->backend->rows.n > PRIVATE_ROWS)
        worker_barrier(w);
    return panel;
}

int32_t matmul_tiles(const struct worker *w, int32_t rows)
{
    int32_t lanes = w->backend->kernels->lanes;
    return (rows + lanes - 1) / lanes;
}

static void store(const struct worker *w, const struct product *p, int32_t row, int32_t first,
                  int32_t n)
{
    const struct kernels *k = w->backend->kernels;
    const float *acc = w->tile[0];
    const int32_t left = p->weight->rows - row, count = left < k->lanes ? left : k->lanes;
    for (int32_t i = 0; i < n; i++) {
        const size_t at = (size_t)(first + i) * p->stride + (size_t)row;
        memcpy(p->out + at, acc + i * k->lanes, (size_t)count * sizeof *acc);
        if (p->bias)
            k->add_scaled(p->out + at, p->bias + row, 1, count);
        if (p->residual)
            k->add_scaled(p->residual + at, p->out + at, 1, count);
    }
}

static void run_tile(struct worker *w, const struct product *p, int32_t tile)
{
    const struct kernels *k = w->backend->kernels;
    int32_t row = tile * k->lanes;
    for (int32_t first = 0; first < p->n; first += KERNEL_MAX_TILE_ROWS) {
        int32_t left = p->n - first, n = left < KERNEL_MAX_TILE_ROWS ? left : KERNEL_MAX_TILE_ROWS;
        k->tile(&(struct tile){.weight = p->weight,
                               .matrix = p->matrix,
                               .row = row,
                               .panel = p->panel,
                               .first = first,
                               .n = n},
                w->backend->params.exact, w->tile[0]);
        store(w, p, row, first, n);
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
            for (int32_t t = from > at ? from - at : 0; t < tiles && at + t < to; t++)
                run_tile(w, &products[i], t);
            at += tiles;
        }
}
