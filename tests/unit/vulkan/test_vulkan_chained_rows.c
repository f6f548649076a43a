/* Few rows, each its sequence's only one, whose attention is chained to the dispatches between:
 * near to single operations in f32, in an only split and in several, and equal to the bit however
 * many rows a step has; also where the dispatches give up. Skips where there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/vulkan/ops/record_resident.h"
#include "tests/unit/vulkan/demo_rig.h"
#include "tests/unit/vulkan/recurrent_rig.h"

#define N 5
#define BLOCK_TOKENS 32
#define SEQUENCE_BLOCKS 2
#define STEPS 2
#define NEAR 0.03f /* of the greatest logit: a close choice of experts may fall elsewhere */
#define MAX_WAYS 6 /* that differ, in all tests */

static const struct model_plan *plan;
static struct step_row rows[BLOCK_TOKENS];

struct seen {
    float logits[N][RECURRENT_VOCAB]; /* of the last step */
    bool resident, chained;           /* at the end; whether attention could be */
};

struct way {
    uint32_t (*groups)(const struct backend *b); /* NULL: single operations */
    int n;                                       /* sequences */
    int32_t begun; /* tokens of all of them, 0 or a block, each of which is a split of attention */
};

/* All begin with the same blocks, which are computed once, but for the last sequence. Behind them
 * each has a block of its own. */
static struct step_sequence sequence(int number, int32_t *tokens, int32_t *blocks, int32_t begun)
{
    const int32_t start = number == N - 1 ? 0 : begun;
    for (int32_t i = 0; i < STEPS; i++)
        tokens[i] = (i * 253 + number * 91 + 17) % RECURRENT_VOCAB;
    blocks[0] = start ? 0 : 1 + number;
    blocks[1] = 1 + number;
    return (struct step_sequence){.tokens = tokens,
                                  .n_tokens = 1,
                                  .start = start,
                                  .blocks = blocks,
                                  .state = -1,
                                  .n_out = 1,
                                  .want_logits = true};
}

static void run(struct backend *b, struct way way)
{
    struct step_sequence q[N];
    int32_t tokens[N][BLOCK_TOKENS], blocks[N][SEQUENCE_BLOCKS];
    if (way.begun) {
        const int32_t first = 0;
        for (int32_t i = 0; i < way.begun; i++)
            tokens[0][i] = (i * 311 + 29) % RECURRENT_VOCAB;
        q[0] = (struct step_sequence){
            .tokens = tokens[0], .n_tokens = way.begun, .blocks = &first, .state = -1};
        demo_step(b, q, 1, rows);
    }
    if (way.groups && !demo_force_few(b))
        skip();
    for (int i = 0; i < way.n; i++)
        q[i] = sequence(i, tokens[i], blocks[i], way.begun);
    for (int at = 0; at < STEPS; at++) {
        demo_step(b, q, way.n, rows);
        for (int i = 0; i < way.n; i++)
            q[i].start++, q[i].tokens++;
    }
}

static void look(struct way way, struct seen *s)
{
    const struct backend_params p = {
        .n_blocks = N + 1, .max_rows = BLOCK_TOKENS, .max_sequences = N, .kv_type = KV_F16};
    struct backend *b = plan_backend(plan, &p);
    const struct recorder r = {.b = b, .n_rows = (uint32_t)way.n};
    /* Halves have no room for what such weights make of a long prompt. */
    b->tuning.gemm_min_rows = b->tuning.gemm_expert_rows = UINT32_MAX;
    b->tuning.split_blocks = 1;
    b->tuning.resident_groups = 0;
    demo_use_units(b);
    s->chained = record_chain_fits(&r, record_splits(b, way.n, way.begun));
    if (way.groups)
        b->tuning.resident_groups = way.groups(b);
    run(b, way);
    for (int i = 0; i < way.n; i++)
        memcpy(s->logits[i], rows[i].logits, sizeof s->logits[i]);
    s->resident = b->tuning.resident_groups > 0;
    vulkan_backend.close(&b);
}

/* What is seen of the last step; of a way that another test went, what was seen then. */
static const struct seen *take(struct way way)
{
    static struct seen seen[MAX_WAYS];
    static struct way taken[MAX_WAYS];
    static int n;
    for (int i = 0; i < n; i++)
        if (taken[i].groups == way.groups && taken[i].n == way.n && taken[i].begun == way.begun)
            return &seen[i];
    assert_true(n < MAX_WAYS);
    look(way, &seen[n]);
    taken[n] = way;
    return &seen[n++];
}

static void check_rows(const struct seen *have, const struct seen *want)
{
    float worst = 0, most = 0;
    for (int t = 0; t < N; t++)
        for (int i = 0; i < RECURRENT_VOCAB; i++) {
            const float away = fabsf(have->logits[t][i] - want->logits[t][i]);
            worst = away <= worst ? worst : away; /* also what is no number */
            most = fmaxf(most, fabsf(want->logits[t][i]));
        }
    if (!(worst <= NEAR * most))
        fail_msg("a logit of %g at most differs by %g", (double)most, (double)worst);
    assert_true(worst > 0); /* else both went the same way */
}

static void check_near(int32_t begun)
{
    const struct seen *together = take((struct way){demo_fitting_groups, N, begun});
    assert_true(together->resident && together->chained);
    check_rows(together, take((struct way){NULL, N, begun}));
}

static void test_an_only_split(void **state)
{
    check_near(0);
}

static void test_splits(void **state)
{
    check_near(BLOCK_TOKENS);
}

static void test_rows_do_not_depend_on_their_number(void **state)
{
    const struct seen *five = take((struct way){demo_fitting_groups, N, 0});
    const struct seen *three = take((struct way){demo_fitting_groups, 3, 0});
    assert_true(five->resident && three->resident);
    assert_memory_equal(five->logits, three->logits, 3 * sizeof five->logits[0]);
}

static void test_workgroups_that_wait_in_vain(void **state)
{
    const struct seen *given_up = take((struct way){demo_too_many_groups, N, 0});
    assert_false(given_up->resident);
    check_rows(given_up, take((struct way){NULL, N, 0}));
}

static int open_attention(void **state)
{
    plan = few_rig_open();
    return 0;
}

static int close_plan(void **state)
{
    recurrent_rig_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_only_split),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_rows_do_not_depend_on_their_number),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
    };
    if (!demo_usable())
        return 77;
    return cmocka_run_group_tests(tests, open_attention, close_plan);
}
