/* What every weight format shares: LANES weight rows stand in the lanes of a vector, so that no sum
 * crosses lanes, and one unpacking of a block serves all activation rows. Included after
 * simd_<isa>.h.
 *
 * 16-bit path: the products of a block are summed exactly in int32, then
 *   acc += float(sum) * (weight scale * activation scale) [+ minimum * activation sum]
 * block after block: a row's result has one order of additions, whatever else is in the step. */
#pragma once
#include "engine/cpu/panel/block.h"
#include "engine/cpu/kernels/kernels.h"

#define SEGMENT_BLOCKS 64 /* blocks whose scales are prepared together: 4 KiB of them per plane */

struct lanes { /* the tile being computed */
    const struct tile *tile;
    const uint8_t *data[LANES], *scales[LANES], *biases[LANES]; /* rows */
    struct weight_planes planes;
    int32_t row[LANES];
    int32_t index[KERNEL_MAX_TILE_ROWS]; /* panel rows */
    int32_t blocks;
    bool exact;           /* f32 activations */
    const uint8_t *ahead; /* the next tile's bytes, fetched a block's worth at a time while this one
                             is computed */
    size_t ahead_step;
};

struct scales { /* of a segment, rows in lanes */
    float scale[SEGMENT_BLOCKS][LANES], min[SEGMENT_BLOCKS][LANES];
};

/* Blocks of the segment that begins at `first`. */
static inline int32_t segment_blocks(const struct lanes *l, int32_t first)
{
    return l->blocks - first < SEGMENT_BLOCKS ? l->blocks - first : SEGMENT_BLOCKS;
}

/* Keeps the compiler from computing with this in vector registers, which have enough to do. */
static inline uint64_t general(uint64_t v)
{
    __asm__("" : "+r"(v));
    return v;
}

static inline uint64_t word_at(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void fetch_lines(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __asm__ volatile("prefetcht1 %0"
                         :
                         : "m"(at[i])); /* gcc 12 drops loops of __builtin_prefetch */
}

/* Where a matrix's rows lie; those past the last are the last. */
static inline void place_rows(const uint8_t *to[LANES], const uint8_t *first, size_t stride,
                              int32_t left)
{
    rows_apart(to, first, stride);
    for (int32_t i = left; i < LANES; i++)
        to[i] = to[left - 1];
}

/* acc, which becomes zeros: NULL where neither that nor `index` is used. */
static inline void lanes_init(struct lanes *l, const struct tile *t, float *acc)
{
    const struct weight *w = t->weight;
    l->tile = t;
    l->planes = weight_planes(w, t->matrix);
    l->blocks = t->panel->blocks;
    const int32_t left = w->rows - t->row;
    place_rows(l->data, l->planes.data + (size_t)t->row * w->row_bytes, w->row_bytes, left);
    place_rows(l->scales, l->planes.scales, 0, LANES);
    place_rows(l->biases, l->planes.biases, 0, LANES);
    if (l->planes.scales)
        place_rows(l->scales, l->planes.scales + (size_t)t->row * w->scale_row_bytes,
                   w->scale_row_bytes, left);
    if (l->planes.biases)
        place_rows(l->biases, l->planes.biases + (size_t)t->row * w->scale_row_bytes,
                   w->scale_row_bytes, left);
    UNROLL
    for (int32_t i = 0; i < LANES; i++)
        l->row[i] = t->row + (i < left ? i : left - 1);
    /* Sixteen rows are more streams than the hardware follows; the tile's bytes are one run, so
     * name them. */
    l->ahead_step = (size_t)LANES * w->row_bytes / (size_t)l->blocks;
    bool more = t->row + 2 * LANES <= w->rows;
    l->ahead = more ? l->data[0] + (size_t)LANES * w->row_bytes : l->data[0];
    if (more && l->scales[0])
        fetch_lines(l->scales[0] + (size_t)LANES * w->scale_row_bytes,
                    (size_t)LANES * w->scale_row_bytes);
    if (more && l->biases[0])
        fetch_lines(l->biases[0] + (size_t)LANES * w->scale_row_bytes,
                    (size_t)LANES * w->scale_row_bytes);
    for (int32_t i = 0; acc && i < t->n; i++) {
        l->index[i] = t->index ? t->index[i] : t->first + i;
        vf_store(acc + i * LANES, vf_zero());
    }
}

static inline void fetch_ahead(const struct lanes *l, int32_t block)
{
    fetch_lines(l->ahead + (size_t)block * l->ahead_step, l->ahead_step);
}

static inline size_t cell(const struct panel *p, int32_t block, int32_t row)
{
    return (size_t)block * (size_t)p->rows + (size_t)row;
}

/* What is computed with an unpacked block; a constant where the format functions are inlined. */
enum mode {
    MODE_ONE,  /* one row: its sum stays in a register, and nothing else needs any */
    MODE_MANY, /* rows right behind the unpacking, which stays in registers */
    MODE_CALL, /* the same, or f32 activations, through a call: costs a third at 2 rows and 7 % at
                  64, but the code of every pairing of format and rows would take a minute to
                  compile */
};

struct sums {
    vf one;      /* MODE_ONE */
    float *many; /* [n, LANES] */
};

/* How a format's scales enter: one per block; one and a minimum; one per half block; one and a
 * minimum each. */
enum scale_shape { PLAIN = 0, WITH_MIN = 1, HALVES = 2 };

static inline __attribute__((always_inline)) vf finish(const struct panel *p, size_t at, vi low,
                                                       vi high, const vf scale[2], const vf min[2],
                                                       int shape, vf sum)
{
    vf factor = vf_set1(p->scale[at]);
    if (shape & HALVES) {
        sum = vf_fma(vf_from_int(low), vf_mul(scale[0], factor), sum);
        sum = vf_fma(vf_from_int(high), vf_mul(scale[1], factor), sum);
    } else {
        sum = vf_fma(vf_from_int(vi_add(low, high)), vf_mul(scale[0], factor), sum);
    }
    if (shape & WITH_MIN && shape & HALVES) {
        sum = vf_fma(min[0], vf_set1(p->sum[2 * at]), sum);
        sum = vf_fma(min[1], vf_set1(p->sum[2 * at + 1]), sum);
    } else if (shape & WITH_MIN) { /* the minima of both halves are the same */
        sum = vf_fma(min[0], vf_set1(p->sum[2 * at] + p->sum[2 * at + 1]), sum);
    }
    return sum;
}

static inline __attribute__((always_inline)) vf block_one(const vi q[16], const vf scale[2],
                                                          const vf min[2], int shape,
                                                          const struct panel *p,
                                                          const int16_t *values, size_t at, vf acc)
{
    const int16_t *x = values + at * PANEL_BLOCK;
    vi sum[4];
    UNROLL
    for (int c = 0; c < 4; c++)
        sum[c] = vi_zero();
    UNROLL
    for (int i = 0; i < 4; i++)
        UNROLL
    for (int c = 0; c < 4; c++)
        sum[c] = vi_dot(sum[c], q[4 * c + i], vi_pair(x + 2 * (4 * c + i)));
    return finish(p, at, vi_add(sum[0], sum[1]), vi_add(sum[2], sum[3]), scale, min, shape, acc);
}

/* `count` rows, a constant: 1 to 4. */
static inline __attribute__((always_inline)) void
block_few(const vi q[16], const vf scale[2], const vf min[2], int shape, const struct panel *p,
          const int16_t *values, const size_t *at, int count, float *acc)
{
    vi low[4], high[4];
    UNROLL
    for (int t = 0; t < count; t++)
        low[t] = high[t] = vi_zero();
    UNROLL
    for (int i = 0; i < 16; i++)
        UNROLL
    for (int t = 0; t < count; t++) {
        vi *sum = i >= 8 && shape & HALVES ? &high[t] : &low[t];
        *sum = vi_dot(*sum, q[i], vi_pair(values + at[t] * PANEL_BLOCK + 2 * i));
    }
    UNROLL
    for (int t = 0; t < count; t++)
        vf_store(acc + t * LANES,
                 finish(p, at[t], low[t], high[t], scale, min, shape, vf_load(acc + t * LANES)));
}

/* One unpacked block times all rows of the tile. */
static inline __attribute__((always_inline)) void block_rows(const struct lanes *l, int32_t block,
                                                             const vi q[16], const vf scale[2],
                                                             const vf min[2], int shape,
                                                             const int16_t *values, float *acc)
{
    const struct panel *p = l->tile->panel;
    int32_t n = l->tile->n, i = 0;
    size_t at[4];
    fetch_ahead(l, block);
    for (; i + 4 <= n; i += 4) {
        UNROLL
        for (int t = 0; t < 4; t++)
            at[t] = cell(p, block, l->index[i + t]);
        block_few(q, scale, min, shape, p, values, at, 4, acc + i * LANES);
    }
    for (int t = 0; i + t < n; t++)
        at[t] = cell(p, block, l->index[i + t]);
    if (n - i >= 2) {
        block_few(q, scale, min, shape, p, values, at, 2, acc + i * LANES);
        i += 2;
    }
    if (n - i == 1)
        block_few(q, scale, min, shape, p, values, at + (n & 2), 1, acc + i * LANES);
}

/* For MODE_CALL. */
#define BLOCK_ROWS(name, shape)                                                                    \
    static __attribute__((noinline)) void name(const struct lanes *l, int32_t block,               \
                                               const vi *unpacked, const vf *scales,               \
                                               const vf *mins, const int16_t *values, float *acc)  \
    {                                                                                              \
        vi q[16]; /* a copy that nothing else can change stays in registers */                     \
        vf scale[2] = {scales[0], scales[1]}, min[2] = {mins[0], mins[1]};                         \
        UNROLL                                                                                     \
        for (int i = 0; i < 16; i++)                                                               \
            q[i] = unpacked[i];                                                                    \
        block_rows(l, block, q, scale, min, shape, values, acc);                                   \
    }
BLOCK_ROWS(block_rows_plain, PLAIN)
BLOCK_ROWS(block_rows_min, WITH_MIN)
BLOCK_ROWS(block_rows_halves, HALVES)
BLOCK_ROWS(block_rows_min_halves, WITH_MIN | HALVES)
#undef BLOCK_ROWS

/* Rows whose sums fit into the registers beside one vector of weights, which is then read once for
 * all of them. */
#define FLOAT_ROWS (LANES == 16 ? 6 : 3)

static inline __attribute__((always_inline)) void floats_rows(const struct lanes *l, int32_t block,
                                                              float w[32][LANES], int32_t first,
                                                              int n, float *acc)
{
    const struct panel *p = l->tile->panel;
    const float *x[FLOAT_ROWS];
    vf sum[FLOAT_ROWS][4];
    UNROLL
    for (int r = 0; r < n; r++)
        x[r] = p->f32 + cell(p, block, l->index[first + r]) * PANEL_BLOCK;
    UNROLL
    for (int c = 0; c < 4; c++) {
        const vf weight = vf_load(w[c]);
        UNROLL
        for (int r = 0; r < n; r++)
            sum[r][c] = vf_mul(weight, vf_set1(x[r][c]));
    }
    UNROLL
    for (int c = 4; c < 32; c++) {
        const vf weight = vf_load(w[c]);
        UNROLL
        for (int r = 0; r < n; r++)
            sum[r][c % 4] = vf_fma(weight, vf_set1(x[r][c]), sum[r][c % 4]);
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        float *to = acc + (first + r) * LANES;
        vf all = vf_add(vf_add(sum[r][0], sum[r][1]), vf_add(sum[r][2], sum[r][3]));
        vf_store(to, vf_add(vf_load(to), all));
    }
}

/* The f32 path: weights of a block, [32 columns][LANES rows]. Four partial sums by column. */
static __attribute__((noinline)) void block_floats(const struct lanes *l, int32_t block,
                                                   float w[32][LANES], float *acc)
{
    int32_t i = 0;
    fetch_ahead(l, block);
    for (; i + FLOAT_ROWS <= l->tile->n; i += FLOAT_ROWS)
        floats_rows(l, block, w, i, FLOAT_ROWS, acc);
    for (; i < l->tile->n; i++)
        floats_rows(l, block, w, i, 1, acc);
}

/* An unpacked block as floats, for f32 activations. Pair i of the two orders (panel.h) holds these
 * columns. */
static __attribute__((noinline)) void block_exact(const struct lanes *l, int32_t block,
                                                  const vi q[16], const vf scale[2],
                                                  const vf min[2], enum panel_kind kind, float *acc)
{
    float w[32][LANES];
    UNROLL
    for (int i = 0; i < 16; i++) {
        int first = kind == PANEL_NIBBLE ? i / 4 * 8 + i % 4 : i / 2 * 4 + i % 2;
        int second = first + (kind == PANEL_NIBBLE ? 4 : 2);
        vf low = vf_from_int(vi_sar(vi_shl(q[i], 16), 16)), high = vf_from_int(vi_sar(q[i], 16));
        vf_store(w[first], vf_fma(low, scale[i / 8], min[i / 8]));
        vf_store(w[second], vf_fma(high, scale[i / 8], min[i / 8]));
    }
    block_floats(l, block, w, acc);
}

static inline __attribute__((always_inline)) void
block_apply(const struct lanes *l, int32_t block, const vi q[16], const vf scale[2],
            const vf min[2], int shape, enum panel_kind kind, enum mode mode, struct sums *acc)
{
    const struct panel *p = l->tile->panel;
    if (mode == MODE_ONE) {
        fetch_ahead(l, block);
        acc->one = block_one(q, scale, min, shape, p, kind == PANEL_NIBBLE ? p->nibble : p->byte,
                             cell(p, block, l->index[0]), acc->one);
    } else if (mode == MODE_MANY) {
        block_rows(l, block, q, scale, min, shape, kind == PANEL_NIBBLE ? p->nibble : p->byte,
                   acc->many);
    } else if (l->exact) {
        block_exact(l, block, q, scale, min, kind, acc->many);
    } else {
        const int16_t *values = kind == PANEL_NIBBLE ? p->nibble : p->byte;
        if (shape == PLAIN)
            block_rows_plain(l, block, q, scale, min, values, acc->many);
        else if (shape == WITH_MIN)
            block_rows_min(l, block, q, scale, min, values, acc->many);
        else if (shape == HALVES)
            block_rows_halves(l, block, q, scale, min, values, acc->many);
        else
            block_rows_min_halves(l, block, q, scale, min, values, acc->many);
    }
}

/* F32, F16, BF16, any number of columns. */
static inline void tile_plain_floats(const struct lanes *l, float *acc)
{
    for (int32_t b = 0; b < l->blocks; b++) {
        float row[32], w[32][LANES];
        for (int32_t r = 0; r < LANES; r++) {
            block_f32(l->tile->weight, &l->planes, l->row[r], b, row);
            UNROLL
            for (int c = 0; c < 32; c++)
                w[c][r] = row[c];
        }
        block_floats(l, b, w, acc);
    }
}

/* F32, F16 and BF16 weights: columns stand in the lanes, as they lie. Four rows of weights are
 * multiplied with a few of activations at a time; a product has one sum of LANES lanes, which are
 * added at the row's end, so its bits are the same in any company. */
#define LINE_WEIGHTS 4                  /* rows of weights, */
#define LINE_ROWS (LANES == 16 ? 4 : 2) /* and of activations: their sums fill the registers */

static inline __attribute__((always_inline)) vf line_weights(const uint8_t *row, size_t column,
                                                             enum weight_type type)
{
    if (type == WEIGHT_F32)
        return vf_load((const float *)(const void *)(row + 4 * column));
    const uint16_t *at = (const uint16_t *)(const void *)(row + 2 * column);
    return type == WEIGHT_F16 ? vf_load_half(at) : vf_load_bf16(at);
}

/* `rows` weight rows from r on times `count` rows of activations from `first` on; both constants.
 */
static inline __attribute__((always_inline)) void float_lines(const struct lanes *l,
                                                              enum weight_type type, int32_t r,
                                                              int rows, int32_t first, int count,
                                                              float *acc)
{
    const struct panel *p = l->tile->panel;
    const float *x[LINE_ROWS];
    vf sum[LINE_WEIGHTS][LINE_ROWS];
    UNROLL
    for (int t = 0; t < count; t++) {
        x[t] = p->f32 + cell(p, 0, l->index[first + t]) * PANEL_BLOCK;
        UNROLL
        for (int i = 0; i < rows; i++)
            sum[i][t] = vf_zero();
    }
    for (int32_t b = 0; b < l->blocks; b++)
        UNROLL
    for (int c = 0; c < PANEL_BLOCK; c += LANES) {
        vf weights[LINE_WEIGHTS];
        UNROLL
        for (int i = 0; i < rows; i++)
            weights[i] = line_weights(l->data[r + i], (size_t)b * PANEL_BLOCK + (size_t)c, type);
        UNROLL
        for (int t = 0; t < count; t++) {
            const vf v = vf_load(x[t] + cell(p, b, 0) * PANEL_BLOCK + c);
            UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][t] = vf_fma(weights[i], v, sum[i][t]);
        }
    }
    UNROLL
    for (int t = 0; t < count; t++)
        UNROLL
    for (int i = 0; i < rows; i++)
        acc[(first + t) * LANES + r + i] = vf_sum(sum[i][t]);
}

static inline __attribute__((always_inline)) void float_rows(const struct lanes *l,
                                                             enum weight_type type, float *acc)
{
    const int32_t n = l->tile->n;
    int32_t t = 0;
    /* The processor's own fetching follows one run of memory a third faster than four; but one sum
     * of eight lanes for two bytes each waits longer for itself. */
    if (n == 1 && (LANES == 16 || type == WEIGHT_F32)) {
        for (int32_t r = 0; r < LANES; r++)
            float_lines(l, type, r, 1, 0, 1, acc);
        return;
    }
    for (; t + LINE_ROWS <= n; t += LINE_ROWS)
        for (int32_t r = 0; r < LANES; r += LINE_WEIGHTS)
            float_lines(l, type, r, LINE_WEIGHTS, t, LINE_ROWS, acc);
    for (; t < n; t++)
        for (int32_t r = 0; r < LANES; r += LINE_WEIGHTS)
            float_lines(l, type, r, LINE_WEIGHTS, t, 1, acc);
}

/* Columns a multiple of PANEL_BLOCK. */
static __attribute__((noinline)) void tile_floats(const struct lanes *l, float *acc)
{
    const enum weight_type type = l->tile->weight->type;
    if (type == WEIGHT_F32)
        float_rows(l, WEIGHT_F32, acc);
    else if (type == WEIGHT_F16)
        float_rows(l, WEIGHT_F16, acc);
    else
        float_rows(l, WEIGHT_BF16, acc);
}
