/* Products of K-quants and Q8_0 with activations of one byte where all numbers are as large as they
 * can be: sums in 16 bits must hold them, and those in 32 of what is 256 times too large.
 * Activations of 1 and -1 are exact, so the result is as well but for the rounding of floats.
 * MXFP4's scales from the smallest to the largest instead, with activations of all sizes. And calls
 * of as many tiles as there is room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/cpu_weights.h"
#include "tests/unit/support/guarded.h"
#include "engine/cpu/kernels/kernels.h"

enum { COLS = 512, ROWS = 16, N = 9 };

static float x[N][COLS];

/* All of one sign; both in turn; as pairs, fours and halves of blocks have them. */
static void fill_x(void)
{
    static const int alike[N] = {COLS, COLS, 1, 2, 4, 8, 16, 32, 3};
    for (int i = 0; i < N; i++)
        for (int c = 0; c < COLS; c++)
            x[i][c] = (c / alike[i] + i) % 2 ? -1 : 1;
}

/* Scales of the largest size, and numbers that all have these bits; Q8_0: numbers of that size. */
static void fill_weight(struct random_weight *r, uint8_t bits, uint8_t scale)
{
    const size_t bytes = r->w.type == WEIGHT_Q8_0   ? 34
                         : r->w.type == WEIGHT_Q4_K ? 144
                         : r->w.type == WEIGHT_Q5_K ? 176
                                                    : 210;
    for (size_t at = 0; at < ROWS * r->w.row_bytes; at += bytes) {
        uint8_t *block = r->data + at;
        if (r->w.type == WEIGHT_Q8_0) {
            memset(block + 2, scale, 32);
        } else if (r->w.type == WEIGHT_Q6_K) {
            memset(block, bits, 192);
            memset(block + 192, scale, 16);
        } else {
            memset(block + 4, 0xff, 12);
            memset(block + 16, bits, bytes - 16);
        }
    }
}

static void check(const struct kernels *k, const struct weight *w, int n)
{
    struct panel p;
    const unsigned kinds = kernels_panel_kinds(k, w, false, true);
    void *memory = guarded_alloc(panel_bytes(n, COLS, kinds), 64);
    _Alignas(64) float acc[N * KERNEL_MAX_LANES];
    float row[COLS];
    panel_place(&p, n, COLS, kinds, memory);
    for (int i = 0; i < n; i++)
        k->pack(&p, i, x[i]);
    for (int r = 0; r < ROWS; r++) {
        weight_row_f32(w, 0, r, row);
        k->tile(&(struct tile){.weight = w, .row = r / k->lanes * k->lanes, .panel = &p, .n = n},
                false, acc);
        for (int i = 0; i < n; i++) {
            double want = 0, size = 0;
            for (int c = 0; c < COLS; c++) {
                want += (double)row[c] * (double)x[i][c];
                size += fabs((double)row[c]);
            }
            const double got = (double)acc[i * k->lanes + r % k->lanes];
            if (!(fabs(got - want) <= 1e-5 * size))
                fail_msg("%s, %s, row %d of %d: got %.9g, want %.9g", k->name, w->name, i, n, got,
                         want);
        }
    }
    guarded_free(memory);
}

static void test_sums_hold_the_largest_numbers(void **state)
{
    static const uint8_t bits[] = {0xff, 0, 0xf0}, scales[] = {0x80, 0x7f};
    (void)state;
    fill_x();
    for (int f = 0; f < n_weight_forms; f++) {
        struct random_weight r;
        if (weight_forms[f].type != WEIGHT_Q8_0 &&
            (weight_forms[f].type < WEIGHT_Q4_K || weight_forms[f].type > WEIGHT_Q6_K))
            continue;
        random_weight_init(&r, &weight_forms[f], 1, ROWS, COLS, 0, 1);
        for (int b = 0; b < 3; b++)
            for (int s = 0; s < 2; s++) {
                fill_weight(&r, bits[b], scales[s]);
                for (int i = 0; kernels_available(i); i++)
                    for (int n = 1; n <= N; n += n < 4 ? 1 : n < 8 ? 4 : 1)
                        check(kernels_available(i), &r.w, n);
            }
        random_weight_fini(&r);
    }
}

/* A row alone and among others: the same bits, also where a scale or a sum is no normal number. */
static void check_company(const struct kernels *k, const struct weight *w, bool one_byte, int scale)
{
    struct panel p, one;
    const unsigned kinds = kernels_panel_kinds(k, w, false, one_byte);
    void *memory = guarded_alloc(panel_bytes(N, COLS, kinds), 64),
         *alone = guarded_alloc(panel_bytes(1, COLS, kinds), 64);
    _Alignas(64) float acc[N * KERNEL_MAX_LANES], want[KERNEL_MAX_LANES];
    panel_place(&p, N, COLS, kinds, memory);
    panel_place(&one, 1, COLS, kinds, alone);
    for (int i = 0; i < N; i++)
        k->pack(&p, i, x[i]);
    k->tile(&(struct tile){.weight = w, .panel = &p, .n = N}, false, acc);
    for (int i = 0; i < N; i++) {
        k->pack(&one, 0, x[i]);
        k->tile(&(struct tile){.weight = w, .panel = &one, .n = 1}, false, want);
        if (memcmp(want, acc + i * k->lanes, (size_t)k->lanes * sizeof *want))
            fail_msg("%s, %s, scale %d: row %d differs alone", k->name, w->name, scale, i);
    }
    guarded_free(alone);
    guarded_free(memory);
}

static void test_powers_of_two_scale_as_products_do(void **state)
{
    static const float sizes[N] = {1, FLT_MIN, 0x1p-149f, 0x1p-100f, FLT_MAX,
                                   0, 0x1p60f, 1e-40f,    3};
    unsigned seed = 1;
    (void)state;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < COLS; c++)
            x[i][c] = random_unit(&seed) * sizes[i];
    for (int f = 0; f < n_weight_forms; f++) {
        struct random_weight r;
        const bool block = weight_forms[f].type == WEIGHT_MXFP4_BLOCK;
        if (!block && weight_forms[f].type != WEIGHT_MXFP4)
            continue;
        random_weight_init(&r, &weight_forms[f], 1, ROWS, COLS, 0, 2);
        for (int scale = 0; scale < 256; scale++) {
            if (!block)
                memset(r.scales, scale, ROWS * r.w.scale_row_bytes);
            for (size_t at = 0; block && at < ROWS * r.w.row_bytes; at += 17)
                r.data[at] = (uint8_t)scale;
            for (int i = 0; kernels_available(i); i++)
                for (int bytes = 0; bytes < 2; bytes++)
                    check_company(kernels_available(i), &r.w, bytes, scale);
        }
        random_weight_fini(&r);
    }
}

/* As many tiles as a call has room for, of which the last lacks rows: the bits of single calls. */
static void check_run(const struct kernels *k, const struct weight *w, int n, bool bytes)
{
    const int tiles = (w->rows + k->lanes - 1) / k->lanes, most = KERNEL_MAX_TILE_ROWS / n,
              count = tiles < most ? tiles : most;
    const size_t values = (size_t)n * (size_t)k->lanes;
    const unsigned kinds = kernels_panel_kinds(k, w, false, bytes);
    struct panel p;
    void *memory = guarded_alloc(panel_bytes(n, COLS, kinds), 64);
    float *all = guarded_alloc((size_t)count * values * sizeof *all, 64);
    _Alignas(64) float one[N * KERNEL_MAX_LANES];
    panel_place(&p, n, COLS, kinds, memory);
    for (int i = 0; i < n; i++)
        k->pack(&p, i, x[i]);
    struct tile t = {
        .weight = w, .row = (tiles - count) * k->lanes, .panel = &p, .n = n, .more = count - 1};
    k->tile(&t, false, all);
    t.more = 0;
    for (int i = 0; i < count; i++, t.row += k->lanes) {
        k->tile(&t, false, one);
        if (memcmp(one, all + (size_t)i * values, values * sizeof *one))
            fail_msg("%s, %s: tile %d of %d, n %d differs in one call", k->name, w->name, i, count,
                     n);
    }
    guarded_free(all);
    guarded_free(memory);
}

static void test_the_longest_calls_are_their_tiles(void **state)
{
    fill_x();
    for (int f = 0; f < n_weight_forms; f++) {
        struct random_weight r;
        const int n = 1 + f % 4;
        random_weight_init(&r, &weight_forms[f], 1, KERNEL_MAX_TILE_ROWS / n * KERNEL_MAX_LANES - 3,
                           COLS, 0, 7);
        for (int i = 0; kernels_available(i); i++)
            for (int bytes = 0; bytes < 2; bytes++)
                check_run(kernels_available(i), &r.w, n, bytes);
        random_weight_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_longest_calls_are_their_tiles),
                                       cmocka_unit_test(test_sums_hold_the_largest_numbers),
                                       cmocka_unit_test(test_powers_of_two_scale_as_products_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
