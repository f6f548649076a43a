/* The vector kernels of every instruction set that this CPU has, and the generic ones, against sums
 * in double precision over weight_row_f32; and that a row's result does not depend on its company.
 *
 * Tolerances: f32 activations 2e-6 of the sum of |w x|; 16-bit activations besides half a step (1 /
 * 2 / PANEL_TOP of the block's largest value) for each |w|, those of 8 bits the same with
 * PANEL_TOP_BYTE. Row-wise kernels 2e-6 relative against the generic ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/cpu_weights.h"
#include "tests/unit/support/guarded.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/kernels/kv_layout.h"

#define MAX_COLS 16768
#define MAX_N KERNEL_MAX_TILE_ROWS

static float x[MAX_N][MAX_COLS];
static bool one_byte; /* activations of 8 bits, where there are packed ones */

static void fill_x(int cols, unsigned seed)
{
    unsigned state = seed;
    for (int i = 0; i < MAX_N; i++)
        for (int c = 0; c < cols; c++)
            x[i][c] = random_unit(&state) * (c % 97 == 5 ? 30 : 1); /* outliers, as in models */
}

struct packed {
    struct panel panel;
    void *memory;
};

/* without: of the forms that the weight's products read. */
static struct packed pack_but(const struct kernels *k, const struct weight *w, int n, bool exact,
                              unsigned without)
{
    struct packed p;
    const unsigned kinds = kernels_panel_kinds(k, w, exact, one_byte) & ~without;
    p.memory = guarded_alloc(panel_bytes(n, w->cols, kinds), 64);
    memset(p.memory, 0x5a, panel_bytes(n, w->cols, kinds)); /* a panel is used again and again */
    panel_place(&p.panel, n, w->cols, kinds, p.memory);
    for (int i = 0; i < n; i++)
        k->pack(&p.panel, i, x[i]);
    return p;
}

static struct packed pack_all(const struct kernels *k, const struct weight *w, int n, bool exact)
{
    return pack_but(k, w, n, exact, 0);
}

static struct plain_product plain[37][9]; /* of a weight's row with x's: one for all kernels */

static void expect_products(const struct weight *w, int matrix, int n)
{
    float row[MAX_COLS];
    for (int r = 0; r < w->rows; r++) {
        weight_row_f32(w, matrix, r, row);
        for (int i = 0; i < n; i++)
            plain[r][i] = plain_product(row, x[i], w->cols);
    }
}

/* After expect_products() of the same weight. */
static void check_product(const struct kernels *k, const struct weight *w, int matrix, bool exact,
                          int n)
{
    struct packed p = pack_all(k, w, n, exact);
    bool floats = k->panel_kinds(w, exact) == PANEL_F32;
    const size_t values = (size_t)n * (size_t)k->lanes;
    const int more = (w->rows - 1) / k->lanes;
    const bool k_quant = w->type >= WEIGHT_Q4_K && w->type <= WEIGHT_Q6_K;
    const bool super = !strcmp(k->name, "avx2") || !strcmp(k->name, "avx512vnni");
    const bool wide = one_byte && k_quant && super;
    float *acc = guarded_alloc(values * sizeof *acc, 64);
    float *all = guarded_alloc((size_t)(more + 1) * values * sizeof *all, 64);
    struct tile whole = {.weight = w, .matrix = matrix, .panel = &p.panel, .n = n, .more = more};
    k->tile(&whole, exact, all); /* in one call */
    for (int r = 0; r < w->rows; r += k->lanes) {
        k->tile(&(struct tile){.weight = w, .matrix = matrix, .row = r, .panel = &p.panel, .n = n},
                exact, acc);
        if (memcmp(acc, all + (size_t)(r / k->lanes) * values, values * sizeof *acc))
            fail_msg("%s, %s: row %d, n %d differs in one call", k->name, w->name, r, n);
        for (int lane = 0; lane < k->lanes && r + lane < w->rows; lane++) {
            for (int i = 0; i < n; i++) {
                const struct plain_product *wanted = &plain[r + lane][i];
                double want = wanted->value, got = (double)acc[i * k->lanes + lane];
                double step = wanted->steps[wide] / 2 / (one_byte ? PANEL_TOP_BYTE : PANEL_TOP);
                double limit = 2e-6 * wanted->sum + (floats ? 0 : 1.01 * step) + 1e-30;
                if (!(fabs(got - want) <= limit))
                    fail_msg(
                        "%s, %s, %d x %d, row %d, n %d: got %.9g, want %.9g, off by %.3g of %.3g",
                        k->name, w->name, w->rows, w->cols, r + lane, n, got, want,
                        fabs(got - want), limit);
            }
        }
    }
    guarded_free(all);
    guarded_free(acc);
    guarded_free(p.memory);
}

static void every_format(void)
{
    static const int shapes[][2] = {{1, 256}, {16, 512}, {37, 768}, {24, 2816}};
    for (int f = 0; f < n_weight_forms; f++)
        for (int s = 0; s < 4; s++) {
            struct random_weight r;
            int gap = s == 2 ? 5 : 0, matrices = s == 1 ? 3 : 1;
            random_weight_init(&r, &weight_forms[f], matrices, shapes[s][0], shapes[s][1], gap,
                               (unsigned)(f + s));
            fill_x(shapes[s][1], (unsigned)s);
            expect_products(&r.w, matrices - 1, 6);
            for (int i = 0; kernels_available(i); i++)
                for (int exact = 0; exact < (one_byte ? 1 : 2); exact++)
                    for (int n = 1; n <= 6; n++)
                        check_product(kernels_available(i), &r.w, matrices - 1, exact, n);
            random_weight_fini(&r);
        }
}

static void test_every_format_multiplies_like_its_plain_rows(void **state)
{
    every_format();
    one_byte = true;
    every_format();
    one_byte = false;
}

static void test_columns_may_be_any_multiple_of_the_format(void **state)
{
    for (int f = 0; f < n_weight_forms; f++) {
        int step = weight_forms[f].cols_step;
        static const int counts[] = {1, 3, 4, 17, 33, 65, 68, 90};
        for (int c = 0; c < 8; c++) {
            int cols = counts[c] * step;
            struct random_weight r;
            if (cols > MAX_COLS)
                continue;
            random_weight_init(&r, &weight_forms[f], 1, 19, cols, 0, (unsigned)c);
            fill_x(cols, (unsigned)c);
            expect_products(&r.w, 0, 9);
            for (int i = 0; kernels_available(i); i++) {
                for (int n = 1; n <= 8; n++)
                    check_product(kernels_available(i), &r.w, 0, false, n);
                check_product(kernels_available(i), &r.w, 0, true, 2);
                one_byte = true;
                for (int n = 1; n <= 9; n += n < 5 ? 1 : 2) /* the last: more than a few rows */
                    check_product(kernels_available(i), &r.w, 0, false, n);
                one_byte = false;
            }
            random_weight_fini(&r);
        }
    }
}

/* The same row alone, in a crowd, and picked by index: the same bits. */
static void check_company(const struct kernels *k, const struct weight *w, bool exact)
{
    struct packed p = pack_all(k, w, MAX_N, exact);
    static _Alignas(64) float crowd[MAX_N * KERNEL_MAX_LANES], alone[KERNEL_MAX_LANES],
        picked[9 * KERNEL_MAX_LANES];
    int32_t index[9] = {63, 0, 7, 8, 9, 31, 2, 2, 40};
    size_t bytes = (size_t)k->lanes * sizeof *crowd;
    k->tile(&(struct tile){.weight = w, .panel = &p.panel, .n = MAX_N}, exact, crowd);
    for (int i = 0; i < MAX_N; i++) {
        struct packed one = pack_but(k, w, 1, exact, i % 2 ? PANEL_FEW_FORMS : 0u);
        k->pack(&one.panel, 0, x[i]);
        k->tile(&(struct tile){.weight = w, .panel = &one.panel, .n = 1}, exact, alone);
        if (memcmp(alone, crowd + i * k->lanes, bytes))
            fail_msg("%s, %s: row %d differs alone and among 64", k->name, w->name, i);
        guarded_free(one.memory);
    }
    k->tile(&(struct tile){.weight = w, .panel = &p.panel, .index = index, .n = 9}, exact, picked);
    for (int i = 0; i < 9; i++)
        assert_memory_equal(picked + i * k->lanes, crowd + index[i] * k->lanes, bytes);
    for (int n = 2; n <= 9; n++) {
        k->tile(&(struct tile){.weight = w, .panel = &p.panel, .first = 3, .n = n}, exact, picked);
        assert_memory_equal(picked, crowd + 3 * k->lanes, (size_t)n * bytes);
    }
    for (int i = 0; i < MAX_N; i += 7) {
        int32_t other = MAX_N - 1 - i;
        k->tile(&(struct tile){.weight = w, .panel = &p.panel, .first = i, .n = 1}, exact, alone);
        assert_memory_equal(alone, crowd + i * k->lanes, bytes);
        k->tile(&(struct tile){.weight = w, .panel = &p.panel, .index = &other, .n = 1}, exact,
                alone);
        assert_memory_equal(alone, crowd + other * k->lanes, bytes);
    }
    guarded_free(p.memory);
    p = pack_but(k, w, MAX_N, exact, PANEL_FEW_FORMS); /* as a panel of many rows is packed */
    for (int n = 1; n <= MAX_N; n += n < 6 ? 1 : 29) {
        static _Alignas(64) float pairs[MAX_N * KERNEL_MAX_LANES];
        k->tile(&(struct tile){.weight = w, .panel = &p.panel, .n = n}, exact, pairs);
        if (memcmp(pairs, crowd, (size_t)n * bytes))
            fail_msg("%s, %s: %d rows differ in a panel of many", k->name, w->name, n);
    }
    guarded_free(p.memory);
}

static void test_a_row_does_not_depend_on_its_company(void **state)
{
    static const int widths[] = {1280, 4352, 16640, 512}; /* parts of four rows end in one octet; */
    for (int f = 0; f < 4 * n_weight_forms; f++) { /* many columns go in parts, for one row */
        struct random_weight r;                    /* does not fit the cache; few go at once */
        const int cols = widths[f % 4] + weight_forms[f / 4].cols_step % 256;
        random_weight_init(&r, &weight_forms[f / 4], 1 + f % 2, 16, cols, 0, 3);
        fill_x(cols, 11); /* of five super-blocks four go together; others end in an octet */
        for (int i = 0; kernels_available(i); i++) {
            check_company(kernels_available(i), &r.w, false);
            check_company(kernels_available(i), &r.w, true);
            one_byte = true;
            check_company(kernels_available(i), &r.w, false);
            one_byte = false;
        }
        random_weight_fini(&r);
    }
}

static void test_packing_zeros_gives_zeros(void **state)
{
    struct random_weight r;
    random_weight_init(&r, &weight_forms[3], 1, 16, 64, 0, 1);
    memset(x, 0, sizeof x);
    for (int i = 0; kernels_available(i); i++) {
        const struct kernels *k = kernels_available(i);
        struct packed p = pack_all(k, &r.w, 1, false);
        _Alignas(64) float acc[KERNEL_MAX_LANES];
        k->tile(&(struct tile){.weight = &r.w, .panel = &p.panel, .n = 1}, false, acc);
        for (int lane = 0; lane < k->lanes; lane++)
            assert_true(acc[lane] == 0);
        guarded_free(p.memory);
    }
    random_weight_fini(&r);
}

static void expect_close(const char *what, const struct kernels *k, const float *got,
                         const float *want, int n, double relative, double absolute)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <=
              relative * fabs((double)want[i]) + absolute))
            fail_msg("%s, %s: value %d of %d is %.9g, want %.9g", k->name, what, i, n,
                     (double)got[i], (double)want[i]);
}

static void test_row_wise_kernels_agree_with_generic(void **state)
{
    static const int lengths[] = {1, 7, 8, 16, 31, 64, 100, 512, 2880};
    unsigned seed = 5;
    for (int l = 0; l < 9; l++) {
        const int n = lengths[l];
        const size_t bytes = (size_t)n * sizeof(float);
        float *got = guarded_alloc(bytes, 4), *want = guarded_alloc(bytes, 4),
              *up = guarded_alloc(bytes, 4), *weight = guarded_alloc(bytes, 4);
        for (int i = 0; i < n; i++) {
            want[i] = random_unit(&seed) * 12;
            up[i] = random_unit(&seed) * 9;
            weight[i] = random_unit(&seed);
        }
        for (int i = 0; kernels_available(i); i++) {
            const struct kernels *k = kernels_available(i), *g = &kernels_generic;
            float expected[MAX_COLS];
            k->rms_norm(want, weight, 1e-6f, n, got);
            g->rms_norm(want, weight, 1e-6f, n, expected);
            expect_close("rms_norm", k, got, expected, n, 2e-6, 1e-12);
            const struct layer_norm_plan norm = {{weight, n}, {up, n}};
            k->layer_norm(&norm, want, 1e-5f, n, got);
            g->layer_norm(&norm, want, 1e-5f, n, expected);
            expect_close("layer_norm", k, got, expected, n, 4e-6, 4e-6);
            for (int a = ACT_SWIGLU; a <= ACT_GELU; a++) {
                memcpy(got, want, bytes);
                memcpy(expected, want, bytes);
                k->activate((enum activation)a, got, up, n);
                g->activate((enum activation)a, expected, up, n);
                /* erf is approximated: within 1.5e-7, times a value of at most 12 */
                expect_close("activate", k, got, expected, n, 2e-6, a == ACT_GELU ? 2e-6 : 1e-7);
            }
            memcpy(got, want, bytes);
            memcpy(expected, want, bytes);
            k->add_scaled(got, up, 0.3f, n);
            g->add_scaled(expected, up, 0.3f, n);
            expect_close("add_scaled", k, got, expected, n, 0, 0);
            float top = g->max(want, n), sum = g->sum_exp(want, n, top),
                  fast = k->sum_exp(want, n, top);
            assert_true(k->max(want, n) == top);
            expect_close("sum_exp", k, &fast, &sum, 1, 2e-6, 0);
        }
        guarded_free(got);
        guarded_free(want);
        guarded_free(up);
        guarded_free(weight);
    }
}

struct attention_case {
    int n_query, d_head, from, to;
    bool sinks, half;
};

/* Softmax of q.k, in double precision, over keys as stored. */
static void attend_plain(const struct attention_case *c, const float *q, const float *keys,
                         const float *values, const float *sinks, float *out)
{
    for (int h = 0; h < c->n_query; h++) {
        double sum = 0, mixed[256] = {0}, top = c->sinks ? (double)sinks[h] : -1e30, score[512];
        for (int t = c->from; t < c->to; t++) {
            score[t] = 0;
            for (int i = 0; i < c->d_head; i++)
                score[t] += (double)q[h * c->d_head + i] * (double)keys[t * c->d_head + i];
            score[t] *= 0.125;
            top = fmax(top, score[t]);
        }
        if (c->sinks)
            sum = exp((double)sinks[h] - top);
        for (int t = c->from; t < c->to; t++) {
            double p = exp(score[t] - top);
            sum += p;
            for (int i = 0; i < c->d_head; i++)
                mixed[i] += p * (double)values[t * c->d_head + i];
        }
        for (int i = 0; i < c->d_head; i++)
            out[h * c->d_head + i] = (float)(mixed[i] / sum);
    }
}

static void check_attention(const struct kernels *k, const struct attention_case *c)
{
    enum { HEADS = 2, BLOCKS = 12 };
    int32_t table[BLOCKS] = {7, 2, 11, 0, 5, 9, 1, 3, 10, 4, 8, 6};
    static float keys[384 * 256], values[384 * 256], q[16 * 256], got[16 * 256], want[16 * 256],
        scores[ATTEND_SCORES];
    float sinks[16];
    unsigned seed = 99;
    struct kv_view kv = {
        .n_kv_head = HEADS, .d_head = c->d_head, .type = c->half ? KV_F16 : KV_F32};
    kv.block_bytes = backend_block_bytes(HEADS, c->d_head, kv.type);
    kv.data = guarded_alloc(BLOCKS * kv.block_bytes, 64); /* zeroed, as backends do */
    for (int i = 0; i < 16 * 256; i++)
        q[i] = random_unit(&seed) * 2;
    for (int i = 0; i < 16; i++)
        sinks[i] = random_unit(&seed) * 3;
    for (int t = 0; t < c->to; t++) {
        for (int i = 0; i < c->d_head; i++) {
            keys[t * c->d_head + i] = random_unit(&seed);
            values[t * c->d_head + i] = random_unit(&seed);
        }
        k->store_kv(&kv, table[t / 32], t % 32, 1, keys + t * c->d_head, values + t * c->d_head);
    }
    struct attend a = {.kv = &kv,
                       .blocks = table,
                       .kv_head = 1,
                       .from = c->from,
                       .to = c->to,
                       .n_query = c->n_query,
                       .q = q,
                       .q_stride = (size_t)c->d_head,
                       .scale = 0.125f,
                       .sinks = c->sinks ? sinks : NULL,
                       .out = got,
                       .out_stride = (size_t)c->d_head,
                       .scores = scores};
    k->attend(&a);
    attend_plain(c, q, keys, values, sinks, want);
    expect_close("attend", k, got, want, c->n_query * c->d_head, 0, c->half ? 1.5e-3 : 3e-6);
    guarded_free(kv.data);
}

static void test_attention_agrees_with_a_plain_softmax(void **state)
{
    static const struct attention_case cases[] = {
        {1, 64, 0, 1, false, false},      {4, 64, 0, 33, false, false},
        {8, 128, 0, 300, true, false},    {4, 128, 250, 370, true, false},
        {6, 48, 5, 256, false, false},    {3, 80, 17, 65, false, false},
        {16, 256, 120, 128, true, false}, {5, 64, 31, 32, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; kernels_available(j); j++) {
            struct attention_case c = cases[i];
            check_attention(kernels_available(j), &c);
            c.half = kernels_available(j)->half_kv;
            check_attention(kernels_available(j), &c);
        }
}

struct rows_case {
    int n_query, d_head, from, to, n, window;
    bool sinks, half;
};

/* Several rows at once against the same rows one after the other: equal bits. */
static void check_rows(const struct kernels *k, const struct rows_case *c)
{
    enum { HEADS = 2, BLOCKS = 12, WIDTH = ATTEND_QUERIES * 128 };
    static const int32_t table[BLOCKS] = {7, 2, 11, 0, 5, 9, 1, 3, 10, 4, 8, 6};
    static float q[WIDTH], got[WIDTH], want[WIDTH], scores[ATTEND_ROWS_SCORES],
        block[32 * ATTEND_WIDEST_HEAD], kv_row[256];
    unsigned seed = 7;
    float sinks[ATTEND_QUERIES];
    struct kv_view kv = {
        .n_kv_head = HEADS, .d_head = c->d_head, .type = c->half ? KV_F16 : KV_F32};
    kv.block_bytes = backend_block_bytes(HEADS, c->d_head, kv.type);
    kv.data = guarded_alloc(BLOCKS * kv.block_bytes, 64);
    for (int i = 0; i < WIDTH; i++)
        q[i] = random_unit(&seed) * 2;
    for (int i = 0; i < ATTEND_QUERIES; i++)
        sinks[i] = random_unit(&seed) * 3;
    for (int t = 0; t < c->to + c->n - 1; t++) {
        for (int i = 0; i < c->d_head; i++)
            kv_row[i] = random_unit(&seed);
        k->store_kv(&kv, table[t / 32], t % 32, 1, kv_row, kv_row);
    }
    const size_t row = (size_t)c->n_query * (size_t)c->d_head;
    struct attend_rows a = {.first = {.kv = &kv,
                                      .blocks = table,
                                      .kv_head = 1,
                                      .from = c->from,
                                      .to = c->to,
                                      .n_query = c->n_query,
                                      .q = q,
                                      .q_stride = (size_t)c->d_head,
                                      .scale = 0.125f,
                                      .sinks = c->sinks ? sinks : NULL,
                                      .out = got,
                                      .out_stride = (size_t)c->d_head,
                                      .scores = scores},
                            .n = c->n,
                            .window = c->window,
                            .q_row = row,
                            .out_row = row,
                            .block = block};
    k->attend_rows(&a);
    for (int i = 0; i < c->n; i++) {
        struct attend one = a.first;
        one.to = c->to + i;
        one.from = c->window && one.to > c->window ? one.to - c->window : c->from;
        one.q = q + (size_t)i * row;
        one.out = want + (size_t)i * row;
        k->attend(&one);
    }
    if (memcmp(got, want, (size_t)c->n * row * sizeof *got) != 0)
        fail_msg("%s: %d rows of %d heads of %d differ from single ones", k->name, c->n, c->n_query,
                 c->d_head);
    guarded_free(kv.data);
}

static void test_rows_attend_together_as_they_do_alone(void **state)
{
    static const struct rows_case cases[] = {
        {8, 128, 0, 1, 8, 0, false, false},   {8, 128, 0, 250, 8, 0, true, false},
        {4, 64, 0, 30, 5, 0, false, false},   {7, 48, 0, 95, 3, 0, true, false},
        {1, 80, 0, 257, 8, 0, false, false},  {8, 64, 121, 249, 8, 128, true, false},
        {2, 128, 0, 60, 8, 64, false, false}, {5, 96, 224, 256, 4, 32, false, false},
    };
    for (int j = 0; kernels_available(j); j++)
        for (size_t i = 0; kernels_available(j)->attend_rows && i < sizeof cases / sizeof *cases;
             i++) {
            struct rows_case c = cases[i];
            check_rows(kernels_available(j), &c);
            c.half = true;
            check_rows(kernels_available(j), &c);
        }
}

static void test_a_set_of_kernels_is_chosen_by_name(void **state)
{
    struct err e = {0};
    const struct kernels *best = kernels_best();
    assert_ptr_equal(best, kernels_available(0));
    assert_true(kernels_choose("generic", &e));
    assert_ptr_equal(kernels_best(), &kernels_generic);
    assert_false(kernels_choose("avx1024", &e));
    assert_non_null(strstr(e.text, best->name));
    assert_ptr_equal(kernels_best(), &kernels_generic);
    assert_true(kernels_choose(best->name, &e));
    assert_ptr_equal(kernels_best(), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format_multiplies_like_its_plain_rows),
        cmocka_unit_test(test_columns_may_be_any_multiple_of_the_format),
        cmocka_unit_test(test_a_row_does_not_depend_on_its_company),
        cmocka_unit_test(test_rows_attend_together_as_they_do_alone),
        cmocka_unit_test(test_a_set_of_kernels_is_chosen_by_name),
        cmocka_unit_test(test_packing_zeros_gives_zeros),
        cmocka_unit_test(test_row_wise_kernels_agree_with_generic),
        cmocka_unit_test(test_attention_agrees_with_a_plain_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
