/* Attention of many rows by tiles, with and (where the device has them) without matrix units, and
 * of one row over splits of its context, against sums in double: heads of every width, rows that
 * fill no tile, windows, sinks, gates, results as floats and as halves. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/format/weight_bits.h"
#include "engine/vulkan/ops/matrix_places.h"
#include "tests/unit/vulkan/vulkan_rig.h"

enum { N_KV = 2, MAX_BLOCKS = 16, BLOCK = 32 };

struct scene {
    int d, group, start, n; /* columns of a head, heads of a KV head, rows before, rows */
    int window;
    bool sinks, gate;
    bool units; /* only there: heads this wide */
    int turns;  /* rows: columns of a head that turn, by nothing; 0: 2 */
};

static const struct scene scenes[] = {
    {.d = 64, .group = 8, .start = 0, .n = 90, .sinks = true},
    {.d = 128, .group = 4, .start = 70, .n = 150, .gate = true},
    {.d = 96, .group = 2, .start = 33, .n = 70, .window = 40},
    {.d = 256, .group = 8, .start = 37, .n = 75, .gate = true, .units = true},
    {.d = 192, .group = 1, .start = 0, .n = 100, .units = true},
};

struct data {
    struct rig_span qkv, kv, outs, sinks, rows, tiles, tables;
    int n_head, n_tiles, stride, q_step, n_tokens;
    struct attention_plan plan;
    struct device_layer layer;
};

static struct rig rig;
static unsigned seed = 7;

/* Place of column c of a token's key or value, in halves. */
static size_t place(const struct scene *s, const struct data *x, int token, int is_v, int head,
                    int c)
{
    const int block = x->tables.i[token / BLOCK];
    return ((((size_t)block * 2 + (size_t)is_v) * N_KV + (size_t)head) * BLOCK +
            (size_t)(token % BLOCK)) *
               (size_t)s->d +
           (size_t)c;
}

static float kv_at(const struct scene *s, const struct data *x, int token, int is_v, int head,
                   int c)
{
    return f16_to_f32(((const uint16_t *)x->kv.u)[place(s, x, token, is_v, head, c)]);
}

/* Cut off, not rounded; what is smaller than a normal half becomes zero. */
static uint16_t half_of(float v)
{
    int e;
    const float m = frexpf(fabsf(v), &e);
    if (m == 0 || e < -13)
        return 0;
    return (uint16_t)((v < 0 ? 0x8000 : 0) | (e + 14) << 10 | ((int)(m * 2048) - 1024));
}

static void fill_kv(const struct scene *s, struct data *x)
{
    /* Later keys are greater: maxima rise along the way. */
    for (int t = 0; t < x->n_tokens; t++)
        for (int i = 0; i < 2 * N_KV * s->d; i++) {
            const int is_v = i / (N_KV * s->d), head = i / s->d % N_KV, c = i % s->d;
            const float v = random_unit(&seed);
            const float key = v * (0.3f + 1.2f * (float)t / (float)x->n_tokens);
            ((uint16_t *)x->kv.u)[place(s, x, t, is_v, head, c)] = half_of(is_v ? v : key);
        }
}

static void set_up(const struct scene *s, struct data *x)
{
    const int tile = 64 / s->group;
    rig_clear(&rig);
    *x = (struct data){.n_head = N_KV * s->group,
                       .q_step = s->d * (s->gate ? 2 : 1),
                       .n_tokens = s->start + s->n,
                       .n_tiles = (s->n + tile - 1) / tile + 1};
    x->stride = x->n_head * x->q_step + 2 * N_KV * s->d;
    x->qkv = rig_take(&rig, (size_t)(s->n * x->stride));
    x->kv = rig_take(&rig, (size_t)MAX_BLOCKS * 2 * N_KV * BLOCK * (size_t)s->d / 2);
    x->outs = rig_take(&rig, (size_t)(s->n * x->n_head * s->d));
    x->sinks = rig_take(&rig, (size_t)x->n_head);
    x->rows = rig_take(&rig, (size_t)s->n * 4);
    x->tiles = rig_take(&rig, (size_t)x->n_tiles * 4); /* the last one is empty, as padding is */
    x->tables = rig_take(&rig, MAX_BLOCKS + 3);
    for (int i = 0; i < MAX_BLOCKS; i++)
        x->tables.i[i + 3] = (i * 5 + 2) % MAX_BLOCKS;
    for (int i = 0; i < s->n * x->stride; i++)
        x->qkv.f[i] = 3 * random_unit(&seed);
    for (int i = 0; i < x->n_head; i++)
        x->sinks.f[i] = 3 * random_unit(&seed);
    for (int i = 0; i < s->n; i++) {
        x->rows.rows[i][1] = s->start + i;
        x->rows.rows[i][2] = 3;
        x->rows.rows[i][3] = 1;
    }
    for (int i = 0; i * tile < s->n; i++) {
        x->tiles.rows[i][0] = i * tile;
        x->tiles.rows[i][1] = s->n - i * tile < tile ? s->n - i * tile : tile;
    }
    x->tables.i += 3;
    fill_kv(s, x);
    x->plan = (struct attention_plan){.n_head = x->n_head,
                                      .n_kv_head = N_KV,
                                      .d_head = s->d,
                                      .window = s->window,
                                      .output_gate = s->gate,
                                      .scale = 1 / sqrtf((float)s->d)};
    x->plan.sinks.at = s->sinks ? x->sinks.f : NULL;
    x->layer = (struct device_layer){.kv = x->kv.at, .sinks = x->sinks.at};
    rig.b.sizes.qkv = (uint32_t)x->stride;
    rig.b.sizes.group = (uint32_t)s->group;
    rig.b.workspace = (struct workspace){.qkv = x->qkv.at, .attn = x->outs.at};
    rig.b.kv_type = KV_F16;
    rig.b.step.at_rows = x->rows.at;
    rig.b.step.at_tiles = x->tiles.at;
    rig.b.step.at_tables = x->tables.at;
}

/* Weights of one row and head over the tokens it sees, which begin at *first. */
static int weigh(const struct scene *s, const struct data *x, int row, int head, double *weights)
{
    const float *q = x->qkv.f + (size_t)row * (size_t)x->stride + (size_t)(head * x->q_step);
    const int last = s->start + row;
    const int first = s->window && last - s->window + 1 > 0 ? last - s->window + 1 : 0;
    double sum = s->sinks ? exp((double)x->sinks.f[head]) : 0;
    for (int t = first; t <= last; t++) {
        double dot = 0;
        for (int c = 0; c < s->d; c++)
            dot += (double)q[c] * (double)kv_at(s, x, t, 0, head / s->group, c);
        weights[t] = exp(dot * (double)x->plan.scale);
        sum += weights[t];
    }
    for (int t = first; t <= last; t++)
        weights[t] /= sum;
    return first;
}

static void compare(const struct scene *s, const struct data *x)
{
    double weights[MAX_BLOCKS * BLOCK];
    for (int row = 0; row < s->n; row++)
        for (int head = 0; head < x->n_head; head++) {
            const float *q =
                x->qkv.f + (size_t)row * (size_t)x->stride + (size_t)(head * x->q_step);
            const int first = weigh(s, x, row, head, weights);
            for (int c = 0; c < s->d; c++) {
                double want = 0;
                for (int t = first; t <= s->start + row; t++)
                    want += weights[t] * (double)kv_at(s, x, t, 1, head / s->group, c);
                want *= s->gate ? 1 / (1 + exp(-(double)q[s->d + c])) : 1;
                const float have = x->outs.f[(row * x->n_head + head) * s->d + c];
                if (!(fabs((double)have - want) < 0.006))
                    fail_msg("heads of %d, row %d, head %d, column %d is %g, want %g", s->d, row,
                             head, c, (double)have, want);
            }
        }
}

static void check(const struct scene *s)
{
    struct data x;
    struct err e = {0};
    set_up(s, &x);
    struct recorder r = rig_begin(&rig, (uint32_t)s->n, &e);
    record_tiled_attention(&r, &x.plan, &x.layer, (uint32_t)x.n_tiles);
    rig_end(&r);
    compare(s, &x);
}

static void test_tiles(void **state)
{
    const bool units = rig.b.gpu.caps.cooperative_matrix;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        rig.b.gpu.caps.cooperative_matrix = false;
        if (!scenes[i].units)
            check(&scenes[i]);
        rig.b.gpu.caps.cooperative_matrix = units;
        if (units)
            check(&scenes[i]);
    }
}

static float value_of_half(uint32_t h)
{
    return f16_to_f32((uint16_t)h);
}

#define CHAINED_GROUPS 5u /* workgroups of the layer before, as if it ran by resident.comp */

struct row_way {
    bool halves;
    uint32_t split_blocks;
    bool chained;
    uint32_t projected; /* those that are done */
};

/* Returns how many workgroups have counted. */
static uint32_t run_row(const struct scene *s, const struct row_way *way, struct data *x,
                        struct rig_span *out)
{
    struct err e = {0};
    set_up(s, x);
    const size_t n = (size_t)(x->n_head * s->d);
    *out = rig_take(&rig, n / 2);
    struct rig_span freq = rig_take(&rig, 64), parts = rig_take(&rig, n * 16 + 64 * 16),
                    meetings = rig_take(&rig, (size_t)2 * RESIDENT_MEETING_WORDS);
    const uint32_t *counts = meetings.u + RESIDENT_MEETING_WORDS; /* of layer 1 */
    meetings.u[RESIDENT_MEETING_WORDS + RESIDENT_PROJECTED * RESIDENT_LINE_WORDS] = way->projected;
    x->rows.rows[0][3] = 0; /* in no tile */
    x->plan.rope =
        (struct rope_plan){.n_dims = s->turns ? s->turns : 2, .scale = 1}; /* which turns nothing */
    x->layer.inv_freq = freq.at;
    rig.b.workspace.x_hi = out->at;
    rig.b.workspace.parts = parts.at;
    rig.b.workspace.meetings = meetings.at;
    rig.b.sizes.max_splits = 8;
    rig.b.sizes.decode_rows = 1;
    rig.b.tuning.split_blocks = way->split_blocks;
    rig.b.tuning.resident_groups = CHAINED_GROUPS;
    struct recorder r = rig_begin(&rig, 1, &e);
    record_attention(&r, &x->plan, &x->layer,
                     &(struct attention_op){.prep = true,
                                            .halves = way->halves,
                                            .layer = 1,
                                            .chained = way->chained,
                                            .n_splits = record_splits(&rig.b, 1, s->start)});
    rig_end(&r);
    return counts[RESIDENT_ATTENDED * RESIDENT_LINE_WORDS];
}

static void check_run(const struct scene *s, const struct row_way *way, struct data *x,
                      const struct rig_span *out)
{
    for (int i = 0; i < x->n_head * s->d && way->halves; i++)
        x->outs.f[i] = value_of_half(out->u[i / 2] >> (i % 2 * 16) & 0xffff);
    for (int i = 0; i < s->d; i++) { /* stored as it came */
        const float v = x->qkv.f[x->n_head * x->q_step + N_KV * s->d + i];
        assert_true(fabsf(kv_at(s, x, s->start, 1, 0, i) - v) <= fabsf(v) / 1024);
    }
    compare(s, x);
}

/* A decode row, which stores its own key and value: compare() finds them in the cache. */
static void check_row(const struct scene *s, bool halves, uint32_t split_blocks)
{
    const struct row_way way = {.halves = halves, .split_blocks = split_blocks};
    struct data x;
    struct rig_span out;
    assert_int_equal(run_row(s, &way, &x, &out), 0);
    check_run(s, &way, &x, &out);
}

/* All its workgroups count, but none where what they wait for does not come. */
static void check_chained(const struct scene *s, uint32_t split_blocks, uint32_t n)
{
    struct row_way way = {
        .split_blocks = split_blocks, .chained = true, .projected = CHAINED_GROUPS - 1};
    struct data x;
    struct rig_span out;
    assert_int_equal(run_row(s, &way, &x, &out), 0);
    way.projected++;
    assert_int_equal(run_row(s, &way, &x, &out), n);
    check_run(s, &way, &x, &out);
}

/* Each scene by one kernel, for a software device compiles each for seconds: several splits
 * (the last of a single block), as many as there may be, and one; what they leave as halves and as
 * floats. */
static void test_rows(void **state)
{
    static const struct scene many = {.d = 64, .group = 8, .start = 490, .n = 1, .sinks = true},
                              gated = {.d = 128, .group = 4, .start = 191, .n = 1, .gate = true},
                              narrow = {.d = 96, .group = 2, .start = 0, .n = 1},
                              windowed = {.d = 64, .group = 2, .start = 160, .n = 1, .window = 40};
    struct scene few = many, one = many;
    few.start = 70;
    one.start = 50;
    check_row(&many, true, 2);
    check_row(&few, true, 2);
    check_row(&one, true, 2);
    check_row(&gated, false, 4);
    check_row(&narrow, true, 4);
    check_row(&windowed, false, 4); /* one split of the window */
}

/* Rows by attn_units, on the units or on plain arithmetic in their place. */
static bool units_begin(void)
{
    const struct gpu_caps *caps = &rig.b.gpu.caps;
    struct err e = {0};
    bool known = false;
    if (!caps->cooperative_matrix && (!caps->float16 || caps->subgroup < 8))
        return false;
    if (caps->cooperative_matrix && (!matrix_places_check(&rig.b.gpu, &known, &e) || !known))
        return false;
    rig.b.tuning.few = caps->cooperative_matrix ? WIDE_UNITS : WIDE_EMULATED;
    return true;
}

static void units_end(void)
{
    rig.b.tuning.few = WIDE_NONE;
}

static void test_rows_on_units(void **state)
{
    static const struct scene row = {
        .d = 128, .group = 4, .start = 230, .n = 1, .window = 77, .gate = true, .sinks = true};
    static const struct scene turning = {.d = 128, .group = 8, .start = 230, .n = 1, .turns = 128};
    static const struct scene windowed = {.d = 128,
                                          .group = 5,
                                          .start = 230,
                                          .n = 1,
                                          .window = 77,
                                          .gate = true,
                                          .sinks = true,
                                          .turns = 128};
    struct scene alone = turning, own = windowed;
    alone.start = 448; /* its token, in the last split of as many as there may be */
    own.window = 1;    /* and nothing else at all */
    if (!units_begin())
        skip();
    check_row(&row, true, 2); /* two splits of the window */
    check_row(&turning, true, 2);
    check_row(&turning, false, 8);
    check_row(&alone, true, 2);
    check_row(&windowed, true, 2);
    check_row(&own, true, 2);
    check_chained(&turning, 2, 4 * N_KV); /* splits */
    check_chained(&turning, 8, 4 * N_KV); /* an only split, pairs of heads */
    units_end();
}

enum { PART_WORDS = 2 * (BLOCK * 128 / 4 + BLOCK / 2), KV_WORDS = MAX_BLOCKS * N_KV * PART_WORDS };

/* Keys and values in eight bits: random ones, and a single row's own. cache: what they are
 * afterwards. */
static void packed_row(const struct scene *s, struct data *x, uint32_t split_blocks,
                       uint32_t cache[KV_WORDS])
{
    struct err e = {0};
    seed = 7;
    set_up(s, x);
    const size_t n = (size_t)(s->n * x->n_head * s->d);
    struct rig_span kv = rig_take(&rig, KV_WORDS), freq = rig_take(&rig, 64),
                    parts = rig_take(&rig, n * 16 + (size_t)s->n * 64 * 16);
    for (int i = 0; i < KV_WORDS; i++) {
        const bool scale = i % (PART_WORDS / 2) >= BLOCK * 128 / 4;
        const uint32_t bits = (uint32_t)(0x7fffffff * (double)(random_unit(&seed) + 1));
        kv.u[i] = scale ? 0x20002000 | (bits & 0x03ff03ff) : bits;
    }
    for (int i = 0; i < s->n; i++)
        x->rows.rows[i][3] = 0;
    x->plan.rope = (struct rope_plan){.n_dims = s->turns ? s->turns : 2, .scale = 1};
    x->layer.kv = kv.at;
    x->layer.inv_freq = freq.at;
    rig.b.kv_type = KV_Q8;
    rig.b.workspace.parts = parts.at;
    rig.b.sizes.max_splits = 8;
    rig.b.sizes.decode_rows = (uint32_t)s->n;
    rig.b.tuning.split_blocks = split_blocks;
    struct recorder r = rig_begin(&rig, (uint32_t)s->n, &e);
    record_attention(
        &r, &x->plan, &x->layer,
        &(struct attention_op){.prep = s->n == 1,
                               .n_splits = record_splits(&rig.b, s->n, s->start + s->n - 1)});
    rig_end(&r);
    memcpy(cache, kv.u, KV_WORDS * sizeof *cache);
}

/* The own key and value may be rounded the other way: the two shaders rotate in another order. */
static bool nearly_same(uint32_t a, uint32_t b)
{
    for (int i = 0; i < 32; i += 8)
        if ((uint8_t)((a >> i) - (b >> i) + 1) > 2)
            return false;
    return true;
}

/* Four splits by 128 threads; by 256, which share more than a device must have; one; then many
 * rows, whose keys and values are there before, in one split, and in three or four. A split is of
 * five blocks, of which 128 threads take a first, a next and a last turn. */
static void test_packed_rows_on_units(void **state)
{
    enum { MANY = 64, N = MANY * N_KV * 8 * 128, CASES = 5 };
    static const int last[CASES] = {480, 503, 139, 159, 511}; /* 480: alone in the last split */
    const uint32_t blocks = 5;
    const uint32_t shared = rig.b.gpu.caps.max_shared;
    struct scene row = {.d = 128, .group = 8, .n = 1, .gate = true, .turns = 128};
    static float want[N];
    static uint32_t want_cache[KV_WORDS], cache[KV_WORDS];
    struct data x;
    for (int k = 0; k < CASES; k++) {
        row.n = k < 3 ? 1 : MANY;
        row.start = last[k] + 1 - row.n;
        packed_row(&row, &x, blocks, want_cache);
        const int n = row.n * x.n_head * row.d;
        memcpy(want, x.outs.f, (size_t)n * sizeof *want);
        if (!units_begin())
            skip();
        rig.b.gpu.caps.max_shared = k == 0 ? 32u << 10 : 48u << 10;
        packed_row(&row, &x, blocks, cache);
        rig.b.gpu.caps.max_shared = shared;
        units_end();
        for (int i = 0; i < KV_WORDS; i++)
            assert_true(nearly_same(cache[i], want_cache[i]));
        for (int i = 0; i < n; i++)
            if (!(fabsf(x.outs.f[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
                fail_msg("case %d, %d: %g, want %g", k, i, (double)x.outs.f[i], (double)want[i]);
    }
}

int main(void)
{
    struct err e = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_on_units),
        cmocka_unit_test(test_packed_rows_on_units),
    };
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&rig);
    return failed;
}
