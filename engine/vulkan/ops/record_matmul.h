/* What record_gemm.c and record_few.c share: one dispatch of a matrix product of several rows. */
#pragma once
#include "engine/vulkan/ops/dispatch.h"
#include "engine/vulkan/ops/record_gemm.h"

struct beside { /* a folded router's part, see shaders/include/router_beside.glsl */
    const struct device_matrix *w;
    VkDeviceAddress x;
    bool add; /* and x in halves */
};

struct matmul { /* one dispatch */
    const struct device_matrix *w;
    const struct device_layer *experts; /* routed: the layer that they belong to; else NULL */
    const char *label;
    VkDeviceAddress x, rest, y, bias;
    const struct beside *beside; /* matmul_few; NULL: nothing */
    uint32_t mode, n_x, y_stride, per_row, up_at, tile_n;
    uint32_t max_tiles;  /* routed: at most so many tiles; 0: not routed */
    uint32_t first_tile; /* routed: where their list begins; 0, or that of the small ones */
    bool lists;          /* routed: each expert has a list in place of tiles */
    bool add, clamp, split;
    bool wide;             /* by matmul_wide, in tiles of tile_n */
    bool few;              /* by record_few */
    bool units_x, units_y; /* moe_few: halves in the units' order (few_order.glsl) */
};

struct push_matmul matmul_push(const struct recorder *r, const struct matmul *m);
/* What all forms of a product have; the caller adds the tile. */
void matmul_spec(uint32_t *spec, const struct matmul *m);

/* Products of few rows: by head_few where both sides are split, moe_few where they are routed, else
 * matmul_few. */
void record_few(struct recorder *r, const struct matmul *m);
/* Whether matmul_few and moe_few can do it. */
bool record_few_fits(const struct backend *b, const struct device_matrix *w);
/* Whether head_few is faster for W than tiles. */
bool record_few_fits_head(const struct backend *b, const struct device_matrix *w);
#define HEAD_FEW_ROWS 16u /* of X at most: reads of X from the caches grow with them */
