/* Sequences with recurrent states (a tiny Qwen3.5: gated DeltaNet and attention) on a backend as
 * the scheduler drives it: whatever else is in a step, in whatever pieces the tokens come, from
 * whatever checkpoint a sequence resumes from, and whatever a state held before, each row gives
 * what its sequence gives alone, token by token. On the cpu bit for bit.
 *
 * usage: test_hybrid [BACKEND]. 77 where the backend can't run here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/golden/golden.h"

#ifndef GOLDEN_BACKEND
#define GOLDEN_BACKEND "cpu"
#endif
#define TOLERANCE 1e-3f /* of logits, with exact arithmetic */

enum { TEXTS = 4, LENGTH = 44, VOCAB = 320, FORK = 17, STATES = 6, MAX_ROWS = 64, BLOCKS_EACH = 2 };

static const char *backend = GOLDEN_BACKEND;
static struct cli_run r;
static int32_t texts[TEXTS][LENGTH]; /* the last is the first up to FORK, then goes its own way */
static float alone[TEXTS][LENGTH][VOCAB];
static struct step_row rows[MAX_ROWS];
static struct err e;

static struct step_sequence part(int text, int place, int32_t start, int32_t n)
{
    return (struct step_sequence){.tokens = texts[text] + start,
                                  .n_tokens = n,
                                  .start = start,
                                  .blocks = cli_run_blocks(&r, place),
                                  .state = place,
                                  .n_out = n,
                                  .want_logits = true};
}

static void step(const struct step_sequence *q, int n)
{
    if (!r.ops->step(r.backend, &(struct step){.sequences = q, .n_sequences = n, .n_top = 1}, rows,
                     &e))
        fail_msg("%s", e.text);
}

static float worst;

static void expect_rows(int text, int32_t start, int32_t n, int first_row, const char *what)
{
    for (int32_t i = 0; i < n; i++) {
        const float *got = rows[first_row + i].logits, *want = alone[text][start + i];
        float d = golden_distance(got, want, VOCAB);
        worst = d > worst ? d : worst;
        if (d > (strcmp(backend, "cpu") ? TOLERANCE : 0))
            fail_msg("%s: text %d differs at position %d by %g", what, text, start + i, (double)d);
    }
}

/* Feeds positions start .. end - 1 in pieces, each expected to be as alone. */
static void feed(int text, int place, int32_t start, int32_t end, int32_t piece, const char *what)
{
    for (; start < end; start += piece) {
        int32_t n = end - start < piece ? end - start : piece;
        struct step_sequence q = part(text, place, start, n);
        step(&q, 1);
        expect_rows(text, start, n, 0, what);
    }
}

static int open_all(void **state)
{
    static char model[4096];
    snprintf(model, sizeof model, "%s", golden_path("tests/data/golden/qwen35moe/mlx-mixed3"));
    struct cli_run_params p = {.model = model,
                               .backend = backend,
                               .n_tokens = BLOCKS_EACH * BACKEND_BLOCK_TOKENS,
                               .chunk = MAX_ROWS,
                               .n_sequences = TEXTS,
                               .n_states_more = STATES - TEXTS,
                               .exact = true};
    if (!cli_run_open(&r, &p, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    for (int i = 0; i < TEXTS; i++)
        for (int t = 0; t < LENGTH; t++)
            texts[i][t] = i == TEXTS - 1 && t < FORK ? texts[0][t]
                                                     : (i * 131 + t * t * 17 + t * 5 + 3) % VOCAB;
    for (int i = 0; i < TEXTS; i++)
        for (int t = 0; t < LENGTH; t++) {
            struct step_sequence q = part(i, i, t, 1);
            step(&q, 1);
            memcpy(alone[i][t], rows[0].logits, sizeof alone[i][t]);
        }
    return 0;
}

static int close_all(void **state)
{
    print_message("largest difference of a logit %g\n", (double)worst);
    cli_run_close(&r);
    return 0;
}

/* Each begins in a state that another has left behind. */
static void test_pieces_of_any_size_in_a_used_state(void **state)
{
    static const int32_t pieces[] = {2, 7, LENGTH};
    for (int i = 0; i < 3; i++)
        feed(i, (i + 1) % TEXTS, 0, LENGTH, pieces[i], "pieces");
}

/* Decoding, prefilling, both, and now and then left out. */
static void test_interleaved_steps(void **state)
{
    static const int32_t counts[][3] = {{9, 0, 1}, {1, 13, 1}, {1, 1, 1}, {1, 1, 0},
                                        {0, 1, 6}, {1, 1, 1},  {3, 2, 1}, {1, 0, 20}};
    int32_t done[3] = {0};
    for (int round = 0; done[0] < LENGTH || done[1] < LENGTH || done[2] < LENGTH; round++) {
        struct step_sequence q[3];
        int n = 0, which[3];
        for (int i = 0; i < 3; i++) {
            int32_t want = counts[round % 8][i], left = LENGTH - done[i];
            want = want < left ? want : left;
            if (!want)
                continue;
            q[n] = part(i, 2 - i, done[i], want);
            which[n++] = i;
            done[i] += want;
        }
        if (!n)
            continue;
        step(q, n);
        for (int i = 0, row = 0; i < n; row += q[i++].n_tokens)
            expect_rows(which[i], q[i].start, q[i].n_tokens, row, "interleaved");
    }
}

static void copy(int32_t from, int32_t to)
{
    if (!r.ops->copy_state(r.backend, from, to, &e))
        fail_msg("%s", e.text);
}

/* One prefix is continued in two ways, side by side, and a third time after its place was used by
 * another. */
static void test_a_checkpoint_goes_on_where_it_was(void **state)
{
    const int last = TEXTS - 1, checkpoint = STATES - 1;
    int32_t pairs[BLOCKS_EACH][2];
    feed(0, 0, 0, FORK, FORK, "prefix");
    copy(0, checkpoint);
    copy(checkpoint, last);
    copy(last, last);
    for (int i = 0; i < BLOCKS_EACH; i++) {
        pairs[i][0] = cli_run_blocks(&r, 0)[i];
        pairs[i][1] = cli_run_blocks(&r, last)[i];
    }
    assert_true(r.ops->copy_blocks(r.backend, (const int32_t(*)[2])pairs, BLOCKS_EACH, &e));
    for (int32_t t = FORK; t < LENGTH; t++) {
        struct step_sequence q[2] = {part(last, last, t, 1), part(0, 0, t, 1)};
        step(q, 2);
        expect_rows(last, t, 1, 0, "fork");
        expect_rows(0, t, 1, 1, "fork's origin");
    }
    struct step_sequence q = part(1, 1, 0, LENGTH);
    q.state = 0;
    step(&q, 1);
    copy(checkpoint, 0);
    feed(0, 0, FORK, LENGTH, 5, "restored");
}

/* Blocks and state go over the host into the places of another sequence, which were used. */
static void test_content_of_a_checkpoint_goes_on_elsewhere(void **state)
{
    const struct backend_content *content = r.ops->content;
    const size_t bytes = content->block_bytes(r.backend);
    void *kv[BLOCKS_EACH], *kept = malloc(content->state_bytes(r.backend));
    feed(0, 0, 0, FORK, FORK, "prefix");
    for (int i = 0; i < BLOCKS_EACH; i++)
        kv[i] = malloc(bytes);
    assert_true(content->save_blocks(r.backend, cli_run_blocks(&r, 0), BLOCKS_EACH, kv, &e));
    assert_true(content->save_state(r.backend, 0, kept, &e));
    feed(1, 0, 0, LENGTH, LENGTH, "another");
    feed(1, 1, 0, LENGTH, LENGTH, "another");
    assert_true(content->load_blocks(r.backend, cli_run_blocks(&r, 0), BLOCKS_EACH,
                                     (const void *const *)kv, &e));
    assert_true(content->load_state(r.backend, 0, kept, &e));
    feed(0, 0, FORK, LENGTH, 5, "carried");
    assert_false(content->load_state(r.backend, STATES, kept, &e));
    for (int i = 0; i < BLOCKS_EACH; i++)
        free(kv[i]);
    free(kept);
}

static void refuse_copy(int32_t from, int32_t to)
{
    assert_false(r.ops->copy_state(r.backend, from, to, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
}

static void test_states_that_are_not_there_are_refused(void **state)
{
    refuse_copy(0, STATES);
    refuse_copy(-1, 0);
    for (int32_t bad = -1; bad <= STATES; bad += STATES + 1) {
        struct step_sequence q = part(0, 0, 0, 3);
        q.state = bad;
        assert_false(r.ops->step(
            r.backend, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 1}, rows, &e));
        assert_int_equal(e.code, ERR_INTERNAL);
    }
    feed(1, 1, 0, LENGTH, LENGTH, "after a refusal");
}

static void test_states_are_counted(void **state)
{
    struct backend_memory got, want;
    struct backend_params p = {.n_blocks = TEXTS * BLOCKS_EACH,
                               .n_states = STATES,
                               .max_rows = MAX_ROWS,
                               .max_sequences = TEXTS,
                               .exact = true};
    size_t bytes = 0;
    for (int i = 0; i < r.plan->n_layer; i++) {
        const struct delta_net_plan *d = &r.plan->layers[i].delta_net;
        if (r.plan->layers[i].mixer == MIXER_DELTA_NET)
            bytes += sizeof(float) *
                     (size_t)(d->n_v_head * d->d_k * d->d_v + d->w_qkv.rows * (d->n_conv - 1));
    }
    assert_true(bytes > 0);
    r.ops->memory(r.backend, &got);
    assert_true(r.ops->probe->estimate(r.plan, &p, &want, &e));
    assert_int_equal(got.state, want.state);
    assert_true(got.state >= bytes * STATES && got.state < bytes * STATES * 5 / 4);
    assert_true(got.device + got.host >= got.weights + got.kv + got.state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_of_any_size_in_a_used_state),
        cmocka_unit_test(test_interleaved_steps),
        cmocka_unit_test(test_a_checkpoint_goes_on_where_it_was),
        cmocka_unit_test(test_content_of_a_checkpoint_goes_on_elsewhere),
        cmocka_unit_test(test_states_that_are_not_there_are_refused),
        cmocka_unit_test(test_states_are_counted),
    };
    if (argc > 1)
        backend = argv[1];
    if (!backend_select(backend, &e)) {
        printf("1..0 # SKIP %s: %s\n", backend, e.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, open_all, close_all);
}
