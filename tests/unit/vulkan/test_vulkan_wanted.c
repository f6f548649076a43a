/* The last layer computes rows that are wanted alone: their logits are those of a step that
 * computes all, to the bit, the keys and values of the others are there, and no expert of the last
 * layer is read for them. The demo model. Skips where there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/demo_rig.h"

#define N 2
#define MOST_TOKENS 40
#define BLOCKS_EACH 2
#define MAX_VOCAB 8192

static struct step_row rows[N * MOST_TOKENS];
static const int32_t n_tokens[N] = {MOST_TOKENS, 21};

struct seen {
    float prompt[MAX_VOCAB],
        next[N][MAX_VOCAB]; /* of the first prompt's last row; of a token after */
    int used[2];            /* experts of the first layer, and of the last */
};

static int used_of(const struct backend *b, int32_t layer)
{
    int n = 0;
    for (int i = 0; i < USED_WORDS; i++)
        n += __builtin_popcount(b->result.used[layer * USED_WORDS + i]);
    return n;
}

/* Two prompts, of which the first one's last row is wanted, and a token behind each. */
static void take(struct backend *b, struct seen *s)
{
    static const int32_t blocks[N][BLOCKS_EACH] = {{2, 0}, {1, 3}};
    const struct model_plan *plan = demo_few_layers();
    const size_t bytes = (size_t)plan->n_vocab * sizeof(float);
    int32_t tokens[MOST_TOKENS];
    struct step_sequence q[N];
    for (int32_t i = 0; i < MOST_TOKENS; i++)
        tokens[i] = (i * 2531 + 17) % plan->n_vocab;
    for (int i = 0; i < N; i++)
        q[i] = (struct step_sequence){.tokens = tokens,
                                      .n_tokens = n_tokens[i],
                                      .blocks = blocks[i],
                                      .state = -1,
                                      .n_out = i == 0,
                                      .want_logits = true};
    demo_step(b, q, N, rows);
    s->used[0] = used_of(b, 0);
    s->used[1] = used_of(b, plan->n_layer - 1);
    memcpy(s->prompt, rows[0].logits, bytes);
    for (int i = 0; i < N; i++) {
        q[i].start = n_tokens[i];
        q[i].n_tokens = q[i].n_out = 1;
    }
    demo_step(b, q, N, rows);
    for (int i = 0; i < N; i++)
        memcpy(s->next[i], rows[i].logits, bytes);
}

/* whole: the last layer finds all rows alive. */
static void take_anew(bool exact, bool whole, struct seen *s)
{
    const struct backend_params p = {.n_blocks = N * BLOCKS_EACH,
                                     .max_rows = N * MOST_TOKENS,
                                     .max_sequences = N,
                                     .exact = exact};
    struct backend *b = plan_backend(demo_few_layers(), &p);
    if (whole) {
        b->step.at_last_rows = b->step.at_rows;
        b->step.at_last_tiles = b->step.at_tiles;
    }
    take(b, s);
    vulkan_backend.close(&b);
}

static void check(bool exact)
{
    static struct seen whole, wanted;
    const struct model_plan *plan = demo_few_layers();
    const int32_t n_used = plan->layers[plan->n_layer - 1].moe.n_used;
    assert_true(plan->n_vocab <= MAX_VOCAB);
    take_anew(exact, true, &whole);
    take_anew(exact, false, &wanted);
    assert_memory_equal(whole.prompt, wanted.prompt, sizeof whole.prompt);
    assert_memory_equal(whole.next, wanted.next, sizeof whole.next);
    assert_int_equal(wanted.used[0], whole.used[0]);
    assert_int_equal(wanted.used[1], n_used);
    assert_true(whole.used[1] > n_used);
}

static void test_wanted_rows_are_as_beside_all(void **state)
{
    check(true);
}

static void test_by_tiles_too(void **state)
{
    check(false);
}

int main(void)
{
    if (!demo_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted_rows_are_as_beside_all),
        cmocka_unit_test(test_by_tiles_too),
    };
    return cmocka_run_group_tests(tests, demo_open, demo_close);
}
