/* Steps of a row alone in a model with recurrent layers and a shared expert, whose layers go in one
 * dispatch each: the answers of single operations, also behind a step that was given up, whose
 * states must be a step further once. And in one with attention alone, which is chained to those
 * dispatches: its only split, or several; also in K-blocks of several formats. Skips where there is
 * no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/vulkan/ops/record.h"
#include "tests/unit/vulkan/demo_rig.h"
#include "tests/unit/vulkan/recurrent_rig.h"

#define PROMPT 5
#define DEEP 35 /* a prompt of two blocks, each of which is a split of attention then */
#define N_BLOCKS 2
#define STEPS 5
#define AGAIN 2         /* the step that is done again */
#define TOLERANCE 1e-4f /* of the greatest logit: sums are in another order */

static const struct model_plan *plan;
static struct step_row rows[DEEP];

struct seen {
    float logits[STEPS][RECURRENT_VOCAB];
    float again[RECURRENT_VOCAB];
    uint32_t used[STEPS][RECURRENT_LAYERS * USED_WORDS];
    bool resident, chained; /* at the end; attention, if it could be */
};

struct way {
    uint32_t (*groups)(const struct backend *b); /* NULL: none */
    bool again;                                  /* one step is done again */
    int32_t prompt;
};

/* The last step once more, as if its last dispatch had given up: all states are advanced, and the
 * variables of the step are still there. */
static void run_again(struct backend *b, float *logits)
{
    const struct step_shape shape = {.n_rows = 1,
                                     .n_out = 1,
                                     .one_row_each = true,
                                     .has_untiled = true,
                                     .n_splits = 1,
                                     .full_logits = true,
                                     .again = true};
    struct err e = {0};
    b->tuning.resident_groups = 0;
    VkCommandBuffer c = forward_record(b, &shape, &e);
    if (!c || !gpu_run(&b->gpu, c, &e))
        fail_msg("%s", e.text);
    gpu_command_free(&b->gpu, &c);
    memcpy(logits, b->result.full_logits.map, RECURRENT_VOCAB * sizeof(float));
}

/* A prompt, then tokens one by one. */
static void take(struct way way, struct seen *s)
{
    const struct backend_params p = {.n_blocks = N_BLOCKS,
                                     .n_states = 2,
                                     .max_rows = DEEP,
                                     .max_sequences = 1,
                                     .kv_type = KV_F16};
    static const int32_t blocks[N_BLOCKS] = {1, 0};
    int32_t tokens[DEEP + STEPS];
    struct backend *b = plan_backend(plan, &p);
    const struct recorder r = {.b = b, .n_rows = 1};
    /* Halves have no room for what such weights make of a long prompt. */
    b->tuning.gemm_min_rows = b->tuning.gemm_expert_rows = UINT32_MAX;
    b->tuning.resident_groups = way.groups ? way.groups(b) : 0;
    for (int32_t i = 0; i < way.prompt + STEPS; i++)
        tokens[i] = (i * 253 + 17) % RECURRENT_VOCAB;
    struct step_sequence q = {
        .tokens = tokens, .n_tokens = way.prompt, .blocks = blocks, .state = 1};
    demo_step(b, &q, 1, rows);
    demo_use_units(b); /* attention of a row alone by attn_units.comp, where the device can */
    b->tuning.split_blocks = 1;
    s->chained = record_chain_fits(&r, record_splits(b, 1, way.prompt));
    q.n_tokens = q.n_out = 1;
    q.want_logits = true;
    for (int i = 0; i < STEPS; i++) {
        q.tokens = tokens + way.prompt + i;
        q.start = way.prompt + i;
        demo_step(b, &q, 1, rows);
        memcpy(s->logits[i], rows[0].logits, sizeof s->logits[i]);
        memcpy(s->used[i], b->result.used, sizeof s->used[i]);
        if (way.again && i == AGAIN)
            run_again(b, s->again);
    }
    s->resident = b->tuning.resident_groups > 0;
    vulkan_backend.close(&b);
}

static void compare(const float *have, const float *want, const char *what)
{
    float worst = 0, most = 0;
    for (int i = 0; i < RECURRENT_VOCAB; i++) {
        worst = fmaxf(worst, fabsf(have[i] - want[i]));
        most = fmaxf(most, fabsf(want[i]));
    }
    if (!(worst <= TOLERANCE * most))
        fail_msg("%s: a logit of %g at most differs by %g", what, (double)most, (double)worst);
}

static void check_together(int32_t prompt, bool chained)
{
    static struct seen apart, together;
    take((struct way){.prompt = prompt}, &apart);
    take((struct way){.groups = demo_fitting_groups, .prompt = prompt}, &together);
    if (chained && !together.chained)
        skip();
    assert_true(together.resident && together.chained == chained);
    assert_memory_not_equal(apart.logits, together.logits, sizeof apart.logits);
    for (int i = 0; i < STEPS; i++)
        compare(together.logits[i], apart.logits[i], "a step");
    assert_memory_equal(apart.used, together.used, sizeof apart.used);
}

static void test_one_dispatch_is_as_several(void **state)
{
    check_together(PROMPT, false);
}

static void test_chained_attention(void **state)
{
    check_together(PROMPT, true);
}

static void test_chained_attention_in_splits(void **state)
{
    check_together(DEEP, true);
}

/* Of recurrent layers nothing has been advanced then behind the first. */
static void test_workgroups_that_wait_in_vain(void **state)
{
    static struct seen apart, given_up;
    take((struct way){.prompt = PROMPT}, &apart);
    take((struct way){.groups = demo_too_many_groups, .prompt = PROMPT}, &given_up);
    assert_false(given_up.resident);
    assert_memory_equal(apart.logits, given_up.logits, sizeof apart.logits);
    assert_memory_equal(apart.used, given_up.used, sizeof apart.used);
}

static void test_what_was_advanced_stays(void **state)
{
    static struct seen apart, again;
    take((struct way){.prompt = PROMPT}, &apart);
    take((struct way){.groups = demo_fitting_groups, .again = true, .prompt = PROMPT}, &again);
    for (int i = 0; i < STEPS; i++)
        compare(again.logits[i], apart.logits[i], "a step, or one behind it");
    compare(again.again, apart.logits[AGAIN], "the step done again");
}

static int open_recurrent(void **state)
{
    plan = recurrent_rig_open();
    return 0;
}

static int open_attention(void **state)
{
    plan = attention_rig_open();
    return 0;
}

static int open_blocks(void **state)
{
    plan = blocks_rig_open();
    return 0;
}

static int close_plan(void **state)
{
    recurrent_rig_close();
    return 0;
}

int main(void)
{
    if (!demo_usable())
        return 77;
    const struct CMUnitTest recurrent[] = {
        cmocka_unit_test(test_one_dispatch_is_as_several),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
        cmocka_unit_test(test_what_was_advanced_stays),
    };
    const struct CMUnitTest attention[] = {
        cmocka_unit_test(test_chained_attention),
        cmocka_unit_test(test_chained_attention_in_splits),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
    };
    return cmocka_run_group_tests(recurrent, open_recurrent, close_plan) +
           cmocka_run_group_tests(attention, open_attention, close_plan) +
           cmocka_run_group_tests(attention, open_blocks, close_plan);
}
