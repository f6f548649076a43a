/* Few rows, whose layers go from wo to the next projections in one dispatch: near to what a
 * dispatch for each operation gives, the same experts, and equal to the bit however many rows a
 * step has. Where its workgroups do not run at once the step is done again without, and nothing
 * shows. The demo model; without matrix units by the forms of the shaders for tests. Skips where
 * there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/vulkan/ops/record_resident.h"
#include "tests/unit/vulkan/demo_rig.h"

#define N 5
#define STEPS 3
#define RUNS 2 /* sequences with several rows in a step */
#define MAX_VOCAB 8192
#define MAX_LAYERS 8
#define MAX_WAYS 8 /* that differ, in all tests */
#define NEAR 0.02  /* of logits up to 20: halves are exact to 1/2048, and sums differ in order */

static struct step_row rows[N];

struct seen {
    float logits[N][MAX_VOCAB];
    uint32_t used[MAX_LAYERS * USED_WORDS];
    bool can, fits, resident; /* fits: the step goes this way; resident: at the end, too */
};

struct way {
    uint32_t (*groups)(const struct backend *b); /* NULL: none */
    int n;                                       /* sequences */
    int32_t n_experts;
    bool runs; /* of RUNS sequences, and rows nobody wants */
};

static int last_layer_uses(const struct backend *b)
{
    const uint32_t *used = b->result.used + (size_t)(b->plan->n_layer - 1) * USED_WORDS;
    int n = 0;
    for (int i = 0; i < USED_WORDS; i++)
        n += __builtin_popcount(used[i]);
    return n;
}

/* A prompt of which no row is wanted, so that the last layer reads no experts; then as many rows,
 * all of one sequence's wanted, as speculation has them, and the last of the other's. */
static int runs(struct backend *b)
{
    static const int32_t n_tokens[RUNS] = {3, N - 3}, n_out[RUNS] = {3, 1};
    const int32_t vocab = model_plan(model)->n_vocab;
    struct step_sequence q[RUNS];
    int32_t tokens[N], blocks[RUNS];
    for (int32_t i = 0; i < N; i++)
        tokens[i] = (i * 2531 + 17) % vocab;
    for (int i = 0; i < RUNS; i++) {
        blocks[i] = i;
        q[i] = (struct step_sequence){.tokens = tokens + 3 * i,
                                      .n_tokens = n_tokens[i],
                                      .blocks = &blocks[i],
                                      .state = -1,
                                      .want_logits = true};
    }
    demo_step(b, q, RUNS, rows);
    assert_int_equal(last_layer_uses(b), 0);
    for (int i = 0; i < RUNS; i++) {
        q[i].start = n_tokens[i];
        q[i].n_out = n_out[i];
    }
    demo_step(b, q, RUNS, rows);
    return n_out[0] + n_out[1];
}

static void look(struct way way, struct seen *s)
{
    const struct model_plan *plan = model_plan(model);
    const struct backend_params p = {.n_blocks = N, .max_rows = N, .max_sequences = N};
    struct backend *b = demo_backend(&p);
    assert_true(plan->n_vocab <= MAX_VOCAB && plan->n_layer <= MAX_LAYERS);
    s->can = demo_force_few(b);
    b->tuning.resident_groups = way.groups ? way.groups(b) : 0;
    const struct recorder r = {.b = b, .n_rows = (uint32_t)way.n};
    s->fits = record_resident_few_fits(&r);
    int n = way.n;
    if (s->can && way.runs)
        n = runs(b);
    for (int32_t at = 0; s->can && !way.runs && at < STEPS; at++)
        demo_step_each(b, way.n, at, way.n_experts, rows);
    for (int i = 0; s->can && i < n; i++)
        memcpy(s->logits[i], rows[i].logits, (size_t)plan->n_vocab * sizeof(float));
    memcpy(s->used, b->result.used, (size_t)plan->n_layer * USED_WORDS * sizeof(uint32_t));
    s->resident = b->tuning.resident_groups > 0;
    vulkan_backend.close(&b);
    if (!s->can)
        skip();
}

/* What is seen of the last step; of a way that another test went, what was seen then. */
static const struct seen *take(struct way way)
{
    static struct seen seen[MAX_WAYS];
    static struct way taken[MAX_WAYS];
    static int n;
    for (int i = 0; i < n; i++)
        if (taken[i].groups == way.groups && taken[i].n == way.n &&
            taken[i].n_experts == way.n_experts && taken[i].runs == way.runs)
            return &seen[i];
    assert_true(n < MAX_WAYS);
    look(way, &seen[n]);
    taken[n] = way;
    return &seen[n++];
}

static void check_near(int32_t n_experts, bool runs)
{
    const struct seen *apart = take((struct way){NULL, N, n_experts, runs});
    const struct seen *together = take((struct way){demo_fitting_groups, N, n_experts, runs});
    const int32_t vocab = model_plan(model)->n_vocab;
    float worst = 0;
    assert_false(apart->fits);
    assert_true(together->fits && together->resident);
    for (int t = 0; t < N; t++)
        for (int32_t i = 0; i < vocab; i++) {
            const float away = fabsf(apart->logits[t][i] - together->logits[t][i]);
            if (!(away <= NEAR))
                fail_msg("row %d, logit %d is %g off", t, i, (double)away);
            worst = fmaxf(worst, away);
        }
    assert_true(worst > 0); /* else both went the same way */
    assert_memory_equal(apart->used, together->used, sizeof apart->used);
}

static void test_one_dispatch_is_near_to_several(void **state)
{
    check_near(0, false);
}

static void test_fewer_experts_too(void **state)
{
    check_near(2, false);
}

static void test_rows_of_one_sequence_and_unwanted_ones(void **state)
{
    check_near(0, true);
}

static void test_rows_do_not_depend_on_their_number(void **state)
{
    const struct seen *five = take((struct way){.groups = demo_fitting_groups, .n = N});
    const struct seen *three = take((struct way){.groups = demo_fitting_groups, .n = 3});
    assert_true(five->fits && three->fits);
    assert_memory_equal(five->logits, three->logits, 3 * sizeof five->logits[0]);
}

/* More than a device runs at once: all that do wait in vain, and the others come too late. */
static void test_workgroups_that_wait_in_vain(void **state)
{
    const struct seen *apart = take((struct way){.n = N});
    const struct seen *given_up = take((struct way){.groups = demo_too_many_groups, .n = N});
    assert_true(given_up->fits && !given_up->resident);
    assert_memory_equal(apart->logits, given_up->logits, sizeof apart->logits);
    assert_memory_equal(apart->used, given_up->used, sizeof apart->used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_dispatch_is_near_to_several),
        cmocka_unit_test(test_fewer_experts_too),
        cmocka_unit_test(test_rows_of_one_sequence_and_unwanted_ones),
        cmocka_unit_test(test_rows_do_not_depend_on_their_number),
        cmocka_unit_test(test_workgroups_that_wait_in_vain),
    };
    if (!demo_usable())
        return 77;
    return cmocka_run_group_tests(tests, demo_open, demo_close);
}
