/* Steps of a few rows as products of few rows, with the router folded beside them, on the demo
 * model: near to what the same rows give one by one, and equal to the bit however many rows a step
 * has. Without matrix units by the forms of the shaders for tests. Skips where there is no device.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/vulkan/ops/record_gemm.h"
#include "tests/unit/vulkan/demo_rig.h"

#define N 5
#define MAX_VOCAB 8192
#define NEAR 0.05 /* of logits that differ by up to 20; halves are exact to 1/2048 */

static struct step_row rows[N];

/* n sequences of three tokens, one a step; the logits of the last. */
static void take(struct backend *b, int n, float (*logits)[MAX_VOCAB])
{
    const struct model_plan *plan = model_plan(model);
    for (int32_t at = 0; at < 3; at++)
        demo_step_each(b, n, at, 0, rows);
    for (int i = 0; i < n; i++)
        memcpy(logits[i], rows[i].logits, (size_t)plan->n_vocab * sizeof(float));
}

static struct backend *open_backend(void)
{
    const struct backend_params p = {.n_blocks = N, .max_rows = N, .max_sequences = N};
    return demo_backend(&p);
}

static void test_few(void **state)
{
    static float single[N][MAX_VOCAB], few[N][MAX_VOCAB], fewer[N][MAX_VOCAB];
    const size_t bytes = (size_t)model_plan(model)->n_vocab * sizeof(float);
    (void)state;
    struct backend *b = open_backend();
    b->tuning.gemm_min_rows = UINT32_MAX;
    take(b, N, single);
    vulkan_backend.close(&b);
    b = open_backend();
    const bool can = demo_force_few(b);
    const struct recorder r = {.b = b, .n_rows = N};
    const bool folds = record_gemm_folds(&r, &b->model.layers[0]);
    if (can) {
        take(b, N, few);
        take(b, 3, fewer);
    }
    vulkan_backend.close(&b);
    if (!can)
        skip();
    assert_true(folds);
    for (int t = 0; t < N; t++)
        for (int32_t i = 0; i < model_plan(model)->n_vocab; i++)
            if (!(fabsf(few[t][i] - single[t][i]) <= NEAR))
                fail_msg("row %d, logit %d: %g, by itself %g", t, i, (double)few[t][i],
                         (double)single[t][i]);
    for (int t = 0; t < 3; t++)
        assert_memory_equal(fewer[t], few[t], bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few)};
    if (!demo_usable())
        return 77;
    return cmocka_run_group_tests(tests, demo_open, demo_close);
}
