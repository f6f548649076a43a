/* A row alone, whose layers go from wo to the next projections in one dispatch: the same answers as
 * by a dispatch for each operation, and the same experts. Where its workgroups do not run at once
 * the step is done again without, and nothing shows. The demo model. Skips where there is no
 * device. */
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

#define PROMPT 7
#define STEPS 4
#define N_BLOCKS 3
#define DEEP 67 /* a prompt of three blocks */
#define MAX_VOCAB 8192
#define MAX_LAYERS 8

static struct step_row rows[DEEP];

struct seen {
    float logits[STEPS][MAX_VOCAB];
    uint32_t used[STEPS][MAX_LAYERS * USED_WORDS];
    bool resident; /* at the end */
};

struct way {
    uint32_t (*groups)(const struct backend *b); /* NULL: none */
    int32_t n_experts;                           /* 0: the model's */
    int32_t left_out;                            /* layers at the end, as probes leave out some */
    bool deep;                                   /* and each block a split of attention */
};

/* A prompt, then tokens one by one. */
static void take(struct way way, struct seen *s)
{
    struct model_plan part = *model_plan(model), *plan = &part;
    const struct backend_params p = {
        .n_blocks = N_BLOCKS, .max_rows = DEEP, .max_sequences = 1, .kv_type = KV_F16};
    static const int32_t blocks[N_BLOCKS] = {2, 0, 1};
    const int32_t prompt = way.deep ? DEEP : PROMPT;
    int32_t tokens[DEEP + STEPS];
    struct backend *b = plan_backend(plan, &p);
    assert_true(plan->n_vocab <= MAX_VOCAB && plan->n_layer <= MAX_LAYERS);
    b->tuning.resident_groups = way.groups ? way.groups(b) : 0;
    part.n_layer -= way.left_out;
    for (int32_t i = 0; i < prompt + STEPS; i++)
        tokens[i] = (i * 2531 + 17) % plan->n_vocab;
    struct step_sequence q = {.tokens = tokens,
                              .n_tokens = prompt,
                              .blocks = blocks,
                              .state = -1,
                              .n_experts = way.n_experts};
    demo_step(b, &q, 1, rows);
    b->tuning.split_blocks = way.deep ? 1 : b->tuning.split_blocks;
    q.n_tokens = q.n_out = 1;
    q.want_logits = true;
    for (int i = 0; i < STEPS; i++) {
        q.tokens = tokens + prompt + i;
        q.start = prompt + i;
        demo_step(b, &q, 1, rows);
        memcpy(s->logits[i], rows[0].logits, (size_t)plan->n_vocab * sizeof(float));
        memcpy(s->used[i], b->result.used, (size_t)plan->n_layer * USED_WORDS * sizeof(uint32_t));
    }
    s->resident = b->tuning.resident_groups > 0;
    part.n_layer += way.left_out;
    vulkan_backend.close(&b);
}

static float worst_of(const struct seen *a, const struct seen *b)
{
    const int32_t n = model_plan(model)->n_vocab;
    float worst = 0;
    for (int i = 0; i < STEPS; i++)
        for (int32_t k = 0; k < n; k++)
            worst = fmaxf(worst, fabsf(a->logits[i][k] - b->logits[i][k]));
    return worst;
}

static void check(int32_t n_experts, bool deep)
{
    static struct seen apart, together;
    take((struct way){NULL, n_experts, 0, deep}, &apart);
    take((struct way){demo_fitting_groups, n_experts, 0, deep}, &together);
    assert_true(together.resident);
    const float worst = worst_of(&apart, &together);
    assert_true(worst > 0); /* else both went the same way: sums are in another order */
    if (!(worst < 1e-3f))
        fail_msg("a logit differs by %g", (double)worst);
    assert_memory_equal(apart.used, together.used, sizeof apart.used);
}

static void test_one_dispatch_is_as_several(void **state)
{
    check(0, false);
}

static void test_fewer_experts_too(void **state)
{
    check(2, false);
}

static void test_attention_in_splits_too(void **state)
{
    check(0, true);
}

/* More than a device runs at once: all that do wait in vain, and the others come too late. */
static void check_given_up(int32_t left_out)
{
    static struct seen apart, given_up;
    take((struct way){NULL, 0, left_out, false}, &apart);
    take((struct way){demo_too_many_groups, 0, left_out, false}, &given_up);
    assert_false(given_up.resident);
    assert_memory_equal(apart.logits, given_up.logits, sizeof apart.logits);
    assert_memory_equal(apart.used, given_up.used, sizeof apart.used);
}

static void test_workgroups_that_wait_in_vain(void **state)
{
    check_given_up(0);
}

static void test_also_in_some_of_the_layers(void **state)
{
    check_given_up(1);
}

int main(void)
{
    if (!demo_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_dispatch_is_as_several),
        cmocka_unit_test(test_fewer_experts_too),
        cmocka_unit_test(test_attention_in_splits_too),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
        cmocka_unit_test(test_also_in_some_of_the_layers),
    };
    return cmocka_run_group_tests(tests, demo_open, demo_close);
}
