/* What a decode row attends to is divided over workgroups, each of which leaves sums of its own: in
 * one part and in as many as there are blocks, the logits are the same but for rounding. The demo
 * model, 130 tokens deep, with halves and packed keys and values. Skips where there is no device.
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

#include "tests/unit/vulkan/demo_rig.h"

#define DEPTH 130
#define EACH 65
#define N_BLOCKS 5
#define MAX_VOCAB 8192

static struct step_row rows[EACH];

static void check(enum kv_type type, bool exact, float tolerance)
{
    static float whole[MAX_VOCAB];
    const struct model_plan *plan = demo_few_layers();
    const struct backend_params p = {.n_blocks = N_BLOCKS,
                                     .max_rows = EACH,
                                     .max_sequences = 1,
                                     .kv_type = type,
                                     .exact = exact};
    int32_t tokens[DEPTH + 1], blocks[N_BLOCKS];
    struct backend *b = plan_backend(plan, &p);
    assert_true(plan->n_vocab <= MAX_VOCAB);
    for (int32_t i = 0; i <= DEPTH; i++)
        tokens[i] = (i * 2531 + 17) % plan->n_vocab;
    for (int32_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = (i * 2 + 3) % N_BLOCKS;
    struct step_sequence q = {.blocks = blocks, .state = -1};
    for (; q.start < DEPTH; q.start += EACH) {
        q.tokens = tokens + q.start;
        q.n_tokens = EACH;
        demo_step(b, &q, 1, rows);
    }
    q.tokens = tokens + DEPTH;
    q.n_tokens = q.n_out = 1;
    q.want_logits = true;
    b->tuning.split_blocks = N_BLOCKS;
    demo_step(b, &q, 1, rows);
    memcpy(whole, rows[0].logits, (size_t)plan->n_vocab * sizeof *whole);
    b->tuning.split_blocks = 1;
    demo_step(b, &q, 1, rows);
    float worst = 0;
    for (int32_t i = 0; i < plan->n_vocab; i++)
        worst = fmaxf(worst, fabsf(rows[0].logits[i] - whole[i]));
    vulkan_backend.close(&b);
    assert_true(worst > 0); /* else nothing was divided */
    if (worst > tolerance)
        fail_msg("KV %s: a logit differs by %g", kv_type_name(type), (double)worst);
}

static void test_splits_become_what_one_part_is(void **state)
{
    check(KV_F16, true, 1e-4f);
}

static void test_packed_splits_too(void **state)
{
    check(KV_Q8, false, 0.02f);
}

/* Of three splits at most three blocks make three, four make two of two blocks each: beside a
 * deeper row a row keeps all of its own. */
static void test_a_deeper_row_takes_no_splits_away(void **state)
{
    enum { SHORT = 90, LONG = 120, N_BOTH = 7 };
    static float alone[MAX_VOCAB];
    const struct model_plan *plan = demo_few_layers();
    const struct backend_params p = {
        .n_blocks = N_BOTH, .max_rows = EACH, .max_sequences = 2, .kv_type = KV_F16, .exact = true};
    static const int32_t blocks[2][4] = {{0, 1, 2}, {3, 4, 5, 6}}, depth[2] = {SHORT, LONG};
    int32_t tokens[LONG + 1];
    struct step_sequence q[2];
    struct backend *b = plan_backend(plan, &p);
    b->tuning.split_blocks = 1;
    b->sizes.max_splits = 3;
    for (int32_t i = 0; i <= LONG; i++)
        tokens[i] = (i * 2531 + 17) % plan->n_vocab;
    for (int i = 0; i < 2; i++) {
        q[i] = (struct step_sequence){.blocks = blocks[i], .state = -1, .tokens = tokens};
        for (; q[i].start < depth[i]; q[i].start += q[i].n_tokens) {
            q[i].tokens = tokens + q[i].start;
            q[i].n_tokens = depth[i] / 2;
            demo_step(b, &q[i], 1, rows);
        }
        q[i].tokens = tokens + depth[i];
        q[i].n_tokens = q[i].n_out = 1;
        q[i].want_logits = true;
    }
    demo_step(b, q, 1, rows);
    memcpy(alone, rows[0].logits, (size_t)plan->n_vocab * sizeof *alone);
    demo_step(b, q, 2, rows);
    float worst = 0;
    for (int32_t i = 0; i < plan->n_vocab; i++)
        worst = fmaxf(worst, fabsf(rows[0].logits[i] - alone[i]));
    vulkan_backend.close(&b);
    if (worst > 1e-4f)
        fail_msg("a logit differs by %g", (double)worst);
}

int main(void)
{
    if (!demo_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_become_what_one_part_is),
        cmocka_unit_test(test_packed_splits_too),
        cmocka_unit_test(test_a_deeper_row_takes_no_splits_away),
    };
    return cmocka_run_group_tests(tests, demo_open, demo_close);
}
