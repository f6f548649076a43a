/* Kernels give an interleaved weight the bits that the weight gives as it lies in the file, for few
 * and many rows of activations, in one call and tile by tile, and read no byte beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/cpu_weights.h"
#include "tests/unit/support/guarded.h"
#include "engine/cpu/interleave/interleave.h"
#include "engine/cpu/kernels/kernels.h"

#define MAX_N KERNEL_MAX_TILE_ROWS

struct rows { /* of activations, as the weight's products read them */
    struct panel panel;
    void *memory;
};

static struct rows pack(const struct kernels *k, const struct weight *w)
{
    struct rows p;
    unsigned state = 7;
    float *x = test_malloc((size_t)w->cols * sizeof *x);
    const unsigned kinds = kernels_panel_kinds(k, w, false, true);
    p.memory = guarded_alloc(panel_bytes(MAX_N, w->cols, kinds), 64);
    memset(p.memory, 0x5a, panel_bytes(MAX_N, w->cols, kinds));
    panel_place(&p.panel, MAX_N, w->cols, kinds, p.memory);
    for (int i = 0; i < MAX_N; i++) {
        for (int c = 0; c < w->cols; c++)
            x[c] = random_unit(&state) * (c % 97 == 5 ? 30 : 1);
        k->pack(&p.panel, i, x);
    }
    test_free(x);
    return p;
}

/* The last matrix of the stack alone, in memory that ends where it ends. */
static struct weight interleaved(const struct weight *w)
{
    struct weight to = *w;
    const size_t sixteen = (size_t)INTERLEAVE_ROWS * weight_row_size(w);
    uint8_t *data = guarded_alloc((size_t)w->rows / INTERLEAVE_ROWS * sixteen, 64);
    for (int32_t r = 0; r < w->rows; r += INTERLEAVE_ROWS)
        interleave_rows(w, w->n_matrix - 1, r, data + (size_t)(r / INTERLEAVE_ROWS) * sixteen);
    to.n_matrix = 1;
    to.data = data;
    to.row_bytes = weight_row_size(w);
    to.matrix_bytes = (size_t)w->rows * to.row_bytes;
    to.interleaved = true;
    return to;
}

static void check(const struct kernels *k, const struct weight *w, const struct weight *side, int n,
                  const int32_t *index)
{
    const struct rows x = pack(k, w);
    const size_t values = (size_t)n * INTERLEAVE_ROWS;
    const int tiles = w->rows / INTERLEAVE_ROWS,
              most = KERNEL_MAX_TILE_ROWS / n < tiles ? KERNEL_MAX_TILE_ROWS / n : tiles;
    float *want = guarded_alloc((size_t)tiles * values * sizeof *want, 64),
          *got = guarded_alloc((size_t)tiles * values * sizeof *got, 64);
    for (int t = 0; t < tiles; t++)
        k->tile(&(struct tile){.weight = w,
                               .matrix = w->n_matrix - 1,
                               .row = t * k->lanes,
                               .panel = &x.panel,
                               .index = index,
                               .first = index ? 0 : MAX_N - n,
                               .n = n},
                false, want + (size_t)t * values);
    for (int together = 1; together <= most; together += most > 1 ? most - 1 : 1) {
        memset(got, 0x5a, (size_t)tiles * values * sizeof *got);
        for (int t = 0; t + together <= tiles; t += together)
            k->tile(&(struct tile){.weight = side,
                                   .row = t * k->lanes,
                                   .panel = &x.panel,
                                   .index = index,
                                   .first = index ? 0 : MAX_N - n,
                                   .n = n,
                                   .more = together - 1},
                    false, got + (size_t)t * values);
        if (memcmp(got, want, (size_t)(tiles / together * together) * values * sizeof *got))
            fail_msg("%s, %s, %d x %d, %d rows, %d tiles together: not the same bits", k->name,
                     w->name, w->rows, w->cols, n, together);
    }
    guarded_free(got);
    guarded_free(want);
    guarded_free(x.memory);
}

static void check_shape(const struct kernels *k, const struct weight_form *form, int rows, int cols,
                        int matrices)
{
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 64};
    static const int32_t index[] = {63, 0, 17, 5, 5, 40};
    struct random_weight r;
    random_weight_init(&r, form, matrices, rows, cols, 0, (unsigned)(rows + cols));
    if (interleave_fits(&r.w) && k->reads_interleaved(&r.w)) {
        const struct weight side = interleaved(&r.w);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            check(k, &r.w, &side, counts[i], NULL);
        check(k, &r.w, &side, 6, index);
        guarded_free((void *)side.data);
    }
    random_weight_fini(&r);
}

static void test_bits_are_those_of_the_weight_in_the_file(void **state)
{
    int formats = 0;
    for (int i = 0; kernels_available(i); i++)
        for (int f = 0; kernels_available(i)->reads_interleaved && f < n_weight_forms; f++) {
            check_shape(kernels_available(i), &weight_forms[f], 16, 256, 1);
            check_shape(kernels_available(i), &weight_forms[f], 48, 768, 3);
            check_shape(kernels_available(i), &weight_forms[f], 32, 4096, 1);
            formats += kernels_available(i)->reads_interleaved(
                &(struct weight){.type = weight_forms[f].type});
        }
    if (!formats)
        skip(); /* no such kernels on this processor */
    assert_true(formats >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_those_of_the_weight_in_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
