/* Steps of a row alone in a model with recurrent layers and a shared expert, whose layers go in one
 * dispatch each: the answers of single operations, also behind a step that was given up, whose
 * states must be a step further once. Skips where there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/vulkan/demo_rig.h"
#include "tests/unit/vulkan/recurrent_rig.h"

#define PROMPT 5
#define STEPS 5
#define AGAIN 2          /* the step that is done again */
#define MOST 4096        /* workgroups that a device runs at once, by far */
#define SOFTWARE_MOST 23 /* of few threads, where each takes long */
#define TOLERANCE 1e-4f  /* of the greatest logit: sums are in another order */

static const struct model_plan *plan;
static struct step_row rows[PROMPT];

struct seen {
    float logits[STEPS][RECURRENT_VOCAB];
    float again[RECURRENT_VOCAB];
    uint32_t used[STEPS][RECURRENT_LAYERS * USED_WORDS];
    bool resident; /* at the end */
};

static uint32_t fitting(const struct backend *b)
{
    return b->gpu.caps.multiprocessors ? b->gpu.caps.multiprocessors : 1;
}

static uint32_t too_many(const struct backend *b)
{
    return (b->gpu.caps.software ? SOFTWARE_MOST : MOST) + 1;
}

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

/* A prompt, then tokens one by one; one step is done again. */
static void take(uint32_t (*groups)(const struct backend *b), bool again, struct seen *s)
{
    const struct backend_params p = {
        .n_blocks = 1, .n_states = 2, .max_rows = PROMPT, .max_sequences = 1, .kv_type = KV_F16};
    static const int32_t blocks[1] = {0};
    int32_t tokens[PROMPT + STEPS];
    struct backend *b = plan_backend(plan, &p);
    b->tuning.resident_groups = groups ? groups(b) : 0;
    for (int32_t i = 0; i < PROMPT + STEPS; i++)
        tokens[i] = (i * 253 + 17) % RECURRENT_VOCAB;
    struct step_sequence q = {.tokens = tokens, .n_tokens = PROMPT, .blocks = blocks, .state = 1};
    demo_step(b, &q, 1, rows);
    q.n_tokens = q.n_out = 1;
    q.want_logits = true;
    for (int i = 0; i < STEPS; i++) {
        q.tokens = tokens + PROMPT + i;
        q.start = PROMPT + i;
        demo_step(b, &q, 1, rows);
        memcpy(s->logits[i], rows[0].logits, sizeof s->logits[i]);
        memcpy(s->used[i], b->result.used, sizeof s->used[i]);
        if (again && i == AGAIN)
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

static void test_one_dispatch_is_as_several(void **state)
{
    static struct seen apart, together;
    take(NULL, false, &apart);
    take(fitting, false, &together);
    assert_true(together.resident);
    assert_memory_not_equal(apart.logits, together.logits, sizeof apart.logits);
    for (int i = 0; i < STEPS; i++)
        compare(together.logits[i], apart.logits[i], "a step");
    assert_memory_equal(apart.used, together.used, sizeof apart.used);
}

/* Behind the first layer nothing has been advanced. */
static void test_workgroups_that_wait_in_vain(void **state)
{
    static struct seen apart, given_up;
    take(NULL, false, &apart);
    take(too_many, false, &given_up);
    assert_false(given_up.resident);
    assert_memory_equal(apart.logits, given_up.logits, sizeof apart.logits);
    assert_memory_equal(apart.used, given_up.used, sizeof apart.used);
}

static void test_what_was_advanced_stays(void **state)
{
    static struct seen apart, again;
    take(NULL, false, &apart);
    take(fitting, true, &again);
    for (int i = 0; i < STEPS; i++)
        compare(again.logits[i], apart.logits[i], "a step, or one behind it");
    compare(again.again, apart.logits[AGAIN], "the step done again");
}

static int open_plan(void **state)
{
    plan = recurrent_rig_open();
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_dispatch_is_as_several),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
        cmocka_unit_test(test_what_was_advanced_stays),
    };
    return cmocka_run_group_tests(tests, open_plan, close_plan);
}
