/* Few rows, each its sequence's only one, whose attention is chained to the dispatches between:
 * near to a dispatch for each operation, and equal to the bit however many rows a step has; also
 * where the dispatches give up. Skips where there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/vulkan/ops/host_sync.h"
#include "engine/vulkan/ops/record_resident.h"
#include "tests/unit/vulkan/demo_rig.h"
#include "tests/unit/vulkan/recurrent_rig.h"

#define N 5
#define STEPS 2
#define HEADS 2     /* of a workgroup of attention; the rig has four */
#define NEAR 0.005f /* of the greatest logit: sums differ in order */
#define MAX_WAYS 6  /* that differ, in all tests */

static const struct model_plan *plan;
static struct step_row rows[N];

struct seen {
    float logits[N][RECURRENT_VOCAB]; /* of the last step */
    bool resident;                    /* at the end */
    uint32_t projected, attended; /* how many workgroups counted for and of attention, layer 1 */
    uint32_t groups;
};

struct way {
    uint32_t (*groups)(const struct backend *b); /* NULL: a dispatch for each operation */
    int n;                                       /* sequences */
};

/* The counters of layer 1 as the last step left them. */
static void read_counts(struct backend *b, struct seen *s)
{
    struct err e = {0};
    struct recorder r = {.b = b, .c = gpu_command_begin(&b->gpu, true, &e), .ok = true, .e = &e};
    const VkDeviceAddress counters = b->workspace.meetings + 4 * RESIDENT_MEETING_WORDS;
    const uint32_t *counts = b->result.full_logits.map;
    VkBuffer from;
    uint64_t at;
    if (!r.c || !record_locate(&r, counters, &from, &at))
        fail_msg("%s", e.text);
    vkCmdCopyBuffer(r.c, from, b->result.full_logits.buffer, 1,
                    &(VkBufferCopy){.srcOffset = at, .size = 4 * RESIDENT_MEETING_WORDS});
    host_sync_barrier(r.c);
    if (!gpu_command_end(&b->gpu, r.c, &e) || !gpu_run(&b->gpu, r.c, &e))
        fail_msg("%s", e.text);
    s->projected = counts[RESIDENT_PROJECTED * RESIDENT_LINE_WORDS];
    s->attended = counts[RESIDENT_ATTENDED * RESIDENT_LINE_WORDS];
    gpu_command_free(&b->gpu, &r.c);
}

static void look(struct way way, struct seen *s)
{
    const struct backend_params p = {
        .n_blocks = N, .max_rows = N, .max_sequences = N, .kv_type = KV_F16};
    struct backend *b = plan_backend(plan, &p);
    const struct recorder r = {.b = b, .n_rows = (uint32_t)way.n};
    b->tuning.resident_groups = s->groups = way.groups ? way.groups(b) : 0;
    if (!demo_force_few(b)) {
        vulkan_backend.close(&b);
        skip();
    }
    assert_true(!way.groups || (record_resident_few_fits(&r) && record_chain_fits(&r, 1)));
    assert_false(record_chain_fits(&r, 2));
    for (int at = 0; at < STEPS; at++)
        demo_step_each(b, way.n, at, 0, rows);
    for (int i = 0; i < way.n; i++)
        memcpy(s->logits[i], rows[i].logits, sizeof s->logits[i]);
    s->resident = b->tuning.resident_groups > 0;
    if (s->resident)
        read_counts(b, s);
    vulkan_backend.close(&b);
}

/* What is seen of the last step; of a way that another test went, what was seen then. */
static const struct seen *take(struct way way)
{
    static struct seen seen[MAX_WAYS];
    static struct way taken[MAX_WAYS];
    static int n;
    for (int i = 0; i < n; i++)
        if (taken[i].groups == way.groups && taken[i].n == way.n)
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

static void check_chained(const struct seen *s, uint32_t n)
{
    const struct attention_plan *a = &plan->layers[1].attention;
    assert_true(s->resident);
    assert_int_equal(s->projected, s->groups);
    assert_int_equal(s->attended, n * (uint32_t)a->n_head / HEADS);
}

static void test_near_to_several_dispatches(void **state)
{
    const struct seen *chained = take((struct way){demo_fitting_groups, N});
    check_chained(chained, N);
    check_rows(chained, take((struct way){NULL, N}));
}

static void test_rows_do_not_depend_on_their_number(void **state)
{
    const struct seen *five = take((struct way){demo_fitting_groups, N});
    const struct seen *three = take((struct way){demo_fitting_groups, 3});
    check_chained(five, N);
    check_chained(three, 3);
    assert_memory_equal(five->logits, three->logits, 3 * sizeof five->logits[0]);
}

static void test_workgroups_that_wait_in_vain(void **state)
{
    const struct seen *given_up = take((struct way){demo_too_many_groups, N});
    assert_false(given_up->resident);
    assert_memory_equal(given_up->logits, take((struct way){NULL, N})->logits,
                        sizeof given_up->logits);
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
        cmocka_unit_test(test_near_to_several_dispatches),
        cmocka_unit_test(test_rows_do_not_depend_on_their_number),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
    };
    if (!demo_usable())
        return 77;
    return cmocka_run_group_tests(tests, open_attention, close_plan);
}
