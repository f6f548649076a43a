/* Matrix products of a step: activations into panels, weight tiles shared among the threads. Called
 * by every thread of a step; who shares what is in worker.h. */
#pragma once
#include "engine/cpu/cpu_worker.h"

struct pack {
    enum panel_slot slot;
    const float *x; /* [n, cols] with the given stride */
    size_t stride;
    int32_t n, cols;
    unsigned kinds;    /* of the weights that will read it */
    const float *norm; /* RMS norm with these weights first; NULL: as is */
    bool lone_rows;    /* products take few rows of it at a time, as experts do */
};

/* Packs rows into a panel: few rows by every thread for itself, many in shares and a barrier. */
struct panel matmul_pack(struct worker *w, const struct pack *p);
/* The same in pieces: the panel's place, then rows from <= row < to of it, without the barrier. */
struct panel matmul_panel(const struct worker *w, const struct pack *p);
void matmul_pack_rows(struct worker *w, const struct pack *p, struct panel *panel, int32_t from,
                      int32_t to);

/* Forms of a panel that products with this weight read. */
unsigned matmul_kinds(const struct worker *w, const struct weight *weight);

struct product { /* out = W x + bias */
    const struct weight *weight;
    int32_t matrix;
    const struct panel *panel;
    int32_t n;         /* rows of the panel, from 0 */
    const float *bias; /* [rows of W] or NULL */
    float *out;        /* [n, rows of W] with stride */
    size_t stride;
    float *residual; /* NULL, or the result is added here too; stride as out */
};

/* Several products of one phase as one list of tiles, so that small matrices share the threads
 * evenly. No barrier at the end. */
void matmul_run(struct worker *w, const struct product *products, int32_t n);
/* Tiles from <= t < to of one product: a share that the caller decides on. The bytes that are read
 * are not counted. */
void matmul_run_tiles(struct worker *w, const struct product *p, int32_t from, int32_t to);
/* How many of `left` tiles that follow each other one call computes, for n rows of activations. */
int32_t matmul_at_once(int32_t n, int32_t left);
/* How many of `left` rows of activations one call of `tile` takes: what is more than one can take
 * goes in even shares, not as one call of many rows and one of a few. */
int32_t matmul_rows_at_once(int32_t left);
/* Copies what a call of `tile` left of one row of activations, whose first values are at `acc`,
 * into the columns of `row` [cols] that they belong to. */
void matmul_columns(float *row, int32_t cols, const struct tile *t, const float *acc,
                    int32_t lanes);
/* Tiles of a matrix with this many rows. */
int32_t matmul_tiles(const struct worker *w, int32_t rows);
