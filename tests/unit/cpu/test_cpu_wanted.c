/* The last layer for wanted rows alone, be it attention or recurrent: the bits of all rows, as
 * logits, hidden states, taps and embeddings, and the keys, values and states of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/open.h"
#include "engine/model/model.h"
#include "tests/unit/cpu/cpu_backend_rig.h"

enum { START = 40, BESIDE = 20, OUT = 3, HIDDEN = 5, TAPS = 2 };

static struct backend *open_backend(int threads, int32_t n_taps)
{
    struct backend_params p = {.n_blocks = 32,
                               .n_states = STATES,
                               .max_rows = ROWS,
                               .max_sequences = SEQUENCES,
                               .n_threads = threads,
                               .taps = {0, plan->n_layer - 1},
                               .n_taps = n_taps};
    struct backend *b = cpu_open_with(plan, &p, kernels_best(), &e);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

/* START rows of sequence 0, the last HIDDEN with hidden states, beside some of sequence 1. */
static void start(struct backend *b, int n_out, int beside, float *hidden)
{
    struct step_sequence q[2] = {part(0, 0, START), part(1, 0, BESIDE)};
    q[0].n_out = n_out;
    q[0].hidden = hidden;
    q[0].n_hidden = HIDDEN;
    q[1].n_out = beside;
    run(b, q, 2);
}

/* Row by row up to the last of sequence s, whose logits are put into `logits`. */
static void go_on(struct backend *b, int s, int from, float *logits)
{
    for (int at = from; at < TOKENS; at++) {
        struct step_sequence q = part(s, at, 1);
        run(b, &q, 1);
    }
    memcpy(logits, rows[0].logits, (size_t)plan->n_vocab * sizeof *logits);
}

static void check_rows(struct backend *b)
{
    const size_t logits = (size_t)plan->n_vocab * sizeof(float),
                 width = HIDDEN * (size_t)plan->d_model * sizeof(float);
    float *want = malloc(OUT * logits), *beside = malloc(logits), *hidden = malloc(width),
          *got = malloc(width);
    start(b, START, BESIDE, hidden); /* all */
    memcpy(want, rows[START - OUT].logits, OUT * logits);
    memcpy(beside, rows[START + BESIDE - 1].logits, logits);
    memset(got, 0, width);
    start(b, OUT, 0, got);
    assert_memory_equal(rows[0].logits, want, OUT * logits);
    assert_memory_equal(got, hidden, width);
    memset(got, 0, width);
    start(b, 0, 1, got);
    assert_memory_equal(rows[0].logits, beside, logits);
    assert_memory_equal(got, hidden, width);
    free(got);
    free(hidden);
    free(beside);
    free(want);
}

static void check_what_is_kept(struct backend *b)
{
    const size_t logits = (size_t)plan->n_vocab * sizeof(float);
    float *want = malloc(logits), *got = malloc(logits);
    static const int wanted[] = {OUT, 0};
    for (int s = 0; s < 2; s++) {
        go_on(b, s, 0, want);
        for (int i = 0; i < 2; i++) {
            start(b, wanted[i], 0, NULL);
            go_on(b, s, s ? BESIDE : START, got);
            assert_memory_equal(got, want, logits);
        }
    }
    free(got);
    free(want);
}

/* The last OUT rows of an embedding's step, of `n_out` that are wanted. */
static void embed(struct backend *b, int n_out, float *out)
{
    const size_t width = (size_t)plan->d_model * sizeof *out;
    struct step_sequence q = part(0, 0, START);
    q.n_out = n_out;
    const struct step step = {.sequences = &q, .n_sequences = 1, .hidden = true};
    if (!cpu_backend.step(b, &step, rows, &e))
        fail_msg("%s", e.text);
    for (int i = 0; i < OUT; i++)
        memcpy(out + i * plan->d_model, rows[n_out - OUT + i].hidden, width);
}

static void check_embeddings(struct backend *b)
{
    const size_t width = OUT * (size_t)plan->d_model * sizeof(float);
    float *want = malloc(width), *got = malloc(width);
    embed(b, START, want);
    embed(b, OUT, got);
    assert_memory_equal(got, want, width);
    free(got);
    free(want);
}

static void check_taps(int threads)
{
    struct backend *b = open_backend(threads, TAPS);
    const size_t width = HIDDEN * TAPS * (size_t)plan->d_model * sizeof(float);
    float *want = malloc(width), *got = calloc(1, width);
    start(b, START, BESIDE, want);
    start(b, 1, 0, got);
    assert_memory_equal(got, want, width);
    free(got);
    free(want);
    cpu_backend.close(&b);
}

static void check(void)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        struct backend *b = open_backend(threads, 0);
        check_rows(b);
        check_what_is_kept(b);
        check_embeddings(b);
        cpu_backend.close(&b);
        check_taps(threads);
    }
}

static void test_rows_that_nobody_wants_change_nothing(void **state)
{
    check();
}

static void test_nor_do_they_where_the_last_layer_is_recurrent(void **state)
{
    struct model_plan first = *plan;
    while (first.layers[first.n_layer - 1].mixer != MIXER_DELTA_NET)
        first.n_layer--;
    assert_true(first.n_layer > 1);
    plan = &first;
    check();
    plan = model_plan(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rows_that_nobody_wants_change_nothing, open_model),
        cmocka_unit_test_setup(test_rows_that_nobody_wants_change_nothing, open_recurrent_model),
        cmocka_unit_test_setup(test_nor_do_they_where_the_last_layer_is_recurrent,
                               open_recurrent_model),
    };
    return cmocka_run_group_tests(tests, NULL, close_model);
}
